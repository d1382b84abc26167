"""Names of versions, and the messages for missing ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.assets import curl_build, store
from lab.assets.curl_versions import LIBCURLS, VERSIONS
from lab.clients import versions
from lab.model.errors import UsageProblem


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put_into_cache(version: str) -> Path:
    directory = curl_build.place(version)
    directory.mkdir(parents=True)
    (directory / curl_build.PROGRAM).write_text("curl")
    store.write_manifest(directory, {}, store.digests(directory))
    return directory / curl_build.PROGRAM


def test_what_is_in_the_cache_is_found() -> None:
    path = put_into_cache("8.4.0")
    assert versions.program("curl@8.4.0") == str(path)


def test_what_is_not_in_the_cache_says_how_to_get_it() -> None:
    put_into_cache("8.4.0")
    with pytest.raises(UsageProblem) as caught:
        versions.program("curl@8.5.0")
    assert caught.value.message == "curl 8.5.0 has not been built"
    assert caught.value.remedy == "lab client build curl@8.5.0"


def test_a_damaged_program_counts_as_not_built() -> None:
    put_into_cache("8.4.0").write_text("cur1")
    with pytest.raises(UsageProblem, match="has not been built"):
        versions.program("curl@8.4.0")


@pytest.mark.parametrize(
    ("version", "nearest"),
    [
        ("7.87.0", "7.86.0, 7.88.1"),
        ("7.10", "7.60.0"),
        ("99.0.0", list(VERSIONS)[-1]),
        ("8.4", "8.3.0, 8.4.0"),
        ("newest", f"{next(iter(VERSIONS))} to {list(VERSIONS)[-1]}, debian"),
        ("", f"{next(iter(VERSIONS))} to {list(VERSIONS)[-1]}, debian"),
    ],
)
def test_an_unknown_version_names_its_neighbours(version: str, nearest: str) -> None:
    with pytest.raises(UsageProblem, match="in no registry") as caught:
        versions.program(f"curl@{version}")
    assert caught.value.remedy == f"known: {nearest}"


@pytest.mark.parametrize(
    ("spec", "problem", "remedy"),
    [
        ("curl@8.4.0-libssh2-1.10.0", "libssh2 '1.10.0' is in no registry the lab knows", "known: 1.9.0, 1.10.1"),
        ("curl@8.4.0-libssh2-1.2.8", "libssh2 '1.2.8' is in no registry the lab knows", "known: 1.7.0"),
        ("curl@8.4.0-libssh2-new", "libssh2 'new' is in no registry the lab knows", "known: 1.7.0 to 1.11.2"),
        ("curl@8.4.0-libssh2-", "libssh2 '' is in no registry the lab knows", "known: 1.7.0 to 1.11.2"),
        ("curl@8.4-libssh2-1.10.1", "curl '8.4' is in no registry the lab knows", "known: 8.3.0, 8.4.0"),
        (
            "libcurl@8.16.0-libssh2-1.10.1",
            "libcurl@8.16.0 is not built by the lab, so its libssh2 cannot be chosen",
            "libssh2 can be chosen for 8.15.0, 8.17.0",
        ),
        (
            "curl@debian-libssh2-1.10.1",
            "curl@debian is not built by the lab, so its libssh2 cannot be chosen",
            "libssh2 can be chosen for 7.60.0 to 8.22.0",
        ),
    ],
)
def test_a_libssh2_that_cannot_be_had(spec: str, problem: str, remedy: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        versions.parse(spec)
    assert (caught.value.message, caught.value.remedy) == (problem, remedy)


def test_a_version_with_another_libssh2() -> None:
    spec = "curl@8.4.0-libssh2-1.10.1"
    assert versions.parse(spec) == "8.4.0-libssh2-1.10.1"
    assert versions.lacks(spec) == ()
    put_into_cache("8.4.0")
    with pytest.raises(UsageProblem) as caught:
        versions.program(spec)
    assert caught.value.message == "curl 8.4.0-libssh2-1.10.1 has not been built"
    assert caught.value.remedy == f"lab client build {spec}"
    assert spec not in [row.spec for row in versions.available()]
    path = put_into_cache("8.4.0-libssh2-1.10.1")
    assert versions.program(spec) == str(path)
    rows = versions.available()
    at = [row.spec for row in rows].index("curl@8.4.0")
    source = "curl-sys 0.4.68+curl-8.4.0 of crates.io, libssh2-sys 0.3.0"
    assert rows[at + 1] == versions.Available(spec, source, path)
    assert len([row for row in rows if "curl@" in row.spec]) == len(VERSIONS) + 2 + 1 + len(LIBCURLS)


@pytest.mark.parametrize("spec", ["curl", "wget@1.21", "8.4.0", "@8.4.0", "curl-8.4.0"])
def test_an_unknown_version_of_curl(spec: str) -> None:
    with pytest.raises(UsageProblem, match="names no version"):
        versions.program(spec)


def test_the_systems_curl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "_SYSTEM_PROGRAM", tmp_path / "curl")
    with pytest.raises(UsageProblem, match="apt-get install curl"):
        versions.program("curl@debian")
    (tmp_path / "curl").touch()
    assert versions.program("curl@debian") == str(tmp_path / "curl")


def test_every_version_is_listed_once_with_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = tmp_path / "curl"
    system.write_text("#!/bin/sh\necho 'curl 7.88.1 (x86_64-pc-linux-gnu) libcurl/7.88.1'\n")
    system.chmod(0o755)
    monkeypatch.setattr(versions, "_SYSTEM_PROGRAM", system)
    path = put_into_cache("8.4.0")
    rows = {row.spec: row for row in versions.available()}
    tools, libraries = (f"curl@{version}" for version in VERSIONS), (f"libcurl@{version}" for version in LIBCURLS)
    assert list(rows)[: 2 + len(VERSIONS) + len(LIBCURLS)] == ["curl@debian", *tools, "libcurl@debian", *libraries]
    assert rows["requests@2.31.0"].source == "requests 2.31.0 of PyPI"
    assert rows["curl@8.4.0"].program == path
    assert rows["curl@8.5.0"].program is None
    assert rows["curl@debian"] == versions.Available("curl@debian", "this system's package, 7.88.1", system)
    assert rows["curl@8.4.0"].source == "curl-sys 0.4.68+curl-8.4.0 of crates.io"
    assert rows["libcurl@8.23.0"].source == "pycurl 7.49.0 of PyPI"
    assert [row.spec for row in rows.values() if "sftp" in row.lacks] == ["libcurl@7.84.0"]


@pytest.mark.parametrize("version", ["7.84.0", "8.16.0", "8.23.0"])
def test_a_version_that_exists_as_a_library_only_names_it(version: str) -> None:
    with pytest.raises(
        UsageProblem, match=rf"no registry has curl {re.escape(version)} as a program, only as a library"
    ) as caught:
        versions.program(f"curl@{version}")
    assert caught.value.remedy == f"libcurl@{version}"
    with pytest.raises(UsageProblem, match="has not been built"):
        versions.program(f"libcurl@{version}")
