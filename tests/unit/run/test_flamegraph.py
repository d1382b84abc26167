"""The messages when a flame graph is impossible, before any network is up."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lab.model.errors import UsageProblem
from lab.run import flamegraph


def test_without_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageProblem, match="not installed") as found:
        flamegraph.get_ready(lambda _: None)
    assert "linux-perf" in found.value.remedy


def test_a_perf_that_may_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    perf = tmp_path / "perf"
    perf.write_text("#!/bin/sh\necho 'No permission to enable cpu-clock event.' >&2\nexit 255\n")
    perf.chmod(perf.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(UsageProblem, match="No permission") as found:
        flamegraph.get_ready(lambda _: None)
    assert "perf_event_paranoid" in found.value.remedy
    assert "\n" not in str(found.value)


def test_the_share_of_a_function_counts_the_samples_below_it_too() -> None:
    stacks = "curl;main;ssl_cf_data_pending;poll 3\ncurl;main;ssl_cf_data_pending_too 5\ncurl;ssl_cf_data_pending 2\n"
    assert flamegraph.share(stacks, "ssl_cf_data_pending") == pytest.approx(0.5)
    assert flamegraph.share(stacks, "absent") == 0
    assert flamegraph.share("", "main") is None


def test_containers_have_no_perf() -> None:
    with pytest.raises(UsageProblem, match="client's host"):
        flamegraph.get_ready(lambda _: None, "compose")
