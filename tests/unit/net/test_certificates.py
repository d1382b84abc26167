"""Certificates of links: what their key follows from, when one is taken, and what makes a cell's lab invalid."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.assets import kernel
from lab.model.cell import Cell
from lab.model.link import Link
from lab.model.results import Calibration, Certificate, TraceDelivery, TraceDirectionDelivery
from lab.model.topology import Schedule, Topology
from lab.model.trace import Trace, TraceDirection, packed
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import ByteRate, Size
from lab.net import certificates
from lab.net.calibrate import Tolerance
from lab.net.certificates import begin_certificate, certificate_key, certified, lab_problems, take, too_slow
from tests.unit.store.conftest import make_calibration

LINK = Link.model_validate({"rate": "20 Mbit/s", "rtt": "20 ms"})
PLAIN = Topology(name="plain", description="-", link=LINK)
CHARGE = (1, 2)


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel and programs that this machine need not have."""
    monkeypatch.setattr(kernel, "facts", lambda: SimpleNamespace(sha256="k" * 64))
    monkeypatch.setattr(certificates, "host_program", lambda name: f"/bin/{name}")
    monkeypatch.setattr(certificates.files, "digest", lambda path: f"digest of {path}")


def trace(*counts: int) -> Schedule:
    side = TraceDirection(file="x", sha256="", frames=packed(counts))
    return Schedule(trace=Trace(down=side, up=side))


def key(topology: Topology = PLAIN, tolerance: Tolerance = Tolerance(), charge: tuple[int, int] = CHARGE) -> str:
    return certificate_key(topology, tolerance, charge)


