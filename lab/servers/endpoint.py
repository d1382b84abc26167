"""A server that a YAML file describes (`lab.model.endpoint.EndpointFile`): started on a host, and asked what arrived."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from lab.hosts.host import Host
from lab.model.endpoints import Service
from lab.model.errors import LabFault, UsageProblem
from lab.model.templates import fill
from lab.servers.process import ServerProcess, wait_ready

if TYPE_CHECKING:
    from lab.model.endpoint import EndpointFile

_FIRST_UID = 7701
_PREPARE_S = 120.0
_SECRET_BYTES = 16
_ADD_ROWS = 'printf "%s\\n" "$@" >>"$0"'


@dataclass
class EndpointServer(ServerProcess):
    """A running endpoint. `service` has its URLs and variables for clients."""

    service: Service = field(kw_only=True)

    def seed(self, payload: str) -> None:
        """Put that file of the server's payloads where clients get it. Raises LabFault with the command's own words."""
        if self.service.file.seed:
            _run(self.host, self.service, self.service.fill(self.service.file.seed, payload=payload), "seed")

    def read_back(self, upload: str, sha256: str, into: str) -> None:
        """Write the content of an upload to that file of the server's host; what the endpoint does not have is empty."""
        command = self.service.fill(self.service.file.read_back, upload=upload, sha256=sha256, sha256_2=sha256[:2])
        environment = {**_environment(self.host, self.service), **self.service.environment}
        script = f"{{ {command}\n}} >{shlex.quote(into)}"
        self.host.under_test.run(["/bin/sh", "-c", script], env=environment, check=False, timeout_s=_PREPARE_S, root=True)

    def blames(self, problem: str) -> str:
        """The problem of a transfer, without secrets. Raises LabFault if the endpoint has ended meanwhile."""
        if why := self.ended():
            raise LabFault(f"{why} during a transfer", remedy="its log says more")
        return self.service.hide(problem)

    def ended(self) -> str:
        return self.service.hide(super().ended())

    def error_log(self) -> str:
        return self.service.hide(super().error_log())


def launch(
    host: Host, told: EndpointFile, *, server: str, user: str, ca_path: str, random_bytes: Callable[[int], bytes]
) -> EndpointServer:
    """Start it without waiting. The certificate and the SSH keys of the run are on the host already.

    Raises LabFault where a command of the file fails, UsageProblem where the host has no such program.
    """
    own = host.workdir / told.name
    words = _words(host, told, own, server=server, user=user, ca_path=ca_path, random_bytes=random_bytes)
    image = host.under_test.image
    credentials = {name: fill(text, words) for name, text in told.credentials.items()}
    service = Service(told, words, credentials, image_root(host) if image else "")
    if told.users:
        _add_users(host, told)
    host.write(host.workdir / "upload" / ".keep", b"")
    host.write(host.workdir / "files" / ".keep", b"")
    host.write(own / ".keep", b"")
    for name, text in told.files.items():
        host.write(own / name, service.fill(text).encode())
    as_root = told.user == "root" or (image is not None and not image.uid)
    if image and not as_root:
        places = [str(own), *(str(host.workdir / name) for name in ("upload", "nginx", "sshd"))]
        host.run(["chown", "-R", f"{image.uid}:{image.gid}", *places], root=True)
    if as_root:
        # Servers that start as root refuse a configuration that another user may write.
        host.run(["chown", "-R", "0:0", str(own)], root=True)
    if told.prepare:
        _run(host, service, service.fill(told.prepare), "prepare")
    argv = [service.fill(word) for word in shlex.split(told.start)] or [*(image.argv if image else ())]
    if not argv:
        raise UsageProblem(f"endpoint {told.name}: its image has no command", remedy="write one in start")
    environment = _environment(host, service)
    process = host.under_test.start(argv, env=environment, cwd=image.folder if image else str(own), root=as_root)
    log = PurePath(service.fill(told.log)) if told.log else None
    return EndpointServer(f"endpoint {told.name}", host, (process,), _checks(host, told), log, service=service)


