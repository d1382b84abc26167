"""Competing flows: how they are written, and what they got in a time."""

from __future__ import annotations

import pytest

from lab.model.errors import UsageProblem
from lab.model.units import ByteRate
from lab.net.flow import Flow, RunningFlow
from lab.net.flow_script import SLOT_NS


def test_what_people_write() -> None:
    assert Flow.parse("bulk") == Flow("bulk", "cubic")
    assert Flow.parse("bulk:bbr").words("server", "up", 1)[-1] == "bbr"
    assert Flow.parse("cbr:1MB/s") == Flow("cbr", rate=ByteRate(1_000_000))
    assert Flow.parse("web").words("server", "down", 7)[-1] == "7"


@pytest.mark.parametrize("text", ["", "cbr", "cbr:fast", "web:slow", "bulk:a b", "voice"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageProblem):
        Flow.parse(text)


def test_only_complete_tenths_of_a_second_count() -> None:
    flow = RunningFlow()
    flow.received = [(number * SLOT_NS, 10_000) for number in range(20)]
    flow.pages = [(SLOT_NS, 0.5), (3 * SLOT_NS, 0.7)]
    assert flow.byte_s(0, 20 * SLOT_NS) == pytest.approx(100_000)
    assert flow.byte_s(SLOT_NS // 2, 10 * SLOT_NS + SLOT_NS // 2) == pytest.approx(100_000)
    assert flow.byte_s(0, SLOT_NS // 2) == 0.0
    assert flow.page_s(SLOT_NS, 3 * SLOT_NS) == [0.5]
