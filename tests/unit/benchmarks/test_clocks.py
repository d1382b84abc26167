"""Two clocks' cells side by side: when a real interval excludes the virtual mean, and what may excuse it."""

from __future__ import annotations

import math

import pytest

from benchmarks.clocks import MACHINE, MACHINE_MS, compare, line, pairs
from lab.model.results import CellResult, VirtualMachine
from tests.unit.store.conftest import make_cell


def judged(deviations: tuple[float, ...], name: str = "curl--dsl-50--http1-get-5MiB-at-1MBps") -> CellResult:
    return make_cell(deviations, cell_id=name)


REAL = (0.0010, 0.0014, 0.0006, 0.0012, 0.0008)


def test_a_mean_inside_the_interval_agrees() -> None:
    found = compare(judged(REAL), judged((0.0011,) * 5), 38)
    assert (found.word, found.unexplained, found.n) == ("agree", False, (5, 5))
    assert found.virtual == pytest.approx(0.0011)
    assert found.real
    assert found.real[1] < 0.0011 < found.real[2]


def test_one_of_many_cells_may_exclude_by_chance() -> None:
    just_outside = judged((0.0016,) * 5)
    assert compare(judged(REAL), just_outside, 38).word == "agree, as one of 38 cells"
    assert compare(judged(REAL), just_outside, 1).word != "agree"


def test_what_lies_outside_needs_a_cause() -> None:
    real, far = judged(REAL), judged((-0.04,) * 5)
    found = compare(real, far, 1)
    assert (found.word, found.unexplained) == ("EXCLUDED", True)
    named = compare(real, far, 1, {real.id[:4]: "the timer of the client's host"})
    assert (named.word, named.unexplained) == ("excluded: the timer of the client's host", False)


def test_processing_is_the_cause_where_a_dearer_system_call_gives_the_real_figure() -> None:
    real, far = judged(REAL), judged((-0.04,) * 5)
    guest = VirtualMachine(
        seed=1, kernel_release="7.2.12", kernel_sha256="0" * 64, charge_ns=20_000, charge_most_ns=20_000, conditions={}
    )
    near, nowhere = (judged((value,) * 5).model_copy(update={"virtual": guest}) for value in (0.0011, 0.3))
    found = compare(real, far, 1, priced=[nowhere, near])
    assert found.word == f"excluded: {MACHINE}, +0.11 % where a system call takes 20 us"
    assert not found.unexplained
    assert compare(real, far, 1, priced=[nowhere]).unexplained


def test_what_takes_a_little_longer_in_real_time_is_the_machine() -> None:
    virtual = judged((0.0,) * 5)
    limit = virtual.transfer.limit
    assert limit
    body_s = virtual.samples[0].expected_bytes / limit.byte_s
    for late_ms, word in ((1.0, f"excluded: {MACHINE}"), (MACHINE_MS + 1, "EXCLUDED"), (-1.0, "EXCLUDED")):
        late = -late_ms / 1e3 / body_s
        found = compare(judged((late, late, late, late, math.nextafter(late, 0))), virtual, 38)
        assert found.word == word
        assert found.longer_ms == pytest.approx(late_ms, rel=0.01)


def test_a_cell_that_the_machine_spoilt_says_nothing() -> None:
    spoilt = judged(REAL)
    spoilt = spoilt.model_copy(update={"verdict": spoilt.verdict.model_copy(update={"name": "INVALID"})})
    found = compare(spoilt, judged((0.5,) * 5), 38)
    assert found.word == "nothing to compare: the real cell is INVALID"
    assert (found.unexplained, found.longer_ms) == (False, None)
    assert line(found)[-2:] == ["-", found.word]
    assert compare(judged(REAL), spoilt, 38).word == "nothing to compare: the virtual cell is INVALID"


def test_pairs_are_of_one_id(capsys: pytest.CaptureFixture[str]) -> None:
    one, other = judged(REAL), judged(REAL, "another")
    assert [(a.id, b.id) for a, b in pairs([one, other], [one])] == [(one.id, one.id)]
    assert "another ran by one clock only" in capsys.readouterr().err
