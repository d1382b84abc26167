"""Pages, recipes, workflows, scripts and error texts install nothing by a name that may belong to others.

The lab's names are registered on no index of packages: `pip install NAME` would run the code of another project of that name.
So each name is a declared dependency or stands in EXPLAINED, and the lab itself comes from a file, an address or a checkout.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lab.model.extras import EXTRAS
from lab.model.paths import project_root

ROOT = project_root()
# Another project has it on PyPI. In two parts, because no file may have the name (test_former_name.py).
FORMER = "through" + "line"
OURS = re.compile(rf"roughwater|{FORMER}")
# Names that the lab does not depend on, with the reason why something of it installs them.
EXPLAINED = {
    "coverage": "tests/support/coverage_lab.py measures the tests with it, in a folder of its own; pinned by its version",
    "cosmic-ray": "tests/support/mutants_lab.py makes mutants with it, in an environment of its own; pinned by its version",
    "tree-sitter-rust": "tests/support/mutation/switches.py reads Rust with it, in a folder of its own; pinned by its version",
}
# Options whose next word is their value.
_VALUED = {
    *("--cache-dir", "--dest", "--find-links", "--index-url", "--only-binary", "--pip-args", "--python", "--python-platform"),
    *("--python-version", "--requirement", "--target", "--wheel-dir", "-d", "-f", "-i", "-r", "-t", "-w"),
}
_VERBS = ("install", "inject", "download", "wheel")
_COMMAND = re.compile(
    r"\b(?P<program>pip3?|pipx|uv pip|uv tool)\b(?: +-[^\s`]+(?:[ =][^\s-][^\s`]*)?)* +(?P<verb>"
    + "|".join(_VERBS)
    + r")\b(?P<words>[^\n;|&`]*)"
)
_INPUT = re.compile(
    r"""\bLAB_INSTALL["']?\s*[=:]\s*(?P<word>"[^"\n]*"|'[^'\n]*'|[^\s,]+)|^ +install: +(?P<input>\S.*)$""", re.MULTILINE
)
_PROSE = re.compile(
    rf"""\binstall(?:s|ed|ing)? +["'`]?(?P<name>(?:{OURS.pattern})(?:-\w+)*(?:\[[\w,]+\])?)["'`]?(?! @|[\w./*\[-])"""
)
_NAME = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[\w, -]*\])?(?: *[=<>~!].*)?")


class Installed(NamedTuple):
    """A distribution that a file's text has from an index, by its name there."""

    place: str
    name: str


@cache
def tracked() -> dict[str, str]:
    """The text of every file in git, or new here, that may install something, by its path.

    Locks are left out, because they name everything by its digest, and so is this file, which plants names.
    """
    done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = {}
    for name in done.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and not name.endswith(".lock") and path != Path(__file__):
            content = path.read_bytes()
            if b"\0" not in content and re.search(rb"\bpipx?\b|\buv\b|install|OWNER/", content):
                found[name] = content.decode("utf-8", "replace")
    return found


@cache
def ours() -> list[Installed]:
    """Every distribution that the files here have from an index."""
    return named(tracked())


def from_words(words: list[str], *, environment: bool = False) -> Iterator[str]:
    """The names among the words after `install`, without what is a file, an address or a variable.

    With `environment` the first is that of a pipx environment.
    """
    if "--no-index" in words:
        return
    kept = []
    after = ""
    for word in words:
        if word.startswith("#"):
            break
        if not word.startswith("-") and after not in _VALUED:
            kept.append(word)
        after = word
    for word in kept[1:] if environment else kept:
        # A word in capitals stands for a file.
        if "/" in word or " @ " in word or word.endswith((".whl", ".gz", ".")) or word.isupper() or re.match(r"[$<{]", word):
            continue
        if found := _NAME.fullmatch(word):
            yield found["name"]


def split(text: str) -> list[str]:
    """The words of a shell's line, up to a quote that nothing closes: it ends the text in which the line stands."""
    ends = [len(text), *(found.start() for found in reversed(list(re.finditer("[\"']", text))))]
    for end in ends:
        try:
            return shlex.split(text[:end])
        except ValueError:
            continue
    return []


def in_text(text: str) -> Iterator[str]:
    joined = re.sub(r"\\\n\s*", " ", text)
    for found in _COMMAND.finditer(joined):
        yield from from_words(split(found["words"]), environment=found["verb"] == "inject")
    for found in _INPUT.finditer(joined):
        yield from from_words([(found["word"] or found["input"]).strip("\"'")])
    for found in _PROSE.finditer(joined):
        yield from from_words([found["name"]])


def in_python(text: str) -> Iterator[str]:
    """Names in lists of arguments such as `[python, "-m", "pip", "install", PACKAGE]`, and in lists that begin with one."""
    known: dict[str, list[str]] = {}

    def words(node: ast.expr) -> list[str]:
        match node:
            case ast.Constant(value=str(value)):
                return [value]
            case ast.JoinedStr(values=parts):
                return ["".join(part.value if isinstance(part, ast.Constant) else "$" for part in parts)]  # type: ignore[misc]
            case ast.Starred(value=ast.Name(id=name)) | ast.Name(id=name):
                return known.get(name, [f"${name}"])
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [word for element in elements for word in words(element)]
        return ["$"]

    for node in ast.walk(ast.parse(text)):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                if isinstance(value, ast.Constant | ast.List | ast.Tuple):
                    known[name] = words(value)
            case ast.List() | ast.Tuple():
                each = words(node)
                if {"pip", "pipx"} & set(each) and (verbs := [each.index(verb) for verb in _VERBS if verb in each]):
                    yield from from_words(each[min(verbs) + 1 :])


