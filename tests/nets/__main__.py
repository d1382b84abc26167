"""Compare this checkout's lab with that of a revision: `python -m tests.nets --base main~5` (README.md)."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.nets.differences import compare_runs, compare_texts, undeclared
from tests.nets.rows import ROWS, Row
from tests.nets.trees import Tree, two_trees

_MOST_LINES = 40
_WIDEST = 240


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.nets", description=__doc__)
    parser.add_argument("--base", required=True, help="the revision to compare with")
    parser.add_argument("--declared", type=Path, help="a file of patterns of differences that are meant, one per line")
    parser.add_argument("--row", action="append", choices=[row.name for row in ROWS], help="only this row; several, once each")
    asked = parser.parse_args()
    lines = asked.declared.read_text(encoding="utf-8").splitlines() if asked.declared else []
    declared = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    rows = [row for row in ROWS if not asked.row or row.name in asked.row]
    with tempfile.TemporaryDirectory(prefix="roughwater-nets-") as work, two_trees(asked.base, Path(work)) as (base, here):
        found = [_compare(row, base, here, declared) for row in rows]
    print(f"{found.count(0)} rows equal, {len(found) - found.count(0)} rows differ")
    return 1 if any(found) else 0


def _compare(row: Row, base: Tree, here: Tree, declared: list[str]) -> int:
    """How many differences of the row are not declared; prints them."""
    print(f"{row.name}: base", end="", flush=True)
    said, old = base.run(row)
    print(", here", end="", flush=True)
    now, new = here.run(row)
    if row.kind == "text":
        lines = [f"printed: {line}" for line in compare_texts(said, now)]
    elif old is None or new is None:
        lines = ["no run was stored"]
    else:
        lines = compare_runs(old, new, row.kind)
        for name, one, two in zip(("page", "summary"), base.page(old), here.page(old), strict=True):
            lines += [f"{name}: {line}" for line in compare_texts(one, two)]
    left = undeclared(lines, declared)
    print(f": {len(lines)} differences, {len(left)} not declared")
    for line in left[:_MOST_LINES]:
        print(f"  {line[:_WIDEST]}")
    if len(left) > _MOST_LINES:
        print(f"  and {len(left) - _MOST_LINES} more")
    return len(left)


if __name__ == "__main__":
    raise SystemExit(main())
