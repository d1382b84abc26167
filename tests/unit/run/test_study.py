"""From a study to its cells and from their samples to its result, without a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from lab.judge.tolerance import LookPlan
from lab.model.answer import Answer
from lab.model.errors import UsageProblem
from lab.model.results import CellResult, Sample
from lab.model.study import BufferStudy
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import Size
from lab.run.study import arms_of, buffer_sizes
from lab.store.run_dir import RunDir, read_result
from reports.text import render_run

MakeCell = Callable[..., CellResult]
MakeSample = Callable[..., Sample]
Judge = Callable[..., Answer]

LOOKS = LookPlan()
RATES = {"16 KiB": [5.0e6, 5.1e6, 4.9e6, 5.0e6, 5.0e6], "1 MiB": [5.2e6, 5.1e6, 5.2e6, 5.2e6, 5.1e6]}


def study(*buffers: str) -> BufferStudy:
    return BufferStudy.model_validate(
        {
            "client": ClientSpec.parse("ferry"),
            "topology": Topology(name="dsl-50", description="a line"),
            "transfer": Transfer(protocol="http1", direction="put", size=Size.parse("5 MiB")),
            "buffers": buffers or tuple(RATES),
        }
    )


def adapter(most: str) -> Any:
    """A client whose buffer ends at `most`."""

    def supports(transfer: Transfer) -> str:
        return "its buffer ends there" if transfer.buffer_size > Size.parse(most) else ""

    return SimpleNamespace(supports=supports)


@pytest.fixture(name="judge")
def judged(make_cell: MakeCell, make_sample: MakeSample) -> Judge:
    def judge(rates: dict[str, Sequence[float | None]], *, problems: Sequence[str] = (), **more: Any) -> Answer:
        asked = study(*rates)
        arms = {}
        for name, row in rates.items():
            samples = [
                make_sample(index, None, problem="" if rate else "cut off").model_copy(update={"body_byte_s": rate})
                for index, rate in enumerate(row)
            ]
            cell = make_cell(limited=False)
            arms[name] = cell.model_copy(
                update={"id": asked.cell(Size.parse(name)).id, "samples": samples, **more.pop("cell", {})}
            )
        order = [index for turn in range(5) for index, row in enumerate(rates.values()) if turn < len(row)]
        return buffer_sizes(asked, arms, order=order, left_out=more.get("left_out", {}), problems=problems, looks=LOOKS)

    return judge


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"buffers": ("1 MiB",)}, "at least two"),
        ({"buffers": ("1 MiB", "1024 KiB")}, "given twice"),
        ({"buffers": ("1 MiB", "0 B")}, "0 bytes"),
        ({"floor": "100 %"}, "floor"),
        ({"transfer": {"protocol": "h2", "direction": "get", "size": "1 MB", "buffer_size": "1 MiB"}}, "leave it out"),
    ],
)
def test_a_study_that_compares_nothing_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        BufferStudy.model_validate(study().model_dump(mode="json") | change)


def test_a_cell_per_buffer_under_one_name() -> None:
    asked = study()
    assert asked.id == "ferry--dsl-50--http1-put-5MiB--buffers"
    cells, left_out = arms_of(asked, adapter("16 MiB"))
    assert [cell.id for cell in cells.values()] == [f"ferry--dsl-50--http1-put-5MiB-buf{size}" for size in ("16KiB", "1MiB")]
    assert [cell.expectation.kind for cell in cells.values()] == ["none"] * 2
    assert left_out == {}


def test_what_the_client_cannot_be_given_is_left_out_and_reported(judge: Judge) -> None:
    cells, left_out = arms_of(study("16 KiB", "1 MiB", "4 MiB"), adapter("1 MiB"))
    assert list(cells) == ["16 KiB", "1 MiB"]
    assert left_out == {"4 MiB": "its buffer ends there"}
    result = judge(RATES, left_out=left_out)
    assert result.skipped == left_out
    assert "4 MiB: not compared, its buffer ends there" in result.judged.warnings
    with pytest.raises(UsageProblem, match=r"ferry cannot do .*--buffers: its buffer ends there"):
        arms_of(study("1 MiB", "4 MiB", "16 MiB"), adapter("1 MiB"))


def test_the_result_has_what_the_verdict_rests_on(judge: Judge, tmp_path: Path) -> None:
    result = judge(RATES)
    assert (result.judged.name, result.rate_clock, result.judged.interval and result.judged.interval.n) == ("PASS", "client", 5)
    assert {arm.name: arm.byte_s for arm in result.arms} == RATES
    assert [arm.mean_byte_s for arm in result.arms] == pytest.approx([5.0e6, 5.16e6], rel=1e-3)
    assert result.order == ["16 KiB", "1 MiB"] * 5
    run = RunDir.create("study", results=tmp_path)
    path = run.write_answer(result)
    assert path == run.path / "answers" / f"{result.id}.json"
    assert read_result(path, Answer) == result


def test_a_failed_transfer_fails_the_study_and_has_no_rate(judge: Judge) -> None:
    result = judge({"16 KiB": RATES["16 KiB"][:2], "1 MiB": [5.2e6, None]})
    assert result.judged.name == "FAIL"
    assert "transfer 2 with 1 MiB failed: cut off" in result.judged.reason
    assert [len(arm.byte_s) for arm in result.arms] == [2, 1]


def test_a_fault_of_the_lab_is_invalid_whatever_was_seen(judge: Judge) -> None:
    result = judge(RATES, problems=["after: goodput is 9 % low"])
    assert result.judged.name == "INVALID"
    assert "goodput is 9 % low (would have been PASS" in result.judged.reason
    nothing = judge({"16 KiB": [], "1 MiB": []}, problems=["before: goodput is 9 % low"])
    assert (nothing.judged.name, nothing.rate_clock, nothing.arms[0].mean_byte_s) == ("INVALID", None, None)


def test_it_is_reported_and_counted(judge: Judge, make_cell: MakeCell, capsys: pytest.CaptureFixture[str]) -> None:
    result = judge({**RATES, "4 MiB": [1e6] * 5}, left_out={"16 MiB": "too large"})
    render_run([make_cell()], Console(width=100), answers=[result])
    text = " ".join(capsys.readouterr().out.split())
    assert "1 MiB 5 5.160 5.100 5.200 1.000" in text
    assert "4 MiB 5 1.000 1.000 1.000 0.194" in text
    assert "16 MiB left out: too large" in text
    assert "FAIL: the slowest (4 MiB, 1.00 MB/s) reaches 0.194 of the fastest (1 MiB, 5.16 MB/s)" in text
    assert "1 PASS, 1 FAIL" in text
