"""The objects of a test: its link, the servers behind the link, and a way to run commands in front of it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeVar

from lab.clients.adapter import clean_environment
from lab.clients.described import ssh_options
from lab.model.base import first_problem
from lab.model.errors import UsageProblem
from lab.model.obeyed import refuse
from lab.model.units import Duration, Size
from lab.net.scheduled import scheduled
from lab.run.commands import Measured, measure
from lab.run.steps import Steps
from lab.testing.networks import check_settings

if TYPE_CHECKING:
    from lab.hosts.host import Network
    from lab.model.results import Calibration
    from lab.model.topology import Topology
    from lab.run.session import Session
    from lab.servers.bundle import Servers

Q = TypeVar("Q", Size, Duration)
_MOST_SAID = 50


class LabLink:
    """The link of one test. `topology` is what was asked for; `link` is how it is now."""

    def __init__(self, session: Session, name: str, topology: Topology, largest: str) -> None:
        self.topology = topology
        self.link = topology.link
        self.said: list[str] = []
        """One line for each command so far, for the report of a test that fails."""
        self._session, self._name, self._largest = session, name, _parsed(Size, largest).bytes
        self._steps: Steps | None = None

    def change(self, *, after: str | None = None, **settings: object) -> None:
        """Other settings from now on, or so long after the next command begins: `change(rate="2 Mbit/s", after="3 s")`."""
        check_settings(settings)
        try:
            self.link = self.steps.change(settings, _seconds(after))
        except ValueError as problem:
            raise UsageProblem(f"no such link: {first_problem(problem)}") from None

    def cut(self, lasting: str, *, after: str | None = None) -> None:
        """Both directions lose everything for that time, now or so long after the next command begins."""
        self.steps.interrupt(_parsed(Duration, lasting).s, _seconds(after))

    def calibrate(self) -> Calibration:
        """Goodput and round trip of the link as it is now. Raises LabFault where it is not what it claims to be."""
        return self.steps.calibrate()

    @property
    def steps(self) -> Steps:
        """The network, brought up at its first use."""
        if self._steps is None:
            refuse("pytest", self.topology, "real" if self._session.options.clock == "real" else "virtual")
            steps = Steps(self._session, self._name)
            steps.start(self.topology, self._largest)
            self._steps = steps
        return self._steps

    def command(self, argv: Sequence[str], *, environment: Mapping[str, str], folder: str, timeout_s: float) -> Measured:
        """Any command on the client's host. A schedule begins with it, and planned changes happen meanwhile."""
        if self.topology.schedule is None:
            return self.steps.command(argv, environment=environment, folder=folder, timeout_s=timeout_s)
        # Nothing can be planned on a link with a schedule.
        network, _ = self.up
        schedule = scheduled(network, self.topology)
        return measure(network, argv, environment=environment, folder=folder, timeout_s=timeout_s, schedule=schedule)

    @property
    def up(self) -> tuple[Network, Servers]:
        """The lab's own objects, for what the fixtures do not offer."""
        _ = self.steps
        return self._session.lab.up

    def stop(self) -> None:
        """Idempotent."""
        if self._steps is not None:
            self._steps.stop()
            self._steps = None


@dataclass(frozen=True)
class Offered:
    """A file on the server: its URLs and what a complete copy of it has."""

    http: str
    https: str
    sftp: str
    size: int
    sha256: str


class LabServer:
    """nginx and OpenSSH behind the link. Paths of credentials are those of the client's host."""

    def __init__(self, link: LabLink) -> None:
        self._link = link
        ends = self._servers.endpoints
        self.host, self.http_port, self.https_port, self.ssh_port = ends.server, ends.http_port, ends.https_port, ends.ssh_port
        self.http, self.https = f"http://{self.host}", f"https://{self.host}"
        self.ca, self.ssh_user, self.ssh_key = ends.ca_path, ends.ssh_user, ends.ssh_key_path
        self.known_hosts = ends.known_hosts_path
        self.ssh_options = ssh_options(ends)
        """Words for ssh, sftp and scp that use this key and these known hosts only, and never ask."""

    @property
    def _servers(self) -> Servers:
        return self._link.up[1]

    def offer(self, size: str) -> Offered:
        """A file of that size to download, its content pseudo-random."""
        payload = self._servers.payload(self._link.up[0].server, _parsed(Size, size).bytes)
        path = f"files/{payload.name}"
        return Offered(
            http=f"{self.http}/{path}",
            https=f"{self.https}/{path}",
            sftp=f"sftp://{self.ssh_user}@{self.host}{self.upload_folder.parent / path}",
            size=payload.size,
            sha256=payload.sha256,
        )

    @property
    def upload_folder(self) -> PurePath:
        """The folder of uploads over HTTP (`PUT /upload/NAME`), into which SFTP may write too."""
        return PurePath(self._servers.endpoints.server_workdir) / "upload"

    def upload_url(self, name: str) -> str:
        """A URL that takes a PUT; `https` for the same over TLS is `server.https + "/upload/" + name`."""
        return f"{self.http}/upload/{name}"

    def uploaded(self, name: str) -> bytes:
        """The content of an upload. Raises LabFault where there is no such file."""
        return self._link.up[0].server.read(self.upload_folder / name)


class LabTransfer:
    """Runs commands on the client's host, in a folder of the test's that is empty at first."""

    def __init__(self, link: LabLink) -> None:
        self._link = link
        self.folder = link.up[0].client.workdir / "test"
        """On the client's host. In virtual time this machine's own files can be read there, and only this folder be written."""
        link.up[0].client.prepare_folder(str(self.folder))

    def __call__(
        self,
        command: str | Sequence[str | os.PathLike[str]],
        *,
        environment: Mapping[str, str] | None = None,
        timeout: str = "10 min",
    ) -> Measured:
        """Run it to its end and return what it did. A command that fails does not fail the test: say what is expected of it."""
        words = shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
        if not words:
            raise UsageProblem("there is no command to run")
        servers = self._link.up[1]
        known = {**clean_environment(servers.endpoints), **servers.environment}
        done = self._link.command(
            words,
            environment={**known, **(environment or {})},
            folder=str(self.folder),
            timeout_s=_parsed(Duration, timeout).s,
        )
        if len(self._link.said) < _MOST_SAID:
            self._link.said.append(str(done))
        return done

    def put(self, name: str, content: bytes | Path) -> PurePath:
        """A file in the folder; returns its path there. `content` may be a file of this machine."""
        client, path = self._link.up[0].client, self.folder / name
        if isinstance(content, Path):
            client.copy(content, path)
        else:
            client.write(path, content)
        return path

    def read(self, name: str) -> bytes:
        """The content of a file in the folder. Raises LabFault where there is no such file."""
        return self._link.up[0].client.read(self.folder / name)


def _seconds(text: str | None) -> float | None:
    return None if text is None else _parsed(Duration, text).s


def _parsed(kind: type[Q], text: str) -> Q:
    try:
        return kind.parse(text)
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
