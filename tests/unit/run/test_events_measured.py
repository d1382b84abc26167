"""One client's run in an event: the control before it, the place it is sent to, and what is put back afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from lab.clients.last_words import last_words, reported
from lab.hosts.host import Completed
from lab.hosts.linux_settings import SYSCTLS
from lab.model.endpoints import Endpoints
from lab.model.errors import LabFault, NotSupported
from lab.model.transfer import Transfer
from lab.model.units import Size
from lab.run.arrived import Arrived
from lab.run.events import client_run, lookups, no_answer, refusal
from lab.run.events.client_run import Bench, Ports, prepare, said
from lab.run.events.lookups import CONTROL, HTTP_PORT, measure_names
from lab.run.events.no_answer import BOTH, PORT, Both, addresses, measure_fallback, measure_silence
from lab.run.events.refusal import CLOSED_PORT, Connected, measure_refusal
from lab.run.events.send_buffer import fixed_send_buffer

ENDS = Endpoints("10.0.0.9", "/s", "/c", "/c/ca", "/c/known", "/c/key")


def transfer(direction: str = "get", **more: Any) -> Transfer:
    return Transfer.model_validate({"protocol": "http1", "direction": direction, "size": "1 MB", **more})


def done(code: int = 0, out: bytes = b"", error: bytes = b"") -> Completed:
    return Completed((), code, out, error, 0, 1, 0, 0)


@dataclass
class Host:
    """Notes what is done to it; `answers` are what its commands print."""

    name: str
    told: list[Any]
    address: str = "10.0.0.9"
    capture_port: str = "lo"
    workdir: PurePosixPath = field(default_factory=lambda: PurePosixPath("/w"))
    answers: list[str] = field(default_factory=list)
    said: bytes = b""

    @property
    def under_test(self) -> Host:
        return self

    def program(self, name: str) -> str:
        return f"/bin/{name}"

    def write(self, path: str, text: bytes) -> None:
        self.told.append(("write", self.name, path, text))

    def run(self, argv: list[str], **how: Any) -> Any:
        self.told.append(("run", self.name, argv[-3:], how))
        return SimpleNamespace(text=self.answers.pop(0) if self.answers else "", error_text="denied")

    def start(self, argv: list[str], **how: Any) -> Any:
        self.told.append(("start", self.name, argv, how))
        return SimpleNamespace(
            wait=lambda timeout_s: done(7, error=f"waited {timeout_s:g}".encode()),
            stop=lambda: self.told.append(("stop", self.name)) or done(0, self.said),  # type: ignore[func-returns-value]
        )


@dataclass
class World:
    """A bench whose client knows everything but `cannot`."""

    told: list[Any] = field(default_factory=list)
    cannot: str = ""

    def __post_init__(self) -> None:
        self.client, self.server = Host("client", self.told), Host("server", self.told)

    def payload(self, host: Host, size: int) -> Any:
        return SimpleNamespace(name=f"{size}-{host.name}", size=size, sha256="f" * 64)

    @property
    def bench(self) -> Bench:
        adapter: Any = SimpleNamespace(
            name="curl",
            supports=lambda _: self.cannot,
            inputs=lambda _, ends: {"/c/list": ends.payload.encode()},
            command=lambda _, ends: ["curl", f"{ends.server}:{ends.http_port}:{ends.https_port}:{ends.ssh_port}"],
            environment=lambda ends: {"TO": ends.server},
        )
        servers: Any = SimpleNamespace(endpoints=ENDS, payload=self.payload, next_upload_name=lambda name: f"up-{name}")
        network: Any = SimpleNamespace(client=self.client, server=self.server)
        return Bench(network, servers, adapter)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    def ready(servers: list[Any]) -> None:
        made.told.append(("ready", servers[0].name, servers[0].checks))

    for module in (no_answer, lookups):
        monkeypatch.setattr(module, "wait_ready", ready)
    return made


# --- a client ready to start ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "place", "payload"),
    [
        ({}, "10.0.0.9:80:443:22", "1000000-server"),
        ({"server": "localhost"}, "localhost:80:443:22", "1000000-client"),
        ({"server": "10.0.0.5", "http_port": 9}, "10.0.0.5:9:443:22", "1000000-server"),
        ({"ports": Ports(1, 2, 3)}, "10.0.0.9:1:2:3", "1000000-server"),
    ],
)
def test_a_client_is_sent_to_the_place_of_the_event(world: World, more: Any, place: str, payload: str) -> None:
    attempt = prepare(world.bench, transfer(), **more)
    assert attempt.command == ["curl", place]
    assert world.told == [("write", "client", "/c/list", payload.encode())]
    assert (attempt.endpoints.payload, attempt.endpoints.upload_name) == (payload, f"up-{payload}")
    assert attempt.run(5.0).stderr == b"waited 5"
    assert world.told[-1] == ("start", "client", ["curl", place], {"env": {"TO": place.partition(":")[0]}, "cwd": "/c"})


def test_an_upload_comes_from_the_client(world: World) -> None:
    assert prepare(world.bench, transfer("put")).endpoints.payload == "1000000-client"


def test_what_cannot_be_done_or_checked_is_refused(world: World) -> None:
    for more in ({"files": 2}, {"discard": True}):
        with pytest.raises(NotSupported, match="an event needs a transfer of one file that is kept"):
            prepare(world.bench, transfer(**more))
    with pytest.raises(NotSupported, match="an event needs"):
        prepare(world.bench, transfer("put", sink=True))
    world.cannot = "no HTTP"
    with pytest.raises(NotSupported, match=r"^curl cannot do it: no HTTP"):
        prepare(world.bench, transfer())


@pytest.mark.parametrize(
    ("direction", "place"), [("get", ("client", "/c/out/1000000-server")), ("put", ("server", "/s/upload/up-1000000-client"))]
)
def test_the_file_is_checked_where_it_arrived(world: World, monkeypatch: pytest.MonkeyPatch, direction: str, place: Any) -> None:
    looked: list[Any] = []

    def collect(host: Host, path: str) -> Arrived:
        looked.append((host.name, path))
        return Arrived(5)

    monkeypatch.setattr(client_run, "collect", collect)
    assert prepare(world.bench, transfer(direction)).content() == "5 of 1000000 bytes arrived"
    assert looked == [place]


def test_last_words_are_at_most_two_hundred_characters() -> None:
    assert last_words(done(1, error=b"  " + b"x" * 300)) == "x" * 200
    assert last_words(done(1, out=b'{"message": "' + b"y" * 300 + b'"}')) == "y" * 200
    assert last_words(done(1, out=b"first\n", error=b"second\n 123 \n")) == "second"
    assert reported(b'{"a": [1, {"message": "deep"}]}') == "deep"
    assert reported(b'{"message": 5}') == ""
    assert reported(b"[]") is reported(b"no JSON") is None
    assert [said(each) for each in (done(), done(out=b" \n"), done(out=b"a"), done(error=b"b"))] == [False, False, True, True]


# --- no connection ----------------------------------------------------------------------------------------------------


def connecting(monkeypatch: pytest.MonkeyPatch, outcome: str, world: World) -> None:
    def connect(host: Host, server: str, port: int, timeout_s: float = 5.0) -> Connected:
        world.told.append(("connect", host.name, server, port, timeout_s))
        return Connected(outcome, 0.02)

    for module in (refusal, no_answer):
        monkeypatch.setattr(module, "try_connect", connect)


def test_a_refusal_is_measured_where_a_plain_connection_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    connecting(monkeypatch, "ECONNREFUSED", world)
    found = measure_refusal(world.bench, transfer(), "localhost")
    assert (found.control_s, found.done.returncode, found.done.stderr) == (0.02, 7, b"waited 30")
    assert world.told[0] == ("connect", "client", "localhost", CLOSED_PORT, 5.0)
    assert world.told[-1][2] == ["curl", f"localhost:{CLOSED_PORT}:443:22"]
    connecting(monkeypatch, "open", world)
    with pytest.raises(LabFault, match=r"^port 9 of localhost does not refuse \(open\)"):
        measure_refusal(world.bench, transfer(), "localhost")


def test_a_plain_connection_has_a_limit_and_its_script_a_longer_one(world: World) -> None:
    world.client.answers = ["open 0.25\n"]
    host: Any = world.client
    assert refusal.try_connect(host, "10.0.0.9", 80, 3.0) == Connected("open", 0.25)
    assert world.told == [("run", "client", ["10.0.0.9", "80", "3.0"], {"timeout_s": 13.0})]


@pytest.mark.parametrize(
    ("places", "checks"),
    [
        (["10.0.0.9=silent"], (f"listen,,{PORT}",)),
        (["127.0.0.1=serves", "::1=silent"], (f"http,127.0.0.1,{PORT},/ready",)),
        (["127.0.0.1=serves", "::1=serves"], (f"http,127.0.0.1,{PORT},/ready", f"http,::1,{PORT},/ready")),
    ],
)
def test_addresses_are_ready_where_they_serve_and_end_with_the_block(world: World, places: list[str], checks: Any) -> None:
    host: Any = world.server
    with pytest.raises(KeyboardInterrupt), addresses(host, places):
        raise KeyboardInterrupt
    start, ready, stop = world.told
    assert start[2][-2 - len(places) :] == [str(PORT), "/w", *places]
    assert (ready[2], stop) == (checks, ("stop", "server"))


@pytest.mark.parametrize("own", [True, False])
def test_silence_is_measured_where_a_plain_connection_gets_no_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    connecting(monkeypatch, "timeout", world)
    monkeypatch.setattr(no_answer, "connect_within", lambda name, seconds: [f"--{name}-within", str(seconds)])
    found = measure_silence(world.bench, transfer(), own=own)
    assert found
    assert (found.control, found.done.stderr, found.content) == (Connected("timeout", 0.02), b"waited 200", "")
    assert ("connect", "client", "10.0.0.9", PORT, 3.0) in world.told
    command = next(each[2] for each in world.told if each[:2] == ("start", "client"))
    assert command == ["curl", f"10.0.0.9:{PORT}:443:22", *(["--curl-within", "5"] if own else [])]
    assert world.told[-1] == ("stop", "server")
    connecting(monkeypatch, "open", world)
    with pytest.raises(LabFault, match=f"^a connection to port {PORT} of 10.0.0.9 should end as timeout, not open"):
        measure_silence(world.bench, transfer(), own=own)


def test_a_client_without_a_time_out_of_its_own_is_not_asked_for_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(no_answer, "connect_within", lambda *_: [])
    assert measure_silence(world.bench, transfer(), own=True) is None
    assert world.told == []


def test_of_two_addresses_the_one_in_service_is_the_control(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    connecting(monkeypatch, "open", world)
    monkeypatch.setattr("lab.hosts.loopback.has_ipv6", lambda _: True)
    monkeypatch.setattr(client_run, "collect", lambda *_: Arrived(1_000_000, "f" * 64))
    found = measure_fallback(world.bench, transfer(), Both("silent", "serves"))
    assert (found.content, found.done.stderr) == ("", b"waited 200")
    assert ("connect", "client", "::1", PORT, 3.0) in world.told
    assert world.told[-1] == ("stop", "client")
    for port, ipv6 in (("eth0", True), ("lo", False)):
        world.client.capture_port = port
        monkeypatch.setattr("lab.hosts.loopback.has_ipv6", lambda _, ipv6=ipv6: ipv6)
        with pytest.raises(NotSupported, match="localhost has one address here"):
            measure_fallback(world.bench, transfer(), BOTH)


# --- names and buffers ------------------------------------------------------------------------------------------------


def test_look_ups_are_counted_after_a_control(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_run, "collect", lambda *_: Arrived(1_000_000, "f" * 64))
    world.client.said = f"query {CONTROL} A\nquery localhost AAAA\n".encode()
    found = measure_names(world.bench, transfer())
    assert (found.control, found.queries, found.content) == ((f"{CONTROL} A",), ("localhost AAAA",), "")
    assert found.done.stderr == b"waited 30"
    kinds = [each[0] for each in world.told]
    assert kinds == ["write", "start", "ready", "run", "start", "stop"]
    assert world.told[2] == ("ready", "the resolver's sink", (f"http,127.0.0.1,{HTTP_PORT},/ready",))
    assert world.told[3][2][-2:] == ["lookup", CONTROL]
    assert world.told[4][2] == ["curl", f"localhost:{HTTP_PORT}:443:22"]
    world.client.said = b"query localhost AAAA\n"
    with pytest.raises(LabFault, match="does not ask the lab's sink"):
        measure_names(world.bench, transfer())


@pytest.mark.parametrize(("size", "value"), [(65_536, "4096 65536 65536"), (1_000, "1000 1000 1000")])
def test_a_send_buffer_is_fixed_inside_the_block_and_automatic_again_afterwards(world: World, size: int, value: str) -> None:
    automatic = SYSCTLS["net.ipv4.tcp_wmem"]
    world.server.answers = [value.replace(" ", "\t"), automatic]
    host: Any = world.server
    with pytest.raises(KeyboardInterrupt), fixed_send_buffer(host, Size(size)):
        raise KeyboardInterrupt
    assert [each[2][-1] for each in world.told] == [value, automatic]
    assert all(each[3] == {"root": True, "check": False} for each in world.told)


def test_a_kernel_that_keeps_its_own_value_is_the_labs_fault(world: World) -> None:
    world.server.answers = ["4096 16384 4194304", SYSCTLS["net.ipv4.tcp_wmem"]]
    host: Any = world.server
    with pytest.raises(LabFault) as caught, fixed_send_buffer(host, Size(65_536)):
        pass
    assert caught.value.message == "server: net.ipv4.tcp_wmem cannot be set to '4096 65536 65536': denied"
    assert caught.value.remedy == "use --backend namespaces"
