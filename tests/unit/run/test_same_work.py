"""The same requests by several arms: the order, the ratios and what is said, with a lab that measures nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.judge.sweep import turn_order
from lab.model.answer import Answer
from lab.model.cell import Cell
from lab.model.cell_name import parse_transfer
from lab.model.load import load_topology
from lab.model.results import CellResult
from lab.model.transfer import ClientSpec, Expectation
from lab.run.questions import same_work
from lab.run.same_work import answer_of_same_work, run_same_work, same_work_id
from lab.run.session import Session
from lab.run.system_calls import read_report
from lab.store.run_dir import RunDir, read_result
from tests.unit.run.fake_lab import FakeLab

REQUESTS = "h2-get-500x10kB-p100-discard"


def cell(client: str, transfer: str = REQUESTS) -> Cell:
    return Cell(
        client=ClientSpec(name=client),
        topology=load_topology("link-local"),
        transfer=parse_transfer(transfer),
        expectation=Expectation(kind="none"),
    )


@pytest.fixture
def made(tmp_path: Path, fake_lab: FakeLab) -> Session:
    return fake_lab.session(RunDir.create("test", results=tmp_path))


def with_costs(result: CellResult, rates: list[float], cpu_s: list[float]) -> CellResult:
    samples = [
        sample.model_copy(update={"requests_per_s": rate, "cpu_user_s": cpu, "cpu_system_s": 0.0})
        for sample, rate, cpu in zip(result.samples, rates, cpu_s, strict=True)
    ]
    return result.model_copy(update={"samples": samples})


def test_arms_take_turns_for_as_many_rounds_as_asked(made: Session, fake_lab: FakeLab) -> None:
    with made:
        answer = run_same_work(made, [cell("new"), cell("old")], rounds=6)
    assert answer.order == [["new", "old"][turn] for round_ in range(6) for turn in turn_order(2, round_)]
    assert [arm.verdict for arm in answer.arms] == ["PASS", "PASS"]
    assert read_result(made.run.answer_path(answer.id), Answer) == answer
    assert answer.id == "new-and-old--link-local--h2-get-500x10kB-p100--same-work"


def test_ratios_are_to_the_first_arm_round_by_round(made: Session, fake_lab: FakeLab) -> None:
    with made:
        order, results = made.run_together("x", [cell("new"), cell("old")], 5)
    slow, fast = [1000.0, 1100.0, 900.0, 1000.0, 1000.0], [1300.0, 1430.0, 1170.0, 1300.0, 1300.0]
    first, second = with_costs(results[0], slow, [2.0] * 5), with_costs(results[1], fast, [1.0] * 5)
    answer = answer_of_same_work("x", [first, second], order, [16.0, 10.0])
    ratio = answer.arms[1].interval
    assert ratio
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((1.3, 1.3, 1.3))
    assert answer.ratio == ratio
    assert answer.arms[0].interval is None
    assert answer.arms[1].figures["cpu_ratio"] == pytest.approx(0.5)
    assert answer.arms[0].figures["cpu_s_per_1000"] == pytest.approx(4.0)
    assert answer.arms[1].figures["syscalls_per_request"] == 10
    assert (
        "old: 1300 requests/s, 2.0000 CPU s per 1000, 10.00 system calls each (rate 1.300 of the first's" in answer.judged.reason
    )


@pytest.mark.parametrize(
    ("clients", "suffixes", "names"),
    [
        (["new", "old"], ["-discard", "-discard"], ["new", "old"]),
        (["new", "new", "new"], ["-discard", "-discard-nofile", "-repeat"], ["null device", "no file", "files"]),
        (["new", "old"], ["-discard", "-discard-nofile"], ["new null device", "old no file"]),
    ],
)
def test_arms_are_named_by_what_they_differ_in(
    made: Session, fake_lab: FakeLab, clients: list[str], suffixes: list[str], names: list[str]
) -> None:
    work = REQUESTS.removesuffix("-discard")
    with made:
        answer = run_same_work(
            made, [cell(client, work + suffix) for client, suffix in zip(clients, suffixes, strict=True)], rounds=2
        )
    assert [arm.name for arm in answer.arms] == names


def test_a_client_that_fails_decides_the_answer(made: Session, fake_lab: FakeLab) -> None:
    fake_lab.rate = lambda client, _: None if client == "old" else 1e6
    with made:
        answer = run_same_work(made, [cell("new"), cell("old")], rounds=5)
    assert answer.judged.name == "FAIL"


def test_arms_are_clients_times_treatments() -> None:
    question = same_work([cell("curl@8.17.0")], ["null", "none", "files"], 5)
    assert [arm.id.rpartition("--")[2] for arm in question.arms] == [
        "h2-get-500x10kB-p100-discard",
        "h2-get-500x10kB-p100-discard-nofile",
        "h2-get-500x10kB-p100-repeat",
    ]
    assert same_work_id(question.arms) == question.id == "curl@8.17.0--link-local--h2-get-500x10kB-p100--same-work"


@pytest.mark.parametrize(
    ("clients", "answers", "rounds", "why"),
    [
        (["curl", "ferry"], ["paper"], 5, "answers cannot be 'paper'"),
        (["curl", "ferry"], ["null"], 1, "an interval needs two"),
        (["curl"], ["null"], 5, "two or more different"),
        (["curl", "curl"], ["null"], 5, "two or more different"),
    ],
)
def test_a_comparison_that_makes_no_sense(clients: list[str], answers: list[str], rounds: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        same_work([cell(client) for client in clients], answers, rounds)


def test_a_report_of_perf_by_name() -> None:
    text = (
        "# started\n\n900;;raw_syscalls:sys_enter;1;1;;\n200;;syscalls:sys_enter_poll;1;1;;\n0;;syscalls:sys_enter_read;1;1;;\n"
    )
    assert read_report(text) == {"raw_syscalls:sys_enter": 900, "poll": 200}
    assert read_report("<not supported>;;syscalls:sys_enter_poll:u;0;;\n300;;syscalls:sys_enter_write:u;1;1;;\n") == {
        "write": 300
    }
