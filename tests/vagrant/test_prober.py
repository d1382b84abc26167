"""A Windows client with a Linux machine that measures the link for it: pins, guard, calibration, and the result.

The three Linux machines are namespaces with a real sshd; Windows is the stand-in of tests/support/fake_windows.py, which is given
what it answers of its pins and its way. Nothing is shaped: the kernel here may have no sch_netem.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.hosts.host import Host
from lab.hosts.ssh.config import Target, render
from lab.hosts.ssh.linux import LinuxHost
from lab.hosts.vagrant import machines, network
from lab.hosts.vagrant.network import VagrantNetwork
from lab.hosts.windows.answers import NOT_RUN
from lab.hosts.windows.host import WindowsHost
from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.endpoints import Endpoints
from lab.model.errors import LabFault
from lab.model.link import Link
from lab.model.load import load_topology
from lab.model.results import CellResult, Sample
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import Size
from lab.net.calibrate import calibrate
from lab.net.guard import assert_no_bypass
from lab.net.pins import assert_pinned, pin
from lab.net.shape import differences, shape
from lab.run.instruments import Instruments
from lab.run.session import Options, Session
from lab.servers import iperf3
from lab.servers.bundle import Servers
from lab.store.run_dir import RunDir, read_cell
from tests.support import fake_windows
from tests.support.windows_answers import PINS, WAY, tell
from tests.unit.store.conftest import make_sample
from tests.vagrant.three import NEEDS, Three

pytestmark = [*NEEDS, pytest.mark.skipif(platform.machine() != "x86_64", reason="the stand-in says that it is AMD64")]

WINDOWS = "windows-2022"
# Which machine a word of the command line names decides which ssh it is.
_SSH = f"""\
#!/bin/sh
for word; do [ "$word" = {WINDOWS} ] && FAKE_NAME={{name}} exec "{sys.executable}" "{fake_windows.__file__}" "$@"; done
exec {{real}} "$@"
"""


@pytest.fixture
def mixed(three: Three, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VagrantNetwork]:
    """`linux` is the prober; the client is Windows, as far as one can be had here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("ssh", "sftp"):
        (folder / name).write_text(_SSH.format(name=name, real=f"/usr/bin/{name}"))
        (folder / name).chmod(0o755)
    (tmp_path / "drive").mkdir()
    (tmp_path / "known_hosts").touch()
    target = Target(WINDOWS, WINDOWS, "vagrant", 22, (), str(tmp_path / "known_hosts"))
    config = tmp_path / "config"
    config.write_text((three.folder / "config").read_text() + "\n" + render(target))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("FAKE_DRIVE", str(tmp_path / "drive"))
    facts = {"caption": "Microsoft Windows Server 2022", "build": "20348", "architecture": "AMD64", "nic": "PRO/1000"}
    tell(monkeypatch, FACTS={**facts, "utc_ms": round(time.time() * 1000)}, PINS=PINS, WAY=WAY)
    monkeypatch.setenv(machines.CONFIG_VARIABLE, str(config))
    monkeypatch.setenv(machines.CLIENT_VARIABLE, WINDOWS)
    monkeypatch.setattr(network, "kernel_has_netem", lambda _: True)
    monkeypatch.setattr(network, "_PROBE_DELAY_MS", 0.0)
    made = network.open_network(name="mixed")
    yield made
    made.close()


@pytest.fixture
def measured(mixed: VagrantNetwork) -> Iterator[VagrantNetwork]:
    """Pinned, guarded, and with the other end of a calibration."""
    pin(mixed, "cubic")
    assert_no_bypass(mixed)
    server = iperf3.start(mixed.server)
    yield mixed
    server.stop()


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """(host, command line) of every command that runs on the Linux machines during the test."""
    found: list[tuple[str, str]] = []

    def noting(real: Callable[..., object]) -> Callable[..., object]:
        def note(host: LinuxHost, argv: Sequence[str], **more: object) -> object:
            found.append((host.name, " ".join(map(str, argv))))
            return real(host, argv, **more)

        return note

    for name in ("run", "start"):
        monkeypatch.setattr(LinuxHost, name, noting(getattr(LinuxHost, name)))
    return found


def asked_of_windows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


