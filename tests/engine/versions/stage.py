"""Where plans are played: sshd and an HTTP origin on the loopback, and runs of ferry, each behind a proxy of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from lab.clients.ferry import find_ferry
from lab.servers.certificates import make_certificates
from tests.engine import sftp_servers
from tests.engine.sftp_servers import Keys, SftpServer, person
from tests.engine.versions.draws import Hold, Plan, Step
from tests.engine.versions.origin import Origin, serving
from tests.engine.versions.source import Source
from tests.support.tcp_proxy import Proxy, Way, proxy_to
from tests.support.waiting import until

# On two cores with a load of fifteen 40 s were too few.
PATIENCE_S = 120.0
"""For a run that nothing holds up: it has a second's work."""
GREETING = {"http1": 300, "h2": 2500, "sftp": 6000}
"""Bytes before the first of a file, roughly."""
_SETTINGS = ("--retry", "3", "--retry-max-wait", "50ms", "--json=-")


@dataclass
class Run:
    """ferry behind its proxy. `began` is the snapshot of the source at its start, `code` its end."""

    name: str
    process: subprocess.Popen[bytes]
    proxy: Proxy
    out: IO[bytes]
    err: IO[bytes]
    way: Way
    began: int
    resume: bool
    # Its link was cut; another run was alive; files that have appeared or changed since its start.
    disturbed: bool = False
    others: bool = False
    published: set[str] = field(default_factory=set)
    killed: bool = False
    code: int | None = None
    report: dict[str, Any] = field(default_factory=dict)
    stderr: str = ""

    def alive(self) -> bool:
        return self.code is None

    def is_over(self) -> bool:
        return self.process.poll() is not None

    def held(self) -> None:
        """Returns when the link is down and everything before has arrived, or ferry has ended."""
        until(lambda: self.proxy.is_held() or self.is_over(), f"{self.name} is held", PATIENCE_S)
        if not self.is_over():
            self.proxy.settle(self.way)

    def end(self) -> bool:
        """Waits for the end; false where it did not come."""
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._read()
        return True

    def _read(self) -> None:
        self.code = self.process.returncode
        for file in (self.out, self.err):
            file.seek(0)
        text = self.out.read()
        self.stderr = self.err.read().decode(errors="replace")
        self.report = json.loads(text) if text.strip() and not self.killed else {}

    def kill(self) -> None:
        self.killed = True
        self.process.kill()
        self.process.wait()
        self.proxy.cut()
        self._read()


