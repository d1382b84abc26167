"""What becomes of a fault: its plan, the programs that make it, and the judgement of a client that met it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from lab.hosts.host import Completed
from lab.judge.faults import DEADLINE_S, Left
from lab.model.answer import Fault, Observation
from lab.model.errors import LabFault, NotSupported, UsageProblem
from lab.model.topology import Topology
from lab.model.transfer import Transfer
from lab.model.units import Size
from lab.run.events import faults
from lab.run.events.faults import HARMED, ODD, Stage, draw, judge, observe, refusal, set_up

S = 1_000_000_000
WORKDIR = PurePosixPath("/w")
WHOLE = Left(300_000)
TOPOLOGY = Topology.model_validate({"name": "plain", "description": "A test.", "link": {"rate": "8 Mbit/s"}})


def transfer(protocol: str = "http1", direction: str = "get", size: int = 300_000) -> Transfer:
    return Transfer.model_validate({"protocol": protocol, "direction": direction, "size": Size(size)})


# --- plans ------------------------------------------------------------------------------------------------------------


def drawn(fault: Fault, *, high: bool, share: float = 0.0, size: int = 300_000) -> dict[str, Any]:
    """The plan where every number is the least, or the greatest, that may be drawn."""
    at = -1 if high else 0
    rng: Any = SimpleNamespace(
        randint=lambda *ends: ends[at],
        randrange=lambda count: count - 1 if high else 0,
        choice=lambda values: values[at],
        random=lambda: share,
    )
    return draw(fault, transfer(size=size), 4, rng)


def test_one_sample_in_six_is_harmed_within_the_last_two_kibibytes() -> None:
    assert [drawn("fin", high=high, share=0.833)["at"] for high in (False, True)] == [1, 300_000]
    assert [drawn("fin", high=high, share=0.834)["at"] for high in (False, True)] == [300_000, 300_000 - 2048]
    assert drawn("fin", high=True, share=0.834, size=1000)["at"] == 1


PLAN = {"sample": 4, "direction": "get"}


@pytest.mark.parametrize(
    ("fault", "low", "high"),
    [
        ("rst", {"at": 1}, {"at": 300_000}),
        ("corrupt", {"at": 1, "bit": 0, "bytes": 1}, {"at": 300_000, "bit": 7, "bytes": 100}),
        (
            "http-error",
            {"at": 1, "status": 500, "retry_after_s": 0, "times": 1},
            {"at": 300_000, "status": 504, "retry_after_s": 2, "times": 2},
        ),
        (
            "wrong-range",
            {"at": 1, "shift": -1, "unnamed": True},
            {"at": 299_999, "shift": 100_000, "unnamed": True},
        ),
        ("length-long", {"at": 1, "extra": 1}, {"at": 300_000, "extra": 5000}),
        ("length-short", {"at": 1}, {"at": 299_999}),
        ("chunked-cut", {"at": 1}, {"at": 299_999}),
        ("early-success", {"at": 1, "abrupt": True}, {"at": 149_999, "abrupt": True}),
    ],
)
def test_a_plan_is_within_its_bounds(fault: Fault, low: dict[str, Any], high: dict[str, Any]) -> None:
    assert drawn(fault, high=False) == PLAN | {"fault": fault} | low
    assert drawn(fault, high=True) == PLAN | {"fault": fault} | high


@pytest.mark.parametrize("fault", ["down-1s", "down-5s", "down-30s", "address"])
def test_what_the_lab_does_itself_is_only_marked_in_the_first_seven_tenths(fault: Fault) -> None:
    assert drawn(fault, high=False) == PLAN | {"fault": "mark", "at": 1}
    assert drawn(fault, high=True) == PLAN | {"fault": "mark", "at": 209_999}


def test_three_ranges_in_ten_have_no_name_and_half_of_the_successes_are_abrupt() -> None:
    assert [drawn("ignored-range", high=True, share=share)["unnamed"] for share in (0.29, 0.31)] == [True, False]
    assert [drawn("early-success", high=True, share=share)["abrupt"] for share in (0.49, 0.51)] == [True, False]


@pytest.mark.parametrize(
    ("fault", "protocol", "direction", "reason"),
    [
        ("fin", "h3", "get", "QUIC has neither FIN nor RST, and an attacker cannot write its close"),
        ("rebind", "h2", "get", "a TCP connection ends where its NAT forgets it"),
        ("killed", "h3", "put", "a server from a userland is not started again by the programs of the machine"),
        ("http-error", "sftp", "get", "the lab has no SFTP server that lies"),
        ("wrong-range", "h2", "put", "wrong-range is a fault of downloads"),
        ("early-success", "http1", "get", "early-success is a fault of uploads"),
        ("length-short", "h2", "get", "nginx, which the lab has in front of its odd server, cuts a body to its announced length"),
        (
            "early-success",
            "h2",
            "put",
            "nginx, which the lab has in front of its odd server, passes an upload on when it is complete",
        ),
        ("corrupt", "sftp", "put", ""),
        ("rebind", "h3", "put", ""),
        ("http-error", "https1", "put", ""),
    ],
)
def test_a_fault_that_cannot_be_is_refused_with_its_reason(fault: Fault, protocol: str, direction: str, reason: str) -> None:
    assert refusal(fault, transfer(protocol, direction)) == reason


# --- a stage ----------------------------------------------------------------------------------------------------------


@dataclass
class Host:
    """A host that keeps files and notes commands."""

    name: str
    address: str = "10.0.0.9"
    workdir: PurePosixPath = WORKDIR
    files: dict[str, bytes] = field(default_factory=dict)
    started: list[list[str]] = field(default_factory=list)
    answer: str = ""

    @property
    def under_test(self) -> Host:
        return self

    def program(self, name: str) -> str:
        return f"/bin/{name}"

    def write(self, path: object, data: bytes, **_: object) -> None:
        self.files[str(path)] = data

    def read(self, path: object) -> bytes:
        return self.files[str(path)]

    def start(self, argv: list[str]) -> Any:
        self.started.append(argv)
        return SimpleNamespace(stop=lambda: self.started.append(["stop", argv[0]]))

    def run(self, argv: list[str], **_: object) -> Any:
        self.started.append(argv)
        return SimpleNamespace(text=self.answer)


def bench() -> Any:
    ends = SimpleNamespace(
        http_port=80, https_port=443, ssh_port=22, known_hosts_path="/c/known_hosts", arrival_path=lambda _: "/c/out/F"
    )
    sshd = SimpleNamespace(name="sshd", known_hosts="10.0.0.9 ssh-ed25519 AAA\n[10.0.0.9]:22 ecdsa BBB\n", processes=())
    nginx = SimpleNamespace(name="nginx", processes=())
    payload = SimpleNamespace(path="/s/files/F")
    servers = SimpleNamespace(endpoints=ends, sshd=sshd, nginx=nginx, payload=lambda *_: payload)
    clock = SimpleNamespace(now_ns=0)
    clock.monotonic_ns = lambda: clock.now_ns
    clock.sleep = lambda seconds: setattr(clock, "now_ns", clock.now_ns + round(seconds * S))
    network = SimpleNamespace(client=Host("client"), server=Host("server"), clock=clock)
    return SimpleNamespace(network=network, servers=servers, adapter=SimpleNamespace(name="it"))


def stage(fault: Fault = "fin", wanted: Transfer | None = None) -> Stage:
    made = bench()
    return Stage(made, wanted or transfer(), TOPOLOGY, fault, PurePosixPath("/w/faults"), made.servers.nginx)


def test_a_client_speaks_to_the_program_that_makes_the_fault() -> None:
    for fault in ("fin", "rst", "corrupt", "killed", "down-1s", "down-5s", "down-30s", "address", "rebind"):
        assert stage(fault).ports == HARMED
    assert stage("http-error").ports == stage("length-long").ports == ODD
    assert stage().receiver.name == "client"
    assert stage(wanted=transfer(direction="put")).receiver.name == "server"


def test_a_plan_is_written_to_an_empty_log_and_a_killed_server_is_known_by_its_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[Any] = []
    monkeypatch.setattr(faults, "wait_ready", waited.append)
    monkeypatch.setattr(faults, "replace", lambda server, processes: (server.name, processes))
    made, told = stage(), {"fault": "fin"}
    made.plan(told)
    files = made.bench.network.server.files  # type: ignore[attr-defined]
    assert (json.loads(files["/w/faults/plan.json"]), files["/w/faults/log"]) == ({"fault": "fin"}, b"")
    assert waited == []
    killed = stage("killed")
    killed.harmed.processes = (SimpleNamespace(argv=("first",)), SimpleNamespace(argv=("nginx", "-c")))
    killed.plan(told)
    assert waited == [[("nginx", ())]]
    assert told == {"fault": "fin", "mark": "/w/nginx/nginx.conf", "argv": ("nginx", "-c"), "again_s": 1.0}
    assert Stage(bench(), transfer(), TOPOLOGY, "killed", PurePosixPath("/"), bench().servers.sshd).mark == "/w/sshd/sshd_config"


def test_events_are_the_lines_of_the_log() -> None:
    made = stage()
    made.bench.network.server.files["/w/faults/log"] = b'{"what": "a"}\n{"what": "b"}\n'  # type: ignore[attr-defined]
    assert made.events() == [{"what": "a"}, {"what": "b"}]


def start(fault: Fault, wanted: Transfer, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, Any]:
    """Hosts and what was waited for, after a stage was set up and taken down."""
    waited: list[Any] = []
    monkeypatch.setattr(faults, "wait_ready", waited.extend)
    made = bench()
    with ExitStack() as stack:
        found = set_up(stack, made, wanted, TOPOLOGY, fault)
        assert (found.fault, str(found.folder)) == (fault, "/w/faults")
        assert made.network.server.files["/w/faults/log"] == b""
        assert not [each for each in made.network.server.started if each[0] == "stop"]
    return made.network, waited, found


def test_a_relay_passes_every_port_on_and_the_client_knows_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    network, waited, found = start("fin", transfer(), monkeypatch)
    (argv, stopped) = network.server.started
    assert argv[-4:] == ["/w/faults", "8180:80", "8543:443", "8122:22"]
    assert stopped == ["stop", "/bin/python3"]
    assert [(each.name, each.checks) for each in waited] == [("the middle", ("http,10.0.0.9,8180,/ready",))]
    assert found.harmed.name == "nginx"
    assert network.client.files["/c/known_hosts"].decode() == (
        "10.0.0.9 ssh-ed25519 AAA\n[10.0.0.9]:22 ecdsa BBB\n[10.0.0.9]:8122 ssh-ed25519 AAA\n[10.0.0.9]:8122 ecdsa BBB\n"
    )
    network, _, _ = start("corrupt", transfer("h3"), monkeypatch)
    assert network.server.started[0][-1] == "udp:8543:443"
    assert start("killed", transfer("sftp"), monkeypatch)[2].harmed.name == "sshd"


def test_an_odd_server_has_nginx_in_front_where_tls_is_spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    network, waited, _ = start("http-error", transfer(), monkeypatch)
    assert network.server.started[0][-4:] == ["/w/faults", "8181", "/w/files", "/w/upload"]
    assert [(each.name, each.checks) for each in waited] == [("the odd server", ("http,10.0.0.9,8181,/ready",))]
    for protocol, quic in (("h2", False), ("h3", True)):
        network, waited, _ = start("http-error", transfer(protocol), monkeypatch)
        nginx = network.server.started[1]
        assert nginx == ["/bin/nginx", "-p", "/w/faults", "-c", "/w/faults/nginx.conf", "-e", "/w/faults/error.log"]
        assert (waited[1].name, waited[1].checks) == ("nginx in front", ("listen,10.0.0.9,8544",))
        config = network.server.files["/w/faults/nginx.conf"].decode()
        assert ("quic reuseport" in config) == quic
        assert f"proxy_pass http://127.0.0.1:{ODD.http};" in config
        assert [each[1] for each in network.server.started[2:]] == ["/bin/nginx", "/bin/python3"], "the last is stopped first"


@pytest.mark.parametrize("has_sshd", [False, True])
def test_a_server_from_a_userland_cannot_be_killed(monkeypatch: pytest.MonkeyPatch, *, has_sshd: bool) -> None:
    def find(name: str) -> str:
        if name == "sshd" and not has_sshd:
            raise UsageProblem(f"there is no {name}")
        return name

    def set_up_with(wanted: Transfer, fault: Fault) -> None:
        with ExitStack() as stack:
            set_up(stack, bench(), wanted, TOPOLOGY, fault)  # type: ignore[arg-type]

    monkeypatch.setattr(faults, "wait_ready", lambda _: None)
    monkeypatch.setattr(Host, "under_test", SimpleNamespace(program=find))
    set_up_with(transfer(), "fin")
    refused = [transfer(), transfer("sftp")] if has_sshd else [transfer()]
    for wanted in refused:
        with pytest.raises(NotSupported, match="is not started again"):
            set_up_with(wanted, "killed")
    if not has_sshd:
        set_up_with(transfer("sftp"), "killed")


# --- a transfer with a fault ------------------------------------------------------------------------------------------


@dataclass
class Met:
    """A client that met a fault at 5 s and ended at 7.5 s, 2 s after its start."""

    code: int = 0
    timed_out: bool = False
    left: Left = WHOLE
    events: list[dict[str, Any]] = field(
        default_factory=lambda: [
            {"what": "connection", "t_ns": 1 * S},
            {"what": "request", "t_ns": 1 * S},
            {"what": "fault", "t_ns": 5 * S},
            {"what": "lie", "t_ns": 6 * S},
            {"what": "fault", "t_ns": 7 * S},
            {"what": "connection", "t_ns": 6 * S},
        ]
    )

    def observed(self, monkeypatch: pytest.MonkeyPatch, fault: Fault = "fin", **told: Any) -> Observation:
        made = stage(fault)
        asked: list[Any] = []
        attempt = SimpleNamespace(endpoints=made.bench.servers.endpoints)
        done = Completed((), self.code, b"", b"broken pipe\n", 5_500_000_000, 7_500_000_000, 0, 0, timed_out=self.timed_out)

        def prepare(*_: object, ports: object) -> Any:
            asked.append(ports)
            return attempt

        monkeypatch.setattr(faults, "prepare", prepare)
        monkeypatch.setattr(faults, "_run", lambda *_: done)
        monkeypatch.setattr(faults, "what_is_left", lambda *_: self.left)
        monkeypatch.setattr(Stage, "plan", lambda _, plan: asked.append(plan))
        monkeypatch.setattr(Stage, "events", lambda _: self.events)
        plan = {"sample": 1, "fault": fault, "direction": "get", "mark": "m", "argv": [], "at": 77, **told}
        found = observe(made, plan)
        assert asked == [plan, made.ports]
        return found


def test_a_file_that_is_intact_after_a_fault_has_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Met(left=Left(300_000, others={"F.part": 5})).observed(monkeypatch, bit=3)
    assert (found.name, found.problem) == ("fin at byte 77", "")
    assert found.facts == {"outcome": "intact", "left": "the file; also F.part (5 bytes)", "plan": "at=77 bit=3"}
    assert found.figures == {
        "wall_s": 2.0,
        "exit_code": 0.0,
        "ended_after_s": 2.5,
        "attempts": 3.0,
        "left_bytes": 300_000.0,
        "differing_bytes": 0.0,
        "other_files": 1.0,
    }


def test_exit_code_0_with_a_wrong_file_is_the_clients_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Met(left=Left(300_000, differ=9)).observed(monkeypatch)
    assert found.problem == "exits 0 with a wrong file: 9 of 300000 bytes differ"
    assert (found.facts["outcome"], found.figures["differing_bytes"]) == ("wrong file", 9.0)


def test_an_error_is_right_and_keeps_the_clients_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Met(code=56, left=Left(-1)).observed(monkeypatch, "http-error", status=503)
    assert (found.name, found.problem) == ("503", "")
    assert (found.facts["outcome"], found.facts["said"], found.facts["left"]) == ("error", "broken pipe", "there is no file")
    assert (found.figures["exit_code"], found.figures["left_bytes"]) == (56.0, 0.0)
    assert Met().observed(monkeypatch, "error-cut", status=500).name == "500"


def test_a_client_that_does_not_end_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Met(code=137, timed_out=True).observed(monkeypatch)
    assert found.problem == "does not end: still running 2 s after the fault"
    late = Met(timed_out=True, events=[{"what": "fault", "t_ns": 8 * S}]).observed(monkeypatch)
    assert late.figures["ended_after_s"] == 0.0


def test_a_client_that_was_done_before_its_fault_was_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabFault, match=r"^fin at byte 77: the client was done before the fault was due"):
        Met(events=[]).observed(monkeypatch)
    found = Met(code=7, events=[{"what": "connection", "t_ns": S}]).observed(monkeypatch)
    assert found.problem == "failed with exit code 7 before anything was done to it: broken pipe"
    assert found.figures == {"wall_s": 2.0, "exit_code": 7.0, "ended_after_s": 0.0}


@dataclass
class Client:
    """A client's process, which runs for that long by the stage's clock."""

    made: Stage
    lasts_s: float
    told: list[Any] = field(default_factory=list)

    def running(self) -> bool:
        return self.made.bench.network.clock.monotonic_ns() < self.lasts_s * S

    def wait(self, timeout_s: float) -> Any:
        self.told.append(("wait", timeout_s))
        return "done"

    def stop(self, grace_s: float) -> None:
        self.told.append(("stop", grace_s))


def running(fault: Fault, monkeypatch: pytest.MonkeyPatch, *, log: bytes = b'{"what": "fault"}', lasts_s: float = 90.0) -> Client:
    """After the client's run with that fault, and what was done to the network."""
    made = stage(fault)
    client = Client(made, lasts_s)
    made.bench.network.server.files["/w/faults/log"] = log  # type: ignore[attr-defined]

    @contextmanager
    def noted(what: str) -> Iterator[None]:
        client.told.append(what)
        yield
        client.told.append(f"{what} over at {made.bench.network.clock.monotonic_ns() / S:g} s")

    monkeypatch.setattr(faults, "link_down", lambda *_: noted("down"))
    monkeypatch.setattr(faults, "other_address", lambda *_: noted("address"))
    attempt: Any = SimpleNamespace(start=lambda: client)
    try:
        assert faults._run(made, attempt) == "done"  # type: ignore[comparison-overlap]
    except LabFault as problem:
        client.told.append(problem.message)
    return client


