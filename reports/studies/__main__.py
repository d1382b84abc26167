"""Makes and checks docs/studies: `python -m reports.studies make`, `check`, `pack`, `unpack`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.model.errors import RoughwaterError, UsageProblem
from reports.studies.archive import pack, unpacked
from reports.studies.index import make_all, out_of_date
from reports.studies.places import studies_folder, study


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; 0, 1 where a page is not its data's, 2 for wrong input."""
    parser = argparse.ArgumentParser(prog="python -m reports.studies", description="Pages of docs/studies, from their data.")
    parser.add_argument("--root", type=Path, default=studies_folder(), help="the folder of studies, docs/studies unless given")
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="write the pages, their pictures and the list of studies")
    making.add_argument("names", nargs="*", metavar="NAME", help="only these studies, and the list")
    commands.add_parser("check", help="say which files are not what `make` would write; exit code 1 if there are any")
    packing = commands.add_parser("pack", help="pack runs as the data of a study")
    packing.add_argument("name", metavar="NAME")
    packing.add_argument("runs", nargs="*", metavar="[LABEL=]RUN", help="a run's folder; a template selects runs by their label")
    packing.add_argument("--file", type=Path, action="append", default=[], metavar="FILE", help="another file; may be repeated")
    unpacking = commands.add_parser("unpack", help="unpack the data of a study")
    unpacking.add_argument("name", metavar="NAME")
    unpacking.add_argument("folder", type=Path, metavar="FOLDER")
    given = parser.parse_args(words)
    try:
        return _run(given)
    except RoughwaterError as problem:
        print(f"studies: {problem}", file=sys.stderr)
        return problem.exit_code


def _run(given: argparse.Namespace) -> int:
    if given.command == "make":
        for path, text in make_all(given.root, given.names).items():
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
                print(path)
        return 0
    if given.command == "check":
        wrong = out_of_date(given.root)
        print("\n".join(wrong) or "every page is its data's")
        return 1 if wrong else 0
    place = study(given.root, given.name)
    if given.command == "pack":
        if not given.runs and not given.file:
            raise UsageProblem("nothing to pack", remedy="give runs, or --file")
        packed = pack(place.data, [_labelled(text) for text in given.runs], given.file)
        print(f"{place.data}: {packed.size} bytes, {len(packed.all_runs)} runs, curves of samples: {packed.curves}")
        return 0
    with unpacked(place.data, given.folder) as contents:
        for run in contents.all_runs:
            print(run.path)
    return 0


def _labelled(text: str) -> tuple[str, Path]:
    label, sign, path = text.partition("=")
    return (label, Path(path)) if sign and not Path(text).exists() else ("", Path(text))


if __name__ == "__main__":
    sys.exit(main())
