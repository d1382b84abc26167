"""What the quirk and platform studies read: queries, connections, addresses, scores; and the commands they give."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.judge.cost import SCORE_FACT
from lab.model.errors import LabFault
from lab.model.link import Link
from lab.model.units import BitRate, Duration
from lab.net.ports import PortCounters, PortReading
from lab.run.cpu_score import CpuScore, parse_score
from lab.run.events import connect_script, lookups_script
from lab.run.events.flap import Leaf, down_commands, parse_leaf, set_address_script, silent_bytes
from lab.run.events.lookups import CONTROL, parse_queries, split_control
from lab.run.events.refusal import Connected, parse_connected

LABELS = st.lists(st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=20), min_size=1, max_size=5)
ADDRESSES = '[{"addr_info":[{"local":"10.77.1.2","prefixlen":24,"scope":"global"}]}]'
ROUTES = '[{"dst":"default","gateway":"10.77.1.1","dev":"eth0"}]'
NEIGHBOURS = '[{"dst":"10.77.1.1","lladdr":"02:54:4c:01:00:01","state":["PERMANENT"]}]'


def query(labels: list[str], kind: int = 1) -> bytes:
    name = b"".join(bytes([len(label)]) + label.encode() for label in labels)
    return b"\x12\x34\x01\x00" + struct.pack("!4H", 1, 0, 0, 0) + name + b"\0" + struct.pack("!2H", kind, 1)


@given(LABELS)
def test_a_query_is_read_and_refused(labels: list[str]) -> None:
    message = query(labels, 28)
    name, kind, end = lookups_script.question(message + b"more")
    assert (name, kind, end) == (".".join(labels), "AAAA", len(message))
    answer = lookups_script.refusal(message, end)
    assert answer[:2] == message[:2]
    assert answer[3] & 0x0F == 3, "NXDOMAIN"
    assert lookups_script.question(answer) == (name, kind, end)


@given(st.binary(max_size=80))
def test_a_malformed_message_ends_in_one_error(message: bytes) -> None:
    try:
        _, _, end = lookups_script.question(message)
    except ValueError:
        return
    assert end <= len(message)


def test_queries_of_the_control_are_set_apart() -> None:
    text = f"query {CONTROL} A\nquery localhost A\nready\nquery {CONTROL}.lan AAAA\nquery x\n"
    assert split_control(parse_queries(text)) == ([f"{CONTROL} A", f"{CONTROL}.lan AAAA"], ["localhost A"])


def test_the_connection_probes_line() -> None:
    assert parse_connected("ECONNREFUSED 0.031\n") == Connected("ECONNREFUSED", 0.031)
    for text in ("", "ECONNREFUSED", "open soon", "a b c"):
        with pytest.raises(LabFault, match="probe printed"):
            parse_connected(text)


def test_the_probe_of_a_host_connects_or_looks_up() -> None:
    def said(*words: str) -> str:
        return subprocess.run(
            [sys.executable, connect_script.__file__, *words], capture_output=True, text=True, check=True
        ).stdout

    assert said("lookup", "127.0.0.1") == "127.0.0.1\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert said("connect", "127.0.0.1", port, "10").startswith("open ")
    assert said("connect", "127.0.0.1", port, "10").startswith("ECONNREFUSED ")


def test_another_address_is_in_the_same_network_and_unused() -> None:
    leaf = parse_leaf(ADDRESSES, ROUTES, NEIGHBOURS)
    assert leaf == Leaf("10.77.1.2/24", "10.77.1.1", (("10.77.1.1", "02:54:4c:01:00:01"),))
    assert leaf.other_address() == "10.77.1.3/24"
    assert Leaf("10.0.0.1/24", "10.0.0.2").other_address() == "10.0.0.3/24"
    assert Leaf("10.0.0.5/24", "10.0.0.1").other_address() == "10.0.0.6/24"
    assert Leaf("10.0.0.254/24", "10.0.0.1").other_address() == "10.0.0.2/24"


@pytest.mark.parametrize(
    ("addresses", "routes", "neighbours"),
    [("[]", ROUTES, "[]"), (ADDRESSES, "[]", "[]"), ("nonsense", ROUTES, ""), (ADDRESSES, ROUTES, "[1]"), ("[1]", ROUTES, "")],
)
def test_a_host_that_cannot_get_another_address(addresses: str, routes: str, neighbours: str) -> None:
    with pytest.raises(LabFault, match="cannot be given another"):
        parse_leaf(addresses, routes, neighbours)


def test_the_address_script_brings_back_what_goes_with_the_address() -> None:
    lines = set_address_script(parse_leaf(ADDRESSES, ROUTES, NEIGHBOURS), "10.77.1.3/24", "cubic").splitlines()
    assert lines[0].startswith("ip -4 address flush dev eth0")
    assert lines[1] == "ip address add 10.77.1.3/24 dev eth0"
    assert "ip neighbour replace 10.77.1.1 lladdr 02:54:4c:01:00:01 nud permanent dev eth0" in lines
    assert lines[-1] == "ip route replace default via 10.77.1.1 dev eth0 congctl cubic"


def test_down_loses_everything_both_ways_and_keeps_the_rest() -> None:
    link = Link(rate=BitRate.parse("20 Mbit/s"), rtt=Duration.parse("30 ms"))
    commands = down_commands(link, {"up": "a", "down": "b"}, supports_seed=True)
    assert [command[4] for command in commands] == ["a", "b"]
    for command in commands:
        assert command[2] == "change"
        assert command[command.index("loss") + 1] == "100%"
        assert command[command.index("rate") + 1] == "20000000bit"
        assert command[command.index("delay") + 1] == "15000us"
    short = down_commands(link, {"up": "a", "down": "b"}, supports_seed=True, own_delay=Duration.parse("1 ms"))
    assert [command[command.index("delay") + 1] for command in short] == ["14000us"] * 2
    bare = down_commands(Link(), {"up": "a", "down": "b"}, supports_seed=True)
    assert [command[2] for command in bare] == ["add", "add"]
    assert all("100%" in command for command in bare)


def reading(t_ns: int, sent: int) -> PortReading:
    return PortReading(t_ns, {"p": PortCounters(0, 0, sent, 0)})


def test_silence_is_counted_between_two_instants() -> None:
    rows = [reading(t, t * 10) for t in range(0, 100, 10)]
    assert silent_bytes(rows, "p", 15, 55) == 300
    assert silent_bytes(rows, "p", 15, 25) is None


def test_a_score_is_the_median_and_tells_its_spread() -> None:
    text = "".join(f"sha256 {value}\n" for value in (400, 500, 450, 420, 430)) + "aes128gcm 3000\n"
    score = parse_score(text)
    assert score == CpuScore(430.0, 100 / 430, 3000.0)
    assert score.facts[SCORE_FACT] == 430.0
    assert parse_score(text.replace("aes128gcm 3000\n", "")).aes128gcm_mbps is None


@pytest.mark.parametrize("text", ["", "sha256 1\n" * 4, "sha256 fast\n", "sha256 0\n" * 5, "sha256 inf\n" * 5])
def test_a_malformed_score(text: str) -> None:
    with pytest.raises(LabFault):
        parse_score(text)
