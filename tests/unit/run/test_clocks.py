"""Which clock a cell runs by, and which words refuse the other one."""

from __future__ import annotations

from typing import Any

import pytest

from lab.model.cell import Cell
from lab.model.errors import NotSupported
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.run.clocks import clock_for, is_windows_name, needs_real_time, needs_virtual_time, servers_for

RATE = {"rate": "8 Mbit/s"}


def cell(
    client: str | ClientSpec = "curl",
    *,
    link: Any = RATE,
    expect: Any = None,
    topology: dict[str, Any] | None = None,
    **more: Any,
) -> Cell:
    transfer: dict[str, Any] = {"protocol": "http1", "direction": "get", "size": "1 MB", **more}
    return Cell(
        client=ClientSpec(name=client) if isinstance(client, str) else client,
        topology=Topology.model_validate({"name": "plain", "description": "A test.", "link": link, **(topology or {})}),
        transfer=Transfer.model_validate(transfer),
        expectation=Expectation.model_validate(expect or {"kind": "none"}),
    )


PLAIN = cell()
SCHEDULE = {"schedule": {"steps": [{"at": "1 s", "rate": "1 Mbit/s"}]}}
REQUESTS: dict[str, Any] = {"files": 3, "discard": True}
NEED_REAL: list[tuple[Cell, str]] = [
    (cell(**REQUESTS), "requests per second are limited by the processor, which takes no time in virtual time"),
    (cell(link={"rtt": "20 ms"}), "nothing limits this transfer but the machine itself"),
    (cell(ClientSpec(name="curl", program="/c/Curl.EXE")), "a Windows program has not been tried in virtual time"),
]
NEED_VIRTUAL: list[tuple[Cell, str]] = [
    (cell(topology=SCHEDULE), "plain has a schedule"),
    (cell(link={**RATE, "hidden_mtu": 1300}), "plain has a hidden MTU"),
    (cell(protocol="h3"), "HTTP/3 has a server from a userland"),
]


@pytest.mark.parametrize(("asked", "reason"), NEED_REAL)
def test_what_the_machine_itself_decides_needs_real_time(asked: Cell, reason: str) -> None:
    assert needs_real_time(asked) == reason
    assert needs_virtual_time(asked) == ""
    assert clock_for([PLAIN, asked], "auto") == clock_for([asked], "real") == "real"
    with pytest.raises(NotSupported) as caught:
        clock_for([PLAIN, asked], "virtual")
    assert (caught.value.message, caught.value.remedy) == (f"{asked.id}: {reason}", "--clock real")


@pytest.mark.parametrize(("asked", "what"), NEED_VIRTUAL)
def test_what_only_a_machine_of_its_own_has_needs_virtual_time(asked: Cell, what: str) -> None:
    assert needs_virtual_time(asked) == what
    assert needs_real_time(asked) == ""
    assert clock_for([PLAIN, asked], "auto") == clock_for([asked], "virtual") == "virtual"
    with pytest.raises(NotSupported) as caught:
        clock_for([PLAIN, asked], "real")
    assert caught.value.message == f"{asked.id}: {what}, which runs in virtual time only"
    assert caught.value.remedy == "--clock virtual"


def test_a_plain_cell_runs_by_either_clock_and_by_the_virtual_one_if_none_is_asked_for() -> None:
    assert (needs_real_time(PLAIN), needs_virtual_time(PLAIN)) == ("", "")
    assert [clock_for([PLAIN], asked) for asked in ("auto", "virtual", "real")] == ["virtual", "virtual", "real"]


def test_cells_that_need_both_clocks_run_by_none() -> None:
    real, virtual = NEED_REAL[0], NEED_VIRTUAL[0]
    with pytest.raises(NotSupported) as caught:
        clock_for([PLAIN, virtual[0], real[0]], "auto")
    assert caught.value.message == f"{real[0].id}: {real[1]}, and {virtual[1]}, which runs in virtual time only"
    assert caught.value.remedy == "ask without one of them, or give the link a rate"


def test_virtual_time_can_answer_a_limited_transfer_over_an_unshaped_link() -> None:
    assert needs_real_time(cell(link={}, limit="1 MB/s", expect={"kind": "limit"})) == ""


def test_figures_of_the_processor_need_real_time_where_they_are_bounded() -> None:
    bounded = cell(expect={"kind": "cpu", "bound": 2.0})
    assert needs_real_time(bounded) == "CPU time in virtual time is only what its model of a processor charges"
    assert needs_real_time(cell(expect={"kind": "burst", "bound": 2.0}, limit="1 MB/s")) == ""


def test_servers_are_those_that_the_cells_talk_to() -> None:
    assert servers_for([PLAIN, cell(protocol="h2")]) == {"nginx"}
    assert servers_for([PLAIN, cell(protocol="sftp")]) == {"nginx", "sshd"}
    assert servers_for([]) == set()


@pytest.mark.parametrize(("program", "windows"), [("curl.exe", True), ("/c/FERRY.EXE", True), ("curl", False), ("exe", False)])
def test_a_windows_program_is_known_by_its_name(program: str, windows: bool) -> None:
    assert is_windows_name(ClientSpec(name="curl", program=program)) == windows