def at(host: Host, script: str) -> None:
    host.run(["/bin/sh", "-ec", script], root=True)


def test_who_is_who(mixed: VagrantNetwork) -> None:
    assert isinstance(mixed.client, WindowsHost)
    assert mixed.prober is not mixed.client
    assert (mixed.client.name, mixed.client.address) == ("client", "10.77.1.3")
    assert (mixed.prober.name, mixed.prober.address) == ("prober", "10.77.1.2")
    assert mixed.own_delay.ns > 0, "the path's own round trip is the prober's"


class TestPins:
    def test_they_are_set_on_the_prober_and_by_the_client(self, mixed: VagrantNetwork, tmp_path: Path) -> None:
        at(mixed.prober, "echo 0 >/proc/sys/net/ipv4/tcp_sack; ethtool -K eth0 tso on")
        assert {"offload tcp-segmentation-offload of eth0 is on", "net.ipv4.tcp_sack is '0', not '1'"} <= set(
            mixed.prober.unpinned("cubic")
        )
        pin(mixed, "cubic", 1500)
        assert mixed.prober.unpinned("cubic") == mixed.server.unpinned("cubic") == mixed.client.unpinned("cubic") == []
        set_, *read = [each["boot"] for each in asked_of_windows(tmp_path) if "Settings of TCP" in each.get("script", "")]
        assert set_.endswith("-Mac '02:54:4c:01:00:03' -Provider 'CUBIC' -Mtu '1500' -Change 'yes'")
        assert read
        assert not any("-Change" in each for each in read), "what holds is asked, not set again"

    @pytest.mark.parametrize(
        ("spoil", "told"),
        [
            ("echo 0 >/proc/sys/net/ipv4/tcp_sack", "net.ipv4.tcp_sack is '0', not '1'"),
            ("echo 0 >/proc/sys/net/ipv4/tcp_no_metrics_save", "net.ipv4.tcp_no_metrics_save is '0', not '1'"),
            ("ethtool -K eth0 tx on gso on", "offload generic-segmentation-offload of eth0 is on"),
            ("ip route replace default via 10.77.1.1 dev eth0 congctl reno", "default route is reno, not cubic"),
        ],
    )
    def test_a_prober_without_the_right_ones_measures_nothing(
        self, measured: VagrantNetwork, commands: list[tuple[str, str]], spoil: str, told: str
    ) -> None:
        assert_pinned(measured, "cubic")
        at(measured.prober, spoil)
        with pytest.raises(LabFault, match=f"^prober does not hold its settings: .*{told}"):
            calibrate(measured, Link(), "cubic")
        assert not any(program.startswith("iperf3") for _, program in commands)

    def test_a_client_without_the_right_ones_is_not_measured_for(
        self, measured: VagrantNetwork, commands: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tell(monkeypatch, PINS={**PINS, "providers": {"Internet": "CUBIC", "Datacenter": "DCTCP"}})
        with pytest.raises(LabFault, match=r"^client does not hold its settings: .*template Datacenter is DCTCP, not CUBIC"):
            calibrate(measured, Link(), "cubic")
        assert not any(program.startswith("iperf3") for _, program in commands)

    def test_an_algorithm_that_windows_has_not_is_refused_for_the_network(self, mixed: VagrantNetwork) -> None:
        with pytest.raises(LabFault, match=r"client does not hold its settings: Windows has no equivalent of .* bbr"):
            pin(mixed, "bbr")


class TestWay:
    def test_the_probers_is_looked_at_too(self, mixed: VagrantNetwork) -> None:
        assert_no_bypass(mixed)
        at(mixed.prober, "ip link add leak type veth peer name end")
        try:
            with pytest.raises(LabFault, match="traffic can bypass the router: prober has another interface, end, leak"):
                assert_no_bypass(mixed)
        finally:
            at(mixed.prober, "ip link del leak")

    def test_the_clients_is_asked_of_it(self, mixed: VagrantNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
        tell(monkeypatch, WAY={**WAY, "next_hop": "10.0.2.2"})
        with pytest.raises(LabFault, match=r"client reaches server by 10\.0\.2\.2, not the router, 10\.77\.1\.1"):
            assert_no_bypass(mixed)


class TestCalibration:
    def test_it_runs_on_the_prober(self, measured: VagrantNetwork, commands: list[tuple[str, str]], tmp_path: Path) -> None:
        windows_before = len(asked_of_windows(tmp_path))
        look = calibrate(measured, Link(), "cubic")
        assert look.ok, look.problems
        probes = [(host, program.split()[0]) for host, program in commands if program.startswith("iperf3")]
        assert probes == [("prober", "iperf3")] * 2, "once up, and once down by -R"
        assert [host for host, program in commands if "ping -n -q -c 1" in program] == ["prober"]
        assert len(look.rtt_ms) >= 7
        for side in (look.up, look.down):
            assert side.goodput_bit_s > 1e6
            assert 66 < side.mean_packet_bytes <= 1514, "what the prober sends is not merged"
        asked = asked_of_windows(tmp_path)[windows_before:]
        assert [each["script"].split()[0:4] for each in asked] == [["#", "Settings", "of", "TCP"]], "only whether its pins hold"

    def test_without_the_other_end_it_says_so(self, mixed: VagrantNetwork) -> None:
        pin(mixed, "cubic")
        with pytest.raises(LabFault, match=r"the calibration could not fill the link \(up\): .*[Cc]onnection refused"):
            calibrate(mixed, Link(), "cubic")

    def test_a_prober_that_is_gone_is_named(self, measured: VagrantNetwork) -> None:
        measured.prober.close()
        with pytest.raises(LabFault, match="linux: the connection to the machine is closed"):
            calibrate(measured, Link(), "cubic")


@pytest.fixture
def run_cell(measured: VagrantNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CellResult]:
    """A cell over an unshaped link, all real but its samples, which need an nginx on the server; `meanwhile` runs in each."""
    ends = Endpoints("server", "/srv", str(measured.client.workdir), "ca.pem", "known_hosts", "key")
    monkeypatch.setattr(measured, "close", lambda: None)

    def run(meanwhile: Callable[[], object] = lambda: None) -> CellResult:
        def sample(*words: Any, **_: object) -> Sample:
            meanwhile()
            return make_sample(words[4], None)

        instruments = Instruments(
            open_network=lambda *_, **__: measured,
            start_servers=lambda *_, **__: cast("Servers", SimpleNamespace(endpoints=ends)),
            take_sample=sample,
        )
        cell = Cell(
            client=ClientSpec(name="curl"),
            topology=load_topology("link-local"),
            transfer=Transfer.model_validate({"protocol": "http1", "direction": "get", "size": Size(300_000)}),
            expectation=Expectation(kind="none"),
        )
        options = Options(instruments=instruments, looks=LookPlan(looks=(2, 4)))
        with Session(RunDir.create("prober", results=tmp_path / "results"), options) as session:
            result = session.run_cell(cell)
            return read_cell(session.run.cell_path(result.id))

    return run


class TestResult:
    def test_it_names_the_prober_and_the_client(self, run_cell: Callable[..., CellResult]) -> None:
        result = run_cell()
        assert result.verdict.name == "PASS", result.verdict.reason
        facts = result.backend_facts
        assert facts["prober machine"].endswith(" ms")
        assert "port veth" in facts["prober machine"]
        assert facts["client machine"].startswith("Microsoft Windows Server 2022, build 20348, port PRO/1000")
        assert facts["windows"] == NOT_RUN
        assert facts["path"].startswith("own round trip ")
        assert result.certificate
        assert [look.ok for look in (*result.certificate.before, *result.certificate.after)] == [True, True]
        assert result.before.hosts["client"]["system"] == "Microsoft Windows Server 2022 20348"

    def test_a_prober_that_loses_its_pins_makes_it_invalid_and_is_named(
        self, run_cell: Callable[..., CellResult], measured: VagrantNetwork
    ) -> None:
        result = run_cell(lambda: at(measured.prober, "echo 0 >/proc/sys/net/ipv4/tcp_sack"))
        assert result.verdict.name == "INVALID"
        assert "prober does not hold its settings: net.ipv4.tcp_sack is '0'" in result.verdict.reason


def test_a_link_without_delay_ignores_the_own_delay(measured: VagrantNetwork) -> None:
    assert measured.own_delay.ns > 0
    shaped = shape(measured, Link())
    assert shaped.commands == ()
    assert differences(measured, shaped) == []
