"""The starter of clients: its bytes are its source's, its orders are read as they were written, and it does what they say."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.hosts.agent import starter
from lab.hosts.virtual import guest

SOURCE = Path(guest.__file__).with_name("starter.s")


def test_its_instructions_are_those_of_its_source(tmp_path: Path) -> None:
    made, flat = tmp_path / "starter.o", tmp_path / "starter.bin"
    subprocess.run(["as", "-o", made, SOURCE], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", made, flat], check=True)
    assert flat.read_bytes().hex() == starter.INSTRUCTIONS.hex()


def test_addresses_in_the_source_are_those_of_the_orders() -> None:
    found = dict(line.split()[1].rstrip(",") and (line.split()[1].rstrip(","), int(line.split()[2], 0)) for line in _sets())
    assert found == {
        "RESULT": starter.RESULT,
        "ORDER": starter.ORDER,
        "ORDER_BYTES": starter.ORDER_BYTES,
        "RESULT_BYTES": starter.RESULT_BYTES,
    }


def _sets() -> list[str]:
    return [line.strip() for line in SOURCE.read_text().splitlines() if line.strip().startswith(".set")]


words = st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=30), max_size=9)


@given(st.integers(1, 1 << 50), st.text("abc/é ", min_size=1), words)
def test_an_order_has_the_instant_the_path_and_the_words(at_ns: int, path: str, argv: list[str]) -> None:
    order = starter.client_order(at_ns, path, argv)
    seconds, nanoseconds, seeds = struct.unpack_from("=QQQ", order)
    assert (seconds * 10**9 + nanoseconds, seeds) == (at_ns, 0)
    places = struct.unpack_from(f"={len(argv) + 2}Q", order, 56)
    assert places[-1] == 0
    texts = [order[place - starter.ORDER :].partition(b"\0")[0].decode() for place in places[:-1]]
    assert texts == [path, *argv]


def test_words_that_are_too_long_are_refused() -> None:
    with pytest.raises(OSError, match="Argument list too long"):
        starter.client_order(1, "/bin/true", ["x" * starter.ORDER_BYTES])


def run(tmp_path: Path, path: str, argv: list[str], kill: int = 0) -> tuple[int, starter.Result | None, bytes]:
    """The starter's own exit status, its result, and the client's output."""
    program = tmp_path / "starter"
    program.write_bytes(starter.program())
    program.chmod(0o755)
    order, out = os.memfd_create("order"), os.memfd_create("out")
    os.write(order, starter.client_order(time.monotonic_ns() + 1_000_000, path, argv))
    os.lseek(order, 0, os.SEEK_SET)
    actions = [(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, order, 3)]
    pid = os.posix_spawn(str(program), ["starter"], {"A": "1"}, file_actions=actions, setsid=True)
    if kill:
        while not os.pread(out, 1, 0):
            pass
        os.killpg(pid, kill)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, starter.result(os.pread(order, starter.RESULT_BYTES, 0)), os.pread(out, 1 << 16, 0)


def test_the_client_has_its_words_and_its_variables_and_no_descriptor_of_the_labs(tmp_path: Path) -> None:
    begun = time.monotonic_ns()
    script = 'echo "$0 $1 $A"; [ -e /proc/self/fd/3 ] && echo leak; exit 7'
    status, found, text = run(tmp_path, "/bin/sh", ["sh", "-c", script, "zero", "one"])
    assert status == 0
    assert found is not None
    assert (os.waitstatus_to_exitcode(found.status), found.errno, text) == (7, 0, b"zero one 1\n")
    assert begun < found.ended_ns <= time.monotonic_ns()
    assert 100_000 < found.peak_bytes < 50_000_000


def test_a_program_that_cannot_be_executed_is_known_by_its_error(tmp_path: Path) -> None:
    _, found, _ = run(tmp_path, "/no/such/program", ["x"])
    assert found is not None
    assert found.errno == errno.ENOENT


def test_signals_are_the_clients(tmp_path: Path) -> None:
    """The client may end in its own way. The starter, which is in its process group, tells how."""
    script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"
    _, found, _ = run(tmp_path, "/bin/sh", ["sh", "-c", script], signal.SIGTERM)
    assert found is not None
    assert os.waitstatus_to_exitcode(found.status) == 5
    status, found, _ = run(tmp_path, "/bin/sh", ["sh", "-c", script], signal.SIGKILL)
    assert (status, found) == (-signal.SIGKILL, None)
