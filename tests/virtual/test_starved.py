"""A client that a busy machine stops again and again keeps its limit: no burst, and no half of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.clients.ferry import find_ferry
from lab.judge.tolerance import LookPlan
from lab.model.transfer import ClientSpec
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir
from tests.support.liars import DIRECTIONS, PROTOCOLS, limited
from tests.support.python_script import heading

pytestmark = pytest.mark.timeout(900)

# The time is the guest's, so the stops come at the same moments whatever the host does.
_SCRIPT = """\
{heading}import os, signal, subprocess, sys, time
limited = "--limit-rate" in sys.argv
client = subprocess.Popen([{ferry!r}, *sys.argv[1:], *({flags!r} if limited else [])])
if limited:
    for pause in {pauses!r} * 100:
        try:
            client.wait(3 * pause)
            break
        except subprocess.TimeoutExpired:
            pass
        client.send_signal(signal.SIGSTOP)
        time.sleep(pause)
        client.send_signal(signal.SIGCONT)
sys.exit(client.wait())
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    options = Options(clock="virtual", virtual_looks=LookPlan(looks=(2,)))
    with Session(RunDir.create("starved", results=tmp_path_factory.mktemp("results")), options) as made:
        yield made


def starved(folder: Path, pauses: list[float], flags: tuple[str, ...] = ()) -> ClientSpec:
    """ferry, stopped for these times in turn (seconds), and running three times as long after each."""
    path = folder / "ferry-starved"
    path.write_text(_SCRIPT.format(heading=heading("-IS"), ferry=str(find_ferry()), pauses=pauses, flags=list(flags)))
    path.chmod(0o755)
    return ClientSpec(name="ferry-starved", program=str(path))


@pytest.mark.parametrize("pauses", [[0.02], [0.44, 0.1, 0.25, 0.04]], ids=["short stops", "long stops"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_quarter_of_the_time_lost_costs_neither_the_rate_nor_a_burst(
    session: Session, tmp_path: Path, protocol: str, direction: str, pauses: list[float]
) -> None:
    judged = session.run_cell(limited(starved(tmp_path, pauses), protocol, direction, "20 MB", "2 MB/s"))
    for sample in judged.samples:
        assert sample.deviation is not None
        assert sample.series is not None
        assert sample.deviation == pytest.approx(0, abs=0.05)
        assert sample.series.begun_window_byte_s / 2e6 < 1.5


def test_the_peak_is_lower_for_those_who_ask(session: Session, tmp_path: Path) -> None:
    client = starved(tmp_path, [0.02], ("--limit-peak", "1.15"))
    judged = session.run_cell(limited(client, "http1", "get", "20 MB", "2 MB/s"))
    peaks = [sample.series.begun_window_byte_s / 2e6 for sample in judged.samples if sample.series]
    assert len(peaks) == len(judged.samples)
    assert max(peaks) < 1.15
