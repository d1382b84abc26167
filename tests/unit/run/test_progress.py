"""The two times in front of a line."""

from __future__ import annotations

import io

from lab.run.progress import Lines
from tests.unit.store.conftest import make_sample


def test_virtual_time_is_shown_once_a_sample_has_taken_some() -> None:
    said = io.StringIO()
    lines = Lines(said)
    real = make_sample(0, 0.0)
    lines.sample("a", real, 5)
    lines.sample("a", real.model_copy(update={"seed": 1, "wall_s": 5.25}), 5)
    lines.sample("b", real.model_copy(update={"seed": 2, "wall_s": 2.0}), 5)
    times = [line.partition("] ")[0] for line in said.getvalue().splitlines()]
    assert times[0].endswith(" s")
    assert [time.partition(", ")[2] for time in times[1:]] == ["5.2 s virtual", "7.2 s virtual"]
