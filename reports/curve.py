"""The curve of a search: its trials by value and figure, the interval shaded, the bound as a line. Pure; SVG text out."""

from __future__ import annotations

import math
from collections.abc import Callable

from markupsafe import Markup, escape

from lab.model.answer import Answer
from lab.model.figures import FIGURES
from lab.model.threshold import VARIABLES

_WIDTH, _LEFT, _RIGHT, _TOP, _FOOT = 640, 70, 16, 16, 190


def threshold_curve(answer: Answer) -> Markup:
    """Every trial of a search, larger values of the variable to the right, on a logarithmic axis.

    A circle PASSes, a square FAILs, a hollow circle is open; a trial without a figure stands on the axis.
    """
    variable = VARIABLES[answer.facts["variable"]]
    expectation = answer.expectation
    if expectation is None or not answer.arms:
        return Markup("")
    figure = expectation.figure
    points = sorted(
        (arm.figures[variable.key], arm.figures.get(figure.name), arm.verdict or "", arm.value) for arm in answer.arms
    )
    bound = expectation.bound
    edges = [bound] if bound is not None else [-expectation.tolerance.value, expectation.tolerance.value]
    known = [y for _, y, _, _ in points if y is not None] + edges
    low, high = min(known), max(known)
    room = (high - low) * 0.1 or 1.0
    x = _scale(math.log(points[0][0]), math.log(points[-1][0]), _LEFT, _WIDTH - _RIGHT)
    y = _scale(low - room, high + room, _FOOT, _TOP)
    title = f"{figure.title} by {variable.title}, {len(points)} cells"
    parts = [f'<svg class="tl p" viewBox="0 0 {_WIDTH} {_FOOT + 24}" role="img" aria-label="{escape(title)}">']
    passed = [at for at, _, verdict, _ in points if verdict == "PASS"]
    failed = [at for at, _, verdict, _ in points if verdict == "FAIL"]
    if passed and failed and max(passed) < min(failed):
        a, b = x(math.log(max(passed))), x(math.log(min(failed)))
        parts.append(f'<path class="band" d="M{a:.1f} {_TOP}H{max(b, a + 1):.1f}V{_FOOT}H{a:.1f}z"/>')
    for edge in edges:
        parts.append(f'<path class="edge" d="M{_LEFT} {y(edge):.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y(edge) + 4:.1f}" text-anchor="end">{escape(FIGURES[figure.name].text(edge))}</text>'
        )
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{_FOOT}H{_WIDTH - _RIGHT}"/>')
    line = [f"{x(math.log(at)):.1f},{y(value):.1f}" for at, value, _, _ in points if value is not None]
    parts.append(f'<polyline class="line" points="{" ".join(line)}"/>')
    for at, value, verdict, told in points:
        words = f"{told}: {verdict}{f', {figure.text(value)}' if value is not None else ''}"
        parts.append(_mark(x(math.log(at)), y(value) if value is not None else _FOOT, verdict, words))
    for point, anchor in ((points[0], "start"), (points[-1], "end")):
        place = f'x="{x(math.log(point[0])):.1f}" y="{_FOOT + 16}" text-anchor="{anchor}"'
        parts.append(f"<text {place}>{escape(point[3])}</text>")
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704 - words are escaped, all else is numbers


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def _mark(x: float, y: float, verdict: str, words: str) -> str:
    title = f"<title>{escape(words)}</title>"
    if verdict == "FAIL":
        return f'<path class="dot bad" d="M{x - 4:.1f} {y - 4:.1f}h8v8h-8z">{title}</path>'
    kind = "dot" if verdict == "PASS" else "gone"
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">{title}</circle>'
