"""What must be the same in every run of a cell in virtual time, and where two first differ."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.results import CellResult, HostLoad, VirtualMachine
from lab.store.deterministic import digest, first_difference, view

GUEST = VirtualMachine(
    seed=7,
    kernel_release="7.2.0-throughline",
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
