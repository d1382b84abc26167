"""Other labs' figures: rows and bands, what a flow's looks give, and words for what is inside."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.standards import paths, published
from benchmarks.standards.other_labs import OneResult, TwoResult, TwoSeen, reduce_two
from benchmarks.standards.paths import FlowSeen, parse_flows, payload_bit_s, retransmitted
from benchmarks.standards.published import NOT_RUN, ONE_FLOW, REPORTS, TWO_FLOWS
from benchmarks.standards.reports import ReportSeen
from benchmarks.standards.script import COLUMNS
from lab.model.errors import LabFault
from lab.model.units import BitRate


def flow(bit_s: float, seconds: int = 180, slow_s: int = 0) -> FlowSeen:
    """A look per second at a flow of that rate; during the first seconds it has a tenth of it."""
    rows, acked = [], 0.0
    for second in range(seconds + 1):
        row = dict.fromkeys(COLUMNS, 0) | {"t_ns": 10**9 * (second + 5), "bytes_acked": round(acked), "again": 3}
        rows.append(tuple(row[name] for name in COLUMNS))
        acked += bit_s / 8 * (0.1 if second < slow_s else 1.0)
    return FlowSeen(round(acked), float(seconds), tuple(rows))


@given(st.integers(10**6, 10**9), st.integers(0, 100))
def test_goodput_is_that_of_the_seconds_asked_for(bit_s: int, slow_s: int) -> None:
    found = flow(bit_s, slow_s=slow_s)
    assert found.acked_bit_s(119, 179) == pytest.approx(bit_s, rel=1e-4)
    assert retransmitted([found, found]) == 6


def test_an_iperf_counts_bytes_and_prints_bits() -> None:
    assert FlowSeen(12_500_000, 10.0, ()).written_bit_s == 10e6


def test_a_flow_without_two_looks_there_is_a_fault() -> None:
    with pytest.raises(LabFault, match="no two looks"):
        flow(1e6, seconds=10).acked_bit_s(119, 179)


def test_what_the_script_prints_is_read() -> None:
    seen = flow(1e6, seconds=2)
    printed = json.dumps([{"written": 5, "elapsed_s": 2.5, "rows": seen.rows}])
    assert parse_flows(printed) == [replace(seen, written_bytes=5, elapsed_s=2.5)]


def test_rows_have_names_of_their_own() -> None:
    for names in ([row.name for row in TWO_FLOWS], [row.name for row in ONE_FLOW], [report.name for report in REPORTS]):
        assert len(set(names)) == len(names)
    assert len(TWO_FLOWS) == 12
    assert sum(row.rate == BitRate(50_000_000) and row.queue_packets == 1000 for row in TWO_FLOWS) == 6
    assert len(ONE_FLOW) == 11
    assert all(why for _, why in NOT_RUN)


@pytest.mark.parametrize("row", TWO_FLOWS, ids=[row.name for row in TWO_FLOWS])
def test_published_pairs_are_no_more_than_the_line_carries(row: published.TwoFlows) -> None:
    assert 0.97 < row.total * 1e6 / payload_bit_s(row.rate) < 1


@pytest.mark.parametrize("row", ONE_FLOW, ids=[row.name for row in ONE_FLOW])
def test_published_flows_are_no_more_than_the_line_carries(row: published.OneFlow) -> None:
    assert 0.88 < row.published * 1e6 / payload_bit_s(row.rate) < 1.0005
    assert row.band == (0.005 if row.rtt.ms == 5 else 0.03)


@pytest.mark.parametrize("report", REPORTS, ids=[report.name for report in REPORTS])
def test_what_was_expected_is_in_the_band(report: published.Report) -> None:
    assert abs(report.expected_mb_s / report.published_mb_s - 1) <= report.band


ROW = TWO_FLOWS[1]


@pytest.mark.parametrize(
    ("total", "share", "word"),
    [
        (ROW.total * 1.019, ROW.share, "in the band"),
        (ROW.total * 0.981, ROW.share + 0.099, "in the band"),
        (ROW.total * 1.021, ROW.share, "OUT OF THE BAND: total"),
        (ROW.total, ROW.share - 0.101, "OUT OF THE BAND: share"),
        (ROW.total * 0.97, ROW.share + 0.11, "OUT OF THE BAND: total, share"),
    ],
)
def test_two_flows_have_a_band_for_the_sum_and_one_for_the_share(total: float, share: float, word: str) -> None:
    run = TwoSeen(1, (total * share, total * (1 - share)), 0)
    assert TwoResult(ROW, (run,)).word == word


def test_the_median_of_the_seeds_counts() -> None:
    runs = [TwoSeen(seed, (share * 47, (1 - share) * 47), 0) for seed, share in enumerate((0.1, 0.42, 0.41))]
    assert TwoResult(ROW, tuple(runs)).share == pytest.approx(0.41)


def test_the_first_flow_is_the_first_of_the_row() -> None:
    seen = reduce_two(1, [flow(10e6), flow(30e6)])
    assert seen.mbit_s == pytest.approx((10, 30))
    assert seen.share == pytest.approx(0.25)


@pytest.mark.parametrize(("mbit_s", "word"), [(19.126 * 1.0049, "in the band"), (19.126 * 0.9949, "OUT OF THE BAND")])
def test_one_flow_has_a_band(mbit_s: float, word: str) -> None:
    assert OneResult(ONE_FLOW[0], mbit_s, 0).word == word


@pytest.mark.parametrize(("mb_s", "word"), [(12.37 * 1.04, "in the band"), (12.37 / 8, "OUT OF THE BAND")])
def test_a_report_has_a_band(mb_s: float, word: str) -> None:
    assert ReportSeen(REPORTS[0], mb_s, "ssh", None).word == word


def test_a_mebibyte_is_not_a_megabyte() -> None:
    """The report says 11.8 MiB/s."""
    assert REPORTS[0].published_mb_s == pytest.approx(12.37, abs=0.01)


def test_a_full_frame_carries_1448_of_1514_bytes() -> None:
    assert payload_bit_s(BitRate(50_000_000)) / 1e6 == pytest.approx(47.82, abs=0.005)
    assert paths.LINUX_READ.split()[2] == str(6 << 20)
