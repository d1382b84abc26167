"""Programs of a real Debian 13 in virtual time, HTTP/3 among them, and roots that lack what a cell needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.assets.userlands import Userland
from lab.hosts.host import Host
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.errors import EXIT_PASS, EXIT_USAGE, UsageProblem
from lab.model.load import load_topology
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import Size
from lab.model.userland import Userlands
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir, read_cell
from tests.support import debian_13
from tests.support.command import lab, one_line
from tests.virtual.boots import CLEAN, LOSSY, SAMPLES, cell_of, run
from tests.virtual.thousand import HTTP3_CLIENTS

pytestmark = pytest.mark.timeout(2400)
_LONGEST_S = 600


@pytest.fixture(scope="session")
def debian() -> Userland:
    return debian_13.require()


@pytest.fixture(scope="module")
def network(debian: Userland) -> Iterator[VirtualNetwork]:
    """The client's programs are Debian 13's, the server's are the machine's."""
    made = open_network(seed=1, userlands={"client": debian})
    yield made
    made.close()


def said(host: Host, *argv: str) -> str:
    return host.run(argv).text


def test_the_programs_under_test_are_the_userlands_and_the_labs_are_the_machines(network: VirtualNetwork) -> None:
    own = Path("/etc/os-release").read_text(encoding="utf-8")
    assert "VERSION_CODENAME=trixie" in said(network.client.under_test, "cat", "/etc/os-release")
    assert said(network.client, "cat", "/etc/os-release") == own
    assert network.server.under_test is network.server
    assert network.client.under_test.program("curl") == "/usr/bin/curl"
    with pytest.raises(UsageProblem, match=f"there is no nothing-of-the-kind on host client in userland {debian_13.NAME}"):
        network.client.under_test.program("nothing-of-the-kind")


def test_a_userland_has_the_labs_names_and_shares_the_hosts_files(network: VirtualNetwork) -> None:
    inside, outside = network.client.under_test, network.client
    assert said(inside, "cat", "/etc/hosts") == said(outside, "cat", "/etc/hosts")
    assert said(inside, "id", "-un") == said(outside, "id", "-un")
    outside.write(outside.workdir / "note", b"seen")
    assert said(inside, "cat", "note") == "seen"
    assert "10.77.1.2" in said(inside, "cat", "/proc/self/net/fib_trie")
    assert inside.run(["sh", "-c", "echo x >/usr/bin/new"], check=False).returncode, "its root is read-only"
    assert not inside.run(["sh", "-c", "echo x >/tmp/new"], check=False).returncode


def test_a_program_that_it_lacks_does_not_exist_and_the_machines_root_is_back(network: VirtualNetwork) -> None:
    inside = network.client.under_test
    assert inside.run(["/work/not/there"], check=False).returncode == 127
    assert inside.run(["tcpdump", "--version"], check=False).returncode == 127, "the machine's own program is outside"
    assert said(network.client, "readlink", "/proc/self/root") == "/\n"


@pytest.mark.parametrize("topology", [CLEAN, LOSSY], ids=lambda topology: topology.name)
@pytest.mark.parametrize("client", HTTP3_CLIENTS)
def test_one_seed_gives_the_same_packets_over_http3(debian: Userland, client: str, topology: Topology, tmp_path: Path) -> None:
    cell = cell_of("h3", topology, client=client)
    result, first = run(cell, 1, tmp_path)
    assert result.verdict.name == "PASS", result.verdict.reason
    assert len(set(first.captures)) == SAMPLES, "samples of one cell differ on purpose"
    assert run(cell, 1, tmp_path)[1] == first
    assert run(cell, 2, tmp_path)[1] != first
    hosts = ("server",) if client == "ferry" else ("client", "server")
    assert {host: found.digest for host, found in result.userlands.items()} == dict.fromkeys(hosts, debian.facts.digest)


def test_http3_is_spoken_and_what_the_wire_cannot_tell_is_null(debian: Userland, tmp_path: Path) -> None:
    result, _ = run(cell_of("h3", LOSSY, size="1 MiB", limit=None, client="curl@debian13"), 1, tmp_path)
    for sample in result.samples:
        assert sample.client is not None
        assert sample.wire is not None
        assert (sample.client.http_version, sample.body_clock) == ("3", "wire")
        assert sample.wire.retransmits is None
        assert 1 << 20 < sample.wire.payload_bytes < 1.08 * (1 << 20)
        assert sample.body_s is not None
        # A first datagram that is lost makes the client see its first byte later than the wire does.
        assert sample.said_body_s == pytest.approx(sample.body_s, abs=0.2)
    assert result.userlands["server"].packages["nginx"] == debian.facts.packages["nginx"]


def test_the_servers_userland_serves_sftp_and_its_digest_counts_for_the_bytes(debian: Userland, tmp_path: Path) -> None:
    cell = cell_of("sftp", CLEAN, client="openssh")
    looks = LookPlan(looks=(SAMPLES, SAMPLES + 1))
    options = Options(clock="virtual", virtual_looks=looks, userlands=Userlands(server=debian_13.NAME))
    with Session(RunDir.create("sftp", results=tmp_path), options) as session:
        result = session.run_cell(cell)
        network, servers = session.lab.up
        port = f"/dev/tcp/{network.server.address}/{servers.sshd.port}"
        hello = said(network.client, "bash", "-c", f"head -1 <{port}").strip()
        own = network.server.under_test.run(["sshd", "-V"], check=False).error_text.partition(",")[0].strip()
    assert result.verdict.name == "PASS", result.verdict.reason
    assert own.startswith("OpenSSH_")
    assert hello == f"SSH-2.0-{own}"
    assert result.virtual is not None
    assert result.virtual.counts["server's userland"] == debian.facts.digest
    assert "server" not in result.virtual.counts


@pytest.mark.parametrize("direction", ["get", "put"])
def test_aioquic_serves_http3_in_place_of_nginx(debian: Userland, direction: str, tmp_path: Path) -> None:
    transfer = Transfer.model_validate({"protocol": "h3", "direction": direction, "size": Size.parse("256 KiB")})
    cell = Cell(
        client=ClientSpec(name="ferry"),
        topology=load_topology("aioquic-20"),
        transfer=transfer,
        expectation=Expectation(kind="none"),
    )
    looks = LookPlan(looks=(SAMPLES, SAMPLES + 1))
    with Session(RunDir.create("aioquic", results=tmp_path), Options(clock="virtual", virtual_looks=looks)) as session:
        result = session.run_cell(cell)
        network, servers = session.lab.up
        assert servers.aioquic in servers.all
        assert "quic" not in network.server.read(network.server.workdir / "nginx" / "nginx.conf").decode()
    assert result.verdict.name == "PASS", result.verdict.reason
    assert result.userlands["server"].packages["python3-aioquic"] == debian.facts.packages["python3-aioquic"]


def test_a_folder_is_a_userland_and_one_without_the_program_is_refused_in_one_line(debian: Userland, tmp_path: Path) -> None:
    empty = tmp_path / "root"
    (empty / "usr/bin").mkdir(parents=True)
    cell = "curl--dsl-20--http1-get-256KiB"
    places = {"ROUGHWATER_RESULTS": str(tmp_path / "results")}
    refused = lab("run", cell, "--userland", f"client={empty}", env=places, timeout=_LONGEST_S)
    assert refused.returncode == EXIT_USAGE
    assert one_line(refused).startswith("lab: client curl: there is no curl on host client in userland")
    done = lab("run", cell, "--userland", f"client={debian.root}", "--max-samples", "5", env=places, timeout=_LONGEST_S)
    assert done.returncode == EXIT_PASS, done.stderr
    found = read_cell(next(RunDir.find("latest", results=tmp_path / "results").cells.glob("*.json")))
    assert (list(found.userlands), found.client.version.split()[1]) == (["client"], debian.facts.packages["curl"].split("-")[0])
    assert found.userlands["client"].packages == debian.facts.packages