def named(files: dict[str, str]) -> list[Installed]:
    """Every distribution that these files have from an index."""
    found = []
    for place, text in files.items():
        names = [*in_text(text), *(in_python(text) if place.endswith(".py") else ())]
        found += [Installed(place, re.sub(r"[-_.]+", "-", name).lower()) for name in names]
    return found


def declared() -> set[str]:
    """The names that pyproject.toml depends on, in any extra or group, and what builds the packages."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lists = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
        project["build-system"]["requires"],
    ]
    names = {re.split(r"[^\w.-]", requirement)[0] for each in lists for requirement in each}
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names if not OURS.match(name)}


def wrong(installed: list[Installed]) -> list[str]:
    """A line for each name that is neither declared nor explained."""
    fine = declared() | set(EXPLAINED)
    return [f"{each.place}: {each.name}" for each in installed if each.name not in fine]


def test_whatever_we_install_by_name_is_declared_or_explained() -> None:
    assert wrong(ours()) == []


def test_what_is_explained_is_installed() -> None:
    assert set(EXPLAINED) <= {each.name for each in ours()}
    assert not set(EXPLAINED) & declared()


def test_it_finds_what_is_installed() -> None:
    """Scripts, modules and pages of several forms: if one of them were not read, the first test would prove nothing."""
    found = set(ours())
    for place, name in (
        ("lab/assets/lock.sh", "uv"),
        ("tests/support/coverage_lab.py", "coverage"),
        ("tests/support/mutation/switches.py", "tree-sitter"),
        ("docs/how-to/many-machines.md", "distributed"),
        ("docs/how-to/compare.md", "s3fs"),
    ):
        assert Installed(place, name) in found


@pytest.mark.parametrize(
    ("place", "text", "name"),
    [
        ("docs/how-to/ci.md", f"    - pipx install {FORMER}\n", FORMER),
        ("docs/how-to/ci.md", "    - pipx install roughwater\n", "roughwater"),
        ("docs/how-to/install.md", "$ pip install --quiet 'roughwater[s3]>=0.1'\n", "roughwater"),
        ("docs/how-to/install.md", "sudo apt-get install roughwater\n", "roughwater"),
        ("images/lab/Dockerfile", "RUN python3 -m pip install --no-cache-dir \\\n    roughwater-ferry\n", "roughwater-ferry"),
        ("action.yml", "        install: roughwater\n", "roughwater"),
        (".github/workflows/linux.yml", "        LAB_INSTALL: roughwater[ferry]\n", "roughwater"),
        (".ci/run", f"uv tool install {FORMER}-ferry && true\n", f"{FORMER}-ferry"),
        ("lab/store/z.py", "remedy = \"e.g. pip install 'roughwater[s3]'\" + more\n", "roughwater"),
        ("lab/clients/ferry.py", 'x = "install roughwater[ferry]"\n', "roughwater"),
        ("lab/hosts/x.py", 'P = "reqests==1"\npip = [python, "-m", "pip", "install"]\nrun([*pip, "-q", P])\n', "reqests"),
        ("lab/hosts/y.py", 'run(["pip", "--python", tree, "install", f"roughwater=={version}"])\n', "roughwater"),
    ],
)
def test_a_planted_name_is_found(place: str, text: str, name: str) -> None:
    before = (ROOT / place).read_text(encoding="utf-8") if (ROOT / place).is_file() else ""
    assert f"{place}: {name}" in wrong(named({place: before + text}))


@pytest.mark.parametrize(
    "text",
    [
        "pipx install ./roughwater-*.whl",
        'pip install "roughwater[s3] @ file:///tmp/roughwater-0.1.0-py3-none-any.whl"',
        "pip install --no-index --find-links dist roughwater",
        "pip install https://example.org/roughwater-0.1.0-py3-none-any.whl",
        "pip install . # builds roughwater",
        "pipx inject roughwater ./roughwater_ferry-*.whl s3fs",
        '"$python" -m pip install --quiet --require-hashes -r requirements.lock',
        "pip install FILE",
    ],
)
def test_a_file_an_address_and_a_dependency_are_right(text: str) -> None:
    assert wrong(named({"page.md": text})) == []


def test_the_remedies_name_what_the_extras_bring() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert {name: [requirement] for name, requirement in EXTRAS.items()} == {
        name: extras[name] for name in extras if name not in ("ferry", "test")
    }


def test_every_account_that_a_reader_must_fill_in_is_explained() -> None:
    files = {name: text for name, text in tracked().items() if not name.startswith("tests/")}
    lines = [f"{name}: {line.strip()}" for name, text in files.items() for line in text.splitlines() if "OWNER/" in line]
    assert lines
    assert [line for line in lines if "OWNER: the account" not in line] == []
