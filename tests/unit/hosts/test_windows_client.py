"""A Windows machine as a run's client, against a stand-in, up to a Session from its network to its CellResult.

Not run on Windows: the stand-in runs programs and handles files, checksums and clocks on Linux; its pins and routes are given.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import sys
import time
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.clients import windows as windows_programs
from lab.clients.curl import Curl
from lab.clients.ferry import Ferry, built_ferry
from lab.hosts.host import CollectedFile, Network
from lab.hosts.ssh.config import Target
from lab.hosts.ssh.connection import Connection
from lab.hosts.windows import powershell
from lab.hosts.windows.answers import NOT_RUN, bypass_problem, pin_problems
from lab.hosts.windows.host import WindowsHost, open_windows
from lab.hosts.windows.shell import MachineClock
from lab.judge.matching import os_of
from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.errors import LabFault, UsageProblem
from lab.model.load import load_topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import Size
from lab.net.guard import assert_no_bypass
from lab.net.pins import assert_host_pinned, pin_host
from lab.net.shape import Shaped
from lab.run import doctor
from lab.run.arrived import collect
from lab.run.cpu_score import measure_cpu_score
from lab.run.instruments import Instruments
from lab.run.sample import take_sample
from lab.run.session import Options, Session
from lab.servers.bundle import Places, Servers, start_servers
from lab.servers.payload import payload_sha256, write_payload, write_payload_set
from lab.store.run_dir import RunDir
from tests.support import fake_windows, windows_answers
from tests.support.local_host import LocalNetwork
from tests.support.windows_answers import PINS, tell
from tests.unit.servers.conftest import network, places
from tests.unit.store.conftest import make_calibration

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
        (folder / name).write_text(f'#!/bin/sh\nFAKE_NAME={name} exec "{sys.executable}" "{fake_windows.__file__}" "$@"\n')
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
        windows.pin("reno", 1400)
        boot = requests(tmp_path)[-1]["boot"]
        assert boot.endswith("-Mac '02:54:4c:01:00:03' -Provider 'NewReno' -Mtu '1400' -Change 'yes'")

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"providers": {"Internet": "CUBIC", "Datacenter": "DCTCP"}}, "template Datacenter is DCTCP, not CUBIC"),
            ({"providers": {}}, "does not report its congestion control"),
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
        assert "no equivalent of Linux' bbr" in pin_problems(PINS, "bbr", None)[0]


class TestBypass:
    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"route_port": None}, "client has no route to server"),
            ({"route_port": 3}, "through another port than the lab's"),
            ({"next_hop": "0.0.0.0"}, "by 0.0.0.0, not the router"),
            ({"one_hop": "Success"}, "with TTL 1 got from client to server"),
            ({"one_hop": "TimedOut"}, r"no router answered between client and server \(TimedOut\)"),
            ({"one_hop_from": "10.0.2.2"}, "the first hop to server is 10.0.2.2"),
            ({"two_hops": "TtlExpired"}, "with TTL 2 does not get"),
        ],
    )
    def test_a_bypass_is_named(
        self, windows: WindowsHost, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], told: str
    ) -> None:
        tell(monkeypatch, WAY={**WAY, **change})
        ends: Any = SimpleNamespace(client=windows, prober=windows, server=SimpleNamespace(name="server", address="10.77.2.2"))
        with pytest.raises(LabFault, match=f"traffic can bypass the router: .*{told}"):
            assert_no_bypass(ends)

    def test_the_way_through_the_router(self) -> None:
        assert bypass_problem(WAY, "client", "server", GATEWAY) == ""


class TestClock:
    def test_the_quickest_exchange_counts(self) -> None:
        clock = MachineClock()
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
        with pytest.raises(UsageProblem, match="a set of files cannot be downloaded to a Windows machine"):
            windows.prepare_folder("C:\\roughwater\\out")


def fake_windows_path(folder: Path, path: object) -> Path:
    return folder / "drive" / PureWindowsPath(str(path)).relative_to("C:/").as_posix()


def test_a_shell_on_the_client_is_refused_in_a_line(windows: WindowsHost) -> None:
    with pytest.raises(UsageProblem, match="needs /bin/sh on the client's machine, which Windows does not have"):
        windows.run(["/bin/sh", "-c", "true"])


def test_counters_and_score(windows: WindowsHost) -> None:
    assert windows.retransmits() == 17
    assert measure_cpu_score(windows).mbps == 812.5


def test_variables_that_differ_in_case_are_one() -> None:
    text = powershell.request(["a"], env={"no_proxy": "x", "NO_PROXY": "*"}, cwd="C:\\", timeout_s=1, stdin=b"")
    assert json.loads(base64.b64decode(text.splitlines()[1]))["env"] == {"NO_PROXY": "*"}


class TestPrograms:
    def test_one_on_the_path(self, windows: WindowsHost) -> None:
        found = Curl().identify(windows)
        assert found.version.startswith("curl ")
        assert len(found.sha256) == 64

    def test_a_missing_program(self, windows: WindowsHost) -> None:
        with pytest.raises(UsageProblem, match="there is no no-such-curl on host client"):
            Curl("x", "no-such-curl").identify(windows)

    def test_ferry_is_the_build_for_windows(self, windows: WindowsHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program = tmp_path / "ferry.exe"
        program.write_text("#!/bin/sh\necho ferry 9.9\n")
        monkeypatch.setattr(windows_programs, "find_ferry", lambda: program)
        with pytest.raises(UsageProblem, match="is not a Windows program"):
            Ferry().identify(windows)
        monkeypatch.setattr(windows_programs, "is_windows_program", lambda _: True)
        found = Ferry().identify(windows)
        assert (found.version, found.sha256) == ("ferry 9.9", hashlib.sha256(program.read_bytes()).hexdigest())
        assert found.path.endswith("ferry.exe")


class WindowsNetwork(LocalNetwork):
    """A Windows client; the prober and all other hosts are this machine."""

    backend_facts: dict[str, str]

    def __init__(self, folder: Path, client: WindowsHost) -> None:
        super().__init__(folder)
        self.prober = self.client
        self.client = client  # type: ignore[assignment]
        self.backend_facts = {"windows": NOT_RUN}
        self.first_processes = (0,)


@pytest.fixture
def mixed(windows: WindowsHost, tmp_path: Path) -> WindowsNetwork:
    return WindowsNetwork(tmp_path / "hosts", windows)


@pytest.fixture
def serve(mixed: WindowsNetwork, places: Places) -> Any:
    servers = start_servers(mixed, payload_sizes=[SIZE], places=places)
    yield servers
    servers.stop()
    for host in (mixed.prober, mixed.server, mixed.wire):
        host.close()


def test_the_prober_is_a_host_of_its_own(mixed: WindowsNetwork, windows: WindowsHost) -> None:
    assert mixed.client is windows  # type: ignore[comparison-overlap]
    assert mixed.prober is not mixed.client


@pytest.mark.parametrize("direction", ["get", "put"])
@pytest.mark.parametrize("name", ["curl", "ferry"])
def test_a_sample(mixed: WindowsNetwork, serve: Servers, name: str, direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "ferry" and not built_ferry().exists():
        pytest.skip("ferry has not been built: make setup")
    monkeypatch.setattr(windows_programs, "find_ferry", built_ferry)
    monkeypatch.setattr(windows_programs, "is_windows_program", lambda _: True)
    client = Curl() if name == "curl" else Ferry()
    client.identify(mixed.client)
    wanted = Transfer.model_validate({"protocol": "http1", "direction": direction, "size": Size(SIZE)})
    found = take_sample(mixed, serve, client, wanted, 0)
    assert (found.problem, found.ok, found.exit_code) == ("", True, 0)
    # As the runner reported its process.
    assert (found.cpu_user_s, found.cpu_system_s, found.max_rss_bytes) == (0.25, 0.125, 1 << 20)
    assert found.wire is not None
    assert found.wire.payload_bytes >= 0.999 * SIZE


def test_a_truncated_file_fails_the_sample(mixed: WindowsNetwork, serve: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of what arrived uses the stand-in's hash, not the client's report."""
    monkeypatch.setattr(type(mixed.client), "collect", lambda *_: CollectedFile(1, "0" * 64))
    wanted = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": Size(SIZE)})
    assert "1 of 300000 bytes arrived" in take_sample(mixed, serve, Curl(), wanted, 0).problem


