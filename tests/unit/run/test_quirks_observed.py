"""What is observed of each event, and the answer that the observations make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.hosts.host import Completed
from lab.judge.quirks import ENDS_WITHIN_S
from lab.model.answer import Event, Observation
from lab.model.errors import ClientFault, LabFault
from lab.model.results import Verdict
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.run.events import quirks
from lab.run.events.client_run import Bench
from lab.run.events.flap import Interrupted
from lab.run.events.lookups import Lookups
from lab.run.events.no_answer import ASKED_S, BOTH, ONE_OF_TWO, Attempt, Both
from lab.run.events.quirks import Request, investigate, run_quirk
from lab.run.events.refusal import Connected, Refused
from lab.run.session import Session
from lab.store.run_dir import RunDir
from tests.unit.run.fake_lab import FakeLab

S = 1_000_000_000
TOPOLOGY = Topology.model_validate({"name": "plain", "description": "A test.", "link": {"rate": "8 Mbit/s"}})
GET = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "1 MB"})
NEW = ClientSpec(name="new", program="/opt/new")
BENCH: Any = SimpleNamespace(servers=SimpleNamespace(endpoints=SimpleNamespace(server="10.0.0.9")))


def done(code: int = 7, seconds: float = 1.5, said: str = "no luck", *, timed_out: bool = False) -> Completed:
    return Completed((), code, b"", said.encode(), 0, round(seconds * S), 0, 0, timed_out=timed_out)


def observed(event: Event) -> list[Observation]:
    return list(quirks._QUIRKS[event][0](BENCH, GET, TOPOLOGY))


def sentence(event: Event, rows: list[Observation]) -> str:
    return quirks._QUIRKS[event][1](rows)


def test_a_refusal_is_tried_three_times_by_the_server_and_by_the_own_host(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter([7, 7, 0, 7, 7, 7])
    monkeypatch.setattr(quirks, "measure_refusal", lambda *_: Refused(done(next(codes), 0.25), 0.125))
    rows = observed("refused")
    assert [row.name for row in rows] == ["10.0.0.9"] * 3 + ["localhost"] * 3
    assert rows[0].figures == {"wall_s": 0.25, "control_s": 0.125, "exit_code": 7.0}
    assert rows[0].facts == {"said": "no luck"}
    assert [bool(row.problem) for row in rows] == [False, False, True, False, False, False]
    assert sentence("refused", rows) == "refused connections were reported within 0.25 s"


def test_silence_is_met_with_the_own_time_out_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def measure(_: object, __: object, *, own: bool) -> Attempt | None:
        asked.append(own)
        return Attempt(done(seconds=5.0 if own else 131.0), Connected("timeout", 3.0))

    monkeypatch.setattr(quirks, "measure_silence", measure)
    rows = observed("silent")
    assert asked == [True, False]
    assert [(row.name, row.problem) for row in rows] == [(f"time-out of {ASKED_S} s", ""), ("no time-out", "")]
    assert rows[1].figures == {"wall_s": 131.0, "control_s": 3.0, "exit_code": 7.0}
    assert sentence("silent", rows) == "it gave up after 5.0 s (time-out of 5 s), 131.0 s (no time-out)"
    monkeypatch.setattr(quirks, "measure_silence", lambda *_, own: None if own else Attempt(done(), Connected("timeout", 3.0)))
    assert [row.name for row in observed("silent")] == ["no time-out"]


def test_an_own_time_out_is_held_against_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quirks, "measure_silence", lambda *_, **__: Attempt(done(seconds=20.0), Connected("timeout", 3.0)))
    assert [bool(row.problem) for row in observed("silent")] == [True, False]


def test_each_address_of_two_is_compared_with_both(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {BOTH: 0.5, ONE_OF_TWO[0]: 0.75, ONE_OF_TWO[1]: 1.0, ONE_OF_TWO[2]: 0.5, ONE_OF_TWO[3]: 100.0}
    monkeypatch.setattr(
        quirks, "measure_fallback", lambda _, __, both: Attempt(done(0, seconds[both], ""), Connected("open", 0.01))
    )
    rows = observed("fallback")
    assert [row.name for row in rows] == [BOTH.name, *(each.name for each in ONE_OF_TWO)]
    assert [bool(row.problem) for row in rows] == [False, False, False, False, True]
    assert sentence("fallback", rows[:4]) == "the other address was used within 0.50 s"
    assert rows[0].facts == {}, "a client that succeeded has no last words"


def test_queries_for_localhost_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Lookups(done(0, 0.5, "fine"), "", ("control A",), ("localhost A", "localhost AAAA"))
    monkeypatch.setattr(quirks, "measure_names", lambda *_: found)
    rows = observed("localhost")
    assert len(rows) == 3
    assert rows[0].figures == {"queries": 2.0, "control_queries": 1.0, "wall_s": 0.5, "exit_code": 0.0}
    assert (rows[0].name, rows[0].facts) == ("localhost", {"asked": "localhost A, localhost AAAA"})
    assert rows[0].problem
    clean = Lookups(done(0, 0.5, ""), "", ("control A",), ())
    monkeypatch.setattr(quirks, "measure_names", lambda *_: clean)
    rows = observed("localhost")
    assert [(row.problem, row.facts) for row in rows] == [("", {})] * 3
    assert sentence("localhost", rows) == "no query for localhost in 3 runs, and the control was counted"


def interrupted(code: int = 0, silent: int | None = 9, content: str = "") -> Interrupted:
    return Interrupted(done(code, 4.0, "broken pipe"), content, 1.5, 5_000, 1.25, silent)


def test_an_interruption_is_seen_three_times_and_another_address_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def flap(*_: object, down_s: float, patience_s: float) -> Interrupted:
        asked.append((down_s, patience_s))
        return interrupted(7 if len(asked) == 2 else 0)

    monkeypatch.setattr(quirks, "measure_flap", flap)
    rows = observed("flap")
    assert asked == [(1.0, ENDS_WITHIN_S)] * 3
    assert rows[0].name == "link down"
    assert rows[0].figures == {
        "begun_s": 1.5,
        "moved_bytes": 5_000.0,
        "lasted_s": 1.25,
        "ended_after_s": 2.5,
        "exit_code": 0.0,
        "wire_bytes_meanwhile": 9.0,
    }
    assert [row.facts for row in rows] == [
        {"content": "whole"},
        {"content": "whole", "said": "broken pipe"},
        {"content": "whole"},
    ]
    ends = "at most 2.5 s after it began"
    assert sentence("flap", rows) == f"2 of 3 finished whole, the others ended with an error, {ends}"
    assert sentence("flap", [rows[0]]) == f"1 of 1 finished whole, {ends}"

    def address(*_: object, patience_s: float) -> Interrupted:
        asked.append(patience_s)
        return interrupted(silent=None, content="5 of 9 bytes arrived")

    monkeypatch.setattr(quirks, "measure_address_change", address)
    (row,) = observed("address")
    assert (row.name, asked[-1], "wire_bytes_meanwhile" in row.figures) == ("other address", ENDS_WITHIN_S, False)
    assert (row.facts["content"], bool(row.problem)) == ("5 of 9 bytes arrived", True)


def test_a_client_that_did_not_get_that_far_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def flap(*_: object, **__: object) -> Interrupted:
        raise ClientFault("failed before anything was done to it")

    monkeypatch.setattr(quirks, "measure_flap", flap)
    rows = observed("flap")
    assert [(row.name, row.problem) for row in rows] == [("link down", "failed before anything was done to it")] * 3
    assert sentence("flap", rows).startswith("0 of 3 finished whole")


@pytest.mark.parametrize(
    ("platform", "facts", "found"),
    [
        ("linux", {"build": "1"}, {}),
        ("windows", {"build": "26100.1", "version": "11"}, {"client_version": "10.0.26100.1"}),
        ("windows", {"build": "", "version": "11"}, {"client_version": "11"}),
        ("windows", {}, {"client_version": "Windows"}),
    ],
)
def test_a_system_that_is_not_the_machines_is_named(platform: str, facts: Any, found: dict[str, str]) -> None:
    host: Any = SimpleNamespace(platform=platform, facts=lambda: facts)
    assert quirks._client_system(host) == found


# --- the answer -------------------------------------------------------------------------------------------------------


@pytest.fixture
def session(fake_lab: FakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    made = fake_lab.session(RunDir.create("test", results=tmp_path))
    network: Any = fake_lab.open("events")
    network.client.platform = "linux"
    asked: list[Any] = []

    @contextmanager
    def bench(what: str, topology: Topology, *, real: bool, client: ClientSpec, transfer: Transfer) -> Iterator[Any]:
        asked.append((what, topology, real, client, transfer))
        yield network, "servers"

    monkeypatch.setattr(made, "bench", bench)
    monkeypatch.setattr(made, "asked", asked, raising=False)
    return made


def test_an_answer_has_what_was_observed_and_the_judgement_of_it(session: Session) -> None:
    request = Request(NEW, TOPOLOGY, GET, "flap", "x")
    rows = [Observation(name="a", figures={"f": 1.0}), Observation(name="b")]

    def take(bench: Bench) -> Iterator[Observation]:
        bench.started.extend([["new", "--get"], ["new", "--get", "again"]])
        return iter(rows)

    answer = investigate(session, request, take, lambda seen: Verdict(name="PASS", reason=f"{len(seen)} seen"))
    assert request.id == answer.id == "new--plain--http1-get-1MB--flap-x"
    assert Request(NEW, TOPOLOGY, GET, "flap").id == "new--plain--http1-get-1MB--flap"
    assert (answer.question, answer.observations, answer.judged.reason) == ("flap", rows, "2 seen")
    assert answer.client
    assert (answer.client.command, answer.client.program) == (["new", "--get"], "/opt/new")
    assert (answer.backend, answer.clocks, answer.topology, answer.transfer) == ("fake", ["real"], TOPOLOGY, GET)
    without = Request(NEW, TOPOLOGY, GET, "flap", "y")
    idle = investigate(session, without, lambda _: iter(rows), lambda _: Verdict(name="PASS", reason=""))
    assert idle.client
    assert idle.client.command == [], "a command is recorded only where it ran"
    assert session.answers == [answer, idle]
    assert session.asked == [(each.id, TOPOLOGY, False, NEW, GET) for each in (request, without)]  # type: ignore[attr-defined]
    windows = Request(ClientSpec(name="new", program="new.exe"), TOPOLOGY, GET, "flap")
    investigate(session, windows, lambda _: iter(rows), lambda _: Verdict(name="PASS", reason=""))
    assert session.asked[-1][2], "Windows runs in real time"  # type: ignore[attr-defined]


def test_a_fault_of_the_lab_is_invalid_and_keeps_what_was_seen_before(session: Session) -> None:
    def take(_: object) -> Iterator[Observation]:
        yield Observation(name="a")
        raise LabFault("the router is gone")

    answer = investigate(session, Request(NEW, TOPOLOGY, GET, "flap"), take, lambda _: Verdict(name="PASS", reason=""))
    assert (answer.judged.name, answer.judged.reason) == ("INVALID", "the router is gone")
    assert [row.name for row in answer.observations] == ["a"]


def test_an_event_is_run_to_its_verdict(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quirks, "measure_address_change", lambda *_, **__: interrupted())
    answer = run_quirk(session, NEW, TOPOLOGY, GET, "address")
    assert (answer.judged.name, answer.judged.reason) == ("PASS", "1 of 1 finished whole, at most 2.5 s after it began")
    assert answer.id == "new--plain--http1-get-1MB--address"


@pytest.mark.parametrize(
    ("both", "places", "serving", "name"),
    [
        (BOTH, ["127.0.0.1=serves", "::1=serves"], "127.0.0.1", "127.0.0.1 serves, ::1 serves"),
        (Both("silent", "serves"), ["127.0.0.1=silent", "::1=serves"], "::1", "127.0.0.1 silent, ::1 serves"),
        (Both("serves", "refuses"), ["127.0.0.1=serves"], "127.0.0.1", "127.0.0.1 serves, ::1 refuses"),
        (Both("refuses", "serves"), ["::1=serves"], "::1", "127.0.0.1 refuses, ::1 serves"),
    ],
)
def test_an_address_that_refuses_needs_no_program(both: Both, places: list[str], serving: str, name: str) -> None:
    assert (both.places, both.serving, both.name) == (places, serving, name)
