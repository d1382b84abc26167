"""One network, one faulty server and one nginx for all of these tests; each test has a folder and a word of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lab.assets.uml import find as find_uml
from lab.backend.namespaces.network import NamespaceNetwork, open_network
from lab.client.ferry import Ferry
from lab.network.pins import pin
from lab.network.shape import shape
from lab.server.ca import Certificates
from lab.server.nginx import NginxServer, render_config
from lab.server.nginx import start as start_nginx
from lab.spec.models import Link
from lab.spec.units import BitRate, Duration
from tests.engine.harness import Bench, Faulty, start_faulty_server

LINK = Link(rate=BitRate.parse("100 Mbit/s"), rtt=Duration.parse("2 ms"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/engine" in str(item.path):
            item.add_marker(pytest.mark.network)


@pytest.fixture(scope="module")
def network() -> Iterator[NamespaceNetwork]:
    if find_uml() is None:
        pytest.fail("the User-Mode Linux router has not been built: run `make setup`")
    made = open_network()
    try:
        pin(made, "cubic")
        shape(made, LINK)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def ferry(network: NamespaceNetwork) -> str:
    """The program's path on the client."""
    adapter = Ferry()
    adapter.identify(network.client)
    return f"{network.client.workdir}/bin/{adapter.name}/ferry"


@pytest.fixture(scope="module")
def faulty(network: NamespaceNetwork) -> Faulty:
    return start_faulty_server(network)


@pytest.fixture
def bench(network: NamespaceNetwork, ferry: str, faulty: Faulty, request: pytest.FixtureRequest) -> Bench:
    word = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    return Bench.make(network.client, ferry, faulty, word)


@dataclass
class RestartableNginx:
    """nginx that logs what it is asked for, ends a connection after 100 requests, and can be killed and started again."""

    network: NamespaceNetwork
    certificates: Certificates
    server: NginxServer | None = None

    def start(self) -> NginxServer:
        host = self.network.server
        line = "'$request_method $uri $status range=$http_range if-range=$http_if_range'"
        log = f"log_format asked {line}; access_log {host.workdir}/nginx/access.log asked;"
        config = render_config(host.workdir)
        for ours, instead in (("access_log off;", log), ("keepalive_requests 1000000;", "keepalive_requests 100;")):
            assert ours in config
            config = config.replace(ours, instead)
        self.server = start_nginx(host, self.certificates, config=config)
        return self.server

    def kill(self) -> None:
        """Master and workers at once: nobody says goodbye."""
        assert self.server is not None
        host = self.network.server
        script = 'pid=$(cat "$1"); kill -KILL $(ps -o pid= --ppid "$pid") "$pid"'
        host.run(["/bin/sh", "-ec", script, "kill", f"{host.workdir}/nginx/nginx.pid"], root=True)
        self.server.stop()

    def asked(self) -> list[str]:
        log = self.network.server.read(self.network.server.workdir / "nginx" / "access.log").decode()
        return [line for line in log.splitlines() if "/files/" in line]


@pytest.fixture
def nginx(network: NamespaceNetwork, faulty: Faulty) -> Iterator[RestartableNginx]:
    made = RestartableNginx(network, faulty.good)
    made.start()
    yield made
    if made.server is not None:
        made.server.stop()
