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

from lab.result.comparison import Comparison
from lab.result.matrix import Source, make_matrix, router_words
from lab.result.meaning import rate_is_real
from lab.result.models import ClientIdentity, VerdictName
from lab.result.salvage import Salvaged
from lab.result.store import exit_code
from lab.result.table import NOTHING
from lab.spec.clock import Clock
from reports import series, svg, uplot, words
from reports.cells import SAMPLE_HEADINGS, CellView, by_severity, ratio_judged

if TYPE_CHECKING:
    from jinja2 import Environment

    from lab.history.trend_models import Trend, TrendReport

# Not before text: only between the end of one tag and the start of the next.
_BREAKS = re.compile(r"(?<=>)\n+(?=<)")

VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)


@dataclass(frozen=True)
class Tally:
    """What a run came to: the verdicts that count, the exit code, and whether the run says so itself."""

    counts: Mapping[VerdictName, int]
    exit_code: int
    whole: bool

    @property
    def name(self) -> VerdictName | None:
        """The word at the head of the page; None where nothing was judged."""
        if not sum(self.counts.values()):
            return None
        return {1: "FAIL", 3: "INCONCLUSIVE", 4: "INVALID"}.get(self.exit_code, "PASS")  # type: ignore[return-value]

    @property
    def headline(self) -> str:
        return words.headline(self.counts, self.exit_code)


def tally(run: Salvaged) -> Tally:
    """By run.json, else by what could be read; baselines' own verdicts do not count."""
    if run.record is not None:
        judged, aside = run.record.verdicts, set(run.record.baselines)
    else:
        judged = {cell.id: cell.verdict.name for cell in run.cells}
        judged |= {study.id: study.verdict.name for study in run.studies}
        judged |= {finding.id: finding.verdict.name for finding in run.findings}
        judged |= {pair.id: pair.verdict.name for pair in run.pairs if pair.verdict}
        aside = {pair.baseline.cell for pair in run.pairs}
    counted = Counter(name for key, name in judged.items() if key not in aside)
    code = run.record.exit_code if run.record else exit_code(counted)
    if run.qualification is not None:
        code = run.qualification.exit_code
    return Tally({name: counted[name] for name in VERDICTS}, code, run.record is not None)


def run_clocks(run: Salvaged) -> list[Clock]:
    """Every clock that something of the run ran by."""
    return [*dict.fromkeys([*(cell.clock for cell in run.cells), *(finding.clock for finding in run.findings)])]


def run_page(run: Salvaged) -> str:
    """The page of one run: headline, matrix, evidence of every cell, studies, pairs, findings. Raises LabFault without uPlot."""
    anchors = words.anchors("cell", (cell.id for cell in run.cells))
    packed = [each if rate_is_real(cell) else None for cell, each in zip(run.cells, series.choose(run.cells), strict=True)]
    baselines = {pair.baseline.cell for pair in run.pairs} | set(run.record.baselines if run.record else ())
    views = {
        cell.id: CellView(cell, anchors[cell.id], each, cell.id in baselines)
        for cell, each in zip(run.cells, packed, strict=True)
    }
    skipped = run.record.skipped if run.record else {}
    matrix = make_matrix([Source(run.path.name, run.cells, run.studies, skipped)])
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
        study_anchors=words.anchors("study", (study.id for study in run.studies)),
        pair_anchors=words.anchors("pair", (pair.id for pair in run.pairs)),
        clients=_clients(run),
        skipped=skipped,
        mixed=len(run_clocks(run)) > 1,
        series_note=_series_note(packed),
        charts=any(packed),
    )


def compare_page(comparison: Comparison) -> str:
    """The page of two runs side by side."""
    anchors = words.anchors("cell", (cell.id for cell in comparison.cells))
    counts = Counter(comparison.verdicts)
    return _render(
        "compare.html.j2",
        title=f"{comparison.a.run} and {comparison.b.run}",
        found=comparison,
        anchors=anchors,
        tally=Tally({name: counts[name] for name in VERDICTS}, comparison.exit_code, True),
        charts=False,
    )


def trend_page(report: TrendReport) -> str:
    """The page of one figure over many runs, a plot per cell."""
    shown = [
        {"trend": trend, "plot": _trend_plot(trend), "tell": _tell_figure(trend), "anchor": f"trend-{number}"}
        for number, trend in enumerate(report.trends, 1)
    ]
    return _render("trend.html.j2", title="trend", report=report, shown=shown, charts=False)


def _trend_plot(trend: Trend) -> Markup:
    tell = _tell_figure(trend)
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
    steps = [(step.index, f"{words.percent(step.change)} from {step.after_run}") for step in trend.steps]
    return svg.trend_plot(
        points, steps, tell, f"{trend.figure} of {trend.cell}, {trend.clock} time, over {len(points)} runs, {len(steps)} steps"
    )


def _tell_figure(trend: Trend) -> Any:
    return {
        "rate": words.megabytes_s,
        "deviation": words.percent,
        "rss": words.memory,
    }.get(trend.figure, lambda value: f"{value:.3f} {trend.unit}")


def _head(run: Salvaged) -> list[tuple[str, str]]:
    """What a reader must know of a run before its numbers, as far as it is known."""
    record = run.record
    parts: Sequence[Any] = [*run.cells, *run.findings]
    first = parts[0] if parts else None
    machine: Mapping[str, object] = {}
    if run.cells:
        machine = run.cells[0].before.machine
    elif run.findings:
        machine = run.findings[0].machine
    start = record.started_at if record else min((each.started_at for each in parts), default=None)
    end = record.ended_at if record else max((each.ended_at for each in parts), default=None)
    revision = str(machine.get("git_revision") or (record.git_revision if record else "") or "")[:12]
    changed = ", with changes" if machine.get("git_dirty") else ""
    cores = f"{machine['cores']} cores" if "cores" in machine else ""
    memory = machine.get("memory_bytes")
    told = [str(machine.get("cpu_model") or ""), cores, words.memory(memory) if isinstance(memory, int) else ""]
    backends = dict.fromkeys(each.backend for each in parts)
    routers = dict.fromkeys(router_words(each.router) for each in parts)
    versions = dict.fromkeys(each.lab_version for each in parts) or ([record.lab_version] if record else [])
    facts = [
        ("started", words.moment(start)),
        ("took", words.span((end - start).total_seconds()) if start and end else ""),
        ("host", ", ".join(part for part in told if part)),
        ("time", " and ".join(run_clocks(run))),
        ("kernel", words.words(machine.get("kernel")) if machine.get("kernel") else ""),
        ("backend", ", ".join(backends)),
        ("router", "; ".join(routers)),
        ("lab", f"{', '.join(versions)}{f', revision {revision}' if revision else ''}{changed}" if first or record else ""),
        ("exit code", str(tally(run).exit_code)),
        ("command", shlex.join(record.command) if record else ""),
    ]
    return [(name, text) for name, text in facts if text and text != NOTHING]


def _columns(clients: Mapping[str, list[str]], views: Iterable[CellView]) -> dict[str, list[str]]:
    """Clients with their versions, those whose cells count first."""
    counting = {view.cell.client.name for view in views if not view.baseline}
    return dict(sorted(clients.items(), key=lambda item: item[0] not in counting))


def _clients(run: Salvaged) -> list[ClientIdentity]:
    """Every client program once."""
    clients = [*(cell.client for cell in run.cells), *(finding.client for finding in run.findings)]
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

    environment = Environment(
        loader=PackageLoader("reports"), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
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
    return _environment().get_template(template).render(**values, **safe, policy=policy, charts=charts)


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
