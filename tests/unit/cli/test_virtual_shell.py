"""Lines that would do nothing in a shell of their own."""

from __future__ import annotations

import pytest

from lab.cli.virtual_shell import refusal


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cd /tmp", "cd /tmp && COMMAND"),
        ("export A=1", "`export` changes a shell"),
        ("  umask 077 ", "umask 077 && COMMAND"),
        ("curl http://server/ &", "`wait`"),
    ],
)
def test_what_would_be_lost_is_refused(line: str, said: str) -> None:
    assert said in refusal(line)


@pytest.mark.parametrize(
    "line", ["", "cd /tmp && ls", "curl -o /dev/null http://server/", "sleep 1 & wait", "exporter --version"]
)
def test_what_works_is_allowed(line: str) -> None:
    assert refusal(line) == ""