@dataclass
class Stage:
    """Servers for any number of plans, and the folders of one."""

    root: Path
    sshd: SftpServer
    origin: Origin
    ferry: Path
    key: Path
    plan: Plan | None = None
    _links: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    runs: list[Run] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.sshd.home / "play"

    def set(self, plan: Plan) -> Source:
        """Empty folders, and the first versions."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("", "source", "aside", "target", "client"):
            (self.folder / name).mkdir()
            person().owns(self.folder / name)
        self.plan, self.runs = plan, []
        self.origin.served, self.origin.stored = self.folder / "source", self.folder / "target"
        self.origin.manners = plan.manners
        source = Source(self.folder / "source", self.folder / "aside")
        for path, size in plan.sizes.items():
            source.give(path, size, plan.modes[path])
        source.note()
        return source

    @property
    def target(self) -> Path:
        return self.folder / "target"

    def start(self, step: Step, began: int, *, due: int) -> Run:
        """`due` is about how many bytes there are to move."""
        assert self.plan is not None
        transport, verb = self.plan.way.split("-")[:2]
        port = {"http1": self.origin.plain_port, "h2": self.origin.tls_port, "sftp": self.sshd.port}[transport]
        # The further connections of an upload carry nothing before the first has opened its file.
        hold, late = step.hold, self.plan.late and verb == "get" and step.hold is not None
        proxy = self._links.enter_context(proxy_to(port, holds_first_only=late))
        if hold is not None:
            proxy.hold_after(*self.moment(hold, due))
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes both
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SSH_")}
        clean["HOME"] = str(self.root)
        files: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
        cwd = self.target if verb == "list" else self.folder / "client"
        process = person().start([self.ferry, *self.words(proxy.port, step)], cwd=cwd, env=clean, **files)
        made = Run(step.who, process, proxy, out, err, "up" if verb == "put" else "down", began, step.resume)
        self.runs.append(made)
        return made

    def moment(self, hold: Hold, due: int) -> tuple[Way, int]:
        """Direction and bytes, where `due` bytes are to move."""
        assert self.plan is not None
        transport, verb = self.plan.way.split("-")[:2]
        return "up" if verb == "put" else "down", hold.bytes_ or GREETING[transport] + int(hold.share * due)

    def words(self, port: int, step: Step) -> list[str]:
        """A command line for the plan's way, by a proxy's port."""
        plan = self.plan
        assert plan is not None
        transport, verb, *more = plan.way.split("-")
        words = ["--resume"] if step.resume and (transport == "sftp" or verb != "put") else []
        if transport != "sftp":
            base = f"http{'s' if transport == 'h2' else ''}://127.0.0.1:{port}"
            words += ["--http2", "--insecure"] if transport == "h2" else ["--http1.1"]
            if verb == "put":
                return ["put", f"{self.folder}/source/file", f"{base}/file", *words, *_SETTINGS]
            words += ["--overwrite", "--remote-time"]
            if step.alone:
                return ["get", f"{base}/a", "-o", f"{self.target}/a", "--connections", "3", *words, *_SETTINGS]
            if verb == "list":
                return ["get", "-O", *(f"{base}/{path}" for path in plan.sizes), *words, *_SETTINGS]
            words += ["--connections", str(plan.connections)]
            return ["get", f"{base}/file", "-o", f"{self.target}/file", *words, *_SETTINGS]
        words += ["--insecure", "--identity", str(self.key), "--no-agent", "--perms", "--connections", str(plan.connections)]
        words += ["--mirror", "--delete"] if more == ["mirror"] else ["--remote-time"]
        at = f"sftp://{self.sshd.login}@127.0.0.1:{port}"
        name = "" if more else "file"
        if verb == "put":
            words += [] if plan.sync else ["--no-sync"]
            return ["put", f"{self.folder}/source/{name}".rstrip("/"), f"{at}{self.target}/{name}", *words, *_SETTINGS]
        words += ["-r"] if more else []
        words += [] if more == ["mirror"] else ["--overwrite"]
        return ["get", f"{at}{self.folder}/source/{name}", "-o", f"{self.target}/{name}", *words, *_SETTINGS]

    def clear(self) -> None:
        """Ends what is left of a plan."""
        for run in self.runs:
            if run.process.poll() is None:
                run.process.kill()
                run.process.wait()
            run.out.close()
            run.err.close()
        self._links.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def staged() -> Iterator[Stage]:
    """In memory where the machine has such a file system: a plan syncs dozens of files."""
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    root = Path(tempfile.mkdtemp(prefix="roughwater-versions-", dir=parent))
    root.chmod(0o755)
    person().owns(root)
    try:
        keys = Keys()
        ferry = root / "ferry"
        shutil.copyfile(find_ferry(), ferry)
        ferry.chmod(0o755)
        certificates = make_certificates(["127.0.0.1"])
        (root / "server.pem").write_bytes(certificates.server_key_pem + certificates.server_pem)
        key = sftp_servers.write(root / "user.key", keys.user.private, 0o600)
        with (
            sftp_servers.running(sftp_servers.openssh(root, keys)) as sshd,
            serving(Origin(root, root), root / "server.pem") as origin,
        ):
            yield Stage(root, sshd, origin, ferry, key)
    finally:
        shutil.rmtree(root, ignore_errors=True)
