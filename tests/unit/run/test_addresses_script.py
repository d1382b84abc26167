"""Addresses that serve, that never answer a connection request, and that refuse: on the loopback, as the program that it is."""

from __future__ import annotations

import errno
import http.client
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.run.events import addresses_script
from lab.run.events.addresses_script import family
from tests.support.ports import free_port
from tests.support.waiting import until

SERVES, SILENT, REFUSES = "127.0.0.2", "127.0.0.3", "127.0.0.4"
# `tcpi_state` of TCP_INFO (tcp_states.h).
ESTABLISHED, SYN_SENT = 1, 2


@contextmanager
def running(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    (folder / "f").write_text("content")
    port = free_port()
    command = [sys.executable, addresses_script.__file__, str(port), str(folder), f"{SERVES}=serves", f"{SILENT}=silent"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            yield program, port
        finally:
            program.kill()


def state(address: str, port: int) -> int | str:
    """The kernel's answer to a connection request. On the loopback it is there when connect() returns."""
    with socket.socket() as asking:
        asking.setblocking(False)
        code = asking.connect_ex((address, port))
        if error := asking.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if code == errno.EINPROGRESS else code:
            return errno.errorcode[error]
        return asking.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]


def test_each_address_serves_is_silent_or_refuses(tmp_path: Path) -> None:
    with running(tmp_path) as (program, port):
        assert program.stdout
        assert program.stdout.readline() == f"silent {SILENT}\n"
        until(lambda: state(SERVES, port) == ESTABLISHED, "the server listens")
        assert state(SILENT, port) == SYN_SENT
        assert state(REFUSES, port) == "ECONNREFUSED"
        client = http.client.HTTPConnection(SERVES, port, timeout=10)
        for path, status, body in (("/ready", 204, b""), ("/f", 200, b"content"), ("/f", 200, b"content")):
            client.request("GET", path)
            answer = client.getresponse()
            assert (answer.status, answer.version, answer.read()) == (status, 11, body)
        client.close()
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0
        assert program.communicate() == ("", "")


def test_a_signal_that_comes_right_after_its_last_word_ends_it(tmp_path: Path) -> None:
    with running(tmp_path) as (program, _):
        assert program.stdout
        program.stdout.readline()
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0


@pytest.mark.parametrize(
    ("address", "which"), [("10.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6), ("fd00::2", socket.AF_INET6)]
)
def test_an_address_with_colons_is_one_of_ipv6(address: str, which: socket.AddressFamily) -> None:
    assert family(address) == which
