"""A Windows machine as a run's client, against a stand-in: its chores, and a Session from its network to its CellResult.

Not run on Windows: what the stand-in can do on Linux it does (programs, files, checksums, clocks); pins and way are told to it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))  # `tests` is no installed package

from lab.backend.chores import chores_of, prober_of
from lab.backend.host import Network
from lab.backend.ssh import powershell
from lab.backend.ssh.chores import NOT_RUN, bypass_problem, pin_problems
from lab.backend.ssh.config import Target
from lab.backend.ssh.connection import Connection
from lab.backend.ssh.windows import WindowsHost, _Clock, open_windows
from lab.client import windows as windows_programs
from lab.client.curl import Curl
from lab.client.ferry import Ferry, built_ferry
from lab.errors import LabFault, UsageProblem
from lab.judge.matching import os_of
from lab.judge.tolerance import LookPlan
from lab.measure import sets
from lab.measure.arrived import collect
from lab.measure.cpu_score import measure_cpu_score
from lab.measure.sample import take_sample
from lab.measure.tcp import retransmits
from lab.network.guard import assert_no_bypass
from lab.network.pins import assert_host_pinned, pin_host
from lab.result.store import RunDir
from lab.runner import session as session_module
from lab.runner.session import Options, Session
from lab.server.bundle import Places, Servers, start_servers
from lab.server.payload import payload_sha256, write_payload, write_payload_set
from lab.spec.load import load_topology
from lab.spec.models import Cell, ClientSpec, Expectation, Transfer
from lab.spec.units import Size
from tests.support import fake_windows, windows_answers
from tests.support.local_host import LocalNetwork
from tests.support.windows_answers import PINS, tell
from tests.unit.result.conftest import make_calibration
from tests.unit.server.conftest import network, places

__all__ = ["network", "places"]

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the stand-in says that it is AMD64")

SIZE = 300_000
GATEWAY = "10.77.1.1"
FACTS = {
    "caption": "Microsoft Windows Server 2022 Standard Evaluation",
    "build": "20348.2700",
    "architecture": "AMD64",
    "nic": "Intel(R) PRO/1000 MT",
    "power_plan": None,
}
WAY = windows_answers.WAY | {"whole_ms": [40, 41, 40, 40, 40], "other_ports": ["Red Hat VirtIO Ethernet Adapter"]}


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WindowsHost:
    """A host whose `ssh` and `sftp` are the stand-in's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("ssh", "sftp"):
        (folder / name).write_text(f'#!/bin/sh\nFAKE_NAME={name} exec {sys.executable} {fake_windows.__file__} "$@"\n')
        (folder / name).chmod(0o755)
    (tmp_path / "drive").mkdir()
    (tmp_path / "known_hosts").touch()
    monkeypatch.setenv("PATH", f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("FAKE_DRIVE", str(tmp_path / "drive"))
    monkeypatch.setenv("FAKE_CLOCK_NS", str(-(10**15)))
    tell(monkeypatch, FACTS={**FACTS, "utc_ms": round(time.time() * 1000)}, PINS=PINS, WAY=WAY)
    target = Target("windows-2022", "127.0.0.1", "vagrant", 2200, (), str(tmp_path / "known_hosts"))
    more = {"mac": "02:54:4c:01:00:03", "gateway": GATEWAY, "server_address": "10.77.2.2"}
    return open_windows(Connection(target), name="client", address="10.77.1.3", **more)[0]


def requests(folder: Path) -> list[dict[str, Any]]:
    return [found for line in (folder / "log").read_text().splitlines() if (found := json.loads(line))]


class TestPins:
    def test_what_holds(self, windows: WindowsHost) -> None:
        pin_host(windows, "cubic")

    def test_they_are_set_with_what_was_asked_for(self, windows: WindowsHost, tmp_path: Path) -> None:
        windows.chores.pin("reno", 1400)
        boot = requests(tmp_path)[-1]["boot"]
        assert boot.endswith("-Mac '02:54:4c:01:00:03' -Provider 'NewReno' -Mtu '1400' -Change 'yes'")

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"providers": {"Internet": "CUBIC", "Datacenter": "DCTCP"}}, "template Datacenter is DCTCP, not CUBIC"),
            ({"providers": {}}, "does not tell its congestion control"),
            ({"timestamps": "Disabled"}, "TCP timestamps is Disabled, not enabled"),
            ({"autotuning": "Restricted"}, "TCP autotuning is Restricted"),
            ({"lso": True}, "offload lso of the lab's port is on"),
            ({"rsc": True}, "offload rsc"),
            ({"checksum": "RxTxEnabled"}, "checksum offload of the lab's port is RxTxEnabled"),
        ],
    )
    def test_what_does_not_hold_is_named(
        self, windows: WindowsHost, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], told: str
    ) -> None:
        tell(monkeypatch, PINS={**PINS, **change})
        with pytest.raises(LabFault, match=f"client does not hold its settings: .*{told}"):
            assert_host_pinned(windows, "cubic")

    def test_an_mtu_that_was_not_taken(self) -> None:
        assert pin_problems(PINS, "cubic", 1400) == ["MTU of the lab's port is 1500, not 1400"]

    def test_an_algorithm_that_windows_has_not(self) -> None:
        assert "no congestion control that is Linux' bbr" in pin_problems(PINS, "bbr", None)[0]


