"""Small static plots: every sample of a cell with its band and interval, a whisker, a trend. Pure; text in, SVG text out.

Coordinates are rounded to a tenth of a pixel and shapes share classes, because a page holds hundreds of them. Colours come
from the page's style sheet; `standalone` brings its own, for places without one (Robot's log).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from markupsafe import Markup, escape

STYLE = (
    "<style>.tl{font:11px system-ui,sans-serif;color:#1d2430;background:#fff}.tl text{fill:#4d5766}.tl .band{fill:#d9ece0}"
    ".tl .edge,.tl .axis{stroke:#6b7686;stroke-width:1}.tl .edge{stroke-dasharray:4 3}"
    ".tl .iv{stroke:#1d2430;stroke-width:2}.tl .dots{stroke:#1d4f91;stroke-width:8;stroke-linecap:round}.tl .mean{fill:#1d2430}"
    ".tl .gone{fill:none;stroke:#8a5a00}.tl .line{fill:none;stroke:#1d4f91;stroke-width:1.5}</style>"
)


@dataclass(frozen=True)
class Spot:
    """One sample: its label, its value, and whether it was judged (else hollow and crossed)."""

    label: str
    value: float
    judged: bool = True
    note: str = ""


@dataclass(frozen=True)
class Judged:
    """The data behind a verdict, all in one unit that `tell` prints; an edge or an interval may be missing."""

    spots: Sequence[Spot] = field(default_factory=tuple)
    low: float | None = None
    mean: float | None = None
    high: float | None = None
    band_low: float | None = None
    band_high: float | None = None
    tell: Callable[[float], str] = "{:.3g}".format
    centre: float | None = None

    @property
    def domain(self) -> tuple[float, float]:
        """The range of the axis: the complete band and interval, and every sample."""
        known = [self.low, self.mean, self.high, self.band_low, self.band_high, *(spot.value for spot in self.spots)]
        finite = [value for value in known if value is not None and math.isfinite(value)]
        if not finite:
            return 0.0, 1.0
        low, high = min(finite), max(finite)
        room = (high - low) * 0.12 or abs(high) * 0.1 or 1.0
        return low - room, high + room


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _along(domain: tuple[float, float], start: float, end: float) -> Callable[[float], float]:
    low, high = domain
    width = high - low or 1.0
    return lambda value: start + (min(max(value, low), high) - low) / width * (end - start)


def whisker(judged: Judged, *, width: int = 104, height: int = 16) -> Markup:
    """Interval against band in the size of a table's cell. The text next to it says the same, so screen readers skip it.

    An interval far outside the band ends in an arrow at the edge, so that the whiskers of one table can be compared.
    """
    if judged.mean is None or judged.low is None or judged.high is None:
        return Markup("")
    low, high = _whisker_domain(judged)
    at = _along((low, high), 3, width - 3)
    middle = _n(height / 2)
    parts = [f'<svg class="tl w" width="{width}" height="{height}" aria-hidden="true">']
    left = at(judged.band_low) if judged.band_low is not None else 0
    right = at(judged.band_high) if judged.band_high is not None else width
    if judged.band_low is not None or judged.band_high is not None:
        parts.append(f'<path class="band" d="M{_n(left)} 1h{_n(right - left)}v{height - 2}h{_n(left - right)}z"/>')
    if judged.centre is not None:
        parts.append(f'<path class="axis" d="M{_n(at(judged.centre))} 1v{height - 2}"/>')
    outside = judged.high < low or judged.low > high
    ends = "".join(
        f"M{_n(at(value))} {_n(height / 2 - 3)}v6" for value in (judged.low, judged.high) if low <= value <= high and not outside
    )
    parts.append(f'<path class="iv" d="M{_n(at(judged.low))} {middle}H{_n(at(judged.high))}{ends}"/>')
    if low <= judged.mean <= high:
        parts.append(f'<circle class="mean" cx="{_n(at(judged.mean))}" cy="{middle}" r="3"/>')
    if judged.high > high:
        parts.append(f'<path class="mean" d="M{width} {middle}l-6 -4v8z"/>')
    if judged.low < low:
        parts.append(f'<path class="mean" d="M0 {middle}l6 -4v8z"/>')
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704 - numbers and our own words


def _whisker_domain(judged: Judged) -> tuple[float, float]:
    if judged.band_low is not None and judged.band_high is not None:
        half = judged.band_high - judged.band_low
        return judged.band_low - half / 2, judged.band_high + half / 2
    edge = judged.band_low if judged.band_low is not None else judged.band_high
    if edge is None:
        return judged.domain
    reach = max(abs(edge) * 0.6, 0.05) if edge else 0.1
    return edge - reach, edge + reach


def samples_plot(judged: Judged, title: str, *, width: int = 420, standalone: bool = False) -> Markup:
    """Every sample in the order taken, the band behind them, and below them the interval of the mean.

    Samples run down, so that twenty of them and their numbers stay readable on a narrow page.
    """
    rows = [*judged.spots]
    step = 13 if len(rows) > 12 else 16
    top, left, right = 18, 30, 12
    foot = top + step * max(len(rows), 1) + 4
    height = foot + (46 if judged.mean is not None else 22)
    at = _along(judged.domain, left, width - right)
    size = f' width="{width}"' if standalone else ""
    parts = [
        f'<svg class="tl p"{size} viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">',
        STYLE if standalone else "",
        _band(judged, at, (left, width - right), (top - 4, height - 20)),
    ]
    places = [(spot, at(spot.value), top + step * row + step / 2) for row, spot in enumerate(rows)]
    labels = "".join(f'<text x="{left - 8}" y="{_n(y + 4)}">{escape(spot.label)}</text>' for spot, _, y in places)
    parts.append(f'<g text-anchor="end">{labels}</g>')
    # One path for all: each is a stroke of no length with round ends.
    parts.append(f'<path class="dots" d="{"".join(f"M{_n(x)} {_n(y)}h0" for spot, x, y in places if spot.judged)}"/>')
    parts += [_gone(spot, x, y, judged.tell) for spot, x, y in places if not spot.judged]
    if judged.low is not None and judged.high is not None and judged.mean is not None:
        y = foot + 10
        a, b, m = at(judged.low), at(judged.high), at(judged.mean)
        parts.append(f'<path class="axis" d="M{left} {foot}H{width - right}"/>')
        parts.append(f'<path class="iv" d="M{_n(a)} {y}H{_n(b)}M{_n(a)} {y - 5}v10M{_n(b)} {y - 5}v10"/>')
        parts.append(f'<path class="mean" d="M{_n(m)} {y - 6}l6 6l-6 6l-6 -6z"/>')
    parts.append("</svg>")
    return Markup("".join(parts))  # noqa: S704 - the title is escaped, all else is numbers


def _gone(spot: Spot, x: float, y: float, tell: Callable[[float], str]) -> str:
    told = escape(f"sample {spot.label}: {tell(spot.value)}{f', {spot.note}' if spot.note else ''}")
    cross = f"M{_n(x - 6)} {_n(y - 6)}l12 12m0 -12l-12 12"
    return f'<circle class="gone" cx="{_n(x)}" cy="{_n(y)}" r="4"><title>{told}</title></circle><path class="gone" d="{cross}"/>'


def _band(judged: Judged, at: Callable[[float], float], across: tuple[float, float], down: tuple[float, float]) -> str:
    (left, right), (top, foot) = across, down
    edges = [edge for edge in (judged.band_low, judged.band_high) if edge is not None]
    parts = []
    if edges:
        a = at(judged.band_low) if judged.band_low is not None else left
        b = at(judged.band_high) if judged.band_high is not None else right
        parts.append(f'<path class="band" d="M{_n(a)} {_n(top)}h{_n(b - a)}V{_n(foot)}h{_n(a - b)}z"/>')
    for edge in edges:
        parts.append(f'<path class="edge" d="M{_n(at(edge))} {_n(top)}V{_n(foot)}"/>')
    marks = sorted({*edges, *([judged.centre] if judged.centre is not None else [])}) or sorted({*_ends(judged)})
    if judged.centre is not None:
        parts.append(f'<path class="axis" d="M{_n(at(judged.centre))} {_n(top)}V{_n(foot)}"/>')
    if judged.centre is not None and any(edge != judged.centre and abs(at(edge) - at(judged.centre)) < 48 for edge in edges):
        marks.remove(judged.centre)
    for mark in marks:
        x = at(mark)
        anchor = "start" if x < left + 30 else "end" if x > right - 30 else "middle"
        parts.append(f'<text x="{_n(x)}" y="{_n(foot + 14)}" text-anchor="{anchor}">{escape(judged.tell(mark))}</text>')
    return "".join(parts)


def _ends(judged: Judged) -> list[float]:
    values = [spot.value for spot in judged.spots]
    return [min(values), max(values)] if values else []


def goodput_plot(rates_byte_s: Sequence[float], slot_s: float, marks: Sequence[tuple[str, float]], *, width: int = 640) -> Markup:
    """Goodput over time as a step line, with named levels: for print, and for a browser that cannot unpack the series."""
    if not rates_byte_s:
        return Markup("")
    left, right, top, foot = 44, 8, 8, 108
    highest = max(*rates_byte_s, *(value for _, value in marks if value < 4 * max(rates_byte_s)), 1.0) * 1.08
    x = _along((0, len(rates_byte_s) * slot_s), left, width - right)
    y = _along((0, highest), foot, top)
    line = " ".join(f"{x((at + 0.5) * slot_s):.0f},{_n(y(rate))}" for at, rate in enumerate(rates_byte_s))
    parts = [f'<svg class="tl p" viewBox="0 0 {width} {foot + 18}" role="img" aria-label="goodput over time">']
    for name, value in marks:
        if value <= highest:
            parts.append(f'<path class="edge" d="M{left} {_n(y(value))}H{width - right}"/>')
            parts.append(f'<text x="{width - right}" y="{_n(y(value) - 3)}" text-anchor="end">{escape(name)}</text>')
    parts.append(f'<path class="axis" d="M{left} {top}V{foot}H{width - right}"/><polyline class="line" points="{line}"/>')
    parts.append(f'<text x="{left - 4}" y="{foot}" text-anchor="end">0</text>')
    parts.append(f'<text x="{left - 4}" y="{top + 8}" text-anchor="end">{highest / 1e6:.3g}</text>')
    parts.append(f'<text x="{left}" y="{foot + 14}">0 s; MB/s</text>')
    parts.append(f'<text x="{width - right}" y="{foot + 14}" text-anchor="end">{len(rates_byte_s) * slot_s:.1f} s</text></svg>')
    return Markup("".join(parts))  # noqa: S704 - names are escaped, all else is numbers


@dataclass(frozen=True)
class Level:
    """One run of a trend: mean with its interval, and the title that a pointer shows."""

    mean: float
    low: float | None
    high: float | None
    title: str
    fail: bool = False


def trend_plot(
    points: Sequence[Level], steps: Sequence[tuple[int, str]], tell: Callable[[float], str], title: str, *, width: int = 860
) -> Markup:
    """Means with intervals in the order of the runs; each step is a line between two runs with its name."""
    if not points:
        return Markup("")
    left, right, top, foot = 84, 16, 34, 220
    known = [value for point in points for value in (point.low, point.mean, point.high) if value is not None]
    low, high = min(known), max(known)
    room = (high - low) * 0.1 or abs(high) * 0.05 or 1.0
    y = _along((low - room, high + room), foot, top)
    x = _along((-0.5, len(points) - 0.5), left, width - right)
    parts = [f'<svg class="tl p" viewBox="0 0 {width} {foot + 24}" role="img" aria-label="{escape(title)}">']
    parts.append(f'<path class="axis" d="M{left} {top}V{foot}H{width - right}"/>')
    for value in (low, (low + high) / 2, high) if high > low else (low,):
        parts.append(f'<text x="{left - 6}" y="{_n(y(value) + 4)}" text-anchor="end">{escape(tell(value))}</text>')
        parts.append(f'<path class="grid" d="M{left} {_n(y(value))}H{width - right}"/>')
    bounds = [0, *(index for index, _ in steps), len(points)]
    for start, end in pairwise(bounds):
        if end > start:
            level = sum(point.mean for point in points[start:end]) / (end - start)
            parts.append(f'<path class="level" d="M{_n(x(start - 0.5))} {_n(y(level))}H{_n(x(end - 0.5))}"/>')
    for count, (index, name) in enumerate(steps):
        at = x(index - 0.5)
        anchor = "end" if at > width * 0.7 else "start"
        parts.append(f'<path class="step" d="M{_n(at)} {top - 18}V{foot}"/>')
        shift = -4 if anchor == "end" else 4
        y_text = top - 10 + 12 * (count % 2)
        parts.append(f'<text class="step" x="{_n(at + shift)}" y="{y_text}" text-anchor="{anchor}">{escape(name)}</text>')
    line = "".join(f"{'M' if not at else 'L'}{_n(x(at))} {_n(y(point.mean))}" for at, point in enumerate(points))
    parts.append(f'<path class="line thin" d="{line}"/>')
    for at, point in enumerate(points):
        if point.low is not None and point.high is not None:
            parts.append(f'<path class="iv thin" d="M{_n(x(at))} {_n(y(point.low))}V{_n(y(point.high))}"/>')
        shape = (
            f'<path class="dot bad" d="M{_n(x(at) - 4)} {_n(y(point.mean) - 4)}h8v8h-8z">'
            if point.fail
            else f'<circle class="dot" cx="{_n(x(at))}" cy="{_n(y(point.mean))}" r="3.5">'
        )
        parts.append(f"{shape}<title>{escape(point.title)}</title></{'path' if point.fail else 'circle'}>")
    parts.append(f'<text x="{left}" y="{foot + 16}">run 1</text>')
    parts.append(f'<text x="{width - right}" y="{foot + 16}" text-anchor="end">run {len(points)}</text></svg>')
    return Markup("".join(parts))  # noqa: S704 - titles and names are escaped, all else is numbers
