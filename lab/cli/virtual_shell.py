"""`lab shell` in virtual time: one command, or line by line; time passes only while a command runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

import typer

from lab.cli.asked_files import put_asked_files
from lab.cli.output import put_output, say
from lab.hosts.host import Completed, shell_code
from lab.hosts.virtual.machine import Patience
from lab.judge.diagnosis import CHANGES, ONE_HOST, SEVERAL_LINES, unexplained
from lab.model.diagnosis import Diagnosis
from lab.model.errors import UsageProblem
from lab.model.topology import Topology
from lab.model.userland import NO_USERLANDS, Userlands
from lab.net.ports import PortSampler
from lab.net.scheduled import RunningSchedule, scheduled
from lab.net.watch import Watch, can_watch
from lab.run.virtual_network import open_shaped
from lab.run.why import explain

_LONGEST_S = 24 * 3600.0
_PATIENCE = Patience(cpu_s=3600.0, real_s=_LONGEST_S)
"""A person is there, and has Ctrl-C."""
_OF_ITS_OWN_SHELL = ("cd", "export", "unset", "set", "alias", "source", ".", "umask", "ulimit", "exec")
_MORE = ("&&", "||", ";", "|")
_WELCOME = (
    "virtual time: it passes only while a command runs. Each line is a shell of its own, without a terminal or input; "
    "`server` is the server. End with `exit` or Ctrl-D."
)


class VirtualShell:
    """The client of a shaped network in virtual time, and its servers. Use as a context manager.

    A schedule of the topology begins with each command, which has the variables `given`.
    """

    def __init__(
        self, topology: Topology, seed: int, given: Mapping[str, str] | None = None, userlands: Userlands = NO_USERLANDS
    ) -> None:
        self._topology = topology
        self._network, self._servers = open_shaped(
            topology,
            seed=seed,
            patience=_PATIENCE,
            name="shell",
            say=say,
            userlands=userlands,
        )
        try:
            self._environment = {**self._servers.environment, **(given or {})}
            self._folder = self._seen(Path.cwd())
        except BaseException:
            self._network.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._network.close()

    def run(self, words: list[str]) -> int:
        """Run a command and print its output and its duration; returns its exit code as a shell would."""
        done = self._do(words)
        if done.returncode == 127:
            raise UsageProblem(f"{words[0]}: no such command", remedy="give a path, or install it")
        return shell_code(done.returncode)

    def read_lines(self, source: TextIO) -> int:
        """Run every line with `sh -c` until `exit`; returns the exit code of the last."""
        say(_WELCOME)
        code = 0
        while (line := _next(source)) is not None:
            words = line.split()
            if words[:1] == ["exit"]:
                break
            if why := refusal(line):
                say(why)
                code = 2
            elif words:
                code = shell_code(self._do(["/bin/sh", "-c", line]).returncode)
        return code

    def _do(self, words: list[str]) -> Completed:
        began = time.monotonic()
        put_asked_files(self._servers, words)
        with scheduled(self._network, self._topology) as changing:
            if can_watch(self._network):
                done, moved = self._watched(words, changing)
            else:
                done, moved = self._start(words, changing), unexplained(None, ONE_HOST).sentence
        took = time.monotonic() - began
        put_output(done.stdout, done.stderr)
        say(f"{done.wall_s:.6f} s of virtual time, {took:.1f} s of this machine's")
        if moved:
            say(moved)
        return done

    def _watched(self, words: list[str], changing: RunningSchedule | None) -> tuple[Completed, str]:
        """A command, and the line on what it moved; empty where it moved nothing."""
        with PortSampler(self._network) as ports, Watch(self._network) as watch:
            done = self._start(words, changing)
            rows = ports.between(done.started_ns, done.ended_ns)
            one_line = not changing and not self._topology.wiring.nodes
            found = explain(self._network, watch, rows, done, self._topology.link if one_line else None)
        if found is None or not found.goodput_byte_s:
            return done, ""
        return done, report(found if one_line else unexplained(found, CHANGES if changing else SEVERAL_LINES))

    def _start(self, words: list[str], changing: RunningSchedule | None) -> Completed:
        if changing:
            changing.start()
        client = self._network.client.under_test
        return client.run(words, env=self._environment, cwd=self._folder, timeout_s=_LONGEST_S, check=False)

    def _seen(self, folder: Path) -> str | None:
        """The caller's folder if the machine can enter it, else None for the client's."""
        done = self._network.client.under_test.run(["test", "-x", str(folder)], check=False)
        return str(folder) if done.returncode == 0 else None


def report(found: Diagnosis) -> str:
    """One line on what a command moved: goodput, segments sent again, round trips, and what held it back."""
    rtt = f"RTT {found.idle_rtt_ms or 0:.1f} ms, {found.loaded_rtt_ms or 0:.1f} ms under load"
    return f"{(found.goodput_byte_s or 0) / 1e6:.3f} MB/s, {found.retransmits or 0} retransmits, {rtt}; {found.sentence}"


def refusal(line: str) -> str:
    """The reason that a line would have no effect; empty for any other line."""
    words = line.split()
    if words[:1] and words[0] in _OF_ITS_OWN_SHELL and not any(more in line for more in _MORE):
        return f"`{words[0]}` changes a shell that ends with its line: put both on one line, {line.strip()} && COMMAND"
    if words[-1:] == ["&"]:
        return "time passes only while a command runs: put what is to run meanwhile on the same line, and end it with `wait`"
    return ""


def _next(source: TextIO) -> str | None:
    if source.isatty():
        typer.echo("virtual> ", nl=False, err=True)
    line = source.readline()
    return line.rstrip("\n") if line else None
