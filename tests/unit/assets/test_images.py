"""The container images: their content, when they are built again, and the archive, with a fake engine on PATH."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from lab.assets import engine, initrd, store, uml
from lab.hosts.agent.protocol import LAB_USER
from lab.hosts.compose import content, images
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import project_root, shipped_topologies_dir

FAKE = Path(__file__).with_name("fake_docker.py")
MMDEBSTRAP = """#!/bin/sh
echo "$@" >>"$FAKE_ENGINE/mmdebstrap"
for word; do case $word in */rootfs.tar) echo rootfs >"$word" ;; esac; done
"""


class Engine:
    """The fake's state, as a test sets and reads it."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def set(self, name: str) -> None:
        (self.home / name).touch()

    def calls(self, verb: str) -> list[str]:
        log = self.home / "log"
        return [line for line in log.read_text().splitlines() if line.startswith(f"{verb} ")] if log.exists() else []

    def bootstraps(self) -> int:
        log = self.home / "mmdebstrap"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def context(self, name: str) -> Path:
        return self.home / "contexts" / f"localhost_roughwater_{name}"

    def relabel(self, role: str, recipe: str) -> None:
        path = self.home / "images.json"
        held = json.loads(path.read_text())
        held[images.image_name(role)]["Config"]["Labels"]["org.roughwater.recipe"] = recipe
        path.write_text(json.dumps(held))


