"""How every host that runs processes treats a command, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePath

import pytest

from lab.hosts.command_host import Command, CommandHost
from lab.hosts.host import Completed, Host
from lab.hosts.local import LocalHost
from lab.model.errors import LabFault


@dataclass
class Ended:
    """A command that has ended before anybody asks."""

    completed: Completed
    limits_s: list[float] = field(default_factory=list)

    @property
    def argv(self) -> tuple[str, ...]:
        return self.completed.argv

    def running(self) -> bool:
        return False

    def wait(self, timeout_s: float) -> Completed:
        self.limits_s.append(timeout_s)
        return self.completed

    def stop(self, grace_s: float = 2.0) -> Completed:
        return self.wait(grace_s)


class Told(CommandHost[Ended]):
    """Every command ends as it was asked to."""

    name = "client"

    def __init__(self, returncode: int = 0, *, timed_out: bool = False) -> None:
        self.returncode, self.timed_out = returncode, timed_out
        self.commands: list[Command] = []
        self.process: Ended | None = None

    def write(self, path: str | PurePath, data: bytes, *, mode: int = 0o644) -> None:
        raise NotImplementedError

    def _begin(self, command: Command) -> Ended:
        self.commands.append(command)
        done = Completed(command.argv, self.returncode, b"", b"first\nwhy\n", 0, 0, 0.0, 0.0, timed_out=self.timed_out)
        self.process = Ended(done)
        return self.process


def test_what_is_asked_for_arrives() -> None:
    host = Told()
    host.run(["cat", Path("/a b")], stdin=b"x", env={"A": "b"}, cwd="/", timeout_s=7, root=True)  # type: ignore[list-item]
    assert host.commands == [Command(("cat", "/a b"), b"x", {"A": "b"}, "/", 7, root=True)]
    assert host.process
    assert host.process.limits_s == [7]


def test_what_is_started_is_not_waited_for_and_has_no_limit_of_a_run() -> None:
    host = Told(returncode=3)
    out, err = Path("/out"), Path("/err")
    assert host.start(["yes"], stdout=out, stderr=err) is host.process
    assert host.process
    assert host.process.limits_s == []
    (command,) = host.commands
    assert (command.stdout, command.stderr, command.root, command.stdin) == (out, err, False, b"")
    assert command.timeout_s > 3600


def test_a_failure_is_the_labs_in_one_line() -> None:
    with pytest.raises(LabFault) as raised:
        Told(returncode=3).run(["sh", "-c", "a b"])
    assert raised.value.message == "client: `sh -c 'a b'` failed (3): why"
    assert Told(returncode=3).run(["true"], check=False).returncode == 3


def test_a_limit_that_was_not_kept_is_too() -> None:
    with pytest.raises(LabFault) as raised:
        Told(timed_out=True).run(["sleep", "9"], timeout_s=0.5)
    assert raised.value.message == "client: `sleep 9` took longer than 0.5 s"
    assert Told(timed_out=True).run(["sleep", "9"], check=False).timed_out


def test_a_long_command_is_quoted_in_part() -> None:
    with pytest.raises(LabFault) as raised:
        Told(returncode=1).run(["x" * 5000])
    assert len(raised.value.message) < 300


def test_a_program_that_is_not_there_is_127_on_this_machine(tmp_path: Path) -> None:
    host: Host = LocalHost("client", tmp_path)
    done = host.run(["no-such-program"], check=False)
    assert (done.returncode, done.error_text) == (127, "no-such-program: not found")
    with pytest.raises(LabFault, match=r"^client: no-such-program failed \(127\): no-such-program: not found$"):
        host.run(["no-such-program"])
