"""Which files a command finds on the server."""

from __future__ import annotations

from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from lab.cli.asked_files import asked_files, put_asked_files
from lab.servers.payload import Payload, payload_name


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["curl", "http://server/files/20MB", "-o", "x"], ["20MB"]),
        (
            ["sh", "-c", "curl server/files/1MiB; curl server/chunked/1.5MB >x; curl server/files/1MiB"],
            ["1MiB", "1.5MB"],
        ),
        (["curl", "http://server/files/5MiB.zip", "http://server/files/5", "http://server/upload/5MiB", "files/5MiBx"], []),
        ([], []),
    ],
)
def test_names_that_are_sizes(words: list[str], names: list[str]) -> None:
    assert asked_files(words) == names


def test_each_is_made_once_under_the_name_that_was_asked_for() -> None:
    ran: list[list[str]] = []
    made: list[int] = []

    def payload(_: object, size: int) -> Payload:
        made.append(size)
        return Payload(payload_name(size), size, "", PurePosixPath("/s/files", payload_name(size)))

    servers: Any = SimpleNamespace(network=SimpleNamespace(server=SimpleNamespace(run=ran.append)), payload=payload)
    put_asked_files(servers, ["server/files/2MiB", "server/files/2MB", "server/chunked/2MB"])
    assert made == [2 << 20, 2_000_000]
    assert ran == [["ln", "-sf", "2000000B", "/s/files/2MB"]]
