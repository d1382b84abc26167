"""An answer: one question about cells or about a host, what was compared or seen, and the verdict.

A sweep over buffer sizes, a candidate next to its baseline, a client whose link goes down, a qualification and a row of a
comparison differ in their question and in which fields are filled, never in their form. Samples, certificates and series are in
the cells; an answer names the cells it rests on. Units and names as in `lab.model.results`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from lab.model.clock import Clock
from lab.model.figures import BOUNDED, FIGURES
from lab.model.results import (
    SCHEMA_VERSION,
    CellResult,
    ClientIdentity,
    Closed,
    EndedAt,
    Interval,
    LabVersion,
    RunName,
    SchemaVersion,
    StartedAt,
    Verdict,
    VerdictName,
)
from lab.model.topology import Topology
from lab.model.transfer import Expectation, Transfer
from lab.model.units import Ratio
from lab.model.userland import UserlandFacts

CELL_QUESTIONS: tuple[str, ...] = ("limit", "steady", "complete", *BOUNDED)
"""The questions that cells ask by their expectations; `complete` asks that every transfer arrives and nothing more."""
Event = Literal["refused", "silent", "localhost", "fallback", "flap", "address"]
"""The event that a client meets: no server listens, no server answers, the client fetches from localhost, one of localhost's
two addresses does not serve, the link goes down, the client's address changes."""
Fault = Literal[
    "fin",
    "rst",
    "corrupt",
    "killed",
    "down-1s",
    "down-5s",
    "down-30s",
    "address",
    "rebind",
    "http-error",
    "error-cut",
    "length-long",
    "length-short",
    "chunked-cut",
    "wrong-range",
    "ignored-range",
    "early-success",
]
"""The fault of a transfer: docs/decisions/0016-no-wrong-file.md has a line for each."""
_OTHERS = (
    "no-wrong-file",
    "buffer-sizes",
    "no-slower",
    "no-worse",
    "send-buffers",
    "platform",
    "same-work",
    "qualification",
    "bisection",
    "bisection-step",
    "threshold",
    "as-reported",
    "equal",
)
QUESTIONS: tuple[str, ...] = (*CELL_QUESTIONS, *get_args(Event), *_OTHERS)


def _known(question: str) -> str:
    if question not in QUESTIONS:
        raise ValueError(f"{question!r} is not one of {', '.join(QUESTIONS)}")
    return question


Question = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": list(QUESTIONS)})]
RateClock = Literal["client", "wire", "exit", "total"]
"""The time that a rate is over. client, wire: first to last body byte, by the client's report or the router's port; exit: the
port's first byte to the client's end; total: the complete time, connection set-up included."""
CANDIDATE, BASELINE = "candidate", "baseline"


class Arm(Closed):
    """One client or one setting of those that are compared."""

    name: str = Field(description="unique in the answer: a setting (64 KiB), candidate, baseline, A, B")
    value: str = Field(default="", description="value of the key in which the arms differ, e.g. a version; may be empty")
    cell: str = Field(default="", description="id of the cell with its samples, certificate and provenance; empty without one")
    client: ClientIdentity | None = Field(default=None, description="the program; null where all arms share the answer's")
    verdict: VerdictName | None = Field(default=None, description="verdict of its cell or answer; null where not recorded")
    byte_s: list[float] = Field(
        default_factory=list, description="bytes per second of each complete transfer by rate_clock, in order"
    )
    mean_byte_s: float | None = Field(default=None, description="geometric mean of byte_s; null without transfers")
    interval: Interval | None = Field(
        default=None,
        description="interval of its own answer, where answers are compared; same-work: requests per second over the first arm's",
    )
    figures: dict[str, float] = Field(default_factory=dict, description="other figures by name with unit, e.g. cpu_s_per_GB")
    facts: dict[str, str] = Field(
        default_factory=dict, description="bisection, threshold: the step's figure, why it was due, and its run"
    )


class Observation(Closed):
    """One run of the client, or a summary of several."""

    name: str = Field(description="what was run or summarised")
    problem: str = Field(default="", description="what the client did wrong; empty where it did nothing wrong")
    figures: dict[str, float] = Field(default_factory=dict, description="by name with unit, e.g. wall_s")
    facts: dict[str, str] = Field(
        default_factory=dict, description="the client's message, the address it was given, the names it looked up"
    )


Standing = Literal["fine", "better", "scattered", "known", "accepted", "open", "regression"]
"""The standing of a candidate's figure for a release, from good to bad.

`scattered`: no worse than the pairs scatter by themselves, which is more than the margin; `known`: the baseline fails as well.
"""
STANDINGS: tuple[Standing, ...] = get_args(Standing)
ARRIVES = "arrives"
"""In place of a figure's name: whether the files arrive, complete and right."""


def _figure_or_arrival(name: str) -> str:
    if name != ARRIVES and name not in FIGURES:
        raise ValueError(f"{name!r} is not one of {', '.join((ARRIVES, *FIGURES))}")
    return name


