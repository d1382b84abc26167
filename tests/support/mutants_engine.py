"""`python -m tests.support.mutants_engine [--seed N] [--count N] [PART...]`: cargo-mutants' mistakes in parts of the engine.

Draws mistakes by seed, plants them all at once in a copy of the checkout, each behind a switch, and runs the tests of the crate
with one switch on after the other. One line per mistake, then the scores. `--count 0` takes all. Constants, which the compiler
evaluates, can have no switch and are not drawn. cargo-mutants is not part of the set-up: `cargo install --locked
cargo-mutants@27.1.0`; `$CARGO_MUTANTS` names it where it is not on the PATH.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.mutation import crates, programs, switches
from tests.support.mutation.copies import Copy
from tests.support.mutation.score import Score
from tests.support.mutation.switches import Mistake

_ENGINE = "crates/ferry-engine/src"
# What repeats, resumes and never leaves a wrong file.
_RETRY = ("job/policy", "job/attempt", "job/ranges", "files/journal", "files/missing", "files/partial", "files/part")
SEED = 24
COUNT = 60


@dataclass(frozen=True)
class Part:
    """`mistakes` chooses them in cargo-mutants' words, `tests` chooses what is built and run in cargo's."""

    mistakes: tuple[str, ...]
    tests: tuple[str, ...]
    servers: tuple[str, ...] = ()
    """Tests of ferry against servers, for what no test of the crate sees."""


def _crate(name: str) -> Part:
    # Simulations of minutes: the compiler's time comes back many times over.
    fast = ("--config", f"profile.dev.package.{name}.opt-level=1", "--config", f"profile.test.package.{name}.opt-level=1")
    return Part(("-p", name), ("-p", name, "--lib", "--tests", *fast))


PARTS = {
    **{name: _crate(name) for name in ("ferry-pacing", "ferry-http", "ferry-h2", "ferry-sftp")},
    "retry-resume": Part(
        ("-p", "ferry-engine", *(word for name in _RETRY for word in ("-f", f"{_ENGINE}/{name}.rs"))),
        # `--lib` with `--test NAME` would leave the unit tests out, and nothing would say so.
        ("-p", "ferry-engine", "-p", "ferry", "--tests", "--bins"),
        tuple(
            f"tests/engine/test_{name}.py"
            for name in ("hostile_ranges", "hostile_http", "hostile_runs", "faults_connections", "faults_files")
        ),
    ),
}


def look(part: str, count: int, seed: int, only: Sequence[int], copy: Copy) -> Iterator[tuple[Mistake, str | None, int]]:
    """Each mistake of a sample, or of all; what saw it; and how many there are to draw from.

    Those that do not compile are not counted: of what exists the sample's share of them is taken off.
    """
    listed = [Mistake.of(number, each) for number, each in enumerate(crates.listed(*PARTS[part].mistakes), 1)]
    able = switches.able(copy, listed)
    drawn = able if count in (0, len(able)) else random.Random(seed).sample(able, min(count, len(able)))
    with switches.built(copy, drawn, *PARTS[part].tests, **crates.VARIABLES) as (compiled, messages):
        existing = round(len(able) * len(compiled) / len(drawn))
        print(
            f"{part}: {len(listed)} mistakes, {len(able)} can have a switch, {len(drawn)} drawn, {len(compiled)} compile",
            flush=True,
        )
        tests, left = programs.Programs(copy, messages), list[Mistake]()
        for mistake in compiled:
            if only and mistake.number not in only:
                continue
            seen = tests.look(mistake.number)
            if not seen and PARTS[part].servers:
                print(f"{mistake.number} {mistake}: not seen by the crate's tests, and looked at again below", flush=True)
                left.append(mistake)
            else:
                yield mistake, seen, existing
        # Minutes each, so they come last: a run that is ended early has the crate's share.
        for mistake in left:
            yield mistake, crates.with_servers(copy, mistake.number, PARTS[part].servers), existing


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT, help="mistakes per part")
    parser.add_argument("--copy", type=Path, help="a folder for the copy that stays, so that a second run builds less")
    parser.add_argument(
        "--only", type=int, nargs="+", default=[], metavar="NUMBER", help="of those drawn only these, after a new test"
    )
    options = parser.parse_args(words)
    scores: dict[str, Score] = {}
    with tempfile.TemporaryDirectory(prefix="roughwater-mutants-") as folder:
        copy = Copy.make((options.copy or Path(folder, "copy")).absolute())
        for part in options.parts:
            scores[part] = Score(0, 0, 0)
            for mistake, seen, existing in look(part, options.count, options.seed, options.only, copy):
                scores[part] = Score(scores[part].seen + (seen is not None), scores[part].planted + 1, existing)
                print(f"{mistake.number} {mistake}: {seen or 'SURVIVED'}", flush=True)
            print(f"{part}, seed {options.seed}: {scores[part]}", flush=True)
    return 0 if all(score.share >= 0.9 for score in scores.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
