"""The network that a test of the pytest plugin asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.model.errors import UsageProblem
from lab.model.link import Link
from lab.model.load import load_topology
from lab.testing.networks import topology_of

OFFICE = "name: office\ndescription: An office.\nlink: {rate: 8 Mbit/s, rtt: 30 ms}\n"


def test_a_name_is_the_topology_itself() -> None:
    assert topology_of(["lte"], {}, Path("/")) == load_topology("lte")


def test_a_file_is_found_next_to_the_test(tmp_path: Path) -> None:
    (tmp_path / "office.yaml").write_text(OFFICE)
    assert topology_of(["office.yaml"], {}, tmp_path).name == "office"


@pytest.mark.parametrize(
    ("words", "changes", "name"),
    [
        (["lte"], {"loss": "2 %"}, "lte-loss-2"),
        ([], {"rate": "4 Mbit/s", "rtt": "120 ms"}, "link-rate-4-mbit-s-rtt-120-ms"),
        ([], {"rate": "20.5 Mbit/s"}, "link-rate-20.5-mbit-s"),
    ],
)
def test_changes_are_in_the_link_and_in_the_name(words: list[str], changes: dict[str, Any], name: str) -> None:
    found = topology_of(words, changes, Path("/"))
    base = load_topology(words[0]).link if words else Link()
    assert found.name == name
    assert found.link == Link.model_validate({**base.model_dump(), **changes})
    assert found.link != base


def test_a_changed_link_leaves_the_rest_as_it_is() -> None:
    for name in ("train", "aioquic-20", "ecn-20"):
        base, found = load_topology(name), topology_of([name], {"loss": "2 %"}, Path("/"))
        kept = {"name", "description", "link"}
        assert found.model_dump(exclude=kept) == base.model_dump(exclude=kept)


@pytest.mark.parametrize(
    ("words", "changes", "said"),
    [
        ([], {}, "no network is given"),
        (["lte", "dsl-20"], {}, "one network"),
        (["lte"], {"lost": "2 %"}, "did you mean 'loss'"),
        ([], {"rate": "fast"}, "no such link"),
        (["ltee"], {}, "did you mean 'lte'"),
        (["made-lte"], {"rate": "2 Mbit/s"}, "made-lte replays a trace, which sets the rate"),
        (["train"], {"rate": None}, "no such network: .*schedule needs a link with a rate"),
    ],
)
def test_what_makes_no_sense_is_one_line_with_a_remedy(words: list[str], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageProblem, match=said) as caught:
        topology_of(words, changes, Path("/"))
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
