"""Pictures for a page of docs/studies: intervals, bars and lines as SVG files that stand alone. Pure; values in, text out.

A picture is read in the light and in the dark, so it brings a style sheet for both and its own background. Series differ by
shape or by dashes as well as by colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import escape

WIDTH = 860
_LIGHT = ("#1d4f91", "#b5490b", "#2a7a3b", "#7a3b96", "#8a6d00", "#0f7c86", "#a3265c", "#4d5766")
_DARK = ("#79b1ff", "#ff9f5a", "#6fd08c", "#d3a0f0", "#e3c54f", "#5ed3de", "#ff8fbd", "#b4bdc9")
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 4", "1 4", "8 2 1 2")
_ROW, _GAP, _TOP, _FOOT = 17, 10, 34, 40


def _style() -> str:
    return (
        "<style>svg{font:12px system-ui,sans-serif}.bg{fill:#fff}text{fill:#333d4b}.t{font-weight:600}.g{stroke:#dde2e8}"
        f".a{{stroke:#6b7686}}.band{{fill:#d9ece0}}.l{{fill:none;stroke-width:2}}{_colours(_LIGHT)}"
        "@media(prefers-color-scheme:dark){.bg{fill:#0f141b}text{fill:#c9d2dd}.g{stroke:#2b3440}.a{stroke:#8894a3}"
        f".band{{fill:#173524}}{_colours(_DARK)}}}</style>"
    )


def _colours(colours: Sequence[str]) -> str:
    return "".join(f".c{at} .l{{stroke:{colour}}}.c{at} .p,.c{at} .b{{fill:{colour}}}" for at, colour in enumerate(colours))


@dataclass(frozen=True)
class Mark:
    """One row of a picture: a value, its interval where there is one, and the words at its right end."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""
    series: int = 0


@dataclass(frozen=True)
class Group:
    """Rows under a heading, which may be empty."""

    title: str
    marks: Sequence[Mark] = field(default_factory=tuple)


@dataclass(frozen=True)
class Line:
    """A series of points, sorted by x; `low` and `high` are intervals of y, as long as the points or empty."""

    name: str
    points: Sequence[tuple[float, float]]
    spans: Sequence[tuple[float, float]] = ()


Tell = Callable[[float], str]


def intervals(
    groups: Sequence[Group],
    title: str,
    axis: str,
    *,
    tell: Tell = "{:g}".format,
    band: tuple[float, float] | None = None,
    least: float | None = None,
    most: float | None = None,
    bars: bool = False,
) -> str:
    """A row per mark: its value and interval on one axis; `bars` draws bars from zero instead of dots.

    `band` is shaded. Beyond `least` or `most` stands an arrow at the edge; the note has the number.
    """
    marks = [mark for group in groups for mark in group.marks]
    known = [value for mark in marks for value in (mark.low, mark.value, mark.high) if value is not None]
    low, high = _domain([*known, *(band or ()), *([0.0] if bars else [])], least, most)
    left = max(120, 14 + 7.0 * max((len(mark.label) for mark in marks), default=0))
    right = WIDTH - 14 - 6.6 * max((len(mark.note) for mark in marks), default=0)
    x = _scale((low, high), left, right)
    parts: list[str] = []
    y = float(_TOP)
    for group in groups:
        if group.title:
            y += _ROW
            parts.append(f'<text class="t" x="14" y="{y - 4:.0f}">{escape(group.title)}</text>')
        for mark in group.marks:
            parts += _row(mark, y, (low, high), x, bars)
            y += _ROW
        y += _GAP
    foot = y
    behind = []
    if band:
        a, b = x(max(band[0], low)), x(min(band[1], high))
        behind.append(f'<path class="band" d="M{a:.1f} {_TOP}H{b:.1f}V{foot:.0f}H{a:.1f}z"/>')
    behind += _ticks(low, high, x, (_TOP, foot), tell)
    if low < 0 < high or bars:
        behind.append(f'<path class="a" d="M{x(0):.1f} {_TOP}V{foot:.0f}"/>')
    words = f'<text x="{(left + right) / 2:.0f}" y="{foot + 33:.0f}" text-anchor="middle">{escape(axis)}</text>'
    return _svg(title, foot + _FOOT, [*behind, *parts, words])


