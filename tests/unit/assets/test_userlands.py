"""Userlands as folders: packages, distribution, digest, and folders that the lab refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.assets import tools, userlands
from lab.model.errors import UsageProblem

DPKG = """\
Package: curl
Status: install ok installed
Architecture: amd64
Version: 8.14.1-2

Package: gone
Status: deinstall ok config-files
Version: 1

Package: nginx
Status: install ok installed
Version: 1.26.3-3
Description: a server
 of the web
"""
APK = "C:Q1abc=\nP:busybox\nV:1.37.0-r12\nA:x86_64\n\nP:musl\nV:1.2.5-r9\n"
RECORDS = """\
Package: curl
Version: 8.14.1-2
SHA256: aa

Package: curl
Version: 7.0
SHA256: bb

Package: other
Version: 1
SHA256: cc
"""


def root_with(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return folder


def test_the_packages_of_dpkg_and_of_apk_are_read(tmp_path: Path) -> None:
    debian = root_with(tmp_path / "debian", "var/lib/dpkg/status", DPKG)
    alpine = root_with(tmp_path / "alpine", "lib/apk/db/installed", APK)
    assert userlands.package_list(debian) == {"curl": "8.14.1-2", "nginx": "1.26.3-3"}
    assert userlands.package_list(alpine) == {"busybox": "1.37.0-r12", "musl": "1.2.5-r9"}
    assert userlands.package_list(tmp_path) == {}


def test_digests_are_those_of_the_installed_versions() -> None:
    assert userlands.package_sums(RECORDS, {"curl": "8.14.1-2", "nginx": "1.26.3-3"}) == {"curl": "aa"}


def test_the_distribution_is_the_roots_own_word(tmp_path: Path) -> None:
    assert userlands.distribution(tmp_path) == ""
    root_with(tmp_path, "usr/lib/os-release", 'NAME=x\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n')
    assert userlands.distribution(tmp_path) == "Debian GNU/Linux 13 (trixie)"


def test_every_file_and_link_counts_for_the_digest(tmp_path: Path) -> None:
    root = root_with(tmp_path, "usr/bin/tool", "one")
    (root / "bin").symlink_to("usr/bin")
    first = userlands.tree_digest(root)
    assert userlands.tree_digest(root) == first
    (root / "usr/bin/tool").write_text("two")
    second = userlands.tree_digest(root)
    (root / "bin").unlink()
    (root / "bin").symlink_to("usr/sbin")
    assert len({first, second, userlands.tree_digest(root)}) == 3


def test_a_folder_is_a_userland(tmp_path: Path) -> None:
    root = root_with(root_with(tmp_path, "var/lib/dpkg/status", DPKG), "usr/bin/curl", "")
    found = userlands.get(str(root), print)
    assert (found.root, found.name) == (root, str(root))
    assert found.facts.packages["nginx"] == "1.26.3-3"


@pytest.mark.parametrize(("name", "said"), [("debian:31", "debian:13"), ("/not/there", "no userland"), ("", "no userland")])
def test_what_is_not_there_is_refused(name: str, said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        userlands.get(name or "nowhere", print)


def test_a_folder_without_programs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="neither bin nor usr/bin"):
        userlands.get(str(tmp_path), print)


def test_without_mmdebstrap_none_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr(tools, "find", lambda _: None)
    with pytest.raises(UsageProblem, match="mmdebstrap is not installed"):
        userlands.get("debian:13", print)
