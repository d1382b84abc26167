"""Answers as tables of plain values, which text, HTML and Markdown draw. The table of questions is `QUESTIONS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from lab.judge.worse import figure_title, percent_words
from lab.model.answer import CELL_QUESTIONS, STANDINGS, Answer, Arm, Claim, Event, Observation, Question, RateClock
from lab.model.figures import FIGURES
from lab.model.numbers import percent_interval
from lab.model.results import Interval, VerdictName
from lab.model.transfer import Expectation

NOTHING = "-"
RATE_CLOCKS: dict[RateClock, str] = {
    "client": "first to last body byte, by the client's report",
    "wire": "first to last body byte, by the router's port: the client does not report it",
    "exit": "first body byte by the router's port to the client's end: its last bytes wait in its buffer",
    "total": "the complete time, connection set-up included: the body's is not known of every transfer",
}
Known = Mapping[str, Answer]
"""Answers by id, those of the cells among them: what a qualification refers to."""


@dataclass(frozen=True)
class Entry:
    """One value of a table. `notes` are shown with it where there is room, `cell` is the id of a cell to link to."""

    text: str = ""
    verdict: VerdictName | None = None
    cell: str = ""
    notes: Sequence[str] = ()
    number: bool = True
    whisker: Whisker | None = None
    anchor: str = ""
    """Id of the answer that begins in this row."""


@dataclass(frozen=True)
class Whisker:
    """A ratio's interval against the band that passes."""

    interval: Interval | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Grid:
    """A table; the first entry of a row is its subject."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Entry]]


@dataclass(frozen=True)
class Block:
    """One answer, or several in one table."""

    answers: Sequence[Answer]
    grids: Sequence[Grid] = ()
    facts: Sequence[tuple[str, str]] = ()

    @property
    def answer(self) -> Answer:
        return self.answers[0]


@dataclass(frozen=True)
class Section:
    """All answers to one kind of question."""

    shown: Shown
    blocks: Sequence[Block]


ArmColumn = tuple[str, Callable[[Answer, Arm], Entry]]
AnswerColumn = tuple[str, Callable[[Answer], Entry]]


@dataclass(frozen=True)
class Shown:
    """The layout of the answers to a question: a block each, or `together` in one table."""

    title: str
    about: str = ""
    arms: str = ""
    """Heading of the arms' names."""
    columns: Sequence[ArmColumn] = ()
    results: Sequence[AnswerColumn] = ()
    """Columns for what the arms come to; shown where the answers are together."""
    together: bool = False
    claims: bool = False
    """A row per figure that is compared, in place of one per arm; with `together`."""
    more: Sequence[tuple[Sequence[ArmColumn], Sequence[AnswerColumn]]] = ()
    """Further tables of the same arms, left out where they would be empty."""

    @property
    def anchor(self) -> str:
        return self.title.lower().replace(" ", "-")


def sections(answers: Sequence[Answer], known: Known | None = None) -> list[Section]:
    """By kind of question, each where it was first asked; the arms of answers that are shown together in one table."""
    kinds: dict[str, list[Answer]] = {}
    for answer in answers:
        kinds.setdefault(QUESTIONS[answer.question].title, []).append(answer)
    return [_section(QUESTIONS[found[0].question], found, known or {}) for found in kinds.values()]


def figure_words(answer: Answer) -> str:
    """The mean behind a verdict, in the unit of the question; a dash where there is no interval."""
    interval = answer.verdict.interval if answer.verdict else None
    if interval is None:
        return NOTHING
    if answer.question == "buffer-sizes":
        return f"{interval.mean:.3f} of the fastest"
    return judged_words(answer.expectation, interval)[0] if answer.expectation else f"{interval.mean:.3f}"


def judged_words(expectation: Expectation, interval: Interval) -> tuple[str, str]:
    """The mean and the interval behind a cell's verdict, in the unit of what was expected."""
    if bound := expectation.bounded:
        return bound.text(interval.mean), bound.span(interval.low, interval.high)
    return percent_interval(interval.mean, interval.low, interval.high)


def ratio_words(interval: Interval | None, digits: int = 4) -> str:
    """`1.0123 (0.9950 to 1.0301)`."""
    return f"{interval.mean:.{digits}f} ({interval.low:.{digits}f} to {interval.high:.{digits}f})" if interval else NOTHING


def rate_words(value: float | None, digits: int = 3) -> str:
    """Bytes per second as MB/s, without the unit."""
    return NOTHING if value is None else f"{value / 1e6:.{digits}f}"


