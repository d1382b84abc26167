"""The client's cases of quic-interop-runner (`quic_interop.py`): ferry over HTTP/3 against aioquic, in virtual time."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.assets.userlands import Userland
from lab.clients.ferry import find_ferry
from lab.hosts import loopback
from lab.hosts.namespaces.network import SERVER_ADDRESS
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.judge.tolerance import LookPlan
from lab.link.theory import ETHERNET_HEADER_BYTES
from lab.model.cell import Cell
from lab.model.link import Link
from lab.model.results import CellResult
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.wiring import Wiring
from lab.net.shape import shape
from lab.run.session import Options, Session
from lab.servers import aioquic
from lab.servers.certificates import make_certificates
from lab.servers.process import ServerProcess, wait_ready
from lab.store.run_dir import RunDir
from tests.conformance.quic_interop import CASES, has_test
from tests.support import debian_13

pytestmark = pytest.mark.timeout(2400)
# The link of the runner's cases, and its round trip (`simple-p2p`).
LINE = {"rate": "10 Mbit/s", "rtt": "30 ms"}
# What the runner drops or damages, and how long all connections of such a case may take together (it gives 50 of them 300 s).
HANDSHAKE, TRANSFER = "30 %", "2 %"
HANDSHAKES, TOGETHER_S = 20, 120
OUTAGES = {"repeat": "7100 ms", "steps": [{"at": "5 s", "outage": "2 s"}]}
PORT, CONTENT = 4433, bytes(range(250)) * 12_000
SCRIPT, LABS_SCRIPT = Path(__file__).with_name("quic_server_script.py"), Path(aioquic.__file__).with_name("aioquic_script.py")
SERVER = ipaddress.IPv4Address(SERVER_ADDRESS).packed
_UDP, _ECN, _ECT_0 = 17, 3, 2


@pytest.fixture(scope="session")
def debian() -> Userland:
    return debian_13.require()


@pytest.fixture(scope="module")
def network(debian: Userland) -> Iterator[VirtualNetwork]:
    made = open_network(seed=1, userlands={"server": debian})
    yield made
    made.close()


def run(
    folder: Path,
    samples: int,
    transfer: dict[str, Any],
    schedule: dict[str, Any] | None = None,
    *,
    pcap: bool = False,
    **link: Any,
) -> CellResult:
    """ferry's transfers over HTTP/3, each a connection of its own."""
    topology = {
        "name": "interop",
        "description": "-",
        "link": {**LINE, **link},
        "schedule": schedule,
        "userlands": {"server": "debian:13", "http3": "aioquic"},
    }
    cell = Cell(
        client=ClientSpec(name="ferry"),
        topology=Topology.model_validate(topology),
        transfer=Transfer.model_validate({"protocol": "h3", "direction": "get", **transfer}),
        expectation=Expectation(kind="none"),
    )
    options = Options(clock="virtual", pcap=pcap, virtual_looks=LookPlan(looks=(samples, samples + 1)))
    with Session(RunDir.create("interop", results=folder), options) as session:
        return session.run_cell(cell)


@pytest.mark.usefixtures("debian")
@pytest.mark.parametrize(
    ("samples", "transfer", "more"),
    [
        pytest.param(2, {"size": "10 kB"}, {}, id="handshake"),
        pytest.param(2, {"size": "3 MB", "files": 3, "parallel": 3}, {}, id="transfer"),
        pytest.param(2, {"size": "10 kB"}, {"rtt": "1500 ms"}, id="longrtt"),
        pytest.param(2, {"size": "32 B", "files": 200, "parallel": 100}, {}, id="multiplexing"),
        pytest.param(2, {"size": "500 kB", "files": 3, "parallel": 3}, {}, id="http3"),
        pytest.param(2, {"size": "10 MB"}, {"schedule": OUTAGES}, id="blackhole"),
        pytest.param(2, {"size": "2 MB"}, {"loss": TRANSFER}, id="transferloss"),
        pytest.param(2, {"size": "2 MB"}, {"corrupt": TRANSFER}, id="transfercorruption"),
        pytest.param(2, {"size": "10 MB"}, {}, id="goodput"),
    ],
)
def test_the_client_gets_its_files(samples: int, transfer: dict[str, Any], more: dict[str, Any], tmp_path: Path) -> None:
    result = run(tmp_path, samples, transfer, **more)
    assert result.verdict.name == "PASS", result.verdict.reason
    assert len(result.samples) >= samples
    assert {sample.client.http_version for sample in result.samples if sample.client} == {"3"}


