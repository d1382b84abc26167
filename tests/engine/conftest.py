"""Over HTTP one network, one faulty server and one nginx for all tests, over SFTP servers on the loopback.

Each test has a folder and a word of its own.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.assets.uml import find as find_uml
from lab.clients.ferry import find_ferry
from lab.hosts.namespaces.network import NamespaceNetwork, open_network
from lab.model.link import Link
from lab.model.units import BitRate, Duration
from lab.net.pins import pin
from lab.net.shape import shape
from lab.servers.certificates import Certificates
from lab.servers.nginx import NginxServer, render_config
from lab.servers.nginx import start as start_nginx
from tests.engine import sftp_servers, under_wine
from tests.engine.harness import Bench, Faulty, start_faulty_server
from tests.engine.sftp_harness import SftpBench
from tests.support.sftp_programs import LackingError

_HERE = Path(__file__).parent
# Files of tests that bring no network up.
_LOOPBACK = (
    "test_sftp",
    "test_windows",
    "test_under_wine",
    "test_hostile",
    "test_torture",
    "test_config",
    "test_versions",
    "test_invariants",
)
LINK = Link(rate=BitRate.parse("100 Mbit/s"), rtt=Duration.parse("2 ms"))


def pytest_report_header() -> list[str]:
    return under_wine.header()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            if not item.path.name.startswith(_LOOPBACK):
                item.add_marker(pytest.mark.network)
            under_wine.skip_senseless(item)


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
    adapter = under_wine.adapter()
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
        """Kill master and workers at once, without a shutdown."""
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


# Over SFTP: everything is on the loopback, and no network is brought up.


@pytest.fixture(scope="session")
def sftp_root() -> Iterator[Path]:
    """The folder of servers and clients. Not pytest's, which only its user may enter."""
    made = Path(tempfile.mkdtemp(prefix="roughwater-sftp-"))
    made.chmod(0o755)
    sftp_servers.person().owns(made)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def ssh_keys() -> sftp_servers.Keys:
    return sftp_servers.Keys()


@dataclass
class Fleet:
    """Servers that are started when the first test asks for them, and proved with OpenSSH's own client."""

    root: Path
    keys: sftp_servers.Keys
    running: dict[str, sftp_servers.SftpServer] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> sftp_servers.SftpServer:
        if name in self.lacking:
            pytest.skip(self.lacking[name])
        if name not in self.running:
            try:
                self.running[name] = self._start(name)
            except LackingError as lacking:
                self.lacking[name] = str(lacking)
                pytest.skip(str(lacking))
        return self.running[name]

    def _start(self, name: str) -> sftp_servers.SftpServer:
        kinds = {**sftp_servers.KINDS, "odd": sftp_servers.odd}
        made = kinds[name](self.root, self.keys)
        made.start()
        (made.home / "proof").write_bytes(b"proof")
        (made.home / "proof").chmod(0o666)
        login = "honest" if name == "odd" else ""
        batch = f"get {made.home}/proof {made.folder}/proof\nput {made.folder}/proof {made.home}/proof-again\n"
        sftp_servers.openssh_client(made, batch, login=login)
        assert (made.home / "proof-again").read_bytes() == b"proof"
        return made

    def stop(self) -> None:
        for server in self.running.values():
            server.stop()


@pytest.fixture(scope="session")
def fleet(sftp_root: Path, ssh_keys: sftp_servers.Keys) -> Iterator[Fleet]:
    made = Fleet(sftp_root, ssh_keys)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def local_ferry(sftp_root: Path) -> Iterator[Path]:
    """A copy of ferry that every user of the tests may execute."""
    if under_wine.wanted():
        with under_wine.program(sftp_root / "under-wine") as stand_in:
            yield stand_in
        return
    copy = sftp_root / "ferry"
    shutil.copyfile(find_ferry(), copy)
    copy.chmod(0o755)
    yield copy


@pytest.fixture
def desk(sftp_root: Path, local_ferry: Path, ssh_keys: sftp_servers.Keys, request: pytest.FixtureRequest) -> Iterator[SftpBench]:
    word = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")[:60]
    folder = sftp_root / "clients" / word
    folder.mkdir(parents=True)
    sftp_servers.person().owns(folder.parent, folder)
    made = SftpBench(local_ferry, folder, ssh_keys, word)
    try:
        yield made
    finally:
        made.stop()
        # 64 MiB a test would fill a small disk.
        shutil.rmtree(folder, ignore_errors=True)
        for home in sftp_root.glob("*/home"):
            shutil.rmtree(home / word, ignore_errors=True)


@pytest.fixture
def openssh(fleet: Fleet) -> sftp_servers.SftpServer:
    return fleet["openssh"]


@pytest.fixture
def odd(fleet: Fleet) -> sftp_servers.Odd:
    made = sftp_servers.Odd(fleet["odd"])
    made.mark()
    return made
