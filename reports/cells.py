"""A cell as pages show it: its figure in its own unit, its samples and its link in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from lab.model.cell_name import format_transfer
from lab.model.clock import NOT_IN_VIRTUAL_TIME, Clock, clock_words
from lab.model.figures import FIGURES, Figure
from lab.model.numbers import signed
from lab.model.results import (
    WORST_FIRST,
    Calibration,
    CellResult,
    DirectionCalibration,
    HostLoad,
    Interval,
    Sample,
    Verdict,
)
from lab.store.bundle import again
from reports import svg
from reports.answers import NOTHING, judged_words
from reports.matrix import client_words, link_words
from reports.series import Packed, merge, worst_sample
from reports.text import figure_number, figure_text
from reports.words import percent, span, why_words

_STATIC_POINTS = 60
_STATIC_SLOT_MS = 100.0


def judged_of(cell: CellResult) -> svg.Judged:
    """Samples, interval and band of a cell in its figure's unit, with the samples set aside, in the order taken."""
    figure, verdict, bound = cell.expectation.figure, cell.verdict, cell.expectation.bounded
    low = mean = high = None
    if found := verdict.interval:
        ends = [bound.value(end) for end in (found.low, found.high)] if bound else [found.low, found.high]
        low, high = min(ends), max(ends)
        mean = bound.value(found.mean) if bound else found.mean
    band_low, band_high = verdict.band_low, verdict.band_high
    if bound:
        band_low, band_high = (bound.limit, None) if figure.more_is_better else (None, bound.limit)
    elif cell.expectation.kind == "limit" and band_high is None:
        band_low, band_high = -cell.expectation.tolerance.value, cell.expectation.tolerance.value
    return svg.Judged(
        spots=tuple(_spots(cell, figure)),
        low=low,
        mean=mean,
        high=high,
        band_low=band_low,
        band_high=band_high,
        tell=figure.text,
        centre=0.0 if cell.expectation.kind in ("limit", "steady") else None,
    )


def _spots(cell: CellResult, figure: Figure) -> list[svg.Spot]:
    used = len(cell.samples)
    if cell.verdict.interval is not None and cell.expectation.kind != "none":
        used = cell.verdict.interval.n
    taken = [(sample, _not_judged(sample, at, used)) for at, sample in enumerate(cell.samples)]
    taken += [(each.sample, f"set aside: {each.reason}") for each in cell.set_aside]
    aside = {id(each.sample) for each in cell.set_aside}
    spots = []
    # The virtual clock may start again with every sample.
    virtual = cell.clock == "virtual"
    for sample, why in sorted(taken, key=lambda each: each[0].index if virtual else each[0].started_at.timestamp()):
        if (value := figure.value(cell, sample)) is not None:
            label = f"({sample.index + 1})" if id(sample) in aside else str(sample.index + 1)
            spots.append(svg.Spot(label, value, judged=not why, note=why))
    return spots


def _not_judged(sample: Sample, at: int, used: int) -> str:
    if not sample.ok:
        return f"failed: {sample.problem or f'exit code {sample.exit_code}'}"
    return "" if at < used else "taken after the look that decided"


@dataclass(frozen=True)
class Line:
    """A row of a table, and whether its sample was set aside."""

    words: tuple[str, ...]
    note: str = ""
    gone: bool = False


_IN_TABLE = [figure for figure in FIGURES.values() if figure.column]
SAMPLE_HEADINGS: tuple[tuple[str, str], ...] = (
    ("#", "number, in the order taken"),
    ("figure", "what the verdict is about"),
    *((figure.column, figure.title) for figure in _IN_TABLE),
)
"""Short headings and what they stand for."""


def sample_lines(cell: CellResult) -> list[Line]:
    """The samples as the table `SAMPLE_HEADINGS` has them, those set aside after the others."""
    lines = [_sample_line(cell, sample, str(sample.index + 1)) for sample in cell.samples]
    for each in cell.set_aside:
        line = _sample_line(cell, each.sample, f"({each.sample.index + 1})")
        lines.append(Line(line.words, f"set aside: {each.reason}", gone=True))
    return lines


def _sample_line(cell: CellResult, sample: Sample, label: str) -> Line:
    return Line(
        (
            label,
            figure_text(cell.expectation.figure, cell, sample),
            *(figure_number(figure, cell, sample) for figure in _IN_TABLE),
        ),
        "" if sample.ok else f"failed: {sample.problem or f'exit code {sample.exit_code}'}",
    )


def certificate_lines(cell: CellResult) -> list[Line]:
    """Every calibration: time, goodput and error each way, round trip, losses, and whether it is within tolerance."""
    if cell.certificate is None:
        return []
    lines = []
    for when, looks in (("before", cell.certificate.before), ("after", cell.certificate.after)):
        lines += [_look(when, look, cell.clock) for look in looks]
    if path := cell.certificate.path:
        lines += [_look(what, look, cell.clock) for what, look in path.looks.items()]
    return lines


