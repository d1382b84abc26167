"""Clients that would use up a machine: the cell is theirs to fail, in one line, and the next one runs.

`tests/cells/test_bad_clients.py` has those that lie, hang or print nonsense.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hosts.virtual.network import VirtualNetwork
from lab.judge.tolerance import LookPlan
from lab.model.clock import CHARGE_NS
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir
from tests.support.bad_clients import run_client

pytestmark = pytest.mark.timeout(900)

PATIENCE_S = 15
# What the project allows a client that polls for five virtual seconds.
POLL_S, POLL_CPU_S = 5.0, 10.0


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """One run for all of them: each cell is also the proof that the one before did not end it."""
    options = Options(clock="virtual", virtual_looks=LookPlan(looks=(2, 3)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROUGHWATER_PATIENCE_S", str(PATIENCE_S))
        with Session(RunDir.create("bad", results=tmp_path_factory.mktemp("results")), options) as made:
            yield made


FORKS = f"""\
exec "{sys.executable}" -I -S - <<'END'
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
END
"""


FILL = "i=0; while [ $i -lt 9 ]; do cat /dev/zero >/run/lab/client/zeros$i; i=$((i + 1)); done; cat /dev/zero >/dev/shm/zeros"
STALL = """\
import sys, time, socket, urllib.parse
url = urllib.parse.urlsplit(next(word for word in sys.argv if word.startswith("http://")))
link = socket.create_connection((url.hostname, url.port or 80))
link.sendall(f"GET {url.path} HTTP/1.1\\r\\nHost: {url.netloc}\\r\\n\\r\\n".encode())
time.sleep(1e6)
"""


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("curl-spins", "while :; do :; done", "the lab ended it"),
        ("curl-forks", FORKS, "the lab ended it"),
        # 137 where the machine's memory ends first, -11 where the lab's patience does: that depends on this host's speed.
        ("curl-fills-memory", "exec tail /dev/zero", "failed with exit code"),
        ("curl-fills-disk", f'{FILL}; exec /usr/bin/curl "$@"', "failed with exit code 23"),
        ("curl-floods", "exec yes", "failed with exit code"),
        ("curl-stops-reading", f"exec '{sys.executable}' -c '{STALL}' \"$@\"", "was still running after"),
    ],
)
def test_the_cell_fails_in_one_line_and_the_next_one_runs(
    session: Session, tmp_path: Path, name: str, text: str, problem: str
) -> None:
    result = run_client(session, tmp_path, name, text)
    assert result.verdict.name == "FAIL", result.verdict.reason
    assert problem in result.verdict.reason
    assert "\n" not in result.verdict.reason
    assert len(result.samples) == 1
    good = run_client(session, tmp_path, f"{name}-not", 'exec /usr/bin/curl "$@"')
    assert good.verdict.name == "PASS", good.verdict.reason


def test_a_client_that_kills_all_it_may_ends_only_its_own_cell(session: Session, tmp_path: Path) -> None:
    """The servers run as the same user and are killed too. The cell need not name the culprit, but it ends in one line."""
    result = run_client(session, tmp_path, "curl-kills", "kill -9 -1; exit 1")
    assert result.verdict.name in ("FAIL", "INVALID"), result.verdict.reason
    assert "\n" not in result.verdict.reason
    good = run_client(session, tmp_path, "curl-kills-not", 'exec /usr/bin/curl "$@"')
    assert good.verdict.name == "PASS", good.verdict.reason


def test_five_seconds_of_polling_cost_little(own: VirtualNetwork) -> None:
    assert own.machine.boot.charge_ns == CHARGE_NS
    script = f"import select, time; p, t = select.poll(), time.monotonic() + {POLL_S}\nwhile time.monotonic() < t: p.poll(0)"
    before = own.machine.cpu_s()
    done = own.client.run([sys.executable, "-I", "-S", "-c", script], timeout_s=60)
    assert done.wall_s == pytest.approx(POLL_S, abs=0.1)
    assert own.machine.cpu_s() - before < POLL_CPU_S
