"""The words of --userland, and names of clients that end with one."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from lab.model.errors import UsageProblem
from lab.model.userland import NO_USERLANDS, TopologyUserlands, Userlands, release_of


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([], NO_USERLANDS),
        (["debian:13"], Userlands("debian:13", "debian:13")),
        (["client=debian:12"], Userlands(client="debian:12")),
        (["server=/srv/root", "client=debian:13"], Userlands("debian:13", "/srv/root")),
        (["/srv/root"], Userlands("/srv/root", "/srv/root")),
        (["debian:13", "client=debian:13"], Userlands("debian:13", "debian:13")),
    ],
)
def test_userlands_are_read(texts: list[str], found: Userlands) -> None:
    assert Userlands.parse(texts) == found


@pytest.mark.parametrize("texts", [["router=debian:13"], ["client="], [""], ["debian:13", "client=debian:12"]])
def test_userlands_that_make_no_sense_are_refused(texts: list[str]) -> None:
    with pytest.raises(UsageProblem, match="--userland"):
        Userlands.parse(texts)


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("debian13", "debian:13"),
        ("ubuntu24.04", "ubuntu:24.04"),
        ("debian", ""),
        ("8.4.0", ""),
        ("8.4.0-libssh2-1.10.1", ""),
        ("", ""),
    ],
)
def test_a_version_may_be_a_release_of_a_system(version: str, release: str) -> None:
    assert release_of(version) == release


def test_a_program_for_http3_needs_the_servers_userland() -> None:
    with pytest.raises(ValidationError, match=r"aioquic is a program of the server's userland \(set server: debian:13\)"):
        TopologyUserlands.model_validate({"client": "debian:12", "http3": "aioquic"})