def test_a_cell_from_the_network_to_its_result(mixed: WindowsNetwork, serve: Servers, tmp_path: Path) -> None:
    """Everything that concerns the client is real; the link of this machine's loopback is neither shaped nor calibrated."""
    pinned: list[str] = []

    def pin(found: Network, congestion_control: str, mtu: int = 1500) -> None:
        pin_host(found.client, congestion_control, mtu)
        pinned.append(found.client.name)

    def guard(found: Network) -> None:
        assert found.client.bypass(found.server) == ""

    instruments = Instruments(
        open_network=lambda *_, **__: mixed,
        pin=pin,
        assert_no_bypass=guard,
        start_servers=lambda *_, **__: serve,
        shape=lambda *_: cast("Shaped", SimpleNamespace(commands=(), plans={})),
        read_back=lambda *_: ([], {}),
        calibrate=lambda *_, attempt, **__: make_calibration(attempt=attempt),
    )
    cell = Cell(
        client=ClientSpec(name="curl"),
        topology=load_topology("dsl-20"),
        transfer=Transfer.model_validate({"protocol": "http1", "direction": "get", "size": Size(SIZE)}),
        expectation=Expectation(kind="none"),
    )
    run = RunDir.create("windows", results=tmp_path / "results")
    options = Options(instruments=instruments, looks=LookPlan(looks=(2, 4)))
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


