"""Several addresses of a name: when one of them fails, the next is tried."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from lab.clients.ferry import find_ferry
from tests.support.hostile_http import HostileServer, Talk, head, serve
from tests.support.torture import build


@pytest.mark.parametrize(
    "script",
    [
        # No socket for the first address: IPv6 on a machine without it.
        (("socket", errno.EAFNOSUPPORT),),
        (("connect", errno.ENETUNREACH),),
        # Two addresses in turn, of three.
        (("socket", errno.EAFNOSUPPORT), ("connect", errno.ENETUNREACH)),
        (("connect", errno.ENETUNREACH), ("getsockopt", errno.ETIMEDOUT)),
    ],
    ids=lambda script: "-".join(name for name, _ in script),
)
def test_the_next_address_is_tried(tmp_path: Path, script: tuple[tuple[str, int], ...]) -> None:
    def answer(talk: Talk, _: HostileServer) -> None:
        talk.request()
        talk.send(head("200 OK", 2) + b"ok")

    log = tmp_path / "log"
    with serve(answer) as server:
        place = f"server.example:{server.port}"
        command = [str(find_ferry()), "get", f"http://{place}/file", "-o", "-", "--retry", "0", "--quiet"]
        command += ["--resolve", f"{place}:127.0.0.1"] * 3
        env = os.environ | {
            "LD_PRELOAD": str(build(tmp_path)),
            "TORTURE_LOG": str(log),
            "TORTURE_SCRIPT": " ".join(f"{name}:{error}" for name, error in script),
        }
        done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"ok"), done.stderr.decode()
    # All of it has happened.
    assert log.read_text().split() == [name for name, _ in script]
