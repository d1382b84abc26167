"""`lab client`: what is built and in which order, what is refused before any build, and the list. The builder is a toy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from lab.assets import curl_build, python_packages, store
from lab.assets.curl_versions import LIBCURLS, VERSIONS
from lab.cli import client as command
from lab.clients import versions
from lab.model.errors import LabFault, UsageProblem


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a curl of the system's that says its version."""
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    system = tmp_path / "curl"
    system.write_text("#!/bin/sh\necho 'curl 7.88.1 (x86_64)'\n")
    system.chmod(0o755)
    monkeypatch.setattr(versions, "_SYSTEM_PROGRAM", system)
    return tmp_path


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The versions that were asked of the builder; 8.5.0 cannot be had from it."""
    asked: list[str] = []

    def build(version: str, progress: Callable[[str], None]) -> Path:
        asked.append(version)
        if version == "8.5.0":
            raise LabFault("curl 8.5.0 cannot be built: no luck")
        progress(f"building curl {version}")
        directory = curl_build.place(version)
        directory.mkdir(parents=True)
        (directory / curl_build.PROGRAM).write_text("curl")
        store.write_manifest(directory, {}, store.digests(directory))
        return directory / curl_build.PROGRAM

    monkeypatch.setattr(curl_build, "build", build)
    return asked


def lab_client(*words: str) -> Result:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, ["client", *words])


def refused(done: Result, kind: type[Exception] = UsageProblem) -> str:
    assert isinstance(done.exception, kind), done.output
    assert "\n" not in str(done.exception)
    return str(done.exception)


def test_versions_are_built_in_their_order_and_only_once(built: list[str]) -> None:
    done = lab_client("build", "curl@8.17.0", "curl@8.4.0")
    assert done.exit_code == 0, done.output
    assert built == ["8.17.0", "8.4.0"]
    assert f"client: curl@8.4.0 is {curl_build.find('8.4.0')}" in done.stdout.splitlines()
    again = lab_client("build", "curl@8.4.0", "curl@8.4.0")
    assert again.stdout.splitlines() == [f"client: curl@8.4.0 is {curl_build.find('8.4.0')}"]
    assert built == ["8.17.0", "8.4.0"]


def test_the_systems_curl_is_not_built(built: list[str], machine: Path) -> None:
    assert lab_client("build", "curl@debian").stdout == f"client: curl@debian is {machine / 'curl'}\n"
    assert built == []


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        (["curl@9.9.9"], f"curl '9.9.9' is in no registry the lab knows (known: {list(VERSIONS)[-1]})"),
        (["curl@8.4.0", "curl@8.4"], "curl '8.4' is in no registry the lab knows (known: 8.3.0, 8.4.0)"),
        (["curl@8.4.0", "wget@1.21"], "'wget@1.21' names no version of a client (write curl@VERSION, e.g. curl@8.4.0)"),
        (["curl"], "'curl' names no version of a client (write curl@VERSION, e.g. curl@8.4.0)"),
    ],
)
def test_an_unknown_name_is_refused_before_anything_is_built(built: list[str], specs: list[str], said: str) -> None:
    assert refused(lab_client("build", *specs)) == said
    assert built == []


def test_a_build_that_fails_ends_there_and_keeps_what_was_made(built: list[str]) -> None:
    said = refused(lab_client("build", "curl@8.4.0", "curl@8.5.0", "curl@8.8.0"), LabFault)
    assert said == "curl 8.5.0 cannot be built: no luck"
    assert built == ["8.4.0", "8.5.0"]
    assert curl_build.find("8.4.0")


def test_missing_build_tools_are_one_line_with_a_remedy(monkeypatch: pytest.MonkeyPatch, machine: Path) -> None:
    monkeypatch.setattr(
        curl_build, "missing_tools", lambda: [tool for tool in curl_build.BUILD_TOOLS if tool.group == "clients"][:2]
    )
    said = refused(lab_client("build", "curl@8.4.0"))
    assert said == "curl cannot be built without cmake, make (make clients, or sudo apt-get install cmake make)"
    assert curl_build.find("8.4.0") is None


def test_the_list_as_json_has_every_version_and_its_place(built: list[str], machine: Path) -> None:
    lab_client("build", "curl@8.4.0")
    rows = {row["spec"]: row for row in json.loads(lab_client("list", "--json").stdout)}
    tools, libraries = (f"curl@{version}" for version in VERSIONS), (f"libcurl@{version}" for version in LIBCURLS)
    of_curl = ["curl@debian", *tools, "libcurl@debian", *libraries]
    assert [*rows][: len(of_curl)] == of_curl
    locks = [path.stem.rpartition("-") for path in Path(python_packages.__file__).with_name("python").glob("*.lock")]
    assert len(locks) > 10
    assert {*rows} - {*of_curl} == {f"{package.removesuffix('-bin')}@{version}" for package, _, version in locks}
    assert rows["curl@debian"]["program"] == str(machine / "curl")
    assert rows["curl@8.4.0"]["program"] == str(curl_build.find("8.4.0"))
    assert rows["curl@8.8.0"]["program"] is None
    assert "sftp" in rows["libcurl@7.84.0"]["lacks"]
    assert built == ["8.4.0"]


def test_the_list_as_text_has_a_line_each(built: list[str]) -> None:
    lines = [line.split() for line in lab_client("list").stdout.splitlines()]
    assert {line[0] for line in lines if line and line[0].startswith("curl@")} == {
        "curl@debian",
        *(f"curl@{version}" for version in VERSIONS),
    }
    assert "in no registry: 7.61.0, 7.62.0," in " ".join(" ".join(line) for line in lines)
    assert built == []
