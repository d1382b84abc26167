"""The table of uploads with a fixed and with a growing send buffer, a row per answer, as the reports from Windows had it.

Made from any number of runs: each system that was measured brings its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from rich.console import Console
from rich.table import Table

from lab.model.answer import Answer
from lab.model.cell_name import format_transfer
from reports.matrix_table import table_markdown

HEADINGS = ("version", "time vanilla", "time patched", "new time", "comment", "speed-up")
FIXTURE = "FIXTURE, not a measurement"
_ARMS = ("fixed", "automatic")
_NUMBERS = (1, 2, 3, 5)


@dataclass(frozen=True)
class UploadRow:
    """One system: `vanilla_s` with the buffer fixed, `patched_s` with a growing buffer, both in seconds."""

    version: str
    vanilla_s: float
    patched_s: float
    comment: str = ""

    @property
    def new_time(self) -> float:
        """The patched program's time, as a fraction of the vanilla one's."""
        return self.patched_s / self.vanilla_s

    @property
    def speed_up(self) -> float:
        return self.vanilla_s / self.patched_s

    @property
    def words(self) -> tuple[str, ...]:
        new, ratio = _percent(self.new_time), f"{self.speed_up:.2f}"
        return self.version, f"{self.vanilla_s:.3f}", f"{self.patched_s:.3f}", new, self.comment, ratio


@dataclass(frozen=True)
class Uploads:
    """Rows by what is left of their time, the greatest gain first; `left_out` says why an answer has no row."""

    rows: tuple[UploadRow, ...]
    left_out: tuple[str, ...] = ()

    @property
    def total(self) -> UploadRow:
        """The sums of both columns."""
        return UploadRow("TOTAL", sum(row.vanilla_s for row in self.rows), sum(row.patched_s for row in self.rows))

    @property
    def median(self) -> tuple[float, float]:
        """Medians over the rows: of the patched time as a fraction of the vanilla time, and of the speed-up."""
        return median(row.new_time for row in self.rows), median(row.speed_up for row in self.rows)

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """Every row in words, TOTAL and MEDIAN last."""
        left, ratio = self.median
        last = ("MEDIAN", "", "", _percent(left), "", f"{ratio:.2f}")
        return [*(row.words for row in self.rows), self.total.words, last]

    def plain(self) -> dict[str, object]:
        """For JSON."""
        left, ratio = self.median
        rows = [{**asdict(row), "new_time_ratio": row.new_time, "speed_up": row.speed_up} for row in (*self.rows, self.total)]
        return {
            "rows": rows[:-1],
            "total": rows[-1],
            "median": {"new_time_ratio": left, "speed_up": ratio},
            "left_out": list(self.left_out),
        }


def sorted_rows(rows: Iterable[UploadRow], left_out: Sequence[str] = ()) -> Uploads:
    return Uploads(tuple(sorted(rows, key=lambda row: (row.new_time, row.version))), tuple(left_out))


def uploads_of(answers: Iterable[Answer]) -> Uploads:
    """A row per answer about send buffers: medians of its transfers. Answers without both arms are left out, with the reason."""
    rows, left_out = [], []
    for answer in answers:
        if answer.question != "send-buffers":
            continue
        fine = [seen for seen in answer.observations if not seen.problem]
        vanilla, patched = ([seen.figures["time_s"] for seen in fine if seen.name == arm] for arm in _ARMS)
        if not (vanilla and patched) or answer.judged.name in ("FAIL", "INVALID"):
            left_out.append(f"{answer.id} ({answer.run}): {answer.judged.name}, {answer.judged.reason}")
            continue
        rows.append(UploadRow(version_of(answer), median(vanilla), median(patched), _comment(answer)))
    return sorted_rows(rows, left_out)


def version_of(answer: Answer) -> str:
    """The client's system: Windows' version, Wine's, or the kernel that the lab ran on."""
    if build := answer.machine.get("client_version"):
        return str(build)
    client = answer.client.version if answer.client else ""
    if " under Wine " in client:
        return "Wine " + client.rpartition(" under Wine ")[2].partition(",")[0]
    if answer.clocks == ["virtual"]:
        return "Linux, virtual time"
    return f"Linux {answer.machine.get('kernel') or ''}".strip()


def _comment(answer: Answer) -> str:
    client, topology, transfer = answer.subject
    words = [f"{client.name} {format_transfer(transfer)} on {topology.name}"]
    if answer.id.endswith("-off"):
        words.append("by the client's own switch")
    words += [FIXTURE for note in client.notes if FIXTURE in note][:1]
    return ", ".join(words)


def uploads_markdown(found: Uploads) -> str:
    """For a page; TOTAL and MEDIAN are its last rows."""
    return table_markdown(HEADINGS, found.lines) + "\n"


def render_uploads(found: Uploads, console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for index, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if index in _NUMBERS else "left", no_wrap=index in _NUMBERS)
    for line in found.lines:
        table.add_row(*line, style="bold" if line[0] in ("TOTAL", "MEDIAN") else None)
    console.print(table)


def _percent(share: float) -> str:
    return f"{share:.2%}"
