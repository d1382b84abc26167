"""What a command's settings come to for its sessions, and the words of each contradiction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.hosts.choose import Backend
from lab.judge.host import HostLimits
from lab.model.errors import UsageProblem
from lab.model.units import Duration
from lab.model.userland import Userlands
from lab.run import settings
from lab.run.lock import holders
from lab.run.settings import Only, RunSettings, choose


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_LOCK", str(tmp_path / "lock"))
    return tmp_path / "lock"


@pytest.fixture(autouse=True)
def provided(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Who was to tell of programs that are fetched."""
    found: list[object] = []
    monkeypatch.setattr(settings, "provide", found.append)
    return found


@pytest.mark.parametrize(
    ("made", "real_now", "held"),
    [
        (RunSettings("real"), None, True),
        (RunSettings("virtual"), None, False),
        (RunSettings("auto"), None, False),
        (RunSettings("real"), False, False),
        (RunSettings("virtual"), True, True),
        (RunSettings("auto"), True, True),
    ],
)
def test_the_machine_is_taken_at_once_where_everything_is_in_real_time(
    lock: Path, made: RunSettings, real_now: bool | None, held: bool
) -> None:
    with made.options(real_now=real_now) as options:
        assert lock.exists() == held
        assert options.turn is not None
        with options.turn():
            assert len(holders(lock)) == 1
    assert holders(lock) == []


def test_options_are_the_settings(provided: list[object]) -> None:
    made = choose(
        "auto",
        "namespaces",
        "kernel",
        wait=Duration.parse("5 s"),
        beside=True,
        any_host=True,
        real_only=Only("--pcap"),
    )
    assert made == RunSettings("real", router="kernel", wait=Duration.parse("5 s"), beside=True, watch_host=False)
    with made.options() as options:
        assert (options.clock, options.backend, options.router, options.beside) == ("real", "namespaces", "kernel", True)
        assert options.host_limits is None
    with choose("virtual", "auto", "auto", userlands=["client=debian-12"]).options() as options:
        assert options.userlands == Userlands.parse(["client=debian-12"])
        assert (options.beside, options.host_limits) == (False, HostLimits())
    assert provided == [settings._say] * 2


@pytest.mark.parametrize(("backend", "shares"), [("namespaces", True), ("compose", False), ("vagrant", False)])
def test_only_hosts_that_share_this_machines_programs_need_them_fetched(
    provided: list[object], backend: Backend, shares: bool
) -> None:
    made = RunSettings("virtual", backend)
    assert made.shares_programs == shares
    with made.options():
        assert len(provided) == shares


def test_what_is_fetched_is_printed_apart_from_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    settings._say("fetching nginx")
    assert capsys.readouterr() == ("", "lab: fetching nginx\n")


@pytest.mark.parametrize(
    ("asked", "more", "said"),
    [
        (
            ("virtual", "compose", "auto"),
            {},
            "--clock virtual and --backend compose contradict each other: its hosts live by this machine's clock",
        ),
        (("real", "virtual", "auto"), {}, "--backend virtual and --clock real contradict each other"),
        (("virtual", "virtual", "auto"), {"real_only": Only("--pcap")}, "--clock virtual and --pcap contradict each other"),
        (
            ("auto", "virtual", "uml"),
            {},
            "--backend virtual and --router uml contradict each other: in virtual time the router is the guest's own kernel",
        ),
        (
            ("real", "compose", "auto"),
            {"seed": 0},
            "--seed 0 and --clock real contradict each other: nothing repeats this machine's own time",
        ),
        (
            ("auto", "auto", "auto"),
            {"price": Duration(0), "real_only": Only("--pcap")},
            "--price 0 ms and --pcap contradict each other: there a system call takes what it takes",
        ),
        (
            ("real", "auto", "auto"),
            {"userlands": ["client=debian-12", "server=debian-13"]},
            "--userland client=debian-12 and --clock real contradict each other: userlands exist in virtual time only",
        ),
    ],
)
def test_a_contradiction_names_the_first_option_of_each_side_and_the_reason(asked: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        choose(*asked, **more)
    assert (caught.value.message, caught.value.remedy) == (said, "leave one of them out")