ComparedFigure = Annotated[str, AfterValidator(_figure_or_arrival), Field(json_schema_extra={"enum": [ARRIVES, *FIGURES]})]


class Claim(Closed):
    """One figure of a candidate against its baseline's, pair by pair: is it worse?"""

    figure: ComparedFigure = Field(description="name of the figure; arrives: whether the file arrived, complete and right")
    margin: float = Field(ge=0, description="how much worse passes, as a fraction of the baseline's")
    accepted: float | None = Field(
        default=None, description="how much worse was accepted beforehand, a fraction; arrives: share of transfers; null: nothing"
    )
    n: int = Field(ge=0, description="number of pairs that have the figure, up to the look that decided")
    beyond: int = Field(ge=0, description="number of those in which the candidate is worse by more than what passes")
    better: int = Field(default=0, ge=0, description="number of those in which it is better by more than that")
    scatter: float | None = Field(
        default=None, description="standard deviation of how much worse one pair is, a fraction; null for fewer than two pairs"
    )
    candidate: float | None = Field(
        default=None, description="mean of the candidate's, in the unit of the result's field; arrives: transfers that failed"
    )
    baseline: float | None = Field(default=None, description="the same of the baseline's, in the same unit")
    worse: Interval | None = Field(
        default=None,
        description="how much worse the candidate is, a fraction, below 0 better; of a rate with a limit: how much further from "
        "it; null for fewer than two pairs",
    )
    p: float | None = Field(
        default=None,
        description="p value, 0 to 1, of the sign test of pairs beyond either way, over all looks; null where none could alarm",
    )
    p_adjusted: float | None = Field(
        default=None, description="the same, 0 to 1, after Holm over all figures of all rows of the run"
    )
    standing: Standing = Field(
        description="fine; better: shown to be; scattered: no worse than pairs scatter by themselves; known: the baseline fails "
        "as well; accepted; open: not decided; regression"
    )
    note: str = Field(default="", description="what a reader should know of it; empty for nothing")


class Part(Closed):
    """One line of a qualification: a cell or an answer, and the comparison with the baseline."""

    id: str = Field(description="id of the candidate's cell or answer")
    why: str = Field(description="why it is in the set")
    verdict: VerdictName = Field(description="verdict of that cell or answer alone")
    baseline: VerdictName | None = Field(default=None, description="verdict of the baseline's cell; it does not count")
    comparison: str | None = Field(
        default=None, description="id of the answer no-worse or no-slower; null where the candidate ran alone"
    )
    regression: VerdictName | None = Field(default=None, description="verdict of that answer; null where it is not judged")
    promise_counts: bool = Field(
        default=True, description="whether `verdict` counts; false in a qualification by comparison, where regressions count"
    )
    notes: list[str] = Field(default_factory=list, description="what a reader should know of this line, one sentence each")

    @property
    def verdicts(self) -> list[VerdictName]:
        """The verdicts that count."""
        return [*([self.verdict] if self.promise_counts else []), *([self.regression] if self.regression else [])]


