"""The router's console against a real shell on pipes: order, the end of an answer, and the last words of a dead router."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lab.hosts.agent.console import MAX_LINE_BYTES, Console
from lab.hosts.agent.protocol import UnixChannel

GUEST = 'echo noise; echo "READY 6.12"; while read -r line; do eval "$line"; done'


class Bench:
    def __init__(self, script: str = GUEST) -> None:
        self.selector = selectors.DefaultSelector()
        self.guest = subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.guest.stdin
        assert self.guest.stdout
        os.set_blocking(self.guest.stdout.fileno(), False)
        self.console = Console(self.guest.pid, self.guest.stdin.fileno(), self.guest.stdout.fileno(), self.selector)

    def turn(self, until: UnixChannel) -> dict[str, Any]:
        """The agent's loop, until an answer is there."""
        until.socket.setblocking(False)
        give_up = time.monotonic() + 10
        while time.monotonic() < give_up:
            try:
                message, _ = until.receive_fds()
            except BlockingIOError:
                for key, _ in self.selector.select(0.01):
                    key.data(key.fd)
                self.console.expire()
            else:
                assert message is not None
                return message
        raise AssertionError("no answer")

    def close(self) -> None:
        self.guest.kill()
        self.guest.communicate()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def pair() -> tuple[UnixChannel, UnixChannel]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return UnixChannel(ours), UnixChannel(theirs)


def test_boot_then_questions_in_order(bench: Bench) -> None:
    ours, theirs = pair()
    bench.console.wait_ready(theirs, 5)
    assert "noise" in bench.turn(ours)["output"]
    first, second = pair(), pair()
    bench.console.ask(first[1], "sleep 0.1; echo one", 5)
    bench.console.ask(second[1], "echo two >&2; (exit 7)", 5)
    assert bench.turn(second[0]) == {"output": "two\n", "returncode": 7}
    assert bench.turn(first[0]) == {"output": "one\n", "returncode": 0}


def test_output_without_a_newline_is_complete(bench: Bench) -> None:
    ours, theirs = pair()
    bench.console.ask(theirs, "printf '[{\"kind\":1}]'", 5)
    assert bench.turn(ours)["output"].endswith('[{"kind":1}]')


def test_a_question_without_an_answer_in_time_makes_the_console_untrustworthy(bench: Bench) -> None:
    ours, theirs = pair()
    bench.console.ask(theirs, "sleep 1", 0.05)
    assert "no answer in time to" in bench.turn(ours)["error"]
    again = pair()
    bench.console.ask(again[1], "echo late", 5)
    assert "does not answer" in bench.turn(again[0])["error"]


def test_a_guest_that_dies_says_what_it_last_said() -> None:
    bench = Bench('echo READY; read -r line; echo "Kernel panic"; exit 1')
    ours, theirs = pair()
    bench.console.ask(theirs, "true", 5)
    assert "Kernel panic" in bench.turn(ours)["error"]
    bench.close()


@pytest.mark.parametrize("line", ["x" * MAX_LINE_BYTES, "one\ntwo"])
def test_a_line_the_guest_would_cut_is_refused(bench: Bench, line: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        bench.console.ask(pair()[1], line, 1)
