"""A competing flow from its start to its figures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.model.errors import LabFault
from lab.net.flow import Flow, RunningFlow, flowing
from lab.net.flow_script import SLOT_NS
from tests.support.noted_hosts import Noted, NotedNetwork


def document(received: int, pages: list[list[float]] | None = None) -> bytes:
    return b"ready\n" + json.dumps({"received": [[0, received]], "pages": pages or []}).encode()


def said(words: tuple[str, ...]) -> bytes:
    return document(1) if words[1] == "serve" else document(2, [[5, 0.25]])


@pytest.mark.parametrize(
    ("text", "direction", "words", "received"),
    [
        ("bulk:bbr", "up", ("bulk", "10.77.2.2", "4748", "up", "bbr"), 1),
        ("bulk", "down", ("bulk", "10.77.2.2", "4748", "down", "cubic"), 2),
        ("cbr:1MB/s", "up", ("cbr", "10.77.2.2", "4748", "up", "1000000"), 1),
        ("web", "up", ("web", "10.77.2.2", "4748", "7"), 2),
        ("web", "down", ("web", "10.77.2.2", "4748", "7"), 2),
    ],
)
def test_a_flow_runs_three_seconds_before_the_block_and_its_receiver_counts(
    text: str, direction: str, words: tuple[str, ...], received: int
) -> None:
    network: Any = NotedNetwork(answers={"flow_script": said})
    with flowing(network, Flow.parse(text), direction, 7) as flow:  # type: ignore[arg-type]
        network.clock.sleep(9.0)
        assert flow.received == []
    assert network.notes == [
        Noted(0.0, "server", "start", ("flow_script", "serve", "4748")),
        Noted(0.5, "client", "start", ("flow_script", *words)),
        Noted(13.0, "client", "stop", ("flow_script", "30")),
        Noted(13.0, "server", "stop", ("flow_script", "30")),
    ]
    assert flow.received == [(0, received)]
    assert flow.pages == [(5, 0.25)]


def test_no_flow_starts_nothing() -> None:
    network: Any = NotedNetwork()
    with flowing(network, None, "up", 7) as flow:
        pass
    assert (network.notes, flow.received, flow.byte_s(0, 10**9)) == ([], [], 0.0)


@pytest.mark.parametrize("text", [b"", b"ready\n", b"ready\nTraceback"])
def test_a_flow_that_ends_early_is_the_labs_fault(text: bytes) -> None:
    network: Any = NotedNetwork(answers={"flow_script": text})
    with pytest.raises(LabFault, match="the flow cbr 1 MB/s ended early"), flowing(network, Flow.parse("cbr:1MB/s"), "up", 7):
        pass
    assert [note.what for note in network.notes[-2:]] == ["stop", "stop"]


def test_it_is_stopped_where_the_block_fails() -> None:
    network: Any = NotedNetwork(answers={"flow_script": said})
    with pytest.raises(KeyError), flowing(network, Flow.parse("bulk"), "up", 7):
        raise KeyError
    assert [note.what for note in network.notes[-2:]] == ["stop", "stop"]


def test_how_flows_are_called() -> None:
    assert [str(Flow.parse(each)) for each in ("bulk", "bulk:bbr", "cbr:1MB/s", "web")] == [
        "bulk cubic",
        "bulk bbr",
        "cbr 1 MB/s",
        "web",
    ]


def test_a_second_is_what_its_complete_tenths_hold() -> None:
    flow = RunningFlow()
    flow.received = [(0, 10), (SLOT_NS, 20), (2 * SLOT_NS, 30), (4 * SLOT_NS, 40)]
    assert flow.byte_s(0, SLOT_NS) == pytest.approx(100)
    assert flow.byte_s(1, 3 * SLOT_NS - 1) == pytest.approx(200), "the second tenth alone"
    assert flow.byte_s(SLOT_NS, 5 * SLOT_NS) == pytest.approx((20 + 30 + 0 + 40) / 0.4)
    assert flow.byte_s(SLOT_NS, SLOT_NS) == 0.0
