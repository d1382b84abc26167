"""A study's page: its template filled from its data, its pictures, and the rules that a page must keep.

A template is Jinja2 and calls the functions of `_Page.functions`; docs/studies/README.md lists them for its authors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes

from lab.model.errors import UsageProblem
from lab.model.numbers import percent
from lab.model.transfer import Expectation
from reports.machine import without_places
from reports.studies import tables
from reports.studies.archive import CURVES, Contents, unpacked
from reports.studies.charts import Group, Line, Mark, intervals, lines, series_of
from reports.studies.data import Cell, Data, by_row, figure_of
from reports.studies.places import Study

GROUPS = ("clients", "lab")
"""The two lists of docs/studies/README.md: what was found of clients, and about the lab itself and ferry."""
_SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
# A number that stands by itself: not a version, not part of a name such as h2 or dsl-50.
_NUMBER = re.compile(r"(?<![\w.@/-])[-+±]?\d[\d,]*(?:\.\d+)?(?![\w.]*\.\d)(?![A-Za-z@])")
_VERSION = re.compile(r"(?<![\w.])\d+\.\d+\.\d+(?![\w.]*\d)")
_COUNTED = re.compile(rf"\b(?:{'|'.join(_SMALL[2:])}|none|twice|half) of\b", re.IGNORECASE)


@dataclass(frozen=True)
class Page:
    """A made page, its pictures by file name, and its row in the list of studies."""

    study: Study
    text: str
    pictures: dict[str, str]
    question: str
    group: str
    place: int
    sentence: str
    """The first sentence of its finding."""

    @property
    def files(self) -> dict[Path, str]:
        """Every file that is made for the study."""
        return {self.study.page: self.text, **{self.study.folder / name: text for name, text in self.pictures.items()}}


@dataclass
class _Page:
    """The page while its template is filled."""

    study: Study
    contents: Contents | None
    question: str = ""
    group: str = ""
    place: int = 50
    finding: str = ""
    pictures: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    missing: str = ""
    origins: int = 0

    @property
    def data(self) -> Data:
        return Data.of_contents(self.contents) if self.contents else Data({}, {})

    def functions(self) -> dict[str, object]:
        """The names that a template can call."""
        data = self.data
        return {
            # About the page
            "title": self._title,
            "command": self._command,
            "finding": self._finding,
            "no_data": self._no_data,
            "origin": self._origin,
            "picture": self._picture,
            # The data
            "data": data,
            "cell": data.cell,
            "cells": data.cells,
            "answer": data.answer,
            "answers": data.answers,
            "by_row": by_row,
            # Sentences
            "given": _given,
            "says": _says,
            "require": _require,
            # Tables
            "table": tables.table,
            "verdicts": tables.verdicts,
            "figures": tables.figures,
            "sweeps": lambda: tables.sweeps(data),
            "samples": tables.samples,
            "totals": tables.totals,
            "answer_tables": partial(tables.answers, data),
            "steps": tables.steps,
            "count": tables.count,
            # Pictures
            "deviations": deviations,
            "figure_bars": figure_bars,
            "bars": partial(_rows_chart, bars=True),
            "points": _rows_chart,
            "line_chart": _line_chart,
        }

    def _title(self, question: str, group: str = "clients", place: int = 50) -> str:
        if group not in GROUPS:
            raise UsageProblem(f"{self.study.template}: {group!r} is not one of {', '.join(GROUPS)}")
        self.question, self.group, self.place = question, group, place
        return f"# {self.study.word}: {question}"

    def _command(self, text: str) -> str:
        lines = [line.strip() for line in text.strip().splitlines()]
        self.commands += lines
        return "\n".join(f"    {line}" for line in lines)

    def _finding(self, caller: Callable[[], str]) -> str:
        if self.finding:
            raise UsageProblem(f"{self.study.template}: two findings", remedy="keep one paragraph; list the rest below it")
        self.finding = " ".join(caller().split())
        return f"{self.finding}\n"

    def _no_data(self, why: str) -> str:
        self.missing = " ".join(why.split())
        return f"**Without its raw data**: {self.missing}"

    def _origin(self, data: Data | None = None) -> str:
        self.origins += 1
        return tables.origin(data or self.data)

    def _picture(self, name: str, svg: str, words: str) -> str:
        file = f"{name}.svg"
        if file in self.pictures:
            raise UsageProblem(f"{self.study.template}: two pictures {name}")
        self.pictures[file] = svg
        return f"![{words}]({self.study.word}/{file})"

    def foot(self) -> str:
        """The end of every page: its data, and how it was made."""
        how = f"[{self.study.word}/{self.study.template.name}]({self.study.word}/{self.study.template.name})"
        if self.contents is None:
            return f"This page is made by `make studies` from {how}."
        file = f"[{self.study.word}/{self.study.data.name}]({self.study.word}/{self.study.data.name})"
        runs = len(self.contents.all_runs)
        parts = [f"{runs} run{'s' * (runs != 1)}"] if runs else []
        parts += [f"{len(self.contents.files)} other file{'s' * (len(self.contents.files) != 1)}"] if self.contents.files else []
        said = f"Data: {file}, {' and '.join(parts)}, {self.contents.size / 1000:.0f} kB, SHA-256 `{self.contents.sha256}`."
        curves = f" {CURVES[self.contents.curves]}" if CURVES[self.contents.curves] else ""
        return (
            f"{said}{curves} This page is made from it by `make studies` with {how}; "
            f"`python -m reports.studies unpack {self.study.name} FOLDER` unpacks it for `lab matrix` and `lab report`."
        )


def make_page(study: Study) -> Page:
    """Fill the template. Raises UsageProblem for a fault in template or data, and for a page that breaks a rule."""
    with _contents(study) as contents:
        page = _Page(study, contents)
        text = _filled(page)
    faults = [*_faults(page), *literal_numbers(study.template.read_text(encoding="utf-8"))]
    if faults:
        raise UsageProblem(f"{study.template}: {faults[0]}", remedy="see `How to add a study` in docs/studies/README.md")
    return Page(study, without_places(text), page.pictures, page.question, page.group, page.place, first_sentence(page.finding))


def literal_numbers(template: str) -> list[str]:
    """Numbers that the author wrote into the finding by hand, although they should come from the data."""
    found = []
    for call in _environment().parse(template).find_all(nodes.CallBlock):
        if not (isinstance(call.call.node, nodes.Name) and call.call.node.name == "finding"):
            continue
        for part in call.find_all(nodes.TemplateData):
            text = _VERSION.sub("", re.sub(r"`[^`]*`", "", part.data))
            found += [each.strip() for each in (*_NUMBER.findall(text), *_COUNTED.findall(text))]
    return [f"the finding has {each!r} by hand: take it from the data, or mark a condition with given('...')" for each in found]


def first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence."""
    plain = text.replace("**", "")
    found = re.match(r"(.+?[.?!])(?=\s+[A-Z]|$)", plain)
    return found[1] if found else plain