def _look(when: str, look: Calibration, clock: Clock) -> Line:
    attempt = f", attempt {look.attempt}" if look.attempt > 1 else ""
    losses = f"{look.down.router_drops + look.up.router_drops} / {look.down.retransmits + look.up.retransmits}"
    rtt = f"{signed(look.rtt_excess_ms)} ms of {look.rtt_asked_ms:g} ms"
    words = (
        f"{when}{attempt}",
        *(_side(side, clock) for side in (look.down, look.up)),
        rtt,
        losses,
        "holds" if look.ok else "beyond tolerance",
    )
    return Line(words, "; ".join(look.problems), gone=not look.ok)


def _side(side: DirectionCalibration, clock: Clock) -> str:
    if side.goodput_error is None and clock == "virtual":
        return f"{NOT_IN_VIRTUAL_TIME}, unshaped"
    told = f"{side.goodput_bit_s / 1e6:.2f} Mbit/s"
    return f"{told}, unshaped" if side.goodput_error is None else f"{told}, {percent(side.goodput_error)}"


def load_words(load: HostLoad) -> str:
    """The load of the machine over one span, in one line."""
    parts = [
        f"steal {load.steal_share * 100:.2f} %" if load.steal_share is not None else "",
        f"others {load.foreign_cores:.2f} of {load.cores} cores" if load.foreign_cores is not None else "",
        f"lab {load.lab_cores:.2f} cores" if load.lab_cores is not None else "",
        f"timers late p99 {load.late_p99_ms:.2f} ms" if load.late_p99_ms is not None else "",
        f"worst {load.late_worst_ms:.1f} ms" if load.late_worst_ms is not None else "",
        f"{load.frequency_mhz:.0f} MHz" if load.frequency_mhz is not None else "",
        f"load {load.load_1min:.2f}" if load.load_1min is not None else "",
    ]
    return ", ".join(part for part in parts if part) + f" over {span(load.span_s)}"