def _section(shown: Shown, answers: Sequence[Answer], known: Known) -> Section:
    if not shown.together:
        return Section(shown, [_block(answer, shown, known) for answer in answers])
    if shown.claims:
        return Section(shown, [Block(answers, [_claims(answers, shown)])])
    tables = [_together(answers, shown, shown.columns, shown.results)]
    tables += [found for more in shown.more if (found := _together(answers, shown, *more, full=False)).rows]
    return Section(shown, [Block(answers, tables)])


def _block(answer: Answer, shown: Shown, known: Known) -> Block:
    grids = []
    if answer.arms and shown.columns:
        grids.append(_arms(answer, shown))
    if answer.observations:
        grids.append(_observations(answer.observations))
    if answer.parts:
        grids.append(_parts(answer, known))
    facts = [(f"{seen.name}: {name}", fact) for seen in answer.observations for name, fact in seen.facts.items()]
    facts = list(dict.fromkeys(facts))
    if answer.question in ("bisection", "threshold"):
        facts += answer.facts.items()
    if answer.rate_clock:
        facts.append(("rates", RATE_CLOCKS[answer.rate_clock]))
    return Block([answer], grids, facts)


def _arms(answer: Answer, shown: Shown) -> Grid:
    rows = [[Entry(_name(arm), cell=arm.cell), *(of(answer, arm) for _, of in shown.columns)] for arm in answer.arms]
    width = len(shown.columns)
    for name, reason in answer.skipped.items():
        rows.append([Entry(name), Entry(f"left out: {reason}", number=False), *[Entry()] * (width - 1)])
    return Grid([shown.arms, *(heading for heading, _ in shown.columns)], rows)


def _together(
    answers: Sequence[Answer], shown: Shown, columns: Sequence[ArmColumn], results: Sequence[AnswerColumn], *, full: bool = True
) -> Grid:
    """A row per arm; what the arms come to stands in the first arm's. Without `full`, rows and columns with a value alone."""
    rows: list[list[Entry]] = []
    for answer in answers:
        own: list[list[Entry]] = []
        for arm in answer.arms:
            values = [of(answer, arm) for _, of in columns]
            values += [of(answer) if not own else Entry() for _, of in results]
            own.append([Entry(), Entry(_name(arm), cell=arm.cell, number=False), *values])
        if own and (full or any(entry.text not in ("", NOTHING) for row in own for entry in row[2:])):
            own[0][0] = Entry(answer.id, notes=_remarks(answer), anchor=answer.id)
            rows += own
    return Grid([shown.arms, "side", *(heading for heading, _ in (*columns, *results))], rows)


def _claims(answers: Sequence[Answer], shown: Shown) -> Grid:
    """A row per figure of each answer; the verdict of all stands in the first."""
    rows: list[list[Entry]] = []
    for answer in answers:
        own = [_claim_row(claim) for claim in answer.claims] or [[Entry()] * 7]
        first = Entry(answer.id, notes=_remarks(answer), anchor=answer.id)
        rows += [[Entry() if place else first, *row, Entry() if place else _judged(answer)] for place, row in enumerate(own)]
    headings = ["figure", "candidate", "baseline", "worse", "beyond the margin", "p over all", "is", "no worse?"]
    return Grid([shown.arms, *headings], rows)


def _claim_row(claim: Claim) -> list[Entry]:
    figure = FIGURES.get(claim.figure)
    sides = []
    for value in (claim.candidate, claim.baseline):
        text = NOTHING if value is None else figure.text(value) if figure else f"{value:.0f} of {claim.n} failed"
        sides.append(Entry(text))
    passes = claim.margin if claim.accepted is None else claim.accepted
    beyond = f"{claim.beyond} of {claim.n} (> {percent_words(passes)})" if figure else NOTHING
    return [
        Entry(figure_title(claim.figure), number=False),
        *sides,
        Entry(_worse_words(claim)),
        Entry(beyond),
        Entry(NOTHING if claim.p_adjusted is None else f"{claim.p_adjusted:.2g}"),
        Entry(" - ".join(filter(None, (claim.standing, claim.note))), number=False),
    ]


def _worse_words(claim: Claim) -> str:
    if claim.worse is None:
        return NOTHING
    mean, span = percent_interval(claim.worse.mean, claim.worse.low, claim.worse.high)
    return f"{mean} ({span})"


def _remarks(answer: Answer) -> list[str]:
    """The reason for the answer's verdict, and notes for a reader."""
    found = [answer.verdict.reason, *answer.verdict.notes] if answer.verdict else []
    found += [f"the ratio is not judged: {answer.not_judged}"] if answer.not_judged else []
    return found + ([f"rates: {RATE_CLOCKS['total']}"] if answer.rate_clock == "total" else [])


def _observations(seen: Sequence[Observation]) -> Grid:
    names = list(dict.fromkeys(name for each in seen for name in each.figures))
    rows = [
        [
            Entry(each.name),
            *(Entry(f"{each.figures[name]:.6g}" if name in each.figures else NOTHING) for name in names),
            Entry(each.problem or NOTHING, number=False),
        ]
        for each in seen
    ]
    return Grid(["run", *(name.replace("_", " ") for name in names), "problem"], rows)


