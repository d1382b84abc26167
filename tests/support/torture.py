"""Runs of a program in which one call to the system fails: `torture.c` makes the n-th fail, `every_call` tries every n."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

_SHIM = Path(__file__).with_name("torture.c")
# A transfer of some 50 KB takes 20 to 100 ms.
PATIENCE_S = 30.0
# More calls than this are a loop and no transfer.
MOST_CALLS = 5_000


@dataclass(frozen=True)
class Failed:
    """The call that failed. `kind` is file, socket or system."""

    number: int
    function: str
    kind: str
    error: int

    def __str__(self) -> str:
        return f"call {self.number}, {self.function} of a {self.kind} with {os.strerror(self.error)}"


@dataclass(frozen=True)
class Attempt:
    """A run. `failed` is None where it made fewer calls than its number."""

    failed: Failed | None
    code: int
    stdout: bytes
    stderr: str
    folder: Path


def build(folder: Path) -> Path:
    """The shim, compiled."""
    library = folder / "torture.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, _SHIM, "-ldl"], check=True)
    library.chmod(0o755)
    return library


@dataclass(frozen=True)
class Rack:
    """Runs `command(folder)` in folders that `prepare(folder)` makes ready. `ends`: exit codes of a run without a failure."""

    library: Path
    root: Path
    prepare: Callable[[Path], None]
    command: Callable[[Path], list[str]]
    owns: Callable[[Path], None] = lambda _: None
    run_as: dict[str, object] | None = None
    ends: tuple[int, ...] = (0,)

    def attempt(self, number: int, how: str) -> Attempt:
        """One run in which call `number` fails; 0 counts them."""
        folder = self.root / f"{how}-{number}"
        folder.mkdir()
        self.owns(folder)
        self.prepare(folder)
        log = folder / "log"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SSH_", "TORTURE_", "LD_"))}
        env = clean | {
            "HOME": str(folder), "LD_PRELOAD": str(self.library),
            "TORTURE_AT": str(number), "TORTURE_LOG": str(log), "TORTURE_HOW": how,
        }  # fmt: skip
        try:
            done = subprocess.run(
                self.command(folder), cwd=folder, env=env, capture_output=True, timeout=PATIENCE_S, check=False,
                stdin=subprocess.DEVNULL, **(self.run_as or {}),  # type: ignore[call-overload]
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            return Attempt(_failed(log), 124, late.stdout or b"", (late.stderr or b"").decode(errors="replace"), folder)
        return Attempt(_failed(log), done.returncode, done.stdout, done.stderr.decode(errors="replace"), folder)

    def calls(self) -> int:
        """How many calls a run without a failure makes."""
        first = self.attempt(0, "error")
        assert first.code in self.ends, first.stderr
        count = int((first.folder / "log").read_text().split()[0])
        assert 0 < count < MOST_CALLS, count
        return count

    def every_call(self, how: str = "error") -> Iterator[Attempt]:
        """A run for every call, two at a time; a few beyond the count, because threads make some calls more or fewer."""
        count = self.calls()
        with ThreadPoolExecutor(2) as pool:
            for attempt in pool.map(lambda number: self.attempt(number, how), range(1, count + 6)):
                yield attempt
                shutil.rmtree(attempt.folder)


def _failed(log: Path) -> Failed | None:
    found = re.match(r"(\d+) (\w+) (\w+) (\d+)$", log.read_text().strip()) if log.exists() else None
    return Failed(int(found[1]), found[2], found[3], int(found[4])) if found else None


if sys.platform != "linux":
    raise ImportError("LD_PRELOAD is Linux's")
