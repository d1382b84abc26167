"""`lab compare --by`: cells that differ in their client, version or system, in one run or in two."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lab.cli import compare as command
from lab.judge.compare import compare_cells
from lab.judge.tolerance import with_invalid
from lab.model.answer import BASELINE, CANDIDATE, Answer, Arm
from lab.model.results import CellResult
from tests.unit.store.compared import CELL, OTHER, QUIET, MakeCell, Store, changed, document, lab_compare, refusal, unshaped

FREE = "http1-get-5MiB--fill"


def of(cell: CellResult, client: str, **update: object) -> CellResult:
    """The cell as another client has it."""
    rest = cell.id.partition("--")[2]
    identity = cell.client.model_copy(update={"name": client, "sha256": client.encode().hex().ljust(64, "0")})
    return changed(cell, id=f"{client}--{rest}", client=identity, **update)


def unlimited(cell: CellResult, factor: float = 1.0) -> CellResult:
    """Without a limit; its rates times `factor`."""
    samples = [
        each.model_copy(update={"body_byte_s": (each.body_byte_s or 0) * factor, "deviation": None}) for each in cell.samples
    ]
    return changed(
        cell,
        id=f"{cell.client.name}--dsl-50--{FREE}",
        samples=samples,
        transfer=cell.transfer.model_copy(update={"limit": None}),
        expectation=type(cell.expectation).model_validate({"kind": "none", "tolerance": "5 %"}),
    )


def test_clients_of_one_run_are_compared(make_cell: MakeCell, store: Store) -> None:
    curl = make_cell()
    run = store(of(curl, "ferry", started_at=curl.started_at - timedelta(hours=1)), curl)
    found = document(run.path, "--by", "client")
    (row,) = found.answers
    assert (row.id, row.arm("A").value, row.arm("B").value) == ("dsl-50--http1-get-5MiB-at-1MBps", "ferry", "curl")
    assert (row.arm("A").cell, row.arm("B").cell) == (f"ferry--{row.id}", CELL)
    assert (row.verdict.name, row.verdict.method, found.by) == ("PASS", "welch", "client")
    assert row.cost is not None
    assert row.cost.mean == pytest.approx(1)
    assert command.ONE_AFTER_THE_OTHER in found.notes
    text = lab_compare(run.path, "--by", "client").stdout
    assert "A ferry" in text
    assert "CPU s/GB" in text


def test_two_runs_of_one_client_each_need_no_key(make_cell: MakeCell, store: Store) -> None:
    found = document(store(of(make_cell(), "ferry")).path, store(make_cell()).path)
    assert found.by == "client"
    assert found.notes[0] == "no cell is in both runs: compared by client, curl over ferry"
    two = store(of(make_cell(), "ferry"), of(make_cell(), "wget"))
    assert "--by client" in refusal(two.path, store(make_cell()).path)


def test_with_a_limit_faster_is_wrong_without_it_is_not(make_cell: MakeCell, store: Store) -> None:
    curl, fast = make_cell(), make_cell(tuple(each + 0.04 for each in QUIET))
    assert document(store(of(curl, "ferry")).path, store(fast).path).answers[0].verdict.name == "FAIL"
    free = unlimited(curl)
    for factor, name in ((1.2, "PASS"), (0.9, "FAIL")):
        (row,) = document(store(of(free, "ferry")).path, store(unlimited(curl, factor)).path).answers
        assert (row.verdict.name, row.verdict.band_high) == (name, None)


def test_by_a_key_an_unshaped_ratio_is_judged(make_cell: MakeCell) -> None:
    a, b = unshaped(unlimited(make_cell())), unshaped(unlimited(make_cell(), 0.9))
    assert compare_cells(a, b, 0.01).verdict.name == "PASS"
    assert compare_cells(a, of(b, "ferry"), 0.01, by="client", subject="x").verdict.name == "FAIL"


def test_by_a_key_only_the_failure_of_b_counts(make_cell: MakeCell) -> None:
    good, bad = make_cell(), of(make_cell(problem="exit code 18"), "ferry")
    assert compare_cells(good, bad, 0.01, by="client").verdict.name == "FAIL"
    assert compare_cells(bad, good, 0.01, by="client").verdict.name == "PASS"
    invalid = changed(bad, verdict=with_invalid(bad.verdict, ["no link"]))
    assert compare_cells(invalid, good, 0.01, by="client").verdict.name == "INVALID"


def test_other_keys(make_cell: MakeCell, store: Store) -> None:
    cell = make_cell()
    later = cell.started_at + timedelta(hours=1)
    newer = changed(cell, client=cell.client.model_copy(update={"version": "curl 8.5.0 (x86_64) libcurl/8.5.0"}))
    row = document(store(cell).path, store(newer).path, "--by", "version").answers[0]
    assert (row.arm("A").value, row.arm("B").value) == ("7.88.1", "8.5.0")
    row = document(store(cell, of(newer, "curl@8.5.0", started_at=later)).path, "--by", "version").answers[0]
    assert (row.arm("A").cell, row.arm("B").cell) == (CELL, CELL.replace("curl", "curl@8.5.0"))
    row = document(store(cell).path, store(changed(cell, backend="compose")).path, "--by", "backend").answers[0]
    assert (row.arm("A").value, row.arm("B").value) == ("namespaces", "compose")
    hosts = {"client": {"cpu_score_MBps": 500.0}}
    windows = changed(cell, before=cell.before.model_copy(update={"machine": {"system": "Windows 11"}, "hosts": hosts}))
    linux = changed(cell, before=cell.before.model_copy(update={"hosts": {"client": {"cpu_score_MBps": 1000.0}}}))
    row = document(store(linux).path, store(windows).path, "--by", "os").answers[0]
    assert (row.arm("A").value, row.arm("B").value) == ("Linux", "Windows")
    work = {arm.name: arm.figures["hashed_MB_per_GB"] for arm in row.arms}
    assert work["A"] == pytest.approx(2 * work["B"]), "half the score, half the work"
    for other_system, value in ((linux, "Linux VM"), (windows, "Windows")):
        virtual = changed(other_system, backend="vagrant")
        row = document(store(linux).path, store(virtual).path, "--by", "os").answers[0]
        assert (row.arm("A").value, row.arm("B").value) == ("Linux", value)
    link = type(cell.topology.link).model_validate({"rate": "20 Mbit/s", "rtt": "20 ms"})
    other = cell.topology.model_copy(update={"name": "dsl-20", "link": link})
    row = document(
        store(cell, changed(cell, id=CELL.replace("dsl-50", "dsl-20"), topology=other, started_at=later)).path, "--by", "topology"
    ).answers[0]
    assert (row.arm("A").value, row.arm("B").value, row.verdict.name) == ("dsl-50", "dsl-20", "PASS")


def test_two_networks_of_one_name_are_one_line_and_the_rest_is_shown(make_cell: MakeCell, store: Store) -> None:
    cell, other = make_cell(), make_cell(cell_id=OTHER)
    link = type(cell.topology.link).model_validate({"rate": "20 Mbit/s", "rtt": "20 ms"})
    moved = changed(cell, topology=cell.topology.model_copy(update={"link": link}))
    same = changed(other, topology=cell.topology.model_copy(update={"name": "dsl-20"}))
    found = document(store(cell, same).path, store(moved, same).path)
    assert {row.id: row.verdict.name for row in found.answers} == {CELL: "INVALID", OTHER: "PASS"}
    (note,) = [note for note in found.notes if "not the same network" in note]
    assert note.startswith("dsl-50")
    assert "50 Mbit/s" in note
    assert "20 Mbit/s" in note


def test_what_ran_interleaved_is_compared_pair_by_pair(make_cell: MakeCell, store: Store) -> None:
    drift = (0.0, 0.01, 0.02, 0.03, 0.04)
    curl = make_cell(drift)
    ferry = of(make_cell(tuple(each + 0.0005 * (-1) ** index for index, each in enumerate(drift))), "ferry")
    run = store(ferry, curl)
    assert document(run.path, "--by", "client").answers[0].verdict.name == "INCONCLUSIVE"
    run.write_answer(
        Answer(
            id=f"{ferry.id}--vs-curl",
            question="no-slower",
            run=run.name,
            lab_version="0.1.0",
            clocks=["real"],
            arms=[Arm(name=CANDIDATE, cell=ferry.id), Arm(name=BASELINE, cell=curl.id)],
            verdict=None,
            started_at=curl.started_at,
            ended_at=curl.ended_at,
        )
    )
    found = document(run.path, "--by", "client")
    (row,) = found.answers
    assert (row.verdict.name, row.verdict.method) == ("PASS", "pairs")
    assert row.verdict.interval is not None
    assert row.verdict.interval.n == 5
    assert command.ONE_AFTER_THE_OTHER not in found.notes


def test_regressions_over_many_cells_are_corrected_for(make_cell: MakeCell, store: Store) -> None:
    names = [f"curl--dsl-50--http1-get-{size}MiB-at-1MBps" for size in range(1, 9)]
    base = [make_cell(cell_id=name) for name in names]
    # One cell just outside if judged alone, one far outside, six equal.
    near, far = make_cell(tuple(0.0155 + 2 * each for each in QUIET), cell_id=names[0]), make_cell((0.03,) * 5, cell_id=names[1])
    alone = document(store(base[0]).path, store(near).path)
    assert alone.answers[0].verdict.name == "FAIL"
    found = document(store(*base).path, store(near, far, *base[2:]).path)
    rows = {row.id: row for row in found.answers}
    assert (rows[names[0]].verdict.name, rows[names[1]].verdict.name) == ("INCONCLUSIVE", "FAIL")
    assert "Holm" in rows[names[0]].verdict.reason
    assert any("corrected by Holm" in note for note in found.notes)
    assert not any("corrected by Holm" in note for note in alone.notes)
