"""`lab shell`, `lab exec` and `lab link`: which variables a command has, and what a link keeps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import typer
from typer.testing import CliRunner

from lab.cli import live, virtual_shell
from lab.cli.options import refuse_settings, variables
from lab.hosts.virtual.host import environment
from lab.model.errors import UsageProblem
from lab.model.topology import Topology
from lab.model.units import BitRate, Duration, Ratio
from lab.model.userland import Userlands
from tests.unit.obeyed.given import Given, prepare
from tests.unit.obeyed.ways import _live

TOPOLOGY = Topology.model_validate({"name": "net", "description": "A test.", "link": {"rate": "8 Mbit/s", "mtu": 1400}})


def test_variables_are_named_with_a_value_or_are_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "a=b")
    assert variables(["MINE", "OTHER=x=y", "EMPTY="]) == {"MINE": "a=b", "OTHER": "x=y", "EMPTY": ""}
    assert variables(None) == {}


@pytest.mark.parametrize("text", ["NOT_THERE", "", "=x"])
def test_a_variable_that_is_not_there_is_one_line(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(UsageProblem, match="--env") as caught:
        variables([text])
    assert caught.value.remedy


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Given:
    folder = tmp_path / "topologies"
    folder.mkdir()
    file = folder / "net.yaml"
    file.write_text("name: net\ndescription: A test.\nlink: {rate: 8 Mbit/s, mtu: 1400}\n")
    found = Given(file, "real", monkeypatch, tmp_path)
    prepare(found)
    return found


def _shell(given: Given, clock: Any) -> dict[str, str]:
    """The environment of a command in `lab shell --env MINE`."""
    seen: dict[str, str] = {}
    host = MagicMock(shares_files=True)
    host.attach.side_effect = lambda *_, env, **__: seen.update(env)
    network = MagicMock(client=host)
    network.client.under_test.run.side_effect = lambda _, env=None, **__: (
        seen.update(environment(env or {}))
        or SimpleNamespace(returncode=0, stdout=b"", stderr=b"", wall_s=0.0, started_ns=0, ended_ns=0)
    )
    attached = live._attached
    _live(given)
    servers = MagicMock(environment={"LAB_CA": "/ca"})
    given.patched(live, _attached=attached, open_live=lambda *_, **__: network, start_servers=lambda *_, **__: servers)
    given.patched(live, run_attached=lambda start: start((0, 1, 2), False) or 0)
    given.patched(virtual_shell, open_shaped=lambda *_, **__: (network, servers), explain=lambda *_: None)
    for name in ("PortSampler", "Watch"):
        given.patch.setattr(virtual_shell, name, lambda _: MagicMock())
    with pytest.raises(typer.Exit):
        live.shell(["true"], topology="net", clock=clock, env=["MINE"])
    return seen


def test_an_unknown_option_of_the_shell_is_not_a_command() -> None:
    app = typer.Typer()
    live.register(app)
    found = CliRunner().invoke(app, ["shell", "--user", "debian:13", "--", "true"])
    assert found.exit_code == 2
    assert "--user" in found.output


def test_a_shell_in_a_userland_is_in_virtual_time(given: Given) -> None:
    opened = MagicMock()
    opened.__enter__().run.return_value = 0
    given.patched(live, VirtualShell=lambda *words: opened(words) and opened)
    with pytest.raises(typer.Exit):
        live.shell(["true"], userland=["client=debian:13"])
    assert opened.call_args.args[0][3] == Userlands(client="debian:13")
    with pytest.raises(UsageProblem, match="--userland client=debian:13 and --clock real contradict each other"):
        live.shell(["true"], userland=["client=debian:13"], clock="real")


def test_a_command_has_the_same_variables_in_both_clocks(given: Given) -> None:
    given.patch.setenv("MINE", "mine")
    given.patch.setenv("SECRET", "not passed on")
    given.patch.setenv("TERM", "xterm")
    real, virtual = _shell(given, "real"), _shell(given, "virtual")
    assert real.pop("TERM") == "xterm", "a terminal says what it can"
    assert real == virtual == environment({"LAB_CA": "/ca", "MINE": "mine"})


def test_a_setting_next_to_a_topology_is_refused() -> None:
    refuse_settings("net", rate=None, rtt=Duration(0), loss=Ratio(0.0))
    refuse_settings("", rate=BitRate(8_000_000))
    with pytest.raises(UsageProblem, match="--rate and the topology net contradict each other"):
        refuse_settings("net", rate=BitRate(8_000_000))


def test_a_link_of_options_keeps_the_mtu_of_its_hosts(given: Given) -> None:
    _live(given)
    live.link_command(rate=BitRate(1_000_000))
    assert (given.arrived["link"].mtu, given.arrived["link"].rate) == (1400, BitRate(1_000_000))


@pytest.mark.parametrize(
    ("words", "env", "argv"),
    [
        ("client --env MINE=a -- env", ["MINE=a"], ["env"]),
        ("client --env MINE=a env --env", ["MINE=a"], ["env", "--env"]),
        ("--env MINE=a client --env OTHER=b -- env", ["MINE=a", "OTHER=b"], ["env"]),
        ("client --env=MINE=a --lab x -- env", ["MINE=a"], ["env"]),
        ("--lab x client -- env --lab y", None, ["env", "--lab", "y"]),
        ("client tc -s qdisc", None, ["tc", "-s", "qdisc"]),
        ("client -- -odd", None, ["-odd"]),
        ("client", None, []),
    ],
)
def test_options_of_exec_may_stand_before_and_after_the_host(
    words: str, env: list[str] | None, argv: list[str], given: Given
) -> None:
    found: dict[str, Any] = {}
    network = SimpleNamespace(**dict.fromkeys(("client", "server", "router", "wire"), MagicMock(interactive=True)))
    given.patched(live, attach=lambda _: (network, {}), _pick=str, _shell=list)
    given.patched(live, _attached=lambda _, command, __, variables: found.update(argv=command, env=variables) or 0)
    app = typer.Typer()
    live.register(app)
    done = CliRunner().invoke(app, ["exec", *words.split()])
    assert done.exit_code == 0, done.output
    assert found == {"argv": argv, "env": variables(env)}


def test_another_option_after_the_host_is_one_line(given: Given) -> None:
    app = typer.Typer()
    live.register(app)
    done = CliRunner().invoke(app, ["exec", "client", "--rate", "1mbit", "--", "env"])
    assert isinstance(done.exception, UsageProblem)
    assert "no option --rate" in str(done.exception)
