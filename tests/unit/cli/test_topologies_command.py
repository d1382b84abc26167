"""`lab topologies`: every network that ships, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from lab.cli.topologies import topologies
from lab.model.load import list_topologies, load_topology, publishers
from lab.model.topology import Topology


def test_every_network_has_a_line_with_its_rate_and_round_trip(capsys: pytest.CaptureFixture[str]) -> None:
    topologies()
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert list(lines) == list_topologies()
    for name, line in lines.items():
        link = load_topology(name).link
        assert f"RTT {link.rtt}" in line
        unrated = {"same-host": "loopback", "made-lte": "trace"}
        assert (str(link.rate) if link.rate else unrated.get(name, "unshaped")) in line
    assert "loss 0.1 %," in lines["3g"]
    assert "jitter 4 ms" in lines["lte"]


def test_a_program_reads_complete_topologies(capsys: pytest.CaptureFixture[str]) -> None:
    topologies(json_output=True)
    found = [Topology.model_validate(each) for each in json.loads(capsys.readouterr().out)]
    assert found == [load_topology(name) for name in list_topologies()]


def test_published_networks_are_listed_with_their_source_and_what_that_leaves_open(capsys: pytest.CaptureFixture[str]) -> None:
    topologies(presets=True)
    out = capsys.readouterr().out
    for publisher in publishers():
        assert f"{publisher.publisher}: {publisher.source}" in out
        assert publisher.silent in out
        for name, preset in publisher.presets.items():
            line = next(line for line in out.splitlines() if line.split()[:1] == [name])
            assert str(preset.down) in line
            assert str(preset.up) in line
            assert line.endswith(preset.called)
    topologies(presets=True, json_output=True)
    found = [Topology.model_validate(each) for each in json.loads(capsys.readouterr().out)]
    assert found == [load_topology(name) for publisher in publishers() for name in publisher.presets]


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.yaml").write_text("name: [\n")
    monkeypatch.setenv("ROUGHWATER_TOPOLOGIES", str(tmp_path))
    with pytest.raises(typer.Exit) as ended:
        topologies()
    said = capsys.readouterr()
    assert ended.value.exit_code == 2
    assert "dsl-20 " in said.out
    assert said.err.startswith(f"lab: {tmp_path / 'broken.yaml'}:")
    assert said.err.count("\n") == 1