@pytest.mark.parametrize(("fault", "seconds"), [("down-1s", 1), ("down-5s", 5), ("down-30s", 30)])
def test_a_link_is_down_for_its_time_from_the_marked_byte_on(fault: Fault, seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert running(fault, monkeypatch).told == ["down", f"down over at {seconds} s", ("wait", DEADLINE_S)]
    assert running(fault, monkeypatch, log=b"", lasts_s=3.0).told == [("wait", DEADLINE_S)], "it ended before that byte"


def test_another_address_lasts_to_the_clients_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert running("address", monkeypatch).told == ["address", ("wait", DEADLINE_S), "address over at 0 s"]
    assert running("address", monkeypatch, log=b"", lasts_s=3.0).told == [("wait", DEADLINE_S)]
    assert running("fin", monkeypatch).told == [("wait", DEADLINE_S)]


def test_a_client_that_does_not_reach_the_byte_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    assert running("down-1s", monkeypatch, log=b"").told == [
        ("stop", 0.0),
        "the client had not moved that much 60 s after its start",
    ]


def test_the_folder_of_the_file_is_searched_for_what_is_left() -> None:
    host: Any = Host("client", answer='{"size": 5, "differ": 2, "others": {"g": 1}}')
    assert faults.what_is_left(host, "/c/out/F", "/s/F") == Left(5, 2, {"g": 1})
    assert host.started[0][-3:] == ["/c/out", "F", "/s/F"]


def test_a_verdict_needs_rows_and_passes_with_a_summary() -> None:
    good = Observation(name="a", figures={"ended_after_s": 2.0}, facts={"outcome": "intact"})
    bad = Observation(name="b", problem="exits 0 with a wrong file: x", figures={}, facts={"outcome": "wrong file"})
    assert judge([good, good]).reason == "2 of 2 files arrived intact, at most 2.0 s after the fault"
    assert (judge([good, bad]).name, judge([]).name) == ("FAIL", "INVALID")
