"""What tests of ferry over SFTP need: a test's own folders on both sides, runs of the program, what is there afterwards."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

from lab.hosts.host import Completed
from lab.servers.sshd import KeyPair
from tests.engine.harness import Told
from tests.engine.sftp_servers import Keys, SftpServer, person, write

MIB = 1 << 20
# A multiple of nothing that requests, packets and windows are made of: no piece looks like another.
_PERIOD = 1_000_003
PATIENCE_S = 90.0
"""A ferry that does not end, not one that is slow: next to busy loops five thousand small files took more than 25 s."""
ONCE = ("--retry", "0")


@cache
def _block(version: int) -> bytes:
    return random.Random(version).randbytes(_PERIOD)


def content(size: int, version: int = 1) -> bytes:
    return (_block(version) * (size // _PERIOD + 1))[:size]


@cache
def sha256(size: int, version: int = 1) -> str:
    return hashlib.sha256(content(size, version)).hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """Every regular file below, hidden or not, with its SHA-256."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                found[str(path.relative_to(folder))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


@dataclass
class Running:
    """ferry, until `told`. Its output goes to files, so that it never blocks."""

    process: subprocess.Popen[bytes]
    out: IO[bytes]
    err: IO[bytes]

    def ended(self, timeout_s: float = PATIENCE_S) -> tuple[int, bytes, bytes]:
        """Exit code and output."""
        timed_out = False
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            self.kill()
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(file.read())
            file.close()
        assert not timed_out, f"ferry had to be killed after {timeout_s:g} s: {texts[1].decode(errors='replace')}"
        return self.process.returncode, texts[0], texts[1]

    def told(self, timeout_s: float = PATIENCE_S) -> Told:
        return Told.of(Completed((), *self.ended(timeout_s), 0, 0, 0.0, 0.0))

    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, as from nowhere."""
        if self.running():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class SftpBench:
    """`folder` is the test's folder on the client, `word` the name of its folder on every server."""

    program: Path
    folder: Path
    keys: Keys
    word: str
    started: list[Running] = field(default_factory=list)

    def remote(self, server: SftpServer) -> Path:
        """The test's folder on the server. Writable for all: AsyncSSH runs as the user of the tests."""
        path = server.home / self.word
        if not path.exists():
            path.mkdir()
            path.chmod(0o777)
            person().owns(path)
        return path

    def write(self, name: str, data: bytes, mode: int = 0o644) -> Path:
        path = self.folder / name
        for folder in reversed(path.relative_to(self.folder).parents[:-1]):
            (self.folder / folder).mkdir(exist_ok=True)
            person().owns(self.folder / folder)
        return write(path, data, mode)

    def source(self, size: int, version: int = 1, name: str = "source") -> Path:
        return self.write(name, content(size, version))

    def key(self, pair: KeyPair | None = None) -> Path:
        pair = pair or self.keys.user
        name = "user" if pair is self.keys.user else "stranger"
        return write(self.folder.parent / f"{name}.key", pair.private, 0o600)

    def hosts(self, *lines: str) -> Path:
        path = self.folder.parent / f"{self.word}.hosts"
        return write(path, "".join(lines).encode())

    def trust(self, server: SftpServer, port: int | None = None) -> tuple[str, ...]:
        """Options that make ferry know the server, and the server know it."""
        hosts = self.hosts(server.known_hosts, server.known_hosts.replace(str(server.port), str(port or server.port)))
        return ("--known-hosts", str(hosts), "--identity", str(self.key()), "--no-agent")

    def start(
        self,
        *words: str | Path,
        env: Mapping[str, str] | None = None,
        before: Iterable[str | Path] = (),
        json: bool = True,
        dropped: bool = True,
    ) -> Running:
        """`before` is a command that takes ferry's as its last words; `dropped` is false where it becomes `person` by itself."""
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - Running closes both
        # Nothing from the user's home: no known_hosts, keys or agent.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SSH_")}
        clean |= {"HOME": str(self.folder.parent), **(env or {})}
        command = [*before, self.program, *words, *(["--json=-"] if json else [])]
        files = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
        process = person().start(command, dropped=dropped, cwd=self.folder, env=clean, **files)
        made = Running(process, out, err)
        self.started.append(made)
        return made

    def run(self, *words: str | Path, env: Mapping[str, str] | None = None, timeout_s: float = PATIENCE_S) -> Told:
        return self.start(*words, env=env).told(timeout_s)

    def get_words(self, server: SftpServer, path: Path, *words: str, output: str = "file", **at: Any) -> list[str]:
        return ["get", server.url(path, **at), "--output", output, *self.trust(server, at.get("port")), *words]

    def put_words(self, source: Path, server: SftpServer, path: Path | str, *words: str, **at: Any) -> list[str]:
        return ["put", str(source), server.url(path, **at), *self.trust(server, at.get("port")), *words]

    def get(self, server: SftpServer, path: Path, *words: str, output: str = "file", **at: Any) -> Told:
        return self.run(*self.get_words(server, path, *words, output=output, **at))

    def put(self, source: Path, server: SftpServer, path: Path | str, *words: str, **at: Any) -> Told:
        return self.run(*self.put_words(source, server, path, *words, **at))

    def files(self) -> dict[str, str]:
        return digests(self.folder)

    def stop(self) -> None:
        for running in self.started:
            running.kill()

    def give(self, server: SftpServer, size: int, name: str = "file", version: int = 1) -> Path:
        """A file on the server."""
        return write(self.remote(server) / name, content(size, version))


def done(told: Told) -> None:
    """Everything asked for."""
    assert told.code == 0, f"exit code {told.code}: {told.report.get('error')} {told.error} {told.stderr[-1000:]}"
    assert told.report["ok"] is True
    for transfer in told.report["transfers"]:
        assert transfer["protocol"] == "sftp"


def left_over(folder: Path) -> list[str]:
    """Parts of uploads, hidden or not."""
    return sorted(path.name for path in folder.rglob("*") if "ferry-part" in path.name)


def until_gone(folder: Path, timeout_s: float = 3.0) -> list[str]:
    """A server may still be about to remove what it was asked to when the client has gone."""
    deadline = time.monotonic() + timeout_s
    while (found := left_over(folder)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found
