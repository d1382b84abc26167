"""`python -m tests.support.loaded_ci [--times N] [--loops N]`: does CI come to the same result on a busy machine?

It runs `.ci/run` in a fresh clone of the last commit, N times in a row, next to busy loops, and prints what each run came to: its
exit code, each count that a runner closed with, each phase's seconds. Exit code 1 if two runs differ in more than the seconds.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lab.model.paths import project_root
from tests.virtual.boots import busy_loops

_LONGEST_S = 5400
"""CI's own limit, in seconds."""
_COUNT = re.compile(r"^(?:\w+: )?\d+ passed, \d+ failed(?:, \d+ skipped)?$")
_PHASE = re.compile(r"^== ([\w ,-]+): (\d+) s(?:, .*)?$")


@dataclass(frozen=True)
class Outcome:
    """A run of CI. `counts` are the closing lines of its runners, `seconds` by phase."""

    code: int
    counts: tuple[str, ...]
    seconds: dict[str, int]

    @property
    def result(self) -> tuple[object, ...]:
        """What must be the same every time."""
        return self.code, self.counts

    def __str__(self) -> str:
        phases = ", ".join(f"{name} {seconds}" for name, seconds in self.seconds.items())
        return f"exit code {self.code}; {'; '.join(self.counts)}; seconds: {phases}"


def outcome(code: int, log: str) -> Outcome:
    lines = log.splitlines()
    counts = tuple(line for line in lines if _COUNT.match(line))
    return Outcome(code, counts, {found[1]: int(found[2]) for line in lines if (found := _PHASE.match(line))})


def run(folder: Path, shared: Path) -> Outcome:
    """CI in a clone of its own, from the start to the end of all it started."""
    clone, log = folder / "main", folder / "log"
    subprocess.run(["git", "clone", "--quiet", project_root(), clone], check=True)
    if shared.is_dir():
        shutil.copytree(shared, folder / "shared")
    with log.open("wb") as stream:
        # Where this command was started in the background, its children would not hear SIGINT, which tests send.
        command = subprocess.Popen(
            ["bash", ".ci/run"],
            cwd=clone,
            env={**os.environ, "CI": "true"},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - one thread
        )
        try:
            code = command.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            os.killpg(command.pid, signal.SIGKILL)
            code = command.wait()
    return outcome(code, log.read_text(errors="replace"))


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3, help="runs in a row")
    parser.add_argument("--loops", type=int, default=4, help="busy loops beside them; 0: none")
    parser.add_argument("--keep", type=Path, help="leave each run's log in this folder")
    asked = parser.parse_args(words)
    found = []
    for number in range(1, asked.times + 1):
        with tempfile.TemporaryDirectory(prefix="roughwater-ci-") as folder, busy_loops(asked.loops, longest_cpu_s=_LONGEST_S):
            begun = time.monotonic()
            found.append(run(Path(folder), project_root().parent / "shared"))
            print(f"run {number}, {time.monotonic() - begun:.0f} s: {found[-1]}", flush=True)
            if asked.keep:
                asked.keep.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path(folder) / "log", asked.keep / f"{number}.log")
    same = len({each.result for each in found}) == 1
    print(f"{asked.times} runs, {asked.loops} busy loops: {'the same result' if same else 'not the same result'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
