"""What the same work costs each arm: figures, ratios over the rounds that both have, and the sentence of each arm."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.model.results import CellResult, Verdict
from lab.run.same_work import _ratio, _words, answer_of_same_work, run_same_work
from tests.support.samples import sample


def costly(rate: float | None, cpu_s: float, *, ok: bool = True) -> Any:
    return sample(requests_per_s=rate, cpu_user_s=cpu_s * 0.75, cpu_system_s=cpu_s * 0.25, ok=ok, max_rss_bytes=7_500_000)


@pytest.fixture
def requests(cell: CellResult) -> CellResult:
    """Forty requests for 10 kB by `first`, without samples yet."""
    settings = {"protocol": "h2", "direction": "get", "size": "10 kB", "files": 40, "parallel": 10, "discard": True}
    transfer = type(cell.transfer).model_validate(settings)
    client = cell.client.model_copy(update={"name": "first"})
    return cell.model_copy(update={"transfer": transfer, "client": client, "samples": [], "verdict": passed()})


def passed(name: Any = "PASS", reason: str = "all arrived") -> Verdict:
    return Verdict(name=name, reason=reason)


def with_(requests: CellResult, name: str, *samples: Any, verdict: Verdict | None = None) -> CellResult:
    client = requests.client.model_copy(update={"name": name})
    more = {"client": client, "id": f"{name}--x", "samples": list(samples), "verdict": verdict or passed()}
    return requests.model_copy(update=more)


def test_figures_are_means_of_good_transfers_and_cpu_is_of_a_thousand_requests(requests: CellResult) -> None:
    first = with_(requests, "a", costly(100.0, 0.2), costly(300.0, 0.4), costly(None, 9.0), costly(500.0, 9.0, ok=False))
    answer = answer_of_same_work("x", [first], [0, 0, 0, 0], [12.5])
    (arm,) = answer.arms
    assert arm.figures == {
        "requests_per_s": 200.0,
        "cpu_s_per_1000": pytest.approx(7.5),
        "peak_MB": 7.5,
        "syscalls_per_request": 12.5,
    }
    assert (arm.byte_s, arm.interval, arm.cell, arm.name) == ([1e6, 3e6], None, "a--x", "a")
    assert (answer.ratio, answer.order, answer.rate_clock, answer.id) == (None, ["a"] * 4, "client", "x")
    assert answer.judged.reason == "a: 200 requests/s, 7.5000 CPU s per 1000, 12.50 system calls each"


def test_without_calls_or_samples_there_are_no_figures_of_them(requests: CellResult) -> None:
    answer = answer_of_same_work("x", [with_(requests, "a"), with_(requests, "b", costly(100.0, 0.2))], [])
    assert [arm.figures.get("syscalls_per_request") for arm in answer.arms] == [None, None]
    assert (answer.arms[0].figures, answer.rate_clock, answer.ratio) == ({}, None, None)
    assert answer.judged.reason == "a: nothing measured; b: 100 requests/s, 5.0000 CPU s per 1000"


def test_an_answer_of_three_arms_has_no_one_ratio(requests: CellResult) -> None:
    arms = [
        with_(requests, name, *(costly(rate + turn, 0.2) for turn in range(3))) for name, rate in (("a", 100.0), ("b", 200.0))
    ]
    two = answer_of_same_work("x", arms, [0, 1])
    assert two.ratio
    assert two.ratio == two.arms[1].interval
    three = answer_of_same_work("x", [*arms, with_(requests, "c", costly(50.0, 0.4), costly(51.0, 0.4))], [0, 1, 2], [1.0])
    assert three.ratio is None
    assert three.arms[2].interval
    assert three.arms[2].interval.mean == pytest.approx(0.5, rel=0.01)
    assert three.arms[2].figures["cpu_ratio"] == pytest.approx(2.0)
    assert ["syscalls_per_request" in arm.figures for arm in three.arms] == [True, False, False]
    low, mean, high = (three.arms[1].figures[f"cpu_ratio{end}"] for end in ("_low", "", "_high"))
    assert low <= mean <= high
    figures = three.arms[1].figures
    ratio = three.arms[1].interval
    assert ratio
    assert _words(three.arms[1]) == (
        f"b: 201 requests/s, 5.0000 CPU s per 1000 (rate {ratio.mean:.3f} of the first's, {ratio.low:.3f} to {ratio.high:.3f}; "
        f"CPU {figures['cpu_ratio']:.3f}, {figures['cpu_ratio_low']:.3f} to {figures['cpu_ratio_high']:.3f})"
    )


def test_a_clock_that_did_not_tick_leaves_the_rate_without_a_ratio_of_costs(requests: CellResult) -> None:
    arms = [with_(requests, name, *(costly(rate, 0.0) for _ in range(3))) for name, rate in (("a", 100.0), ("b", 200.0))]
    found = answer_of_same_work("x", arms, []).arms[1]
    assert found.interval
    assert "cpu_ratio" not in found.figures
    assert _words(found) == "b: 200 requests/s, 0.0000 CPU s per 1000"


def test_a_ratio_needs_two_rounds_that_both_have_and_took_something() -> None:
    found = _ratio([100.0, 100.0, 999.0], [200.0, 200.0])
    assert found
    assert (found.mean, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))
    assert _ratio([100.0], [200.0, 200.0]) is None
    assert _ratio([], []) is None
    assert _ratio([100.0, 0.0], [200.0, 200.0]) is None
    assert _ratio([100.0, 100.0], [0.0, 200.0]) is None
    assert _ratio([100.0, 100.0, 0.0], [200.0, 200.0]), "a round that only one of them has does not count"


@pytest.mark.parametrize(("syscalls", "flames"), [(True, False), (False, True), (False, False), (True, True)])
def test_each_arm_that_did_not_fail_is_run_once_more_for_what_was_asked(
    requests: CellResult, monkeypatch: pytest.MonkeyPatch, syscalls: bool, flames: bool
) -> None:
    told: list[Any] = []
    results = [
        with_(requests, name, costly(100.0, 0.2), verdict=passed(verdict))
        for name, verdict in (("a", "PASS"), ("b", "FAIL"), ("c", "INCONCLUSIVE"), ("d", "INVALID"))
    ]
    cells: Any = [SimpleNamespace(client=each.client, topology=each.topology, transfer=each.transfer) for each in results]

    def counted(_: object, cell: Any) -> float:
        told.append(("calls", cell.client.name))
        return 400.0

    def together(what: str, arms: Any, rounds: int) -> Any:
        told.append((what.partition("--")[0], len(arms), rounds))
        return [0, 1, 2, 3], results

    monkeypatch.setattr("lab.run.system_calls.record", counted)
    monkeypatch.setattr("lab.run.flamegraph.record", lambda _, cell, tools: told.append((tools, cell.client.name)))
    options = SimpleNamespace(syscalls=syscalls, flamegraph="flames" if flames else None)
    session: Any = SimpleNamespace(run_together=together, options=options, keep=lambda answer: answer)
    answer = run_same_work(session, cells, 7)
    assert told[0] == ("a-and-b-and-c-and-d", 4, 7)
    assert told[1:] == [(what, name) for name in ("a", "c") for what in ("calls",) * syscalls + ("flames",) * flames]
    shown = [arm.figures.get("syscalls_per_request") for arm in answer.arms]
    assert shown == ([10.0, None, 10.0, None] if syscalls else [None] * 4)


@pytest.mark.parametrize(
    ("names", "verdict"),
    [
        (("PASS", "PASS"), ("PASS", "a: nothing measured; b: nothing measured")),
        (("PASS", "INCONCLUSIVE"), ("PASS", "a: nothing measured; b: nothing measured")),
        (("PASS", "FAIL"), ("FAIL", "of b")),
        (("FAIL", "FAIL"), ("FAIL", "of a")),
        (("INVALID", "FAIL"), ("FAIL", "of b")),
        (("PASS", "INVALID"), ("INVALID", "of b")),
    ],
)
def test_an_answer_that_did_not_arrive_decides(requests: CellResult, names: tuple[str, str], verdict: tuple[str, str]) -> None:
    results = [with_(requests, arm, verdict=passed(name, f"of {arm}")) for arm, name in zip(("a", "b"), names, strict=True)]
    found = answer_of_same_work("x", results, []).judged
    assert (found.name, found.reason) == verdict
