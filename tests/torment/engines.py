"""An engine of containers that ends while a cell runs in its containers: restarted, killed, or away for a minute."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

from lab.model.errors import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_PASS, EXIT_USAGE
from tests.support.waiting import until
from tests.torment.kills import SETTLE_S, Torment, changed, read_all
from tests.torment.rows import CONTAINERS

# A cell takes some 20 s, and has found the engine well after two.
_MOMENT_S = (2.0, 15.0)
_LONGEST_S = 300.0
# The lab waits 30 s for an engine before it says what is left.
_AWAY_S = 60.0


def restarted(torment: Torment, chance: random.Random) -> Iterator[str]:
    """As by `systemctl restart docker`: containers end with it."""
    yield from _cell(torment, chance.uniform(*_MOMENT_S), signal.SIGTERM, 0.0)


def killed(torment: Torment, chance: random.Random) -> Iterator[str]:
    """It crashes and starts again; its containers run on meanwhile."""
    yield from _cell(torment, chance.uniform(*_MOMENT_S), signal.SIGKILL, 0.0)


def away(torment: Torment, chance: random.Random) -> Iterator[str]:
    """It stops, and starts again when the lab has given it up. `lab down` removes what is left."""
    yield from _cell(torment, chance.uniform(*_MOMENT_S), signal.SIGTERM, _AWAY_S)


def _cell(torment: Torment, after_s: float, by: signal.Signals, away_s: float) -> Iterator[str]:
    results, engine = torment.work / "engines", torment.engine
    assert engine is not None
    shutil.rmtree(results, ignore_errors=True)
    where = f"engine ended by {by.name} after {after_s:.1f} s" + (f", for {away_s:g} s" if away_s else "")
    before, others, log = torment.machine.state(), torment.machine.processes(), torment.work / "said"
    with log.open("wb") as file:
        lab = torment.start(*CONTAINERS, results=results, stdout=file.fileno(), stderr=file.fileno())
        try:
            time.sleep(after_s)
            engine.end(by)
            with suppress(subprocess.TimeoutExpired):
                lab.wait(timeout=away_s)
            engine.start()
            lab.wait(timeout=_LONGEST_S)
        finally:
            lab.kill()
            lab.wait()
    yield from _bad_end(where, lab.returncode, log.read_text(errors="replace"))
    if away_s:
        torment.said("down", "--all", results=results)
    yield from (f"{where}: left {each}" for each in engine.labs())
    yield from (f"{where}: {half}" for half in read_all(results)[2])
    # dockerd may leave things of its own: a bridge that it was making, the outer end of a container's interface.
    for each in changed(before, torment.machine.state()):
        print(f"{where}: the engine's own {each}", flush=True)
    # The same engine serves the next lab.
    torment.said("shell", "--backend", "compose", "--rate", "20mbit", "--", "true", results=results)
    try:
        until(lambda: not torment.more_than(others), "the last process has ended", SETTLE_S)
    except TimeoutError:
        yield f"{where}: left {torment.more_than(others)}"


def _bad_end(where: str, code: int, said: str) -> Iterator[str]:
    faults = [line for line in said.splitlines() if line.startswith("lab: ")]
    told = [line for line in said.splitlines() if "INVALID" in line] or faults or [said[-200:]]
    print(f"{where}: exit code {code}: {told[0].strip()}", flush=True)
    # The engine may end before the lab has begun.
    none = code == EXIT_USAGE and "the container engine is not running" in said
    judged = code in (EXIT_PASS, EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID)
    if not (none or judged) or len(faults) > 1 or "Traceback" in said:
        yield f"{where}: exit code {code}: {said[-800:]!r}"
