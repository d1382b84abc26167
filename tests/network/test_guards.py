"""The lab notices when it is not what it claims: every fault here is made to happen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.hosts.namespaces.network import CLIENT_ADDRESS, SERVER_ADDRESS, NamespaceNetwork, open_network
from lab.model.errors import LabFault
from lab.model.link import Link
from lab.model.units import BitRate, Duration
from lab.net.calibrate import calibrate
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from lab.net.shape import differences, shape
from lab.servers.iperf3 import start as start_iperf3

DSL_50 = Link(rate=BitRate.parse("50 Mbit/s"), rtt=Duration.parse("20 ms"))


@pytest.fixture(scope="module")
def shared() -> Iterator[NamespaceNetwork]:
    """For tests that only put a link of their own on it."""
    made = open_network()
    pin(made, "cubic")
    iperf3 = start_iperf3(made.server)
    yield made
    iperf3.stop()
    made.close()


def test_an_untouched_network_has_no_bypass(shared: NamespaceNetwork) -> None:
    assert_no_bypass(shared)


def test_a_cable_between_client_and_server_is_refused(network: NamespaceNetwork) -> None:
    script = f"""
        ip link add short netns client type veth peer name cut netns server
        ip -n client address add 10.9.9.1/24 dev short; ip -n client link set short up
        ip -n server address add 10.9.9.2/24 dev cut; ip -n server link set cut up
        ip -n client route add {SERVER_ADDRESS}/32 via 10.9.9.2
        ip -n server route add {CLIENT_ADDRESS}/32 via 10.9.9.1
    """
    network.wire.run(["/bin/sh", "-ec", script], root=True)
    with pytest.raises(LabFault, match="bypass the router: client has another interface, short"):
        assert_no_bypass(network)


def test_a_second_server_address_on_the_clients_own_wire_is_refused(network: NamespaceNetwork) -> None:
    """Same interface, but no router between: a route that delivers directly."""
    network.client.run(["ip", "route", "add", f"{SERVER_ADDRESS}/32", "dev", "eth0"], root=True)
    with pytest.raises(LabFault, match="client reaches server directly"):
        assert_no_bypass(network)


def test_a_default_sized_queue_is_refused(shared: NamespaceNetwork) -> None:
    shaped = shape(shared, DSL_50)
    assert differences(shared, shaped) == []
    port = shared.router_ports.client
    shared.router.run(["tc", "qdisc", "replace", "dev", port, "root", "netem", "delay", "10ms", "rate", "50mbit"], root=True)
    problems = differences(shared, shaped)
    assert any("limit" in problem and "1000" in problem for problem in problems), problems


def test_a_qdisc_that_is_gone_is_noticed(shared: NamespaceNetwork) -> None:
    shaped = shape(shared, DSL_50)
    shared.router.run(["tc", "qdisc", "del", "dev", shared.router_ports.server, "root"], root=True)
    assert any(problem.startswith("up:") for problem in differences(shared, shaped))


def test_changed_settings_of_a_host_are_noticed(network: NamespaceNetwork) -> None:
    assert network.client.unpinned("cubic") == []
    network.client.run(["/bin/sh", "-c", "echo 0 >/proc/sys/net/ipv4/tcp_no_metrics_save"], root=True)
    network.client.run(["ip", "route", "replace", "default", "via", "10.77.1.1", "congctl", "reno"], root=True)
    found = network.client.unpinned("cubic")
    assert any("tcp_no_metrics_save" in problem for problem in found)
    assert any("congestion control" in problem and "reno" in problem for problem in found)


@pytest.mark.usefixtures("iperf3")
def test_offload_left_on_is_detected(network: NamespaceNetwork) -> None:
    shape(network, DSL_50)
    network.server.run(["ethtool", "-K", "eth0", "tx", "on", "tso", "on", "gso", "on"], root=True)
    with pytest.raises(LabFault, match="server does not hold its settings: offload tcp-segmentation-offload of eth0 is on"):
        calibrate(network, DSL_50, "cubic")


def test_a_link_that_is_not_what_was_asked_fails_its_calibration(shared: NamespaceNetwork) -> None:
    shape(shared, DSL_50)
    claimed = DSL_50.model_copy(update={"rate": BitRate.parse("60 Mbit/s"), "rtt": Duration.parse("26 ms")})
    look = calibrate(shared, claimed, "cubic")
    assert not look.ok
    assert any("goodput" in problem for problem in look.problems)
    assert any("RTT" in problem for problem in look.problems)


def test_a_router_that_dies_is_a_lab_fault(network: NamespaceNetwork) -> None:
    if network.router_facts.kind != "uml":
        pytest.skip("the router here is the kernel itself, which cannot be killed")
    network.wire.run(["/bin/sh", "-c", "kill -9 $(pidof linux.uml) || pkill -9 -f linux.uml"], root=True, check=False)
    with pytest.raises(LabFault, match="router does not answer"):
        shape(network, replace_rate(DSL_50))


def replace_rate(link: Link) -> Link:
    return link.model_copy(update={"rate": BitRate.parse("20 Mbit/s")})


def test_ports_of_the_wire_and_router_agree(shared: NamespaceNetwork) -> None:
    """A frame the router sends to the client is a frame that leaves the wire's client port."""

    def sent() -> int:
        counters = shared.wire.run(["cat", "/proc/self/net/dev"], root=True).text
        return int(next(line.split() for line in counters.splitlines() if shared.wire_ports.client in line)[10])

    before = sent()
    shared.client.run(["ping", "-n", "-c", "20", "-i", "0.01", SERVER_ADDRESS], root=True)
    assert sent() - before >= 20