def test_a_key_is_that_of_everything_the_calibration_follows_from(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = key()
    assert len(usual) == 64
    assert usual == key() == key(PLAIN.model_copy(update={"name": "other"})), "a name changes nothing"
    others = [
        key(PLAIN.model_copy(update={"link": Link.model_validate({"rate": "20 Mbit/s", "rtt": "21 ms"})})),
        key(PLAIN.model_copy(update={"congestion_control": "bbr"})),
        key(PLAIN.model_copy(update={"same_host": True})),
        key(PLAIN.model_copy(update={"schedule": trace(1, 2)})),
        key(PLAIN.model_copy(update={"schedule": trace(1, 3)})),
        key(tolerance=Tolerance(goodput=0.02)),
        key(tolerance=Tolerance(rtt_ms=2)),
        key(charge=(1, 3)),
    ]
    monkeypatch.setattr(kernel, "facts", lambda: SimpleNamespace(sha256="l" * 64))
    others.append(key())
    monkeypatch.setattr(kernel, "facts", lambda: SimpleNamespace(sha256="k" * 64))
    for program in ("iperf3", "tc", "ping"):
        monkeypatch.setattr(
            certificates.files, "digest", lambda path, program=program: f"digest of {path}" + "!" * (path.name == program)
        )
        others.append(key())
    monkeypatch.setattr(certificates.files, "digest", lambda path: f"digest of {path}")
    monkeypatch.setattr(certificates, "_EDITION", certificates._EDITION + 1)
    others.append(key())
    assert len({usual, *others}) == 1 + len(others)


def test_a_certificate_is_taken_once_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(certificates, "cache_dir", lambda: tmp_path)
    asked: list[object] = []

    def opened(_: int) -> Any:
        pytest.fail("nothing is opened here")

    def taken(*what: object) -> Calibration:
        asked.append(what)
        return make_calibration()

    monkeypatch.setattr(certificates, "take", taken)
    first = certified(PLAIN, Tolerance(), CHARGE, opened)
    assert asked == [(PLAIN, Tolerance(), opened, key())]
    assert certified(PLAIN, Tolerance(), CHARGE, opened) == first
    assert len(asked) == 1
    (file,) = (tmp_path / "certificates").iterdir()
    assert file.name == f"{key()}.json"
    file.write_text("{}")
    assert certified(PLAIN, Tolerance(), CHARGE, opened) == first
    assert len(asked) == 2, "what cannot be read is taken again"
    assert Calibration.model_validate_json(file.read_text()) == first


def test_a_cache_that_cannot_be_written_costs_time_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "certificates").write_text("a file")
    monkeypatch.setattr(certificates, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(certificates, "take", lambda *_: make_calibration())
    assert certified(PLAIN, Tolerance(), CHARGE, lambda _: pytest.fail("unused")).ok


class Steps:
    """The parts of a calibration, noted in their order; `found` is what it comes to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, found: Calibration, delivery: TraceDelivery | None = None) -> None:
        self.noted: list[object] = []
        self.network: Any = SimpleNamespace(server="server", close=lambda: self.noted.append("closed"))

        def note(name: str, answer: object = None) -> None:
            def step(*what: object, **more: object) -> object:
                self.noted.append((name, *what[1:], *more.items()))
                return answer

            monkeypatch.setattr(certificates, name, step)

        for name in ("pin", "assert_no_bypass", "shape", "wait_for_silence", "wait_ready"):
            note(name)
        note("launch_iperf3", "iperf3")
        note("calibrate", found)
        note("certify_trace", delivery)

    def opened(self, seed: int) -> Any:
        self.noted.append(("opened", seed))
        return self.network


def test_a_calibration_has_a_machine_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, make_calibration())
    assert take(PLAIN, Tolerance(), steps.opened, key()) == make_calibration()
    seeds = {seed for each in steps.noted if isinstance(each, tuple) and each[0] == "opened" for seed in each[1:]}
    assert steps.noted[1:] == [
        ("pin", "cubic", 1500),
        ("assert_no_bypass",),
        ("launch_iperf3",),
        ("wait_ready",),
        ("shape", LINK),
        ("calibrate", LINK, "cubic", ("tolerance", Tolerance())),
        "closed",
    ]
    take(PLAIN, Tolerance(), steps.opened, "another key")
    assert seeds != {each[1] for each in steps.noted[8:] if isinstance(each, tuple) and each[0] == "opened"}


def test_the_machine_is_closed_where_it_cannot_be_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, make_calibration())
    monkeypatch.setattr(certificates, "shape", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        take(PLAIN, Tolerance(), steps.opened, key())
    assert steps.noted[-1] == "closed"


def delivered(*problems: str) -> TraceDirectionDelivery:
    return TraceDirectionDelivery(
        delivered_bytes=[1], planned_bytes=[1], worst_slot_frames=0, mean_error=0, problems=list(problems)
    )


@pytest.mark.parametrize(("up", "down"), [((), ()), (("late",), ()), ((), ("early", "less"))])
def test_a_link_with_a_trace_is_also_certified_by_it(monkeypatch: pytest.MonkeyPatch, up: Any, down: Any) -> None:
    delivery = TraceDelivery(slot_ms=100, up=delivered(*up), down=delivered(*down))
    steps = Steps(monkeypatch, make_calibration(), delivery)
    found = take(PLAIN.model_copy(update={"schedule": trace(1, 2)}), Tolerance(), steps.opened, key())
    assert found.trace == delivery
    assert found.problems == [f"up: {each}" for each in up] + [f"down: {each}" for each in down]
    assert found.ok == (not found.problems)
    assert ("wait_for_silence", LINK) in steps.noted


def test_a_link_that_is_not_as_asked_is_not_certified_by_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = make_calibration().model_copy(update={"ok": False, "problems": ["slow"]})
    steps = Steps(monkeypatch, bad)
    assert take(PLAIN.model_copy(update={"schedule": trace(1, 2)}), Tolerance(), steps.opened, key()) == bad


def cell(limit: str | None, direction: str = "get", schedule: Schedule | None = None) -> Cell:
    transfer = Transfer.model_validate(
        {
            "protocol": "http1",
            "direction": direction,
            "size": Size.parse("5 MiB"),
            "limit": ByteRate.parse(limit) if limit else None,
        }
    )
    topology = PLAIN.model_copy(update={"schedule": schedule})
    expectation = Expectation(kind="none") if limit is None else Expectation()
    return Cell(client=ClientSpec(name="curl"), topology=topology, transfer=transfer, expectation=expectation)


def calibration(up_bit_s: float, down_bit_s: float, *problems: str) -> Calibration:
    found = make_calibration()
    ways = {
        name: getattr(found, name).model_copy(update={"goodput_bit_s": rate})
        for name, rate in (("up", up_bit_s), ("down", down_bit_s))
    }
    return found.model_copy(update={**ways, "problems": list(problems), "ok": not problems})


@pytest.mark.parametrize("direction", ["get", "put"])
def test_a_link_that_carries_just_enough_can_judge_a_limit(direction: str) -> None:
    asked = cell("1 MB/s", direction)
    needed = asked.needed_byte_s
    assert needed
    assert needed >= 1e6

    def carries(bit_s: float) -> Calibration:
        return calibration(1e9, bit_s) if direction == "get" else calibration(bit_s, 1e9)

    assert too_slow(asked, carries(needed * 8)) == ""
    assert (
        too_slow(asked, carries(needed * 8 - 1))
        == f"the link carries {needed * 8e-6:.2f} Mbit/s, too little to judge a limit of 8.00 Mbit/s"
    )
    assert too_slow(cell(None, direction), carries(1)) == ""


def test_a_link_that_changes_is_as_slow_as_at_its_worst() -> None:
    slow = Schedule.model_validate({"steps": [{"at": "1 s", "rate": "5 Mbit/s"}]})
    said = too_slow(cell("1 MB/s", schedule=slow), calibration(1e9, 1e9))
    assert said == f"the link carries {5 * 1448 / 1514:.2f} Mbit/s at its worst, too little to judge a limit of 8.00 Mbit/s"
    fast = Schedule.model_validate({"steps": [{"at": "1 s", "rate": "50 Mbit/s"}]})
    assert too_slow(cell("1 MB/s", schedule=fast), calibration(1e9, 1e9)) == ""


def certificate(before: list[Calibration], after: list[Calibration]) -> Certificate:
    shaped: Any = SimpleNamespace(commands=("tc a", "tc b"))
    found = begin_certificate(cell("1 MB/s"), shaped, before, Tolerance(0.03, 2.0))
    assert (found.link, found.congestion_control, found.goodput_tolerance, found.rtt_tolerance_ms) == (LINK, "cubic", 0.03, 2.0)
    assert (found.before, found.after, found.qdisc_commands, found.qdisc_readback) == (before, [], ["tc a", "tc b"], {})
    return found.model_copy(update={"after": after})


def test_the_last_look_before_and_the_last_after_say_what_the_lab_was() -> None:
    good, bad, worse = calibration(1e9, 1e9), calibration(1e9, 1e9, "slow"), calibration(1e9, 1e9, "lossy", "late")
    assert lab_problems(cell("1 MB/s"), certificate([bad, good], [worse, good])) == []
    assert lab_problems(cell("1 MB/s"), certificate([bad], [])) == ["before: slow"]
    assert lab_problems(cell("1 MB/s"), certificate([bad], [good, worse])) == ["before: slow", "after: lossy", "after: late"]
    narrow = calibration(1e6, 1e6)
    assert lab_problems(cell("1 MB/s"), certificate([bad, narrow], [good]))[0].startswith("the link carries 1.00 Mbit/s")
