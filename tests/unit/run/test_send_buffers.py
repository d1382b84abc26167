"""The speed-up that an automatic send buffer brings: a ratio of paired times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.clients.ferry import Ferry
from lab.model.answer import Observation
from lab.model.endpoints import Endpoints
from lab.model.errors import NotSupported
from lab.model.load import load_topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import Size
from lab.run.events import send_buffers
from lab.run.events.quirks import Request
from lab.run.events.send_buffers import Off, compare_send_buffers, judge, speed_up
from lab.run.session import Session
from lab.store.run_dir import RunDir

FIXED = Size(64 << 10)
UPLOAD = Transfer(protocol="http1", direction="put", size=Size.parse("4 MiB"))
TOPOLOGY = load_topology("far-200")
ENDS = Endpoints("server", "/run/lab/server", "/run/lab/client", "/c/ca.pem", "/c/.ssh/known_hosts", "/c/.ssh/key")


class Ports:
    """In place of the sampler of ports."""

    def __init__(self, _network: object) -> None: ...

    def __enter__(self) -> Ports:
        return self

    def __exit__(self, *_: object) -> None: ...


def told(
    *rows: dict[str, Any], monkeypatch: pytest.MonkeyPatch, fixed: Size | Off = FIXED
) -> tuple[list[Observation], list[str]]:
    """The observations of as many transfers, each with its numbers, and how each was made: its index, its arm."""
    happened: list[str] = []
    samples = iter(rows)

    @contextmanager
    def fix(host: str, size: Size) -> Iterator[None]:
        happened.append(f"{host} fixed to {size.bytes}")
        yield
        happened.append("automatic again")

    def take(_network: object, _servers: object, adapter: Ferry, _transfer: Transfer, index: int, *, ports: Ports) -> Any:
        assert isinstance(ports, Ports)
        happened.append(f"{index} {adapter.sndbuf}")
        usual: dict[str, Any] = {"wall_s": 1.5, "body_byte_s": 2e6, "problem": "", "client": None}
        return SimpleNamespace(**{**usual, **next(samples)})

    for name, instead in (("PortSampler", Ports), ("fixed_send_buffer", fix), ("take_sample", take)):
        monkeypatch.setattr(send_buffers, name, instead)
    bench: Any = SimpleNamespace(network=SimpleNamespace(client="host"), servers=None, adapter=Ferry())
    return list(send_buffers._rounds(bench, UPLOAD, fixed, len(rows) // 2 + len(rows) % 2)), happened


def test_rounds_alternate_and_the_hosts_buffer_is_fixed_for_one_arm_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found, happened = told({}, {}, {}, {}, monkeypatch=monkeypatch)
    as_usual = Ferry().sndbuf
    fixed = [f"host fixed to {FIXED.bytes}", "{} " + str(as_usual), "automatic again"]
    first, second = ([word.format(index) for word in fixed] for index in (0, 1))
    assert happened == [*first, f"0 {as_usual}", f"1 {as_usual}", *second]
    assert [row.name for row in found] == ["fixed", "automatic", "automatic", "fixed"]
    assert [row.figures["round"] for row in found] == [1.0, 1.0, 2.0, 2.0]
    assert found[0].figures == {"round": 1.0, "time_s": 1.5, "body_MBps": 2.0}
    assert found[0].facts == {}


def test_a_switch_leaves_the_host_alone_and_what_the_client_reports_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    report = SimpleNamespace(raw={"sndbuf": {"refused": 1, "ideal": 5}})
    found, happened = told({"client": report}, {"body_byte_s": None}, monkeypatch=monkeypatch, fixed="off")
    assert happened == ["0 off", "0 auto"]
    assert found[0].facts == {"sndbuf": '{"ideal": 5, "refused": 1}'}
    assert found[1].figures == {"round": 1.0, "time_s": 1.5}


def test_a_transfer_that_failed_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    found, happened = told({}, {"problem": "cut off"}, {}, {}, monkeypatch=monkeypatch)
    assert [row.problem for row in found] == ["", "cut off"]
    assert len(happened) == 4


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
