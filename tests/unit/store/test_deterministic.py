"""What must be the same in every run of a cell in virtual time, and where two first differ."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.results import CellResult, HostLoad, SetAside, VirtualMachine
from lab.store.deterministic import digest, first_difference, view

GUEST = VirtualMachine(
    seed=7,
    kernel_release="7.2.0-roughwater",
    kernel_sha256="a" * 64,
    charge_ns=200,
    charge_most_ns=10_000,
    conditions={"fixed memory": True},
    real_s=3.5,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def virtual(cell: CellResult) -> CellResult:
    samples = [sample.model_copy(update={"seed": 100 + sample.index}) for sample in cell.samples]
    return cell.model_copy(update={"backend": "virtual", "clock": "virtual", "virtual": GUEST, "samples": samples})


def elsewhere(cell: CellResult) -> CellResult:
    """The same cell on another machine, another day, with another lab in another folder."""
    load = HostLoad(
        span_s=1.0,
        steal_share=0.5,
        foreign_cores=1.0,
        lab_cores=1.0,
        cores=8,
        late_p99_ms=9.0,
        late_worst_ms=20.0,
        frequency_mhz=None,
        load_1min=8.0,
    )
    client = cell.client.model_copy(
        update={"path": "/elsewhere/curl", "program": "/elsewhere/curl", "command": ["/elsewhere/curl", "-q"]}
    )
    snapshot = cell.before.model_copy(
        update={"at": cell.before.at + timedelta(days=1), "machine": {"kernel": "9.9", "cores": 64}}
    )
    return cell.model_copy(
        update={
            "run": "another",
            "lab_version": "9.9.9",
            "client": client,
            "samples": [sample.model_copy(update={"host": load, "pcap": "x.pcap"}) for sample in cell.samples],
            "virtual": cell.virtual and cell.virtual.model_copy(update={"real_s": 99.0}),
            "backend_facts": {"engine": "another"},
            "host": None,
            "started_at": cell.started_at + timedelta(days=1),
            "ended_at": cell.ended_at + timedelta(days=2),
            "before": snapshot,
            "after": snapshot,
            "timing_s": {"transfer": 1e6},
        }
    )


def test_the_machine_and_the_moment_are_not_part_of_it(virtual: CellResult) -> None:
    called = virtual.client.model_copy(update={"command": [virtual.client.path, "-q"]})
    one = view(virtual.model_copy(update={"client": called}))
    assert first_difference(one, view(elsewhere(virtual))) is None
    assert digest(one) == digest(view(elsewhere(virtual)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"virtual": GUEST.model_copy(update={"seed": 8})}, "$.virtual.seed: 7, 8"),
        ({"virtual": GUEST.model_copy(update={"charge_ns": 256})}, "$.virtual.charge_ns: 200, 256"),
        ({"clock": "real"}, '$.clock: "virtual", "real"'),
    ],
)
def test_what_the_cell_is_is_part_of_it(virtual: CellResult, change: dict[str, Any], said: str) -> None:
    other = virtual.model_copy(update=change)
    assert first_difference(view(virtual), view(other)) == said
    assert digest(view(virtual)) != digest(view(other))


def test_every_sample_is_part_of_it_with_its_time_in_virtual_time(virtual: CellResult) -> None:
    late = virtual.samples[2].model_copy(update={"started_at": virtual.samples[2].started_at + timedelta(microseconds=1)})
    other = virtual.model_copy(update={"samples": [*virtual.samples[:2], late, *virtual.samples[3:]]})
    found = first_difference(view(virtual), view(other))
    assert found is not None
    assert found.startswith("$.samples[2].started_at: ")


def test_in_real_time_no_moment_is_part_of_it(cell: CellResult) -> None:
    assert "started_at" not in json.dumps(view(cell))
    late = [sample.model_copy(update={"started_at": sample.started_at + timedelta(hours=1)}) for sample in cell.samples]
    assert first_difference(view(cell), view(cell.model_copy(update={"samples": late}))) is None


def test_in_real_time_all_but_the_moments_is_part_of_it(cell: CellResult) -> None:
    found = view(cell)
    in_virtual_time = view(cell.model_copy(update={"clock": "virtual", "virtual": GUEST}))
    assert set(found) == set(in_virtual_time)
    renamed = [sample.model_copy(update={"index": sample.index + 1}) for sample in cell.samples]
    assert first_difference(found, view(cell.model_copy(update={"samples": renamed}))) == "$.samples[0].index: 0, 1"


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ({"a": [1, 2]}, {"a": [1]}, "$.a[1]: 2, not there"),
        ({"a": 1}, {"b": 1}, "$.a: 1, not there"),
        ({"a": 1}, {"a": 1.0}, "$.a: 1, 1.0"),
        ([True], [1], "$[0]: true, 1"),
        ({"a": {}}, {"a": []}, "$.a: {}, []"),
        ({"sysctl.net.it's": 1}, {"sysctl.net.it's": 2}, r"$['sysctl.net.it\'s']: 1, 2"),
        ("x\n", "y", r'$: "x\n", "y"'),
    ],
)
def test_the_first_difference_is_one_line(a: object, b: object, said: str) -> None:
    assert first_difference(a, b) == said


@given(JSON, JSON)
def test_two_values_differ_where_their_digests_do(a: object, b: object) -> None:
    found, other = first_difference(a, b), first_difference(b, a)
    assert (found is None) == (digest({"": a}) == digest({"": b})) == (other is None)
    if found is not None:
        assert len(found.splitlines()) == 1
        assert found.startswith("$")


@given(JSON)
def test_what_is_written_and_read_is_the_same(value: object) -> None:
    assert first_difference(value, json.loads(json.dumps(value))) is None


@given(st.dictionaries(st.text(max_size=3), JSON, min_size=1), st.data())
def test_one_change_is_found_where_it_is(document: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(document)))
    found = first_difference(document, {**document, name: "something else"})
    assert found is not None
    assert first_difference({name: document[name]}, {name: "something else"}) == found


# --- what a view holds --------------------------------------------------------------------------------------------------------


def aside(cell: CellResult) -> CellResult:
    """One transfer more, which was repeated."""
    return cell.model_copy(update={"set_aside": [SetAside(reason="the host was busy", sample=cell.samples[0])]})


def test_causes_stand_before_effects(virtual: CellResult) -> None:
    assert list(view(virtual)) == [
        *("schema_version", "id", "backend", "clock", "virtual", "userlands", "topology", "transfer", "expectation", "plan"),
        *("client", "router", "before", "certificate", "samples", "set_aside", "verdict", "after"),
    ]


def test_a_view_holds_what_the_cell_holds(virtual: CellResult) -> None:
    cell = aside(virtual)
    written, found = cell.model_dump(mode="json"), view(cell)
    for name in ("id", "backend", "clock", "userlands", "topology", "plan", "router", "certificate", "verdict"):
        assert found[name] == written[name]
    assert found["before"] == found["after"] == {"client": {"routes": [{"dst": "default"}]}}
    assert found["virtual"] == {
        name: value for name, value in written["virtual"].items() if name not in ("real_s", "counts", "digest")
    }
    kept = [{name: value for name, value in each.items() if name not in ("host", "pcap")} for each in written["samples"]]
    assert (found["samples"], found["set_aside"]) == (kept, kept[:1])
    client = {name: value for name, value in written["client"].items() if name not in ("path", "program")}
    assert found["client"] == client
    assert view(cell.model_copy(update={"clock": "real", "virtual": None}))["virtual"] is None


def test_in_real_time_neither_transfers_nor_looks_at_the_link_have_a_moment(cell: CellResult) -> None:
    found: Any = view(aside(cell))
    assert len(found["samples"][0]) == len(found["set_aside"][0]) > 10
    assert not any("started_at" in each for each in (*found["samples"], *found["set_aside"]))
    written = cell.model_dump(mode="json")["certificate"]
    for when in ("before", "after"):
        looks = [{name: value for name, value in look.items() if name != "at"} for look in written[when]]
        assert found["certificate"][when] == looks
    assert found["certificate"]["qdisc_commands"] == written["qdisc_commands"]
    assert view(cell.model_copy(update={"certificate": None}))["certificate"] is None


def test_the_program_is_called_by_a_word_wherever_it_lies(virtual: CellResult) -> None:
    def command(path: str, *words: str) -> Any:
        client = virtual.client.model_copy(update={"path": path, "command": list(words)})
        found: Any = view(virtual.model_copy(update={"client": client}))["client"]
        return found["command"]

    assert command("/a/curl", "/a/curl", "-q", "--with=/a/curl") == ["PROGRAM", "-q", "--with=PROGRAM"]
    assert command("", "curl", "-q") == ["curl", "-q"], "no path is known"
    client = virtual.client.model_copy(update={"path": "/a/curl"})
    samples = [sample.model_copy(update={"command": ["/a/curl", "-q"]}) for sample in virtual.samples]
    shown: Any = view(virtual.model_copy(update={"client": client, "samples": samples}))["samples"]
    assert {*map(str, (sample["command"] for sample in shown))} == {str(["PROGRAM", "-q"])}


# --- how two are compared -----------------------------------------------------------------------------------------------------


def test_a_digest_is_of_the_sorted_json_without_blanks() -> None:
    text = '{"a":[true,null,1.5],"b":{"c":1,"d":"\\u00e4"}}'
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert digest({"b": {"d": "ä", "c": 1}, "a": [True, None, 1.5]}) == digest(json.loads(text)) == expected


def test_what_json_cannot_hold_has_no_digest() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest({"a": float("nan")})


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ([1], "x", '$: [1], "x"'),
        ("x", [1], '$: "x", [1]'),
        ({"a": 1}, 2, '$: {"a":1}, 2'),
        (2, {"a": 1}, '$: 2, {"a":1}'),
        ([1], {"0": 1}, '$: [1], {"0":1}'),
        ([1, 2, 3], [1], "$[1]: 2, not there"),
        ([1], [1, [2]], "$[1]: not there, [2]"),
        ({"a": 1, "b": 2}, {"b": 3, "a": 1}, "$.b: 2, 3"),
        ({"a": 1, "b": 2}, {"b": 3, "a": 4}, "$.a: 1, 4"),
        ({"a": {"b": [0, {"c": None}]}}, {"a": {"b": [0, {"c": False}]}}, "$.a.b[1].c: null, false"),
        ({"b c": 1}, {"b c": 2}, "$['b c']: 1, 2"),
        ({"1b": 1}, {"1b": 2}, "$['1b']: 1, 2"),
        ({'a"\\': 1}, {'a"\\': 2}, r"""$['a"\\']: 1, 2"""),
        ({"": 1}, {"": 2}, "$['']: 1, 2"),
    ],
)
def test_a_difference_is_named_by_its_place(a: object, b: object, said: str) -> None:
    assert first_difference(a, b) == said


def test_a_value_is_shown_in_eighty_characters_at_most() -> None:
    whole, longer = "x" * 78, "x" * 79
    assert first_difference(whole, longer) == f'$: "{whole}", "{"x" * 76}...'