class TestWay:
    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"route_port": None}, "client has no route to server"),
            ({"route_port": 3}, "by another port than the lab's"),
            ({"next_hop": "0.0.0.0"}, "by 0.0.0.0 and not by the router"),
            ({"one_hop": "Success"}, "with one hop to live got from client to server"),
            ({"one_hop": "TimedOut"}, r"no router answered between client and server \(TimedOut\)"),
            ({"one_hop_from": "10.0.2.2"}, "the first router before server is 10.0.2.2"),
            ({"two_hops": "TtlExpired"}, "with two hops to live does not get"),
        ],
    )
    def test_one_that_is_not_through_the_router(
        self, windows: WindowsHost, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], told: str
    ) -> None:
        tell(monkeypatch, WAY={**WAY, **change})
        ends: Any = SimpleNamespace(client=windows, prober=windows, server=SimpleNamespace(name="server", address="10.77.2.2"))
        with pytest.raises(LabFault, match=f"traffic can go round the router: .*{told}"):
            assert_no_bypass(ends)

    def test_one_that_is(self) -> None:
        assert bypass_problem(WAY, "client", "server", GATEWAY) == ""


class TestClock:
    def test_the_quickest_exchange_counts(self) -> None:
        clock = _Clock()
        clock.set_by([(0, 500, 90), (100, 610, 110), (200, 705, 260)], 300)
        assert (clock.offset_ns, clock.error_ns, clock.set_ns) == (105 - 610, 5, 300)

    def test_a_commands_times_are_the_labs(self, windows: WindowsHost) -> None:
        before = time.monotonic_ns()
        done = windows.run(["true"])
        margin = windows.clock.error_ns
        assert before - margin < done.started_ns <= done.ended_ns <= time.monotonic_ns() + margin

    def test_an_old_one_is_asked_again(self, windows: WindowsHost, tmp_path: Path) -> None:
        windows.clock.set_ns = time.monotonic_ns() - 61 * 10**9
        windows.run(["true"])
        assert any(each.get("script", "").startswith("# Tells this machine's clock") for each in requests(tmp_path)[-3:])

    def test_a_machine_that_refuses(self, windows: WindowsHost, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAKE_REFUSES", "vagrant@127.0.0.1: Permission denied (publickey).")
        with pytest.raises(LabFault, match="refuses the login"):
            windows.set_clock()


class TestFiles:
    def test_a_payload_is_the_same_as_everywhere(self, windows: WindowsHost, tmp_path: Path) -> None:
        made = write_payload(windows, SIZE)
        there = fake_windows_path(tmp_path, made.path)
        assert made.sha256 == payload_sha256(SIZE) == hashlib.sha256(there.read_bytes()).hexdigest()

    def test_a_set_too(self, windows: WindowsHost, tmp_path: Path) -> None:
        made = write_payload_set(windows, 1000, 3)
        for name, sha256 in made.sha256.items():
            assert hashlib.sha256(fake_windows_path(tmp_path, made.path / name).read_bytes()).hexdigest() == sha256

    def test_what_arrived_is_checked_and_gone(self, windows: WindowsHost, tmp_path: Path) -> None:
        path = windows.workdir / "out" / "it's here"
        windows.write(path, b"abc")
        found = collect(windows, str(path))
        assert (found.size, found.sha256) == (3, hashlib.sha256(b"abc").hexdigest())
        assert not fake_windows_path(tmp_path, path).exists()
        assert collect(windows, str(path)).size == 0

    def test_a_set_cannot_be_downloaded(self, windows: WindowsHost) -> None:
        with pytest.raises(UsageProblem, match="a set of files cannot be downloaded to a machine of windows"):
            sets.prepare(windows, "C:\\throughline\\out")


def fake_windows_path(folder: Path, path: object) -> Path:
    return folder / "drive" / PureWindowsPath(str(path)).relative_to("C:/").as_posix()


def test_a_shell_on_the_client_is_refused_in_a_line(windows: WindowsHost) -> None:
    with pytest.raises(UsageProblem, match="needs /bin/sh on the client's machine, which Windows has not"):
        windows.run(["/bin/sh", "-c", "true"])


def test_counters_and_score(windows: WindowsHost) -> None:
    assert retransmits(windows) == 17
    assert measure_cpu_score(windows).mbps == 812.5


def test_variables_that_differ_in_case_are_one() -> None:
    text = powershell.request(["a"], env={"no_proxy": "x", "NO_PROXY": "*"}, cwd="C:\\", timeout_s=1, stdin=b"")
    assert json.loads(base64.b64decode(text.splitlines()[1]))["env"] == {"NO_PROXY": "*"}


class TestPrograms:
    def test_one_on_the_path(self, windows: WindowsHost) -> None:
        found = Curl().identify(windows)
        assert found.version.startswith("curl ")
        assert len(found.sha256) == 64

    def test_one_that_is_not(self, windows: WindowsHost) -> None:
        with pytest.raises(UsageProblem, match="there is no no-such-curl on host client"):
            Curl("x", "no-such-curl").identify(windows)

    def test_ferry_is_the_build_for_windows(self, windows: WindowsHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program = tmp_path / "ferry.exe"
        program.write_text("#!/bin/sh\necho ferry 9.9\n")
        monkeypatch.setattr(windows_programs, "find_ferry", lambda: program)
        with pytest.raises(UsageProblem, match="is no program for Windows"):
            Ferry().identify(windows)
        monkeypatch.setattr(windows_programs, "is_windows_program", lambda _: True)
        found = Ferry().identify(windows)
        assert (found.version, found.sha256) == ("ferry 9.9", hashlib.sha256(program.read_bytes()).hexdigest())
        assert found.path.endswith("ferry.exe")


class WindowsNetwork(LocalNetwork):
    """The Linux machine beside the client is this one, as are all others."""

    backend_facts: dict[str, str]

    def __init__(self, folder: Path, client: WindowsHost) -> None:
        super().__init__(folder)
        self.prober = self.client
        self.client = client  # type: ignore[assignment]
        self.backend_facts = {"windows": NOT_RUN}
        self.first_processes = (0,)


@pytest.fixture
def beside(windows: WindowsHost, tmp_path: Path) -> WindowsNetwork:
    return WindowsNetwork(tmp_path / "hosts", windows)


@pytest.fixture
def serve(beside: WindowsNetwork, places: Places) -> Any:
    servers = start_servers(beside, payload_sizes=[SIZE], places=places)
    yield servers
    servers.stop()
    for host in (beside.prober, beside.server, beside.wire):
        host.close()


def test_the_link_is_measured_beside_it(beside: WindowsNetwork, windows: WindowsHost) -> None:
    assert prober_of(beside) is beside.prober
    assert chores_of(windows) is windows.chores
    assert chores_of(beside.prober) is None


@pytest.mark.parametrize("direction", ["get", "put"])
@pytest.mark.parametrize("name", ["curl", "ferry"])
def test_a_sample(beside: WindowsNetwork, serve: Servers, name: str, direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "ferry" and not built_ferry().exists():
        pytest.skip("ferry has not been built: make setup")
    monkeypatch.setattr(windows_programs, "find_ferry", built_ferry)
    monkeypatch.setattr(windows_programs, "is_windows_program", lambda _: True)
    client = Curl() if name == "curl" else Ferry()
    client.identify(beside.client)
    wanted = Transfer.model_validate({"protocol": "http1", "direction": direction, "size": Size(SIZE)})
    found = take_sample(beside, serve, client, wanted, 0)
    assert (found.problem, found.ok, found.exit_code) == ("", True, 0)
    # As the runner told of its process.
    assert (found.cpu_user_s, found.cpu_system_s, found.max_rss_bytes) == (0.25, 0.125, 1 << 20)
    assert found.wire is not None
    assert found.wire.payload_bytes >= 0.999 * SIZE


def test_a_file_that_is_cut_short_is_no_sample(beside: WindowsNetwork, serve: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of what arrived is the stand-in's hash and no word of the client's."""
    monkeypatch.setattr(type(beside.client.chores), "collect", lambda *_: (1, "0" * 64))  # type: ignore[attr-defined]
    wanted = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": Size(SIZE)})
    assert "1 of 300000 bytes arrived" in take_sample(beside, serve, Curl(), wanted, 0).problem


def test_a_cell_from_the_network_to_its_result(
    beside: WindowsNetwork, serve: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that concerns the client is real; the link of this machine's loopback is neither shaped nor calibrated."""
    pinned: list[str] = []

    def pin(found: Network, congestion_control: str, mtu: int = 1500) -> None:
        pin_host(found.client, congestion_control, mtu)
        pinned.append(found.client.name)

    def guard(found: Network) -> None:
        chores = chores_of(found.client)
        assert chores is not None
        assert chores.bypass(found.server) == ""

    replaced: dict[str, Callable[..., Any]] = {
        "pin": pin,
        "assert_no_bypass": guard,
        "start_servers": lambda *_, **__: serve,
        "shape": lambda *_: SimpleNamespace(commands=(), plans={}),
        "differences": lambda *_: [],
        "read_qdiscs": lambda _: {},
        "calibrate": lambda *_, attempt, **__: make_calibration(attempt=attempt),
    }
    for name, value in replaced.items():
        monkeypatch.setattr(session_module, name, value)
    cell = Cell(
        client=ClientSpec(name="curl"),
        topology=load_topology("dsl-20"),
        transfer=Transfer.model_validate({"protocol": "http1", "direction": "get", "size": Size(SIZE)}),
        expectation=Expectation(kind="none"),
    )
    run = RunDir.create("windows", results=tmp_path / "results")
    options = Options(open_network=lambda: beside, looks=LookPlan(looks=(2, 4)))
    with Session(run, options) as session:
        result = session.run_cell(cell)
    assert pinned == ["client", "client"]
    assert result.verdict.name == "PASS"
    assert [sample.problem for sample in result.samples] == ["", ""]
    assert os_of(result) == "Windows"
    assert result.backend_facts["windows"] == NOT_RUN
    client = result.before.hosts["client"]
    assert client["system"] == "Microsoft Windows Server 2022 Standard Evaluation 20348.2700"
    assert (client["note"], client["unread"], client["tcp"], client["way"]) == (NOT_RUN, ["power_plan"], PINS, WAY)