ALIAS = {"curl_alias": "Invoke-WebRequest", "curl_program": r"C:\Windows\System32\curl.exe"}


class TestDoctor:
    """`lab doctor` about `curl` on the Windows machine that the environment names."""

    def ask(self, windows: WindowsHost, patch: pytest.MonkeyPatch, tmp_path: Path, **facts: object) -> doctor.Check:
        tell(patch, FACTS={**FACTS, **facts})
        known = windows.connection.target.known_hosts
        config = tmp_path / "config"
        config.write_text(f"Host windows-11\n  HostName 127.0.0.1\n  User vagrant\n  Port 2200\n  UserKnownHostsFile {known}\n")
        patch.setenv("ROUGHWATER_CLIENT_MACHINE", "windows-11")
        patch.setenv("ROUGHWATER_SSH_CONFIG", str(config))
        [found] = doctor.windows()
        return found

    @pytest.mark.parametrize(
        ("facts", "level", "found"),
        [
            (ALIAS, "note", r"`curl` is PowerShell's alias of Invoke-WebRequest; the program is C:\Windows\System32\curl.exe"),
            (ALIAS | {"curl_program": ""}, "note", "alias of Invoke-WebRequest; there is no such program"),
            (ALIAS | {"curl_alias": ""}, "ok", r"C:\Windows\System32\curl.exe"),
            ({"curl_alias": "", "curl_program": ""}, "note", "there is no such program"),
            ({}, "note", "PowerShell does not say"),
        ],
    )
    def test_what_curl_is_at_its_prompt(
        self,
        windows: WindowsHost,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        facts: dict[str, object],
        level: str,
        found: str,
    ) -> None:
        check = self.ask(windows, monkeypatch, tmp_path, **facts)
        assert (check.level, check.what) == (level, "curl on windows-11")
        assert found in check.found
        assert bool(check.remedy) == (level == "note")

    def test_a_machine_that_is_not_there_is_a_note(
        self, windows: WindowsHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("FAKE_REFUSES", "vagrant@127.0.0.1: Permission denied (publickey).")
        assert "refuses the login" in self.ask(windows, monkeypatch, tmp_path, **ALIAS).found

    def test_no_machine_is_brought_up_or_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ROUGHWATER_SSH_CONFIG", raising=False)
        monkeypatch.delenv("ROUGHWATER_CLIENT_MACHINE", raising=False)
        assert list(doctor.windows()) == []
        monkeypatch.setenv("ROUGHWATER_CLIENT_MACHINE", "windows-11")
        [found] = doctor.windows()
        assert "brings no machine up" in found.found
