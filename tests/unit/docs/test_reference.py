"""docs/reference: what is generated is up to date, and the examples are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.clients.registry import parse_client, resolve
from lab.model.load import load_topology
from tests.support.reference import FOLDER, page, paths


@pytest.mark.parametrize("path", paths(), ids=lambda path: path.stem)
def test_a_generated_page_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == page(path), "run `make reference`"


def example(page: str) -> str:
    return next(iter(re.findall(r"```yaml\n(.*?)```", (FOLDER / page).read_text(encoding="utf-8"), re.DOTALL)))


def test_the_example_of_a_topology_loads(tmp_path: Path) -> None:
    file = tmp_path / "hotel.yaml"
    file.write_text(example("topology.md"), encoding="utf-8")
    assert load_topology(str(file)).name == "hotel"


def test_the_example_of_a_client_loads(tmp_path: Path) -> None:
    file = tmp_path / "axel.yaml"
    file.write_text(example("client.md"), encoding="utf-8")
    assert resolve(parse_client(str(file))).name == "axel"
