"""ferry as an SSH client: how ssh-audit judges the algorithms it offers, and strict key exchange, the answer to Terrapin."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from lab.clients.ferry import find_ferry
from tests.conformance.cases import Outcome
from tests.conformance.program import sdist
from tests.support.hostile_http import serve_sockets
from tests.support.waiting import until

_PATIENCE_S = 60.0
# ssh-audit would listen on every address of the machine.
_ON_LOOPBACK = """\
import socket
bind = socket.socket.bind
socket.socket.bind = lambda sock, address: bind(sock, ("127.0.0.1" if sock.family == socket.AF_INET else "::1", address[1]))
from ssh_audit.ssh_audit import main
main()
"""
STRICT_CLIENT, STRICT_SERVER = "kex-strict-c-v00@openssh.com", "kex-strict-s-v00@openssh.com"
# ferry's exit codes: the handshake took too long, the protocol was broken.
_TRANSIENT, _INTEGRITY = 10, 12
_IGNORE, _UNIMPLEMENTED, _DEBUG, _KEXINIT, _ECDH_INIT = 2, 3, 4, 20, 30


def _ferry(port: int) -> subprocess.CompletedProcess[bytes]:
    words = ["--known-hosts", "none", "--insecure", "--no-agent", "--retry", "0", "--quiet", "--discard"]
    words += ["--timeout-tls", "3s"]
    command = [str(find_ferry()), "get", f"sftp://me@127.0.0.1:{port}/file", *words]
    with tempfile.TemporaryDirectory(prefix="roughwater-ssh-") as home:
        env = {"HOME": home, "PATH": os.environ["PATH"]}
        return subprocess.run(command, env=env, capture_output=True, timeout=_PATIENCE_S, check=False)


def ssh_audit() -> Iterator[Outcome]:
    """A case for each algorithm, passed where ssh-audit has no failure for it, and one for the attacks that it knows."""
    with tempfile.TemporaryDirectory(prefix="roughwater-ssh-audit-") as made, tarfile.open(sdist("ssh-audit")) as tar:
        # Debian 12's Python 3.11.2 has neither the filter nor the argument, and takes any attribute.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(made)
        (source,) = Path(made).glob("*/src")
        report = _audited(source)
    yield Outcome("known attacks", "" if not report["cves"] else f"vulnerable: {report['cves']}")
    for kind in ("kex", "key", "enc", "mac"):
        for each in report[kind]:
            failures = each.get("notes", {}).get("fail", [])
            yield Outcome(f"{kind} {each['algorithm']}", f"offers it: {'; '.join(failures)}" if failures else "")


def _audited(source: Path) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-c", _ON_LOOPBACK, "-c", "-p", str(port), "-j", "-n"]
    env = {**os.environ, "PYTHONPATH": str(source)}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: process.poll() is not None or _listens(port), "ssh-audit listens", _PATIENCE_S)
        assert process.poll() is None, "ssh-audit has ended"
        _ferry(port)
        said, problem = process.communicate(timeout=_PATIENCE_S)
    assert said, problem.decode()
    report: dict[str, Any] = json.loads(said)
    return report


def _listens(port: int) -> bool:
    """By the kernel's list: ssh-audit would take a connection for its client."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)


def _packet(payload: bytes) -> bytes:
    """Before there are keys (RFC 4253, section 6)."""
    padding = 8 - (5 + len(payload)) % 8
    padding += 8 if padding < 4 else 0
    return struct.pack(">IB", 1 + len(payload) + padding, padding) + payload + b"\0" * padding


def _string(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def _kexinit(strict: bool) -> bytes:
    exchanges = b"curve25519-sha256" + (b"," + STRICT_SERVER.encode() if strict else b"")
    names = (exchanges, b"ssh-ed25519", *(b"aes128-gcm@openssh.com",) * 2, *(b"hmac-sha2-256",) * 2, *(b"none",) * 2, b"", b"")
    return bytes([_KEXINIT]) + b"\x11" * 16 + b"".join(map(_string, names)) + b"\0" * 5


_BETWEEN = {
    "SSH_MSG_IGNORE": bytes([_IGNORE]) + _string(b"prefix"),
    "SSH_MSG_DEBUG": bytes([_DEBUG]) + b"\0" + _string(b"prefix") + _string(b""),
    "SSH_MSG_UNIMPLEMENTED": bytes([_UNIMPLEMENTED]) + struct.pack(">I", 0),
}


@dataclass
class _Met:
    """What a server saw of ferry: the kinds of its messages, its KEXINIT; and whether ferry waited for more."""

    kinds: list[int] = field(default_factory=list)
    offered: bytes = b""
    waited: bool = False


def _meet(packets: list[bytes]) -> _Met:
    """The server sends its banner and these packets, and no more."""
    met = _Met()

    def script(sock: socket.socket) -> None:
        file = sock.makefile("rb")
        sock.sendall(b"SSH-2.0-Roughwater\r\n" + b"".join(map(_packet, packets)))
        file.readline()
        while len(head := file.read(5)) == 5:
            length, padding = struct.unpack(">IB", head)
            payload = file.read(length - 1)[: length - 1 - padding]
            met.kinds.append(payload[0])
            met.offered = payload if payload[0] == _KEXINIT else met.offered

    with serve_sockets(script) as server:
        done = _ferry(server.port)
    assert done.returncode in {_TRANSIENT, _INTEGRITY}, done
    met.waited = done.returncode == _TRANSIENT
    return met


class _Login(asyncssh.SSHServer):
    """Refuses every login."""

    def __init__(self, asked: list[str]) -> None:
        self._asked = asked

    def begin_auth(self, username: str) -> bool:
        self._asked.append(username)
        return True


async def _asked_to_log_in(cipher: str) -> list[str]:
    """The users that ferry names behind a complete strict key exchange: both count packets alike, or nothing is read."""
    asked: list[str] = []
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.create_server(
        lambda: _Login(asked), "127.0.0.1", 0, server_host_keys=[key], encryption_algs=[cipher], mac_algs=["hmac-sha2-256"]
    )
    async with server:
        await asyncio.to_thread(_ferry, server.get_port())
    return asked


def strict_kex() -> Iterator[Outcome]:
    """OpenSSH's PROTOCOL, section 1.10, as a client has to keep it."""
    met = _meet([_kexinit(strict=True)])
    yield Outcome("The client offers it.", "" if STRICT_CLIENT.encode() in met.offered else "does not offer it")
    yield Outcome(
        "The key exchange begins where nothing comes between.", "" if met.waited and _ECDH_INIT in met.kinds else f"{met}"
    )
    for name, message in _BETWEEN.items():
        met = _meet([_kexinit(strict=False), message])
        yield Outcome(
            f"{name} behind KEXINIT, not strict: the client waits for more.", "" if met.waited else "ends the connection"
        )
        met = _meet([_kexinit(strict=True), message])
        yield Outcome(f"{name} behind KEXINIT: the client ends the connection.", "waits for more" if met.waited else "")
        met = _meet([message, _kexinit(strict=True)])
        yield Outcome(f"{name} before KEXINIT: the client ends the connection.", "waits for more" if met.waited else "")
    for cipher in ("chacha20-poly1305@openssh.com", "aes128-ctr", "aes128-gcm@openssh.com"):
        asked = asyncio.run(_asked_to_log_in(cipher))
        yield Outcome(
            f"Packets are counted from 0 behind NEWKEYS, {cipher}.", "" if asked == ["me"] else f"asks to log in {asked}"
        )
