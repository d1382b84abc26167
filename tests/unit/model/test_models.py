"""Links resolve into two directions; what makes no sense is refused where it is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lab.model.cell import Cell
from lab.model.link import Link, LinkOverride
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import BitRate, ByteRate, Duration, Queue, Ratio, Size


def link(**fields: Any) -> Link:
    return Link.model_validate(fields)


def transfer(**fields: Any) -> Transfer:
    return Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "5 MiB"} | fields)


def test_both_directions_are_equal_by_default() -> None:
    found = link(rate="20 Mbit/s", rtt="30 ms", loss="1 %", queue="40 ms")
    assert found.direction("up") == found.direction("down")
    down = found.direction("down")
    assert (down.rate, down.delay, down.loss) == (BitRate(20_000_000), Duration.parse("15 ms"), Ratio(0.01))
    assert down.queue == Queue("time", 40_000_000)


def test_an_override_changes_its_own_direction_only() -> None:
    found = link(rate="30 Mbit/s", rtt="50 ms", up={"rate": "10 Mbit/s", "hidden_mtu": 1400, "loss": "0 %"}, loss="2 %")
    assert found.direction("up").rate == BitRate(10_000_000)
    assert (found.direction("up").hidden_mtu, found.direction("up").loss) == (1400, Ratio(0))
    assert found.direction("down") == link(rate="30 Mbit/s", rtt="50 ms", loss="2 %").direction("down")


@given(st.integers(0, 10**10), st.data())
def test_the_delays_always_sum_to_the_round_trip(rtt_ns: int, data: st.DataObject) -> None:
    plain = Link(rtt=Duration(rtt_ns))
    assert plain.direction("up").delay.ns + plain.direction("down").delay.ns == rtt_ns
    assert abs(plain.direction("up").delay.ns - plain.direction("down").delay.ns) <= 1
    own = Duration(data.draw(st.integers(0, rtt_ns)))
    skewed = Link(rtt=Duration(rtt_ns), up=LinkOverride(delay=own))
    assert skewed.direction("up").delay == own
    assert skewed.direction("down").delay.ns == rtt_ns - own.ns


def test_the_two_directions_never_share_a_derived_seed() -> None:
    found = link(loss="1 %", seed=7)
    assert (found.direction("down").seed, found.direction("up").seed) == (7, 8)
    assert link(loss="1 %", seed=7, up={"seed": 7}).direction("up").seed == 7
    assert link(loss="1 %").direction("up").seed is None
    last = 2**32 - 2
    assert link(loss="1 %", seed=last).direction("up").seed == last + 1


@pytest.mark.parametrize(
    ("fields", "shaped"),
    [
        ({}, False),
        ({"queue": "100 packets", "seed": 3, "mtu": 1400}, False),
        ({"rate": "1 Gbit/s"}, True),
        ({"rtt": "1 ms"}, True),
        ({"loss": "1 %"}, True),
        ({"corrupt": "1 %"}, True),
        ({"duplicate": "1 %"}, True),
        ({"up": {"rate": "1 Mbit/s"}}, True),
    ],
)
def test_shaped_says_whether_a_qdisc_is_needed(fields: dict[str, Any], shaped: bool) -> None:
    assert link(**fields).shaped is shaped


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"loss": "100 %"}, "loss must be below 100 %"),
        ({"rtt": "10 ms", "jitter": "6 ms"}, "jitter 6 ms is more than the one-way delay 5 ms"),
        ({"rtt": "10 ms", "jitter": "2 ms", "up": {"delay": "1 ms"}}, "jitter 2 ms is more than the one-way delay 1 ms"),
        ({"reorder": "1 %"}, "reorder needs a delay"),
        ({"rate": "100 bit/s"}, "is too low"),
        ({"rtt": "200 s"}, "longer than"),
        ({"rtt": "10 ms", "up": {"delay": "11 ms"}}, "up.delay 11 ms is more than the rtt 10 ms"),
        ({"rtt": "10 ms", "up": {"delay": "4 ms"}, "down": {"delay": "5 ms"}}, r"write rtt: 9 ms"),
        ({"mtu": 100}, "greater than or equal to 576"),
        ({"mtu": "1500"}, "valid integer"),
        ({"seed": -1}, "greater than or equal to 0"),
        ({"rtd": "10 ms"}, "Extra inputs"),
        ({"up": {"rtt": "10 ms"}}, "Extra inputs"),
        ({"rate": 50}, "it has no unit"),
    ],
)
def test_links_that_make_no_sense_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        link(**fields)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"chunked": True, "direction": "put"}, "chunked needs an HTTP get"),
        ({"chunked": True, "protocol": "sftp"}, "chunked needs an HTTP get"),
        ({"sink": True}, "sink needs an HTTP put"),
        ({"sink": True, "direction": "put", "protocol": "sftp"}, "sink needs an HTTP put"),
        ({"buffer_size": "0 B"}, "buffer_size must be more than 0"),
        ({"protocol": "http3"}, "protocol"),
    ],
)
def test_transfers_that_make_no_sense_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        transfer(**fields)


@pytest.mark.parametrize("tolerance", ["0 %", "100 %"])
def test_a_tolerance_is_between_0_and_100_percent(tolerance: str) -> None:
    with pytest.raises(ValidationError, match="is out of range"):
        Expectation.model_validate({"tolerance": tolerance})


@pytest.mark.parametrize(
    ("kind", "bound"), [("burst", 1.5), ("memory", 64 << 20), ("cpu", 0.5), ("fill", 0.8), ("overall", 0.95)]
)
def test_a_bound_defaults_to_that_of_the_kind(kind: str, bound: float) -> None:
    found = Expectation.model_validate({"kind": kind})
    assert (found.bound, found.named) == (bound, kind)
    assert Expectation.model_validate({"kind": kind, "bound": 3}).bound == 3
    assert Expectation.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"kind": "limit", "bound": 1.0}, "limit has no bound"),
        ({"kind": "steady", "bound": 1.0}, "steady has no bound"),
        ({"kind": "cpu", "bound": 0}, "greater than 0"),
        ({"kind": "cpu", "bound": -1}, "greater than 0"),
        ({"kind": "cpu", "bound": "nan"}, "greater than 0|finite"),
        ({"kind": "cpu", "bound": "inf"}, "finite"),
        ({"kind": "speed"}, "not one of"),
        ({"kind": "deviation", "bound": 1.0}, "not one of"),
        ({"kind": "rate"}, "needs a bound"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Expectation.model_validate(fields)


def test_a_transfer_promises_what_it_is_unless_more_is_asked() -> None:
    many = transfer(files=200)
    assert Expectation.of(many).kind == "steady"
    assert Expectation.of(transfer(files=200, discard=True)).kind == "none"
    assert Expectation.of(transfer(files=200, limit="1 MB/s")).kind == "limit"
    assert Expectation.of(many, kind="cpu").kind == "cpu"


def test_several_files_over_http_have_a_limit_each_and_over_sftp_one_together() -> None:
    each = transfer(files=4, parallel=3, limit="1 MB/s", protocol="h2")
    assert (each.each_limited, each.limit_byte_s) == (True, 3_000_000)
    assert transfer(files=2, parallel=3, limit="1 MB/s").limit_byte_s == 2_000_000
    together = transfer(files=4, limit="1 MB/s", protocol="sftp")
    assert (together.each_limited, together.limit_byte_s) == (False, 1_000_000)
    assert transfer().limit_byte_s is None


@pytest.mark.parametrize(
    ("kind", "needed"),
    [("limit", 2_100_000.0), ("burst", 3_000_000.0), ("memory", 2_100_000.0)],
    ids=["limit", "burst", "memory"],
)
def test_the_link_must_let_a_broken_promise_through(kind: str, needed: float) -> None:
    wanted = transfer(files=2, parallel=2, limit="1 MB/s")
    topology = Topology(name="dsl-20", description="x")
    expectation = Expectation.model_validate({"kind": kind})
    cell = Cell(client=ClientSpec(name="curl"), topology=topology, transfer=wanted, expectation=expectation)
    assert cell.needed_byte_s == pytest.approx(needed)


@pytest.mark.parametrize(
    ("kind", "more", "problem"),
    [
        ("burst", {}, "a burst needs a transfer with a limit"),
        ("overall", {}, "overall needs one limit for the complete transfer"),
        ("fill", {}, "has no rate to fill"),
        ("steady", {"files": 300, "discard": True}, "have no times to compare"),
        ("steady", {"files": 199}, "need 200 files"),
    ],
)
def test_a_cell_cannot_expect_what_its_transfer_does_not_have(kind: str, more: dict[str, Any], problem: str) -> None:
    topology = Topology(name="free", description="x")
    expectation = Expectation.model_validate({"kind": kind})
    with pytest.raises(ValidationError, match=problem):
        Cell(client=ClientSpec(name="curl"), topology=topology, transfer=transfer(**more), expectation=expectation)


def test_a_bound_is_in_a_cells_name_and_its_amount_is_not() -> None:
    shaped = Topology(name="dsl-20", description="x", link=link(rate="20 Mbit/s"))
    for bound in (None, 0.5):
        expectation = Expectation(kind="fill", bound=bound)
        cell = Cell(client=ClientSpec(name="curl"), topology=shaped, transfer=transfer(), expectation=expectation)
        assert cell.id == "curl--dsl-20--http1-get-5MiB--fill"


@pytest.mark.parametrize(
    ("text", "name", "program"),
    [
        ("curl", "curl", "curl"),
        ("/opt/curl-8.1/bin/curl", "curl", "/opt/curl-8.1/bin/curl"),
        ("./My Client--2", "my-client-2", "./My Client--2"),
        ("curl-8=/opt/curl-8/bin/curl", "curl-8", "/opt/curl-8/bin/curl"),
    ],
)
def test_a_client_is_named_after_its_program_or_explicitly(text: str, name: str, program: str) -> None:
    assert ClientSpec.parse(text) == ClientSpec(name=name, program=program)


@pytest.mark.parametrize("text", ["", "/", "--", "=x", "x=", "A--B=/bin/x"])
def test_a_client_needs_a_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"name|NAME"):
        ClientSpec.parse(text)


def test_a_client_without_a_program_is_the_program_of_its_name() -> None:
    assert ClientSpec(name="curl").program == "curl"


def test_a_cell_has_an_id_and_cannot_expect_a_limit_that_is_not_set() -> None:
    topology = Topology(name="dsl-20", description="x")
    limited = Cell(client=ClientSpec(name="curl"), topology=topology, transfer=transfer(limit="1 MB/s"))
    assert limited.id == "curl--dsl-20--http1-get-5MiB-at-1MBps"
    with pytest.raises(ValidationError, match="has no limit to keep"):
        Cell(client=ClientSpec(name="curl"), topology=topology, transfer=transfer())
    Cell(client=ClientSpec(name="curl"), topology=topology, transfer=transfer(), expectation=Expectation(kind="none"))


@pytest.mark.parametrize("name", ["", "Dsl", "a--b", "-a", "a-", "a/b", "a b", "a\n", "x" * 65])
def test_names_are_slugs(name: str) -> None:
    with pytest.raises(ValidationError):
        Topology(name=name, description="x")


def test_models_survive_json() -> None:
    asked = link(rate="20 Mbit/s", rtt="30 ms", queue="1.5 BDP", up={"rate": "1 Mbit/s", "delay": "10 ms"}, seed=5, loss="0.1 %")
    again = Link.model_validate_json(asked.model_dump_json())
    assert again == asked
    assert again.direction("up") == asked.direction("up")
    whole = transfer(limit="8 Mbit/s", buffer_size="64 KiB")
    assert whole.limit == ByteRate(1_000_000)
    assert whole.size == Size(5 << 20)
    assert Transfer.model_validate_json(whole.model_dump_json()) == whole


@pytest.mark.parametrize("text", ["./mine.yaml@1.2", "mine.yml@1.2", "/opt/x/mine.yaml@2"])
def test_a_file_of_a_client_has_no_versions(text: str) -> None:
    with pytest.raises(ValueError, match=r"a file has no versions \(a build of its client is mine-(1\.2|2)=PATH\)"):
        ClientSpec.parse(text)