@dataclass(frozen=True)
class CellView:
    """A cell with the values that a template shows."""

    cell: CellResult
    anchor: str
    packed: Packed | None
    baseline: str = ""
    """The reason that the verdict does not count, in a word: `baseline`, `compared` or `trial`; empty where it counts."""

    @property
    def verdict(self) -> Verdict:
        return self.cell.verdict

    @property
    def judged(self) -> svg.Judged:
        return judged_of(self.cell)

    @property
    def figure(self) -> Figure:
        return self.cell.expectation.figure

    @property
    def told(self) -> tuple[str, str]:
        """The mean and its interval in words, in the figure's unit; a dash where there is none."""
        if self.verdict.interval:
            return judged_words(self.cell.expectation, self.verdict.interval)
        values = [value for sample in self.cell.samples if (value := self.figure.value(self.cell, sample)) is not None]
        return (self.figure.text(self.figure.mean(values)) if values else NOTHING), ""

    @property
    def whisker(self) -> Markup:
        return svg.whisker(self.judged)

    @property
    def plot(self) -> Markup:
        return self.drawn()

    def drawn(self, *, standalone: bool = False) -> Markup:
        """Every sample, the band and the interval."""
        mean, between = self.told
        title = (
            f"{self.figure.title} of {len(self.judged.spots)} samples, mean {mean}{f', interval {between}' if between else ''}"
        )
        return svg.samples_plot(self.judged, title, standalone=standalone)

    @property
    def column(self) -> str:
        """The figure's heading in the table of samples."""
        kind = self.cell.expectation.kind
        return {"limit": "deviation", "none": "body rate"}.get(kind, kind)

    @property
    def expected(self) -> str:
        """The assertion of a PASS, in words."""
        expectation = self.cell.expectation
        if bound := expectation.bounded:
            return f"{bound.figure.title} {bound}"
        share = f"{expectation.tolerance.value * 100:g} %"
        return {
            "limit": f"mean body rate within {share} of {self.cell.transfer.limit}",
            "steady": f"last hundred files at most {share} slower than the first",
        }.get(expectation.kind, "every transfer arrives intact; no speed is expected")

    @property
    def brief(self) -> str:
        """The same, short enough for a table's heading."""
        expectation = self.cell.expectation
        if bound := expectation.bounded:
            return f"{expectation.kind} {bound}"
        share = f"{expectation.tolerance.value * 100:g} %"
        return {"limit": f"±{share}", "steady": f"steady, +{share}"}.get(expectation.kind, "arrives intact")

    @property
    def link(self) -> str:
        return link_words(self.cell.topology)

    @property
    def transfer(self) -> str:
        return format_transfer(self.cell.transfer)

    @property
    def client(self) -> str:
        return client_words(self.cell.client)

    @property
    def again(self) -> str:
        return again(self.cell)

    @property
    def samples(self) -> list[Line]:
        return sample_lines(self.cell)

    @property
    def looks(self) -> list[Line]:
        return certificate_lines(self.cell)

    @property
    def hosts(self) -> list[tuple[str, str]]:
        """The machine before, during and after, where it was watched."""
        host = self.cell.host
        found = [("before", host.before), ("after", host.after)] if host else []
        worst = max((each.host for each in self.cell.samples if each.host), key=_disturbed, default=None)
        found.insert(1, ("busiest sample", worst))
        return [(when, load_words(load)) for when, load in found if load is not None]

    @property
    def why(self) -> str:
        """The cause that held the cell's samples back, in one line; empty where they were not watched."""
        return why_words(self.cell.samples)

    @property
    def clock(self) -> str:
        """`virtual time` or `real time`."""
        return clock_words(self.cell.clock)

    @property
    def guest(self) -> str:
        """The machine in virtual time, in one line; empty in real time."""
        if (guest := self.cell.virtual) is None:
            return ""
        broken = [name for name, held in guest.conditions.items() if not held]
        doubt = f", not deterministic: {', '.join(broken)}" if broken else ""
        price = f"{guest.charge_ns} ns per system call or page fault"
        return f"kernel {guest.kernel_release}, SHA-256 {guest.kernel_sha256[:12]}…, seed {guest.seed}, {price}{doubt}"

    @property
    def userlands(self) -> list[tuple[str, str]]:
        """The userland of each host that has one, in one line."""
        return [(host, facts.words) for host, facts in self.cell.userlands.items()]

    @property
    def ideal_byte_s(self) -> float | None:
        """Ideal goodput of the link in the direction of the transfer; None where it is unshaped or not calibrated."""
        if self.cell.certificate is None or not self.cell.certificate.before:
            return None
        look = self.cell.certificate.before[-1]
        side = look.down if self.cell.transfer.direction == "get" else look.up
        return side.ideal_bit_s / 8 if side.ideal_bit_s is not None else None

    @property
    def levels(self) -> list[tuple[str, float]]:
        """Lines in the plot of goodput: the limit and the link's ideal."""
        limit = self.cell.transfer.limit_byte_s
        named = [("limit", float(limit) if limit else None), ("link ideal", self.ideal_byte_s)]
        return [(name, value) for name, value in named if value is not None]

    @property
    def chart(self) -> dict[str, object] | None:
        """The data that `page.js` draws; None without a series."""
        if self.packed is None:
            return None
        worst = worst_sample(self.cell)
        return {
            "unit": self.packed.unit,
            "samples": self.packed.samples,
            "worst": worst.index + 1 if worst else None,
            "levels": self.levels,
            "data": self.packed.text,
        }

    @property
    def goodput(self) -> Markup:
        """Goodput of the worst sample, static and coarse."""
        worst = worst_sample(self.cell)
        if worst is None or worst.series is None:
            return Markup("")
        rates, slot_ms = worst.series.goodput_bit_s, worst.series.slot_ms
        count = max(round(_STATIC_SLOT_MS / slot_ms), -(-len(rates) // _STATIC_POINTS), 1)
        return svg.goodput_plot([rate / 8 for rate in merge(rates, count)], slot_ms * count / 1e3, self.levels)

    @property
    def duration_s(self) -> float:
        return (self.cell.ended_at - self.cell.started_at).total_seconds()


def log_html(cell: CellResult, message: str) -> str:
    """For Robot's log: `message` as text, and the cell's plot where it has one. One line, because a message is one."""
    view = CellView(cell, "", None)
    return f"<p>{escape(message)}</p>{view.drawn(standalone=True) if view.judged.spots else ''}"


def _disturbed(load: HostLoad) -> float:
    return (load.steal_share or 0.0) * load.cores + (load.foreign_cores or 0.0)


def ratio_judged(interval: Interval | None, band_low: float | None, band_high: float | None) -> svg.Judged:
    """The ratio of an answer with its interval and its band."""
    return svg.Judged(
        low=interval.low if interval else None,
        mean=interval.mean if interval else None,
        high=interval.high if interval else None,
        band_low=band_low,
        band_high=band_high,
        tell="{:.4f}".format,
        centre=1.0,
    )


def by_severity(views: Sequence[CellView]) -> list[CellView]:
    """FAIL first, PASS last, else as they ran; cells that do not count after all others."""
    return sorted(views, key=lambda view: (bool(view.baseline), WORST_FIRST.index(view.verdict.name)))
