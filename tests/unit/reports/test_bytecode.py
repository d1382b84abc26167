"""Compiled templates are kept between programs, and a cache that takes none costs no page."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from reports import build, bytecode


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the templates that are compiled from now on."""
    names: list[str] = []
    compiling = jinja2.Environment._generate

    def noted(self: jinja2.Environment, source: object, name: str | None, *words: object, **options: object) -> object:
        names.append(str(name))
        return compiling(self, source, name, *words, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(jinja2.Environment, "_generate", noted)
    return names


def test_the_next_program_compiles_nothing(compiled: list[str]) -> None:
    build._environment.__wrapped__().get_template("run.html.j2")
    assert compiled
    compiled.clear()
    build._environment.__wrapped__().get_template("run.html.j2")
    assert compiled == []


def test_a_template_that_has_changed_is_compiled_again(tmp_path: Path, compiled: list[str]) -> None:
    (tmp_path / "page").write_text("before")
    for text in ("before", "after"):
        (tmp_path / "page").write_text(text)
        environment = jinja2.Environment(loader=jinja2.FileSystemLoader(tmp_path), bytecode_cache=bytecode.kept({}))
        assert environment.get_template("page").render() == text
    assert compiled == ["page", "page"]


def test_other_options_have_other_code() -> None:
    one, other = bytecode.kept({"trim_blocks": True}), bytecode.kept({"trim_blocks": False})
    assert one is not None
    assert other is not None
    assert one.directory != other.directory


def test_a_page_needs_no_cache(own_cache: Path, compiled: list[str]) -> None:
    own_cache.write_text("a file, where a folder should be")
    assert bytecode.kept({}) is None
    build._environment.__wrapped__().get_template("run.html.j2")
    assert compiled


def test_a_cache_that_has_gone_costs_no_page(tmp_path: Path) -> None:
    kept = bytecode.kept({})
    assert kept is not None
    Path(kept.directory).rmdir()
    environment = jinja2.Environment(loader=jinja2.DictLoader({"page": "text"}), bytecode_cache=kept)
    assert environment.get_template("page").render() == "text"
