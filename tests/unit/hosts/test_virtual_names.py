"""The names that hosts in virtual time know, and the answers of their resolver."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.hosts.virtual import names
from lab.hosts.virtual.names_script import Lookup, question, reply
from lab.model.wiring import Dns, DnsLookup, PathNode, Wiring

A, AAAA, MX = 1, 28, 15
_HEAD = struct.Struct("!6H")


def asked(name: str, kind: int) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return _HEAD.pack(7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def answers(dns: dict[str, Any] | None = None, **settings: Any) -> dict[str, Lookup]:
    wiring = Wiring(dns=Dns.model_validate(dns or {}), **settings)
    return {each.kind: each for each in map(Lookup, names.resolver_words(wiring))}


def told(name: str, kind: int, lookups: dict[str, Lookup]) -> tuple[int, int, bytes, int]:
    """The code of the answer, the number of its records, its last bytes, and its delay in ns."""
    text, delay_ns = reply(asked(name, kind), "server", lookups)
    head = _HEAD.unpack_from(text)
    assert head[0] == 7, "an answer has its question's number"
    assert text[_HEAD.size :].startswith(asked(name, kind)[_HEAD.size :]), "and its question"
    return head[1] & 15, head[3], text[-16:], delay_ns


def test_the_names_server_has_the_addresses_of_its_families() -> None:
    both = answers(ip="both")
    assert told("server", A, both)[:2] == (0, 1)
    assert told("SERVER", A, both)[2].endswith(bytes([10, 77, 2, 2]))
    assert told("server", AAAA, both)[2] == bytes.fromhex("20010db8007700020000000000000002")
    assert told("server", AAAA, answers())[:2] == (0, 0), "there is no such record"
    assert told("server", A, answers(ip=6))[:2] == (0, 0)
    assert told("server", MX, both)[:2] == (0, 0)
    assert told("other", A, both)[0] == 3, "there is no such name"


def test_each_kind_of_question_takes_its_time() -> None:
    lookups = answers({"delay": "20 ms", "aaaa": {"delay": "2 s"}}, ip="both")
    assert told("server", A, lookups)[3] == 20_000_000
    assert told("server", AAAA, lookups)[3] == 2_000_000_000


def test_a_resolver_may_fail_or_stay_silent() -> None:
    lookups = answers({"a": {"answer": "failure"}, "aaaa": {"answer": "silence"}}, ip="both")
    assert told("server", A, lookups)[:2] == (2, 0)
    assert reply(asked("server", AAAA), "server", lookups) == (b"", 0)


@given(st.binary(max_size=64))
def test_no_message_ends_the_resolver(message: bytes) -> None:
    found = question(message)
    text, _ = reply(message, "server", answers(ip="both"))
    assert bool(text) == (found is not None)
    assert found is None or len(found[2]) >= 5


@pytest.mark.parametrize(
    ("wiring", "known"),
    [
        (Wiring(), ["10.77.2.2"]),
        (Wiring(ip=6), ["2001:db8:77:2::2"]),
        (Wiring(ip="both"), ["2001:db8:77:2::2", "10.77.2.2"]),
        (Wiring(ip="both", dns=Dns()), []),
    ],
    ids=["IPv4", "IPv6", "both", "by a resolver"],
)
def test_a_file_has_the_servers_addresses_unless_a_resolver_does(wiring: Wiring, known: list[str]) -> None:
    told = names.files(wiring)
    lines = [line.split("\t") for line in told["/etc/hosts"].splitlines()]
    assert [address for address, name in lines if name == "server"] == known
    assert told["/etc/resolv.conf"].startswith("nameserver") == bool(wiring.dns)


def test_a_kind_may_have_its_own_answer_alone() -> None:
    assert Dns(a=DnsLookup(answer="failure")).lookup("aaaa")[1] == "address"


def test_the_gateway_has_the_name_of_the_node_that_it_is() -> None:
    node = PathNode.model_validate({"name": "home", "nat": {}})
    told = {wiring: names.files(wiring)["/etc/hosts"] for wiring in (Wiring(), Wiring(path=(node, "link")))}
    assert [text.split()[-1] for text in told.values()] == ["router", "home"]
