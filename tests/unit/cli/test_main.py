"""Which file each command of `lab` is in."""

from __future__ import annotations

from importlib import import_module

import pytest
import typer

from lab.cli.main import GROUPS


@pytest.mark.parametrize("name", GROUPS)
def test_a_file_brings_the_commands_that_are_said_to_be_in_it(name: str) -> None:
    app = typer.Typer()
    import_module(f"lab.cli.{name}").register(app)
    brought = [each.name for each in app.registered_commands]
    brought += [each.typer_instance.info.name for each in app.registered_groups if each.typer_instance]
    assert tuple(brought) == GROUPS[name]


def test_every_file_with_commands_is_known() -> None:
    from pathlib import Path

    import lab.cli

    found = {
        path.stem for folder in lab.cli.__path__ for path in Path(folder).glob("*.py") if "def register(app" in path.read_text()
    }
    assert found == {*GROUPS}
