"""What is read of a kernel's connections."""

from __future__ import annotations

import pytest

from lab.model.errors import LabFault
from lab.net.sockets import Look, parse_line
from lab.net.watch import is_policer

LOOK = Look(*range(1, 22))


def test_a_line_is_a_look_or_a_time() -> None:
    assert parse_line(b"k " + " ".join(map(str, LOOK)).encode()) == LOOK
    assert parse_line(b"t 7") == 7


@pytest.mark.parametrize("line", [b"", b"t", b"k 1 2", b"k x", b"q 1"])
def test_anything_else_is_the_labs_fault(line: bytes) -> None:
    with pytest.raises(LabFault, match="cannot be read"):
        parse_line(line)


def test_a_policer_is_a_bucket_without_a_queue() -> None:
    assert is_policer({"kind": "tbf", "options": {"limit": 1514}})
    assert not is_policer({"kind": "tbf", "options": {"limit": 100_000}})
    assert not is_policer({"kind": "netem", "options": {"limit": 10}})
