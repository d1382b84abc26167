"""The Dockerfiles build from a checkout as it is cloned, and from the context of `lab images build`, with the same lines."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.hosts.compose import content
from lab.hosts.compose.images import BASE_LABEL, ROLE_LABEL
from lab.model.paths import project_root

IMAGES = project_root() / "images"


def stages(role: str) -> dict[str, list[str]]:
    """Name -> lines of each stage; the last one, which is the image, is called like its role."""
    found: dict[str, list[str]] = {}
    for line in (IMAGES / role / "Dockerfile").read_text().splitlines():
        if matched := re.fullmatch(r"FROM (\S+)(?: AS (\w+))?", line):
            found[matched[2] or role] = []
        if found and line:
            found[list(found)[-1]].append(line)
    return found


def copied(role: str) -> set[str]:
    """Every place of the build context that a Dockerfile copies."""
    lines = [line.split()[1:-1] for lines in stages(role).values() for line in lines if line.startswith("COPY ")]
    return {word.rstrip("/") for words in lines if not words[0].startswith("--from=") for word in words}


@pytest.mark.parametrize("role", content.EVERY)
def test_every_stage_starts_from_the_base_that_was_given(role: str) -> None:
    assert {lines[0].split()[1] for lines in stages(role).values()} == {"${BASE}"}


@pytest.mark.parametrize("name", ["engine", "site"])
def test_a_stage_of_two_images_is_the_same_and_is_built_once(name: str) -> None:
    texts = {tuple(stages(role)[name]) for role in content.EVERY if name in stages(role)}
    assert len(texts) == 1


@pytest.mark.parametrize("role", content.EVERY)
def test_an_image_says_its_role_and_its_base(role: str) -> None:
    (line,) = (line for line in stages(role)[role] if line.startswith("LABEL "))
    assert line.split()[1:] == [f"{ROLE_LABEL}={role}", f"{BASE_LABEL}=${{BASE}}"]


@pytest.mark.parametrize("role", content.EVERY)
def test_what_is_copied_is_in_a_clone_and_in_the_labs_own_context(role: str) -> None:
    git = shutil.which("git")
    assert git
    held = subprocess.run([git, "ls-files"], cwd=project_root(), capture_output=True, text=True, check=True).stdout.split()
    folders = {str(parent) for place in held for parent in Path(place).parents}
    assert copied(role) <= folders | set(held)
    own = {str(parent) for place in content.scripts(role) for parent in Path(place).parents} | set(content.scripts(role))
    assert copied(role) <= own | set(content.FOLDERS)


@pytest.mark.parametrize("role", content.EVERY)
def test_the_script_knows_every_stage(role: str) -> None:
    known = set(re.findall(r"^(\w+)\)$", (IMAGES / "base/stage").read_text(), re.MULTILINE))
    asked = {line.split()[3] for lines in stages(role).values() for line in lines if line.startswith("RUN sh /make/stage ")}
    assert asked == {name for name in stages(role) if name != role}
    assert asked <= known
