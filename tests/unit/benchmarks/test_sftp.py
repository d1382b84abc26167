"""What the benchmarks over SFTP try, and what they make of their samples."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import tree_script
from benchmarks.sftp import Choice, Line, better, handshake, parser
from benchmarks.sftp_loopback import SLOW_SIZE, claims_of
from benchmarks.shaped import Proof
from benchmarks.throttle import LIMITS, ROOM_IF_ASKED, kept_to, transfers
from benchmarks.throttle import SIZES as THROTTLED
from benchmarks.throttle import Choice as ThrottleChoice
from lab.clients.curl import Curl
from lab.clients.ferry import Ferry
from lab.model.load import load_topology
from lab.model.results import Calibration, ClientNumbers, DirectionCalibration
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size
from tests.support.samples import sample

GET = Transfer(protocol="sftp", direction="get", size=Size(1_000_000))


def look(*, ok: bool) -> Calibration:
    side = dict.fromkeys(DirectionCalibration.model_fields, 0) | {
        "ideal_bit_s": None,
        "goodput_error": None,
        "iperf3_bit_s": None,
    }
    return Calibration(
        at=datetime(2026, 1, 1, tzinfo=UTC),
        attempt=1,
        up=DirectionCalibration.model_validate(side | {"direction": "up"}),
        down=DirectionCalibration.model_validate(side | {"direction": "down"}),
        rtt_asked_ms=20,
        rtt_ideal_ms=20,
        rtt_ms=[20],
        rtt_excess_ms=0,
        ok=ok,
        problems=[] if ok else ["too slow"],
    )


def test_a_failed_sample_counts_and_gives_no_figure() -> None:
    line = Line("ferry", GET, [sample(), sample(ok=False, problem="x", body_byte_s=None, body_clock=None)])
    assert (line.rates, line.walls, line.failed, line.counted) == ([1e6], [1.5], 1, "1 (1 failed)")
    assert line.cpu == [500.0]
    assert line.clock == "client"
    assert line.kept(more=1)["more"] == 1


def test_the_better_of_two_lines_is_that_of_the_greater_median() -> None:
    slow, fast = Line("slow", GET, [sample()]), Line("fast", GET, [sample(body_byte_s=2e6)])
    none = Line("none", GET, [sample(body_byte_s=None)])
    assert better([slow, fast, none]) == fast
    assert better([none]) is None


def test_a_handshake_is_counted_in_round_trips() -> None:
    raw = {"ssh": {"round_trips": 5}, "phases": {"kex_s": 0.2, "auth_s": 0.3, "body_start_s": 1.0, "channel_s": None}}
    line = Line("ferry", GET, [sample(client=ClientNumbers(bytes=1, total_s=1, raw=raw)), sample()])
    assert dict(handshake(line, 0.1)) == {
        "round trips": [5.0],
        "connect / RTT": [],
        "kex / RTT": [pytest.approx(2.0)],
        "auth / RTT": [pytest.approx(3.0)],
        "channel / RTT": [],
        "body_start / RTT": [pytest.approx(10.0)],
    }


def test_a_link_was_one_when_the_last_looks_before_and_after_say_so() -> None:
    good, bad = look(ok=True), look(ok=False)
    assert not Proof([bad, good], [good]).problem
    assert "before: too slow" in Proof([bad, bad]).problem
    assert "after: too slow" in Proof([good], [bad, bad]).problem
    assert Proof([good]).problem
    assert Proof([good], fault="no iperf3").problem == "the lab: no iperf3"
    assert [Proof().ready, Proof([bad, good]).ready, Proof([bad]).ready] == [False, True, False]


def test_options_come_to_a_choice() -> None:
    options = parser("x", samples=5)
    whole = Choice.of(options.parse_args([]), 5)
    assert (whole.n, whole.directions, whole.clients[0], whole.size(20)) == (5, ("get", "put"), "ferry", Size(20_000_000))
    quick = Choice.of(options.parse_args(["--quick", "--direction", "put", "--client", "curl"]), 5, least=2)
    assert (quick.n, quick.directions, quick.clients, quick.size(20)) == (2, ["put"], ["curl"], Size(2_000_000))
    assert Choice.of(options.parse_args(["--samples", "7"]), 5).n == 7


def test_loopback_claims_without_peers_have_no_figure() -> None:
    assert SLOW_SIZE < 1 << 30
    from benchmarks.common import Run
    from benchmarks.sftp_loopback import Runner

    def runner(name: str, wall_s: float, cpu_s: float) -> Runner:
        runs = [Run(name, True, wall_s, cpu_s, None, "")] * 5
        adapter = Ferry(name) if name.startswith("ferry") else Curl(name)
        return Runner(name, adapter, "get", None, 1 << 30, runs)  # type: ignore[arg-type]

    alone = claims_of([runner("ferry", 1, 1)], "get")
    assert [claim.verdict for claim in alone] == ["no figure"] * 2
    both = claims_of([runner("ferry", 1, 1), runner("openssh", 2, 2), runner("lftp", 1.5, 0.5)], "get")
    assert [claim.measured and claim.measured.value for claim in both] == [0.5, 1.5]
    assert "lftp" in both[1].text
    # Another build of ferry is compared in the table of ratios: it is not a peer.
    assert "any peer" in claims_of([runner("ferry", 1, 1), runner("ferry-before", 2, 2)], "get")[1].text


def test_sftp_is_throttled_where_its_size_is_known() -> None:
    limits = [ByteRate.parse("1 MB/s"), ByteRate.parse("2 MB/s")]
    choice = ThrottleChoice(limits, ["sftp"], [THROTTLED[0]], ["get", "put"], ROOM_IF_ASKED)
    for name in ("link-local", "dsl-50", "dsl-20"):
        tried = list(transfers(load_topology(name), choice))
        assert {(each.direction, each.chunked) for each in tried} == {("get", False), ("put", False)}
        assert {each.limit for each in tried} == set(limits)
    assert LIMITS[1] in limits


def test_a_limit_is_kept_by_its_worst_transfer() -> None:
    lines = [[sample(deviation=0.001)] * 5, [sample(deviation=-0.004)]]
    found = kept_to("dsl-20", "ferry", "sftp", lines, "")
    assert found.measured
    assert found.measured.value == pytest.approx(0.4)
    assert found.verdict == "met"
    assert kept_to("dsl-20", "ferry", "sftp", [[sample(deviation=0.006)] * 5], "").verdict == "NOT MET"


@pytest.mark.skipif(sys.platform != "linux", reason="subreapers are Linux's")
def test_a_descendant_without_a_waiting_parent_is_counted(tmp_path: Path) -> None:
    report = tmp_path / "report"
    # It ends by its own clock of CPU time, so how busy this machine is does not matter.
    burn = f"'{sys.executable}' -c 'import time\nwhile time.process_time() < 0.2: pass'"
    script = [sys.executable, tree_script.__file__, str(report), "/bin/sh", "-c", f"{burn} & exit 3"]
    done = subprocess.run(script, check=False, env=dict(os.environ))
    _, cpu_s = map(float, report.read_text().split())
    assert done.returncode == 3
    assert cpu_s >= 0.2
