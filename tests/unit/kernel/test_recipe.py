"""The shipped kernel was built from the recipe next to it."""

from __future__ import annotations

import importlib.util
import json
import lzma
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from lab.assets import kernel


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernel_build", kernel.recipe_dir() / "build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def build(tmp_path: Path) -> ModuleType:
    """build.py on a copy of its folder, which a test may spoil."""
    module = load()
    copy = tmp_path / "kernel"
    shutil.copytree(kernel.recipe_dir(), copy)
    module.HERE, module.DIGESTS, module.PACKED = copy, copy / "digests.json", copy / "linux-virtual.xz"
    return module


def test_shipped_kernel_is_of_this_recipe() -> None:
    assert load().check_recipe() == ""


def test_shipped_kernel_has_the_digest_of_a_recorded_build() -> None:
    digests = load().digests()
    assert digests["shipped"]["sha256"] in {entry["sha256"] for entry in digests["builds"]}
    assert digests["source"]["version"] == load().VERSION


def test_shipped_kernel_is_small() -> None:
    assert kernel.packed().stat().st_size <= load().MOST_BYTES


@pytest.mark.parametrize("name", ["fragment", "patches/0001-um-time-travel-charge.patch"])
def test_another_recipe_is_one_line(build: ModuleType, name: str) -> None:
    with (build.HERE / name).open("a") as stream:
        stream.write("\n")
    wrong = build.check_recipe()
    assert "recipe" in wrong
    assert "make kernel-ship" in wrong
    assert "\n" not in wrong


def test_another_variable_of_the_build_is_another_recipe(build: ModuleType) -> None:
    build.VARIABLES = {**build.VARIABLES, "KBUILD_BUILD_USER": "somebody"}
    assert "recipe" in build.check_recipe()


def test_another_binary_is_one_line(build: ModuleType) -> None:
    build.PACKED.write_bytes(lzma.compress(b"something else"))
    assert "restore it" in build.check_recipe()


def test_what_kconfig_drops_is_an_error(build: ModuleType) -> None:
    fragment = "CONFIG_NET=y\nCONFIG_GONE=y\n# CONFIG_HW_RANDOM is not set\n"
    with pytest.raises(build.BuildError, match="CONFIG_GONE=y, CONFIG_HW_RANDOM off"):
        build.not_taken(fragment, "CONFIG_NET=y\nCONFIG_HW_RANDOM=y\n")


def test_a_builds_digest_is_compared_with_those_recorded(
    build: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "linux"
    program.write_bytes(lzma.decompress(build.PACKED.read_bytes()))
    shipped = build.digests()["shipped"]
    tools = {key: shipped[key] for key in ("compiler", "linker", "libc")}
    assert build.compare(program, tools) == 0
    program.write_bytes(program.read_bytes()[:-1] + b"?")
    assert build.compare(program, tools) == 1
    assert build.compare(program, {**tools, "compiler": "gcc 99"}) == 3
    assert "first different byte" in capsys.readouterr().out


def test_recording_keeps_other_compilers_of_the_same_recipe(build: ModuleType, tmp_path: Path) -> None:
    program = tmp_path / "linux"
    program.write_bytes(b"kernel")
    before = build.digests()
    tools = {"compiler": "gcc 99", "linker": "ld 99", "libc": "libc 99"}
    build.record(program, tools, ship=False)
    after = json.loads(build.DIGESTS.read_text())
    assert after["shipped"] == before["shipped"]
    assert len(after["builds"]) == len(before["builds"]) + 1
