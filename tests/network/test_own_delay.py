"""A path's own delay is taken off netem's, and the calibration still measures the complete link against what was asked."""

from __future__ import annotations

import pytest

from lab.hosts.namespaces.network import NamespaceNetwork
from lab.model.link import Link
from lab.model.units import BitRate, Duration
from lab.net.calibrate import calibrate
from lab.net.shape import differences, shape

LINK = Link(rate=BitRate.parse("50 Mbit/s"), rtt=Duration.parse("40 ms"))


@pytest.mark.usefixtures("iperf3")
def test_an_own_delay_that_does_not_exist_makes_the_link_too_short_and_is_noticed(network: NamespaceNetwork) -> None:
    """These hosts have almost no delay of their own: a backend that claims one does not get a certificate."""
    network.own_delay = Duration.parse("5 ms")
    shaped = shape(network, LINK)
    assert differences(network, shaped) == [], "the router's kernel holds the rest of the delay, and the limit that goes with it"
    assert all("delay 15000us" in command for command in shaped.commands)
    look = calibrate(network, LINK, "cubic")
    assert look.rtt_ideal_ms > 40
    assert not look.ok
    assert any(problem.startswith("idle RTT is -") for problem in look.problems), look.problems
