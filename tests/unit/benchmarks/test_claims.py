"""When a claim is met: never by the median of a few samples alone."""

from __future__ import annotations

import pytest

from benchmarks.claims import Claim, Estimate, Side, claims_table, median_ratio, worst_of


def claim(measured: Estimate | None, side: Side = "at least", bound: float = 0.95, **more: object) -> Claim:
    return Claim("x", side, bound, measured, **more)  # type: ignore[arg-type]


def test_a_ratio_is_of_the_medians_and_its_interval_is_that_of_the_samples() -> None:
    found = median_ratio([9.0, 10.0, 11.0, 12.0, 10.0], [5.0, 5.0, 5.0, 5.0, 5.0])
    assert found
    assert found.value == 2.0
    assert 1.8 <= found.low <= found.value <= found.high <= 2.4
    assert found.n == 5
    assert found == median_ratio([9.0, 10.0, 11.0, 12.0, 10.0], [5.0, 5.0, 5.0, 5.0, 5.0])


def test_equal_samples_have_no_width() -> None:
    assert median_ratio([3.0] * 5, [2.0] * 7) == Estimate(1.5, 1.5, 1.5, 5)


@pytest.mark.parametrize(("ours", "theirs"), [([], [1.0]), ([1.0], []), ([1.0], [1.0, 0.0])])
def test_there_is_no_ratio_without_samples(ours: list[float], theirs: list[float]) -> None:
    assert median_ratio(ours, theirs) is None


def test_the_worst_is_the_farthest_from_zero() -> None:
    assert worst_of([]) is None
    assert worst_of([0.1, -0.3, 0.2]) == Estimate(-0.3, -0.3, -0.3, 3)


@pytest.mark.parametrize(
    ("measured", "side", "bound", "verdict"),
    [
        (Estimate(0.97, 0.96, 0.98, 5), "at least", 0.95, "met"),
        (Estimate(0.97, 0.94, 0.98, 5), "at least", 0.95, "met by the median only"),
        (Estimate(0.94, 0.93, 0.98, 5), "at least", 0.95, "NOT MET"),
        (Estimate(0.94, 0.93, 0.98, 2), "at least", 0.95, "not met by the median; n < 5 shows nothing"),
        (Estimate(0.97, 0.96, 0.98, 4), "at least", 0.95, "met by the median; n < 5 shows nothing"),
        (Estimate(1.04, 1.00, 1.05, 5), "at most", 1.05, "met"),
        (Estimate(1.04, 1.00, 1.06, 5), "at most", 1.05, "met by the median only"),
        (Estimate(1.06, 1.00, 1.07, 5), "at most", 1.05, "NOT MET"),
        (Estimate(1.0, 1.0, 1.0, 5), "more than", 1.0, "NOT MET"),
        (Estimate(1.1, 1.0, 1.2, 5), "more than", 1.0, "met by the median only"),
        (None, "at least", 1.0, "no figure"),
    ],
)
def test_a_claim_is_met_if_its_interval_keeps_the_bound(
    measured: Estimate | None, side: Side, bound: float, verdict: str
) -> None:
    assert claim(measured, side, bound).verdict == verdict


def test_a_claim_is_not_met_after_a_failure_or_without_a_certificate() -> None:
    good = Estimate(1.0, 1.0, 1.0, 5)
    assert claim(good, failed=1).verdict == "NOT MET: 1 of its transfers failed"
    assert claim(good, failed=1, problem="the link").verdict == "INVALID, see below"


def test_a_table_has_a_line_per_claim() -> None:
    lines = claims_table([claim(Estimate(1.0, 0.99, 1.01, 5)), claim(None), *[claim(None, problem="no link")] * 2]).splitlines()
    assert len(lines) == 6
    assert lines[-1] == "2 INVALID: no link"
    assert "1.000 (0.990 to 1.010), n = 5" in lines[1]
