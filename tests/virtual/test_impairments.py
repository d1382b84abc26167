"""What a link does to 20,000 packets is what it was asked for, and the same again with the same seed, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.link import counting
from lab.link.counting import Claim, Counted
from lab.link.theory import frame_bytes
from lab.model.link import Link
from lab.net.counted import Flow, count
from lab.net.shape import change, differences, shape
from lab.store.run_dir import RunDir, read_cell
from tests.support.command import lab
from tests.support.netem_tables import table

PACKETS = 20_000
DELAY_NS = 10_000_000
BURSTS = {"model": "gilbert-elliott", "p": "1 %", "r": "25 %"}
SOFT_BURSTS = {"model": "gilbert-elliott", "p": "1 %", "r": "20 %", "bad": "60 %", "good": "0.2 %"}
STATES = {"model": "state", "p13": "1 %", "p31": "20 %", "p32": "30 %", "p23": "40 %", "p14": "0.3 %"}
FRAME = frame_bytes(1500)


def counted(network: VirtualNetwork, flows: Sequence[Flow], *, size: int = 500, **link: Any) -> list[Counted]:
    asked = Link.model_validate({"rtt": "20 ms", **link})
    shape(network, asked)
    return count(network, "up", flows, size=size)


def twice(interval_ns: int = 100_000, **link: Any) -> Counted:
    """What came of 20,000 packets; the same in two machines of one seed."""
    found = []
    for _ in range(2):
        network = open_network(seed=5)
        try:
            found += counted(network, [Flow(PACKETS, interval_ns)], **link)
        finally:
            network.close()
    assert found[0] == found[1]
    return found[0]


def assert_kept(*claims: Claim) -> None:
    assert all(claim.kept for claim in claims), "; ".join(map(str, claims))


@pytest.mark.parametrize("loss", ["1 %", BURSTS, SOFT_BURSTS, STATES], ids=["random", "bursts", "soft-bursts", "states"])
def test_losses(loss: object) -> None:
    found = twice(loss=loss)
    asked = Link.model_validate({"loss": loss}).loss
    assert_kept(counting.loss_claim(asked, found))
    if loss is BURSTS:
        assert_kept(counting.burst_claim(0.25, found))
        assert counting.burst_claim(0.5, found).deviation > 10, "another length of bursts would be seen"


@pytest.mark.parametrize("kind", ["reorder", "duplicate", "corrupt"])
def test_shares_of_packets(kind: str) -> None:
    found = twice(**{kind: "2 %"})
    skipped = sum(delay < DELAY_NS / 2 for delay in found.delays_ns)
    hits = {"reorder": skipped, "duplicate": found.duplicated, "corrupt": found.corrupted}
    assert_kept(counting.share_claim(kind, 0.02, hits[kind], PACKETS))
    assert {name for name, number in hits.items() if number} == {kind}
    assert len(found.missing) == found.corrupted
    assert bool(found.overtaken) == (kind == "reorder")


@pytest.mark.parametrize("distribution", ["uniform", "normal", "pareto", "paretonormal"])
def test_jitter_between_packets_that_are_far_apart(distribution: str) -> None:
    found = twice(interval_ns=10_000_000, jitter={"spread": "1 ms", "distribution": distribution})
    assert not found.missing
    assert not found.overtaken
    wanted = table(distribution, DELAY_NS, 1_000_000)
    assert_kept(*counting.moment_claims(distribution, wanted, found.delays_ns))


def test_jitter_with_a_rate_keeps_the_order_and_is_not_what_was_asked(network: VirtualNetwork) -> None:
    """Every packet waits for the latest before it: it is later in the mean, and varies less. Without a rate they overtake."""
    flow = [Flow(PACKETS, 100_000)]
    (kept,) = counted(network, flow, rate="1 Gbit/s", jitter="2 ms")
    (free,) = counted(network, flow, jitter="2 ms")
    assert not kept.overtaken
    assert free.overtaken > PACKETS / 2
    assert_kept(*counting.moment_claims("without a rate", table("uniform", DELAY_NS, 2_000_000), free.delays_ns))
    assert fmean(kept.delays_ns) > 1.1 * DELAY_NS


def test_each_direction_has_its_own(network: VirtualNetwork) -> None:
    link = Link.model_validate({"rtt": "20 ms", "loss": "5 %", "down": {"loss": BURSTS, "delay": "4 ms"}})
    shape(network, link)
    up, down = (count(network, way, [Flow(PACKETS, 100_000)])[0] for way in ("up", "down"))  # type: ignore[arg-type]
    assert_kept(counting.loss_claim(link.direction("up").loss, up), counting.loss_claim(link.direction("down").loss, down))
    assert_kept(counting.burst_claim(0.25, down))
    assert min(up.delays_ns) == pytest.approx(16e6, abs=10_000)
    assert min(down.delays_ns) == pytest.approx(4e6, abs=10_000)


LINE = {"rate": "10 Mbit/s", "rtt": "20 ms"}
# Twice what the line carries, and next to it a packet every 50 ms.
OVERLOAD, SPARSE = Flow(PACKETS, 600_000), Flow(200, 50_000_000, after_s=1.0)


@pytest.mark.parametrize(
    ("queue", "held"),
    [
        ({"kind": "fifo", "limit": "100 packets"}, 100),
        ("150 kB", 150_000 // FRAME),
        # 80 ms at 10 Mbit/s are 100,000 bytes.
        ({"kind": "fifo", "limit": "80 ms"}, 100_000 // FRAME),
    ],
)
def test_a_fifo_holds_what_it_says_and_the_packet_that_is_being_sent(network: VirtualNetwork, queue: object, held: int) -> None:
    (found,) = counted(network, [Flow(400)], size=1500, queue=queue, **LINE)
    assert sorted(each.number for each in found.intact) == list(range(held + 1))


@pytest.mark.parametrize("queue", [{"kind": "fq_codel", "limit": "10000 packets"}, {"kind": "cake"}], ids=["fq_codel", "cake"])
def test_fair_queues_keep_a_sparse_flow_out_of_the_queue_of_another(network: VirtualNetwork, queue: dict[str, str]) -> None:
    full, sparse = counted(network, [OVERLOAD, SPARSE], size=1500, queue=queue, **LINE)
    assert not sparse.missing
    # At most one packet of the other flow is ahead: two serialisations.
    assert max(sparse.delays_ns) <= DELAY_NS + 2 * 1_211_200 + 10_000
    assert fmean(full.delays_ns) > 20 * DELAY_NS


@pytest.mark.parametrize("kind", ["fq_codel", "codel"])
@pytest.mark.parametrize("ecn", [True, False], ids=["ecn", "drops"])
def test_codel_drops_or_marks_by_its_law(network: VirtualNetwork, kind: str, *, ecn: bool) -> None:
    """Over ten seconds, in which neither the queue empties nor every packet is marked: 2,500 of them."""
    queue = {"kind": kind, "limit": "20000 packets", "target": "5 ms", "interval": "100 ms", "ecn": ecn}
    (found,) = counted(network, [Flow(PACKETS, 600_000, ecn=True)], size=1500, queue=queue, **LINE)
    above = next(each.got_ns for each in found.intact if each.got_ns - each.sent_ns > DELAY_NS + 5_000_000 + 1_211_200)
    early = [each for each in found.intact if each.got_ns <= above + 10_000_000_000]
    wanted = counting.codel_drops((early[-1].got_ns - above) / 1e9, interval_s=0.1)
    marked, lost = sum(each.ecn == 3 for each in early), sum(number < early[-1].number for number in found.missing)
    # The kernel computes 1 / sqrt(count) by one step of Newton's.
    assert (marked if ecn else lost) == pytest.approx(wanted, rel=0.02)
    assert (lost if ecn else marked) == 0


def test_pie_aims_at_its_target(network: VirtualNetwork) -> None:
    queue = {"kind": "pie", "limit": "10000 packets", "target": "15 ms"}
    (found,) = counted(network, [Flow(PACKETS, 900_000)], size=1500, queue=queue, **LINE)
    settled = [each.got_ns - each.sent_ns - DELAY_NS for each in found.intact if each.number > PACKETS / 2]
    assert fmean(settled) / 1e6 == pytest.approx(15, abs=5)


def test_red_marks_by_its_average_queue(network: VirtualNetwork) -> None:
    """60 packets at once and then one per serialisation: a queue that stays as it is, and marks at equal probability."""
    queue = {
        "kind": "red",
        "limit": "300 packets",
        "least": "30 packets",
        "most": "90 packets",
        "probability": "10 %",
        "ecn": True,
    }
    flows = [Flow(60, ecn=True), Flow(PACKETS, 1_000_000, ecn=True)]
    _, found = counted(network, flows, size=1500, rate="12112 kbit/s", queue=queue)
    settled = [each for each in found.intact if each.number >= 2000]
    packets = fmean(each.got_ns - each.sent_ns - DELAY_NS for each in settled) / 1_000_000
    claim = counting.red_claim(0.1 * (packets - 30) / 60, sum(each.ecn == 3 for each in settled), len(settled))
    assert_kept(claim)
    assert not found.missing


def test_a_policer_passes_its_bucket_and_its_rate_and_lets_nothing_wait(network: VirtualNetwork) -> None:
    (found,) = counted(network, [OVERLOAD], size=1500, queue={"kind": "policer", "burst": "100 kB"}, **LINE)
    passed = found.intact
    seconds = (passed[-1].sent_ns - passed[0].sent_ns) / 1e9
    assert len(passed) * FRAME == pytest.approx(100_000 + 10e6 / 8 * seconds, abs=2 * FRAME)
    bucket = found.missing[0]
    # While the bucket empties at twice the rate that fills it, nothing is lost.
    assert bucket * FRAME == pytest.approx(2 * 100_000, rel=0.03)
    # A frame at the rate, and one on the line before.
    assert max(found.delays_ns) <= DELAY_NS + 1_211_200 + 12_112 + 10_000


POLICED = """
name: policed
description: A bucket that holds a window of TCP.
link:
  rate: 17.7 Mbit/s
  rtt: 82 ms
  queue: {kind: policer, burst: 74 kB}
"""


def test_a_policer_lets_the_bursts_of_tcp_through_that_its_bucket_holds(tmp_path: Path) -> None:
    """A window leaves in one piece, and its packets are due in the same instant."""
    (tmp_path / "policed.yaml").write_text(POLICED)
    name = "curl--policed--http1-get-1MB"
    words = ("run", name, "--max-samples", "5", "--json", "--topology", str(tmp_path / "policed.yaml"))
    done = lab(*words, env={"ROUGHWATER_RESULTS": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    cell = read_cell(RunDir(tmp_path / json.loads(done.stdout)["run"]).cell_path(name))
    assert min(sample.body_byte_s or 0 for sample in cell.samples) > 17.7e6 / 8 / 3


def test_a_managed_queue_is_read_back_and_changes_in_place(network: VirtualNetwork) -> None:
    slow = Link.model_validate({**LINE, "queue": {"kind": "fq_codel"}})
    shape(network, slow)
    for link in (
        Link.model_validate({**LINE, "rate": "20 Mbit/s", "queue": {"kind": "fq_codel", "target": "10 ms"}}),
        Link.model_validate({**LINE, "queue": {"kind": "cake"}}),
        Link.model_validate(LINE),
        slow,
    ):
        assert differences(network, change(network, link)) == []
