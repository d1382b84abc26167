"""Paths between clouds: rows are read in their unit, one sets the buffer, the grid is interpolated, and errors are counted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.standards import intercloud
from benchmarks.standards.intercloud import (
    CHECKS,
    CLOUDS,
    DATA,
    FROM_MS,
    GRIDS,
    Curve,
    Prediction,
    Row,
    chosen,
    errors_of,
    fit,
    in_flight_bytes,
    parse_rows,
    predict,
    read_predictions,
    score,
    share_at_best,
    shares_of_other_rows,
    write_predictions,
)
from lab.assets.traces import MIRROR
from lab.model.errors import LabFault, UsageProblem

HEADER = "timestamp,run_id,from_cloud,from_region,to_cloud,to_region,bitrate_Bps,avgrtt,gcp_vm,aws_vm\n"
WINDOW = 1_000_000


def text(*rows: Row) -> str:
    lines = [f"t,run,{row.from_cloud},there,{row.to_cloud},here,{row.bit_s},{row.rtt_ms},," for row in rows]
    return HEADER + "\n".join(lines) + "\n"


def limited(rtt_ms: float, to: str = "AWS", window: float = WINDOW) -> Row:
    """A row whose receiver has that window."""
    return Row("GCP", to, rtt_ms, window * 8 / (rtt_ms / 1e3))


def by_window(rtt_ms: float, rmem_bytes: int) -> float:
    """A receiver that offers three fifths of its buffer, and nothing else in the way."""
    return 0.6 * rmem_bytes * 8 / (rtt_ms / 1e3)


def prediction(*points: tuple[float, float], cloud: str = "AWS") -> Prediction:
    return Prediction(cloud, limited(100.0, cloud), WINDOW, (), Curve(points), ())


def test_the_published_column_is_in_bit_s() -> None:
    (row,) = parse_rows(text(limited(100.0)), "data")
    assert row.bit_s == 80e6
    assert row.in_flight_bytes == pytest.approx(WINDOW)


@given(st.floats(5e5, 4e6), st.lists(st.floats(20, 400), min_size=1, max_size=20))
def test_rates_in_byte_s_are_noticed(window: float, times: list[float]) -> None:
    rows = [limited(rtt, window=window) for rtt in times]
    assert parse_rows(text(*rows), "data") == rows
    # The same numbers as the column's name has them: eight times as much on the way.
    bytes_taken_for_bits = [replace(row, bit_s=row.bit_s * 8) for row in rows]
    if window * 8 > 6 << 20:
        with pytest.raises(UsageProblem, match="not in bit/s"):
            parse_rows(text(*bytes_taken_for_bits), "data")


@pytest.mark.parametrize(
    "line", ["t,r,GCP,x,AWS,y,fast,20,,", "t,r,GCP,x,AWS,y,1e6,0,,", "t,r,GCP,x,AWS,y,-1,20,,", "t,r", "t,r,A,x,AWS,y,nan,2,,"]
)
def test_a_bad_row_says_where(line: str) -> None:
    with pytest.raises(UsageProblem, match=r"^data:3: "):
        parse_rows(text(limited(50.0)) + line + "\n", "data")


def test_the_row_nearest_to_100_ms_sets_the_buffer_and_is_not_scored() -> None:
    rows = [limited(21.0), limited(99.0), limited(101.0), limited(104.0), limited(100.1, "GCP")]
    assert chosen(rows, "AWS") == rows[1]
    found = Prediction("AWS", rows[1], WINDOW, (), Curve(((20.0, rows[0].bit_s), (400.0, 1e6))), ())
    assert [row for row, _ in errors_of(found, rows)] == [rows[0], rows[2], rows[3]]


def test_rows_that_the_receiver_does_not_limit_are_left_out() -> None:
    rows = [limited(19.9), limited(20.0), limited(59.9, "GCP"), limited(60.0, "GCP")]
    assert [intercloud.scored_rows(rows, cloud) for cloud in CLOUDS] == [[rows[1]], [rows[3]]]
    with pytest.raises(UsageProblem, match="no rows into GCP"):
        chosen(rows[:3], "GCP")


@given(st.floats(20, 400), st.floats(1e5, 1e7))
def test_a_constant_window_is_interpolated_exactly(rtt_ms: float, window: float) -> None:
    curve = Curve(tuple((rtt, window * 8 / (rtt / 1e3)) for rtt in GRIDS["AWS"]))
    assert in_flight_bytes(curve.bit_s(rtt_ms), rtt_ms) == pytest.approx(window)


@given(st.sampled_from(GRIDS["GCP"]), st.lists(st.floats(1e6, 1e9), min_size=10, max_size=10))
def test_the_grid_is_what_was_measured(rtt_ms: float, rates: list[float]) -> None:
    curve = Curve(tuple(zip(GRIDS["GCP"], rates, strict=True)))
    assert curve.bit_s(rtt_ms) == pytest.approx(rates[GRIDS["GCP"].index(rtt_ms)])


@pytest.mark.parametrize("rtt_ms", [19.9, 400.1])
def test_nothing_is_extrapolated(rtt_ms: float) -> None:
    with pytest.raises(LabFault, match="outside the grid"):
        Curve(((20.0, 1e6), (400.0, 1e5))).bit_s(rtt_ms)


def test_grids_reach_over_all_rows_and_the_checks_lie_between() -> None:
    for cloud in CLOUDS:
        assert list(GRIDS[cloud]) == sorted(set(GRIDS[cloud]))
        assert GRIDS[cloud][0] <= FROM_MS[cloud]
        assert GRIDS[cloud][-1] == 400
        assert not set(CHECKS[cloud]) & set(GRIDS[cloud])
        assert all(GRIDS[cloud][0] < rtt < GRIDS[cloud][-1] for rtt in CHECKS[cloud])


def test_the_buffer_is_changed_until_the_rate_is_right() -> None:
    rmem, tried = fit(limited(100.0), lambda rtt_ms, rmem: by_window(rtt_ms, rmem) * 0.9)
    assert by_window(100.0, rmem) * 0.9 == pytest.approx(80e6, rel=0.002)
    assert len(tried) == 2


def test_a_rate_that_goes_in_steps_is_met_as_nearly_as_it_can_be() -> None:
    step_bit_s = 1.2e6
    rmem, tried = fit(limited(100.0), lambda rtt_ms, rmem: by_window(rtt_ms, rmem) // step_bit_s * step_bit_s)
    nearest = min(abs(rate / 80e6 - 1) for _, rate in tried)
    assert 0.002 < nearest <= 0.01
    assert dict(tried)[rmem] in (79.2e6, 80.4e6)


def test_a_rate_that_no_buffer_gives_is_a_fault() -> None:
    with pytest.raises(LabFault, match="no receive buffer"):
        fit(limited(100.0), lambda _, __: 1e6)


def test_a_prediction_says_how_wrong_its_interpolation_is(tmp_path: Path) -> None:
    found = predict("AWS", limited(100.0), by_window, 1)
    assert found.interpolation_error == pytest.approx(0, abs=1e-9)
    off = replace(found, checks=((28.0, found.curve.bit_s(28.0) * 1.02),))
    assert off.interpolation_error == pytest.approx(0.0196, abs=1e-3)
    path = tmp_path / "made" / "prediction.json"
    digest = write_predictions([found], path, 1)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert read_predictions(path) == [found]


def test_errors_are_relative_to_what_was_measured() -> None:
    rows = [limited(50.0), limited(50.0, window=WINDOW * 1.25)]
    errors = [error for _, error in errors_of(prediction((20.0, 400e6), (400.0, 20e6)), rows)]
    assert errors == pytest.approx([0.0, -0.2])


def test_errors_are_grouped_by_round_trip() -> None:
    pairs = [(limited(rtt), error) for rtt, error in ((20.0, 0.1), (59.9, 0.3), (60.0, -0.2), (399.0, 0.0))]
    assert intercloud.by_round_trip(pairs) == [
        {"from_ms": 20, "to_ms": 60, "n": 2, "median": 0.2},
        {"from_ms": 60, "to_ms": 100, "n": 1, "median": -0.2},
        {"from_ms": 300, "to_ms": 400, "n": 1, "median": 0.0},
    ]


def test_a_score_counts_those_within_a_tenth() -> None:
    found = score([0.0, 0.05, -0.10, 0.10, 0.11, -0.2, 0.0, 0.0, 0.0, 0.0])
    assert (found.rows, found.within) == (10, 0.8)
    assert (found.median_error, found.p90_absolute_error) == (0.0, 0.11)
    assert found.median_absolute_error == pytest.approx(0.025)
    with pytest.raises(LabFault, match="no rows"):
        score([])


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=60))
def test_no_constant_window_beats_the_best(factors: list[float]) -> None:
    """Rows of nearly one round trip: the best share is at least that of any window, here of each row's own."""
    rows = [limited(100.0 + index / 1e6, window=WINDOW * factor) for index, factor in enumerate(factors)][:41]
    best = share_at_best(rows)

    def share(window: float) -> float:
        return sum(abs(window / row.in_flight_bytes - 1) <= 0.1 for row in rows) / len(rows)

    assert best >= max(share(row.in_flight_bytes) for row in rows) - 1e-9
    assert 0 < best <= 1


