"""Programs that hold a transfer back in one way each. Standard library only.

usage: planted_script.py serve PORT [NAME=VALUE...]
       planted_script.py get|put HOST PORT [NAME=VALUE...]
       planted_script.py h2 HOST PATH window=BYTES

serve, get and put move raw TCP content; the server sends after `get` and takes after `put` (the first byte says which). Settings:
  size=BYTES        content (get: asked of the server; put: sent)
  sndbuf=BYTES      SO_SNDBUF of the sender          rcvbuf=BYTES   SO_RCVBUF of the receiver
  nodelay=1         TCP_NODELAY of the sender: without it the kernel overshoots a small send buffer (ADR 0034)
  chunk=BYTES pause=MS   write (sender) or read (receiver) that much, then wait; only up to `until` bytes of content
h2 gets a file of nginx over TLS with a window of that many bytes for the stream, and for the connection.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import sys
import time

_WHOLE = 1 << 18


class Settings(dict[str, int]):
    """NAME=VALUE words; anything not given is 0."""

    def __missing__(self, name: str) -> int:
        return 0


def parsed(words: list[str]) -> Settings:
    return Settings((name, int(value)) for name, _, value in (word.partition("=") for word in words))


def wait(settings: Settings, done: int) -> None:
    if settings["pause"] and (not settings["until"] or done < settings["until"]):
        time.sleep(settings["pause"] / 1e3)


def amount(settings: Settings, done: int) -> int:
    slow = settings["chunk"] and (not settings["until"] or done < settings["until"])
    return settings["chunk"] if slow else _WHOLE


def send(end: socket.socket, size: int, settings: Settings) -> None:
    done = 0
    content = bytes(_WHOLE)
    while done < size:
        some = min(amount(settings, done), size - done)
        end.sendall(content[:some] if some <= _WHOLE else bytes(some))
        done += some
        wait(settings, done)


def take(end: socket.socket, size: int, settings: Settings) -> None:
    done = 0
    while done < size:
        got = len(end.recv(min(amount(settings, done), size - done)))
        if not got:
            raise SystemExit(f"{done} of {size} bytes came")
        done += got
        wait(settings, done)


def buffers(end: socket.socket, settings: Settings) -> None:
    if settings["sndbuf"]:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings["sndbuf"])
    if settings["rcvbuf"]:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings["rcvbuf"])
    if settings["nodelay"]:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def serve(port: str, *words: str) -> None:
    settings = parsed(list(words))
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        buffers(listening, settings)
        listening.bind(("", int(port)))
        listening.listen()
        os.write(1, b"ready\n")
        while True:
            end, _ = listening.accept()
            with end:
                kind, size = struct.unpack("!cQ", end.recv(9, socket.MSG_WAITALL))
                (send if kind == b"g" else take)(end, size, settings)
                if kind == b"p":
                    end.sendall(b"!")


def move(kind: bytes, host: str, port: str, words: tuple[str, ...]) -> None:
    settings = parsed(list(words))
    with socket.socket() as end:
        buffers(end, settings)
        end.connect((host, int(port)))
        end.sendall(struct.pack("!cQ", kind, settings["size"]))
        if kind == b"g":
            take(end, settings["size"], settings)
        else:
            send(end, settings["size"], settings)
            end.recv(1)


def h2(host: str, path: str, *words: str) -> None:
    """RFC 9113, with one request and literal headers (RFC 7541, 6.2.2)."""
    window = parsed(list(words))["window"]
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(socket.create_connection((host, 443)), server_hostname=host) as end:
        grown = max(0, window - 65535)
        text = path.encode()
        headers = b"\x82\x87\x04" + bytes([len(text)]) + text + b"\x01" + bytes([len(host)]) + host.encode()
        end.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + frame(4, 0, 0, struct.pack("!HI", 4, window))
            + (frame(8, 0, 0, struct.pack("!I", grown)) if grown else b"")
            + frame(1, 5, 1, headers)
        )
        stream = end.makefile("rb")
        while True:
            head = stream.read(9)
            size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            stream.read(size)
            if kind == 4 and not flags & 1:
                end.sendall(frame(4, 1, 0, b""))
            if kind == 0 and size:
                more = struct.pack("!I", size)
                end.sendall(frame(8, 0, 0, more) + frame(8, 0, 1, more))
            if kind in (3, 7):
                raise SystemExit("the server refused")
            if kind == 0 and flags & 1:
                return


def frame(kind: int, flags: int, stream: int, text: bytes) -> bytes:
    return len(text).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack("!I", stream) + text


def main(kind: str, *words: str) -> None:
    match kind:
        case "serve":
            serve(*words)
        case "h2":
            h2(*words)
        case _:
            move(kind[0].encode(), words[0], words[1], words[2:])


if __name__ == "__main__":
    main(*sys.argv[1:])
