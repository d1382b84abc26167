"""Run the commands that README.md and docs/how-to show: `python -m tests.docs.run_pages [PAGE...]`.

A page's ```console blocks run in one scratch folder, in their order. A line that begins with `$ ` is a command (a `\\` at its end
goes on in the next line); the lines below it are output that the command must print, in that order. Figures, spaces and the
reason after a verdict may differ, a line `...` stands for any lines, and `...` at the end of a line for its rest. Comments
directly above a block say more:

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
from collections.abc import Iterator
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
    missing = _missing(command.shown, done.stdout + done.stderr)
    return [f"no such line in its output: {missing}\n{tail}"] if missing else []


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


def _missing(shown: list[str], output: str) -> str | None:
    """The first line of a page's output that the command did not print in its place."""
    left = iter([_shape(line) for line in output.splitlines()])
    for line in shown:
        start, cut, _ = _shape(line).partition("...")
        if start and not any(printed.startswith(start) if cut else printed == start for printed in left):
            return line
    return None


def _shape(line: str) -> str:
    """A line without its figures: numbers, signs, names of runs and commits, the reason after a verdict and the widths of columns
    do not count.
    """
    line = re.sub(r"[0-9]{8}T[0-9]{6}-[\w-]+", "RUN", line)
    line = re.sub(r"[\w./@+-]*/(?=RUN)", "", line)
    line = re.sub(r"\b[0-9a-f]{7,40}\b", "0", line)
    line = re.sub(r"\b((?:PASS|FAIL|INCONCLUSIVE|INVALID):).*", r"\1", line)
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
