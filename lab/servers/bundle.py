"""The servers of a network and what a client needs to reach them, started together."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from lab.hosts import loopback
from lab.hosts.clocks import REAL, Clock, workers
from lab.hosts.host import Host
from lab.hosts.wiring import Addresses
from lab.model.endpoints import CA_FILE, KNOWN_HOSTS_FILE, SSH_KEY_FILE, Endpoints
from lab.servers import aioquic as aioquic_server
from lab.servers import endpoint as described
from lab.servers import iperf3 as iperf3_server
from lab.servers import nginx as nginx_server
from lab.servers import sshd as sshd_server
from lab.servers.certificates import make_certificates
from lab.servers.endpoint import EndpointServer
from lab.servers.nginx import NginxServer
from lab.servers.payload import Payload, PayloadSet, write_payload, write_payload_set
from lab.servers.process import ServerProcess, wait_ready
from lab.servers.sshd import Sshd, SshdOptions

if TYPE_CHECKING:
    from lab.model.endpoint import EndpointFile
    from lab.model.userland import Http3Server
    from lab.model.wiring import Ip, Wiring

DEFAULT_PAYLOADS = (5 * 1024 * 1024,)
ServerName = Literal["nginx", "sshd", "iperf3"]
SERVERS: tuple[ServerName, ...] = get_args(ServerName)


class Ends(Protocol):
    """The part of a network that servers need: the host they run on and the client that gets their credentials."""

    @property
    def client(self) -> Host: ...

    @property
    def server(self) -> Host: ...


@dataclass(frozen=True)
class Places:
    """Addresses and ports of the servers, and the user who logs in. Tests may run them outside a lab."""

    server_name: str = "server"
    bind: str = "0.0.0.0"  # noqa: S104 - the lab's own network namespace
    http_port: int = nginx_server.HTTP_PORT
    https_port: int = nginx_server.HTTPS_PORT
    ssh_port: int = sshd_server.PORT
    iperf3_port: int = iperf3_server.PORT
    ssh_user: str = "lab"
    sshd: str | PurePath | None = None
    nginx_user: str = ""
    bind_6: str = ""
    """An IPv6 address for nginx and sshd to listen on too."""
    ip: Ip = 4
    """The families under which `server_name` is known."""


SAME_HOST = Places(server_name=loopback.NAME, bind=loopback.ADDRESS, bind_6=loopback.ADDRESS_6)
"""The servers of a host that is its own client: on both loopback addresses, as `localhost`."""


def places(wiring: Wiring) -> Places:
    """The places of the servers of a network that is wired so."""
    if wiring.same_host:
        return SAME_HOST
    return Places(bind_6=Addresses().server_6, ip=wiring.ip) if wiring.has_ipv6 else Places()


def serving_host(host: Host, protocol: str) -> Host:
    """The server's host as the programs that serve this protocol see it: with a userland's root, or with the machine's."""
    return sshd_server.of_host(host)[0] if protocol == "sftp" else host.under_test


@dataclass
class Servers:
    """Running servers. `endpoints` is what adapters get; `environment` is the same for a person's shell."""

    network: Ends
    nginx: NginxServer
    sshd: Sshd
    iperf3: ServerProcess
    ca_pem: bytes
    endpoints: Endpoints
    aioquic: ServerProcess | None = None
    endpoint: EndpointServer | None = None
    """The endpoint that runs in the place of the lab's own servers."""
    _payloads: dict[tuple[str, int], Payload] = field(default_factory=dict)
    _sets: dict[tuple[str, int, int], PayloadSet] = field(default_factory=dict)
    _uploads: Iterator[int] = field(default_factory=count)

    @property
    def environment(self) -> dict[str, str]:
        """Variables for `lab shell`, so that curl and OpenSSL programs trust the run's CA; the other names explain themselves."""
        ends = self.endpoints
        return {
            "CURL_CA_BUNDLE": ends.ca_path,
            "SSL_CERT_FILE": ends.ca_path,
            "LAB_CA": ends.ca_path,
            "LAB_SSH_KEY": ends.ssh_key_path,
            "LAB_KNOWN_HOSTS": ends.known_hosts_path,
            "LAB_SSH_USER": ends.ssh_user,
            "LAB_SERVER_FILES": ends.server_workdir + "/files",
            **(ends.service.environment if ends.service else {}),
        }

    def payload(self, host: Host, size: int) -> Payload:
        """The payload of that size on that host, written at its first use."""
        key = (host.name, size)
        if key not in self._payloads:
            self._payloads[key] = write_payload(host, size)
            if self.endpoint and host.name == self.network.server.name:
                self.endpoint.seed(self._payloads[key].name)
        return self._payloads[key]

    def payload_set(self, host: Host, size: int, count: int) -> PayloadSet:
        """The set of `count` files of that size on that host; the first call writes it."""
        key = (host.name, size, count)
        if key not in self._sets:
            self._sets[key] = write_payload_set(host, size, count)
        return self._sets[key]

    def next_upload_name(self, payload: str) -> str:
        """Never the same twice on one server, so that an earlier upload cannot be taken for this one."""
        return f"{next(self._uploads)}-{payload}"

    @property
    def all(self) -> tuple[ServerProcess, ...]:
        more = (each for each in (self.aioquic, self.endpoint) if each)
        return (self.nginx, self.sshd, self.iperf3, *more)

    def error_log(self) -> str:
        """The servers' error logs: evidence for a failed cell."""
        logs = ((server.name, server.error_log().strip()) for server in self.all)
        return "".join(f"== {name}\n{log}\n" for name, log in logs if log)

    def stop(self) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda server: server.stop(), self.all))


