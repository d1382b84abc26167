"""Every client over SFTP, against the lab's sshd: one file and sets, both ways, what arrived checked by the lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.assets import tools
from lab.clients.registry import adapter_for
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.model.errors import UsageProblem
from lab.model.link import Link
from lab.model.results import Sample
from lab.model.transfer import Transfer
from lab.model.units import BitRate, ByteRate, Duration, Size
from lab.net.pins import pin
from lab.net.shape import shape
from lab.run.sample import take_sample
from lab.servers.bundle import Servers, start_servers
from lab.servers.sshd import SshdOptions

CLIENTS = ("ferry", "curl", "openssh", "lftp", "rclone")
FILES, FILE_SIZE = 230, 3_000
# Several times what buffers on the way take at once: OpenSSH has its limit ahead of what it reads.
LIMITED = 6_000_000


def start(network: VirtualNetwork, sshd_options: SshdOptions | None = None) -> Servers:
    return start_servers(
        network, payload_sizes=(), sshd_options=sshd_options, clock=network.clock, random_bytes=network.random_bytes
    )


@pytest.fixture(scope="module")
def lab() -> Iterator[tuple[VirtualNetwork, Servers]]:
    """A link with a round trip, so that a client that waits for each file shows in the files' times."""
    network = open_network()
    try:
        pin(network, "cubic")
        shape(network, Link(rate=BitRate.parse("100 Mbit/s"), rtt=Duration.parse("4 ms")))
        yield network, start(network)
    finally:
        network.close()


def transfer(direction: str, size: int, **more: Any) -> Transfer:
    return Transfer.model_validate({"protocol": "sftp", "direction": direction, "size": Size(size), **more})


def sample(lab: tuple[VirtualNetwork, Servers], client: str, wanted: Transfer) -> Sample:
    program = "sftp" if client == "openssh" else client
    if client != "ferry" and tools.find(program) is None:
        pytest.skip(f"{program} is not installed ({tools.remedy(program)})")
    network, servers = lab
    adapter = adapter_for(client)
    assert adapter.supports(wanted) == ""
    found = adapter.identify(network.client)
    assert found.version
    assert len(found.sha256) == 64
    taken = take_sample(network, servers, adapter, wanted, 0, timeout_s=60)
    assert taken.problem == ""
    assert taken.ok
    assert taken.expected_bytes == wanted.total_bytes
    assert Sample.model_validate_json(taken.model_dump_json()) == taken
    return taken


@pytest.mark.parametrize("direction", ["get", "put"])
@pytest.mark.parametrize("client", CLIENTS)
def test_one_file(lab: tuple[VirtualNetwork, Servers], client: str, direction: str) -> None:
    taken = sample(lab, client, transfer(direction, 3_000_000))
    assert taken.client
    assert taken.client.bytes in (None, 3_000_000)
    assert taken.body_clock == "wire"
    assert taken.body_s
    assert taken.body_s < taken.wall_s
    assert taken.wire
    assert taken.wire.payload_bytes > 3_000_000
    assert taken.file_times_s == []


def test_a_limited_download_ends_when_the_client_has_taken_it(lab: tuple[VirtualNetwork, Servers]) -> None:
    """The last byte is in its receive queue while the client is still reading at its limit."""
    limited = transfer("get", 1_000_000).model_copy(update={"limit": ByteRate(1_000_000)})
    taken = sample(lab, "openssh", limited)
    assert taken.body_clock == "wire"
    assert taken.body_s
    assert taken.series
    assert taken.body_s > 0.5
    put = sample(lab, "openssh", limited.model_copy(update={"direction": "put"}))
    assert put.body_clock == "wire"


@pytest.mark.parametrize("direction", ["get", "put"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_set_of_files(lab: tuple[VirtualNetwork, Servers], client: str, direction: str) -> None:
    taken = sample(lab, client, transfer(direction, FILE_SIZE, files=FILES))
    assert len(taken.file_times_s) == FILES
    assert taken.file_times_s == sorted(taken.file_times_s)
    assert taken.file_times_s[-1] <= taken.wall_s
    assert taken.first_hundred_s_per_file is not None
    assert taken.last_hundred_s_per_file is not None
    assert taken.total_byte_s


@pytest.mark.parametrize("direction", ["get", "put"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_limit_and_a_buffer_size_are_taken(lab: tuple[VirtualNetwork, Servers], client: str, direction: str) -> None:
    """The line carries this in half a second; a client that ignores its limit of a tenth of the line is seen on the wire."""
    more = {} if client == "curl" else {"buffer_size": Size(16 << 10)}
    taken = sample(lab, client, transfer(direction, LIMITED, limit=ByteRate(1_250_000), **more))
    assert taken.body_clock == "wire"
    assert taken.body_s
    assert 0.7 < taken.body_s * 1_250_000 / LIMITED < 1.5


def test_an_sshd_that_refuses_sessions_and_offers_one_cipher() -> None:
    network = open_network()
    try:
        pin(network, "cubic")
        servers = start(network, SshdOptions(max_sessions=0, ciphers="aes256-ctr"))
        found = take_sample(network, servers, adapter_for("openssh"), transfer("get", 1000), 0, timeout_s=20)
        assert not found.ok
        ends = servers.endpoints
        words = ["ssh", "-v", "-F", "none", "-i", ends.ssh_key_path, "-o", f"UserKnownHostsFile={ends.known_hosts_path}"]
        done = network.client.run([*words, f"{ends.ssh_user}@{ends.server}", "true"], check=False)
        assert b"cipher: aes256-ctr" in done.stderr
    finally:
        network.close()


def test_a_client_that_is_not_there_is_the_users_problem(lab: tuple[VirtualNetwork, Servers]) -> None:
    for client in ("openssh=/nowhere/sftp", "lftp=/nowhere/lftp", "rclone=/nowhere/rclone"):
        name, _, path = client.partition("=")
        with pytest.raises(UsageProblem, match=f"there is no {path}"):
            adapter_for(name, path).identify(lab[0].client)
