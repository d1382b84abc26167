"""setup.sh: where its launchers go, what it says about them, and what `make wheel` needs. Python and .venv are stand-ins."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lab.model.paths import project_root

ROOT = project_root()
HARD_NAME = "a b ü'c $HOME"
PROGRAMS = ("lab", "roughwater")
FORMER_MARKER = "# Throughline launcher, written by lab/assets/setup.sh"


def program(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")), encoding="utf-8")
    path.chmod(0o755)


def make_checkout(folder: Path, everyone: Path) -> Path:
    """A checkout that is set up, with a script that takes `everyone` for the folder of root's launchers."""
    script = (ROOT / "lab/assets/setup.sh").read_text(encoding="utf-8")
    assert script.count("/usr/local/bin") == 1
    (folder / "lab/assets").mkdir(parents=True)
    (folder / "lab/assets/setup.sh").write_text(script.replace("/usr/local/bin", str(everyone)), encoding="utf-8")
    for name in ("pyproject.toml", "requirements.lock", "requirements-test.lock"):
        shutil.copyfile(ROOT / name, folder / name)
    program(folder / ".venv/bin/python")
    for name in PROGRAMS:
        program(folder / ".venv/bin" / name, f'echo {name} {shlex.quote(str(folder))} "$@"')
    return folder


