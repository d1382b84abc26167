"""A line of tc or tcset and the netem that the lab makes of it: the same options with the same values, or one line on why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from lab.cli import new
from lab.link.plan import plan
from lab.link.tc_line import read_line
from lab.model.errors import EXIT_USAGE, UsageProblem
from lab.model.load import load_topology
from lab.model.topology import Topology
from lab.run.clocks import needs_real_time
from lab.run.named_cells import named_cells

PREFIX = "tc qdisc add dev eth0 root netem"


def netem(topology: Topology, side: str = "up") -> str:
    """The options of the lab's netem for that direction."""
    planned = plan(topology.link.direction(side), topology.link.rtt, supports_seed=True)  # type: ignore[arg-type]
    assert planned is not None
    (words,) = planned.commands("eth0", "add")
    return " ".join(words[7:])


def in_us(options: str) -> str:
    """Times as the lab writes them."""
    return re.sub(r"\b([0-9]+)(m?)s\b", lambda match: f"{int(match[1]) * (1000 if match[2] else 1_000_000)}us", options)


def made(folder: Path, *words: str) -> Result:
    app = typer.Typer()
    new.register(app)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ROUGHWATER_TOPOLOGIES", str(folder / "topologies"))
        return CliRunner().invoke(app, ["topology", "net", *words])


def topology(folder: Path, *words: str) -> Topology:
    done = made(folder, *words)
    assert done.exit_code == 0, done.exception
    return load_topology(str(folder / "topologies" / "net.yaml"))


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (
            f"{PREFIX} delay 50ms rate 20mbit limit 100 loss 1%",
            "limit 100 delay 50ms loss 1% rate 20000000bit",
        ),
        ("sudo /sbin/tc qdisc replace dev eth0 handle 1: root netem rate 1mbps", "limit 1000 rate 8000000bit"),
        (f"{PREFIX} delay 100000 10000", None),
        (
            f"{PREFIX} limit 300 delay 20ms 4ms distribution normal rate 8Mbit",
            "limit 300 delay 20ms 4ms distribution normal rate",
        ),
        (f"{PREFIX} delay 5ms reorder 25% gap 1 corrupt 0.1 duplicate 2% 0% rate 512kibit", "rate 524288bit"),
        (f"{PREFIX} loss random 3% rate 1gbit seed 7 limit 2000", "limit 2000 loss 3% rate 1000000000bit seed 7"),
        (f"{PREFIX} drop gemodel 1% 25% rate 2mbit", "loss gemodel 1% 25% 100% 0%"),
        (f"{PREFIX} loss gemodel 2% rate 2mbit", "loss gemodel 2% 98% 100% 0%"),
        (f"{PREFIX} loss state 1% 25% 10% 50% rate 2mbit", "loss state 1% 25% 10% 50% 0%"),
        ("tcset eth0 --delay 100 --rate 20Mbps --loss 0.1%", "limit 1000 delay 100ms loss 0.1% rate 20000000bit"),
        ("tcset --device eth0 --rate=100K --overwrite --shaping-algo htb", "limit 1000 rate 100000bit"),
        ("tcset eth0 --delay 0.5min --limit 5000 --rate 1M", "limit 5000 delay 30s rate 1000000bit"),
        ("tcset eth0 --delay 20ms --delay-distro 4 --rate 8M", "delay 20ms 4ms distribution normal rate 8000000bit"),
        ("tcset eth0 --delay 20ms --delay-distro 4 --delay-distribution pareto --rate 8M", "distribution pareto"),
        ("tcset eth0 --duplicate 1 --corrupt 2% --reordering 3 --delay 1ms --rate 8M", "reorder 3% corrupt 2% duplicate 1%"),
    ],
)
def test_the_lab_makes_the_same_netem(line: str, options: str | None, tmp_path: Path) -> None:
    found = netem(topology(tmp_path, "--from-tc", line))
    assert in_us(options or "delay 100ms 10ms") in found
    assert ("limit 1000" in found) == ("limit" not in line and "rate" in line)


SHARE = st.integers(1, 50).map(lambda tenth: f"{tenth / 10:g}%")
LINES = st.fixed_dictionaries(
    {"rate": st.integers(1000, 100_000).map(lambda kbit: f"{kbit * 1000}bit"), "limit": st.integers(5000, 9000).map(str)},
    optional={
        "delay": st.integers(1, 90).map(lambda ms: f"{ms}ms"),
        "loss": st.one_of(SHARE, SHARE.map(lambda share: f"gemodel {share} 25% 90% 0.5%")),
        "corrupt": SHARE,
        "duplicate": SHARE,
        "seed": st.integers(0, 2**31).map(str),
    },
)


@given(LINES, st.permutations(["rate", "limit", "delay", "loss", "corrupt", "duplicate", "seed"]))
def test_every_option_comes_back_in_any_order(line: dict[str, str], order: list[str]) -> None:
    read = read_line(" ".join([PREFIX, *(f"{name} {line[name]}" for name in order if name in line)]))
    planned = plan(read.settings, read.settings.delay, supports_seed=True)
    assert planned is not None
    (words,) = planned.commands("eth0", "add")
    kept = ("limit", "delay", "loss", "corrupt", "duplicate", "rate", "seed")
    assert " ".join(words[7:]) == in_us(" ".join(f"{name} {line[name]}" for name in kept if name in line))


