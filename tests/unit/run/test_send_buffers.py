"""The speed-up that an automatic send buffer brings: a ratio of paired times."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.clients.ferry import Ferry
from lab.model.answer import Observation
from lab.model.endpoints import Endpoints
from lab.model.errors import NotSupported
from lab.model.load import load_topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import Size
from lab.run.events.quirks import Request
from lab.run.events.send_buffers import compare_send_buffers, judge, speed_up
from lab.run.session import Session
from lab.store.run_dir import RunDir

FIXED = Size(64 << 10)
UPLOAD = Transfer(protocol="http1", direction="put", size=Size.parse("4 MiB"))
TOPOLOGY = load_topology("far-200")
ENDS = Endpoints("server", "/run/lab/server", "/run/lab/client", "/c/ca.pem", "/c/.ssh/known_hosts", "/c/.ssh/key")


def rows(*pairs: tuple[float, float]) -> list[Observation]:
    made = []
    for fixed, automatic in pairs:
        for name, time_s in (("fixed", fixed), ("automatic", automatic)):
            made.append(Observation(name=name, figures={"time_s": time_s}))
    return made


def test_the_speed_up_is_the_ratio_of_each_round() -> None:
    found = speed_up(rows((10.0, 2.0), (5.0, 1.0), (20.0, 4.0)))
    assert found is not None
    assert (found.n, found.mean, found.low, found.high) == (3, *[pytest.approx(5.0)] * 3)
    slower = speed_up(rows((1.0, 2.0), (1.0, 4.0)))
    assert slower is not None
    assert slower.low < slower.mean == pytest.approx(8**-0.5)


def test_one_round_has_no_interval_and_a_failed_upload_fails() -> None:
    assert speed_up(rows((1.0, 2.0))) is None
    assert judge(rows((1.0, 2.0)), FIXED).name == "PASS"
    verdict = judge([*rows((10.0, 2.0), (5.0, 1.0)), Observation(name="fixed", problem="short", figures={"time_s": 1.0})], FIXED)
    assert (verdict.name, verdict.interval) == ("FAIL", None)
    assert "5.00 times as fast" in judge(rows((10.0, 2.0), (5.0, 1.0)), FIXED).reason


def test_by_the_clients_own_switch(tmp_path: Path) -> None:
    told = judge(rows((10.0, 2.0), (5.0, 1.0)), "off").reason
    assert "with --sndbuf off 7.50 s" in told
    request = Request(ClientSpec(name="ferry"), TOPOLOGY, UPLOAD, "send-buffers", "off")
    assert request.id == "ferry--far-200--http1-put-4MiB--send-buffers-off"
    assert Request(ClientSpec(name="ferry"), TOPOLOGY, UPLOAD, "send-buffers").id == request.id.removesuffix("-off")
    with (
        Session(RunDir.create("test", results=tmp_path)) as session,
        pytest.raises(NotSupported, match="only ferry has a switch"),
    ):
        compare_send_buffers(session, ClientSpec(name="curl"), TOPOLOGY, UPLOAD, fixed="off", rounds=1)
    for mode in ("off", "auto"):
        words = Ferry(sndbuf=mode).command(UPLOAD, ENDS)
        assert words[words.index("--sndbuf") + 1] == mode
    assert "--sndbuf" not in Ferry().command(UPLOAD, ENDS)