@pytest.fixture
def fake(tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine without a registry, a checkout of the test's own, ferry and the UML router as if they had been built."""
    home, programs, asset = tmp_path / "engine", tmp_path / "bin", tmp_path / "uml"
    for folder in (home, programs, asset / "usr/bin"):
        folder.mkdir(parents=True)
    for name, text in (("docker", f'#!/bin/sh\nexec "{sys.executable}" -I -S "{FAKE}" "$@"\n'), ("mmdebstrap", MMDEBSTRAP)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    for path in (tmp_path / "ferry", asset / uml.KERNEL, asset / uml.INITRD):
        path.write_text(path.name)
    router = uml.UmlAsset(tmp_path, asset, "6.12", "6.15", True, "trixie")
    monkeypatch.setenv("FAKE_ENGINE", str(home))
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(engine, "build", lambda _: None)
    monkeypatch.setattr(engine, "program", lambda: tmp_path / "ferry")
    monkeypatch.setattr(uml, "build", lambda _: router)
    monkeypatch.setattr(uml, "find", lambda: router)
    return Engine(home)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what images are made of, to be changed."""
    root = tmp_path / "checkout"
    for name in ("lab", "images", "topologies"):
        shutil.copytree(project_root() / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    source = root / "engine/crates/ferry/src/main.rs"
    source.parent.mkdir(parents=True)
    source.touch()
    shutil.copyfile(project_root() / "requirements.lock", root / "requirements.lock")
    monkeypatch.setattr(content, "package_root", lambda: root)
    for module in (content, images):
        monkeypatch.setattr(module, "shipped_root", lambda: root)
    monkeypatch.setattr(engine, "engine_dir", lambda: root / "engine")
    monkeypatch.setattr(content, "shipped_topologies_dir", lambda: root / "topologies")
    return root


def recipes() -> dict[str, str]:
    return {role: content.recipe(role) for role in content.ROLES}


def silent(text: str) -> None:
    pass


@pytest.mark.parametrize(
    ("place", "changed"),
    [
        ("images/client/packages", {"client"}),
        ("images/server/Dockerfile", {"server"}),
        ("images/base/finish", set(content.ROLES)),
        ("images/base/excludes", set(content.ROLES)),
        ("images/base/stage", set(content.ROLES)),
        ("requirements.lock", set()),
        ("lab/hosts/host.py", set(content.ROLES)),
        ("lab/hosts/agent/serve.py", set(content.ROLES)),
        ("engine/crates/ferry/src/main.rs", {"client"}),
        ("lab/judge/tolerance.py", set()),
    ],
)
def test_recipe_changes_with_what_goes_in_and_nothing_else(checkout: Path, place: str, changed: set[str]) -> None:
    before = recipes()
    with (checkout / place).open("a") as stream:
        stream.write("\n# changed\n")
    assert {role for role, recipe in recipes().items() if recipe != before[role]} == changed


def test_recipe_holds_links_and_the_router(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipes()
    path = checkout / "topologies/dsl-20.yaml"
    path.write_text(path.read_text().replace("20 Mbit/s", "21 Mbit/s").replace("20mbit", "21mbit"))
    assert path.read_text() != (shipped_topologies_dir() / "dsl-20.yaml").read_text()
    linked = recipes()
    assert all(linked[role] != before[role] for role in content.ROLES)
    monkeypatch.setattr(initrd, "INIT", initrd.INIT + "\n")
    assert {role for role, recipe in recipes().items() if recipe != linked[role]} == {"router"}


def test_a_pattern_that_ships_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "SHIPPED", ("backend/nowhere/*.py",))
    with pytest.raises(LabFault, match="backend/nowhere"):
        content.recipe("client")


def test_without_a_registry_the_base_is_made_of_packages_and_nothing_is_fetched(fake: Engine) -> None:
    said: list[str] = []
    built = images.build(said.append)
    assert set(built) == set(content.ROLES) == set(images.require_all())
    assert any("no such host" in line for line in said)
    assert len(fake.calls("pull")) == 1  # one answer is enough
    assert fake.bootstraps() == 3
    assert all("--network none" in line for line in fake.calls("build"))
    assert {image.base.split()[0] for image in built.values()} == {"packages"}
    assert (fake.context("base-client") / "rootfs.tar").exists()


def test_with_a_registry_its_images_are_the_base(fake: Engine) -> None:
    fake.set("registry")
    built = images.build(silent)
    assert fake.bootstraps() == 0
    assert {line.split()[-1] for line in fake.calls("pull")} == {"debian:bookworm-slim", "debian:trixie-slim"}
    assert built["router"].base == "debian:trixie-slim"
    assert not any("--network" in line for line in fake.calls("build"))
    assert all("BASE=debian:" in line for line in fake.calls("build"))


def test_a_registry_that_is_asked_for_must_answer(fake: Engine) -> None:
    with pytest.raises(LabFault) as caught:
        images.build(silent, base="registry")
    assert "no such host" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not fake.calls("build")


def test_what_is_current_stays_and_a_changed_module_needs_no_new_packages(fake: Engine, checkout: Path) -> None:
    images.build(silent)
    before = len(fake.calls("build"))
    images.build(silent)
    assert len(fake.calls("build")) == before
    (checkout / "lab/model/errors.py").write_text("# changed\n")
    images.build(silent)
    assert len(fake.calls("build")) == before + 3
    assert fake.bootstraps() == 3
    assert len(fake.calls("pull")) == 1  # nor a second question to a registry that has not answered
    removed = fake.calls("image rm")
    assert len(removed) == 3  # those that have lost their names
    images.build(silent, roles=("server",), force=True)
    assert fake.bootstraps() == 4
    assert fake.calls("image rm") == removed  # the same again is not the one before


def test_the_other_base_is_built_when_asked_for(fake: Engine) -> None:
    images.build(silent)
    fake.set("registry")
    assert images.build(silent, roles=("server",))["server"].base.startswith("packages")
    assert images.build(silent, base="registry", roles=("server",))["server"].base == "debian:bookworm-slim"


def test_context_holds_programs_and_does_not_depend_on_the_umask(fake: Engine) -> None:
    before = os.umask(0o077)
    try:
        images.build(silent)
    finally:
        os.umask(before)
    trees = {role: fake.context(role) / content.READY / "tree" for role in content.ROLES}
    assert os.access(trees["client"] / "usr/local/bin/ferry", os.X_OK)
    assert os.access(trees["router"] / uml.KERNEL, os.X_OK)
    assert (trees["router"] / uml.INITRD).exists()
    assert not (trees["server"] / "usr/local").exists()
    assert json.loads((trees["server"] / "usr/lib/roughwater/links/dsl-20.json").read_text())
    for tree in trees.values():
        for path in tree.rglob("*"):
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode in ({0o755} if path.is_dir() else {0o644, 0o755}), path


def test_images_that_are_missing_or_of_other_sources_are_refused(fake: Engine) -> None:
    with pytest.raises(UsageProblem, match=r"image localhost/roughwater/client is missing \(lab images build\)"):
        images.require_all()
    images.build(silent)
    fake.relabel("router", "0" * 64)
    with pytest.raises(UsageProblem, match="roughwater/router was made from other sources"):
        images.require_all()
    assert [images.state(role, images.find(role)) for role in content.ROLES] == ["current", "outdated", "current"]


def test_an_engine_that_is_down_is_one_line(fake: Engine) -> None:
    fake.set("down")
    for call in (lambda: images.build(silent), images.require_all, lambda: images.load(Path("/nowhere"), silent)):
        with pytest.raises(UsageProblem, match="engine is not running"):
            call()


def test_another_lab_that_builds_a_client_is_not_waited_for(fake: Engine) -> None:
    """It may be the other way round, too: images take minutes."""
    with store.locked(silent, "curl-8.5"):
        images.build(silent, roles=["server"])
    assert fake.bootstraps() == 1


def test_unknown_role(fake: Engine) -> None:
    with pytest.raises(UsageProblem, match="'switch'"):
        images.build(silent, roles=("switch",))


def test_what_is_saved_can_be_loaded(fake: Engine, tmp_path: Path) -> None:
    images.build(silent)
    path = tmp_path / "images.tar.gz"
    images.save(path, silent)
    assert images.load(path, silent) == images.require_all()
    assert len(fake.calls("load")) == 1
    fake.relabel("server", "0" * 64)
    with pytest.raises(UsageProblem, match="server was made from other sources"):
        images.save(path, silent)


def test_a_save_that_fails_leaves_what_was_there(fake: Engine, tmp_path: Path) -> None:
    images.build(silent)
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "images.tar.gz"
    path.write_text("the last one")
    fake.set("save-fails")
    with pytest.raises(LabFault, match="the layer is gone"):
        images.save(path, silent)
    assert [(each.name, each.read_text()) for each in folder.iterdir()] == [("images.tar.gz", "the last one")]
    with pytest.raises(UsageProblem, match="cannot be written"):
        images.save(tmp_path / "nowhere" / "images.tar.gz", silent)


def _garbage(path: Path) -> None:
    path.write_bytes(b"not an archive")


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(bytes(data))


def _some_tar(path: Path) -> None:
    with gzip.open(path, "wb") as stream, tarfile.open(fileobj=stream, mode="w|") as archive:
        archive.addfile(tarfile.TarInfo("readme"), io.BytesIO())


def _absent(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_garbage, "is damaged"),
        (_truncated, "is damaged"),
        (_flipped, "is damaged"),
        (_some_tar, "not an archive of container images"),
        (_absent, "there is no"),
    ],
)
def test_load_refuses_a_damaged_archive(fake: Engine, tmp_path: Path, damage: object, message: str) -> None:
    assert callable(damage)
    images.build(silent)
    path = tmp_path / "images.tar.gz"
    images.save(path, silent)
    damage(path)
    with pytest.raises(UsageProblem, match=message) as caught:
        images.load(path, silent)
    assert "\n" not in str(caught.value)
    assert not fake.calls("load")


def test_load_refuses_images_of_another_checkout_and_sets_that_lack_one(fake: Engine, checkout: Path, tmp_path: Path) -> None:
    images.build(silent)
    path, part = tmp_path / "images.tar.gz", tmp_path / "part.tar.gz"
    images.save(path, silent)
    done = subprocess.run(["docker", "save", images.image_name("client")], capture_output=True, check=True)
    part.write_bytes(gzip.compress(done.stdout))
    with pytest.raises(UsageProblem, match="no image of the router and the server"):
        images.load(part, silent)
    (checkout / "images/server/packages").write_text("python3\n")
    with pytest.raises(UsageProblem, match="its server was made from other sources"):
        images.load(path, silent)
    assert not fake.calls("load")


IMPORT_ALL = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pydantic", "pydantic_core", "rich", "robot", "scipy", "typer", "yaml"}:
            raise ImportError(f"{name} is not in the images")

sys.meta_path.insert(0, Blocked())
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    __import__(name)
    assert sys.modules[name].__file__.startswith(sys.argv[1]), name
loaded = {name: module.__file__ for name, module in sys.modules.items() if name.startswith("lab.")}
elsewhere = [name for name, file in loaded.items() if not file.startswith(sys.argv[1])]
assert not elsewhere, f"not shipped: {elsewhere}"
"""


def test_shipped_modules_need_nothing_that_is_not_in_the_images(tmp_path: Path) -> None:
    root = project_root()
    names = []
    for path in content.shipped_files():
        place = path.relative_to(root)
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, tmp_path / place)
        names.append(".".join(place.with_suffix("").parts).removesuffix(".__init__"))
    argv = [sys.executable, "-I", "-c", IMPORT_ALL, str(tmp_path), *names]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("role", content.ROLES)
def test_containers_run_as_the_labs_user(role: str) -> None:
    lines = (project_root() / "images" / role / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER ")] == [f"USER {LAB_USER}"]
    assert json.loads(next(line for line in lines if line.startswith("ENTRYPOINT ")).partition(" ")[2])[-1] == role