def serve(network: VirtualNetwork, what: str, name: str, address: str, content: bytes) -> ServerProcess:
    """aioquic, which insists on one thing."""
    server, client = network.server, network.client
    # A chain of several kilobytes: three times an Initial packet is not enough for it.
    names = [f"a-name-that-makes-the-certificate-longer-{number}.example" for number in range(200)]
    long = names if what == "amplificationlimit" else []
    made = make_certificates([address], names=[name, *long], now=network.clock.now(), random_bytes=network.random_bytes)
    own = server.workdir / what
    server.write(own / "server.pem", made.server_pem)
    server.write(own / "server.key", made.server_key_pem, mode=0o600)
    server.write(own / "files" / "content", content)
    client.write(client.workdir / what / "ca.pem", made.ca_pem)
    server.write(own / "lab" / "servers" / "aioquic_script.py", LABS_SCRIPT.read_bytes())
    # With site-packages, where the library is: not as `script_command`.
    words = [server.under_test.program("python3"), "-I", "-c", SCRIPT.read_text(encoding="utf-8"), address, str(PORT)]
    process = server.under_test.start([*words, str(own), str(own / "server.pem"), str(own / "server.key"), what])
    return ServerProcess("aioquic", server, (process,), (f"udp,{address},{PORT}",))


def assert_served(
    network: VirtualNetwork,
    what: str,
    name: str,
    address: str,
    *,
    content: bytes = CONTENT,
    times: int = 1,
    options: Sequence[str] = (),
) -> None:
    """ferry gets the file from a server that insists on that, over a connection of its own each time."""
    client = network.client
    program, own = client.workdir / "ferry", client.workdir / what
    client.copy(find_ferry(), program, mode=0o755)
    served = serve(network, what, name, address, content)
    try:
        wait_ready([served])
        words = ["get", "--http3", "--cacert", str(own / "ca.pem"), "--overwrite", "-o", str(own / "got"), *options]
        took_s = 0.0
        for _ in range(times):
            done = client.run([str(program), *words, f"https://{name}:{PORT}/files/content"], timeout_s=TOGETHER_S, check=False)
            assert done.returncode == 0, done.error_text
            assert client.read(own / "got") == content
            client.run(["rm", str(own / "got")])
            took_s += done.wall_s
        assert took_s < TOGETHER_S
    finally:
        served.stop()


@pytest.mark.parametrize("what", ["retry", "chacha20", "keyupdate", "amplificationlimit"])
def test_the_server_insists(network: VirtualNetwork, what: str) -> None:
    assert_served(network, what, "server", network.server.address)


@pytest.mark.parametrize("kind", ["loss", "corrupt"])
def test_handshakes_get_through(network: VirtualNetwork, kind: str) -> None:
    """A kilobyte each. No calibration could measure such a link."""
    shape(network, Link.model_validate({**LINE, kind: HANDSHAKE}))
    try:
        # One handshake in 80 takes more than ferry's own 10 s. The limit is on all of them, as the runner's.
        patient = ["--timeout-connect", str(TOGETHER_S)]
        address = network.server.address
        assert_served(network, kind, "server", address, content=bytes(1000), times=HANDSHAKES, options=patient)
    finally:
        shape(network, Link())


def test_over_ipv6(debian: Userland) -> None:
    """Only over the loopback: the lab's links have IPv4."""
    made = open_network(seed=1, userlands={"server": debian}, wiring=Wiring(same_host=True))
    try:
        assert_served(made, "nothing", loopback.NAME, loopback.ADDRESS_6)
    finally:
        made.close()


@pytest.mark.usefixtures("debian")
def test_packets_can_be_marked(tmp_path: Path) -> None:
    """ferry's packets can ECN, until aioquic acknowledges the first of them without a count of marks (RFC 9000, 13.4.2)."""
    run(tmp_path, 2, {"size": "10 kB"}, pcap=True)
    packets = [*_packets(next(tmp_path.rglob("*.pcap")).read_bytes())]
    sent = [packet for packet in packets if packet[9] == _UDP and packet[16:20] == SERVER]
    assert sent[0][1] & _ECN == _ECT_0
    assert sent[-1][1] & _ECN == 0


def _packets(pcap: bytes) -> Iterator[bytes]:
    """The IP packets of a capture of Ethernet frames (libpcap's format)."""
    at = 24
    while at < len(pcap):
        (size,) = struct.unpack_from("<I", pcap, at + 8)
        yield pcap[at + 16 + ETHERNET_HEADER_BYTES : at + 16 + size]
        at += 16 + size


def test_every_case_names_tests_that_exist_or_a_reason() -> None:
    assert len({case.name for case in CASES}) == len(CASES) == 24
    for case in CASES:
        assert bool(case.tests) != bool(case.why), case.name
        assert [test for test in case.tests if not has_test(test)] == [], case.name


@pytest.mark.parametrize(
    "test",
    [
        "tests/conformance/test_quic_interop.py::test_there_is_none",
        f"tests/conformance/test_quic_interop.py::test_the_server_insists[{chr(120) * 9}]",
        "tests/there/is/none.py::test_x",
        "suites/faults.robot::There Is None",
        "engine/crates/ferry-engine/tests/http3.rs::there_is_none",
    ],
)
def test_a_name_without_a_test_is_noticed(test: str) -> None:
    assert not has_test(test)
