"""Results of both clocks: tables say which, what means nothing in virtual time is not shown, and the clocks are never mixed."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lab.cli import compare as command
from lab.model.clock import CLOCKS, MIXED_CLOCKS, NOT_IN_VIRTUAL_TIME
from lab.model.errors import UsageProblem
from lab.model.figures import COST, RATE
from lab.model.numbers import decimals, percent, percent_interval, signed
from lab.model.results import Calibration, CellResult
from lab.store.bundle import MANIFEST, SshdSettings, again, read_bundle, write_bundle
from lab.store.consistency import cell_faults
from lab.store.run_dir import RunDir
from reports.matrix import make_matrix
from reports.matrix_table import matrix_markdown
from reports.text import render_run
from tests.support.virtual import GUEST, in_virtual_time, without_a_rate
from tests.unit.store.compared import document, lab_compare
from tests.unit.store.conftest import stored_run

MakeCell = Callable[..., CellResult]
Store = Callable[..., RunDir]
TINY = (-4e-6, -4.1e-6, -3.9e-6, -4e-6, -4e-6)


def text_of(*cells: CellResult) -> str:
    console = Console(file=io.StringIO(), width=140)
    render_run(cells, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def unlimited(cell: CellResult) -> CellResult:
    """Only the machine limits its rate."""
    return cell.model_copy(
        update={
            "samples": [each.model_copy(update={"deviation": None}) for each in cell.samples],
            "topology": without_a_rate(cell.topology),
            "transfer": cell.transfer.model_copy(update={"limit": None}),
            "expectation": type(cell.expectation).model_validate({"kind": "none", "tolerance": "5 %"}),
        }
    )


# --- small numbers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [(19.71, "+19.71"), (0.01, "+0.01"), (0.002, "+0.002"), (-0.0004, "-0.0004"), (0.0, "+0.00"), (1e-9, "+0.00")],
)
def test_a_small_number_is_not_written_as_zero(value: float, said: str) -> None:
    assert signed(value) == said


@given(st.floats(min_value=1e-6, max_value=1e6), st.booleans())
def test_a_value_other_than_zero_shows_a_digit(value: float, negative: bool) -> None:
    told = signed(-value if negative else value)
    assert any(digit in told for digit in "123456789")
    assert 2 <= decimals(value) <= 6


def test_a_mean_is_printed_no_more_exactly_than_its_interval() -> None:
    assert percent_interval(-1e-6, -0.0023, 0.0023) == ("+0.00 %", "-0.23 to +0.23 %")
    assert percent_interval(-4e-6, -4.1e-6, -3.9e-6) == ("-0.0004 %", "-0.0004 to -0.0004 %")
    assert percent(3e-6) == "+0.0003 %"


# --- tables ---------------------------------------------------------------------------------------------------------------------


def test_the_head_of_a_cell_names_its_clock(cell: CellResult) -> None:
    assert "curl: 7.88.1 over dsl-50 (50 Mbit/s, RTT 20 ms), real time\n" in text_of(cell)
    assert "curl: 7.88.1 over dsl-50 (50 Mbit/s, RTT 20 ms), virtual time\n" in text_of(in_virtual_time(cell))


def test_tiny_errors_have_digits(make_cell: MakeCell, make_calibration: Callable[..., Calibration]) -> None:
    cell = in_virtual_time(make_cell(TINY))
    assert cell.certificate is not None
    looks = cell.certificate.model_copy(update={"before": [make_calibration(3e-6, 0.002)]})
    text = text_of(cell.model_copy(update={"certificate": looks}))
    assert "+0.0003 % of ideal" in text
    assert "RTT +0.002 ms of 20 ms asked" in text
    assert "-0.0004 %" in text
    assert "mean -0.0004 %" in text


def test_a_rate_that_nothing_limits_is_the_guests(cell: CellResult) -> None:
    free = unlimited(cell)
    assert [RATE.applies(each) for each in (cell, free, in_virtual_time(cell), in_virtual_time(free))] == [
        True,
        True,
        True,
        False,
    ]
    assert "MB/s (" not in text_of(in_virtual_time(free))
    first = next(line for line in text_of(in_virtual_time(free)).splitlines() if line.split()[:1] == ["1"])
    assert first.split() == ["1", "none", "dsl-50", "-", "5242880", "-", "-"]


def test_a_matrix_says_what_is_not_in_virtual_time(cell: CellResult) -> None:
    found = make_matrix([stored_run("one", [in_virtual_time(cell)])], ["cpu", "requests", "memory", "rate"])
    (entry,) = found.rows[0].cells.values()
    assert set(entry.figures) == {"memory", "rate"}
    assert entry.not_in_virtual_time == ["cpu", "requests"]
    assert matrix_markdown(found).count(NOT_IN_VIRTUAL_TIME) == 2
    assert "- time: virtual\n" in matrix_markdown(found)
    real = make_matrix([stored_run("one", [cell])], ["cpu"])
    assert NOT_IN_VIRTUAL_TIME not in matrix_markdown(real)


def test_one_cell_on_two_clocks_is_two_rows(cell: CellResult) -> None:
    found = make_matrix([stored_run("one", [cell]), stored_run("two", [in_virtual_time(cell)])])
    assert {row.clock for row in found.rows} == set(found.clocks) == set(CLOCKS)
    assert sum(found.verdicts.values()) == 2
    text = matrix_markdown(found)
    assert MIXED_CLOCKS in text
    for clock in CLOCKS:
        assert f"http1-get-5MiB-at-1MBps, {clock} time" in text


def test_looks_at_one_instant_of_the_virtual_clock_are_two(cell: CellResult) -> None:
    one = make_matrix([stored_run("one", [cell])]).calibration
    other = make_matrix([stored_run("one", [in_virtual_time(cell)])]).calibration
    assert one is not None
    assert other is not None
    # The fixture's two looks bear one instant.
    assert (one.looks, other.looks) == (1, 2)


# --- comparisons ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("--by", "clock")])
def test_two_clocks_are_compared_and_named(cell: CellResult, store: Store, words: tuple[str, ...]) -> None:
    a, b = store(in_virtual_time(cell)).path, store(cell).path
    found = document(a, b, *words)
    (row,) = found.answers
    assert row.clocks == ["virtual", "real"]
    assert row.verdict.name == "PASS"
    assert [note for note in found.notes if "clock" in note] == [MIXED_CLOCKS]
    assert command.ONE_SIDED not in found.notes
    assert ("cpu_s_per_GB" in row.arm("A").figures, row.cost) == (False, None)
    assert row.arm("B").figures["cpu_s_per_GB"] == pytest.approx(COST.summarise(cell))
    clock = next(each for each in found.differences if each.what == "clock")
    assert (clock.a, clock.b) == (["virtual"], ["real"])
    assert not [each for each in found.differences if each.what.startswith("guest")]
    assert lab_compare(a, b, *words).stdout.count(MIXED_CLOCKS) == 1


def test_by_clock_faster_is_as_wrong_as_slower(cell: CellResult, store: Store) -> None:
    def of(factor: float, made: CellResult) -> RunDir:
        samples = [each.model_copy(update={"body_byte_s": (each.body_byte_s or 0) * factor}) for each in made.samples]
        transfer = made.transfer.model_copy(update={"limit": None})
        expectation = type(made.expectation).model_validate({"kind": "none", "tolerance": "5 %"})
        return store(made.model_copy(update={"samples": samples, "transfer": transfer, "expectation": expectation}))

    found = document(of(1, in_virtual_time(cell)).path, of(1.2, cell).path, "--by", "clock")
    assert [row.verdict.name for row in found.answers] == ["FAIL"]


def test_what_nothing_limits_has_no_ratio_across_clocks(cell: CellResult, store: Store) -> None:
    found = document(store(in_virtual_time(unlimited(cell))).path, store(unlimited(cell)).path, "--by", "clock")
    (row,) = found.answers
    assert (row.verdict.interval, row.arm("A").mean_byte_s, row.arm("B").mean_byte_s) == (None, None, None)
    assert row.verdict.name == "PASS"


def test_another_price_of_a_system_call_is_a_difference(cell: CellResult, store: Store) -> None:
    one, other = in_virtual_time(cell), in_virtual_time(cell, virtual=GUEST.model_copy(update={"charge_ns": 300}))
    found = document(store(one).path, store(other).path)
    assert [(each.what, each.a, each.b) for each in found.differences] == [("guest charge_ns", ["200"], ["300"])]


def test_one_clock_has_no_note(cell: CellResult, store: Store) -> None:
    found = document(store(in_virtual_time(cell)).path, store(in_virtual_time(cell)).path)
    assert MIXED_CLOCKS not in found.notes
    assert "clock" not in {row.what for row in found.differences}


# --- files ----------------------------------------------------------------------------------------------------------------------


def test_the_guests_clock_starts_where_it_likes(cell: CellResult) -> None:
    """Its times are not between those of the real machine."""
    early = [sample.model_copy(update={"started_at": sample.started_at.replace(year=2000)}) for sample in cell.samples]
    made = cell.model_copy(update={"samples": early})
    assert list(cell_faults(made))
    assert list(cell_faults(in_virtual_time(made))) == []


# --- bundles --------------------------------------------------------------------------------------------------------------------

SSHD = SshdSettings(max_sessions=7, ciphers="aes256-ctr")


def packed(cell: CellResult, results: Path) -> Path:
    run = RunDir.create("cells", results=results)
    run.write_cell(cell)
    write_bundle(results / "a.zip", run, cell.id, SSHD)
    return results / "a.zip"


def repacked(path: Path, **change: object) -> Path:
    """The bundle with another manifest; None takes a member out."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = {**json.loads(files[MANIFEST]), **change}
    files[MANIFEST] = json.dumps({name: value for name, value in manifest.items() if value is not None}).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_a_bundle_says_its_clock(cell: CellResult, results: Path) -> None:
    found = read_bundle(packed(in_virtual_time(cell), results))
    assert (found.manifest.clock, found.cell.clock) == ("virtual", "virtual")
    with pytest.raises(UsageProblem, match="its manifest says real time, its cell virtual"):
        read_bundle(repacked(results / "a.zip", clock="real"))


def test_a_bundle_of_before_ran_in_real_time(cell: CellResult, results: Path) -> None:
    assert read_bundle(repacked(packed(cell, results), schema_version="1.0", clock=None)).manifest.clock == "real"


def test_a_cell_in_virtual_time_is_repeated_by_its_seed(cell: CellResult) -> None:
    assert "--clock virtual --seed 7" in again(in_virtual_time(cell))
    assert "--router" not in again(in_virtual_time(cell))
    assert "--clock" not in again(cell)
