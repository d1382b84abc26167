"""Topologies from files: every fault is one line with file, line, field and a suggestion."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab.cli import schema
from lab.model.errors import UsageProblem
from lab.model.load import list_topologies, load_topology, parse_topology
from lab.model.paths import shipped_topologies_dir
from lab.model.units import BitRate, Duration

GOOD = "name: mine\ndescription: A test.\nlink:\n  rate: 20 Mbit/s\n  rtt: 30 ms\n"
SHIPPED = [
    "3g",
    "4g-bad",
    "4g-good",
    "5g-driving",
    "aioquic-20",
    "black-hole-20",
    "cable",
    "coast-200",
    "dns-failing-20",
    "dns-silent-20",
    "dns-slow-20",
    "dsl-20",
    "dsl-50",
    "dsl-bloated",
    "dual-20",
    "dual-dead-20",
    "dual-slow-20",
    "dual-unreachable-20",
    "ecn-20",
    "far-200",
    "far-50",
    "far-500",
    "geo-satellite",
    "gigabit-far",
    "home-wifi",
    "ipv6-20",
    "lan-20",
    "lan-50",
    "lan-700",
    "line-1000",
    "line-250",
    "link-local",
    "lossy-wifi",
    "lte",
    "made-lte",
    "metro-200",
    "office-two-hops",
    "office-vpn",
    "policed-20",
    "reordering-20",
    "rtt-0",
    "rtt-10",
    "rtt-100",
    "rtt-30",
    "rtt-300",
    "rtt-600",
    "same-host",
    "satellite",
    "starlink",
    "train",
    "transatlantic",
    "transatlantic-lossy",
    "tunnel-1280",
    "udp-blocked-20",
    "udp-policed-20",
    "wifi-roaming",
]


def test_the_shipped_topologies_have_their_figures() -> None:
    assert list_topologies() == SHIPPED
    links = {name: load_topology(name).link for name in SHIPPED}
    figures = {name: (link.rate, link.rtt) for name, link in links.items()}
    assert figures["dsl-50"][0] == BitRate.parse("50 Mbit/s")
    assert figures["dsl-20"][0] == BitRate.parse("20 Mbit/s")
    assert figures["transatlantic"] == (BitRate.parse("500 Mbit/s"), Duration.parse("100 ms"))
    assert figures["gigabit-far"] == (BitRate.parse("1 Gbit/s"), Duration.parse("100 ms"))
    for name, rate, rtt in (("metro", 200, 20), ("far", 50, 100), ("far", 200, 100), ("far", 500, 100)):
        assert figures[f"{name}-{rate}"] == (BitRate.parse(f"{rate} Mbit/s"), Duration.parse(f"{rtt} ms"))
    assert figures["lan-700"] == (BitRate.parse("700 Mbit/s"), Duration.parse("300 us"))
    assert not links["link-local"].shaped
    assert [name for name in SHIPPED if load_topology(name).same_host] == ["same-host"]
    assert links["lte"].direction("up").rate != links["lte"].direction("down").rate
    assert links["lte"].jitter.ns > 0
    assert 500 < links["satellite"].rtt.ms < 700
    assert links["lossy-wifi"].loss.value > 0
    assert links["lossy-wifi"].seed is not None


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_file_names_its_schema_for_editors(name: str) -> None:
    first = (shipped_topologies_dir() / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=./topology.schema.json"


def test_the_committed_schemas_are_what_the_generator_makes() -> None:
    for path, made in schema.files().items():
        assert json.loads(path.read_text(encoding="utf-8")) == made, f"{path.name} is stale: python -m lab.cli.schema"


def test_a_file_loads_by_path_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD, encoding="utf-8")
    monkeypatch.setenv("ROUGHWATER_TOPOLOGIES", str(tmp_path))
    assert load_topology(str(path)) == load_topology("mine")
    assert load_topology("mine").link.rtt == Duration.parse("30 ms")
    assert list_topologies() == sorted([*SHIPPED, "mine"])


def test_a_network_of_your_own_comes_before_the_shipped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "topologies"
    folder.mkdir()
    (folder / "dsl-20.yaml").write_text(GOOD.replace("name: mine", "name: dsl-20"), encoding="utf-8")
    shipped = load_topology("dsl-20")
    monkeypatch.chdir(tmp_path)
    assert load_topology("dsl-20") != shipped
    assert list_topologies() == SHIPPED


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (GOOD.replace("rtt", "rtd"), 5, "link.rtd: unknown field; did you mean 'rtt'?"),
        (GOOD.replace("description", "descripton"), 2, "descripton: unknown field; did you mean 'description'?"),
        (
            GOOD + "path:\n  - link\n  - {name: a, nat: {tcp_idl: 2 s}}\n",
            8,
            "path.1.nat.tcp_idl: unknown field; did you mean 'tcp_idle'?",
        ),
        (GOOD + "  up:\n    rat: 1 Mbit/s\n", 7, "link.up.rat: unknown field; did you mean 'rate'?"),
        (GOOD.replace("20 Mbit/s", "20 Mbitt/s"), 4, "link.rate: '20 Mbitt/s' is not a bit rate: unknown unit 'Mbitt/s'"),
        (GOOD.replace("30 ms", "30"), 5, "link.rtt: '30' is not a duration: it has no unit"),
        (GOOD + "same_host: true\n", 1, "same_host has no router to shape a link (leave `link` out)"),
        (GOOD + "  jitter: 20 ms\n", 3, "link: jitter 20 ms is more than the one-way delay 15 ms"),
        (GOOD + "  rtt: 40 ms\n", 6, 'duplicate key "rtt"'),
        ("name: mine\nlink: {}\n", 1, "description is missing"),
        ("", 1, "the file is empty"),
        ("- a\n", 1, "the file: "),
        (GOOD + " bad: indent\n", 6, "this is not YAML"),
        (GOOD + "---\nname: two\n", 6, "this is not YAML"),
        (GOOD.replace("link:", "link: &a\n  up: *a"), 4, "YAML aliases (*a) are not supported"),
        ("? [a]\n: 1\n", 1, "Keys should be strings"),
        ("name: 2001-99-99\n", None, "this is not YAML: month"),
        ("name: !secret x\n", 1, "YAML tags (!secret) are not supported"),
        ("\x07", None, "this is not YAML"),
        ("[" * 5000, None, "nested too deeply"),
    ],
)
def test_a_fault_is_one_line_with_its_place(tmp_path: Path, text: str, line: int | None, problem: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageProblem) as caught:
        load_topology(str(path))
    place = f"{path}:{line}: " if line else f"{path}: "
    assert str(caught.value).startswith(place)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_file_and_the_name_in_it_must_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "other.yaml"
    monkeypatch.setenv("ROUGHWATER_TOPOLOGIES", str(tmp_path))
    path.write_text(GOOD, encoding="utf-8")
    with pytest.raises(UsageProblem, match=re.escape("name: 'mine' is not the name of the file")):
        load_topology("other")


def test_an_unknown_name_gets_a_suggestion_and_the_list() -> None:
    with pytest.raises(UsageProblem, match="no topology called 'dls-20'; did you mean 'dsl-20'") as caught:
        load_topology("dls-20")
    assert all(name in caught.value.remedy for name in SHIPPED)


def test_an_unreadable_file_is_a_usage_problem(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="No such file"):
        load_topology(str(tmp_path / "none.yaml"))
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageProblem, match="not UTF-8 text"):
        load_topology(str(tmp_path / "binary.yaml"))
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(UsageProblem, match="directory"):
        load_topology(str(tmp_path / "folder.yaml"))


def test_a_duplicate_key_is_refused() -> None:
    with pytest.raises(UsageProblem, match=r'^x:2: .*duplicate key "a"'):
        parse_topology("a: 1\na: 2\n", "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f.yaml:1: the file is empty (known fields: congestion_control, description, "),
        ("# a comment\n", "f.yaml:1: the file is empty"),
        ("- a\n", "f.yaml:1: the file: fields are expected, one `name: value` a line"),
        ("name: mine\n", "f.yaml:1: description is missing"),
        (GOOD.replace("mine", ""), "f.yaml:1: name has no value (give it one)"),
        (GOOD + "schedule: {steps: null}\n", "f.yaml:6: schedule.steps has no value (give it one, or leave it out)"),
        (GOOD + "userlands: [debian]\n", "f.yaml:6: userlands: fields are expected"),
        (GOOD + "same_host: perhaps\n", "f.yaml:6: same_host: true or false is expected"),
        (GOOD.replace("A test.", "[a]"), "f.yaml:2: description: text is expected"),
    ],
)
def test_what_is_empty_or_of_another_kind_in_plain_words(text: str, said: str) -> None:
    with pytest.raises(UsageProblem) as fault:
        parse_topology(text, "f.yaml")
    assert str(fault.value).startswith(said)
    assert "Input should" not in str(fault.value)
