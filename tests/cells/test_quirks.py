"""Each quirk in virtual time: a good client passes, a bad one fails, and the network is as it was afterwards."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from lab.judge.tolerance import LookPlan
from lab.model.answer import Answer, Event
from lab.model.cell import Cell
from lab.model.errors import NotSupported
from lab.model.link import Link
from lab.model.load import load_topology
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import BitRate, Duration, Size
from lab.net.pins import assert_pinned
from lab.net.qdiscs import read_qdiscs
from lab.run.events import lookups, quirks
from lab.run.events.quirks import run_quirk
from lab.run.events.refusal import try_connect
from lab.run.events.send_buffers import compare_send_buffers
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir, read_result, read_run

LINK = Topology(name="quick", description="-", link=Link(rate=BitRate.parse("20 Mbit/s"), rtt=Duration.parse("10 ms")))
DOWNLOAD = Transfer(protocol="http1", direction="get", size=Size.parse("4 MiB"))
VERSION = 'case "$*" in *--version*) exec /usr/bin/curl --version;; esac\n'


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with open_session(tmp_path_factory.mktemp("results")) as made:
        yield made


def open_session(results: Path) -> Session:
    return Session(RunDir.create("test", results=results), Options(clock="virtual", virtual_looks=LookPlan(looks=(2,))))


def curl(folder: Path, text: str) -> ClientSpec:
    path = folder / "curl"
    path.write_text(f"#!/bin/sh\n{VERSION}{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return ClientSpec(name="curl", program=str(path))


def ask(session: Session, kind: Event, client: ClientSpec | None = None) -> Answer:
    found = run_quirk(session, client or ClientSpec(name="curl"), LINK, DOWNLOAD, kind)
    assert read_result(session.run.answer_path(found.id), Answer) == found
    return found


def assert_as_it_was(session: Session) -> None:
    with session.bench("look", LINK) as (network, servers):
        assert_pinned(network, "cubic")
        assert try_connect(network.client, servers.endpoints.server, servers.endpoints.http_port).outcome == "open"
        netems = [qdisc["options"] for port in read_qdiscs(network).values() for qdisc in port if qdisc["kind"] == "netem"]
        assert len(netems) == 2
        assert not any("loss-random" in netem for netem in netems)


def test_a_refused_connection(session: Session, tmp_path: Path) -> None:
    found = ask(session, "refused")
    assert found.judged.name == "PASS", found.judged.reason
    assert {row.name for row in found.observations} == {"server", "localhost"}
    assert all(row.facts["said"] for row in found.observations)
    deaf = ask(
        session, "refused", curl(tmp_path, 'n=0; while [ $n -lt 3 ]; do n=$((n+1)); sleep 1; done; exec /usr/bin/curl "$@"')
    )
    assert deaf.judged.name == "FAIL"
    assert "reported the refusal after" in deaf.judged.reason


def test_localhost(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(session, "localhost")
    assert found.judged.name == "PASS", found.judged.reason
    assert all(row.figures["control_queries"] for row in found.observations)
    lookup = "/usr/bin/python3 -c 'import socket; socket.getaddrinfo(\"localhost.test\", 80)' 2>/dev/null"
    asking = ask(session, "localhost", curl(tmp_path, f'{lookup}; exec /usr/bin/curl "$@"'))
    assert asking.judged.name == "FAIL"
    assert "localhost.test A" in asking.judged.reason
    monkeypatch.setattr(lookups, "CONTROL", "localhost")
    unproven = ask(session, "localhost")
    assert unproven.judged.name == "INVALID", "a control that is not counted proves nothing"


def test_a_server_that_does_not_answer(session: Session, tmp_path: Path) -> None:
    found = ask(session, "silent")
    assert found.judged.name == "PASS", found.judged.reason
    own, none = found.observations
    assert 5 <= own.figures["wall_s"] < 5.5, "curl's --connect-timeout"
    assert 120 < none.figures["wall_s"] < 140, "the kernel's"
    assert (own.figures["exit_code"], none.figures["exit_code"]) == (28, 28)
    persistent = ask(session, "silent", curl(tmp_path, 'exec /usr/bin/curl --retry 3 "$@"'))
    assert persistent.judged.name == "FAIL"


def test_localhost_with_one_address_that_serves(session: Session, tmp_path: Path) -> None:
    alone = load_topology("same-host")

    def fallback(client: ClientSpec) -> Answer:
        return run_quirk(session, client, alone, DOWNLOAD, "fallback")

    found = fallback(ClientSpec(name="curl"))
    assert found.judged.name == "PASS", found.judged.reason
    times = {row.name: row.figures["wall_s"] for row in found.observations}
    assert len(times) == 5
    assert all(seconds < 1 for seconds in times.values()), times
    only = fallback(curl(tmp_path, 'exec /usr/bin/curl -4 "$@"'))
    assert only.judged.name == "FAIL"
    assert "127.0.0.1 refuses, ::1 serves: failed with exit code 7" in only.judged.reason
    with pytest.raises(NotSupported, match="one address here"):
        ask(session, "fallback")


def test_a_link_that_flaps(session: Session, tmp_path: Path) -> None:
    found = ask(session, "flap")
    assert found.judged.name == "PASS", found.judged.reason
    assert all(row.facts["content"] == "whole" and row.figures["ended_after_s"] > 1 for row in found.observations)
    # Gives up silently when nothing came for a while, with what there is.
    short = ask(session, "flap", curl(tmp_path, '/usr/bin/curl --speed-time 1 --speed-limit 1000 -m 2 "$@" 2>/dev/null; exit 0'))
    assert short.judged.name == "FAIL"
    assert "exit code 0, but" in short.judged.reason
    assert_as_it_was(session)


@pytest.mark.parametrize(
    ("client", "protocol", "direction"), [("curl", "h2", "put"), ("curl", "http1", "put"), ("ferry", "sftp", "put")]
)
def test_any_transfer_can_be_interrupted(
    session: Session, client: str, protocol: Literal["http1", "h2", "sftp"], direction: Literal["get", "put"]
) -> None:
    transfer = Transfer(protocol=protocol, direction=direction, size=Size.parse("4 MiB"))
    found = run_quirk(session, ClientSpec(name=client), LINK, transfer, "flap")
    assert found.judged.name == "PASS", found.judged.reason
    # Something had passed before, and the link was silent for a second.
    assert all(row.figures["ended_after_s"] > 1 for row in found.observations)
    assert found.id == f"{client}--quick--{protocol}-{direction}-4MiB--flap"


def test_an_address_that_changes(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quirks, "ENDS_WITHIN_S", 8.0)
    patient = ask(session, "address")
    assert patient.judged.name == "FAIL", "curl alone waits for its dead connection"
    assert "still running 8 s after" in patient.judged.reason
    # Its own time limit, as there is no other that is quick enough for a test.
    limited = ask(session, "address", curl(tmp_path, 'exec /usr/bin/curl -m 3 "$@"'))
    assert limited.judged.name == "PASS", limited.judged.reason
    assert limited.observations[0].figures["exit_code"] == 28
    resuming = 'for try in 1 2 3; do /usr/bin/curl -m 3 "$@" && exit 0; done; exit 1'
    resumed = ask(session, "address", curl(tmp_path, resuming))
    assert resumed.judged.name == "PASS", resumed.judged.reason
    assert resumed.observations[0].facts["content"] == "whole", "the new address reaches the server"
    assert_as_it_was(session)


def test_a_client_that_is_too_quick_to_be_interrupted_is_invalid(session: Session, tmp_path: Path) -> None:
    found = ask(session, "flap", curl(tmp_path, "exit 0"))
    assert found.judged.name == "INVALID"
    assert "before it could be interrupted" in found.judged.reason
    broken = ask(session, "flap", curl(tmp_path, "echo no >&2; exit 3"))
    assert broken.judged.name == "FAIL"
    assert "exit code 3 before anything was done" in broken.judged.reason


def test_send_buffers_and_the_cell_after(tmp_path: Path) -> None:
    """A session of its own, because it ends: then its record is complete."""
    far = LINK.model_copy(update={"link": Link(rate=BitRate.parse("100 Mbit/s"), rtt=Duration.parse("60 ms"))})
    upload = Transfer(protocol="http1", direction="put", size=Size.parse("1 MiB"))
    with open_session(tmp_path) as session:
        found = compare_send_buffers(session, ClientSpec(name="curl"), far, upload, fixed=Size.parse("16 KiB"), rounds=2)
        assert found.judged.name == "PASS", found.judged.reason
        assert found.judged.interval is not None
        assert found.judged.interval.mean > 1.5
        assert_as_it_was(session)
        cell = Cell(client=ClientSpec(name="curl"), topology=LINK, transfer=DOWNLOAD, expectation=Expectation(kind="none"))
        assert session.run_cell(cell).verdict.name == "PASS"
    record = read_run(session.run.path)
    assert found.id in record.answers
    assert record.verdicts[found.id] == "PASS"
