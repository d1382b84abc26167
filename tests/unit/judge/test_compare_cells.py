"""Two cells or two sweeps side by side: what follows from their verdicts, what from their ratio, and in which words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from lab.judge.caveats import predict_samples
from lab.judge.compare import compare_cells, compare_sweeps, correct_for_many, differences
from lab.judge.cost import SCORE_FACT
from lab.judge.ratio import ALPHA, Tolerance, paired_ratio, welch_ratio
from lab.judge.tolerance import with_invalid
from lab.model.answer import Answer, Arm
from lab.model.comparison import Difference
from lab.model.results import CellResult, Verdict, VerdictName
from lab.model.transfer import Expectation
from lab.model.units import Ratio
from lab.model.userland import UserlandFacts
from tests.support.virtual import GUEST, in_virtual_time, without_a_rate
from tests.unit.store.conftest import AT, make_cell

QUIET = (0.001, -0.002, 0.0, 0.002, -0.001)
RATES = [1e6 * (1 + deviation) for deviation in QUIET]


def with_rates(rates: Sequence[float], name: VerdictName = "PASS", **update: object) -> CellResult:
    """A cell of these body rates that got this verdict."""
    cell = make_cell((0.0,) * len(rates))
    samples = [sample.model_copy(update={"body_byte_s": rate}) for sample, rate in zip(cell.samples, rates, strict=True)]
    verdict = Verdict(name=name, reason=f"why {name}")
    return cell.model_copy(update={"samples": samples, "verdict": verdict, **update})


def times(factor: float, name: VerdictName = "PASS", **update: object) -> CellResult:
    return with_rates([rate * factor for rate in RATES], name, **update)


def told(a: CellResult, b: CellResult, within: float = 0.01, **more: Any) -> tuple[str, str, str | None]:
    verdict = compare_cells(a, b, within=within, **more).judged
    return verdict.name, verdict.reason, verdict.cause


def figures(factor: float) -> str:
    found = welch_ratio(RATES, [rate * factor for rate in RATES]).interval()
    return f"B / A {found.mean:.4f}, 96.8 % interval {found.low:.4f} to {found.high:.4f}"


# --- the answer ---------------------------------------------------------------------------------------------------------------


def test_an_answer_has_both_sides_and_what_they_share() -> None:
    a, b = times(1), times(1.001, run="another", started_at=AT - timedelta(hours=1), ended_at=AT + timedelta(hours=1))
    found = compare_cells(a, b, 0.02)
    ratio = welch_ratio(RATES, [rate * 1.001 for rate in RATES])
    assert (found.id, found.question, found.run, found.clocks, found.rate_clock) == (a.id, "equal", "another", ["real"], "client")
    assert (found.started_at, found.ended_at) == (AT - timedelta(hours=1), AT + timedelta(hours=1))
    assert (found.backend, found.client, found.topology, found.transfer) == ("namespaces", a.client, a.topology, a.transfer)
    assert (found.expectation, found.bound, found.not_judged) == (a.expectation, Ratio(0.02), "")
    assert (found.ratio, found.p_outside) == (ratio.interval(), ratio.p_outside(Tolerance(0.02)))
    assert [(arm.name, arm.cell, arm.value, arm.verdict) for arm in found.arms] == [
        ("A", a.id, "", "PASS"),
        ("B", b.id, "", "PASS"),
    ]
    assert found.arms[1].byte_s == [rate * 1.001 for rate in RATES]
    assert found.arms[1].mean_byte_s == pytest.approx(1.001e6, rel=1e-4)
    verdict = found.judged
    assert (verdict.interval, verdict.method, verdict.alpha_per_look) == (found.ratio, "welch", ALPHA)
    assert (verdict.band_low, verdict.band_high, verdict.warnings) == (pytest.approx(0.98), 1.02, [])


def test_what_the_sides_do_not_share_is_left_out() -> None:
    a = times(1)
    b = times(1, backend="compose", client=a.client.model_copy(update={"version": "8"}), started_at=AT + timedelta(hours=1))
    found = compare_cells(a, b, 0.01)
    assert (found.backend, found.client, found.topology, found.started_at) == ("", None, a.topology, AT)
    assert found.ended_at == a.ended_at


def test_an_arm_has_its_cost_where_the_host_has_a_score() -> None:
    def scored(score: float) -> CellResult:
        cell = times(1)
        return cell.model_copy(update={"before": cell.before.model_copy(update={"hosts": {"client": {SCORE_FACT: score}}})})

    found = compare_cells(scored(300), times(1), 0.01)
    seconds = 0.03 / 5.24288e-3
    assert found.arms[0].figures == pytest.approx(
        {"cpu_s_per_GB": seconds, "cpu_score_MBps": 300, "hashed_MB_per_GB": seconds * 300}
    )
    assert found.arms[1].figures == pytest.approx({"cpu_s_per_GB": seconds})
    assert found.cost
    assert found.cost.mean == 1


def test_cells_of_two_ids_need_a_key() -> None:
    other = times(1, id="ferry--dsl-50--http1-get-5MiB-at-1MBps")
    with pytest.raises(ValueError, match=f"^not the same cell: {times(1).id} and {other.id}$"):
        compare_cells(times(1), other, 0.01)
    found = compare_cells(times(1), other, 0.01, by="client", subject="dsl-50--x")
    assert (found.id, [arm.value for arm in found.arms]) == ("dsl-50--x", ["curl", "curl"])
    with pytest.raises(ValueError, match="a tolerance is a fraction"):
        compare_cells(times(1), times(1), 1.0)


# --- what the verdicts say ----------------------------------------------------------------------------------------------------


def test_cells_that_were_asked_for_other_things_are_not_comparable() -> None:
    a = times(1)
    other = a.model_copy(update={"expectation": Expectation(kind="none")})
    assert told(a, other) == ("INVALID", "the two are not comparable: expectation differs", "verdicts")
    more = other.model_copy(update={"topology": without_a_rate(a.topology)})
    assert told(a, more) == ("INVALID", "the two are not comparable: topology, expectation differ", "verdicts")
    assert told(a, more, by="topology")[1] == "the two are not comparable: expectation differs"
    words = a.topology.model_copy(update={"name": "another", "description": "another"})
    assert told(a, a.model_copy(update={"topology": words}))[0] == "PASS", "only what it is counts, not what it is called"


def test_the_worse_of_two_open_sides_is_named_and_both_of_a_kind() -> None:
    fine, open_one, broken = times(1), times(1, "INCONCLUSIVE"), times(1, "INVALID")
    assert told(fine, broken) == ("INVALID", "B is INVALID: why INVALID", "verdicts")
    assert told(broken, broken) == ("INVALID", "A is INVALID: why INVALID; B is INVALID: why INVALID", "verdicts")
    assert told(open_one, broken) == ("INVALID", "B is INVALID: why INVALID", "verdicts")
    assert told(open_one, fine) == ("INCONCLUSIVE", "A is INCONCLUSIVE: why INCONCLUSIVE", "verdicts")


def test_one_fail_is_a_fail_and_two_are_equal() -> None:
    fine, failed = times(1), times(1, "FAIL")
    assert told(fine, failed) == ("FAIL", "only B is FAIL: why FAIL", "verdicts")
    assert told(failed, fine) == ("FAIL", "only A is FAIL: why FAIL", "verdicts")
    assert told(failed, failed) == ("PASS", f"{figures(1)}, inside ±1 %, n >= 5", "figure")


def test_an_open_side_stays_open_unless_the_ratio_is_outside() -> None:
    assert told(times(1), times(1.1, "INCONCLUSIVE")) == ("FAIL", f"{figures(1.1)}, outside ±1 %, n >= 5", "figure")


def test_by_a_key_only_the_failure_of_b_counts() -> None:
    fine, failed, open_one = times(1), times(1, "FAIL"), times(1, "INCONCLUSIVE")
    assert told(fine, failed, by="version") == ("FAIL", "only B is FAIL: why FAIL", "verdicts")
    for a, b in ((failed, fine), (open_one, fine), (fine, open_one), (open_one, failed), (failed, failed)):
        assert told(a, b, by="version") == ("PASS", f"{figures(1)}, inside ±1 %, n >= 5", "figure")
    assert told(fine, times(1, "INVALID"), by="version")[:2] == ("INVALID", "B is INVALID: why INVALID")


# --- what the ratio says ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "name", "place"), [(1.1, "FAIL", "outside"), (0.9, "FAIL", "outside"), (1.01, "INCONCLUSIVE", "across an edge of")]
)
def test_a_ratio_has_its_place(factor: float, name: str, place: str) -> None:
    assert told(times(1), times(factor)) == (name, f"{figures(factor)}, {place} ±1 %, n >= 5", "figure")
    for clock_or_run in (None, "clock"):
        assert told(times(1), times(factor), by=clock_or_run)[0] == name, "two clocks have to be equal, as two runs"


@pytest.mark.parametrize(
    ("factor", "name", "place"), [(1.1, "PASS", "not"), (0.9, "FAIL", "more than"), (0.99, "INCONCLUSIVE", "may be")]
)
def test_without_a_limit_a_key_asks_whether_b_is_slower(factor: float, name: str, place: str) -> None:
    free = {"transfer": times(1).transfer.model_copy(update={"limit": None})}
    a, b = times(1, **free), times(factor, **free)
    assert told(a, b, by="version") == (name, f"{figures(factor)}, {place} 1 % slower, n >= 5", "figure")
    found = compare_cells(a, b, 0.01, by="version").judged
    assert (found.band_low, found.band_high) == (pytest.approx(0.99), None)
    assert told(a, b)[1] == f"{figures(factor)}, {'across an edge of' if factor == 0.99 else 'outside'} ±1 %, n >= 5"


def test_over_an_unshaped_link_the_ratio_is_not_judged() -> None:
    bare = {"topology": without_a_rate(times(1).topology)}
    a, b = times(1, **bare), times(1.1, **bare)
    found = compare_cells(a, b, 0.01)
    said = "both are PASS; the link is not shaped, so that the ratio is not judged"
    assert (found.judged.name, found.judged.reason, found.judged.cause) == ("PASS", said, "verdicts")
    assert (found.not_judged, found.p_outside, found.judged.warnings) == ("the link is not shaped", None, [])
    assert found.ratio
    assert told(a, times(1.1, "INCONCLUSIVE", **bare))[0] == "INCONCLUSIVE"
    by_key = compare_cells(a, b, 0.01, by="version")
    assert (by_key.not_judged, by_key.judged.name, by_key.p_outside is not None) == ("", "FAIL", True)


def test_a_ratio_needs_two_transfers_on_each_side() -> None:
    said = "a ratio needs n >= 2 complete transfers with a rate by one clock on each side"
    one = with_rates([1e6])
    found = compare_cells(times(1), one, 0.01)
    assert (found.judged.name, found.judged.reason, found.judged.cause) == ("INCONCLUSIVE", said, "verdicts")
    assert (found.ratio, found.p_outside, found.judged.method, found.judged.alpha_per_look) == (None, None, None, None)
    assert told(times(1), with_rates([1e6] * 2))[0] == "PASS"
    assert told(times(1), with_rates([0.0, 1e6, 1e6]))[1] == said, "nothing moved"
    open_one = one.model_copy(update={"verdict": Verdict(name="INCONCLUSIVE", reason="few")})
    assert told(times(1), open_one)[1] == "B is INCONCLUSIVE: few"


def test_a_rate_that_means_nothing_on_its_clock_is_not_compared() -> None:
    cell = times(1)
    free = in_virtual_time(
        cell, topology=without_a_rate(cell.topology), transfer=cell.transfer.model_copy(update={"limit": None})
    )
    found = compare_cells(free, free, 0.01)
    assert (found.ratio, found.rate_clock, [arm.byte_s for arm in found.arms]) == (None, None, [[], []])
    mixed = compare_cells(cell, in_virtual_time(cell), 0.01, by="clock")
    assert (mixed.clocks, [arm.value for arm in mixed.arms]) == (["real", "virtual"], ["real", "virtual"])


def test_interleaved_transfers_are_pairs() -> None:
    a, b = with_rates([1e6, 2e6, 4e6]), with_rates([1.1e6, 2.2e6, 4.5e6, 9e6])
    found = compare_cells(a, b, 0.01, interleaved=True)
    assert found.ratio == paired_ratio([1e6, 2e6, 4e6], [1.1e6, 2.2e6, 4.5e6]).interval()
    assert (found.judged.method, [len(arm.byte_s) for arm in found.arms]) == ("pairs", [3, 3])
    apart = compare_cells(a, b, 0.01)
    assert (apart.judged.method, [len(arm.byte_s) for arm in apart.arms]) == ("welch", [3, 4])


# --- caveats ------------------------------------------------------------------------------------------------------------------


def test_an_open_ratio_says_how_many_samples_it_needs() -> None:
    ratio = welch_ratio(RATES, [rate * 1.0085 for rate in RATES])
    needed = predict_samples(ratio.mean, ratio.error * math.sqrt(5), Tolerance(0.01).edges, ALPHA)
    verdict = compare_cells(times(1), times(1.0085), 0.01).judged
    assert verdict.name == "INCONCLUSIVE"
    assert verdict.warnings == [f"n too small for this band: with these spreads it needs about {needed} samples on each side"]
    verdict = compare_cells(times(1), times(1.01), 0.01).judged
    assert verdict.warnings == ["n too small for this band: with these spreads it needs a great many samples on each side"]


def test_what_is_odd_on_a_side_is_reported_against_its_mean() -> None:
    odd = with_rates([1e6, 1e6, 1.2e6, 1e6, 1e6])
    first, second = compare_cells(odd, times(1), 0.01).judged.warnings
    assert first.startswith("n too small for this band: with these spreads it needs about ")
    assert second.startswith("outlier: A, against its mean: sample 3 (+15.7")
    (alone,) = compare_cells(with_rates([1e6]), odd, 0.01).judged.warnings
    assert alone.startswith("outlier: B, against its mean: sample 3"), "one transfer has no others, and is passed over"
    rising = with_rates([1e6 * 1.01**index for index in range(5)])
    warnings = compare_cells(times(1), rising, 0.1).judged.warnings
    assert [warning.split(" from ")[0] for warning in warnings] == [
        "drift over the run: B, against its mean: the samples drift by +4.06 %"
    ]
    modes = with_rates([1e6, 1.03e6] * 5)
    assert [each[:38] for each in compare_cells(modes, modes, 0.1).judged.warnings] == [
        f"bimodal: {side}, against its mean: 5 samples"[:38] for side in "AB"
    ]


# --- several rows -------------------------------------------------------------------------------------------------------------


def test_a_fail_by_chance_among_many_is_left_open() -> None:
    cells = [times(1) for _ in range(3)]
    edge = compare_cells(times(1), times(0.987), 0.01)
    assert edge.judged.name == "FAIL"
    assert edge.p_outside is not None
    assert ALPHA / 4 < edge.p_outside < ALPHA
    plain = [compare_cells(cell, cell, 0.01) for cell in cells]
    found = correct_for_many([edge, *plain])
    reason = f"{edge.judged.reason}; one of 4 ratios: not outside once they are corrected for (Holm)"
    assert (found[0].judged.name, found[0].judged.reason) == ("INCONCLUSIVE", reason)
    assert found[1:] == plain
    assert correct_for_many([edge]) == [edge], "alone it stands"
    clear = compare_cells(times(1), times(0.5), 0.01)
    assert correct_for_many([clear, *plain]) == [clear, *plain]


def test_a_fail_for_another_reason_stands_whatever_the_ratio() -> None:
    failed = compare_cells(times(1), times(1, "FAIL"), 0.01)
    assert correct_for_many([failed] * 9) == [failed] * 9
    unjudged = compare_cells(times(1), with_rates([1e6], "FAIL"), 0.01)
    assert correct_for_many([unjudged]) == [unjudged]


# --- sweeps -------------------------------------------------------------------------------------------------------------------


def make_sweep(
    name: VerdictName, *, identity: str = "s", bound: float = 0.9, sizes: tuple[str, ...] = ("1 MiB", "64 KiB")
) -> Answer:
    facts = {"id": identity, "question": "buffer-sizes", "run": "r", "lab_version": "1", "clocks": ["real"]}
    verdict = Verdict(name=name, reason=f"why {name}")
    arms = [Arm(name=size) for size in sizes]
    return Answer.model_validate(
        {**facts, "bound": Ratio(bound), "arms": arms, "verdict": verdict, "started_at": AT, "ended_at": AT}
    )


def test_sweeps_are_equal_by_their_verdicts() -> None:
    def told(a: Answer, b: Answer) -> tuple[str, str]:
        found = compare_sweeps(a, b)
        assert (found.judged.cause, [arm.verdict for arm in found.arms]) == ("verdicts", [a.judged.name, b.judged.name])
        return found.judged.name, found.judged.reason

    fine, failed, open_one = make_sweep("PASS"), make_sweep("FAIL"), make_sweep("INCONCLUSIVE")
    assert told(fine, fine) == ("PASS", "both are PASS")
    assert told(failed, failed) == ("PASS", "both are FAIL")
    assert told(fine, failed) == ("FAIL", "only B is FAIL: why FAIL")
    assert told(open_one, failed) == ("INCONCLUSIVE", "A is INCONCLUSIVE: why INCONCLUSIVE")
    assert told(fine, make_sweep("PASS", bound=0.8)) == ("INVALID", "the two are not comparable: floor differs")
    assert told(fine, make_sweep("PASS", sizes=("1 MiB",)))[1] == "the two are not comparable: settings differs"
    assert told(fine, make_sweep("PASS", sizes=("64 KiB", "1 MiB")))[0] == "PASS", "in any order"
    with pytest.raises(ValueError, match=r"^not the same sweep: s and t$"):
        compare_sweeps(fine, make_sweep("PASS", identity="t"))


# --- circumstances ------------------------------------------------------------------------------------------------------------


def test_only_circumstances_that_differ_are_listed() -> None:
    a = make_cell()
    assert differences([a], [a]) == []
    userland = UserlandFacts(name="debian:12", distribution="Debian", digest="a" * 64, packages={})
    b = a.model_copy(
        update={
            "backend": "compose",
            "backend_facts": {"engine": 24},
            "router": {"kind": "kernel", "kernel": "6.2"},
            "client": a.client.model_copy(update={"version": "8.4.0"}),
            "lab_version": "0.2.0",
            "userlands": {"client": userland},
            "before": a.before.model_copy(update={"machine": {"kernel": "6.2", "git_revision": "abc", "git_dirty": True}}),
        }
    )
    assert differences([a], [b]) == [
        Difference(what="userland of the client", a=["the machine itself"], b=[userland.words]),
        Difference(what="backend", a=["namespaces"], b=["compose"]),
        Difference(what="router kind", a=["uml"], b=["kernel"]),
        Difference(what="router kernel", a=["not recorded"], b=["6.2"]),
        Difference(what="curl: version", a=["7.88.1"], b=["8.4.0"]),
        Difference(what="lab version", a=["0.1.0"], b=["0.2.0"]),
        Difference(what="git revision", a=["not recorded"], b=["abc with changes not committed"]),
        Difference(what="machine kernel", a=["6.1"], b=["6.2"]),
        Difference(what="backend engine", a=["not recorded"], b=["24"]),
    ]


def test_a_guest_differs_only_where_both_have_one() -> None:
    a, other = in_virtual_time(make_cell()), GUEST.model_copy(update={"charge_ns": 256})
    found = differences([a], [a.model_copy(update={"virtual": other})])
    assert found == [Difference(what="guest charge_ns", a=["200"], b=["256"])]
    assert [each.what for each in differences([make_cell()], [a])] == ["clock", "backend"]


def test_parts_that_count_in_virtual_time_are_named_where_both_sides_recorded_them() -> None:
    parts = {"client's libraries": "1", "server": "2", "Python": "3", "seed": "1"}
    one, other = (GUEST.model_copy(update={"counts": each}) for each in (parts, {**parts, "server": "9", "seed": "2"}))
    a = in_virtual_time(make_cell(), virtual=one)
    found = differences([a], [a.model_copy(update={"virtual": other})])
    assert [(each.what, each.a, each.b) for each in found] == [("guest server", ["2"], ["9"]), ("guest seed", ["1"], ["2"])]
    assert differences([a], [a.model_copy(update={"virtual": GUEST})]) == [], "an older result has none"


def test_every_value_of_a_side_is_listed_once_and_sorted() -> None:
    a = make_cell()
    others = [a.model_copy(update={"lab_version": version}) for version in ("3", "2", "3")]
    assert differences([a], others) == [Difference(what="lab version", a=["0.1.0"], b=["2", "3"])]
    clean = a.model_copy(update={"before": a.before.model_copy(update={"machine": {"kernel": "6.1", "git_revision": "abc"}})})
    assert differences([a], [a, clean]) == [Difference(what="git revision", a=["not recorded"], b=["abc", "not recorded"])]


def test_a_cell_that_is_invalid_by_the_lab_is_named_with_the_lab() -> None:
    spoilt = times(1)
    spoilt = spoilt.model_copy(update={"verdict": with_invalid(spoilt.verdict, ["no link"])})
    assert told(times(1), spoilt)[1] == "B is INVALID: the lab, not the client: no link (would have been PASS: why PASS)"
