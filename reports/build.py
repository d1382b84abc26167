"""A run, a comparison of two or a trend over many as one HTML page that needs no network.

Every text of a result is escaped by Jinja; the page's own policy (CSP) lets nothing run but the two scripts whose digests it
names, and nothing load. Dates, figures and words come from the results alone: the same results make the same page.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, get_args

from markupsafe import Markup

from lab.model.comparison import Comparison
from lab.model.figures import FIGURES, RATE
from lab.model.results import ClientIdentity, VerdictName, exit_code, verdict_of_exit_code
from lab.store.stored_run import StoredRun
from reports import series, svg, uplot, words
from reports.answers import NOTHING, sections
from reports.cells import SAMPLE_HEADINGS, CellView, by_severity, ratio_judged
from reports.curve import threshold_curve
from reports.machine import without_places
from reports.matrix import make_matrix, router_words

if TYPE_CHECKING:
    from jinja2 import Environment

    from lab.model.trend import Trend, TrendReport

# Line breaks between tags, not before text.
_BREAKS = re.compile(r"(?<=>)\n+(?=<)")

VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)


@dataclass(frozen=True)
class Tally:
    """The verdicts that count, the exit code, and whether run.json was there to say so."""

    counts: Mapping[VerdictName, int]
    exit_code: int
    whole: bool
    state: str = ""
    """The reason for an incomplete run, for people."""
    doubt: str = ""
    """A doubt about a run that nothing calls incomplete."""

    @property
    def name(self) -> VerdictName | None:
        """The word at the head of the page; None where nothing was judged."""
        if not sum(self.counts.values()):
            return None
        name = verdict_of_exit_code(self.exit_code)
        return name if self.whole or name == "FAIL" else "INVALID"

    @property
    def headline(self) -> str:
        if not self.whole:
            return f"This run is not complete: {self.state}."
        headline = words.headline(self.counts, self.exit_code)
        return f"{headline} But {self.doubt}." if self.doubt else headline


def tally(run: StoredRun) -> Tally:
    """From run.json, else from the files that could be read. Verdicts of baselines do not count."""
    counted = run.counted
    code = run.record.exit_code if run.whole and run.record else exit_code(counted)
    if run.qualification is not None:
        code = exit_code([run.qualification.judged.name])
    return Tally({name: counted[name] for name in VERDICTS}, code, run.whole, run.state, run.doubt)


def run_page(run: StoredRun) -> str:
    """The page of one run: headline, matrix, evidence of every cell, answers."""
    anchors = words.anchors("cell", (cell.id for cell in run.cells))
    packed = [each if RATE.applies(cell) else None for cell, each in zip(run.cells, series.choose(run.cells), strict=True)]
    baselines = run.baselines
    views = {
        cell.id: CellView(cell, anchors[cell.id], each, baselines.get(cell.id, ""))
        for cell, each in zip(run.cells, packed, strict=True)
    }
    matrix = make_matrix([run])
    return _render(
        "run.html.j2",
        title=run.path.name,
        run=run,
        tally=tally(run),
        head=_head(run),
        matrix=matrix,
        columns=_columns(matrix.clients, views.values()),
        links=_by_link(matrix.rows),
        views=views,
        ordered=by_severity([*views.values()]),
        sections=sections(run.answers, {each.id: each for each in run.everything}),
        anchors=words.anchors("answer", (answer.id for answer in run.answers)),
        clients=_clients(run),
        skipped=run.skipped,
        mixed=len(run.clocks) > 1,
        series_note=_series_note(packed),
        charts=any(packed),
    )


def compare_page(comparison: Comparison) -> str:
    """The page of two runs side by side."""
    counts = Counter(comparison.verdicts)
    return _render(
        "compare.html.j2",
        title=f"{comparison.a.run} and {comparison.b.run}",
        found=comparison,
        sections=sections(comparison.answers),
        anchors=words.anchors("cell", (answer.id for answer in comparison.answers)),
        tally=Tally({name: counts[name] for name in VERDICTS}, comparison.exit_code, True),
        charts=False,
    )


def trend_page(report: TrendReport) -> str:
    """The page of one figure over many runs, a plot per cell."""
    shown = [
        {"trend": trend, "plot": _trend_plot(trend), "figure": FIGURES[trend.figure], "anchor": f"trend-{number}"}
        for number, trend in enumerate(report.trends, 1)
    ]
    return _render("trend.html.j2", title="trend", report=report, shown=shown, charts=False)


def _trend_plot(trend: Trend) -> Markup:
    tell = FIGURES[trend.figure].text
    points = [
        svg.Level(
            point.mean,
            point.low,
            point.high,
            f"{point.run}: {tell(point.mean)}, n = {point.n}, {point.verdict}",
            fail=point.verdict == "FAIL",
        )
        for point in trend.points
    ]
    change = FIGURES[trend.figure].change
    steps = [(step.index, f"{change(step.change)} from {step.after_run}") for step in trend.steps]
    return svg.trend_plot(
        points, steps, tell, f"{trend.figure} of {trend.cell}, {trend.clock} time, over {len(points)} runs, {len(steps)} steps"
    )


def _head(run: StoredRun) -> list[tuple[str, str]]:
    """Facts of the run for the head of the page, as far as they are known."""
    record = run.record
    parts = run.everything
    first = parts[0] if parts else None
    machine = next((each.machine for each in parts if each.machine), {})
    start = record.started_at if record else min((each.started_at for each in parts), default=None)
    end = record.ended_at if record else max((each.ended_at for each in parts), default=None)
    revision = str(machine.get("git_revision") or (record.git_revision if record else "") or "")[:12]
    changed = ", with changes" if machine.get("git_dirty") else ""
    cores = f"{machine['cores']} cores" if "cores" in machine else ""
    memory = machine.get("memory_bytes")
    told = [str(machine.get("cpu_model") or ""), cores, words.memory(memory) if isinstance(memory, int) else ""]
    backends = dict.fromkeys(each.backend for each in parts if each.backend)
    routers = dict.fromkeys(router_words(each.router) for each in parts if each.router)
    versions = dict.fromkeys(each.lab_version for each in parts) or ([record.lab_version] if record else [])
    facts = [
        ("started", words.moment(start)),
        ("took", words.span((end - start).total_seconds()) if start and end else ""),
        ("host", ", ".join(part for part in told if part)),
        ("time", " and ".join(run.clocks)),
        ("kernel", words.words(machine.get("kernel")) if machine.get("kernel") else ""),
        ("backend", ", ".join(backends)),
        ("router", "; ".join(routers)),
        ("lab", f"{', '.join(versions)}{f', revision {revision}' if revision else ''}{changed}" if first or record else ""),
        ("exit code", str(run.record.exit_code if run.record else tally(run).exit_code)),
        ("command", shlex.join(record.command) if record else ""),
    ]
    return [(name, text) for name, text in facts if text and text != NOTHING]


def _columns(clients: Mapping[str, list[str]], views: Iterable[CellView]) -> dict[str, list[str]]:
    """Clients with their versions; clients whose verdicts count come first."""
    counting = {view.cell.client.name for view in views if not view.baseline}
    return dict(sorted(clients.items(), key=lambda item: item[0] not in counting))


def _clients(run: StoredRun) -> list[ClientIdentity]:
    """Every client program, once."""
    clients = [each.client for each in run.everything if each.client]
    return [*{(client.name, client.sha256): client for client in clients}.values()]


def _by_link(rows: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.link, []).append(row)
    return found


def _series_note(packed: Sequence[series.Packed | None]) -> str:
    known = [each for each in packed if each is not None]
    if not known:
        return ""
    coarse = max(each.coarsest_ms for each in known)
    fine = min(each.finest_ms for each in known)
    if coarse == fine:
        return f"every sample in slots of {coarse:g} ms"
    return f"the worst sample of each cell in slots of {fine:g} ms, the others of up to {coarse:g} ms"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from reports.bytecode import kept

    # The optimizer would put what today's filters make of constants into the kept code.
    options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "optimized": False}
    environment = Environment(
        loader=PackageLoader("reports"), autoescape=True, undefined=StrictUndefined, bytecode_cache=kept(options), **options
    )
    environment.filters |= {
        "moment": words.moment,
        "span": words.span,
        "number": words.number,
        "percent": words.percent,
        "mbs": words.megabytes_s,
        "memory": words.memory,
        "words": words.words,
        "lean": _lean,
        "shell": shlex.join,
        "bare": _bare,
    }
    environment.globals |= {
        "MEANING": words.MEANING,
        "NOTHING": NOTHING,
        "VERDICTS": VERDICTS,
        "threshold_curve": threshold_curve,
        "SAMPLE_HEADINGS": SAMPLE_HEADINGS,
        "ratio_whisker": lambda interval, low, high: svg.whisker(ratio_judged(interval, low, high)),
    }
    return environment


def _render(template: str, *, charts: bool, **values: object) -> str:
    """`charts` says whether the page needs uPlot."""
    scripts = [*([uplot.script()] if charts else []), _own("page.js")]
    style = _own("style.css") + (uplot.style() if charts else "")
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src {_digest(style)}; "
        f"script-src {' '.join(map(_digest, scripts))}"
    )
    # Our own files and uPlot's; everything else is escaped by the template.
    safe = {"style": Markup(style), "scripts": [Markup(script) for script in scripts]}  # noqa: S704
    return without_places(_environment().get_template(template).render(**values, **safe, policy=policy, charts=charts))


def _bare(text: str) -> Markup:
    """Escaped for the content of an element, never for an attribute: quotes stay what they are."""
    return Markup(html.escape(text, quote=False))  # noqa: S704


def _lean(text: str) -> Markup:
    """Markup of a template without line breaks between elements and the end tags that HTML leaves out: a third of a cell's bytes.

    Text of results cannot be touched: it holds no `<` once escaped.
    """
    return Markup(_BREAKS.sub("", re.sub(r"</(?:td|th|tr|dt|dd|li|tbody)>", "", str(text))))  # noqa: S704


def _own(name: str) -> str:
    return (resources.files("reports") / name).read_text(encoding="utf-8").strip()


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
