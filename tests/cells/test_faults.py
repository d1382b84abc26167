"""The suite `faults` in virtual time: a client that lies about its file fails, and its honest twin passes."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.model.answer import Answer, Fault
from lab.model.errors import NotSupported
from lab.model.link import Link
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import BitRate, Duration, Size
from lab.run.events import faults
from lab.run.events.faults import run_faults
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir, read_result

LINK = Topology(name="quick", description="-", link=Link(rate=BitRate.parse("20 Mbit/s"), rtt=Duration.parse("10 ms")))
VERSION = 'case "$*" in *--version*) exec /usr/bin/curl --version;; esac\n'
TRUNCATED = '/usr/bin/curl "$@"; exit 0'
# The last argument but two is the file: `-o FILE URL`.
SPOILT = '/usr/bin/curl --retry 3 --retry-all-errors "$@" || exit; while [ $# -gt 2 ]; do shift; done; printf X >> "$1"'


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    run = RunDir.create("test", results=tmp_path_factory.mktemp("results"))
    with Session(run, Options(clock="virtual")) as made:
        yield made


def curl(folder: Path, text: str) -> ClientSpec:
    path = folder / "curl"
    path.write_text(f"#!/bin/sh\n{VERSION}{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return ClientSpec(name="curl", program=str(path))


def ask(session: Session, fault: Fault, moved: str, client: ClientSpec | str = "curl", samples: int = 2) -> Answer:
    protocol, direction = moved.split()
    spec = client if isinstance(client, ClientSpec) else ClientSpec(name=client)
    transfer = Transfer.model_validate({"protocol": protocol, "direction": direction, "size": Size.parse("300 KiB")})
    found = run_faults(session, spec, LINK, transfer, fault, samples=samples)
    assert read_result(session.run.answer_path(found.id), Answer) == found
    return found


def test_a_liar_fails_and_its_honest_twin_passes(session: Session, tmp_path: Path) -> None:
    honest = ask(session, "fin", "http1 get")
    assert honest.judged.name == "PASS", honest.judged.reason
    assert {row.facts["outcome"] for row in honest.observations} == {"error"}
    assert all("under its name" in row.facts["left"] for row in honest.observations), "curl leaves what it has"
    liar = ask(session, "fin", "http1 get", curl(tmp_path, TRUNCATED))
    assert liar.judged.name == "FAIL"
    assert "exits 0 with a wrong file: " in liar.judged.reason
    assert "of 307200 bytes are there" in liar.judged.reason
    spoilt = ask(session, "http-error", "http1 get", curl(tmp_path, SPOILT), samples=1)
    assert "307201 bytes are there instead of 307200" in spoilt.judged.reason


def test_a_client_that_does_not_end(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "DEADLINE_S", 20.0)
    found = ask(session, "address", "http1 get", samples=1)
    assert found.judged.name == "FAIL"
    assert "does not end: still running" in found.judged.reason


@pytest.mark.parametrize(
    ("fault", "moved", "outcome"),
    [
        ("killed", "sftp put", "intact"),
        ("wrong-range", "http1 get", "error"),
        ("length-short", "http1 get", "error"),
    ],
)
def test_ferry(session: Session, fault: Fault, moved: str, outcome: str) -> None:
    found = ask(session, fault, moved, "ferry")
    assert found.judged.name == "PASS", found.judged.reason
    assert {row.facts["outcome"] for row in found.observations} == {outcome}
    assert outcome == "error" or all(row.figures["attempts"] > 1 for row in found.observations)


def test_what_nothing_can_notice(session: Session) -> None:
    found = ask(session, "corrupt", "http1 put", samples=1)
    assert found.judged.name == "FAIL"
    assert "bytes differ" in found.judged.reason


def test_a_fault_that_there_is_not(session: Session) -> None:
    with pytest.raises(NotSupported, match="no SFTP server that lies"):
        ask(session, "length-short", "sftp get")