@pytest.mark.parametrize(
    ("errors", "shares"),
    [({"AWS": [0.0, 0.0]}, [1.0, 1.0]), ({"AWS": [0.0, 0.5], "GCP": [0.0, 0.2]}, [0.5, 0.5, 0.5, 0.5])],
)
def test_another_row_moves_all_predictions_of_its_cloud(errors: dict[str, Sequence[float]], shares: list[float]) -> None:
    assert shares_of_other_rows(errors) == shares


def test_a_wrong_row_would_spoil_the_others() -> None:
    # Its own row is right by construction, and nine others are off by a fifth.
    assert min(shares_of_other_rows({"AWS": [0.0] * 9 + [0.25]})) == pytest.approx(0.1)


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR, (tmp_path / "mirror").as_uri())
    (tmp_path / "mirror").mkdir()
    return (tmp_path / "mirror" / DATA.name).write_text


def test_another_file_is_refused_wherever_it_comes_from(tmp_path: Path, published: Callable[[str], int]) -> None:
    published(text(limited(100.0)))
    with pytest.raises(LabFault, match="has changed"):
        intercloud.read_data(None)
    own = tmp_path / "own.csv"
    own.write_text(text(limited(100.0)))
    with pytest.raises(UsageProblem, match="is not the file of"):
        intercloud.read_data(own)


def test_the_data_lie_where_no_topology_looks(published: Callable[[str], int]) -> None:
    assert DATA.path.parent.name == "published"
    assert DATA.url.endswith(DATA.name)
