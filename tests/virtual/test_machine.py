"""The machine in virtual time: what its hosts do, what its clock does, and how it ends."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from lab.hosts.agent.places import LAB_UID
from lab.hosts.virtual import processes
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.model.clock import EPOCH_S
from lab.model.errors import LabFault
from tests.support.waiting import until


def members(group: int) -> list[int]:
    """Processes of that group that are not yet reaped."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[2]) == group and words[0] != "Z":
                found.append(int(entry.name))
    return found


class TestHosts:
    def test_commands_are_the_ordinary_users_who_may_read_and_not_write(self, network: VirtualNetwork) -> None:
        words = network.client.run(["/bin/sh", "-c", "id -u; grep CapEff /proc/self/status; hostname"]).text.split()
        assert words == [str(LAB_UID), "CapEff:", "0000000000000004", "client"]
        done = network.client.run(["/bin/sh", "-c", "echo spoilt >/etc/hosts"], check=False)
        assert done.returncode != 0

    def test_the_first_ping_keeps_its_interval(self, own: VirtualNetwork) -> None:
        begun = own.clock.monotonic_ns()
        own.client.run(["ping", "-q", "-c", "3", "-i", "0.5", own.server.address])
        assert own.clock.monotonic_ns() - begun == pytest.approx(1e9, rel=0.02)

    def test_a_file_is_written_intact_with_its_parents_and_read_back(self, network: VirtualNetwork) -> None:
        path = network.client.workdir / "a" / "b"
        network.client.write(path, b"x" * 3_000_000, mode=0o600)
        assert network.client.read(path) == b"x" * 3_000_000
        assert network.client.run(["stat", "-c", "%a %u", str(path)]).text == f"600 {LAB_UID}\n"

    def test_this_hosts_own_files_cannot_be_written(self, network: VirtualNetwork, tmp_path: Path) -> None:
        done = network.client.run(["touch", str(tmp_path / "here")], root=True, check=False)
        assert "Read-only file system" in done.error_text
        assert list(tmp_path.iterdir()) == []

    def test_a_command_that_is_started_goes_on_and_is_stopped(self, network: VirtualNetwork, tmp_path: Path) -> None:
        out, err = tmp_path / "out", tmp_path / "err"
        script = "trap 'echo bye; exit 7' TERM; echo one; echo two >&2; while :; do sleep 0.1; done"
        process = network.client.start(["/bin/sh", "-c", script], stdout=out, stderr=err)
        network.clock.sleep(0.05)
        process.sync()
        assert process.running()
        assert (out.read_text(), err.read_text()) == ("one\n", "two\n")
        done = process.stop()
        assert (done.returncode, done.stdout, out.read_text()) == (7, b"", "one\nbye\n")
        assert not process.running()
        assert process.wait(1.0) is done

    @pytest.mark.parametrize("started", [False, True])
    def test_a_timeout_kills_the_command_and_what_it_left(self, network: VirtualNetwork, started: bool) -> None:
        argv = ["/bin/sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000"]
        done = network.client.start(argv).wait(2.0) if started else network.client.run(argv, timeout_s=2.0, check=False)
        assert done.timed_out
        assert done.returncode == -signal.SIGKILL
        assert done.wall_s == pytest.approx(2.0, abs=0.01)
        assert network.client.run(["pgrep", "-x", "sleep"], check=False).text == ""

    def test_a_command_that_floods_its_output_ends(self, network: VirtualNetwork) -> None:
        done = network.client.run(["cat", "/dev/zero"], check=False, timeout_s=1000)
        assert "File too large" in done.error_text
        assert len(done.stdout) == 128 << 20
        assert network.client.run(["echo", "well"]).text == "well\n"


class TestClock:
    def test_it_stands_still_while_nothing_is_asked(self, network: VirtualNetwork) -> None:
        before = network.clock.monotonic_ns()
        time.sleep(0.3)
        after = int(network.client.run(["/bin/sh", "-c", "cut -d' ' -f1 /proc/uptime | tr -d ."]).text) * 10_000_000
        assert after - before < 20_000_000

    def test_sleep_passes_what_was_asked(self, network: VirtualNetwork) -> None:
        before = network.clock.monotonic_ns()
        network.clock.sleep(3600.0)
        assert (network.clock.monotonic_ns() - before) / 1e9 == pytest.approx(3600.0, abs=0.001)

    def test_a_sleeping_command_takes_what_it_sleeps(self, network: VirtualNetwork) -> None:
        assert network.client.run(["sleep", "7"], timeout_s=10).wall_s == pytest.approx(7.0, abs=0.001)

    def test_the_wall_clock_begins_at_the_same_moment_in_every_machine(self, network: VirtualNetwork) -> None:
        said = float(network.server.run(["date", "+%s.%N"]).text)
        assert said == pytest.approx(EPOCH_S + network.clock.monotonic_ns() / 1e9, abs=0.01)
        assert network.clock.now().timestamp() == pytest.approx(said, abs=0.01)

    def test_processing_takes_only_the_time_that_is_charged(self, network: VirtualNetwork) -> None:
        done = network.client.run(["sha256sum", "/dev/stdin"], stdin=b"x" * 20_000_000)
        assert done.wall_s < 0.1


class TestEnd:
    def test_a_kernel_that_is_killed_is_one_line(self, own: VirtualNetwork) -> None:
        os.kill(own.machine.process.pid, signal.SIGKILL)
        with pytest.raises(LabFault, match="the machine in virtual time ended: ") as caught:
            own.client.run(["true"])
        assert "\n" not in caught.value.message

    def test_a_kernel_that_panics_says_why(self, own: VirtualNetwork) -> None:
        os.kill(processes.children(own.machine.process.pid)[0], signal.SIGKILL)
        with pytest.raises(LabFault, match=r"the machine in virtual time ended: .*[Pp]anic.*init") as caught:
            own.client.run(["true"])
        assert "\n" not in caught.value.message

    def test_closing_it_twice_is_harmless_and_leaves_no_process(self) -> None:
        made = open_network(seed=3)
        group = made.machine.process.pid
        made.client.start(["sleep", "1000"])
        assert processes.children(group)
        assert len(members(group)) > 1
        made.close()
        made.close()
        until(lambda: members(group) == [], "its processes have ended")
        with pytest.raises(LabFault, match="has been closed"):
            made.client.run(["true"])

    def test_no_descriptor_stays_open(self) -> None:
        open_network(seed=3).close()
        before = set(Path("/proc/self/fd").iterdir())
        open_network(seed=3).close()
        assert set(Path("/proc/self/fd").iterdir()) == before


def test_results_say_how_long_the_machine_took_of_this_hosts_time(network: VirtualNetwork) -> None:
    before = network.virtual_facts["real_s"]
    network.clock.sleep(3600.0)
    after = network.virtual_facts["real_s"]
    assert 0 < before < after, "and an hour of its own is no hour here"
    assert after - before < 600
