"""One transfer put together: what the client is started with, what is asked of whom, and every figure of the sample."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from lab.clients import usage
from lab.hosts.host import Completed, Ports
from lab.model.diagnosis import Diagnosis
from lab.model.endpoints import Endpoints
from lab.model.link import Link
from lab.model.results import ClientNumbers, Sample
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size
from lab.net.ports import PortCounters, PortReading
from lab.net.series import SLOT_NS
from lab.run import sample as module
from lab.run import sets
from lab.run.arrived import Arrived
from lab.run.sample import patience_s, take_sample
from lab.run.timed import Timed
from lab.servers.payload import Payload, PayloadSet

MS, S = 1_000_000, 1_000_000_000
SIZE = 1_000_000
INTACT = Arrived(SIZE, "f" * 64)
MARK = "ROUGHWATER_SAMPLE=" + "00" * 8
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
TIMED = Timed(start_s=0.1, body_s=0.5, error_s=0.01, clock="wire", total_s=0.8, tail_s=0.2, said_s=0.45)


def transfer(**more: Any) -> Transfer:
    return Transfer.model_validate({"protocol": "http1", "direction": "get", "size": Size(SIZE), **more})


def numbers(**more: Any) -> ClientNumbers:
    known: dict[str, Any] = {"bytes": SIZE, "total_s": 0.7, "connect_s": None, "tls_s": None, "first_byte_s": None, "raw": {}}
    return ClientNumbers.model_validate({**known, "http_version": "1.1", "status": 200, **more})


@dataclass
class Host:
    """Keeps what is done to it."""

    name: str
    told: list[Any]
    capture_port: str = ""

    @property
    def under_test(self) -> Host:
        return self

    def prepare_folder(self, path: str) -> None:
        self.told.append((self.name, "folder", path))

    def write(self, path: str, text: bytes) -> None:
        self.told.append((self.name, "write", path, text))

    def run(self, argv: list[str], **how: Any) -> Completed:
        self.told.append((self.name, "run", argv, how))
        return Completed(tuple(argv), 0, b"", b"", 10 * S, 11 * S, 0.25, 0.5)

    def end_processes(self, mark: str) -> None:
        self.told.append((self.name, "end", mark))


@dataclass
class World:
    """A network, servers and a client that report what a test wants."""

    told: list[Any] = field(default_factory=list)
    report: Any = None
    timed: Timed = TIMED
    arrived: Arrived = INTACT
    files: list[Any] = field(default_factory=list)
    contradicted: str = ""

    def __post_init__(self) -> None:
        self.client, self.server, self.wire = (Host(name, self.told) for name in ("client", "server", "wire"))
        self.network: Any = SimpleNamespace(
            client=self.client,
            server=self.server,
            wire=self.wire,
            wire_ports=Ports(client="c", server="s"),
            router_ports=Ports(client="to-client", server="to-server"),
            clock=SimpleNamespace(kind="virtual", now=lambda: WHEN, monotonic_ns=lambda: 9 * S),
            random_bytes=bytes,
        )
        ends = Endpoints("10.0.0.9", "/s", "/c", "/c/ca", "/c/known", "/c/key")
        self.servers: Any = SimpleNamespace(
            endpoints=ends,
            next_upload_name=lambda name: f"up-{name}",
            payload=lambda host, size: Payload(f"{size}B-{host.name}", size, "f" * 64, PurePosixPath("/p")),
            payload_set=lambda host, size, files: PayloadSet(f"{files}x{size}-{host.name}", size, {}, PurePosixPath("/p")),
            network=self.network,
            nginx=SimpleNamespace(sink_counts="/counts"),
            endpoint=None,
        )
        self.adapter: Any = SimpleNamespace(
            name="it",
            inputs=lambda _, ends: {"/c/list": ends.payload.encode()},
            command=lambda _, ends: ["it", ends.payload],
            environment=lambda _: {"A": "1"},
            parse=lambda *_: self.report or numbers(),
        )
        self.sampler: Any = SimpleNamespace(between=self.between, grid=None)

    def between(self, start_ns: int, end_ns: int) -> list[PortReading]:
        self.told.append(("between", start_ns, end_ns))
        return [
            PortReading(start_ns + at * 10 * MS, {"c": PortCounters(0, 0, at * 15_140, at * 10), "s": PortCounters(0, 0, 0, 0)})
            for at in range(101)
        ]

    def take(self, wanted: Transfer, **how: Any) -> Sample:
        return take_sample(self.network, self.servers, self.adapter, wanted, 3, ports=self.sampler, **how)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    counts = iter([module._Counted(1, 2, 3), module._Counted(6, 8, 10)] * 9)

    def collect(host: Host, path: str, note: str = "") -> Arrived:
        made.told.append((host.name, "collect", path, note))
        return made.arrived

    def collect_set(host: Host, path: str) -> list[Any]:
        made.told.append((host.name, "collect set", path))
        return made.files

    def sink_count(host: Host, counts: str, uri: str) -> Arrived:
        made.told.append((host.name, "sink", counts, uri))
        return made.arrived

    def peak_bytes(host: Host, note: str, _: object) -> int:
        return len(f"{host.name} {note}")

    monkeypatch.setattr(usage, "find_time", lambda host: f"time of {host.name}")
    monkeypatch.setattr(usage, "wrap", lambda command, time, path: [time, path, *command])
    monkeypatch.setattr(usage, "peak_bytes", peak_bytes)
    monkeypatch.setattr(module, "_count", lambda *_: next(counts))
    monkeypatch.setattr(module, "collect", collect)
    monkeypatch.setattr(module, "sink_count", sink_count)
    monkeypatch.setattr(sets, "collect_set", collect_set)
    monkeypatch.setattr(sets, "problem", lambda found, _: "" if found else "no files")
    monkeypatch.setattr(sets, "repeat_problem", lambda found, count, _: "" if len(found) == count else "too few answers")
    monkeypatch.setattr(module, "tap_for", lambda *_: None)
    monkeypatch.setattr(module, "time_sample", lambda *_, **__: made.timed)
    monkeypatch.setattr(Timed, "contradiction", lambda *_: made.contradicted)
    return made


def test_a_client_is_started_with_all_that_it_needs_and_its_processes_are_ended(world: World) -> None:
    world.take(transfer(), timeout_s=9.0)
    payload = f"{SIZE}B-server"
    assert world.told[0] == ("client", "write", "/c/list", payload.encode())
    assert world.told[1] == (
        "client",
        "run",
        ["time of client", f"/c/out/{payload}.rss", "it", payload],
        {"env": {"A": "1", "ROUGHWATER_SAMPLE": "00" * 8}, "cwd": "/c", "timeout_s": 9.0, "check": False},
    )
    assert world.told[2:] == [
        ("client", "end", MARK),
        ("client", "collect", f"/c/out/{payload}", f"/c/out/{payload}.rss"),
        ("between", 10 * S, 11 * S + SLOT_NS),
    ]
    world.told.clear()
    world.take(transfer())
    assert world.told[1][3]["timeout_s"] == patience_s(transfer()) == 600.0


def test_every_figure_of_a_good_sample(world: World) -> None:
    link = Link.model_validate({"rate": "80 Mbit/s"}).direction("down")
    found = world.take(transfer(limit=ByteRate(1_600_000)), link=link)
    assert (found.index, found.exit_code, found.ok, found.problem) == (3, 0, True, "")
    # The lab asks for the client a second before it starts.
    assert found.started_at == WHEN + timedelta(seconds=1)
    assert (found.expected_bytes, found.wall_s, found.cpu_user_s, found.cpu_system_s) == (SIZE, 1.0, 0.25, 0.5)
    assert (found.body_s, found.body_clock, found.body_error_s, found.said_body_s, found.tail_s) == (0.5, "wire", 0.01, 0.45, 0.2)
    assert (found.body_byte_s, found.total_byte_s) == (2e6, SIZE / 0.8)
    assert found.deviation == pytest.approx(0.25)
    assert found.goodput_ratio == pytest.approx(2e6 / (1448 / 1514 * 1e7))
    assert found.series
    assert found.burst_ratio == pytest.approx(found.series.begun_window_byte_s / 1.6e6)
    assert found.wire
    assert (found.wire.wire_bytes_down, found.wire.retransmits, found.wire.router_drops_up) == (1_514_000, 5, 7)
    assert (found.requests_per_s, found.pcap, found.why, found.file_times_s) == (None, None, None, [])
    assert (found.slowest_stream_byte_s, found.fastest_stream_byte_s) == (None, None)
    assert found.max_rss_bytes == len("client ")


def test_the_figures_of_several_streams_and_of_requests(world: World) -> None:
    world.report = numbers(bytes=4 * SIZE, stream_byte_s=[1e6, 3e6])
    found = world.take(transfer(files=4, parallel=2, discard=True))
    assert found.problem.endswith("of 4000000 bytes crossed the wire"), "thrown away content must have come"
    assert (found.slowest_stream_byte_s, found.fastest_stream_byte_s, found.requests_per_s) == (None, None, None)
    world.report = numbers(bytes=4000, stream_byte_s=[1e6, 3e6])
    found = world.take(transfer(size=Size(1000), files=4, parallel=2, discard=True))
    assert (found.problem, found.requests_per_s) == ("", 4 / 0.5)
    assert (found.slowest_stream_byte_s, found.fastest_stream_byte_s) == (1e6, 3e6)


@pytest.mark.parametrize(
    ("report", "timed", "total_byte_s"),
    [
        (numbers(), Timed(body_s=0.5, clock="client"), SIZE / 0.7),
        (numbers(bytes=None), Timed(body_s=0.5, clock="client", total_s=0.5), SIZE / 0.5),
        (numbers(total_s=0.0), Timed(), None),
    ],
)
def test_a_total_is_the_wires_or_the_clients(world: World, report: Any, timed: Timed, total_byte_s: float | None) -> None:
    world.report, world.timed = report, timed
    assert world.take(transfer()).total_byte_s == total_byte_s


def test_without_a_body_there_is_neither_its_clock_nor_its_rate(world: World) -> None:
    world.timed = Timed(error_s=0.01, clock="wire")
    found = world.take(transfer(limit=ByteRate(1_000_000)))
    assert (found.body_s, found.body_clock, found.body_error_s, found.body_byte_s, found.deviation) == (None,) * 5


def test_a_sample_with_a_problem_has_no_rate(world: World) -> None:
    world.arrived = Arrived(5)
    found = world.take(transfer(limit=ByteRate(1_000_000)))
    assert (found.ok, found.problem) == (False, f"5 of {SIZE} bytes arrived")
    assert (found.body_byte_s, found.deviation, found.goodput_ratio) == (None, None, None)
    assert (found.body_s, found.total_byte_s) == (0.5, SIZE / 0.8), "what the client says that it moved is kept"
    world.arrived, world.contradicted = INTACT, "it lies"
    assert world.take(transfer()).problem == "it lies"
    world.report = numbers(bytes=7)
    assert world.take(transfer()).problem == f"it reports 7 of {SIZE} bytes", "the client's own report comes first"


@pytest.mark.parametrize(
    ("wanted", "looked"),
    [
        (transfer(direction="put"), ("server", "collect", f"/s/upload/up-{SIZE}B-client", "")),
        (transfer(direction="put", sink=True), ("server", "sink", "/counts", f"/sink/up-{SIZE}B-client")),
        (transfer(direction="put", protocol="sftp", files=2), ("server", "collect set", f"/s/upload/up-2x{SIZE}-client")),
        (transfer(protocol="h2", files=2), ("client", "collect set", f"/c/out/2x{SIZE}-server")),
        (transfer(protocol="h2", files=2, repeat=True), ("client", "collect set", f"/c/out/{SIZE}B-server")),
    ],
)
def test_what_arrived_is_looked_at_where_it_arrived(world: World, wanted: Transfer, looked: Any) -> None:
    world.files = [SimpleNamespace(ended_ns=10 * S + 500 * MS), SimpleNamespace(ended_ns=10 * S + 750 * MS)]
    world.report = numbers(bytes=wanted.total_bytes, http_version="")
    found = world.take(wanted)
    assert looked in world.told
    assert found.problem == ""
    folder = [each for each in world.told if each[1] == "folder"]
    assert folder == ([(looked[0], "folder", looked[2])] if wanted.files > 1 else [])
    assert found.file_times_s == ([0.5, 0.75] if wanted.kept_set else [])


def test_content_that_is_thrown_away_leaves_nothing_to_look_at(world: World) -> None:
    world.take(transfer(size=Size(10), discard=True))
    assert [each for each in world.told if each[1] == "collect"] == [
        ("client", "collect", "/c/out/10B-server", "/c/out/10B-server.rss")
    ], "its memory's note only"


# --- what happens meanwhile -------------------------------------------------------------------------------------------


def test_packets_are_captured_where_the_content_arrives(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    places: list[Any] = []

    @contextmanager
    def capture(host: Host, port: str, path: Path, *, clock: object, complete: bool) -> Iterator[None]:
        assert not complete, "content is not evidence where nothing has to be decrypted"
        del clock
        places.append((host.name, port, path.name))
        yield

    monkeypatch.setattr(module, "capture", capture)
    found = world.take(transfer(), pcap_dir=tmp_path)
    assert found.pcap == "sample-003.pcap"
    world.client.capture_port = "eth7"
    world.take(transfer(), pcap_dir=tmp_path)
    world.take(transfer(direction="put"), pcap_dir=tmp_path)
    assert places == [("wire", "c", found.pcap), ("client", "eth7", found.pcap), ("wire", "s", found.pcap)]


@pytest.mark.parametrize("protocol", ["https1", "h2", "h3"])
@pytest.mark.parametrize("written", [b"CLIENT_RANDOM 01 02\n", b""])
def test_the_keys_of_a_captured_transfer_lie_next_to_its_capture(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, protocol: str, written: bytes
) -> None:
    complete: list[bool] = []

    def capture(*_: object, **how: Any) -> Any:
        complete.append(how["complete"])
        return nullcontext()

    def run(argv: list[str], **how: Any) -> Completed:
        world.told.append(("client", "run", argv, how))
        return Completed(tuple(argv), 0, written if argv[0] == "cat" else b"", b"", 10 * S, 11 * S, 0.25, 0.5)

    monkeypatch.setattr(module, "capture", capture)
    monkeypatch.setattr(world.client, "run", run)
    found = world.take(transfer(protocol=protocol), pcap_dir=tmp_path)
    (started,) = [how["env"] for _, what, argv, how in (each for each in world.told if each[1] == "run") if "it" in argv]
    place = started["SSLKEYLOGFILE"]
    assert place.startswith("/c/"), "on the client's host"
    assert complete == [True]
    keys = tmp_path / "sample-003.keys"
    assert (keys.read_bytes() if keys.exists() else b"") == written
    assert not written or keys.stat().st_mode & 0o077 == 0
    assert ("client", "run", ["rm", "-f", "--", place], {"root": True, "check": False}) in world.told
    assert "CLIENT_RANDOM" not in found.model_dump_json()


def test_a_transfer_that_is_not_captured_writes_no_keys(world: World) -> None:
    world.take(transfer(protocol="h2"))
    assert all("SSLKEYLOGFILE" not in how.get("env", {}) for _, what, _, how in (e for e in world.told if e[1] == "run"))


def test_a_schedule_begins_with_the_client_and_has_no_one_best(world: World) -> None:
    @contextmanager
    def schedule() -> Iterator[Any]:
        yield SimpleNamespace(start=lambda: world.told.append(("begun",)))

    link = Link.model_validate({"rate": "80 Mbit/s"}).direction("down")
    found = world.take(transfer(), schedule=schedule(), link=link)
    assert found.goodput_ratio is None
    assert world.told.index(("begun",)) == 1
    assert world.told[2][1] == "run"


def test_a_watched_sample_says_what_held_it_back_and_a_failed_sample_what_was_dropped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    watching = SimpleNamespace(dropped_at=lambda: {"to-client": 2})

    @contextmanager
    def watch(_: object) -> Iterator[object]:
        yield watching

    def explain(network: object, by: object, rows: Any, done: Completed, link: Link | None, wanted: Transfer) -> Diagnosis:
        asked.append((network is world.network, by, len(rows), done.wall_s, link, wanted))
        return Diagnosis(cause="line", share=0.9, sentence="limited by the line")

    monkeypatch.setattr(module, "Watch", watch)
    monkeypatch.setattr(module, "explain", explain)
    link = Link.model_validate({"rate": "80 Mbit/s"})
    good = world.take(transfer(), watched=link)
    assert asked == [(True, watching, 101, 1.0, link, transfer())]
    assert good.why
    assert good.why.sentence == "limited by the line"
    running = SimpleNamespace(start=lambda: None)
    changed = world.take(transfer(), watched=link, schedule=nullcontext(running))
    assert asked.pop()[4] is None, "a line that changes has no one rate"
    assert changed.why
    assert changed.why.sentence == "not known: the link changes, and so does what it can carry"
    for schedule in (None, nullcontext(running)):
        world.report = numbers(bytes=1)
        bad = world.take(transfer(), watched=link, schedule=schedule)
        assert bad.why
        assert bad.why.sentence.startswith("the transfer failed; the router dropped 2 packets")
    asked.clear()
    world.take(transfer())
    assert not asked


def test_a_tap_is_read_for_the_time_of_the_client(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def between(*ends: int) -> str:
        seen.append(ends)
        return "events"

    def time_sample(*words: Any, ip: object) -> Timed:
        seen.append(words[3])
        return TIMED

    monkeypatch.setattr(module, "tap_for", lambda *_: SimpleNamespace(between=between))
    monkeypatch.setattr(module, "time_sample", time_sample)
    world.take(transfer())
    assert seen == [(10 * S, 11 * S), "events"]
