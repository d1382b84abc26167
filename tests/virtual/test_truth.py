"""The wire judges: no report helps a client to pass, and its honest twin passes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.judge.tolerance import LookPlan
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir
from tests.support.liars import DIRECTIONS, HONEST, LIMITLESS, OTHERS, PROTOCOLS, SIX_FAST, SPOILER, Liar, limited
from tests.virtual.truth import FACTORS, expected

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    options = Options(clock="virtual", virtual_looks=LookPlan(looks=(3, 5, 10)))
    with Session(RunDir.create("truth", results=tmp_path_factory.mktemp("results")), options) as made:
        yield made


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_liar_never_passes_and_its_honest_twin_does(session: Session, tmp_path: Path, protocol: str, direction: str) -> None:
    twin = session.run_cell(limited(HONEST.write(tmp_path), protocol, direction))
    assert twin.verdict.name == "PASS", twin.verdict.reason
    for sample in twin.samples:
        assert sample.body_clock == "wire"
        # ferry leaves in the kernel what is not due, so both clocks see the same first and last byte.
        assert sample.said_body_s == pytest.approx(sample.body_s, rel=0.0005)
    for liar in (LIMITLESS, SIX_FAST):
        judged = session.run_cell(limited(liar.write(tmp_path), protocol, direction))
        assert judged.verdict.name == "FAIL", (liar.name, judged.verdict.reason)


@pytest.mark.parametrize("liar", [*OTHERS, SPOILER], ids=lambda liar: liar.name)
def test_other_lies_fail_too(session: Session, tmp_path: Path, liar: Liar) -> None:
    judged = session.run_cell(limited(liar.write(tmp_path), "http1", "get"))
    assert judged.verdict.name == "FAIL", judged.verdict.reason


def test_a_lie_about_the_time_is_named(session: Session, tmp_path: Path) -> None:
    judged = session.run_cell(limited(LIMITLESS.write(tmp_path), "http1", "get"))
    assert "ferry-limitless says 1.049 s, the wire says 0.3" in judged.verdict.reason
    assert judged.samples[0].deviation is None


def test_a_client_that_lingers_has_a_tail(session: Session, tmp_path: Path) -> None:
    lingers = Liar("sleeper", factor=0, waits=True)
    sample = session.run_cell(limited(lingers.write(tmp_path), "http1", "get")).samples[0]
    assert sample.tail_s == pytest.approx(1.049 - 0.36, abs=0.1)


@pytest.mark.parametrize("factor", FACTORS)
def test_a_planted_deviation_is_found(session: Session, tmp_path: Path, factor: float) -> None:
    judged = session.run_cell(limited(Liar(f"x{factor:g}", factor=factor).write(tmp_path), "http1", "get"))
    assert judged.verdict.name == expected(factor), judged.verdict.reason
