"""The share of comments that open with a noun clause: `python tools/openings.py [--list] [FOLDER...]`, by language.

A clause in place of a noun ("What is left of ...", "Whether it ended") takes a second reading. Counted by their first
word are docstrings and blocks of comments in Python (an attribute's docstring too) and blocks of comments in Rust.
Standard library only.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDERS = ("lab", "reports", "engine/crates")
_CLAUSE = re.compile(r"(What|Whatever|Whether|Those|How|Where|Wherever|Of|As|Who|Whose|Which|Whichever|Why|That)\b(?! is why)")
_NOT_OURS = {"target", "__pycache__", ".venv"}
_RUST = re.compile(r"^\s*//[/!]?\s?(.*)$")


class Opening(NamedTuple):
    """The first line of a comment, and its place."""

    file: Path
    line: int
    text: str

    @property
    def is_clause(self) -> bool:
        return _CLAUSE.match(self.text) is not None


def openings(path: Path) -> Iterator[Opening]:
    """The openings of a file's comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".rs":
        yield from _blocks(path, text, _RUST)
        return
    yield from _blocks(path, text, re.compile(r"^\s*#(?!!)\s?(.*)$"))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Opening(path, node.lineno, node.value.value.strip().partition("\n")[0])


def _blocks(path: Path, text: str, comment: re.Pattern[str]) -> Iterator[Opening]:
    """The first lines of blocks of comments that have a line of their own."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        found = comment.match(line)
        if found and not inside and found[1].strip():
            yield Opening(path, number, found[1].strip())
        inside = found is not None and bool(found[1].strip())


def files(folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".rs") and _NOT_OURS.isdisjoint(path.parts):
                yield path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help=f"by default {', '.join(FOLDERS)}")
    parser.add_argument("--list", action="store_true", help="print each opening that is a clause")
    asked = parser.parse_args()
    counts: dict[str, list[int]] = {}
    for path in files(asked.folders or [ROOT / name for name in FOLDERS]):
        for opening in openings(path):
            count = counts.setdefault({".py": "Python", ".rs": "Rust"}[path.suffix], [0, 0])
            count[0] += opening.is_clause
            count[1] += 1
            if asked.list and opening.is_clause:
                print(f"{opening.file}:{opening.line}: {opening.text}")
    for language, (clauses, total) in counts.items():
        print(f"{language}: {clauses} of {total} comments, {clauses / total:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