# --------------------------------------------------------------------------------------------------- pictures of cells


def deviations(cells: Sequence[Cell], title: str, *, least: float | None = None, most: float | None = None) -> str:
    """A picture of the cells' deviations from their limits: mean and interval in percent, the tolerance shaded.

    `least` and `most` are in percent.
    """
    colours = series_of([cell.client for cell in cells])
    groups = [
        Group(
            row,
            [
                Mark(
                    cell.client,
                    cell.mean * 100,
                    cell.low * 100,
                    cell.high * 100,
                    f"{cell.verdict} {cell.words}, n={cell.n}",
                    colours[cell.client],
                )
                if cell.result.verdict.interval
                else Mark(cell.client, float("nan"), note=cell.verdict)
                for cell in own
            ],
        )
        for row, own in by_row(cells).items()
    ]
    tolerance = 100 * _tolerance(cells)
    return intervals(
        groups, title, "deviation from the limit, %", tell="{:+g}".format, band=(-tolerance, tolerance), least=least, most=most
    )


def figure_bars(cells: Sequence[Cell], name: str, title: str, *, most: float | None = None) -> str:
    """One figure of each cell as bars: mean, with a line from least to greatest."""
    figure, colours = figure_of(name), series_of([cell.client for cell in cells])
    per = figure.unit.per
    groups = []
    for row, own in by_row(cells).items():
        marks = []
        for cell in own:
            spread = cell.spread(name)
            low, high = spread.least / per, spread.greatest / per
            marks.append(Mark(cell.client, spread.mean / per, low, high, figure.text(spread.mean), colours[cell.client]))
        groups.append(Group(row, marks))
    return intervals(groups, title, figure.heading, most=most, bars=True)


