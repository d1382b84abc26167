"""Links in virtual time are what theory says, and their certificates are the same whenever they are taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.hosts.virtual.machine import CHARGE_MOST_NS
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.model.clock import CHARGE_NS
from lab.model.link import Link
from lab.model.results import Calibration
from lab.model.topology import Topology
from lab.net import certificates
from lab.net.calibrate import Tolerance, calibrate
from lab.net.pins import pin
from lab.net.shape import shape
from lab.servers.iperf3 import launch
from lab.servers.process import wait_ready
from tests.virtual.boots import CLEAN, LOSSY
from tests.virtual.links import GOODPUT, RTT_MS, measure

CHARGE = (CHARGE_NS, CHARGE_MOST_NS)


@pytest.mark.parametrize(
    ("rate", "rtt"), [("7 Mbit/s", "20 ms"), ("50 Mbit/s", "2 ms"), ("200 Mbit/s", "20 ms"), ("20 Mbit/s", "600 ms")]
)
def test_goodput_and_rtt_are_what_theory_says(rate: str, rtt: str) -> None:
    found = measure(rate, rtt)
    for side in (found.up, found.down):
        assert side.goodput_error == pytest.approx(0.0, abs=GOODPUT)
    assert found.rtt_excess_ms == pytest.approx(0.0, abs=RTT_MS)


@pytest.mark.parametrize("rate", ["20 Mbit/s", "100 Mbit/s", "500 Mbit/s"])
def test_a_managed_queue_carries_its_rate(rate: str) -> None:
    """htb lost the time by which its timer is late, 0.8 % of 500 Mbit/s: the figures of another lab showed it."""
    found = measure(rate, "5 ms", {"kind": "fq_codel", "limit": "10240 packets"})
    for side in (found.up, found.down):
        assert side.goodput_error == pytest.approx(0.0, abs=GOODPUT)


def test_a_server_of_iperf3_that_stays_busy_is_replaced(own: VirtualNetwork) -> None:
    """It waits for the rest of a test whose client is stopped; where packets are lost it does so for tests that have ended."""
    pin(own, "cubic")
    wait_ready([launch(own.server)])
    link = Link.model_validate({"rate": "7 Mbit/s", "rtt": "20 ms"})
    shape(own, link)
    stopped = f"iperf3 -c {own.server.address} -t 60 >/dev/null & sleep 1; kill -STOP $!; sleep 600"
    client = own.prober.start(["sh", "-c", stopped])
    own.clock.sleep(3)
    found = calibrate(own, link, "cubic")
    client.stop(grace_s=0.1)
    assert found.ok, found.problems


def take(topology: Topology) -> Calibration:
    key = certificates.certificate_key(topology, Tolerance(), CHARGE)
    return certificates.take(topology, Tolerance(), lambda seed: open_network(seed=seed), key)


@pytest.mark.parametrize("topology", [CLEAN, LOSSY], ids=lambda topology: topology.name)
def test_a_reused_certificate_is_the_stored_one(topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "cache_dir", lambda: tmp_path)
    kept = certificates.certified(topology, Tolerance(), CHARGE, lambda seed: open_network(seed=seed))
    (path,) = (tmp_path / "certificates").iterdir()
    assert kept.ok, kept.problems
    assert path.read_text() == take(topology).model_dump_json(indent=1)


def test_a_certificate_that_was_kept_costs_no_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "cache_dir", lambda: tmp_path)
    kept = certificates.certified(CLEAN, Tolerance(), CHARGE, lambda seed: open_network(seed=seed))

    def refuse(seed: int) -> object:
        raise AssertionError(seed)

    assert certificates.certified(CLEAN, Tolerance(), CHARGE, refuse) == kept  # type: ignore[arg-type]
