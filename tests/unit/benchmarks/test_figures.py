"""The arithmetic of the benchmarks: what is tried, what counts as done, and what a series says."""

from __future__ import annotations

import pytest

from benchmarks.bulk import checked
from benchmarks.common import Run, ratio, spread, table
from benchmarks.requests import Peer, all_done, measured
from benchmarks.shaped import ideal_byte_s, windows_byte_s
from benchmarks.throttle import LIMITS, SIZES, Choice, for_peers, transfers
from lab.model.load import load_topology

WHOLE = Choice(LIMITS, ["http1", "h2"], SIZES, ["get", "put"])


def run(name: str = "x", *, ok: bool = True, said: str = "", report: dict[str, object] | None = None) -> Run:
    return Run(name, ok, 1.0, 0.5, None, said, report)


def test_windows_begin_at_the_given_time() -> None:
    slots = [8.0] * 20 + [16.0] * 20
    assert max(windows_byte_s(slots[:20], 10, 100)) == pytest.approx(1.0)
    assert windows_byte_s(slots, 10, 100, after_ms=200) == pytest.approx([2.0] * 11)
    assert windows_byte_s([8.0] * 9, 10, 100) == []


@pytest.mark.parametrize("name", ["link-local", "dsl-50", "dsl-20"])
def test_a_limit_has_room_on_its_link(name: str) -> None:
    topology = load_topology(name)
    tried = list(transfers(topology, WHOLE))
    assert tried
    for transfer in tried:
        assert transfer.limit
        ideal = ideal_byte_s(topology, transfer)
        assert ideal is None or ideal >= 1.2 * transfer.limit.byte_s
    assert {(each.protocol, each.direction, each.chunked) for each in tried} == {
        (protocol, *kind) for protocol in ("http1", "h2") for kind in (("get", False), ("get", True), ("put", False))
    }
    assert any(for_peers(each, WHOLE) for each in tried)


def test_five_megabytes_a_second_are_too_much_for_dsl() -> None:
    assert LIMITS[3] not in {each.limit for each in transfers(load_topology("dsl-50"), WHOLE)}


def test_quick_and_short_is_not_done() -> None:
    h2load, bench, totals, get = (Peer(lambda url, n: [url] * n, counts) for counts in ("h2load", "bench", "set", "exit code"))
    assert all_done(h2load, run(said="requests: 50 total, 50 done, 50 succeeded, 0 failed"), 50)
    assert not all_done(h2load, run(said="requests: 50 total, 50 done, 49 succeeded, 1 failed"), 50)
    assert not all_done(h2load, run(said=""), 50)
    assert all_done(bench, run(report={"bench": {"succeeded": 50}}), 50)
    assert not all_done(bench, run(report={"bench": {"succeeded": 49}}), 50)
    assert not all_done(bench, run(), 50)
    assert all_done(totals, run(report={"set": {"files": 50, "failed": 0}}), 50)
    assert not all_done(totals, run(report={"set": {"files": 50, "failed": 1}}), 50)
    assert not all_done(totals, run(report={"set": {"files": 49, "failed": 0}}), 50)
    assert not all_done(totals, run(report={"set": None}), 50)
    assert all_done(get, run(), 50)
    assert not all_done(get, run(ok=False), 50)


def test_rates_are_of_the_requests_that_a_client_was_asked_for() -> None:
    commands = {"ferry": Peer(lambda url, n: [url] * n), "curl": Peer(lambda url, n: [url] * n)}
    runs = [run("ferry"), run("curl"), run("curl", ok=False)]
    ferry, curl = measured("requests, nginx", runs, commands, 50)
    assert (ferry.rates, ferry.cpu, ferry.failed) == ([50.0], [10_000.0], 0)
    assert (curl.rates, curl.failed) == ([50.0], 1)


def test_a_reported_body_must_be_complete() -> None:
    assert checked(run(), 10).ok
    assert checked(run(report={"transfers": [{"bytes": 10}]}), 10).ok
    assert not checked(run(report={"transfers": [{"bytes": 9}]}), 10).ok
    assert not checked(run(report={"transfers": []}), 10).ok
    assert checked(run(report={"bytes": 10, "total_s": 1.0}), 10).ok
    assert not checked(run(report={"bytes": 9, "total_s": 1.0}), 10).ok


def test_figures_without_samples_are_dashes() -> None:
    assert spread([]) == ratio([], [1.0]) == ratio([1.0], []) == "-"
    assert ratio([3.0, 1.0, 2.0], [4.0]) == "0.50"
    assert spread([3.0, 1.0, 2.0], "{:.1f}") == "2.0 (1.0 to 3.0)"


def test_tables_are_aligned() -> None:
    assert table(["client", "n"], [["curl", "5"], ["h2load", "15"]]) == "client   n\ncurl     5\nh2load  15"
    assert table(["client", "n"], []) == "client  n"