def _parts(answer: Answer, known: Known) -> Grid:
    clients = {arm.name: arm.value for arm in answer.arms}
    candidate, baseline = clients.get("candidate", ""), clients.get("baseline")
    headings = [f"{candidate}: cell", "verdict", "figure"]
    rows = []
    if answer.facts.get("by") == "comparison":
        return _compared_parts(answer, known, candidate, baseline or "")
    for part in answer.parts:
        own, compared = known.get(part.id), known.get(part.comparison or "")
        row = [
            Entry(part.id.removeprefix(f"{candidate}--"), cell=part.id, notes=[part.why, *part.notes]),
            Entry(verdict=part.verdict),
            Entry(figure_words(own) if own else NOTHING),
        ]
        if baseline:
            ratio = compared.ratio if compared else None
            row += [_verdict(part.baseline), _ratio(compared, ratio_words(ratio, 3)), _verdict(part.regression)]
        rows.append(row)
    rows += [
        [Entry(name), Entry(f"skipped: {reason}", number=False), *[Entry()] * (4 if baseline else 1)]
        for name, reason in answer.skipped.items()
    ]
    return Grid([*headings, *([baseline, "ratio of rates", "no slower?"] if baseline else [])], rows)


def _compared_parts(answer: Answer, known: Known, candidate: str, baseline: str) -> Grid:
    """Regressions count; what either promises is shown next to them."""
    rows = []
    for part in answer.parts:
        found = known.get(part.comparison or "")
        worst = max(found.claims, key=_weight, default=None) if found else None
        told = (
            f"{figure_title(worst.figure)} {_worse_words(worst)}"
            if worst and worst.worse
            else worst.standing
            if worst
            else NOTHING
        )
        rows.append(
            [
                Entry(part.id.removeprefix(f"{candidate}--"), cell=part.id, notes=[part.why, *part.notes]),
                _verdict(part.regression),
                Entry(told, number=False),
                _verdict(part.verdict),
                _verdict(part.baseline),
            ]
        )
    rows += [[Entry(name), Entry(f"skipped: {reason}", number=False), *[Entry()] * 3] for name, reason in answer.skipped.items()]
    return Grid([f"{candidate}: cell", "no worse?", "worst figure", "promise", f"promise: {baseline}"], rows)


def _weight(claim: Claim) -> tuple[int, float]:
    """The figure with the largest weight is shown for its row."""
    over = claim.worse.mean - claim.margin if claim.worse else -1.0
    return STANDINGS.index(claim.standing) if claim.standing not in ("fine", "better") else -1, over


def _name(arm: Arm) -> str:
    return " ".join(filter(None, (arm.name, arm.value)))


def _verdict(name: VerdictName | None) -> Entry:
    return Entry(verdict=name) if name else Entry(NOTHING, number=False)


def _count(_: Answer, arm: Arm) -> Entry:
    return Entry(str(arm.interval.n) if arm.interval else str(len(arm.byte_s)))


def _mean(digits: int) -> Callable[[Answer, Arm], Entry]:
    return lambda _, arm: Entry(rate_words(arm.mean_byte_s, digits))


def _of_fastest(answer: Answer, arm: Arm) -> Entry:
    best = max((each.mean_byte_s for each in answer.arms if each.mean_byte_s is not None), default=None)
    return Entry(f"{arm.mean_byte_s / best:.3f}" if arm.mean_byte_s and best else NOTHING)


def _ratio(answer: Answer | None, words: str = "") -> Entry:
    if answer is None:
        return Entry(NOTHING)
    verdict, bound = answer.verdict, answer.bound
    low = verdict.band_low if verdict else 1 - bound.value if bound else None
    whisker = Whisker(answer.ratio, low, verdict.band_high if verdict else None)
    return Entry(words or ratio_words(answer.ratio), whisker=whisker)


def _judged(answer: Answer) -> Entry:
    return Entry(verdict=answer.verdict.name) if answer.verdict else Entry("not judged", number=False)


def _method(answer: Answer) -> Entry:
    if answer.not_judged:
        return Entry("not judged", number=False)
    return Entry(answer.verdict.method or "" if answer.verdict else "", number=False)


def _work(answer: Answer) -> Entry:
    """The work of B over that of A, whatever their processors."""
    a, b = (arm.figures.get("hashed_MB_per_GB") for arm in answer.arms)
    return Entry(f"{b / a:.3f}" if a and b else NOTHING)


def _figure(name: str) -> Callable[[Answer, Arm], Entry]:
    def of(_: Answer, arm: Arm) -> Entry:
        value = arm.figures.get(name)
        return Entry(NOTHING if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}")

    return of