REFUSED = {
    f"{PREFIX} delay 50ms 10ms 25%": "correlation",
    f"{PREFIX} loss 1% 25%": "correlation",
    f"{PREFIX} duplicate 1% 5%": "correlation",
    f"{PREFIX} rate 1mbit 20": "without overhead",
    f"{PREFIX} rate fast": "rate",
    f"{PREFIX} slot 10ms": "slot",
    f"{PREFIX} loss 1% ecn": "ecn",
    f"{PREFIX} loss lots": "lots",
    f"{PREFIX} delay": "its value is missing",
    f"{PREFIX} delay 5ms reorder 25% gap 5": "gap",
    f"{PREFIX} reorder 25%": "reorder needs a delay",
    f"{PREFIX} delay 5ms 9ms": "more than the one-way delay",
    f"{PREFIX} delay 5ms 1ms distribution experimental": "experimental",
    f"{PREFIX} delay 50ms rate 20mbit limit 50": "83 packets are on their way",
    f"{PREFIX} delay 50ms limit 100": "limit 100 without a rate",
    f"{PREFIX} delay 500ms rate 1gbit": "netem's own limit",
    f"{PREFIX} loss 100%": "100 %",
    f"{PREFIX} loss 101%": "share",
    PREFIX: "shapes nothing",
    "tc qdisc add dev eth0 root tbf rate 1mbit burst 32kbit latency 400ms": "tbf",
    "tc qdisc add dev eth0 parent 1:1 netem delay 5ms": "root of its device",
    "tc qdisc del dev eth0 root": "qdisc del",
    "tc class add dev eth0": "class add",
    "tcset eth0 --delay 5ms --network 10.0.0.0/8": "--network",
    "tcset eth0 --delay 5ms --port 80": "--port",
    "tcset eth0 --shaping-algo tbf --rate 1M": "--shaping-algo",
    "tcset eth0 --rate 100": "--rate",
    "tcset eth0 --delay 5fortnights": "--delay",
    "tcset eth0": "shapes nothing",
    "ip link set eth0 up": "neither tc nor tcset",
    "tc 'open": "No closing quotation",
    "": "neither",
}


@pytest.mark.parametrize("line", REFUSED)
def test_another_option_is_one_line_and_leaves_no_file(line: str, tmp_path: Path) -> None:
    done = made(tmp_path, "--from-tc", line)
    assert isinstance(done.exception, UsageProblem), done.exception
    assert done.exception.exit_code == EXIT_USAGE
    assert REFUSED[line] in str(done.exception)
    assert "\n" not in str(done.exception)
    assert done.exception.remedy
    assert not (tmp_path / "topologies").exists()


def test_the_delay_of_a_line_is_one_way(tmp_path: Path) -> None:
    link = topology(tmp_path, "--from-tc", f"{PREFIX} delay 50ms").link
    assert (str(link.rtt), str(link.direction("up").delay), str(link.direction("down").delay)) == ("50 ms", "50 ms", "0 ms")


def test_a_line_for_each_device(tmp_path: Path) -> None:
    words = ["--from-tc", f"{PREFIX} delay 50ms rate 5mbit", "--from-tc-server", f"{PREFIX} delay 30ms loss 1%"]
    link = topology(tmp_path, *words).link
    assert (str(link.rtt), str(link.direction("up").delay), str(link.direction("down").delay)) == ("80 ms", "50 ms", "30 ms")
    assert (link.direction("up").loss.value, link.direction("down").loss.value) == (0, 0.01)


def test_incoming_at_the_client_is_outgoing_at_the_server(tmp_path: Path) -> None:
    incoming = "tcset eth0 --delay 50ms --direction incoming"
    assert str(topology(tmp_path, "--from-tc", incoming).link.direction("down").delay) == "50 ms"
    (tmp_path / "other").mkdir()
    done = made(tmp_path / "other", "--from-tc", incoming, "--from-tc-server", f"{PREFIX} delay 1ms")
    assert "both lines shape down" in str(done.exception)


def test_a_delay_of_one_side_is_not_shared(tmp_path: Path) -> None:
    link = topology(tmp_path, "--from-tc", f"{PREFIX} rate 1mbit", "--from-tc-server", f"{PREFIX} delay 40ms").link
    assert (link.direction("up").delay.ns, str(link.direction("down").delay)) == (0, "40 ms")


def test_other_kinds_have_no_line() -> None:
    with pytest.raises(UsageProblem, match="for topologies"):
        new.new("suite", "mine", from_tc=f"{PREFIX} delay 5ms")


@pytest.mark.parametrize(
    ("words", "transfer"),
    [
        (["--from-tc", f"{PREFIX} rate 8mbit"], "http1-put-2MB"),
        (["--from-tc-server", f"{PREFIX} rate 8mbit"], "http1-get-2MB"),
        (["--from-tc", f"{PREFIX} rate 8mbit", "--from-tc-server", f"{PREFIX} rate 8mbit"], "http1-get-2MB"),
        (["--from-tc", f"{PREFIX} delay 8ms"], "http1-get-2MB-at-1MBps"),
    ],
)
def test_the_command_that_is_printed_runs_in_virtual_time(words: list[str], transfer: str, tmp_path: Path) -> None:
    done = made(tmp_path, *words)
    assert done.stdout.endswith(f"try it with lab run curl--net--{transfer}\n")
    (cell,) = named_cells([f"curl--net--{transfer}"], topologies=[str(tmp_path / "topologies" / "net.yaml")])
    assert not needs_real_time(cell)
