"""Twenty seeds by day, as many as VERSIONS says at night: a published file is one version that the source had (README.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.engine.versions.draws import WAYS, draw
from tests.engine.versions.play import play, repeat
from tests.engine.versions.stage import Stage, staged

_SEEDS = int(os.environ.get("VERSIONS", "20"))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with staged() as made:
        yield made


@pytest.mark.parametrize("seed", range(1, _SEEDS + 1))
def test_a_published_file_is_one_version_that_its_source_had(stage: Stage, seed: int) -> None:
    problems = play(stage, seed)
    assert not problems, "\n".join([str(draw(seed)), *problems, repeat(seed)])


def test_every_way_is_drawn() -> None:
    ways = {draw(seed).way for seed in range(1, 201)}
    assert ways == set(WAYS)