class Answer(Closed):
    """A question, what was compared or seen, and the verdict."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    id: str = Field(description="client--topology--transfer--question, or as the question names its answers")
    question: Question = Field(
        description="limit, steady, complete, or a figure: a cell against its expectation; buffer-sizes: the "
        "slowest size against the fastest; no-slower: candidate against baseline; no-worse: the same by "
        "several figures; refused, silent, "
        "localhost, fallback, flap, address: how a client takes that event; no-wrong-file: whether "
        "exit code 0 means identical bytes after a fault; send-buffers: a fixed send buffer against the "
        "automatic one; platform: what work costs this host; same-work: what the same requests cost by "
        "each arm; qualification: a release; bisection: the first candidate "
        "that has a bug; bisection-step: one candidate of a search; "
        "threshold: up to which limit, round trip or loss a client passes; "
        "as-reported: a client against what was reported of it; equal: two cells or two answers"
    )
    run: RunName
    lab_version: LabVersion
    backend: str = Field(default="", description="backend that made the hosts; empty where not recorded or where the arms differ")
    clocks: list[Clock] = Field(description="clock of its times; two where the arms differ")
    router: dict[str, object] = Field(
        default_factory=dict, description="what shaped the link: its kind, kernel and notes, by name; empty: see the cells"
    )
    machine: dict[str, object] = Field(
        default_factory=dict, description="facts of the machine, as in a cell's snapshot; empty: see the cells"
    )
    client: ClientIdentity | None = Field(default=None, description="the program under test; null where the arms have several")
    topology: Topology | None = Field(default=None, description="the network at that time; null where the arms have several")
    transfer: Transfer | None = Field(
        default=None, description="the transfer of the client; only the settings that the arms share"
    )
    expectation: Expectation | None = Field(default=None, description="what each cell's own verdict asserts; null for several")
    arms: list[Arm] = Field(default_factory=list, description="what is compared; empty where nothing is")
    observations: list[Observation] = Field(default_factory=list, description="what was seen, in the order taken")
    claims: list[Claim] = Field(default_factory=list, description="no-worse: the figures that were compared")
    parts: list[Part] = Field(default_factory=list, description="what a qualification rests on, in the order of its set")
    order: list[str] = Field(default_factory=list, description="names of the arms as their transfers ran, one per transfer")
    skipped: dict[str, str] = Field(
        default_factory=dict, description="settings, or lines of a set, that the client does not have or cannot do, and why"
    )
    facts: dict[str, str] = Field(default_factory=dict, description="other parameters of the question, by name")
    userlands: dict[str, UserlandFacts] = Field(
        default_factory=dict, description="by host: the userland whose programs ran there; empty: none, or see the cells"
    )
    rate_clock: RateClock | None = Field(
        default=None,
        description="time that the arms' rates are over; null where not known",
    )
    bound: Ratio | None = Field(
        default=None,
        description="bound of the ratio. buffer-sizes: its minimum; no-slower: how far it may be below 1; equal: "
        "how far it may be from 1; null where no ratio is judged",
    )
    ratio: Interval | None = Field(
        default=None,
        description="geometric. buffer-sizes: slowest / fastest; no-slower: candidate / baseline; equal: B / A; send-buffers: "
        "time with the fixed buffer / with the automatic one; same-work: requests per second, second arm / first; null for fewer "
        "than two values",
    )
    cost: Interval | None = Field(default=None, description="CPU seconds per GB, B / A; null where either is not known")
    p_outside: float | None = Field(
        default=None, description="p value of the ratio being outside the bound, before Holm; null where it is not judged"
    )
    verdict: Verdict | None = Field(description="the answer; null where the question was measured but not judged")
    not_judged: str = Field(default="", description="why the ratio is not judged; empty where it is")
    started_at: StartedAt
    ended_at: EndedAt

    @property
    def judged(self) -> Verdict:
        """The answer's verdict. Raises ValueError for an answer that was measured but not judged."""
        if self.verdict is None:
            raise ValueError(f"{self.id} is not judged: {self.not_judged}")
        return self.verdict

    @property
    def counts(self) -> bool:
        """True if the answer's verdict counts. A qualification's does not: it repeats the verdicts of its parts."""
        return self.verdict is not None and self.question != "qualification"

    @property
    def subject(self) -> tuple[ClientIdentity, Topology, Transfer]:
        """The one client, network and transfer that was asked about. Raises ValueError where the arms have several."""
        if self.client is None or self.topology is None or self.transfer is None:
            raise ValueError(f"{self.id} is about several clients, networks or transfers")
        return self.client, self.topology, self.transfer

    def arm(self, name: str) -> Arm:
        """The arm of that name. Raises KeyError if no arm has it."""
        found = next((arm for arm in self.arms if arm.name == name), None)
        if found is None:
            raise KeyError(name)
        return found


def answer_of(cell: CellResult) -> Answer:
    """A cell's own verdict as an answer; it is in the cell's file, and stored only there."""
    kind = cell.expectation.kind
    return Answer(
        id=cell.id,
        question="complete" if kind == "none" else kind,
        run=cell.run,
        lab_version=cell.lab_version,
        backend=cell.backend,
        clocks=[cell.clock],
        router=cell.router,
        machine=cell.before.machine,
        client=cell.client,
        topology=cell.topology,
        transfer=cell.transfer,
        expectation=cell.expectation,
        arms=[Arm(name=cell.client.name, cell=cell.id, verdict=cell.verdict.name)],
        verdict=cell.verdict,
        started_at=cell.started_at,
        ended_at=cell.ended_at,
    )


def uncounted_cells(answers: Iterable[Answer]) -> dict[str, str]:
    """By id, the cells whose verdicts do not count, each with its reason: `baseline`, `compared` or `trial` of a search."""
    answers = list(answers)
    trials = {arm.cell: "trial" for answer in asking(answers, "threshold") for arm in answer.arms}
    compared = {part.id for answer in asking(answers, "qualification") for part in answer.parts if not part.promise_counts}
    compared |= {arm.cell for answer in asking(answers, "no-worse") for arm in answer.arms if arm.name == CANDIDATE}
    return {**trials, **dict.fromkeys(compared, "compared"), **dict.fromkeys(baseline_cells(answers), "baseline")}


def baseline_cells(answers: Iterable[Answer]) -> set[str]:
    """Ids of cells whose own verdicts do not count: they ran only so that a candidate's had something to be compared with."""
    pairs = asking(answers, "no-slower", "no-worse")
    return {arm.cell for answer in pairs for arm in answer.arms if arm.name == BASELINE}


def asking(answers: Iterable[Answer], *questions: Question) -> list[Answer]:
    """The answers to these questions, in their order."""
    return [answer for answer in answers if answer.question in questions]
