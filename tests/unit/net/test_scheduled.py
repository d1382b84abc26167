"""A link with a schedule around one sample: which commands the router gets, when, and what happens where a change was late."""

from __future__ import annotations

from typing import Any

import pytest

from lab.link.schedule import plan_changes, plan_state
from lab.link.trace import delay_change, opening_bytes, setup
from lab.model.errors import LabFault, NotSupported, UsageProblem
from lab.model.link import Link
from lab.model.topology import Schedule, Topology
from lab.model.trace import Trace, TraceDirection, TraceRtt, packed
from lab.model.units import Duration
from lab.net import scheduled as module
from lab.net.scheduled import RunningSchedule, Script, scheduled
from tests.support.noted_hosts import Noted, NotedNetwork

LINK = Link.model_validate({"rate": "20 Mbit/s", "rtt": "30 ms", "seed": 4})
STEPS = {"steps": [{"at": "1 s", "rate": "5 Mbit/s"}]}
PORTS: dict[Any, str] = {"up": "to-server", "down": "to-client"}
DELETED = [("tc", "qdisc", "del", "dev", port, "root") for port in PORTS.values()]


def topology(schedule: dict[str, Any] | Schedule | None) -> Topology:
    return Topology.model_validate({"name": "t", "description": "-", "link": LINK, "schedule": schedule})


def traced(*rtts: str) -> Topology:
    sides = [TraceDirection(file="x", sha256="", frames=packed(counts)) for counts in ((2, 0, 1), (3, 0, 0, 4))]
    changes = tuple(TraceRtt(at=Duration.parse(f"{index} ms"), rtt=Duration.parse(rtt)) for index, rtt in enumerate(rtts))
    return topology(Schedule(trace=Trace(down=sides[0], up=sides[1], rtts=changes)))


@pytest.fixture(name="shaped", autouse=True)
def shaped_links(monkeypatch: pytest.MonkeyPatch) -> list[Link]:
    """The plain links that were put on the router."""
    found: list[Link] = []
    monkeypatch.setattr(module, "shape", lambda _, link: found.append(link))
    return found


def runs(network: NotedNetwork) -> list[tuple[str, ...]]:
    return [note.words for note in network.notes if note.what == "run"]


def test_a_link_that_stays_as_it_is_needs_nothing(shaped: list[Link]) -> None:
    network: Any = NotedNetwork()
    with scheduled(network, topology(None)) as running:
        assert running is None
    assert (network.notes, shaped) == ([], [])


def test_a_schedule_runs_in_virtual_time_only() -> None:
    network: Any = NotedNetwork(kind="real")
    with pytest.raises(NotSupported, match="virtual time only"), scheduled(network, topology(STEPS)):
        pass
    assert network.notes == []


@pytest.mark.parametrize(("repeat", "repeat_ns"), [(None, 0), ("2 s", 2 * 10**9)])
def test_steps_are_one_file_for_one_tc(shaped: list[Link], repeat: str | None, repeat_ns: int) -> None:
    network: Any = NotedNetwork(answers={"schedule_script": b"1000 1500\n2000 2003\n"})
    asked = topology({**STEPS, "repeat": repeat})
    assert asked.schedule
    with scheduled(network, asked) as running:
        assert running
        assert running.base_ns == 0, "it has not begun"
        begin = [each for port, way in zip(DELETED, PORTS, strict=True) for each in (port, *_states(asked, way))]
        assert runs(network) == begin
        assert not any(note.what == "start" for note in network.notes)
        network.clock.sleep(4.9)
        running.start()
        assert network.clock.monotonic_ns() == running.base_ns
        assert not shaped
    rows = [
        "\t".join((str(at_ns), *(" ".join(command[1:]) for command in commands))) + "\n"
        for at_ns, commands in plan_changes(LINK, asked.schedule, PORTS)
    ]
    started = [note for note in network.notes if note.what in ("write", "start", "stop")]
    assert started == [
        Noted(4.9, "router", "write", ("/work/schedule", "".join(rows))),
        Noted(4.9, "router", "start", ("schedule_script", "/work/schedule", str(running.base_ns), str(repeat_ns), "tc")),
        Noted(5.0, "router", "stop", ("schedule_script", "2")),
    ]
    assert runs(network) == [*begin, *DELETED]
    assert shaped == [LINK]


def _states(asked: Topology, way: Any) -> list[tuple[str, ...]]:
    assert asked.schedule
    return plan_state(asked.schedule.states(LINK)[0], way).setup(PORTS[way])


