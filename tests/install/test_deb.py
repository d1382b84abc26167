"""The package for Debian in bare Debians: installed, used, removed. `make deb` and `make release` run this on what they built."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lab import __version__
from lab.assets.release.trial import DEB_VARIABLE
from tests.support.bare_debian import PYTHONS, Debian, LackingError, unpack

# dpkg wants ldconfig; root has the PATH of a user in these Debians.
SBIN = "export PATH=/usr/sbin:/sbin:$PATH"

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module", params=PYTHONS)
def debian(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Debian:
    package = os.environ.get(DEB_VARIABLE)
    if not package:
        pytest.skip("there is no package to install: make deb builds one and runs this")
    try:
        made = unpack(request.param, tmp_path_factory.mktemp("deb"), wheels=False)
    except LackingError as why:
        pytest.skip(str(why))
    shutil.copy(package, made.root / "roughwater.deb")
    code, said = made.run(f"{SBIN}; dpkg --install /roughwater.deb", user="root")
    assert code == 0, said
    return made


def test_a_user_has_both_programs(debian: Debian) -> None:
    code, said = debian.run("lab --version && ferry --version && lab topologies && ls /usr/share/doc/roughwater/copyright")
    assert code == 0, said
    assert f"roughwater {__version__}" in said
    assert f"ferry {__version__}" in said


def test_modules_are_compiled_for_this_python(debian: Debian) -> None:
    home = debian.root / "usr/lib/roughwater/lib"
    compiled = {path.relative_to(home).parts[0] for path in home.glob("python*/site-packages/lab/**/*.pyc")}
    assert compiled == {f"python{PYTHONS[debian.root.name]}"}


def test_a_user_gets_a_verdict_of_ferry(debian: Debian) -> None:
    code, said = debian.run("lab run ferry--dsl-20--http1-get-300kB")
    assert code == 0, said
    assert (debian.root / "home/user/results").is_dir()


def test_removed_it_leaves_nothing(debian: Debian) -> None:
    """The last test of the file."""
    home: Path = debian.root / "usr/lib/roughwater"
    assert home.is_dir()
    code, said = debian.run(f"{SBIN}; dpkg --remove roughwater", user="root")
    assert code == 0, said
    assert not home.exists()
    assert not (debian.root / "usr/bin/lab").is_symlink()