def wait_until_ready(endpoint: EndpointServer) -> None:
    """Until it answers. Raises LabFault with the endpoint's own words."""
    told = endpoint.service.file
    try:
        wait_ready([endpoint], deadline_s=told.ready.within.ns / 1e9)
    except LabFault as fault:
        if endpoint.ended():
            raise
        done = endpoint.processes[0].stop()
        words = (endpoint.error_log() or (done.stderr + done.stdout).decode(errors="replace")).strip().splitlines()
        last = f"; its last words: {words[-1][:200]}" if words else ""
        raise LabFault(
            endpoint.service.hide(f"{endpoint.name}: {_awaited(told)} after {told.ready.within}{last}"),
            remedy="see ports, ready and within in its file",
        ) from fault


def _awaited(told: EndpointFile) -> str:
    """The missing answer, in words."""
    port = told.ports[told.ready.port or next(iter(told.ports))]
    if told.ready.banner:
        return f"no greeting {told.ready.banner!r} on port {port}"
    if told.ready.http:
        return f"no answer below 500 to GET {told.ready.http} on port {port}"
    return f"nothing listens on {'UDP ' if told.ready.udp else ''}port {port}"


def image_root(host: Host) -> str:
    """The path by which the host's own programs see the root of its image."""
    return f"{host.workdir.parent}/userland/{host.name}"


def _environment(host: Host, service: Service) -> Mapping[str, str]:
    """The variables of the host's image, and those of the file."""
    own = {name: service.fill(text) for name, text in service.file.environment.items()}
    return {**(host.under_test.image.environment if host.under_test.image else {}), **own}


def _run(host: Host, service: Service, command: str, what: str) -> None:
    """Run commands of the file on its host. Raises LabFault."""
    told = service.file
    done = host.under_test.run(
        ["/bin/sh", "-ec", command],
        env=_environment(host, service),
        cwd=str(host.workdir / told.name),
        root=told.user == "root" or host.under_test.image is not None,
        check=False,
        timeout_s=_PREPARE_S,
    )
    if done.returncode:
        raise LabFault(service.hide(f"endpoint {told.name}: {what} failed ({done.returncode}): {done.error_text}"))


def _words(
    host: Host,
    told: EndpointFile,
    own: PurePath,
    *,
    server: str,
    user: str,
    ca_path: str,
    random_bytes: Callable[[int], bytes],
) -> dict[str, str]:
    program = host.under_test.place(told.program) if "/" in told.program else told.program
    if program and "/" not in program:
        program = host.under_test.program(program)
    return {
        "program": program,
        "root": str(host.workdir),
        "workdir": str(own),
        "address": host.address,
        "server": server,
        "user": user,
        "cert": str(host.workdir / "nginx" / "server.pem"),
        "key": str(host.workdir / "nginx" / "server.key"),
        "ca": ca_path,
        "host_key": str(host.workdir / "sshd" / "host_key"),
        "authorized_keys": str(host.workdir / "sshd" / "authorized_keys"),
        **{f"port.{name}": str(number) for name, number in told.ports.items()},
        **{f"secret.{name}": random_bytes(_SECRET_BYTES).hex() for name in told.secrets},
    }


def _add_users(host: Host, told: EndpointFile) -> None:
    lines = [(f"{name}:x:{uid}:{uid}::/:/bin/sh", f"{name}:x:{uid}:") for uid, name in enumerate(told.users, _FIRST_UID)]
    for file, rows in zip(("/etc/passwd", "/etc/group"), zip(*lines, strict=True), strict=True):
        host.run(["/bin/sh", "-c", _ADD_ROWS, file, *rows], root=True)


def _checks(host: Host, told: EndpointFile) -> tuple[str, ...]:
    """Lines of `ready_script`."""
    port = told.ports[told.ready.port or next(iter(told.ports))]
    place = f"{host.address or '127.0.0.1'},{port}"
    if told.ready.udp:
        return (f"udp,{place}",)
    if told.ready.banner:
        return (f"banner,{place},{told.ready.banner}",)
    return (f"answer,{place},{told.ready.http}",) if told.ready.http else (f"listen,{place}",)
