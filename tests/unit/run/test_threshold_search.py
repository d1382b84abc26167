"""A search for a threshold: the cells that it tries, what it writes down of each trial, and the sentence at its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.judge.threshold import PROBES, Conclusion, Goal
from lab.model.answer import Arm
from lab.model.errors import UsageProblem
from lab.model.results import Sample
from lab.model.threshold import VARIABLES
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import Duration, Ratio
from lab.run import threshold
from lab.run.threshold import Search, limit_cell, link_cell, most_limit_byte_s, run_search
from lab.store.run_dir import RunDir
from tests.unit.run.fake_lab import FakeClient, FakeLab

LIMIT, RTT, LOSS = (VARIABLES[name] for name in ("limit", "rtt", "loss"))
CLIENT = ClientSpec(name="new")
LINK = {"rate": "80 Mbit/s", "rtt": "20 ms", "up": {"rate": "8 Mbit/s"}}
TOPOLOGY = Topology.model_validate({"name": "plain", "description": "A test.", "link": LINK})
TRANSFER = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "1 MB"})
LIMITED = Expectation(kind="limit", tolerance=Ratio(0.1))
ARRIVES = Expectation(kind="none")


def topology(name: str = "plain", **more: Any) -> Topology:
    return Topology.model_validate({"name": name, "description": "A test.", "link": LINK, **more})


# --- cells ------------------------------------------------------------------------------------------------------------


def test_the_highest_limit_is_one_percent_less_than_what_the_link_can_judge() -> None:
    best = 1448 / 1514 * 1e7
    assert most_limit_byte_s(TOPOLOGY, "get", Ratio(0.25)) == pytest.approx(best / 1.25 / 1.01)
    assert most_limit_byte_s(TOPOLOGY, "put", Ratio(0.25)) == pytest.approx(best / 10 / 1.25 / 1.01)
    assert most_limit_byte_s(topology(link={"rtt": "20 ms"}), "get", Ratio(0.25)) is None


def test_a_transfer_takes_as_long_whatever_its_limit() -> None:
    made = limit_cell(CLIENT, TOPOLOGY, TRANSFER, Duration.parse("3 s"), LIMITED)
    cell = made(1_000_000.4)
    assert (cell.transfer.limit_byte_s, cell.transfer.total_bytes) == (1_000_000, 3_000_000)
    assert (cell.client, cell.topology, cell.expectation, cell.transfer.protocol) == (CLIENT, TOPOLOGY, LIMITED, "http1")
    assert limit_cell(CLIENT, TOPOLOGY, TRANSFER, Duration.parse("1 ms"), LIMITED)(1.0).transfer.total_bytes == 1


def test_a_link_is_varied_in_one_thing_and_says_so_in_its_name() -> None:
    cell = link_cell(CLIENT, TOPOLOGY, TRANSFER, RTT, ARRIVES)(0.0125)
    assert (cell.topology.link.rtt, cell.topology.link.rate) == (Duration.parse("12.5 ms"), TOPOLOGY.link.rate)
    assert cell.topology.name == "plain-rtt-12.5ms"
    assert cell.topology.description == "plain with a round trip of 12.5 ms."
    lossy = link_cell(CLIENT, TOPOLOGY, TRANSFER, LOSS, ARRIVES)(0.02)
    assert (lossy.topology.link.loss, lossy.topology.link.rtt) == (Ratio(0.02), TOPOLOGY.link.rtt)
    assert (lossy.topology.name, lossy.transfer) == ("plain-loss-2pct", TRANSFER)


def test_the_name_of_a_network_is_kept_as_far_as_there_is_room() -> None:
    for name, kept in (("a" * 39 + "-bcd", "a" * 39), ("a" * 50, "a" * 40), ("a" * 38 + ".b-c", "a" * 38 + ".b")):
        assert link_cell(CLIENT, topology(name), TRANSFER, LOSS, ARRIVES)(0.02).topology.name == f"{kept}-loss-2pct"


def test_a_value_that_the_link_cannot_have_is_one_line() -> None:
    with pytest.raises(UsageProblem, match=r"^plain cannot have a round trip of 999999 ms: ") as caught:
        link_cell(CLIENT, TOPOLOGY, TRANSFER, RTT, ARRIVES)(999.999)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "variable", "problem"),
    [
        (
            {"schedule": {"steps": [{"at": "1 s", "rate": "1 Mbit/s"}]}},
            RTT,
            "plain has a schedule, so no single value describes the link",
        ),
        ({"same_host": True, "link": {}}, LOSS, "plain is one host without a link, so there is nothing to search"),
        ({"link": {"rtt": "20 ms", "up": {"delay": "5 ms"}}}, RTT, "plain sets up.delay, and a search changes both directions"),
        ({"link": {"down": {"loss": 0.5}}}, LOSS, "plain sets down.loss, and a search changes both directions"),
        ({"link": {"down": {"loss": 0}}}, LOSS, "plain sets down.loss, and a search changes both directions"),
    ],
)
def test_a_link_that_something_else_changes_too_is_not_searched(more: dict[str, Any], variable: Any, problem: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        link_cell(CLIENT, topology(**more), TRANSFER, variable, ARRIVES)
    assert caught.value.message == problem
    assert caught.value.remedy


def test_what_one_direction_has_of_something_else_does_not_matter() -> None:
    own = topology(link={**LINK, "up": {"loss": 0.5, "rate": "8 Mbit/s"}, "down": {"delay": "2 ms"}})
    with pytest.raises(UsageProblem, match=r"sets down\.delay"):
        link_cell(CLIENT, own, TRANSFER, RTT, ARRIVES)
    assert link_cell(CLIENT, topology(link={"up": {"loss": 0.5}}), TRANSFER, RTT, ARRIVES)(0.01).topology.link.rtt.ms == 10


# --- a search ---------------------------------------------------------------------------------------------------------


@dataclass
class Capped(FakeLab):
    """A client that keeps every limit up to 2.5 MB/s, and goes no faster."""

    cap: float = 2.5e6
    cannot: float = 0.0
    """At and above this limit it fails."""

    def take(self, _: object, __: object, adapter: FakeClient, transfer: Transfer, index: int, **___: object) -> Sample:
        limit = transfer.limit.byte_s if transfer.limit else 0
        self.rate = lambda *_: None if self.cannot and limit >= self.cannot else float(min(limit, self.cap))
        return super().take(_, __, adapter, transfer, index)


def search(goal: Goal, *, made: Any = None) -> Search:
    cell = made or limit_cell(CLIENT, TOPOLOGY, TRANSFER, Duration.parse("1 s"), LIMITED)
    return Search(LIMIT, CLIENT, TOPOLOGY, None, LIMITED, "it keeps a limit", goal, cell, "http1-get")


@pytest.fixture
def capped(fake_lab: object) -> Capped:
    del fake_lab
    return Capped()


def test_a_search_narrows_the_interval_and_writes_every_trial_down(capped: Capped, tmp_path: Path) -> None:
    session, told = capped.session(RunDir.create("test", results=tmp_path)), list[str]()
    answer = run_search(session, search(Goal(5e5, 4.5e6, 0.25, 9)), told.append)
    assert (answer.id, answer.question, answer.run) == ("new--plain--http1-get--search-limit", "threshold", session.run.name)
    values = [arm.figures["limit_byte_s"] for arm in answer.arms]
    assert values[:4] == [5e5, 4.5e6, 1.5e6, 2.598e6]
    verdicts = dict(zip(values, (arm.verdict for arm in answer.arms), strict=True))
    passed = max(value for value in values if verdicts[value] == "PASS")
    failed = min(value for value in values if verdicts[value] == "FAIL")
    assert passed <= 2.5e6 / 0.9 < failed <= passed * 1.25
    assert [arm.name for arm in answer.arms] == [f"{number}." for number in range(1, len(values) + 1)]
    assert [arm.cell for arm in answer.arms] == [result.id for result in session.results]
    first, second = answer.arms[:2]
    assert (first.value, first.byte_s, first.mean_byte_s) == ("0.5 MB/s", [5e5, 5e5], 5e5)
    assert first.facts["figure"].endswith(", n = 2")
    assert [first.figures["deviation"], second.figures["deviation"]] == pytest.approx([0.0, 2.5 / 4.5 - 1])
    assert answer.order == [arm.name for arm in answer.arms for _ in arm.byte_s]
    assert answer.facts == {
        "variable": "limit",
        "asks": "it keeps a limit",
        "range": "0.5 MB/s to 4.5 MB/s",
        "width": "25 %",
        "budget": "9",
        "kind": "found",
        "passed": LIMIT.text(passed),
        "failed": LIMIT.text(failed),
        "carried there": f"{min(passed, 2.5e6) / 1e6:.3f} MB/s",
    }
    apart = (failed / passed - 1) * 100
    assert answer.verdict
    assert answer.verdict.name == "PASS"
    assert answer.verdict.reason == (
        f"it keeps a limit up to {LIMIT.text(passed)} and not at {LIMIT.text(failed)}, {apart:.1f} % apart, {len(values)} cells"
    )
    assert told[1] == f"2. 4.5 MB/s ({answer.arms[1].facts['why']}): FAIL, {answer.arms[1].facts['figure']}"
    assert len(told) == len(values)
    assert (answer.transfer, answer.expectation, answer.client) == (None, LIMITED, session.results[0].client)


def test_a_trial_whose_transfers_failed_has_no_rate(capped: Capped, tmp_path: Path) -> None:
    capped.cannot = 4.5e6
    session = capped.session(RunDir.create("test", results=tmp_path))
    answer = run_search(session, search(Goal(5e5, 4.5e6, 0.25, 3)), lambda _: None)
    failed = answer.arms[1]
    assert (failed.verdict, failed.byte_s, failed.mean_byte_s) == ("FAIL", [], None)
    assert "deviation" not in failed.figures
    assert failed.facts["figure"].startswith(session.results[1].verdict.reason + ", n = ")


# --- the sentence -----------------------------------------------------------------------------------------------------


def arm(megabytes: float, verdict: Any, figure: str = "") -> Arm:
    return Arm(
        name="1.",
        value=LIMIT.text(megabytes * 1e6),
        cell="c",
        verdict=verdict,
        byte_s=[],
        mean_byte_s=None,
        figures={"limit_byte_s": megabytes * 1e6},
        facts={"figure": figure},
    )


ARMS = [
    arm(1, "PASS"),
    arm(9, "INCONCLUSIVE", "wide, n = 4"),
    arm(3, "FAIL"),
    arm(4, "PASS"),
    arm(2, "INVALID", "the lab failed, n = 2"),
    arm(5, "PASS"),
]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Conclusion("above", 9e6), "it keeps a limit everywhere from 1 MB/s to 9 MB/s, the end of the range, 6 cells"),
        (Conclusion("below", None, 1e6), "it keeps a limit nowhere: FAIL at 1 MB/s, the start of the range, 6 cells"),
        (
            Conclusion("several", 1e6, 3e6),
            "not one threshold: FAIL at 3 MB/s and PASS above it, at 4 MB/s, 5 MB/s, 6 cells",
        ),
        (
            Conclusion("range", 1e6, 3e6),
            "not narrowed to 2.5 %: PASS at 1 MB/s, FAIL at 3 MB/s, 200.0 % apart, 6 cells",
        ),
        (
            Conclusion("unknown"),
            "no search: an end of the range has no verdict: 9 MB/s is INCONCLUSIVE: wide, n = 4",
        ),
    ],
)
def test_the_answer_is_one_sentence_with_what_is_behind_it(found: Conclusion, words: str) -> None:
    assert threshold._sentence(search(Goal(1e6, 9e6, 0.025, 9)), found, ARMS) == words


OPEN = ["9 MB/s is INCONCLUSIVE and moved no bound", "2 MB/s is INVALID and moved no bound"]
FEW = f"1 of {PROBES} probes for a second threshold were made: the budget of 9 cells was used or no limit was left to try"


@pytest.mark.parametrize(
    ("found", "warnings"),
    [
        (Conclusion("range", 1e6, 3e6), OPEN),
        (Conclusion("unknown"), []),
        (Conclusion("found", 1e6, 3e6, probes=1), [*OPEN, FEW]),
        (Conclusion("above", 1e6, probes=1), [*OPEN, FEW]),
        (Conclusion("below", None, 1e6, probes=1), [*OPEN, FEW]),
        (Conclusion("found", 1e6, 3e6, probes=PROBES), OPEN),
        (Conclusion("several", 1e6, 3e6), OPEN),
    ],
)
def test_warnings_name_what_is_open_and_probes_that_were_not_made(found: Conclusion, warnings: list[str]) -> None:
    assert threshold._warnings(search(Goal(1e6, 9e6, 0.025, 9)), found, ARMS) == warnings


def test_only_the_ends_of_a_range_can_end_a_search_before_it_begins() -> None:
    arms = [arm(1, "PASS"), arm(9, "INVALID", "no link"), arm(3, "INCONCLUSIVE", "wide")]
    words = "no search: an end of the range has no verdict: 9 MB/s is INVALID: no link"
    assert threshold._sentence(search(Goal(1e6, 9e6, 0.025, 9)), Conclusion("unknown"), arms) == words
