"""The functions by which a lab touches a network. Everything that a Session does to hosts and links goes through them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from lab.hosts.choose import open_network, open_same_host
from lab.hosts.host import Network
from lab.model.results import Calibration, HostSnapshot, Sample
from lab.model.topology import Topology
from lab.net.calibrate import calibrate
from lab.net.guard import assert_no_bypass
from lab.net.path import shape_nodes
from lab.net.pins import pin
from lab.net.ports import PortSampler
from lab.net.shape import Shaped, read_back, shape
from lab.run.sample import take_sample
from lab.servers.bundle import Servers, start_servers
from lab.store.provenance import host_snapshot


@dataclass(frozen=True)
class Instruments:
    """The instruments of this machine, unless others are given: a lab with others runs cells without a network.

    Each has the arguments and promises of the function that is its default.
    """

    open_network: Callable[..., Network] = open_network
    open_same_host: Callable[..., Network] = open_same_host
    pin: Callable[..., None] = pin
    assert_no_bypass: Callable[[Network], None] = assert_no_bypass
    start_servers: Callable[..., Servers] = start_servers
    shape: Callable[..., Shaped] = shape
    shape_nodes: Callable[[Network, Topology], dict[str, Shaped]] = shape_nodes
    read_back: Callable[[Network, Shaped], tuple[list[str], dict[str, list[dict[str, Any]]]]] = read_back
    calibrate: Callable[..., Calibration] = calibrate
    watch_ports: Callable[[Network], AbstractContextManager[PortSampler]] = PortSampler
    take_sample: Callable[..., Sample] = take_sample
    snapshot: Callable[[Network], HostSnapshot] = host_snapshot
