"""A path's own delay is taken off netem's, and the calibration still measures the whole link against what was asked."""

from __future__ import annotations

import pytest

from lab.backend.namespaces.network import NamespaceNetwork
from lab.network.calibrate import calibrate
from lab.network.shape import differences, shape
from lab.spec.models import Link
from lab.spec.units import BitRate, Duration

LINK = Link(rate=BitRate.parse("50 Mbit/s"), rtt=Duration.parse("40 ms"))


@pytest.mark.usefixtures("iperf3")
def test_one_that_is_not_there_makes_the_link_too_short_and_is_found_out(network: NamespaceNetwork) -> None:
    """These hosts have next to none of their own: a backend that says otherwise does not get a certificate for it."""
    network.own_delay = Duration.parse("5 ms")
    shaped = shape(network, LINK)
    assert differences(network, shaped) == [], "the router's kernel holds the rest of the delay, and the limit that goes with it"
    assert all("delay 15000us" in command for command in shaped.commands)
    look = calibrate(network, LINK, "cubic")
    assert look.rtt_ideal_ms > 40
    assert not look.ok
    assert any(problem.startswith("idle RTT is -") for problem in look.problems), look.problems
