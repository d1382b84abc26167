"""Run the commands that README.md and docs/how-to show: `python -m tests.docs.run_pages [PAGE...]`.

A page's ```console blocks run in one scratch folder, in their order. A line that begins with `$ ` is a command (a `\\` at its end
goes on in the next line); the lines below it are all that the command prints, in that order. A line `...` stands for any lines,
and `...` at the end of a line for its rest.

Exit codes, words, verdicts, how many verdicts there are of each kind, and the columns of tables are compared. Figures, but for
those of the link's certificate, and the reason after a verdict are where the digests that the page shows are those that are
printed: the same lab, client, libraries and seed. Elsewhere a client has other figures, and with them differs how many samples
a verdict takes: a table of samples has as many rows as the verdict below it says, and rows of the same columns; a note on the
samples may stand below it. Comments directly above a block say more:

    <!-- file: axel.yaml -->       the next block is written to that file
    <!-- exit: 1 -->               the block's last command ends with this code; without it, 0
    <!-- not run: REASON -->       the block is skipped, for that reason
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.entry_points import entry_points

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 150
"""A command that takes longer is too long for a page that is run."""

_FENCE = re.compile(r"(?P<notes>(?:^<!-- .*? -->\n)*)^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
_NOTE = re.compile(r"<!-- (file|exit|not run): (.*?) -->")
_SHELLS = {"console", "sh", "bash", "shell"}


class Command(NamedTuple):
    """A command of a page, the output shown below it and the exit code it must have."""

    line: int
    text: str
    shown: list[str]
    code: int


class Block(NamedTuple):
    """A fenced block of a page with its notes."""

    line: int
    language: str
    body: str
    notes: dict[str, str]

    @property
    def commands(self) -> list[Command]:
        """The commands of a console block."""
        found: list[Command] = []
        for number, line in enumerate(self.body.splitlines(), self.line + 1):
            if found and not found[-1].shown and found[-1].text.endswith("\\"):
                found[-1] = found[-1]._replace(text=f"{found[-1].text[:-1].rstrip()} {line.strip()}")
            elif line.startswith("$ "):
                found.append(Command(number, line[2:], [], 0))
            elif line.strip() and found:
                found[-1].shown.append(line)
        return [*found[:-1], found[-1]._replace(code=int(self.notes.get("exit", 0)))] if found else []


def pages() -> list[Path]:
    """The pages whose commands the tests run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text[: found.start("language")].count("\n") + 1
        yield Block(line, found["language"], found["body"], dict(_NOTE.findall(found["notes"])))


def problems_of_form(page: Path) -> list[str]:
    """Blocks of commands that this module would neither run nor skip with a reason."""
    wrong = []
    for block in blocks(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.language in _SHELLS and "not run" not in block.notes and "file" not in block.notes and not block.commands:
            wrong.append(f"{where}: no line begins with `$ `")
        if block.language in _SHELLS - {"console"} and "not run" not in block.notes and "file" not in block.notes:
            wrong.append(f"{where}: commands that run stand in ```console")
    return wrong


def skipped(page: Path) -> list[str]:
    """The blocks of a page that do not run, each with its reason."""
    return [
        f"{page.relative_to(ROOT)}:{block.line}: {block.notes['not run']}" for block in blocks(page) if "not run" in block.notes
    ]


def run(page: Path, folder: Path) -> list[str]:
    """Run a page's commands in a folder; what went wrong, one line or more per command."""
    wrong: list[str] = []
    for block in blocks(page):
        if "not run" in block.notes:
            continue
        if name := block.notes.get("file"):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.body, encoding="utf-8")
            if block.body.startswith("#!"):
                path.chmod(0o755)
        elif block.language == "console":
            for command in block.commands:
                wrong += [f"{page.relative_to(ROOT)}:{command.line}: `{command.text}`: {each}" for each in _run(command, folder)]
    return wrong


def _run(command: Command, folder: Path) -> list[str]:
    try:
        done = subprocess.run(
            ["bash", "-c", command.text],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [f"took more than {LIMIT_S} s"]
    tail = "\n".join((done.stdout + done.stderr).splitlines()[-12:])
    if done.returncode != command.code:
        return [f"exit code {done.returncode}, the page says {command.code}\n{tail}"]
    wrong = _difference(command.shown, done.stdout + done.stderr)
    return [f"{wrong}\n{tail}"] if wrong else []


def _environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / ".venv/bin"), os.environ.get("PATH", "")])
    return {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(entry_points(folder / ".entry-points"))]),
        "ROUGHWATER_RESULTS": str(folder / "results"),
        "COLUMNS": "110",
        "NO_COLOR": "1",
    }


