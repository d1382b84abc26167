"""An SFTP server that does what the login asks for: `short-reads@` gets a thousand bytes at most, on `stall@` it falls silent.

`odd_sftp.py odd FOLDER PORT`; `stock` instead of `odd` is AsyncSSH's own SFTP server. The folder holds `host_key` and
`authorized_keys`. Every request is a line of JSON on standard output. A login is ODDITY[.once][.WORD]: with `once` the fault
happens on this login's first connection alone. A separate script, run with -I: it imports nothing from the lab.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

# Where the faults of a transfer happen: what contains this byte.
MIDDLE = 1_000_000
PASSWORD = "open sesame"
_EVIL = b"from outside\n"

INIT, VERSION, OPEN, CLOSE, READ, WRITE, LSTAT, FSTAT, SETSTAT, FSETSTAT = range(1, 11)
OPENDIR, READDIR, REMOVE, MKDIR, RMDIR, REALPATH, STAT, RENAME, READLINK, SYMLINK = range(11, 21)
STATUS, HANDLE, DATA, NAME, ATTRS, EXTENDED, EXTENDED_REPLY = 101, 102, 103, 104, 105, 200, 201
OK, EOF, NO_SUCH_FILE, DENIED, FAILURE, BAD_MESSAGE, UNSUPPORTED = 0, 1, 2, 3, 4, 5, 8
_WORDS = "INIT VERSION OPEN CLOSE READ WRITE LSTAT FSTAT SETSTAT FSETSTAT OPENDIR READDIR REMOVE MKDIR RMDIR REALPATH STAT RENAME"
_ASKED = dict(enumerate([*_WORDS.split(), "READLINK", "SYMLINK"], start=1))
_FLAGS = {1: os.O_RDONLY, 2: os.O_WRONLY, 3: os.O_RDWR}


@dataclass(frozen=True)
class Oddity:
    """What is not as with OpenSSH. `fault` happens at MIDDLE, whether it is read or written."""

    fault: str = ""
    version: int = 3
    extensions: tuple[str, ...] = ("posix-rename@openssh.com", "fsync@openssh.com", "limits@openssh.com")
    # Packet, read, write; what is larger is refused when they are strict.
    limits: tuple[int, int, int] = (256 << 10, 255 << 10, 255 << 10)
    strict: bool = False
    most_read: int = 0
    random_reads: bool = False
    unordered: bool = False
    channels: int = 10
    subsystem: bool = True
    names: tuple[bytes, ...] = ()
    # A file's size while it is read, in percent of the size in STAT.
    becomes: int = 100
    # STAT tells no bytes, as if the file were written after that.
    empty_before: bool = False
    # STAT tells this much more than there is.
    boasts: int = 0
    # RENAME fails `always` or for `parts` of uploads; `gone`: the connection ends at a part's second one.
    renames: str = ""
    # FSETSTAT is refused.
    sizes_fixed: bool = False
    # FSETSTAT with a size opens the file with "w+" before, as paramiko's helper does.
    sizes_empty: bool = False
    # REMOVE is refused, whatever it is about.
    removes: bool = True
    # So many files and directories may be open at a time on a channel, and `limits` tells another number.
    handles: int = 1000
    told_handles: int = 100
    # A listing never ends: `names` that are always new, or answers without names (`nothing`).
    endless: str = ""
    # A listing `fails` at its end, that of a folder called half in its middle (`half`), is `empty`, or `follows` symbolic links.
    listing: str = ""
    # Modification times are rounded down to a multiple of this, in seconds.
    coarse: int = 1
    # It does nothing else for so long while it brings a file to its disk (`fsync`) or stores it (CLOSE).
    thinks_s: float = 0.0
    password: bool = False


ODDITIES: dict[str, Oddity] = {
    "honest": Oddity(),
    # All of it is allowed
    "unordered": Oddity(unordered=True),
    "short-reads": Oddity(most_read=1000),
    "random-reads": Oddity(random_reads=True),
    "tiny": Oddity(limits=(34_000, 4096, 4096), strict=True),
    "bare": Oddity(extensions=()),
    "bare-strict": Oddity(extensions=(), limits=(34_000, 32_768, 32_768), strict=True),
    "one-channel": Oddity(channels=1),
    "two-channels": Oddity(channels=2),
    "no-channel": Oddity(channels=0),
    "no-subsystem": Oddity(subsystem=False),
    "grows": Oddity(becomes=200),
    "password": Oddity(password=True),
    "thinks": Oddity(thinks_s=4.0),
    "thinks-bare": Oddity(extensions=(), thinks_s=4.0),
    # A broken protocol
    "version-2": Oddity(version=2),
    "version-6": Oddity(version=6),
    "long-data": Oddity("long-data"),
    "duplicate": Oddity("duplicate"),
    "unknown-id": Oddity("unknown-id"),
    "wrong-type": Oddity("wrong-type"),
    "garbage": Oddity("garbage"),
    "endless-packet": Oddity("endless-packet"),
    "empty-data": Oddity("empty-data"),
    # Not what was announced
    "eof-early": Oddity("eof-early"),
    "boasts": Oddity(boasts=500_000),
    "empty-before": Oddity(empty_before=True),
    "shrinks": Oddity(becomes=50),
    "closes-channel": Oddity("closes-channel"),
    "closes-connection": Oddity("closes-connection"),
    "disconnects": Oddity("disconnects"),
    "stall": Oddity("stall"),
    "silent": Oddity("silent"),
    "no-space": Oddity("no-space"),
    "denied": Oddity("denied"),
    # It holds back the first WRITE, and neither applies nor answers it, while the others go on.
    "holds-first": Oddity("holds-first"),
    # An ordinary server without posix-rename, on which a RENAME fails
    "rename-fails": Oddity(extensions=(), renames="always"),
    "rename-part-fails": Oddity(extensions=(), renames="parts"),
    "rename-gone": Oddity(extensions=(), renames="gone"),
    "sizes-fixed": Oddity(sizes_fixed=True),
    "sizes-empty": Oddity(sizes_empty=True),
    "sizes-empty-closes": Oddity("closes-connection", sizes_empty=True),
    "no-remove": Oddity(extensions=(), removes=False),
    "few-handles": Oddity(handles=8, told_handles=0),
    "few-handles-told": Oddity(handles=8, told_handles=8),
    "one-handle": Oddity(handles=1, told_handles=0),
    # Limits that would make millions of requests
    "limits-read": Oddity(limits=(34_000, 1, 32_768)),
    "limits-write": Oddity(limits=(34_000, 32_768, 1)),
    "limits-read-unheard": Oddity("unheard", limits=(34_000, 1, 32_768)),
    "endless-names": Oddity(endless="names"),
    "endless-nothing": Oddity(endless="nothing"),
    "listing-fails": Oddity(listing="fails"),
    "listing-half": Oddity(listing="half"),
    "listing-empty": Oddity(listing="empty"),
    "listing-follows": Oddity(listing="follows"),
    "coarse-times": Oddity(coarse=2),
    # Names that lead elsewhere
    "name-dots": Oddity(names=(b"..",)),
    "name-up": Oddity(names=(b"../escaped",)),
    "name-slash": Oddity(names=(b"sub/escaped",)),
    "name-absolute": Oddity(names=(b"/tmp/roughwater-test-escaped",)),
    "name-empty": Oddity(names=(b"",)),
    "name-nul": Oddity(names=(b"esc\0aped",)),
    "name-twice": Oddity(names=(b"twice", b"twice")),
    "name-latin-1": Oddity(names=(b"caf\xe9",)),
}


def log(what: str, **more: object) -> None:
    print(json.dumps({"what": what, **more}), flush=True)


def text(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def packet(kind: int, ident: int, body: bytes) -> bytes:
    return struct.pack(">IBI", len(body) + 5, kind, ident) + body


def status(ident: int, code: int, words: str = "") -> bytes:
    return packet(STATUS, ident, struct.pack(">I", code) + text(words.encode()) + text(b""))


class Fields:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, form: str = ">I") -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def text(self) -> bytes:
        length = self.number()
        self._at += length
        return self._data[self._at - length : self._at]


def attributes(facts: os.stat_result, size: int | None = None) -> bytes:
    times = int(facts.st_atime), int(facts.st_mtime)
    return struct.pack(">IQIII", 1 | 4 | 8, facts.st_size if size is None else size, facts.st_mode, *times)


@dataclass
class Opened:
    path: str
    file: int = -1
    names: Iterator[list[bytes]] = field(default_factory=lambda: iter(()))


class GoneError(Exception):
    """Nothing more is said on this channel."""


class Responder:
    """Version 3 over one channel. `say` sends; `end` is one of the ways to go away."""

    def __init__(self, server: Server, say: Callable[[bytes], None], end: Callable[[str], None]) -> None:
        self._oddity, self._folder, self._armed = server.oddity, server.folder, server.armed
        self._server, self._say, self._end = server, say, end
        self._rest = b""
        self._opened: dict[bytes, Opened] = {}
        self._handles = itertools.count(1)
        self._late: list[bytes] = []
        self._gone = False
        self._part_renames = 0

    def take(self, data: bytes) -> None:
        self._rest += data
        try:
            while not self._gone and len(self._rest) >= 4:
                (length,) = struct.unpack_from(">I", self._rest)
                if self._oddity.strict and length > self._oddity.limits[0]:
                    log("refused", why=f"packet of {length}")
                    self._end("closes-channel")
                    raise GoneError
                if len(self._rest) < 4 + length:
                    return
                body, self._rest = self._rest[4 : 4 + length], self._rest[4 + length :]
                self._on(body[0], body[1:])
        except GoneError:
            self._gone = True
        except Exception as error:
            log("fault of the server itself", why=repr(error))

    def close(self) -> None:
        for opened in self._opened.values():
            if opened.file >= 0:
                os.close(opened.file)

    def _on(self, kind: int, body: bytes) -> None:
        if kind == INIT:
            log("init", version=Fields(body).number())
            if self._oddity.fault == "silent" and self._armed:
                raise GoneError
            told = b"".join(text(name.encode()) + text(b"1") for name in self._oddity.extensions)
            self._say(struct.pack(">IBI", len(told) + 5, VERSION, self._oddity.version) + told)
            return
        fields = Fields(body)
        ident = fields.number()
        try:
            reply = self._answer(kind, ident, fields)
        except OSError as error:
            code = {FileNotFoundError: NO_SUCH_FILE, PermissionError: DENIED}.get(type(error), FAILURE)
            reply = status(ident, code, str(error.strerror))
        except KeyError:
            reply = status(ident, FAILURE, "no such handle")
        self._reply(kind, reply)

    def _reply(self, kind: int, reply: bytes) -> None:
        """Data and acknowledgements that arrive together leave in any order; the rest keeps its place."""
        if not self._oddity.unordered or kind not in (READ, WRITE):
            self._flush()
            self._say(reply)
            return
        if not self._late:
            asyncio.get_running_loop().call_later(0.002, self._flush)
        self._late.append(reply)

    def _flush(self) -> None:
        random.shuffle(self._late)
        for reply in self._late:
            self._say(reply)
        self._late.clear()

    def _answer(self, kind: int, ident: int, fields: Fields) -> bytes:
        if kind == EXTENDED:
            return self._extended(ident, fields)
        first = fields.text()
        if kind in (READ, WRITE):
            return self._move(kind, ident, first, fields)
        path = first.decode("utf-8", "surrogateescape")
        if kind not in (CLOSE, FSTAT, FSETSTAT, READDIR):
            log("request", kind=_ASKED.get(kind, str(kind)), path=path)
        if kind == OPEN:
            return self._open(ident, path, fields.number())
        if kind == CLOSE:
            opened = self._opened.pop(first)
            log("request", kind="CLOSE", path=opened.path)
            if opened.file >= 0:
                self._think(opened.file)
                os.close(opened.file)
            return status(ident, OK)
        if kind in (STAT, LSTAT):
            real = self._real(path)
            facts = real.stat() if kind == STAT else real.lstat()
            return packet(ATTRS, ident, attributes(facts, 0 if self._oddity.empty_before else self._told(facts)))
        if kind == FSTAT:
            facts = os.fstat(self._opened[first].file)
            return packet(ATTRS, ident, attributes(facts, self._told(facts)))
        if kind == OPENDIR:
            return self._open_folder(ident, path)
        if kind == READDIR:
            return self._read_folder(ident, self._opened[first])
        if kind == REALPATH:
            return packet(
                NAME, ident, struct.pack(">I", 1) + text(os.fsencode(os.path.normpath(path))) * 2 + struct.pack(">I", 0)
            )
        if kind == FSETSTAT and self._oddity.sizes_fixed:
            return status(ident, UNSUPPORTED, "unsupported")
        if kind == REMOVE and not self._oddity.removes:
            return status(ident, DENIED, "Permission denied")
        if kind in (SETSTAT, FSETSTAT):
            self._set(Path(path) if kind == SETSTAT else Path(self._opened[first].path), fields)
        elif kind == REMOVE:
            Path(path).unlink()
        elif kind == MKDIR:
            Path(path).mkdir()
        elif kind == RMDIR:
            Path(path).rmdir()
        elif kind == RENAME:
            return self._rename(ident, Path(path), Path(fields.text().decode()))
        elif kind == READLINK:
            link = str(Path(path).readlink()).encode()
            return packet(NAME, ident, struct.pack(">I", 1) + text(link) * 2 + struct.pack(">I", 0))
        else:
            return status(ident, UNSUPPORTED, "unsupported")
        return status(ident, OK)

    def _rename(self, ident: int, source: Path, target: Path) -> bytes:
        how, is_part = self._oddity.renames, source.name.endswith(".ferry-part")
        self._part_renames += is_part
        if how == "gone" and is_part and self._part_renames == 2:
            self._end("closes-connection")
            raise GoneError
        # Version 3: "It is an error if there already exists a file with the name specified by newpath."
        if target.exists() or how == "always" or (how == "parts" and is_part):
            return status(ident, FAILURE, "Failure")
        source.rename(target)
        return status(ident, OK)

    def _extended(self, ident: int, fields: Fields) -> bytes:
        name = fields.text().decode()
        log("request", kind="EXTENDED", path=name)
        if name not in self._oddity.extensions:
            return status(ident, UNSUPPORTED, "unsupported")
        if name == "limits@openssh.com":
            return packet(EXTENDED_REPLY, ident, struct.pack(">QQQQ", *self._oddity.limits, self._oddity.told_handles))
        if name == "fsync@openssh.com":
            self._think(self._opened[fields.text()].file)
        if name == "posix-rename@openssh.com":
            source, target = fields.text().decode(), fields.text().decode()
            Path(source).replace(target)
        return status(ident, OK)

    def _think(self, file: int) -> None:
        # An empty one is a sign between runs, and no upload.
        if self._oddity.thinks_s and os.fstat(file).st_size:
            time.sleep(self._oddity.thinks_s)

    def _open(self, ident: int, path: str, wanted: int) -> bytes:
        flags = _FLAGS[wanted & 3]
        for bit, flag in ((8, os.O_CREAT), (16, os.O_TRUNC), (32, os.O_EXCL), (4, os.O_APPEND)):
            flags |= flag if wanted & bit else 0
        real = self._real(path)
        if real.is_dir():
            raise PermissionError(1, "is a directory")
        return self._handle(ident, Opened(path, os.open(real, flags, 0o644)))

    def _open_folder(self, ident: int, path: str) -> bytes:
        names = [b".", b"..", *(entry.encode("utf-8", "surrogateescape") for entry in sorted(os.listdir(path)))]  # noqa: PTH208
        names += self._oddity.names
        if self._oddity.listing == "empty":
            names = names[:2]
        if self._breaks_off(path):
            names = names[: len(names) // 2]
        return self._handle(ident, Opened(path, names=(names[at : at + 100] for at in range(0, len(names), 100))))

    def _handle(self, ident: int, opened: Opened) -> bytes:
        if len(self._opened) >= self._oddity.handles:
            if opened.file >= 0:
                os.close(opened.file)
            return status(ident, FAILURE, "Failure")
        handle = b"handle %d" % next(self._handles)
        self._opened[handle] = opened
        return packet(HANDLE, ident, text(handle))

    def _read_folder(self, ident: int, opened: Opened) -> bytes:
        if self._oddity.endless == "nothing":
            return packet(NAME, ident, struct.pack(">I", 0))
        if self._oddity.endless == "names":
            return self._new_names(ident)
        names = next(opened.names, None)
        if names is None:
            broken = self._oddity.listing == "fails" or self._breaks_off(opened.path)
            return status(ident, FAILURE if broken else EOF)
        reply = struct.pack(">I", len(names))
        for name in names:
            real = self._real(os.fsdecode(b"/".join((os.fsencode(opened.path), name))))
            facts = real.stat() if self._oddity.listing == "follows" else real.lstat()
            reply += text(name) + text(b"-rw-r--r-- " + name) + attributes(facts)
        return packet(NAME, ident, reply)

    def _breaks_off(self, folder: str) -> bool:
        return self._oddity.listing == "half" and folder.endswith("/half")

    def _new_names(self, ident: int) -> bytes:
        """Ten thousand in a packet of 245 kB."""
        first = next(self._handles) * 10_000
        blank = text(b"") + struct.pack(">I", 0)
        return packet(
            NAME, ident, struct.pack(">I", 10_000) + b"".join(text(b"%012d" % (first + at)) + blank for at in range(10_000))
        )

    def _real(self, path: str) -> Path:
        """A server that gives names which lead elsewhere has something behind them."""
        if self._oddity.names and ("\0" in path or not Path(path).exists()):
            evil = self._folder / "evil"
            evil.write_bytes(_EVIL)
            return evil
        return Path(path)

    def _told(self, facts: os.stat_result) -> int:
        return facts.st_size + (self._oddity.boasts if stat.S_ISREG(facts.st_mode) else 0)

    def _set(self, path: Path, fields: Fields) -> None:
        flags = fields.number()
        if flags & 1:
            if self._oddity.sizes_empty:
                os.truncate(path, 0)
            os.truncate(path, fields.number(">Q"))
        if flags & 2:
            fields.number(">Q")
        if flags & 4:
            path.chmod(fields.number() & 0o7777)
        if flags & 8:
            accessed, modified = fields.number(), fields.number()
            os.utime(path, (accessed, modified - modified % self._oddity.coarse))

    def _move(self, kind: int, ident: int, handle: bytes, fields: Fields) -> bytes:
        if self._oddity.fault == "unheard":
            return b""
        offset = fields.number(">Q")
        data = fields.text() if kind == WRITE else b""
        length = len(data) if kind == WRITE else fields.number()
        opened = self._opened[handle]
        log("request", kind=_ASKED[kind], path=opened.path, offset=offset, length=length)
        if self._oddity.strict and length > self._oddity.limits[1 if kind == READ else 2]:
            return status(ident, FAILURE, "too much at once")
        if kind == READ:
            self._change(opened)
            most = min(length, self._oddity.most_read or length)
            if self._oddity.random_reads:
                most = random.randint(1, most)
            data = os.pread(opened.file, most, offset)
        if self._oddity.fault == "holds-first":
            if kind == WRITE and offset == 0:
                log("fault", fault="holds-first")
                return b""
        elif self._armed and self._oddity.fault and offset <= MIDDLE < offset + length:
            return self._fault(kind, ident, data, length)
        if kind == WRITE:
            os.pwrite(opened.file, data, offset)
            return status(ident, OK)
        return packet(DATA, ident, text(data)) if data else status(ident, EOF)

    def _change(self, opened: Opened) -> None:
        if self._oddity.becomes != 100 and self._armed:
            self._armed = False
            os.truncate(opened.path, os.path.getsize(opened.path) * self._oddity.becomes // 100)  # noqa: PTH202

    def _fault(self, kind: int, ident: int, data: bytes, length: int) -> bytes:
        fault = self._oddity.fault
        right = packet(DATA, ident, text(data)) if kind == READ else status(ident, OK)
        log("fault", fault=fault)
        match fault:
            case "long-data":
                return packet(DATA, ident, text(data.ljust(length, b"!") + b"!" * 10))
            case "duplicate":
                return right + right
            case "unknown-id":
                return right[:5] + struct.pack(">I", 0xABCDEF01) + right[9:]
            case "wrong-type":
                return packet(HANDLE, ident, text(b"handle"))
            case "garbage":
                return b"\0\0\0\x09\xffgarbage!" + right
            case "endless-packet":
                return b"\xff\xff\xff\xff" + right
            case "empty-data":
                return packet(DATA, ident, text(b""))
            case "eof-early":
                return status(ident, EOF)
            case "no-space":
                return status(ident, FAILURE, "Failure")
            case "denied":
                return status(ident, DENIED, "Permission denied")
        if fault == "stall":
            self._server.stalled = True
        else:
            self._end(fault)
        raise GoneError


class Session(asyncssh.SSHServerSession[bytes]):
    """A channel."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._chan: asyncssh.SSHServerChannel[bytes] | None = None
        self._responder: Responder | None = None

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._chan = chan

    def subsystem_requested(self, subsystem: str) -> bool:
        return subsystem == "sftp" and self._server.oddity.subsystem

    def session_started(self) -> None:
        chan, server = self._chan, self._server
        assert chan is not None
        self._responder = Responder(server, chan.write, self._end)

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:  # noqa: ARG002
        if self._responder is not None and not self._server.stalled:
            self._responder.take(data)

    def eof_received(self) -> bool:
        if self._chan is not None and not self._server.stalled:
            self._chan.exit(0)
        return True

    def _end(self, how: str) -> None:
        assert self._chan is not None
        connection = self._chan.get_connection()
        if how == "closes-channel":
            self._chan.close()
        elif how == "disconnects":
            connection.disconnect(asyncssh.DISC_BY_APPLICATION, "closed for the night")
        else:
            connection.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._server.sessions -= 1
        if self._responder is not None:
            self._responder.close()