def test_a_trace_has_a_script_for_each_way() -> None:
    network: Any = NotedNetwork(answers={"trace_script": b"1000\n"})
    asked = traced()
    with scheduled(network, asked) as running:
        assert running
        assert asked.schedule
        trace: Any = asked.schedule.trace
        state = asked.schedule.states(LINK)[0]
        expected: list[tuple[str, ...]] = []
        for deleted, way in zip(DELETED, PORTS, strict=True):
            expected += [deleted, *setup(trace, state, way, PORTS[way])]
        assert runs(network) == expected
        running.start()
    base = str(running.base_ns)
    written = [note.words for note in network.notes if note.what == "write"]
    up, down = (
        "".join(f"{at} 0 {size}\n" for at, size in opening_bytes(trace, LINK, way))  # type: ignore[arg-type]
        for way in ("up", "down")
    )
    assert written == [("/work/trace-up", f"to-server 32 50\n\n{up}"), ("/work/trace-down", f"to-client 32 50\n\n{down}")]
    assert [note.words for note in network.notes if note.what == "start"] == [
        ("trace_script", "/work/trace-up", base, "4000000"),
        ("trace_script", "/work/trace-down", base, "3000000"),
    ]


def test_round_trips_of_a_trace_are_a_schedule_of_their_own() -> None:
    network: Any = NotedNetwork(answers={"trace_script": b"1000\n"})
    asked = traced("40 ms", "60 ms")
    assert asked.schedule
    with scheduled(network, asked) as running:
        assert running
        running.start()
    path, text = [note.words for note in network.notes if note.what == "write"][-1]
    states = asked.schedule.states(LINK)
    trace: Any = asked.schedule.trace
    rows = [
        [str(state.at_ns), *(" ".join(delay_change(trace, state, way, index, port)[1:]) for way, port in PORTS.items())]
        for index, state in enumerate(states)
    ]
    assert len(rows) == 2
    assert (path, [row.split("\t") for row in text.splitlines()]) == ("/work/schedule", rows)
    started = [note.words for note in network.notes if note.what == "start"][-1]
    assert started[3:] == ("3000000", "tc"), "with the period of the download"


def test_a_trace_whose_file_was_not_read_is_refused() -> None:
    network: Any = NotedNetwork()
    with pytest.raises(UsageProblem, match="its trace has not been read"), scheduled(network, topology({"trace": "lte.csv"})):
        pass


@pytest.mark.parametrize(("late_ns", "ok"), [(1_000_000, True), (1_000_001, False)])
def test_a_change_may_be_a_millisecond_late(shaped: list[Link], late_ns: int, ok: bool) -> None:
    for schedule, name, text in (
        (topology(STEPS), "schedule_script", f"10 20\n1000 {1000 + late_ns}\n2000 2003\n"),
        (traced(), "trace_script", f"{late_ns}\n"),
    ):
        network: Any = NotedNetwork(answers={name: text.encode()})
        with scheduled(network, schedule) as running:
            assert running
            running.start()
            if ok:
                running.stop()
                running.stop()
                begun, stopped = ([note for note in network.notes if note.what == what] for what in ("start", "stop"))
                assert len(begun) == len(stopped), "each once"
            else:
                with pytest.raises(LabFault, match=r"the link changed 1.000 ms late \(at most 1 ms\)"):
                    running.stop()
    assert len(shaped) == 2


def test_a_script_that_fails_is_the_labs_fault_and_the_link_is_plain_again() -> None:
    network: Any = NotedNetwork(answers={"schedule_script": b"Error: no such qdisc\n"}, codes={"schedule_script": 1})

    def sample() -> None:
        with scheduled(network, topology(STEPS)) as running:
            assert running
            running.start()

    with pytest.raises(LabFault, match="the link's schedule stopped: Error: no such qdisc"):
        sample()


def test_a_router_without_seeds_gets_none() -> None:
    network: Any = NotedNetwork(seed=False)
    with scheduled(network, topology(STEPS)):
        pass
    assert not any("seed" in command for command in runs(network))
    network = NotedNetwork()
    with scheduled(network, topology(STEPS)):
        pass
    assert any("seed" in command for command in runs(network))


@pytest.mark.parametrize(("rows", "lead_s"), [(1, 0.1), (41_000, 0.1), (170_000, 0.408)])
def test_a_long_trace_begins_once_its_scripts_have_read_it(rows: int, lead_s: float) -> None:
    """Both read on one processor. Up to 83,000 rows have the lead that they always had."""
    network: Any = NotedNetwork(answers={"trace_script": b"0\n"})
    scripts = [Script(f"trace-{way}", module._TRACE, b"1 0 1\n" * rows, 10**9, late_ns=int) for way in ("up", "down")]
    begun_ns = network.clock.monotonic_ns()
    running = RunningSchedule(network, scripts)
    running.start()
    assert running.base_ns - begun_ns == round(lead_s * 1e9)
