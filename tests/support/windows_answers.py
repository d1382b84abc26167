"""The answers of the Windows stand-in (fake_windows.py): settings and routes as the lab expects them."""

from __future__ import annotations

import json

import pytest

PINS = {
    "providers": {"Internet": "CUBIC", "Datacenter": "CUBIC"},
    "timestamps": "Enabled",
    "autotuning": "Normal",
    "mtu": 1500,
    "lso": False,
    "rsc": None,
    "checksum": "Disabled",
}
WAY = {
    "port": 7,
    "route_port": 7,
    "next_hop": "10.77.1.1",
    "one_hop": "TtlExpired",
    "one_hop_from": "10.77.1.1",
    "two_hops": "Success",
    "whole_ms": [0, 0, 0, 0, 0],
    "other_ports": [],
}


def tell(patch: pytest.MonkeyPatch, **answers: object) -> None:
    """`PINS`, `WAY` or `FACTS`, from now on."""
    for name, answer in answers.items():
        patch.setenv(f"FAKE_{name}", json.dumps(answer))