@dataclass(frozen=True)
class User:
    """Someone who runs setup.sh."""

    home: Path
    everyone: Path
    stands: Path

    def become(self, uid: int) -> None:
        program(self.stands / "id", f"echo {uid}")

    def setup(self, checkout: Path, *words: str, path: str = "", **more: str) -> list[str]:
        """What it prints about launchers, once a first run has said all about the environment."""
        environment = {"HOME": str(self.home), "PATH": f"{self.stands}:/usr/bin:/bin{path and ':'}{path}", **more}
        argv = ["sh", str(checkout / "lab/assets/setup.sh"), *words]
        done = subprocess.run(argv, env=environment, cwd=self.home, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return [line for line in done.stdout.splitlines() if "Python packages" not in line]

    @property
    def own(self) -> Path:
        return self.home / ".local/bin"


@pytest.fixture
def user(tmp_path: Path) -> User:
    made = User(tmp_path / "home of ü", tmp_path / "everyone", tmp_path / "stands")
    made.home.mkdir()
    made.become(1000)
    program(made.stands / "python3")
    return made


@pytest.fixture
def checkout(user: User, tmp_path: Path) -> Path:
    return make_checkout(tmp_path / HARD_NAME / "checkout", user.everyone)


def says(launcher: Path) -> str:
    return subprocess.run([launcher, "a b", "c"], capture_output=True, text=True, check=True).stdout.strip()


def test_launchers_start_this_lab_and_setup_says_where_they_are(user: User, checkout: Path) -> None:
    both = f"{user.own}/lab and {user.own}/roughwater"
    advice = [
        f"setup: {user.own} is not on your PATH. Add this line to your shell's profile (~/.profile, ~/.bashrc, ~/.zshrc) "
        "and open a new shell:",
        'export PATH="$HOME/.local/bin:$PATH"',
    ]
    assert user.setup(checkout) == [f"setup: wrote {both}, to start this lab", *advice]
    assert [says(user.own / name) for name in PROGRAMS] == [f"{name} {checkout} a b c" for name in PROGRAMS]
    assert user.setup(checkout) == [], "other targets of make set up first, and say nothing twice"
    assert user.setup(checkout, "setup") == [f"setup: use {both} to start this lab", *advice]
    assert user.setup(checkout, "setup", path=str(user.own)) == [f"setup: use {both} to start this lab"]


def test_the_line_for_the_profile_works_as_it_is(user: User, checkout: Path, tmp_path: Path) -> None:
    for number, folder in enumerate((None, tmp_path / "it's $mine")):
        more = {"ROUGHWATER_LAUNCHER": str(folder)} if folder else {}
        line = user.setup(checkout, **more)[-1]
        environment = {"HOME": str(user.home), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(["sh", "-c", f"{line}\nlab x"], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == f"lab {checkout} x", number


def test_for_root_setup_says_that_the_launchers_are_for_everyone(user: User, checkout: Path) -> None:
    user.become(0)
    assert user.setup(checkout, path=str(user.everyone)) == [
        f"setup: wrote {user.everyone}/lab and {user.everyone}/roughwater, to start this lab, "
        "for every user of this machine because you are root"
    ]
    assert not user.own.exists()


def test_launchers_can_be_left_out(user: User, checkout: Path) -> None:
    assert user.setup(checkout, "setup", ROUGHWATER_LAUNCHER="no") == []
    assert not user.own.exists()


def test_another_program_stays(user: User, checkout: Path) -> None:
    program(user.own / "lab", "echo that of GitLab")
    assert user.setup(checkout, path=str(user.own)) == [
        f"setup: {user.own}/lab is another program; it stays. Use {checkout}/.venv/bin/lab",
        f"setup: wrote {user.own}/roughwater, to start this lab",
    ]
    assert says(user.own / "lab") == "that of GitLab"
    (user.own / "lab").unlink()
    (user.own / "lab").symlink_to("nowhere")
    assert "is another program" in user.setup(checkout)[0]
    assert (user.own / "lab").is_symlink()


def as_before(launcher: Path) -> None:
    """The launcher as the lab wrote it before November 2026."""
    text = launcher.read_text(encoding="utf-8")
    assert text.count("# Roughwater launcher, written by lab/assets/setup.sh") == 1
    launcher.write_text(text.replace("# Roughwater launcher, written by lab/assets/setup.sh", FORMER_MARKER), encoding="utf-8")


@pytest.mark.parametrize("age", [lambda _: None, as_before], ids=["today's", "of the former name"])
def test_a_launcher_is_replaced_once_its_checkout_is_gone(
    user: User, checkout: Path, tmp_path: Path, age: Callable[[Path], None]
) -> None:
    other = make_checkout(tmp_path / "it's another", user.everyone)
    user.setup(other)
    for name in PROGRAMS:
        age(user.own / name)
    assert user.setup(checkout) == [
        f"setup: {user.own}/{name} belongs to the checkout {other}; it stays. Use {checkout}/.venv/bin/{name}"
        for name in PROGRAMS
    ]
    assert says(user.own / "lab").startswith(f"lab {other}")
    shutil.rmtree(other)
    assert user.setup(checkout)[0] == f"setup: wrote {user.own}/lab and {user.own}/roughwater, to start this lab"
    assert says(user.own / "lab").startswith(f"lab {checkout}")


def test_a_checkout_replaces_its_own_launcher_of_the_former_name(user: User, checkout: Path) -> None:
    user.setup(checkout)
    as_before(user.own / "lab")
    assert user.setup(checkout)[0].startswith(f"setup: wrote {user.own}/lab and ")
    assert FORMER_MARKER not in (user.own / "lab").read_text(encoding="utf-8")


# --- make wheel -------------------------------------------------------------------------------------------------------


def needed(name: str) -> set[str]:
    """A package and all that it needs here."""
    found, open_names = set[str](), [name]
    while open_names:
        each = canonicalize_name(open_names.pop())
        if each not in found:
            found.add(each)
            wanted = map(Requirement, requires(each) or [])
            open_names += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def packages(lock: Iterable[str]) -> set[str]:
    return {found[1] for line in lock if (found := re.match(r"([a-z0-9-]+)==", line))}


def test_a_wheel_needs_hatchling_alone(user: User, checkout: Path) -> None:
    """The lab's environment has no hatchling here: a small one is made, and nothing is done about ferry or the lab's packages."""
    program(checkout / ".venv/bin/python", "exit 1")
    record = user.home / "words"
    inner = 'case $1 in -c) exit 1 ;; *) echo "inside $*" >>"$HOME/words" ;; esac'
    program(user.stands / "inner", inner)
    program(
        user.stands / "python3",
        'case "$*" in "-m venv"*) mkdir -p "$4/bin"; cp "${0%/*}/inner" "$4/bin/python" ;; -c*) exit 0 ;; esac',
        'echo "$*" >>"$HOME/words"',
    )
    user.setup(checkout, "wheel")
    assert record.read_text().splitlines() == [
        "-m venv --clear build/wheel-venv",
        "inside -m pip install --quiet --disable-pip-version-check --require-hashes -r build/wheel-venv/hatchling.lock",
        "inside -m hatchling build --target wheel --directory build/wheel",
    ]
    lock = (checkout / "build/wheel-venv/hatchling.lock").read_text().splitlines()
    assert packages(lock) == needed("hatchling")
    assert set(lock) <= set((ROOT / "requirements.lock").read_text().splitlines())
    assert sum("--hash=sha256:" in line for line in lock) >= len(packages(lock))


def test_a_wheel_is_built_in_the_labs_environment_where_that_has_hatchling(user: User, checkout: Path) -> None:
    program(checkout / ".venv/bin/python", 'case $1 in -c) ;; *) echo "$*" ;; esac')
    assert user.setup(checkout, "wheel") == ["-m hatchling build --target wheel --directory build/wheel"]
    assert not (checkout / "build").exists()


def test_make_wheel_sets_nothing_else_up() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "wheel"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["sh lab/assets/setup.sh wheel"]