def lines(
    series: Sequence[Line],
    title: str,
    x_axis: str,
    y_axis: str,
    *,
    tell_x: Tell = "{:g}".format,
    tell_y: Tell = "{:g}".format,
    log_x: bool = False,
    band: tuple[float, float] | None = None,
    least: float | None = None,
    most: float | None = None,
    height: int = 380,
) -> str:
    """A line per series over numbers; with `log_x` the axis is logarithmic and has a tick at every x of the data."""
    place: Callable[[float], float] = math.log if log_x else float
    xs = sorted({point[0] for line in series for point in line.points})
    ys = [point[1] for line in series for point in line.points]
    ys += [end for line in series for span in line.spans for end in span]
    low, high = _domain([*ys, *(band or ())], least, most)
    left, right, top, foot = 74.0, WIDTH - 18.0, float(_TOP + 12), float(height - 76)
    across = _scale((place(xs[0]), place(xs[-1])), left + 8, right - 8)
    y = _scale((low, high), foot, top)
    parts = []
    if band:
        a, b = y(max(band[0], low)), y(min(band[1], high))
        parts.append(f'<path class="band" d="M{left} {a:.1f}H{right}V{b:.1f}H{left}z"/>')
    for value in _steps(low, high):
        parts.append(f'<path class="g" d="M{left} {y(value):.1f}H{right}"/>')
        parts.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{escape(tell_y(value))}</text>')
    parts.append(f'<path class="a" d="M{left} {top}V{foot}H{right}" fill="none"/>')
    for value in xs if log_x else _steps(xs[0], xs[-1]):
        at = across(place(value))
        parts.append(f'<path class="a" d="M{at:.1f} {foot}v4"/>')
        parts.append(f'<text x="{at:.1f}" y="{foot + 17}" text-anchor="middle">{escape(tell_x(value))}</text>')
    for at, line in enumerate(series):
        parts += _line(line, at, lambda value: across(place(value)), y, (low, high))
    parts.append(f'<text x="{(left + right) / 2:.0f}" y="{foot + 35}" text-anchor="middle">{escape(x_axis)}</text>')
    parts.append(f'<text x="14" y="{top - 8}">{escape(y_axis)}</text>')
    return _svg(title, height + 16 * _legend_rows(series), [*parts, *_legend(series, foot + 56)])


def _row(mark: Mark, y: float, domain: tuple[float, float], x: Tell | Callable[[float], float], bars: bool) -> list[str]:
    low, high = domain
    middle = y + _ROW / 2
    at: Callable[[float], float] = lambda value: float(x(min(max(value, low), high)))  # noqa: E731
    parts = [f'<g class="c{mark.series % len(_LIGHT)}"><text x="14" y="{middle + 4:.1f}">{escape(mark.label)}</text>']
    if bars:
        a, b = sorted((at(0), at(mark.value)))
        parts.append(f'<path class="b" d="M{a:.1f} {y + 3:.1f}h{max(b - a, 1):.1f}v{_ROW - 6}h{-max(b - a, 1):.1f}z"/>')
    if mark.low is not None and mark.high is not None and mark.low <= high and mark.high >= low:
        style = ' style="stroke-width:1"' if bars else ""
        tick = 'class="a"' if bars else 'class="l"'
        a, b = at(mark.low), at(mark.high)
        parts.append(
            f'<path {tick}{style} d="M{a:.1f} {middle:.1f}H{b:.1f}M{a:.1f} {middle - 4:.1f}v8M{b:.1f} {middle - 4:.1f}v8"/>'
        )
    if not bars and low <= mark.value <= high:
        parts.append(f'<circle class="p" cx="{at(mark.value):.1f}" cy="{middle:.1f}" r="4"/>')
    if (mark.high if mark.high is not None else mark.value) > high:
        parts.append(f'<path class="p" d="M{at(high) + 6:.1f} {middle:.1f}l-7 -4v8z"/>')
    if (mark.low if mark.low is not None else mark.value) < low:
        parts.append(f'<path class="p" d="M{at(low) - 6:.1f} {middle:.1f}l7 -4v8z"/>')
    parts.append(f'<text x="{WIDTH - 14}" y="{middle + 4:.1f}" text-anchor="end">{escape(mark.note)}</text></g>')
    return parts


