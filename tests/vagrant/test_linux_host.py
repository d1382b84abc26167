"""An ordinary Linux machine over SSH as a Host: a real sshd, on the loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hosts.host import Host, Process
from lab.hosts.ssh.connection import Connection
from lab.hosts.ssh.linux import LinuxHost, open_host
from lab.model.errors import LabFault, UsageProblem
from lab.servers.sshd import make_key
from tests.support.ports import free_port
from tests.support.waiting import until
from tests.vagrant.machine import Machine

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root may enter a time or a mount namespace without a user namespace"
)


@pytest.fixture(scope="module")
def host(machine: Machine) -> Iterator[LinuxHost]:
    made = open_host(Connection(machine.target()), name="client", address="127.0.0.1")
    yield made
    made.close()


class TestCommands:
    def test_it_is_a_host(self, host: LinuxHost) -> None:
        as_host: Host = host
        assert (as_host.name, as_host.address, as_host.platform) == ("client", "127.0.0.1", "linux")

    def test_environment_and_folder(self, host: LinuxHost) -> None:
        done = host.run(["sh", "-c", 'echo "$NAME"; pwd; echo "$HOME"'], env={"NAME": "a b"}, cwd="/")
        assert done.text.splitlines() == ["a b", "/", host.identity.home]
        assert host.run(["pwd"]).text.strip() == str(host.workdir)

    def test_what_it_cost(self, host: LinuxHost) -> None:
        before = time.monotonic_ns()
        done = host.run(
            [sys.executable, "-c", "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"]
        )
        assert 0.15 < done.user_s + done.system_s <= done.wall_s + 0.05
        assert before < done.started_ns < done.ended_ns < time.monotonic_ns()

    def test_one_in_the_background(self, host: LinuxHost, tmp_path: Path) -> None:
        process: Process = host.start(["sh", "-c", "echo begun; exec sleep 60"], stdout=tmp_path / "out", stderr=tmp_path / "err")
        until((tmp_path / "out").read_text, "the command has begun")
        assert (tmp_path / "out").read_text() == "begun\n", "its output is there while it runs"
        assert process.running()
        assert process.stop().returncode == -signal.SIGTERM

    def test_a_program_that_is_not_there(self, host: LinuxHost) -> None:
        assert host.program("sh").endswith("/sh")
        with pytest.raises(UsageProblem, match="no-such-program is not on machine client"):
            host.program("no-such-program")


class TestFiles:
    def test_a_file_is_written_intact_with_parents_and_mode(self, host: LinuxHost) -> None:
        path = host.workdir / "a" / "b"
        data = os.urandom(3_000_000)
        host.write(path, data, mode=0o750)
        assert host.read(path) == data
        assert host.run(["stat", "-c", "%a", str(path)]).text.strip() == "750"


class TestLifeAndDeath:
    def test_what_runs_and_what_was_written_ends_with_the_connection(self, machine: Machine, tmp_path: Path) -> None:
        made = open_host(Connection(machine.target()), name="server")
        made.write(made.workdir / "file", b"x")
        process = made.start(["sh", "-c", "echo $$; exec sleep 62"], stdout=tmp_path / "pid")
        until((tmp_path / "pid").read_text, "the command has begun")
        mark = (tmp_path / "pid").read_text().strip()
        made.close()
        with pytest.raises(LabFault, match="machine: the connection to the machine is closed"):
            made.run(["true"])
        with pytest.raises(LabFault, match="the connection to the machine is closed"):
            process.wait(5)
        again = open_host(Connection(machine.target()), name="server")
        try:
            assert again.run(["kill", "-0", mark], check=False).returncode != 0
            assert again.run(["test", "-e", str(made.workdir / "file")], check=False).returncode == 1
        finally:
            again.close()

    def test_a_broken_connection_is_reported(self, machine: Machine) -> None:
        made = open_host(Connection(machine.target()), name="server")
        process = made.start(["sleep", "63"])
        os.kill(made._link._ssh.pid, signal.SIGKILL)
        with pytest.raises(LabFault, match="the connection to the machine is lost"):
            process.wait(10)
        made.close()

    def test_closing_twice(self, machine: Machine) -> None:
        made = open_host(Connection(machine.target()), name="server")
        made.close()
        made.close()
        with pytest.raises(LabFault, match="the connection to the machine is closed"):
            made.run(["true"])


class TestClock:
    @needs_root
    def test_commands_see_the_labs_clock(self, machine: Machine) -> None:
        made = open_host(Connection(machine.target()), name="server")
        try:
            # As if the machine had been booted twelve seconds and a half later.
            made._link.ask({"op": "clock", "offset_ns": 12_500_000_000})
            for root in (False, True):
                done = made.run([sys.executable, "-c", "import time; print(time.monotonic_ns())"], root=root)
                now = time.monotonic_ns() + 12_500_000_000
                assert done.started_ns < int(done.text) < done.ended_ns < now
        finally:
            made.close()

    def test_on_this_machine_it_is_the_same(self, host: LinuxHost) -> None:
        assert host.clock.offset_ns == 0


class TestRefusals:
    """Every refusal is one line that says what to do."""

    def refused(self, connection: Connection) -> str:
        with pytest.raises(LabFault) as caught:
            open_host(connection, name="router")
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_nothing_listens(self, machine: Machine) -> None:
        said = self.refused(Connection(machine.target(port=free_port())))
        assert "no SSH server answers at" in said
        assert "vagrant up machine" in said

    def test_another_key_than_the_machine_knows(self, machine: Machine, tmp_path: Path) -> None:
        key = tmp_path / "key"
        key.write_bytes(make_key().private)
        key.chmod(0o600)
        assert "refuses the login with its key" in self.refused(Connection(machine.target(identities=(str(key),))))

    def test_another_machine_than_was_known(self, machine: Machine, tmp_path: Path) -> None:
        known = tmp_path / "known"
        known.write_text(f"[127.0.0.1]:{machine.port} {make_key().public}\n")
        said = self.refused(Connection(machine.target(known_hosts=str(known))))
        assert "differs from the known one" in said
        assert str(known) in said

    def test_a_machine_is_believed_once(self, machine: Machine) -> None:
        connection = Connection(machine.target(known_hosts=""), "id-1")
        open_host(connection, name="router").close()
        assert machine.host_key.public in connection.known_hosts.read_text()
        connection.known_hosts.write_text(f"roughwater-machine {make_key().public}\n")
        assert str(connection.known_hosts) in self.refused(connection)
        open_host(Connection(machine.target(known_hosts=""), "id-2"), name="router").close()

    def test_a_machine_that_is_still_booting(self, machine: Machine) -> None:
        # VirtualBox's port takes connections before there is anybody behind it.
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            port = listener.getsockname()[1]
            closing = [sys.executable, "-c", "import socket,sys\ns=socket.socket(fileno=int(sys.argv[1]))\ns.accept()[0].close()"]
            with subprocess.Popen([*closing, str(listener.fileno())], pass_fds=[listener.fileno()]) as closer:
                assert "still booting" in self.refused(Connection(machine.target(port=port)))
                closer.kill()

    def test_no_namespace_there(self, machine: Machine) -> None:
        with pytest.raises(LabFault, match=r"no-such-namespace|no root here") as caught:
            open_host(Connection(machine.target()), name="router", namespace="no-such-namespace")
        assert "has the machine been provisioned?" in str(caught.value)

    def test_a_set_up_that_fails_says_its_last_line(self, machine: Machine) -> None:
        setup = ["/bin/sh", "-c", "echo; echo no port of this machine has that MAC >&2; exit 1"]
        with pytest.raises(LabFault, match="machine: it cannot be set up: no port of this machine has that MAC"):
            open_host(Connection(machine.target()), name="router", setup=setup)

    def test_a_login_without_python(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
        (tmp_path / "ssh").write_text("#!/bin/sh\necho 'sh: 1: exec: python3: not found' >&2\nexit 127\n")
        (tmp_path / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        assert "there is no python3 on the machine" in self.refused(Connection(machine.target()))

    def test_no_ssh_here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(UsageProblem, match="ssh is not installed"):
            open_host(Connection(machine.target()), name="router")
