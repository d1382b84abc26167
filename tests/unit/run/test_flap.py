"""What happens to a network in the middle of a transfer: which commands, when, and what is undone whatever comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from lab.hosts.host import Completed, Ports
from lab.link.layers import layered
from lab.model.errors import ClientFault, LabFault, NotSupported
from lab.model.link import Link
from lab.model.topology import Topology
from lab.model.transfer import Transfer
from lab.model.units import Duration
from lab.net.ports import PortCounters, PortReading
from lab.run.events import flap
from lab.run.events.flap import Interrupted, Leaf, down_commands, link_down, other_address, set_address_script
from lab.run.events.refusal import Connected

MS, S = 1_000_000, 1_000_000_000
LINK = {"rate": "8 Mbit/s", "rtt": "100 ms"}
TOPOLOGY = Topology.model_validate({"name": "plain", "description": "A test.", "link": LINK, "congestion_control": "bbr"})
GET = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "1 MB"})
PUT = Transfer.model_validate({"protocol": "http1", "direction": "put", "size": "1 MB"})


# --- commands ---------------------------------------------------------------------------------------------------------


def test_an_unshaped_link_gets_a_qdisc_that_only_loses() -> None:
    (up, down) = down_commands(Link(), {"up": "a", "down": "b"}, supports_seed=True)
    assert up[:6] == ("tc", "qdisc", "add", "dev", "a", "root")
    assert down[4] == "b"
    assert up[up.index("loss") + 1] == "100%"
    assert not {"delay", "rate", "reorder", "corrupt", "duplicate", "seed"} & set(up)


def test_of_a_link_in_layers_only_the_loss_is_changed() -> None:
    link = Link.model_validate({**LINK, "queue": {"kind": "fq_codel"}})
    commands = down_commands(link, {"up": "a", "down": "b"}, supports_seed=True)
    assert {command[command.index("dev") + 1] for command in commands} == {"a", "b"}
    before = layered(link.direction("up"), link.rtt, supports_seed=True)
    assert before.netem.loss.value == 0
    lossy = [command for command in commands if "loss" in command]
    assert [command[command.index("loss") + 1] for command in lossy] == ["100%", "100%"]
    assert all(command[2] == "change" for command in commands)


def test_the_address_script_is_quoted_and_keeps_the_order() -> None:
    leaf = Leaf("10.0.0.2/24", "10.0.0.1", (("10.0.0.1", "02:00"), ("10.0.0.9", "02:09")))
    assert set_address_script(leaf, "10.0.0.3/24", "c c").splitlines() == [
        "ip -4 address flush dev eth0 scope global",
        "ip address add 10.0.0.3/24 dev eth0",
        "ip neighbour replace 10.0.0.1 lladdr 02:00 nud permanent dev eth0",
        "ip neighbour replace 10.0.0.9 lladdr 02:09 nud permanent dev eth0",
        "ip route replace default via 10.0.0.1 dev eth0 congctl 'c c'",
    ]


@dataclass
class Lab:
    """A network whose port carries `byte_s` until it is disturbed. Its client ends by itself at `ends_ns`."""

    byte_s: float = 500_000
    ends_ns: int = 4 * S
    code: int = 0
    now_ns: int = 1 * S
    kind: str = "kernel"
    down_byte_s: float = 0.0
    told: list[Any] = field(default_factory=list)
    down_ns: int | None = None
    read: list[PortReading] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    broken: str = ""

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * S)

    def sent(self, t_ns: int) -> int:
        """Bytes by then; the port had carried 7,000 before the client started at 1 s."""
        end_ns = t_ns if self.down_ns is None else min(t_ns, self.down_ns)
        after_ns = 0 if self.down_ns is None else max(0, t_ns - self.down_ns)
        return 7_000 + round((max(0, end_ns - S) * self.byte_s + after_ns * self.down_byte_s) / S)

    def rows(self) -> list[PortReading]:
        """One every 10 ms; the port towards the server has sent twice as much."""
        for t_ns in range(S + len(self.read) * 10 * MS, self.now_ns + 1, 10 * MS):
            sent = self.sent(t_ns)
            self.read.append(PortReading(t_ns, {"c": PortCounters(0, 0, sent, 0), "s": PortCounters(0, 0, 2 * sent, 0)}))
        return self.read

    def run(self, argv: Any, **_: Any) -> Any:
        self.told.append(argv)
        if self.broken and self.broken in str(argv):
            raise LabFault("a command failed")
        return SimpleNamespace(text=self.answers.pop(0) if self.answers else "")

    # As a process of the client.

    def running(self) -> bool:
        return self.now_ns < self.ends_ns

    def wait(self, timeout_s: float) -> Completed:
        self.told.append(("wait", timeout_s))
        self.now_ns = max(self.now_ns, self.ends_ns)
        return Completed((), self.code, b"", b"no luck", S, self.ends_ns, 0, 0)

    def stop(self, grace_s: float) -> None:
        self.told.append(("stop", grace_s))

    @property
    def network(self) -> Any:
        host = SimpleNamespace(run=self.run)
        return SimpleNamespace(
            clock=self,
            client=host,
            router=host,
            wire_ports=Ports(client="c", server="s"),
            router_ports=Ports(client="rc", server="rs"),
            router_facts=SimpleNamespace(kind=self.kind, supports_seed=True),
            own_delay=Duration(0),
        )

    @property
    def bench(self) -> Any:
        endpoints = SimpleNamespace(server="10.0.0.9", http_port=80)
        return SimpleNamespace(network=self.network, servers=SimpleNamespace(endpoints=endpoints))


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab()

    @contextmanager
    def sampler(network: Any) -> Iterator[Lab]:
        yield network.clock

    def prepare(bench: Any, transfer: Transfer) -> Any:
        return SimpleNamespace(bench=bench, transfer=transfer, start=lambda: made, content=lambda: "intact")

    monkeypatch.setattr(flap, "PortSampler", sampler)
    monkeypatch.setattr(flap, "prepare", prepare)
    monkeypatch.setattr("lab.net.shape.change", lambda _, link: made.told.append(("change", link)))
    monkeypatch.setattr(flap, "pin_host", lambda _, control, mtu: made.told.append(("pin", control, mtu)))
    return made


def test_a_link_that_is_down_loses_both_ways_and_is_itself_again_afterwards(lab: Lab) -> None:
    link = TOPOLOGY.link
    with link_down(lab.network, link):
        assert [command[4] for command in lab.told] == ["rs", "rc"]
        assert all("100%" in command for command in lab.told)
    assert lab.told[2:] == [("change", link)]


def test_a_link_is_put_back_whatever_happened_while_it_was_down(lab: Lab) -> None:
    with pytest.raises(KeyboardInterrupt), link_down(lab.network, TOPOLOGY.link):
        raise KeyboardInterrupt
    assert lab.told[-1] == ("change", TOPOLOGY.link)
    lab.told.clear()
    lab.broken = "rc"
    with pytest.raises(LabFault, match="a command failed"), link_down(lab.network, TOPOLOGY.link):
        pass
    assert lab.told[-1] == ("change", TOPOLOGY.link)


def test_hosts_that_are_one_have_no_link_to_interrupt(lab: Lab) -> None:
    lab.kind = "none"
    for act in (
        lambda: link_down(lab.network, TOPOLOGY.link).__enter__(),
        lambda: flap.measure_flap(lab.bench, GET, TOPOLOGY, down_s=1.0, patience_s=9.0),
        lambda: flap.measure_address_change(lab.bench, GET, TOPOLOGY, patience_s=9.0),
    ):
        with pytest.raises(NotSupported):
            act()
    assert lab.told == []


ADDRESSES = '[{"addr_info":[{"local":"10.77.1.2","prefixlen":24,"scope":"global"}]}]'
ROUTES = '[{"dst":"default","gateway":"10.77.1.1","dev":"eth0"}]'


@pytest.mark.parametrize("problem", ["", "inside", "at once"])
def test_a_host_has_its_own_address_again_whatever_happened(lab: Lab, problem: str) -> None:
    lab.answers = [ADDRESSES, ROUTES, "[]"]
    lab.broken = "address add 10.77.1.3" if problem == "at once" else ""

    def change() -> None:
        with other_address(lab.network.client, TOPOLOGY) as new:
            assert new == "10.77.1.3/24"
            assert "ip address add 10.77.1.3/24 dev eth0" in lab.told[-1][2]
            if problem:
                raise LabFault("broken inside")

    if problem:
        with pytest.raises(LabFault, match=r"broken inside|a command failed"):
            change()
    else:
        change()
    assert [words[:4] for words in lab.told[:3]] == [
        ["ip", "-j", "-4", "address"],
        ["ip", "-j", "route", "show"],
        ["ip", "-j", "-4", "neighbour"],
    ]
    assert lab.told[-2][:2] == ["/bin/sh", "-ec"]
    assert "ip address add 10.77.1.2/24 dev eth0" in lab.told[-2][2]
    assert "congctl bbr" in lab.told[-2][2]
    assert lab.told[-1] == ("pin", "bbr", 1500)


# --- the interruption -------------------------------------------------------------------------------------------------


def interrupted(
    lab: Lab, transfer: Transfer = GET, act: Callable[[Any], tuple[int, int]] | None = None, **more: Any
) -> Interrupted:
    def disturb(_: object) -> tuple[int, int]:
        lab.sleep(0.05)
        lab.down_ns = lab.now_ns
        lab.sleep(1.0)
        return lab.down_ns, lab.now_ns

    attempt: Any = SimpleNamespace(bench=lab.bench, transfer=transfer, start=lambda: lab, content=lambda: "intact")
    return flap._interrupt(attempt, act or disturb, patience_s=9.0, **more)


def test_a_transfer_is_disturbed_when_a_quarter_has_passed_its_receivers_port(lab: Lab) -> None:
    found = interrupted(lab)
    # 250,000 bytes at 500,000 a second; the port is read every 10 ms.
    assert found.at_s == pytest.approx(0.5)
    assert found.moved_bytes == 250_000
    assert (found.lasted_s, found.silent_bytes, found.content) == (1.0, 0, "intact")
    assert found.waited_s == pytest.approx(3.0 - 0.5)
    assert lab.told == [("wait", 9.0)]


def test_an_upload_is_seen_at_the_servers_port(lab: Lab) -> None:
    found = interrupted(lab, PUT)
    assert [found.at_s, found.moved_bytes] == pytest.approx([0.25, 250_000])


def test_bytes_that_pass_meanwhile_count_from_when_the_link_has_settled(lab: Lab) -> None:
    lab.down_byte_s = 1000
    # From 0.1 s after the link went down at 1.55 s to when it came back at 2.55 s.
    assert interrupted(lab).silent_bytes == pytest.approx(900, abs=11)
    again = Lab(down_byte_s=1000)
    assert interrupted(again, settle_s=0.5).silent_bytes == pytest.approx(500, abs=11)
    ended = Lab(down_byte_s=1000, ends_ns=2 * S)
    assert interrupted(ended).silent_bytes == pytest.approx(350, abs=11), "nothing is sent after the client's end"
    assert interrupted(Lab(ends_ns=1_650 * MS)).silent_bytes is None


def test_a_client_that_is_done_too_early_is_the_labs_fault_and_a_failure_its_own(lab: Lab) -> None:
    lab.ends_ns = 1_200 * MS
    with pytest.raises(LabFault, match="done before it could be interrupted"):
        interrupted(lab)
    assert lab.told == [("wait", 1.0), ("stop", 0.0)]
    failed = Lab(ends_ns=1_200 * MS, code=7)
    with pytest.raises(ClientFault, match="failed with exit code 7 before anything was done to it: no luck"):
        interrupted(failed)


def test_a_client_that_does_not_begin_is_given_up(lab: Lab) -> None:
    lab.byte_s, lab.ends_ns = 0, 100 * S
    with pytest.raises(ClientFault, match="had not moved a quarter of the content after 30 s, with nothing in its way"):
        interrupted(lab)
    assert lab.now_ns == pytest.approx(31 * S, abs=10 * MS)
    assert lab.told[-1] == ("stop", 0.0)


def test_a_client_is_ended_where_the_disturbance_fails(lab: Lab) -> None:
    def broken(_: object) -> tuple[int, int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted(lab, act=broken)
    assert lab.told == [("stop", 0.0)]


def test_silence_needs_two_readings_within_both_ends() -> None:
    rows = [PortReading(t_ns, {"p": PortCounters(0, 0, t_ns * 10, 0)}) for t_ns in range(0, 100, 10)]
    assert flap.silent_bytes(rows, "p", 10, 50) == 400
    assert flap.silent_bytes(rows, "p", 11, 49) == 200
    assert flap.silent_bytes(rows, "p", 10, 20) == 100
    assert flap.silent_bytes(rows, "p", 10, 19) is None
    assert flap._sent([], "p") == 0
    assert flap._sent(rows, "p") == 900


# --- both events ------------------------------------------------------------------------------------------------------


@pytest.fixture
def falling(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    @contextmanager
    def down(_: object, link: Link) -> Iterator[None]:
        lab.told.append(("down", link))
        lab.down_ns = lab.now_ns
        yield

    monkeypatch.setattr(flap, "link_down", down)
    return lab


def test_a_flap_lasts_as_long_as_it_was_asked_to(falling: Lab) -> None:
    found = flap.measure_flap(falling.bench, GET, TOPOLOGY, down_s=1.5, patience_s=9.0)
    assert (found.lasted_s, found.silent_bytes) == (1.5, 0)
    assert falling.told == [("down", TOPOLOGY.link), ("wait", 9.0)]


def test_a_hundredth_of_the_content_may_pass_a_link_that_is_down(falling: Lab) -> None:
    # The link has settled after 0.1 s and two round trips: a second remains.
    falling.down_byte_s = 10_000
    assert flap.measure_flap(falling.bench, GET, TOPOLOGY, down_s=1.3, patience_s=9.0).silent_bytes == 10_000
    falling.read, falling.down_ns, falling.now_ns, falling.down_byte_s = [], None, S, 10_100
    with pytest.raises(LabFault, match=r"^the link was down for 1\.3 s and 10100 bytes passed"):
        flap.measure_flap(falling.bench, GET, TOPOLOGY, down_s=1.3, patience_s=9.0)


def test_a_flap_without_readings_proves_nothing(falling: Lab) -> None:
    with pytest.raises(LabFault, match=r"^the link was down for 0\.2 s and None bytes passed"):
        flap.measure_flap(falling.bench, GET, TOPOLOGY, down_s=0.2, patience_s=9.0)


def test_a_client_has_another_address_to_its_end_and_the_server_is_in_reach_afterwards(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def connect(_: object, server: str, port: int) -> Connected:
        asked.append((server, port))
        return Connected("open" if len(asked) == 1 else "timeout", 0.1)

    monkeypatch.setattr(flap, "try_connect", connect)
    lab.answers = [ADDRESSES, ROUTES, "[]"]
    found = flap.measure_address_change(lab.bench, GET, TOPOLOGY, patience_s=9.0)
    assert found.lasted_s == pytest.approx(2.5)
    assert asked == [("10.0.0.9", 80)]
    lab.read, lab.now_ns, lab.answers = [], S, [ADDRESSES, ROUTES, "[]"]
    with pytest.raises(LabFault, match=r"has its address again, but cannot reach the server \(timeout\)"):
        flap.measure_address_change(lab.bench, GET, TOPOLOGY, patience_s=9.0)
