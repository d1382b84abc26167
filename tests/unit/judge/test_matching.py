"""Which cells are a pair: what each key takes a cell's value to be, and what the rest of its id has to be."""

from __future__ import annotations

import pytest

from lab.judge.matching import BY_KEYS, ByKey, Match, match_cells, match_within, os_of, place_of, short_version, value_of
from lab.model.results import CellResult
from tests.support.virtual import in_virtual_time
from tests.unit.store.conftest import make_cell

TRANSFER = "http1-get-5MiB-at-1MBps"


def cell(
    client: str = "curl", topology: str = "dsl-50", *, version: str = "7.88.1", asked: str = TRANSFER, **more: object
) -> CellResult:
    made = make_cell(cell_id=f"{client}--{topology}--{asked}")
    own = made.client.model_copy(update={"name": client, "version": version})
    network = made.topology.model_copy(update={"name": topology})
    return made.model_copy(update={"client": own, "topology": network, **more})


def on(
    system: dict[str, object] | None = None, machine: dict[str, object] | None = None, *command: str, **more: object
) -> CellResult:
    made = cell()
    before = made.before.model_copy(update={"hosts": {"client": system} if system is not None else {}, "machine": machine or {}})
    client = made.client.model_copy(update={"command": list(command)})
    return made.model_copy(update={"before": before, "client": client, **more})


@pytest.mark.parametrize(
    ("result", "name"),
    [
        (on(), "Linux"),
        (on({"os": "Microsoft Windows 11"}), "Windows"),
        (on({"system": "linux 6.1"}), "Linux"),
        (on({"os": "FreeBSD"}), "FreeBSD"),
        (on({"os": "wine-8.0 on Linux"}), "Wine"),
        (on({"os": "", "system": "Windows"}), "Windows"),
        (on({"os": 11}, {"system": "Windows"}), "Windows"),
        (on({"os": "Windows"}, {"os": "Linux"}), "Windows"),
        (on({"os": "Linux", "system": "Windows"}), "Linux"),
        (on({}, {"os": "Windows"}), "Windows"),
        (on({"os": "Linux"}, None, "wine", "curl.exe"), "Wine"),
        (on({"os": "Linux"}, None, "/usr/bin/wine64", "curl.exe"), "Wine"),
        (on({"os": "Linux"}, None, "winecellar"), "Linux"),
        (on({"os": "Linux"}, None, "sh", "wine"), "Linux"),
    ],
)
def test_the_system_is_that_of_the_clients_host_then_of_the_machine(result: CellResult, name: str) -> None:
    assert os_of(result) == name


def test_only_linux_on_a_virtual_machine_is_a_place_of_its_own() -> None:
    assert [place_of(on(backend=name)) for name in ("namespaces", "vagrant")] == ["Linux", "Linux VM"]
    assert place_of(on({"os": "Windows"}, backend="vagrant")) == "Windows"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("curl 7.88.1 (x86_64-pc-linux-gnu) libcurl/7.88.1", "7.88.1"),
        ("ferry 0.1.0-dev+abc", "0.1.0-dev+abc"),
        ("version 7", "version 7"),
        ("", ""),
    ],
)
def test_a_version_is_the_first_number_with_a_dot(text: str, number: str) -> None:
    assert short_version(cell(version=text)) == number


def test_every_key_has_its_value() -> None:
    found = cell("curl@8.4.0", "dsl-20", version="curl 8.4.0")
    values = {"client": "curl@8.4.0", "version": "8.4.0", "os": "Linux", "backend": "namespaces", "topology": "dsl-20"}
    assert {by: value_of(found, by) for by in BY_KEYS} == {**values, "clock": "real"}
    assert value_of(in_virtual_time(found), "clock") == "virtual"
    assert value_of(found.model_copy(update={"backend": "vagrant"}), "os") == "Linux VM"


@pytest.mark.parametrize(
    ("by", "one", "other", "subject", "values"),
    [
        ("client", cell(), cell("ferry"), f"dsl-50--{TRANSFER}", ("curl", "ferry")),
        ("version", cell(), cell(version="8.4.0"), f"curl--dsl-50--{TRANSFER}", ("7.88.1", "8.4.0")),
        ("version", cell("curl@7.1.0", version="7.1.0"), cell(), f"curl--dsl-50--{TRANSFER}", ("7.1.0", "7.88.1")),
        ("topology", cell(), cell(topology="dsl-20"), f"curl--{TRANSFER}", ("dsl-50", "dsl-20")),
        ("backend", cell(), cell(backend="compose"), f"curl--dsl-50--{TRANSFER}", ("namespaces", "compose")),
        ("os", on(), on({"os": "Windows"}), f"curl--dsl-50--{TRANSFER}", ("Linux", "Windows")),
        ("clock", cell(), in_virtual_time(cell()), f"curl--dsl-50--{TRANSFER}", ("real", "virtual")),
    ],
)
def test_two_cells_that_differ_in_the_key_alone_are_a_pair(
    by: ByKey, one: CellResult, other: CellResult, subject: str, values: tuple[str, str]
) -> None:
    pair = Match(subject, one, other, *values)
    assert match_cells([one], [other], by) == match_within([one, other], by) == [pair]
    assert match_cells([other], [one], by) == [Match(subject, other, one, *values[::-1])]


@pytest.mark.parametrize("by", BY_KEYS)
def test_equal_cells_are_not_a_pair(by: ByKey) -> None:
    assert match_cells([cell()], [cell()], by) == match_within([cell(), cell()], by) == []


@pytest.mark.parametrize(
    ("by", "other"),
    [
        ("client", cell("ferry", "dsl-20")),
        ("client", cell("ferry", asked="http1-get-1MiB")),
        ("client", cell("curl@8.4.0", "dsl-20")),
        ("topology", cell("ferry", "dsl-20")),
        ("topology", cell("curl@8.4.0", "dsl-20")),
        ("version", cell("ferry", version="8.4.0")),
        ("backend", cell("ferry", backend="compose")),
    ],
)
def test_a_second_difference_makes_them_no_pair(by: ByKey, other: CellResult) -> None:
    assert match_cells([cell()], [other], by) == match_within([cell(), other], by) == []


def test_an_id_of_another_form_is_read_by_its_transfer() -> None:
    strange = cell("ferry").model_copy(update={"id": "made elsewhere"})
    (found,) = match_cells([cell()], [strange], "client")
    assert found.subject == f"dsl-50--{TRANSFER}"


def test_every_cell_of_one_run_meets_every_cell_of_the_other_in_order() -> None:
    ours = [cell("a"), cell("b")]
    theirs = [cell("b"), cell("c"), cell("d", asked="http1-get-1MiB")]
    found = [(match.a_value, match.b_value) for match in match_cells(ours, theirs, "client")]
    assert found == [("a", "b"), ("a", "c"), ("b", "c")]


def test_within_a_run_the_first_meets_all_others_of_its_subject() -> None:
    cells = [cell("a"), cell("x", asked="http1-get-1MiB"), cell("b"), cell("a"), cell("c"), cell("y", asked="http1-get-1MiB")]
    found = [(match.a_value, match.b_value) for match in match_within(cells, "client")]
    assert found == [("a", "b"), ("a", "c"), ("x", "y")]
