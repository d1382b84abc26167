"""`python -m tests.support.planted_noops [--seed N] [--count N] lab|engine`: does a test see that a function does nothing?

Draws functions by seed, makes each do nothing in a copy of the checkout, and runs the tests that may see it, fastest first.
One line per function: its name and file, and the test that failed, or SURVIVED. The last line is the score.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.coverage_lab import LINES
from tests.support.mutation import crates, functions, lab_tests, switches
from tests.support.mutation.copies import Copy
from tests.support.mutation.lab_tests import Seen, Step, Traced
from tests.support.mutation.score import Score

SEED = 24
COUNT = 30


def in_lab(copy: Copy, options: argparse.Namespace) -> Iterator[tuple[str, Seen, int]]:
    """Each function, what came of it, and how many there are to draw from."""
    places, existing = functions.draw(copy.root, options.count, options.seed)
    traced = Traced(LINES)
    chosen = [place for place in places if place.name in options.only or not options.only]
    left = {place: lab_tests.steps(copy.root, place.path, place.lines, traced, quick=options.quick) for place in chosen}
    if options.tests:
        left = {place: [Step("the tests of --tests", tuple(options.tests), 1500)] for place in chosen}
    # Those that a few tests see first: the others need minutes each.
    for late in (False, True):
        for place, which in list(left.items()):
            planted = place.planted((copy.root / place.path).read_text(encoding="utf-8"))
            seen = lab_tests.look(copy, place.path, planted, [step for step in which if step.late is late])
            if seen.test or late:
                del left[place]
                yield str(place), seen, existing
            else:
                print(
                    f"{place}\n    not seen by {', '.join(seen.steps) or 'any test of the module'}: more tests follow", flush=True
                )


def in_engine(copy: Copy, options: argparse.Namespace) -> Iterator[tuple[str, Seen, int]]:
    """As `in_lab`. A function whose body does not compile, or that the compiler evaluates, is drawn again."""
    existing = crates.shuffled(options.seed)
    chosen = [each for each in existing if each.function in options.only] or existing[: 2 * options.count]
    build = ("--workspace", "--bins", "--tests")
    with switches.built(copy, chosen, *build, **crates.VARIABLES) as (compiled, _):
        for each in chosen:
            if each not in compiled:
                print(f"not counted: {each}", flush=True)
        tests, left = crates.Tests(copy), list[switches.Mistake]()
        for each in compiled[: options.count]:
            seen = tests.look(each, late=False)
            if seen.test or options.quick:
                yield str(each), seen, len(existing)
            else:
                print(f"{each}\n    not seen by {', '.join(seen.steps)}: more tests follow", flush=True)
                left.append(each)
        for each in left:
            yield str(each), tests.look(each, late=True), len(existing)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", choices=["lab", "engine"])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--copy", type=Path, help="a folder for the copy that stays, so that a second run builds less")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="of those drawn only these functions, after a new test"
    )
    parser.add_argument(
        "--tests", nargs="+", default=[], metavar="TEST", help="for the lab: these tests instead of all that may see it"
    )
    parser.add_argument("--quick", action="store_true", help="leave out the tests that take minutes")
    options = parser.parse_args(words)
    each = in_lab if options.side == "lab" else in_engine
    score = Score(0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="roughwater-planted-") as folder:
        copy = Copy.make((options.copy or Path(folder, "copy")).absolute())
        for place, seen, existing in each(copy, options):
            score = Score(score.seen + (seen.test is not None), score.planted + 1, existing)
            print(f"{place}\n    {seen}", flush=True)
    print(f"planted in {options.side}, seed {options.seed}: {score}")
    return 0 if score.seen * 10 >= score.planted * 9 else 1


if __name__ == "__main__":
    sys.exit(main())