def _fact(name: str) -> ArmColumn:
    return name, lambda _, arm: Entry(arm.facts.get(name) or NOTHING, number=False)


def _cpu_ratio(_: Answer, arm: Arm) -> Entry:
    mean, low, high = (arm.figures.get(f"cpu_ratio{end}") for end in ("", "_low", "_high"))
    return Entry(NOTHING if mean is None else f"{mean:.3f} ({low:.3f} to {high:.3f})")


_VERDICT: ArmColumn = ("verdict", lambda _, arm: _verdict(arm.verdict))
_CELL = Shown("Cells")
_EVENT = Shown("Events", "How a client takes what happens to its network.")
QUESTIONS: dict[Question, Shown] = {
    **dict.fromkeys(CELL_QUESTIONS, _CELL),
    **dict.fromkeys(get_args(Event), _EVENT),
    "no-wrong-file": Shown("Faults", "Whether exit code 0 means an identical file, whatever happens to the transfer."),
    "buffer-sizes": Shown(
        "Buffer sizes",
        "The same transfer with several sizes of the client's buffer, interleaved; the slowest against the fastest.",
        arms="buffer size",
        columns=(
            ("rounds", _count),
            ("mean MB/s", _mean(3)),
            ("slowest", lambda _, arm: Entry(rate_words(min(arm.byte_s, default=None)))),
            ("fastest", lambda _, arm: Entry(rate_words(max(arm.byte_s, default=None)))),
            ("of the fastest mean", _of_fastest),
        ),
    ),
    "no-slower": Shown(
        "Candidate and baseline",
        "Two clients, their samples interleaved on one link. Ratio of rates, geometric mean over the pairs.",
        arms="cell",
        columns=(_VERDICT, ("n", _count), ("mean MB/s", _mean(4))),
        results=(("candidate / baseline", _ratio), ("no slower?", _judged)),
        together=True,
    ),
    "no-worse": Shown(
        "Candidate against baseline",
        "Two clients on one link, in turns, the i-th transfers of both with the same seed. Worse is above 0; with a limit, "
        "further from it. A regression: most pairs are beyond the margin, over all figures of the run.",
        arms="row",
        together=True,
        claims=True,
    ),
    "send-buffers": Shown("Send buffers", "The same upload with a fixed and with the automatic send buffer, interleaved."),
    "platform": Shown("Platform", "What a piece of work costs this host, with the host's CPU score before and after."),
    "same-work": Shown(
        "The same requests",
        "Clients, or treatments of the answers, on the same requests, interleaved; ratios to the first with 90 % intervals.",
        arms="arm",
        columns=(
            _VERDICT,
            ("runs", lambda _, arm: Entry(str(len(arm.byte_s)))),
            ("requests/s", _figure("requests_per_s")),
            ("of the first", lambda _, arm: Entry(ratio_words(arm.interval, 3))),
            ("CPU s per 1000", _figure("cpu_s_per_1000")),
            ("of the first's", _cpu_ratio),
            ("peak MB", _figure("peak_MB")),
            ("system calls each", _figure("syscalls_per_request")),
        ),
    ),
    "qualification": Shown("Qualification", "A release through its set of cells."),
    "bisection": Shown(
        "Bisection",
        "The search for the first candidate that has a bug. PASS: one is named. Every step is a run of its own.",
        arms="step",
        columns=(_VERDICT, _fact("figure"), _fact("why"), _fact("run")),
    ),
    "bisection-step": Shown("Steps", "The candidates of a search, in the order in which they were tried."),
    "threshold": Shown(
        "Thresholds",
        "Up to which value of one variable a client passes. Every trial is a cell of this run, whose own verdict does not count.",
        arms="trial",
        columns=(_VERDICT, _fact("figure"), _fact("why")),
    ),
    "as-reported": Shown("Reproductions", "Clients against what was reported of them."),
    "equal": Shown(
        "Ratios",
        "Geometric means of complete transfers; every ratio is B over A.",
        arms="cell",
        columns=(_VERDICT, ("n", _count), ("MB/s", _mean(4))),
        results=(("B / A (interval)", _ratio), ("method", _method), ("agree?", _judged)),
        together=True,
        more=(
            (
                (("CPU s/GB", _figure("cpu_s_per_GB")), ("MB hashed/GB", _figure("hashed_MB_per_GB"))),
                (("B / A of CPU s/GB", lambda answer: Entry(ratio_words(answer.cost, 3))), ("B / A of MB hashed/GB", _work)),
            ),
            (
                (("slowest / fastest", lambda _, arm: Entry(ratio_words(arm.interval) if arm.interval else "")),),
                (),
            ),
        ),
    ),
}