def _difference(shown: list[str], output: str) -> str | None:
    """The first difference between what a page shows and what the command printed; None if there is none that counts."""
    printed = [line for line in output.splitlines() if line.strip()]
    if wrong := _miscounted(shown) or _miscounted(printed):
        return wrong
    if (digests := _digests(shown)) and digests == _digests(printed):
        return _unmatched(shown, printed, _counted)
    return _unmatched(_without_samples(shown), _without_samples(printed), _shape)


def _digests(lines: list[str]) -> list[str]:
    return [line.split()[1] for line in lines if line.startswith("  digest ")]


def _unmatched(shown: list[str], printed: list[str], kept: Callable[[str], str]) -> str | None:
    """The first difference in what `kept` leaves of each line."""
    place, skips = 0, False
    for line in shown:
        start, cut, _ = kept(line).partition("...")
        if not start:
            skips = True
            continue
        while place < len(printed) and not (kept(printed[place]).startswith(start) if cut else kept(printed[place]) == start):
            if not skips:
                return f"the page shows: {line}\nit printed: {printed[place]}"
            place += 1
        if place == len(printed):
            return f"no such line in its output: {line}"
        place, skips = place + 1, False
    if shown and place < len(printed) and not skips:
        return f"the page shows no more\nit printed: {printed[place]}"
    return None


_CERTIFICATE = "  link before "
_SAMPLE = re.compile(r" +(\d+)  .*\d")
_COUNT = re.compile(r"\bn = (\d+)$")


def _without_samples(lines: list[str]) -> list[str]:
    """The lines with each table of samples as one row per kind of row in it, and without the notes that a table may have.

    A row stands in a table if its number is one more than that of the row above, from 1 on.
    """
    kept: list[str] = []
    number, kinds, label = 0, set[str](), ""
    for line in lines:
        row = _SAMPLE.match(line)
        if row and int(row[1]) in (1, number + 1):
            number = int(row[1])
            kinds = kinds if number > 1 else set()
            if (kind := _shape(line)) not in kinds:
                kept.append(line)
            kinds.add(kind)
            continue
        number = 0
        # A long note, or a long verdict, goes on below its text.
        goes_on = label in ("note", "verdict") and line.startswith(" " * 15)
        if not goes_on:
            label = line.split()[0] if line.startswith("  ") and line.split() else ""
            if label != "note":
                kept.append(line)
    return kept


def _miscounted(lines: list[str]) -> str | None:
    """A table of samples with more or fewer rows than the verdict below it says."""
    rows: int | None = None
    for line in lines:
        row, count = _SAMPLE.match(line), _COUNT.search(line.rstrip())
        if re.match(" +#  ", line):
            rows = 0
        elif rows is not None and row and int(row[1]) == rows + 1:
            rows += 1
        elif rows is not None and count:
            if int(count[1]) != rows:
                return f"{rows} rows of samples above: {line.strip()}"
            rows = None
    return None


_COUNTED = re.compile(r"\b(\d+)(?= (?:PASS|FAIL|INCONCLUSIVE|INVALID|passed|failed|skipped)\b)")


def _named(line: str) -> str:
    """A line without names of runs and the widths of columns."""
    line = re.sub(r"[0-9]{8}T[0-9]{6}-[\w-]+", "RUN", line)
    return " ".join(re.sub(r"[\w./@+-]*/(?=RUN)", "", line).split())


def _counted(line: str) -> str:
    """A line with the figures that a digest stands for. The certificate is the cache's: ping's libraries shift it by 1 us."""
    return _shape(line) if line.startswith(_CERTIFICATE) else _named(line)


def _shape(line: str) -> str:
    """A line without its figures: numbers, signs, names of commits and the reason after a verdict do not count either. Numbers of
    verdicts do, as letters.
    """
    line = _named(line)
    line = re.sub(r"\b[0-9a-f]{7,40}\b", "0", line)
    line = re.sub(r"\b((?:PASS|FAIL|INCONCLUSIVE|INVALID):).*", r"\1", line)
    line = _COUNTED.sub(lambda found: "".join(chr(ord("a") + int(digit)) for digit in found[1]), line)
    return " ".join(re.sub(r"[-+±]?[0-9][0-9.,]*", "#", line).split())


def main(arguments: list[str]) -> int:
    """Run the pages that are named, or all; print what went wrong and what was skipped."""
    wrong: list[str] = []
    for page in [ROOT / name for name in arguments] or pages():
        with tempfile.TemporaryDirectory() as folder:
            wrong += [*problems_of_form(page), *run(page, Path(folder))]
        print("\n".join(f"skipped {line}" for line in skipped(page)))
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