def _rows_chart(
    rows: Iterable[Sequence[Any]],
    title: str,
    axis: str,
    *,
    bars: bool = False,
    band: tuple[float, float] | None = None,
    least: float | None = None,
    most: float | None = None,
) -> str:
    """Rows of (heading, label, value) or (heading, label, value, low, high), a note at the end of either."""
    groups: dict[str, list[Mark]] = {}
    names: dict[str, int] = {}
    for row in rows:
        heading, label, value, *rest = row
        note = rest.pop() if rest and isinstance(rest[-1], str) else f"{float(value):.4g}"
        low, high = rest if len(rest) == 2 else (None, None)
        colour = names.setdefault(label, len(names))
        groups.setdefault(heading, []).append(Mark(str(label), float(value), low, high, note, colour))
    found = [Group(heading, marks) for heading, marks in groups.items()]
    return intervals(found, title, axis, band=band, least=least, most=most, bars=bars)


def _line_chart(
    series: dict[str, Sequence[Sequence[float]]],
    title: str,
    x_axis: str,
    y_axis: str,
    *,
    ticks: dict[float, str] | None = None,
    log_x: bool = False,
    band: tuple[float, float] | None = None,
    least: float | None = None,
    most: float | None = None,
) -> str:
    """Series by name, each of (x, y) or (x, y, low, high); `ticks` names places of x."""
    named = ticks or {}
    made = [
        Line(
            name,
            [(float(point[0]), float(point[1])) for point in sorted(points, key=_first)],
            [(float(point[2]), float(point[3])) for point in sorted(points, key=_first) if len(point) == 4],
        )
        for name, points in series.items()
    ]
    return lines(
        made, title, x_axis, y_axis, tell_x=lambda x: named.get(x, f"{x:g}"), log_x=log_x, band=band, least=least, most=most
    )


def _first(point: Sequence[float]) -> float:
    return point[0]


def _tolerance(cells: Sequence[Cell]) -> float:
    expected: list[Expectation] = [cell.result.expectation for cell in cells]
    return max((each.tolerance.value for each in expected), default=0.05)


# ---------------------------------------------------------------------------------------------------------------------


@contextmanager
def _contents(study: Study) -> Iterator[Contents | None]:
    with unpacked(study.data) if study.data.is_file() else nullcontext() as contents:
        yield contents


def _filled(page: _Page) -> str:
    study = page.study
    environment = _environment()
    try:
        template = environment.from_string(study.template.read_text(encoding="utf-8"), globals=page.functions())
        text = template.render()
    except jinja2.TemplateError as error:
        line = f":{error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise UsageProblem(f"{study.template}{line}: {error.message}", remedy="correct the template") from None
    except UsageProblem as problem:
        raise UsageProblem(f"{study.template}: {problem.message}", remedy=problem.remedy) from None
    plain = re.sub(r"\n{3,}", "\n\n", text.strip())
    return f"{plain}\n\n---\n\n{page.foot()}\n"


def _faults(page: _Page) -> Iterator[str]:
    """The rules that the page breaks."""
    if not page.question:
        yield "no title(...)"
    if not page.finding:
        yield "no {% call finding() %}: a page says what it found in one paragraph"
    if not page.pictures:
        yield "no picture(...)"
    if not page.commands:
        yield "no command(...): a page says how to repeat it"
    yield from (f"the command {line!r} is cut: give it in full" for line in page.commands if "..." in line or "…" in line)
    if page.contents is None and not page.missing:
        yield f"no {page.study.data.name} and no no_data(...): ship the data, or say which are missing and why"
    if page.contents is not None and page.contents.all_runs and not page.origins:
        yield "no origin(): a page has the date, clock, revision and machine of its figures"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(  # noqa: S701 - Markdown, and the templates are our own
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters.update(percent=percent, num=_number, word=_word, listed=_listed)
    return environment


def _given(text: str) -> str:
    """A number that is not a result: a condition of the measurement, or what others reported."""
    return text


def _says(true: object, text: str) -> str:
    """The text, where the data say so. Raises UsageProblem otherwise."""
    _require(true, text)
    return text


def _require(true: object, text: str) -> str:
    """Raises UsageProblem unless true: the page claims what its data do not show."""
    if not true:
        raise UsageProblem(f"the data do not show that {text}", remedy="correct the sentence")
    return ""


def _number(value: float, digits: int = 0, signed: bool = False) -> str:
    """`12,874`, `+0.31`."""
    return f"{value:{'+z' if signed else 'z'},.{digits}f}"


def _word(value: int) -> str:
    """`three`; figures above twelve."""
    return _SMALL[value] if value < len(_SMALL) else str(value)


def _listed(values: Iterable[object]) -> str:
    """`a, b and c`."""
    texts = [str(value) for value in values]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else "none"
