"""What a test in steps leaves to the next one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from lab.run.session import Session
from lab.run.steps import Steps


@pytest.mark.parametrize(
    ("clock", "network", "closes"), [("virtual", "up", True), ("virtual", None, False), ("real", "up", False)]
)
def test_a_machine_in_virtual_time_ends_with_its_test(clock: str, network: str | None, closes: bool) -> None:
    did: list[str] = []
    lab = SimpleNamespace(
        network=network,
        clock=clock,
        forget_link=lambda: did.append("forget the link"),
        close_network=lambda: did.append("close"),
    )
    Steps(cast(Session, SimpleNamespace(lab=lab)), "A test").stop()
    assert did == ["forget the link", *(["close"] if closes else [])]