def _line(
    line: Line, at: int, x: Callable[[float], float], y: Callable[[float], float], domain: tuple[float, float]
) -> list[str]:
    clip: Callable[[float], float] = lambda value: y(min(max(value, domain[0]), domain[1]))  # noqa: E731
    dash = _DASHES[at % len(_DASHES)]
    way = "".join(f"{'L' if number else 'M'}{x(px):.1f} {clip(py):.1f}" for number, (px, py) in enumerate(line.points))
    style = f' stroke-dasharray="{dash}"' if dash else ""
    parts = [f'<g class="c{at % len(_LIGHT)}"><path class="l"{style} d="{way}"/>']
    for (px, _), (low, high) in zip(line.points, line.spans, strict=False):
        parts.append(f'<path class="l" style="stroke-width:1" d="M{x(px):.1f} {clip(low):.1f}V{clip(high):.1f}"/>')
    parts += [_shape(at, x(px), clip(py)) for px, py in line.points]
    return [*parts, "</g>"]


def _shape(at: int, x: float, y: float) -> str:
    shapes = ("M-4 -4h8v8h-8z", "M0 -5l5 9h-10z", "M0 -5l5 5l-5 5l-5 -5z", "M0 5l5 -9h-10z")
    if at % 5 == 0:
        return f'<circle class="p" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    return f'<path class="p" transform="translate({x:.1f} {y:.1f})" d="{shapes[at % 5 - 1]}"/>'


_LEGEND_COLUMNS = 4


def _legend_rows(series: Sequence[Line]) -> int:
    return max(0, -(-len(series) // _LEGEND_COLUMNS) - 1)


def _legend(series: Sequence[Line], y: float) -> list[str]:
    parts = []
    for at, line in enumerate(series):
        left, top = 74 + (at % _LEGEND_COLUMNS) * 195, y + 16 * (at // _LEGEND_COLUMNS)
        dash = f' stroke-dasharray="{_DASHES[at % len(_DASHES)]}"' if _DASHES[at % len(_DASHES)] else ""
        parts.append(f'<g class="c{at % len(_LIGHT)}"><path class="l"{dash} d="M{left} {top}h26"/>{_shape(at, left + 13, top)}')
        parts.append(f'<text x="{left + 32}" y="{top + 4}">{escape(line.name)}</text></g>')
    return parts


def _ticks(low: float, high: float, x: Callable[[float], float], down: tuple[float, float], tell: Tell) -> list[str]:
    parts = []
    for value in _steps(low, high):
        parts.append(f'<path class="g" d="M{x(value):.1f} {down[0]}V{down[1]:.0f}"/>')
        parts.append(f'<text x="{x(value):.1f}" y="{down[1] + 15:.0f}" text-anchor="middle">{escape(tell(value))}</text>')
    return parts


def _steps(low: float, high: float, about: int = 7) -> list[float]:
    """Round numbers from `low` to `high`."""
    rough = (high - low) / about
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(at * step, 12) for at in range(first, math.floor(high / step + 1e-9) + 1)]


def _domain(values: Sequence[float], least: float | None, most: float | None) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = (min(finite) if least is None else least), (max(finite) if most is None else most)
    if low == high:
        low, high = low - (abs(low) * 0.1 or 1.0), high + (abs(high) * 0.1 or 1.0)
    room = (high - low) * 0.04
    return (low - room if least is None and low != 0 else low), (high + room if most is None and high != 0 else high)


def _scale(domain: tuple[float, float], start: float, end: float) -> Callable[[float], float]:
    low, high = domain
    width = high - low or 1.0
    return lambda value: start + (value - low) / width * (end - start)


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    """The complete file; the title is what a screen reader says, and the heading."""
    size = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    name = f"<title>{escape(title)}</title>{_style()}"
    ground = f'<rect class="bg" width="{WIDTH}" height="{height:.0f}"/><text class="t" x="14" y="18">{escape(title)}</text>'
    return "\n".join([head, name, ground, *parts, "</svg>"]) + "\n"


def series_of(names: Sequence[str]) -> Mapping[str, int]:
    """A colour for each name, in their order."""
    return {name: at for at, name in enumerate(dict.fromkeys(names))}
