"""The backend on three machines that are namespaces, each with an sshd, its lab ports and a management port.

Wiring, pins and leak guard are the real ones. Nothing is shaped: the kernel here may have no sch_netem.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from lab.cli import live
from lab.hosts.host import Network, RouterFacts
from lab.hosts.ssh.linux import open_host
from lab.hosts.vagrant import machines, network
from lab.model.errors import LabFault, UsageProblem
from lab.model.link import Link
from lab.model.load import load_topology
from lab.net.guard import assert_no_bypass
from lab.net.pins import assert_pinned, pin
from lab.net.shape import Shaped
from tests.support.waiting import until
from tests.vagrant.three import NEEDS, Three

pytestmark = NEEDS


@pytest.fixture
def opened(three: Three, monkeypatch: pytest.MonkeyPatch) -> Iterator[network.VagrantNetwork]:
    """A kernel without netem stands in for a kernel with it; this test does not shape."""
    monkeypatch.setenv(machines.CONFIG_VARIABLE, str(three.folder / "config"))
    monkeypatch.setattr(network, "kernel_has_netem", lambda _: True)
    monkeypatch.setattr(network, "_PROBE_DELAY_MS", 0.0)
    made = network.open_network(name="three")
    yield made
    made.close()


def test_it_is_a_network(opened: network.VagrantNetwork) -> None:
    assert (opened.client.address, opened.server.address, opened.backend) == ("10.77.1.2", "10.77.2.2", "vagrant")
    assert isinstance(opened.router_facts, RouterFacts)
    assert opened.router_facts.kind == "kernel"
    assert "port veth" in opened.backend_facts["client machine"]
    assert (opened.wire.name, opened.router.name) == ("wire", "router")


def test_its_own_round_trip_is_measured_and_reported(opened: network.VagrantNetwork) -> None:
    told = re.fullmatch(r"own round trip ([\d.]+) ms, taken off the link's delay", opened.backend_facts["path"])
    assert told is not None
    assert opened.own_delay.ns > 0
    assert float(told[1]) == pytest.approx(2 * opened.own_delay.ms, abs=0.006)


def test_a_path_that_nothing_crosses_is_refused(three: Three, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machines.CONFIG_VARIABLE, str(three.folder / "config"))
    monkeypatch.setattr(network, "kernel_has_netem", lambda _: True)
    monkeypatch.setattr(network, "_PROBE_DELAY_MS", 0.0)
    network.open_network().close()  # wires them
    monkeypatch.setattr(network, "_OWN_PINGS", 3)
    # All ports are up, and nothing is forwarded: as where a provider's network is not wired.
    router = ["nsenter", "-t", str(three.processes["router"].pid), "-m", "-n", "ip", "-n", "lab", "route"]
    hole = ["unreachable", f"{network.ADDRESSES.server}/32"]
    subprocess.run([*router, "add", *hole], check=True)
    try:
        with pytest.raises(LabFault, match="only 0 of 3 pings crossed the link"):
            network.open_network()
    finally:
        subprocess.run([*router, "del", *hole], check=True)


def test_pins_hold_and_nothing_goes_round_the_router(opened: network.VagrantNetwork) -> None:
    pin(opened, "reno")
    assert_pinned(opened, "reno")
    assert_no_bypass(opened)
    links = opened.client.run(["ip", "-br", "link"]).text
    assert "management" not in links
    assert opened.client.run(["ping", "-n", "-c", "1", "-W", "2", "server"], root=True).returncode == 0


def test_a_way_round_the_router_is_seen(opened: network.VagrantNetwork) -> None:
    opened.client.run(["ip", "link", "add", "leak", "type", "veth", "peer", "name", "end"], root=True)
    try:
        with pytest.raises(LabFault, match="client has another interface, end, leak"):
            assert_no_bypass(opened)
    finally:
        opened.client.run(["ip", "link", "del", "leak"], root=True)


def test_servers_and_clients_are_ordinary_users(opened: network.VagrantNetwork) -> None:
    assert opened.server.run(["id", "-un"]).text.strip() == "lab"
    assert opened.server.run(["id", "-un"], root=True).text.strip() == "root"
    listen = "import socket; s = socket.create_server(('', 80)); c, _ = s.accept(); c.sendall(b'hello')"
    server = opened.server.start([opened.server.program("python3"), "-c", listen])
    fetch = "import socket, time\nfor _ in range(200):\n try: print(socket.create_connection(('server', 80), 5).recv(9)); break\n"
    fetch += " except ConnectionRefusedError: time.sleep(.02)\n"
    assert opened.client.run([opened.client.program("python3"), "-c", fetch]).text == "b'hello'\n"
    assert server.wait(5).returncode == 0


def test_what_was_started_ends_with_it_and_the_machines_can_be_had_again(
    three: Three, opened: network.VagrantNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LabFault, match="another lab is using the virtual machines"):
        network.open_network()
    opened.server.start(["sleep", "631"])
    opened.close()
    opened.close()
    monkeypatch.setenv(machines.CONFIG_VARIABLE, str(three.folder / "config"))
    again = network.open_network()
    try:
        still = ["pgrep", "-f", "^sleep 631"]
        until(lambda: again.server.run(still, check=False).returncode != 0, "what was started has ended")
    finally:
        again.close()


def test_a_kernel_without_netem_cannot_be_the_router(three: Three, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machines.CONFIG_VARIABLE, str(three.folder / "config"))
    monkeypatch.setattr(network, "kernel_has_netem", lambda _: False)
    with pytest.raises(UsageProblem, match="the router's kernel has no sch_netem"):
        network.open_network()


@pytest.mark.parametrize(
    ("what", "value", "told"),
    [
        ("utc_s", lambda: time.time() - 3650, r"client: the machine's clock is 36\d\d s behind"),
        ("machine", lambda: "aarch64", "client: the machine is aarch64, and the lab's programs are built for"),
    ],
)
def test_a_machine_that_is_not_fit_is_refused(
    three: Three, monkeypatch: pytest.MonkeyPatch, what: str, value: Callable[[], object], told: str
) -> None:

    def changed(*words: object, **more: object) -> object:
        host = open_host(*words, **more)  # type: ignore[arg-type]
        if more["name"] == "client":
            object.__setattr__(host.identity, what, value())
        return host

    monkeypatch.setenv(machines.CONFIG_VARIABLE, str(three.folder / "config"))
    monkeypatch.setattr(network, "open_host", changed)
    with pytest.raises((LabFault, UsageProblem), match=told):
        network.open_network()


def test_lab_link_shapes_the_machines(three: Three, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(machines.CONFIG_VARIABLE, str(three.folder / "config"))
    monkeypatch.setattr(network, "kernel_has_netem", lambda _: True)
    monkeypatch.setattr(network, "_PROBE_DELAY_MS", 0.0)
    with pytest.raises(UsageProblem, match="virtual machines have no name"):
        live.link_command("dsl-20", lab="mine", backend="vagrant")
    shaped: list[Link] = []

    def shape(found: Network, link: Link) -> Shaped:
        assert_pinned(found, "cubic")
        shaped.append(link)
        return Shaped(link, {}, ("tc ...",))

    # This kernel may have no netem.
    monkeypatch.setattr(live, "shape", shape)
    live.link_command("dsl-20", backend="vagrant")
    assert shaped == [load_topology("dsl-20").link]
    command, told = capsys.readouterr().out.splitlines()
    assert command == "tc ..."
    assert told.startswith("the link is shaped and read back; own round trip ")
    again = network.open_network()  # the machines are free again
    again.close()


def test_a_port_that_is_not_there(three: Three, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machines.CONFIG_VARIABLE, str(three.folder / "config"))
    monkeypatch.setitem(network.MACS, "client", ("02:00:00:00:00:99",))
    with pytest.raises(LabFault, match="cannot be set up: roughwater: no port of this machine has MAC 02:00:00:00:00:99"):
        network.open_network()
