"""Every field of a topology is obeyed or refused, in one line, by every front end.

The proof has two halves. A field has an effect on parts of the network (`test_a_field_has_an_effect`): two topologies that differ
in the field alone make the lab's own code do something else there. Each front end hands those parts on: it runs from its entry
with topologies that set all parts. A field without an effect, and a part that does not arrive, are red.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple, get_args

import pytest
from pydantic import ValidationError
from robot.api import SkipExecution

from lab.model.clock import Clock
from lab.model.errors import EXIT_USAGE, UsageProblem
from lab.model.obeyed import EVERYWHERE, FRONT_ENDS, SEARCHED, FrontEnd, refusal
from lab.model.topology import Topology
from tests.unit.obeyed.effects import PARTS, topology_effects
from tests.unit.obeyed.fields import ENDPOINT, TRACE, Document, Leaf, leaves, topology_leaves, topology_pair
from tests.unit.obeyed.given import Given, finish, parts_of, prepare
from tests.unit.obeyed.ways import WAYS, cells

WORDS = ("name", "description", "endpoint.description", "schedule.trace.down.file", "schedule.trace.down.sha256")
WORDS_UP = ("schedule.trace.up.file", "schedule.trace.up.sha256")
"""For people: results have them, and nothing else follows from them."""
_LINE: Document = {"rate": "20 Mbit/s", "rtt": "40 ms"}
DOCUMENTS: dict[str, Document] = {
    "line": {
        "congestion_control": "reno",
        "link": {
            **_LINE,
            "queue": "30 packets",
            "loss": "1 %",
            "jitter": "2 ms",
            "reorder": "1 %",
            "seed": 7,
            "mtu": 1400,
            "up": {"rate": "5 Mbit/s", "corrupt": "1 %"},
        },
    },
    "managed": {"link": {**_LINE, "queue": {"kind": "fq_codel"}, "hidden_mtu": 1300}},
    "steps": {"link": _LINE, "schedule": {"steps": [{"at": "1 s", "rate": "15 Mbit/s"}], "repeat": "9 s"}},
    "trace": {"link": _LINE, "schedule": {"trace": TRACE}},
    "userlands": {"link": _LINE, "userlands": {"client": "debian:12", "server": "debian:13", "http3": "aioquic"}},
    "a server's userland": {"link": _LINE, "userlands": {"server": "debian:13", "http3": "aioquic"}},
    "one host": {"same_host": True},
    "endpoint": {"link": _LINE, "endpoint": ENDPOINT},
    "a path": {"link": _LINE, "path": [{"name": "wifi", "link": _LINE}, {"name": "home", "nat": {}}, "link"]},
    "two families": {"link": _LINE, "ip": "both", "ipv6": "dead", "dns": {"delay": "20 ms"}},
}
"""Together they set every part, one with the other where a link may have both."""


class Outcome(NamedTuple):
    """What came of a front end: what arrived, or why not."""

    arrived: dict[str, Any]
    problem: BaseException | None


CLOCKED: list[tuple[FrontEnd, Clock]] = [
    (front_end, clock) for front_end, facts in FRONT_ENDS.items() if "Topology" in facts.takes for clock in facts.clocks
]


@pytest.fixture(scope="module", name="drive")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs a front end with a document; each once."""

    @cache
    def drive(front_end: FrontEnd | None, clock: Clock, text: str) -> Outcome:
        folder = tmp_path_factory.mktemp("obeyed")
        (folder / "topologies").mkdir()
        file = folder / "topologies" / "net.yaml"
        file.write_text(text, encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            given = Given(file, clock, patch, folder)
            prepare(given)
            try:
                (WAYS[front_end] if front_end else cells)(given)
            except (UsageProblem, SkipExecution) as problem:
                return Outcome({}, problem)
            finish(given)
            return Outcome(given.arrived, None)

    return lambda front_end, clock, document: drive(front_end, clock, written(document))


def written(document: Document) -> str:
    """The file of a document; JSON is YAML."""
    return json.dumps({"name": "net", "description": "A test.", **document})


def topology(document: Document) -> Topology:
    return Topology.model_validate({"name": "net", "description": "A test.", **document})


# --- fields -------------------------------------------------------------------------------------------------------------


@cache
def parts_of_leaf(leaf: Leaf) -> frozenset[str]:
    """The parts of the network that a field has an effect on."""
    pair = topology_pair(leaf)
    without, given = (topology_effects(Topology.model_validate(document)) for document in pair)
    return frozenset(part for part in PARTS if without[part] != given[part])


def decided(leaf: Leaf) -> bool:
    """Whether a field needs no effect."""
    return leaf.path in (*WORDS, *WORDS_UP, *EVERYWHERE["Topology"])


@pytest.mark.parametrize("leaf", topology_leaves(), ids=lambda leaf: f"{leaf.path}-{leaf.model}")
def test_a_field_has_an_effect(leaf: Leaf) -> None:
    if not decided(leaf):
        assert parts_of_leaf(leaf), f"nothing obeys {leaf.path}: let the lab do so, or refuse it in lab.model.obeyed"


@pytest.mark.parametrize("path", EVERYWHERE["Topology"])
def test_what_no_network_can_have_is_refused_where_it_is_read(path: str) -> None:
    (leaf,) = [leaf for leaf in topology_leaves() if leaf.path == path]
    with pytest.raises(ValidationError, match=EVERYWHERE["Topology"][path]):
        Topology.model_validate(topology_pair(leaf).given)


def test_a_planted_field_is_found() -> None:
    class Planted(Topology):
        colour: bool = False

    (leaf,) = {*leaves(Planted)} - {*leaves(Topology)} - {each for each in leaves(Planted) if each.path != "colour"}
    assert not decided(leaf)
    without, given = (topology_effects(Planted(name="net", description="-", colour=colour)) for colour in (False, True))
    assert without == given, "so test_a_field_has_an_effect is red for it"


# --- front ends ---------------------------------------------------------------------------------------------------------


def test_every_front_end_has_a_way() -> None:
    assert {*get_args(FrontEnd)} == {*FRONT_ENDS}
    assert {*WAYS} == {front_end for front_end, facts in FRONT_ENDS.items() if facts.takes}


@pytest.mark.parametrize(("front_end", "clock"), CLOCKED)
def test_a_front_end_hands_on_or_refuses(front_end: FrontEnd, clock: Clock, drive: Any) -> None:
    """Every document; and every field of every model, by the parts that it has an effect on."""
    handed_on = {part for name in DOCUMENTS for part in _handed_on(front_end, clock, name, drive)}
    undecided = []
    for leaf in topology_leaves():
        if decided(leaf) or SEARCHED.get(front_end) == leaf.path:
            continue
        given = Topology.model_validate(topology_pair(leaf).given)
        problem = refusal(front_end, given, clock)
        if problem is None and not parts_of_leaf(leaf) <= handed_on:
            undecided.append((leaf.path, {*parts_of_leaf(leaf)} - handed_on))
        if problem is not None:
            assert problem.exit_code == EXIT_USAGE
            assert "\n" not in str(problem)
            assert problem.remedy
    assert not undecided


def _handed_on(front_end: FrontEnd, clock: Clock, name: str, drive: Any) -> Iterator[str]:
    """The parts of a document that arrive; none where it is refused, in the words of the table."""
    wanted = topology(DOCUMENTS[name])
    outcome: Outcome = drive(front_end, clock, DOCUMENTS[name])
    if problem := refusal(front_end, wanted, clock):
        assert outcome.problem is not None, f"{name} was not refused, and this arrived: {outcome.arrived}"
        assert problem.message in str(outcome.problem)
        return
    assert outcome.problem is None
    expected = parts_of(wanted)
    for part in PARTS:
        if expected[part] == parts_of(topology({"link": _LINE}))[part] and part != "link":
            continue
        assert part in outcome.arrived, f"{part} of {name} is dropped"
        assert _same(outcome.arrived[part], expected[part], front_end), f"{part} of {name} arrives as {outcome.arrived[part]}"
        yield part


def _same(arrived: Any, expected: Any, front_end: FrontEnd) -> bool:
    """Equal, but for what a search tries in place of the file's."""
    if front_end in SEARCHED and hasattr(arrived, "rtt"):
        own = SEARCHED[front_end].removeprefix("link.")
        expected = expected.model_copy(update={own: getattr(arrived, own)})
    return bool(arrived == expected)


@pytest.mark.parametrize("clock", ["virtual", "real"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_cell_is_run_as_its_topology_says(clock: Clock, name: str, drive: Any) -> None:
    """The other half of the front ends that hand cells to a session."""
    [*_handed_on_by_cells(clock, name, drive)]


def _handed_on_by_cells(clock: Clock, name: str, drive: Any) -> Iterator[str]:
    wanted = topology(DOCUMENTS[name])
    outcome: Outcome = drive(None, clock, DOCUMENTS[name])
    if problem := refusal("run", wanted, clock):
        assert problem.message in str(outcome.problem)
        return
    assert outcome.problem is None
    expected = parts_of(wanted)
    for part in PARTS:
        if part == "userlands" and clock == "real":
            continue
        found = outcome.arrived[part]
        if wanted.same_host and part in ("link", "mtu"):
            continue
        if part == "userlands" and expected[part]:
            # HTTP/3 is served where a cell speaks it: tests/unit/run/test_lab.py.
            found, expected[part] = ((each.client, each.server) for each in (found, expected[part]))
        assert found == expected[part], f"{part} of {name}"
        yield part
