"""`lab compare` on two synthetic runs: what agrees, what does not, what stays undecided, and one line if a path is not a run."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from lab.cli import compare as command
from lab.judge.compare import compare_cells, compare_sweeps
from lab.judge.tolerance import with_invalid
from lab.model.answer import Answer, Arm
from lab.model.errors import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_PASS
from lab.model.results import CellResult, Interval, Verdict
from lab.store.run_dir import RUN_FILE, RunDir
from tests.unit.store.compared import CELL, OTHER, QUIET, MakeCell, Store, changed, document, lab_compare, refusal, unshaped


def make_sweep(cell: CellResult, name: str = "PASS", **update: object) -> Answer:
    verdict = Verdict.model_validate(
        {"name": name, "reason": "because", "interval": Interval(n=5, mean=0.97, low=0.95, high=0.99, confidence=0.96)}
    )
    arms = [Arm(name=setting, cell=cell.id, byte_s=[1e6] * 5, mean_byte_s=1e6) for setting in ("4 KiB", "1 MiB")]
    study = Answer.model_validate(
        {
            "id": "curl--dsl-50--http1-get-5MiB--buffers",
            "run": cell.run,
            "lab_version": cell.lab_version,
            "client": cell.client,
            "topology": cell.topology,
            "transfer": cell.transfer,
            "question": "buffer-sizes",
            "clocks": ["real"],
            "bound": "90 %",
            "rate_clock": "client",
            "ratio": verdict.interval,
            "arms": arms,
            "order": ["4 KiB", "1 MiB"] * 5,
            "verdict": verdict,
            "started_at": cell.started_at,
            "ended_at": cell.ended_at,
        }
    )
    return study.model_copy(update=update)


def test_equal_runs_pass(make_cell: MakeCell, store: Store) -> None:
    a, b = store(make_cell()), store(make_cell((-0.001, 0.002, 0.0, -0.002, 0.001)))
    found = document(a.path, b.path)
    row = found.answers[0]
    assert found.exit_code == EXIT_PASS
    assert row.verdict.name == "PASS"
    assert row.verdict.interval is not None
    assert row.verdict.interval.mean == pytest.approx(1, abs=1e-9)
    assert (row.verdict.band_low, row.verdict.band_high) == (0.99, 1.01)
    assert (len(row.arm("A").byte_s), len(row.arm("B").byte_s), row.arm("A").verdict, row.arm("B").verdict) == (
        5,
        5,
        "PASS",
        "PASS",
    )
    assert row.arm("A").mean_byte_s == pytest.approx(1e6, rel=1e-4)
    assert found.differences == []
    assert found.notes == [command.NOT_INTERLEAVED]
    assert f"note: {command.NOT_INTERLEAVED}" in lab_compare(a.path, b.path).stdout.splitlines()


def test_within_is_the_band(make_cell: MakeCell, store: Store) -> None:
    a, b = store(make_cell()).path, store(make_cell(tuple(1.02 * (1 + each) - 1 for each in QUIET))).path
    assert document(a, b).exit_code == EXIT_FAIL, "both sides PASS, but 2 % apart"
    assert document(a, b, "--within", "2%").exit_code == EXIT_INCONCLUSIVE
    assert document(a, b, "--within", "3 %").exit_code == EXIT_PASS


def test_only_transfers_that_arrived_count(make_cell: MakeCell) -> None:
    broken = make_cell(QUIET, problem="exit code 18")
    row = compare_cells(broken, broken, 0.01)
    assert len(row.arm("A").byte_s) == len(row.arm("B").byte_s) == 5
    assert (row.arm("A").verdict, row.verdict.name) == ("FAIL", "PASS"), "two runs that fail alike agree"


def test_pass_against_fail_is_fail(make_cell: MakeCell) -> None:
    row = compare_cells(make_cell(), make_cell(problem="exit code 18"), 0.01)
    assert row.verdict.name == "FAIL"
    assert "only B is FAIL" in row.verdict.reason
    assert "exit code 18" in row.verdict.reason
    assert "only A is FAIL" in compare_cells(make_cell(problem="exit code 18"), make_cell(), 0.01).verdict.reason


@pytest.mark.parametrize("both", [False, True])
def test_invalid_beats_everything(make_cell: MakeCell, both: bool) -> None:
    good = make_cell()
    bad = changed(good, verdict=with_invalid(good.verdict, ["goodput -20 %"]))
    row = compare_cells(bad, bad if both else make_cell((0.08,) * 5), 0.01)
    assert row.verdict.name == "INVALID"
    assert "goodput -20 %" in row.verdict.reason
    assert row.verdict.interval is not None, "the figures are told all the same"


def test_an_inconclusive_side_never_passes_and_a_ratio_outside_is_a_fail(make_cell: MakeCell) -> None:
    noisy = make_cell((0.06, 0.03, 0.055, 0.04, 0.05))
    assert noisy.verdict.name == "INCONCLUSIVE"
    assert compare_cells(noisy, noisy, 0.5).verdict.name == "INCONCLUSIVE"
    assert compare_cells(make_cell(), noisy, 0.01).verdict.name == "FAIL"


def test_a_straddling_ratio_says_how_many_samples_it_needs(make_cell: MakeCell) -> None:
    row = compare_cells(make_cell((0.01, -0.02, 0.015, 0.0, -0.005)), make_cell((0.0, -0.02, 0.01, 0.005, -0.015)), 0.01)
    assert row.verdict.name == "INCONCLUSIVE"
    assert any("samples on each side" in warning for warning in row.verdict.warnings)


@pytest.mark.parametrize("deviations", [(), (0.001,)])
def test_fewer_than_two_samples_have_no_ratio(make_cell: MakeCell, deviations: tuple[float, ...]) -> None:
    passed = make_cell().verdict
    row = compare_cells(make_cell(), changed(make_cell(deviations), verdict=passed), 0.01)
    assert (row.verdict.name, row.verdict.interval, len(row.arm("B").byte_s)) == ("INCONCLUSIVE", None, len(deviations))
    assert "n >= 2" in row.verdict.reason


def test_an_unshaped_ratio_is_shown_and_not_judged(make_cell: MakeCell, store: Store) -> None:
    slow, fast = unshaped(make_cell()), unshaped(make_cell((0.04, 0.041, 0.039, 0.04, 0.04)))
    row = compare_cells(slow, fast, 0.01)
    assert (row.verdict.name, row.not_judged) == ("PASS", "the link is not shaped")
    assert row.verdict.interval is not None
    assert row.verdict.interval.low > 1.03
    assert compare_cells(slow, unshaped(make_cell(problem="gone")), 0.01).verdict.name == "FAIL", "verdicts are compared"
    assert "not judged" in lab_compare(store(slow).path, store(fast).path).stdout


def test_two_clocks_are_never_mixed(make_cell: MakeCell) -> None:
    wire = make_cell()
    wire = changed(wire, samples=[each.model_copy(update={"body_clock": "wire"}) for each in wire.samples])
    row = compare_cells(make_cell(), wire, 0.01)
    assert row.rate_clock == "total"
    assert row.arm("A").mean_byte_s == pytest.approx(0.98e6, rel=1e-4)
    blind = changed(wire, samples=[each.model_copy(update={"total_byte_s": None, "body_byte_s": None}) for each in wire.samples])
    assert compare_cells(make_cell(), blind, 0.01).rate_clock is None


@pytest.mark.parametrize("what", ["topology", "expectation"])
def test_one_name_for_two_things_is_invalid(make_cell: MakeCell, what: str) -> None:
    cell = make_cell()
    link = type(cell.topology.link).model_validate({"rate": "20 Mbit/s", "rtt": "20 ms"})
    update = {
        "topology": cell.topology.model_copy(update={"link": link}),
        "expectation": type(cell.expectation).model_validate({"kind": "limit", "tolerance": "1 %"}),
    }
    row = compare_cells(cell, changed(cell, **{what: update[what]}), 0.01)
    assert row.verdict.name == "INVALID"
    assert what in row.verdict.reason
    described = changed(cell, topology=cell.topology.model_copy(update={"description": "other words"}))
    assert compare_cells(cell, described, 0.01).verdict.name == "PASS"


def test_cells_of_one_run_only_are_listed(make_cell: MakeCell, store: Store) -> None:
    a = store(make_cell(), make_cell(cell_id=OTHER), answers=(make_sweep(make_cell()),))
    b = store(make_cell(), make_cell(cell_id="mine--dsl-20--http1-get-1MiB"))
    found = document(a.path, b.path)
    assert [row.id for row in found.answers] == [CELL]
    assert found.only_in_a == [OTHER, "curl--dsl-50--http1-get-5MiB--buffers"]
    assert found.only_in_b == ["mine--dsl-20--http1-get-1MiB"]
    text = lab_compare(a.path, b.path).stdout
    assert f"only in A: {OTHER}" in text
    assert text.splitlines()[-1] == "within 1 %: 1 PASS, 0 FAIL, 0 INCONCLUSIVE, 0 INVALID; 2 only in A, 1 only in B"


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        ("PASS", "PASS", "PASS"),
        ("FAIL", "FAIL", "PASS"),
        ("PASS", "FAIL", "FAIL"),
        ("INCONCLUSIVE", "FAIL", "INCONCLUSIVE"),
        ("INVALID", "FAIL", "INVALID"),
    ],
)
def test_studies_agree_by_verdict(make_cell: MakeCell, one: str, other: str, name: str) -> None:
    cell = make_cell()
    a, b = make_sweep(cell, one), make_sweep(cell, other)
    assert compare_sweeps(a, b).verdict.name == compare_sweeps(b, a).verdict.name == name
    assert compare_sweeps(a, a.model_copy(update={"arms": a.arms[:1]})).verdict.name == "INVALID"


def test_what_differs_is_printed(make_cell: MakeCell, store: Store) -> None:
    a = make_cell()
    machine = {"kernel": "6.1", "git_revision": "abc", "git_dirty": True}
    b = changed(
        a,
        backend="compose",
        backend_facts={"engine": "20.10"},
        router={"kind": "kernel", "kernel": "6.12"},
        client=a.client.model_copy(update={"sha256": "1" * 64}),
        before=a.before.model_copy(update={"machine": machine}),
    )
    one, other = store(a), store(b, whole=False)
    found = document(one.path, other.path)
    assert {row.what: (row.a, row.b) for row in found.differences} == {
        "backend": (["namespaces"], ["compose"]),
        "backend engine": (["not recorded"], ["20.10"]),
        "router kind": (["uml"], ["kernel"]),
        "router kernel": (["not recorded"], ["6.12"]),
        "curl: sha256": (["0" * 64], ["1" * 64]),
        "git revision": (["not recorded"], ["abc with changes not committed"]),
    }
    assert (found.a.whole, found.b.whole) == (True, False)
    text = lab_compare(one.path, other.path).stdout
    assert "compose" in text
    assert "not complete" in text


def test_exit_code_is_the_worst(make_cell: MakeCell, store: Store) -> None:
    good, other = make_cell(), make_cell(cell_id=OTHER)
    bad = changed(other, verdict=with_invalid(other.verdict, ["no link"]))
    assert lab_compare(store(good, other).path, store(good, bad).path).exit_code == EXIT_INVALID
    assert lab_compare(store(good, other).path, store(make_cell(problem="x"), bad).path).exit_code == EXIT_FAIL


def test_runs_by_name(make_cell: MakeCell, store: Store, results: Path) -> None:
    cell = make_cell()
    runs = [RunDir.create("cells", results=results, now=cell.started_at + timedelta(days=day)) for day in range(3)]
    for run in runs:
        run.write_cell(cell)
    found = document("latest~1", "latest")
    assert [found.a.run, found.b.run] == [runs[1].name, runs[2].name]
    assert document(runs[0].name, "latest~0").a.path == str(runs[0].path)
    assert document("latest~2", "latest").a.run == runs[0].name
    assert "there are only 2 runs before" in refusal("latest~3", "latest")


@pytest.mark.parametrize("name", ["nosuch", "latest", "latest~1", "x" * 5000, "a\0b", ""])
def test_no_run_is_one_line(results: Path, name: str) -> None:
    assert "is not the folder of a run" in refusal(name, name)


def test_a_file_that_is_not_a_result_is_one_line_and_the_rest_is_shown(make_cell: MakeCell, store: Store) -> None:
    good, bad = store(make_cell(), make_cell(cell_id=OTHER)), store(make_cell(), make_cell(cell_id=OTHER))
    path = bad.cell_path(CELL)
    whole = path.read_text()
    for content, said in (
        (whole[:1000], "cut off"),
        (json.dumps(json.loads(whole) | {"schema_version": "99.0"}), "newer"),
        (json.dumps(json.loads(whole) | {"extra": 1}), "not a valid CellResult"),
        (json.dumps(json.loads(whole) | {"extra": 1, "other": 2, "third": 3}), "(and 2 more)"),
    ):
        path.write_text(content)
        done = lab_compare(good.path, bad.path)
        (line,) = done.stderr.splitlines()
        assert said in line
        assert str(path) in line
        assert OTHER in done.stdout
        found = document(good.path, bad.path)
        assert [row.id for row in found.answers] == [OTHER]
        assert found.only_in_a == [CELL]
        assert len(found.problems) == 1
    path.write_text(whole)
    (bad.path / RUN_FILE).write_text("{")
    found = document(good.path, bad.path)
    assert len(found.answers) == 2
    assert "cut off" in found.problems[0]
    for each in bad.cells.iterdir():
        each.unlink()
    assert "holds no results" in refusal(good.path, bad.path)


def test_nothing_in_common_and_no_tolerance_are_one_line(make_cell: MakeCell, store: Store) -> None:
    a, b = store(make_cell()).path, store(make_cell(cell_id=OTHER)).path
    assert "no cell in common" in refusal(a, b)
    assert "--by client" in refusal(a)
    assert "nothing to compare by backend" in refusal(a, b, "--by", "backend")
    assert "nothing to compare by os" in refusal(a, "--by", "os")
    assert lab_compare(a, b, "--by", "colour").exit_code == 2
    assert "not a tolerance" in refusal(a, a, "--within", "0%")
    assert lab_compare(a, a, "--within", "1 furlong").exit_code == 2


@pytest.mark.parametrize("name", ["a[bold]b", "x" * 150])
def test_names_are_text_and_are_not_cut(make_cell: MakeCell, store: Store, name: str) -> None:
    a = store(make_cell(cell_id=name)).path
    text = "".join(lab_compare(a, a).stdout.split())
    assert "…" not in text
    if "[" in name:
        assert name in text
    else:
        table = text[text.index("cell") :]
        assert table.count("x") >= 150