class Server(asyncssh.SSHServer):
    """A connection."""

    def __init__(self, folder: Path, seen: set[str]) -> None:
        self.folder, self._seen = folder, seen
        self.oddity = Oddity()
        self.armed = True
        self.stalled = False
        self.sessions = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:  # noqa: ARG002
        log("connection")

    def begin_auth(self, username: str) -> bool:
        name, *more = username.split(".")
        self.oddity = ODDITIES[name]
        self.armed = not ("once" in more and username in self._seen)
        self._seen.add(username)
        return True

    def public_key_auth_supported(self) -> bool:
        return not self.oddity.password

    def password_auth_supported(self) -> bool:
        return self.oddity.password

    def kbdint_auth_supported(self) -> bool:
        return False

    def validate_password(self, username: str, password: str) -> bool:  # noqa: ARG002
        log("password", right=password == PASSWORD)
        return password == PASSWORD

    def session_requested(self) -> Session:
        if self.sessions >= self.oddity.channels:
            log("channel refused")
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_RESOURCE_SHORTAGE, "no more sessions")
        self.sessions += 1
        log("channel")
        return Session(self)


async def main(kind: str, folder: Path, port: int) -> None:
    common: dict[str, Any] = {
        "server_host_keys": [str(folder / "host_key")],
        "authorized_client_keys": str(folder / "authorized_keys"),
        "login_timeout": 30,
    }
    if kind == "stock":
        await asyncssh.listen("127.0.0.1", port, sftp_factory=True, **common)
    else:
        seen: set[str] = set()
        await asyncssh.listen("127.0.0.1", port, server_factory=lambda: Server(folder, seen), encoding=None, **common)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
