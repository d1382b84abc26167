"""A link on a stand-in router: the netem it gets where the hosts' own path has a delay, and what is read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.hosts.host import Completed, Ports
from lab.hosts.vagrant import network as vagrant
from lab.model.errors import LabFault
from lab.model.link import Link
from lab.model.units import BitRate, Duration
from lab.net.shape import change, differences, shape
from tests.support.local_host import LocalHost

DSL = Link(rate=BitRate.parse("20 Mbit/s"), rtt=Duration.parse("30 ms"))


class Router:
    """Holds what tc tells it, and says it as tc 6.15 does."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Any]] = {}
        self.more_ms = 0.0

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        words = [*argv]
        rows: list[dict[str, Any]] = []
        if words[-1] == "show":
            rows = [{"kind": "netem", "dev": port, "root": True, "options": found} for port, found in self.held.items()]
        elif words[2] == "del":
            del self.held[words[4]]
        else:
            options = dict(zip(words[7::2], words[8::2], strict=True))
            delay = {"delay": Duration.parse(options.get("delay", "0")).s + self.more_ms / 1e3, "jitter": 0.0}
            rate = {"rate": BitRate.parse(options["rate"]).bit_s // 8}
            self.held[words[4]] = {"limit": int(options["limit"]), "delay": delay, "rate": rate}
        return Completed(tuple(argv), 0, json.dumps(rows).encode(), b"", 0, 0, 0.0, 0.0)


def network(own_delay: Duration = Duration(0)) -> Any:
    facts = SimpleNamespace(supports_seed=True, kind="kernel")
    ports = Ports("to-client", "to-server")
    return SimpleNamespace(router=Router(), router_ports=ports, router_facts=facts, own_delay=own_delay)


def delays_ms(made: Any) -> list[float]:
    return [pytest.approx(found["delay"]["delay"] * 1e3) for found in made.router.held.values()]


def test_where_hosts_have_no_delay_of_their_own_netem_gets_all_of_it() -> None:
    made = network()
    shape(made, DSL)
    assert delays_ms(made) == [15.0, 15.0]


def test_netem_gets_the_rest_of_the_delay_and_the_router_must_hold_just_that() -> None:
    made = network(own_delay=Duration.parse("1080 us"))
    shaped = shape(made, DSL)
    assert delays_ms(made) == [13.92, 13.92]
    assert [found["limit"] for found in made.router.held.values()] == [73, 73]
    assert all("delay 13920us" in command for command in shaped.commands)
    assert differences(made, shaped) == []
    made.router.held["to-client"]["delay"]["delay"] = 0.015
    assert differences(made, shaped) == ["down: delay is 15 ms, not 13920 us"]


def test_it_stays_taken_off_when_a_link_changes() -> None:
    made = network(own_delay=Duration.parse("1 ms"))
    shape(made, DSL)
    change(made, Link(rate=DSL.rate, rtt=Duration.parse("50 ms")))
    assert delays_ms(made) == [24.0, 24.0]


def test_a_router_that_adds_it_again_is_refused() -> None:
    made = network(own_delay=Duration.parse("1080 us"))
    made.router.more_ms = 1.08
    with pytest.raises(LabFault, match=r"the router does not hold the link .*: up: delay is 15 ms, not 13920 us"):
        shape(made, DSL)


_TC = """\
#!/bin/sh
case "$*" in
"qdisc show dev to-client")
    grep -q 'del dev to-client' "$0.log" 2>/dev/null && ! grep -q 'add dev to-client' "$0.log" ||
        echo 'qdisc netem 8001: root refcnt 2 limit 75 delay 15ms rate 20Mbit' ;;
"qdisc show dev to-server")
    grep -q 'add dev to-server' "$0.log" 2>/dev/null && echo 'qdisc netem 8002: root refcnt 2 limit 1000 delay 10ms' ||
        echo 'qdisc fq_codel 0: root refcnt 2 limit 10240p' ;;
*) echo "tc $*" >>"$0.log" ;;
esac
"""
_PING = """\
#!/bin/sh
echo "ping $*" >>"${0%/*}/tc.log"
n=$(grep -c '^ping' "${0%/*}/tc.log")
# One in five is late, as the first ones of an emulated machine are.
[ $((n % 5)) = 0 ] && t=40.000 || t=22.16$((n % 3))
echo "rtt min/avg/max/mdev = $t/$t/$t/0.000 ms"
"""


def test_the_own_round_trip_is_what_the_path_takes_beyond_netem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier lab left its netem on a machine that outlived it."""
    for name, text in (("tc", _TC), ("ping", _PING)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    host = LocalHost("router", tmp_path / "work", address="10.77.2.2")
    assert vagrant.own_round_trip_ms(host, host, host) == pytest.approx(2.161, abs=0.0011)
    told = (tmp_path / "tc.log").read_text().splitlines()
    probes = [f"tc qdisc add dev {port} root netem delay 10000us limit 1000" for port in ("to-client", "to-server")]
    assert told[:3] == ["tc qdisc del dev to-client root", *probes], "before the first ping"
    assert told[-2:] == ["tc qdisc del dev to-client root", "tc qdisc del dev to-server root"], "nothing stays shaped"
    assert [line[:4] for line in told[3:-2]] == ["ping"] * 21
