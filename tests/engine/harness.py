"""Tests of ferry against the faulty server: URLs, runs of the program, its report, its files, its requests."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lab.hosts.host import Completed, Host, Process
from lab.hosts.namespaces.network import NamespaceNetwork
from lab.model.errors import LabFault
from lab.servers.certificates import Certificates, make_certificates
from tests.support.faults import content
from tests.support.waiting import until

_SCRIPT = Path(__file__).parents[1] / "support" / "faulty_server.py"

EXIT_CODES = {"usage": 2, "transient": 10, "permanent": 11, "integrity": 12, "local": 13, "interrupted": 130}
SIZE = 30_000
H1, H2, PLAIN = ("--http1.1",), ("--http2",), ()
# For tests in which nothing depends on how long ferry waits.
BRIEFLY = ("--retry-max-wait", "50ms")
ONCE = ("--retry", "0")

# A URL's, as a frozen row of a table can hold them.
Options = tuple[tuple[str, str], ...]

PORTS = {
    "plain": 8080,
    "plain-2": 8081,
    "good": 8443,
    "expired": 8444,
    "other-name": 8445,
    "unknown-ca": 8446,
    "good+http/1.1": 8447,
    "good+spdy/3": 8448,
    "plain@4096": 8082,
    "good@4096": 8449,
}


@cache
def sha256(size: int, version: int = 1) -> str:
    """A file of the faulty server."""
    return hashlib.sha256(content(size, version)).hexdigest()


@dataclass
class Faulty:
    """The running server, and its log."""

    host: Host
    process: Process
    folder: str
    good: Certificates

    def log(self) -> list[dict[str, Any]]:
        if not self.process.running():
            raise LabFault(f"the faulty server ended: {self.process.wait(1.0).error_text}")
        lines = [json.loads(line) for line in self.host.read(f"{self.folder}/log").decode().splitlines()]
        own = [line for line in lines if line["what"] == "fault of the server itself"]
        if own:
            raise LabFault(f"the faulty server has a fault that was not asked for: {own}")
        return lines

    def connections(self) -> int:
        return sum(line["what"] == "connection" for line in self.log())


def start_faulty_server(network: NamespaceNetwork) -> Faulty:
    """The client trusts three authorities of four; the names and dates are right in one certificate of four."""
    host = network.server
    folder = f"{host.workdir}/faulty"
    made = {
        "good": make_certificates([host.address]),
        "expired": make_certificates([host.address], age=timedelta(days=30)),
        "other-name": make_certificates([], names=("elsewhere",)),
        "unknown-ca": make_certificates([host.address]),
    }
    for name, certificates in made.items():
        host.write(f"{folder}/{name}.pem", certificates.server_key_pem + certificates.server_pem, mode=0o600)
    trusted = b"".join(made[name].ca_pem for name in ("good", "expired", "other-name"))
    network.client.write(network.client.workdir / "ca.pem", trusted)
    # Trusted, but issuer of none of these certificates, and with another name.
    network.client.write(network.client.workdir / "stranger.pem", made["good"].server_pem)
    places = [f"{port}={name.replace('plain-2', 'plain')}" for name, port in PORTS.items()]
    # The lab's root, because its ordinary user may not be able to read the environment.
    host.run(["chown", "-R", "0", folder], root=True)
    process = host.start([sys.executable, "-I", str(_SCRIPT), folder, *places], root=True)
    faulty = Faulty(host, process, folder, made["good"])
    probe = f"import socket; [socket.create_connection(('127.0.0.1', port)) for port in {list(PORTS.values())}]"

    def listening() -> bool:
        if not process.running():
            raise LabFault(f"the faulty server did not start: {process.wait(1.0).stderr.decode()}")
        return host.run([sys.executable, "-I", "-S", "-c", probe], root=True, check=False).returncode == 0

    until(listening, "the faulty server listens")
    return faulty


@dataclass(frozen=True)
class Told:
    """How a run ended, and its report."""

    code: int
    report: dict[str, Any]
    stderr: str

    @classmethod
    def of(cls, done: Completed) -> Told:
        assert not done.timed_out, "ferry had to be killed"
        try:
            report = json.loads(done.stdout) if done.stdout.strip() else {}
        except ValueError as error:
            raise AssertionError(f"no report: {error}: {done.stdout[:200]!r}") from None
        return cls(done.returncode, report, done.stderr.decode(errors="replace"))

    @property
    def transfer(self) -> dict[str, Any]:
        assert self.report.get("transfers"), f"exit code {self.code} without a transfer: {self.report} {self.stderr}"
        found: dict[str, Any] = self.report["transfers"][0]
        return found

    @property
    def attempts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.transfer["attempts"]
        return found

    @property
    def error(self) -> dict[str, str]:
        """The error of the transfer, else of the run, else empty."""
        transfers = self.report.get("transfers") or [{}]
        found: dict[str, str] = transfers[0].get("error") or self.report.get("error") or {}
        return found


def is_one_clear_line(stderr: str, *telling: str) -> None:
    """One line without control characters that names the problem; what a person sees without --json."""
    lines = stderr.splitlines()
    assert len(lines) == 1, stderr
    assert lines[0].isprintable()
    for text in telling:
        assert text in lines[0]


def failed(told: Told, kind: str, *telling: str) -> None:
    """The class of the error, which report and standard error must agree on."""
    assert told.error, f"exit code {told.code}: {told.report or told.stderr}"
    assert (told.error["class"], told.code) == (kind, EXIT_CODES[kind]), told.error
    assert told.report["exit_code"] == told.code
    assert told.report["ok"] is False
    assert "\n" not in told.error["message"]
    for text in telling:
        assert text in told.error["message"]


@dataclass
class Bench:
    """A test's own folder on the client, and its own word in the server's log."""

    host: Host
    program: str
    faulty: Faulty
    word: str
    folder: str
    cacert: str = "ca.pem"

    @classmethod
    def make(cls, host: Host, program: str, faulty: Faulty, word: str) -> Bench:
        folder = f"{host.workdir}/tests/{word}"
        host.run(["mkdir", "-p", folder])
        return cls(host, program, faulty, word, folder)

    def beside(self) -> Bench:
        """The same again, apart from this one."""
        return replace(Bench.make(self.host, self.program, self.faulty, f"{self.word}-again"), cacert=self.cacert)

    def url(
        self, fault: str, size: int = 30_000, *, at: str = "plain", login: str = "", more: Options = (), **options: str | int
    ) -> str:
        """`at` is one of PORTS: http where it is plain, https where it is not."""
        query = "&".join(
            f"{name}={quote(str(value), safe='')}" for name, value in {"run": self.word, **dict(more), **options}.items()
        )
        scheme = "http" if at.startswith("plain") else "https"
        return f"{scheme}://{login}server:{PORTS[at]}/{fault}/{size}?{query}"

    def command(self, *words: str) -> list[str]:
        return [self.program, *words, "--cacert", f"{self.host.workdir}/{self.cacert}"]

    def run(self, *words: str, before: tuple[str, ...] = (), root: bool = False) -> Told:
        """With a report, in the test's folder."""
        command = [*before, *self.command(*words, "--json", "-")]
        return Told.of(self.host.run(command, cwd=self.folder, timeout_s=20.0, check=False, root=root))

    def get(self, url: str, *words: str) -> Told:
        return self.run("get", "-o", "file", *words, url)

    def put(self, size: int, url: str, *words: str) -> Told:
        self.write("source", content(size))
        return self.run("put", *words, "source", url)

    def start(self, *words: str) -> Process:
        return self.host.start(self.command(*words, "--json", "-"), cwd=self.folder)

    def start_plainly(self, *words: str) -> Process:
        """Start ferry as on a command line, without a report."""
        return self.host.start(self.command(*words), cwd=self.folder)

    def files(self) -> dict[str, str]:
        """Everything in the folder, hidden or not, with its SHA-256."""
        script = "find . -type f -exec sha256sum {} +"
        lines = self.host.run(["/bin/sh", "-ec", script], cwd=self.folder).text.splitlines()
        return {name.removeprefix("./"): digest for digest, name in (line.split(maxsplit=1) for line in lines)}

    def size(self, name: str) -> int:
        done = self.host.run(["stat", "-c", "%s", name], cwd=self.folder, check=False)
        return int(done.stdout or b"0")

    def write(self, name: str, data: bytes) -> None:
        self.host.write(f"{self.folder}/{name}", data)

    def shell(self, script: str, *, root: bool = False) -> str:
        return self.host.run(["/bin/sh", "-ec", script], cwd=self.folder, root=root).text

    def asked(self, what: str = "request") -> list[dict[str, Any]]:
        """What the server was asked for by this test."""
        return [line for line in self.faulty.log() if line["what"] == what and line.get("run") == self.word]

    def ranges(self) -> list[tuple[str | None, str | None]]:
        """Range and If-Range of every request."""
        return [(ask["headers"].get("range"), ask["headers"].get("if-range")) for ask in self.asked()]
