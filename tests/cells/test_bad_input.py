"""Wrong input is one line and exit code 2, before any network is up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import lab, one_line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "nosuch"], "no suite called 'nosuch'"),
        (["run", "curl--dsl-21--http1-get-5MiB"], "did you mean 'dsl-20'"),
        (["run", "curl--dsl-20--http1-fetch-5MiB"], "http1-fetch-5MiB"),
        (["run", "curlew--dsl-20--http1-get-5MiB"], "unknown client 'curlew'"),
        (["run", "curl--dsl-20--http1-get-5MiB", "--client", "curl=/nowhere/curl"], "there is no /nowhere/curl"),
        (["run", "throttle", "--test", "Nothing Like It"], "no test of throttle matches"),
        (["shell", "--rate", "20mbitt", "--", "true"], "unknown unit 'mbitt'"),
        (["shell", "--loss", "130%", "--", "true"], "130%"),
        (["shell", "--rtt", "2ms", "--jitter", "9ms", "--", "true"], "jitter"),
        (["shell", "--", "nosuchcommand"], "no such command"),
        (["exec", "client", "--", "true"], "no lab is up"),
        (["down", "nosuch"], "no lab called 'nosuch' is up"),
        (["up", "--router", "quantum"], "'quantum' is not one of"),
        (["frobnicate"], "No such command"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words: list[str], said: str, tmp_path: Path) -> None:
    done = lab(*words, env={"ROUGHWATER_RESULTS": str(tmp_path / "results")})
    assert done.returncode == 2, done.stderr
    assert said in one_line(done)
