"""Networks that other tools publish: their figures, and what becomes of them on a link."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.link.plan import plan
from lab.model.errors import UsageProblem
from lab.model.load import list_topologies, load_topology, parse_model, publishers
from lab.model.presets import QUEUE, Publisher
from lab.model.units import Ratio

NAMES = [name for publisher in publishers() for name in publisher.presets]


def test_no_name_is_given_twice() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 40
    assert not set(NAMES) & set(list_topologies())


@pytest.mark.parametrize(
    ("name", "down", "up", "rtt", "loss"),
    [
        ("lighthouse-slow-4g", 1_638_400, 750_000, 150, 0),
        ("chrome-fast-4g", 9_000_000, 1_500_000, 60, 0),
        ("webpagetest-3g-fast", 1_600_000, 768_000, 150, 0),
        ("firefox-regular-2g", 256_000, 51_200, 300, 0),
        ("android-edge", 236_800, 118_400, 240, 0),
        ("browserstack-2g-gprs-lossy", 30_000, 20_000, 650, 0.02),
        ("atc-edge-lossy", 240_000, 200_000, 840, 0.01),
    ],
)
def test_a_link_has_the_published_figures(name: str, down: int, up: int, rtt: float, loss: float) -> None:
    link = load_topology(name).link
    rates = [link.direction(side).rate for side in ("down", "up")]  # type: ignore[arg-type]
    assert [rate.bit_s for rate in rates if rate] == [down, up]
    assert link.rtt.ms == rtt
    assert link.loss == Ratio.parse(f"{loss * 100:g} %")


def test_one_way_delays_stay_in_their_direction() -> None:
    link = load_topology("atc-3g-good").link
    assert (link.direction("down").delay.ms, link.direction("up").delay.ms) == (90, 100)
    gprs = load_topology("android-gprs").link
    assert (gprs.direction("down").delay.ms, gprs.direction("up").delay.ms) == (0, 350)
    assert gprs.direction("up").jitter.ns == 200_000_000


@pytest.mark.parametrize("name", NAMES)
def test_every_network_can_be_planned_and_says_whose_it_is(name: str) -> None:
    topology = load_topology(name)
    assert topology.name == name
    assert any(publisher.publisher in topology.description for publisher in publishers())
    assert str(QUEUE) in topology.description
    for side in ("down", "up"):
        assert plan(topology.link.direction(side), topology.link.rtt, supports_seed=True)  # type: ignore[arg-type]


def test_a_network_of_your_own_comes_before_the_published_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "name: chrome-fast-4g\ndescription: Ours.\nlink: {rate: 1 Mbit/s}\n"
    (tmp_path / "chrome-fast-4g.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("ROUGHWATER_TOPOLOGIES", str(tmp_path))
    assert load_topology("chrome-fast-4g").description == "Ours."


def test_a_misspelt_name_is_corrected() -> None:
    with pytest.raises(UsageProblem, match="chrome-fast-4g"):
        load_topology("chrome-fast-4")


@pytest.mark.parametrize(
    "preset", ["{called: X, down: 1 Mbit/s, up: 1 Mbit/s, rtt: 10 ms, up_delay: 5 ms}", "{called: X, down: 1 Mbit/s}"]
)
def test_a_preset_that_contradicts_itself_is_refused(preset: str) -> None:
    text = f"publisher: P\nsource: S\nseen: today\nsilent: all\npresets:\n  x: {preset}\n"
    with pytest.raises(UsageProblem, match=r"presets\.yaml:6"):
        parse_model(Publisher, text, "presets.yaml")
