"""The words of a scenario that is not reproduced, and which clients have to be built first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lab.clients import versions
from lab.model.errors import LabFault, NotSupported, UsageProblem
from lab.model.results import CellResult, Verdict
from lab.model.scenario import Scenario
from lab.model.transfer import ClientSpec
from lab.run.questions import CellQuestion
from lab.run.reproduce import as_reported, build, check_clients, figure, plan, reproduce, transfer_failed, unbuilt

MakeCell = Callable[..., CellResult]


def scenario(name: str = "mine", good: Sequence[str] = ("curl@8.8.0",), bad: Sequence[str] = ("curl@8.4.0",)) -> Scenario:
    told = {"name": name, "topology": "dsl-50", "transfer": "http1-get-5MiB-at-2MBps", "good": good, "bad": bad}
    return Scenario.model_validate(told)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The versions that are there."""
    found: set[str] = set()
    monkeypatch.setattr(versions, "find", lambda name: name if name in found else None)
    return found


def test_a_plan_has_every_client_with_what_was_said_in_order() -> None:
    due = plan([scenario(good=("ferry", "curl@8.8.0"), bad=("curl@8.4.0",)), scenario("other", good=(), bad=("curl@8.3.0",))])
    assert sorted((each.name, said, cell.client.name) for each, said, cell in due) == [
        ("mine", "FAIL", "curl@8.4.0"),
        ("mine", "PASS", "curl@8.8.0"),
        ("mine", "PASS", "ferry"),
        ("other", "FAIL", "curl@8.3.0"),
    ]
    assert plan([scenario(good=(), bad=("ferry",))])[0][1] == "FAIL"
    assert plan([scenario(good=("ferry",), bad=())])[0][1] == "PASS"
    with pytest.raises(UsageProblem, match=r"^no client is said to have or not to have mine"):
        plan([scenario(good=(), bad=())])
    with pytest.raises(UsageProblem) as caught:
        plan([scenario(), scenario("other", good=("curl@8.8.0",), bad=("ferry",))])
    assert caught.value.message.startswith("mine and other have the cell curl@8.8.0--dsl-50--")


def test_what_is_as_reported_passes_with_the_clients_figure(make_cell: MakeCell) -> None:
    cell = make_cell((0.5, 0.5, 0.5, 0.5, 0.5))
    for said, name in (("FAIL", "FAIL"), ("PASS", "PASS")):
        verdict = cell.verdict.model_copy(update={"name": name})
        found = as_reported(scenario(), said, cell.model_copy(update={"verdict": verdict}))  # type: ignore[arg-type]
        assert (found.question, found.judged.name, found.judged.reason) == ("as-reported", "PASS", "+50.00 %")
        assert found.facts == {"scenario": "mine", "expected": said, "figure": "+50.00 %"}
        assert found.judged.cause == "verdicts"


@pytest.mark.parametrize(
    ("said", "name", "verdict"),
    [
        ("PASS", "FAIL", "FAIL"),
        ("FAIL", "PASS", "FAIL"),
        ("PASS", "INCONCLUSIVE", "INCONCLUSIVE"),
        ("FAIL", "INVALID", "INVALID"),
    ],
)
def test_what_is_not_as_reported_says_so_with_its_cell(make_cell: MakeCell, said: Any, name: str, verdict: str) -> None:
    cell = make_cell((0.5, 0.5, 0.5, 0.5, 0.5))
    result = cell.model_copy(update={"verdict": cell.verdict.model_copy(update={"name": name})})
    found = as_reported(scenario(), said, result).judged
    assert found.name == verdict
    assert found.reason == f"mine: {result.client.name} was said to {said}, but it is {name}: {figure(result)} [{result.id}]"


def test_only_a_fail_without_a_figure_that_was_asked_for_is_a_failed_transfer(make_cell: MakeCell) -> None:
    cell = make_cell((0.5, 0.5, 0.5, 0.5, 0.5))
    failed = cell.model_copy(update={"verdict": Verdict(name="FAIL", reason="cut off")})
    assert transfer_failed(failed)
    assert not transfer_failed(cell.model_copy(update={"verdict": cell.verdict.model_copy(update={"name": "FAIL"})}))
    assert not transfer_failed(failed.model_copy(update={"verdict": Verdict(name="INVALID", reason="no link")}))
    arrives = cell.expectation.model_copy(update={"kind": "none"})
    assert not transfer_failed(failed.model_copy(update={"expectation": arrives}))


def test_versions_are_built_once_and_in_the_order_in_which_they_are_named(built: set[str]) -> None:
    built.add("curl@8.8.0")
    own = ClientSpec(name="curl@8.1.0", program="/opt/curl")
    named = [
        *(ClientSpec(name=name, program=name) for name in ("curl@8.4.0", "curl@8.8.0", "ferry", "curl@8.3.0", "curl@8.4.0")),
        own,
        ClientSpec(name=f"{versions.CURL}@{versions.SYSTEM}", program=f"{versions.CURL}@{versions.SYSTEM}"),
    ]
    assert unbuilt(named) == ["curl@8.4.0", "curl@8.3.0"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (("curl@8.4.0",), "curl@8.4.0: it has not been built"),
        (("curl@8.4.0", "curl@8.3.0"), "curl@8.4.0, curl@8.3.0: they have not been built"),
    ],
)
def test_what_has_to_be_built_is_named_with_the_command(built: set[str], bad: tuple[str, ...], message: str) -> None:
    built.add("curl@8.8.0")
    cells = [cell for *_, cell in plan([scenario(bad=bad)])]
    with pytest.raises(NotSupported) as caught:
        check_clients(iter(cells))
    assert sorted(caught.value.message.partition(":")[0].split(", ")) == sorted(bad)
    assert caught.value.message.partition(":")[2] == message.partition(":")[2]
    assert caught.value.remedy.startswith("lab client build curl@8.")
    assert caught.value.remedy.endswith(", or add --build")


def test_versions_are_built_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(versions, "build", lambda name, say: told.append((name, say)))
    build(["a", "b"], print)
    assert told == [("a", print), ("b", print)]


class Asking:
    """Answers with that cell; `broken` is a client without a result."""

    def __init__(self, cell: CellResult, broken: str = "") -> None:
        self.cell, self.broken, self.told = cell, broken, list[str]()

    def ahead(self, questions: Sequence[CellQuestion]) -> None:
        self.told.append(f"ahead {len(questions)}")

    def ask(self, question: CellQuestion) -> Any:
        name = question.cell.client.name
        self.told.append(name)
        client = self.cell.client.model_copy(update={"name": name})
        return LabFault("no network") if name == self.broken else self.cell.model_copy(update={"client": client})


def test_all_are_asked_ahead_and_answered_in_order(make_cell: MakeCell) -> None:
    due = plan([scenario()])
    asking: Any = Asking(make_cell((0.5, 0.5, 0.5, 0.5, 0.5)))
    answers = reproduce(asking, due)
    assert asking.told == ["ahead 2", *(cell.client.name for *_, cell in due)]
    assert [answer.facts["expected"] for answer in answers] == [said for _, said, _ in due]
    asking = Asking(make_cell(), broken=due[0][2].client.name)
    with pytest.raises(LabFault, match="no network"):
        reproduce(asking, due)
    assert len(asking.told) == 2, "the first problem ends it"