def start_servers(
    network: Ends,
    *,
    payload_sizes: Iterable[int] = DEFAULT_PAYLOADS,
    places: Places = Places(),
    sshd_options: SshdOptions | None = None,
    clock: Clock = REAL,
    random_bytes: Callable[[int], bytes] = os.urandom,
    wanted: Collection[ServerName] = SERVERS,
    http3: Http3Server | None = None,
    endpoint: EndpointFile | None = None,
) -> Servers:
    """Start those that are `wanted`, write payloads and credentials, and return when each answers a real request.

    An `endpoint` runs in their place: its host then has their keys and certificates, and none of them runs.

    Raises LabFault with the server's own message; nothing is left running then.
    """
    host, client = network.server, network.client
    if endpoint:
        wanted, http3 = (), None
    bind_6 = places.bind_6 if places.bind_6 and loopback.has_ipv6(host) else ""
    certificates = make_certificates(
        [host.address, "127.0.0.1", bind_6],
        names=dict.fromkeys((places.server_name, "server", "localhost")),
        now=clock.now(),
        random_bytes=random_bytes,
    )
    with ExitStack() as started, workers(clock, 8) as pool:
        nginx_job = pool.submit(
            nginx_server.launch,
            host,
            certificates,
            http_port=places.http_port,
            https_port=places.https_port,
            bind=places.bind,
            bind_6=bind_6,
            worker_user=places.nginx_user,
            begin="nginx" in wanted,
            http3=http3 == "nginx",
        )
        sshd_job = pool.submit(
            sshd_server.launch,
            host,
            sshd=places.sshd,
            port=places.ssh_port,
            bind=places.bind,
            bind_6=bind_6,
            names=(places.server_name,),
            options=sshd_options or SshdOptions(),
            random_bytes=random_bytes,
            begin="sshd" in wanted,
        )
        iperf3_job = pool.submit(iperf3_server.launch, host, port=places.iperf3_port, bind=places.bind, begin="iperf3" in wanted)
        aioquic_job = pool.submit(
            aioquic_server.launch,
            host,
            certificates,
            port=places.https_port,
            bind=places.bind,
            begin=http3 == "aioquic" and "nginx" in wanted,
        )
        payload_jobs = [pool.submit(write_payload, host, size) for size in payload_sizes]
        servers: list[ServerProcess] = []
        failures: list[BaseException] = []
        for job in (nginx_job, sshd_job, iperf3_job, aioquic_job):
            if problem := job.exception():
                failures.append(problem)
            else:
                servers.append(job.result())
                started.callback(servers[-1].stop)
        if failures:
            raise failures[0]
        endpoints = _endpoints(host, client, places)
        writes = [
            pool.submit(client.write, endpoints.ca_path, certificates.ca_pem),
            pool.submit(client.write, endpoints.known_hosts_path, sshd_job.result().known_hosts.encode(), mode=0o600),
            pool.submit(client.write, endpoints.ssh_key_path, sshd_job.result().user_key.private, mode=0o600),
            pool.submit(client.write, f"{endpoints.ssh_key_path}.pub", sshd_job.result().user_key.public.encode() + b"\n"),
            pool.submit(client.write, f"{endpoints.client_workdir}/out/.keep", b""),
        ]
        wait_ready(servers)
        for write in writes:
            write.result()
        running: EndpointServer | None = None
        if endpoint:
            running = described.launch(
                host,
                endpoint,
                server=places.server_name,
                user=places.ssh_user,
                ca_path=endpoints.ca_path,
                random_bytes=random_bytes,
            )
            started.callback(running.stop)
            described.wait_until_ready(running)
            endpoints = replace(endpoints, service=running.service)
        payloads = {(host.name, job.result().size): job.result() for job in payload_jobs}
        bundle = Servers(
            network,
            nginx_job.result(),
            sshd_job.result(),
            iperf3_job.result(),
            certificates.ca_pem,
            endpoints,
            aioquic_job.result() if http3 == "aioquic" else None,
            running,
            payloads,
        )
        started.pop_all()
    return bundle


def _endpoints(server: Host, client: Host, places: Places) -> Endpoints:
    return Endpoints(
        server=places.server_name,
        server_workdir=str(server.workdir),
        client_workdir=str(client.workdir),
        ca_path=str(client.workdir / CA_FILE),
        known_hosts_path=str(client.workdir / KNOWN_HOSTS_FILE),
        ssh_key_path=str(client.workdir / SSH_KEY_FILE),
        ssh_user=places.ssh_user,
        http_port=places.http_port,
        https_port=places.https_port,
        ssh_port=places.ssh_port,
        ip=places.ip,
    )
