"""`python -m tests.places [--keep FOLDER] [--place TEXT]... [--cell TEXT]...`: twenty cells in many places, and a table.

A line for each cell: the digest of its result and captures in this checkout, and a column for each other place. `=` is the same
digest; anything else is a difference.
Exit code 0: every cell is equal. 1: one is not. Places that cannot be made are listed, and do not count.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.model.errors import RoughwaterError
from lab.model.paths import results_dir
from lab.model.scratch import scratch_folder
from tests.places.came import Came, apart, keep, kept
from tests.places.cells import CELLS, TwentyCell
from tests.places.places import PLACES, Made, Place
from tests.support.bare_debian import LackingError

Column = Mapping[str, Came]
SETS = {False: "own", True: "userland"}
"""By whether the programs are the userland's."""


def column(made: Made, place: Place, ids: Sequence[str], folder: Path, *, in_userland: bool) -> Column:
    """What came of the cells there; what is kept of an earlier run is taken."""
    file = folder / f"{SETS[in_userland]}-{place.name.replace(', ', '-').replace(' ', '_')}.json"
    if found := kept(file):
        return found
    begun = time.monotonic()
    came = place.run(made, ids, in_userland)
    keep(came, file)
    print(f"{place.name}, programs: {SETS[in_userland]}: {len(came)} cells, {time.monotonic() - begun:.0f} s", flush=True)
    return came


def table(cells: Sequence[TwentyCell], columns: Mapping[str, Column]) -> tuple[list[str], int]:
    """Lines of Markdown, and the number of differences. The others are held against the first column."""
    first, *others = columns
    lines = [f"| cell | client, transfer | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    differ = 0
    for cell in cells:
        here = columns[first].get(cell.id)
        row = [here.digest[:12] if here else "no result"]
        for name in others:
            there = columns[name].get(cell.id)
            said = apart(here, there) if here and there else "no result"
            differ += bool(said)
            row.append(said or "=")
        lines.append(f"| `{cell.id}` | {cell.language}, {cell.fate} | {' | '.join(row)} |")
    return lines, differ


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--keep", type=Path, default=results_dir() / "twenty-cells", help="what came of each place, to go on from"
    )
    parser.add_argument("--place", action="append", help="only places with this text in their names, and the checkout")
    parser.add_argument("--cell", action="append", help="only cells with this text in their names")
    parser.add_argument("--set", choices=SETS.values(), help="only this set of programs")
    asked = parser.parse_args(words)
    cells = [cell for cell in CELLS if not asked.cell or any(text in cell.id for text in asked.cell)]
    wanted = asked.place or [""]
    places = [place for place in PLACES if place is PLACES[0] or any(text in place.name for text in wanted)]
    differ = 0
    with scratch_folder("roughwater-") as folder:
        folder.chmod(0o755)
        made = Made(folder)
        for in_userland, named in SETS.items():
            if asked.set not in (None, named):
                continue
            columns = {}
            for place in places:
                # On this root a second set of programs would say nothing new.
                if place is not PLACES[0] and place.own == in_userland:
                    continue
                try:
                    columns[place.name] = column(made, place, [cell.id for cell in cells], asked.keep, in_userland=in_userland)
                except (LackingError, RoughwaterError) as why:
                    print(f"{place.name} cannot be made: {why}", flush=True)
            lines, wrong = table(cells, columns) if PLACES[0].name in columns else ([], 1)
            differ += wrong
            print(f"\nprograms: {named}\n", *lines, sep="\n", flush=True)
    for place in places:
        print(f"- {place.name}: {place.what}")
    print(f"{len(cells)} cells, {differ} differences; kept in {asked.keep}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
