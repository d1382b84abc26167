"""Which cargo builds ferry and when, and the message if none can. The cargos are scripts, the workspace a toy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.assets import engine, tools
from lab.model.errors import LabFault

CARGO = """\
#!/bin/sh
if [ "$1" = --version ]; then echo "cargo {version} (abc 2026-01-01)"; exit; fi
mkdir -p target; echo "$*" >>target/calls; command -v rustc >>target/calls
{script}
"""
BUILDS = "mkdir -p target/release && printf x >target/release/ferry && chmod 755 target/release/ferry"


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An engine that wants Rust 1.88, and no cargo anywhere."""
    root = tmp_path / "engine"
    (root / "crates/ferry/src").mkdir(parents=True)
    (root / "Cargo.toml").write_text('[workspace.package]\nrust-version = "1.88"\n')
    (root / "crates/ferry/src/main.rs").write_text("fn main() {}\n")
    monkeypatch.setattr(engine, "engine_dir", lambda: root)
    monkeypatch.setattr(engine, "FOLDERS", (str(tmp_path / "usr"),))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(engine, "cargos", lambda real=engine.cargos: (c for c in real() if tmp_path in c.parents))
    for cached in (engine.least_rust, engine.is_recent):
        cached.cache_clear()
    yield root
    for cached in (engine.least_rust, engine.is_recent):
        cached.cache_clear()


def cargo(folder: Path, version: str = "1.96.0", script: str = BUILDS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("cargo", CARGO.format(version=version, script=script)), ("rustc", "#!/bin/sh\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder / "cargo"


def silent(message: str) -> None:
    raise AssertionError(message)


@pytest.mark.parametrize(("version", "good"), [("1.88.0", True), ("1.100.1", True), ("1.87.9", False), ("0.66.0", False)])
def test_the_workspace_says_which_rust_will_do(tmp_path: Path, version: str, good: bool) -> None:
    found = cargo(tmp_path / "bin", version)
    assert engine.find_cargo() == (found if good else None)


def test_an_old_cargo_on_the_path_is_passed_over(tmp_path: Path) -> None:
    cargo(tmp_path / "bin", "1.63.0")
    found = cargo(tmp_path / "usr")
    assert engine.find_cargo() == found
    assert tools.find("cargo") == found


def test_a_cargo_that_does_not_run_is_skipped(tmp_path: Path) -> None:
    cargo(tmp_path / "bin").write_text("#!/nonexistent\n")
    assert engine.find_cargo() is None


def test_no_cargo_is_one_line_with_a_remedy() -> None:
    with pytest.raises(LabFault, match=r"no cargo of Rust 1\.88 or newer .*cargo-web.*rustup"):
        engine.build(silent)
    assert "cargo-web" in tools.packages(tools.missing())


def test_built_once_with_one_line_then_silence(tmp_path: Path, workspace: Path) -> None:
    cargo(tmp_path / "bin")
    said: list[str] = []
    engine.build(said.append)
    assert len(said) == 1
    assert "first time" in said[0]
    engine.build(silent)
    assert (workspace / "target/calls").read_text().count("build --release --locked --quiet -p ferry") == 1


def later(path: Path) -> None:
    """As if saved in a minute: no test waits for the clock."""
    path.touch()
    os.utime(path, (path.stat().st_mtime + 60,) * 2)


@pytest.mark.parametrize("changed", ["crates/ferry/src/main.rs", "Cargo.toml", "Cargo.lock", "crates/ferry/src"])
def test_a_changed_source_is_built_again(tmp_path: Path, workspace: Path, changed: str) -> None:
    cargo(tmp_path / "bin")
    engine.build(lambda _: None)
    assert engine.up_to_date()
    later(workspace / changed) if not (workspace / changed).is_dir() else os.utime(workspace / changed, (2**31, 2**31))
    assert not engine.up_to_date()


def test_fuzz_targets_and_peers_do_not_belong_to_ferry(tmp_path: Path, workspace: Path) -> None:
    cargo(tmp_path / "bin")
    engine.build(lambda _: None)
    for name in ("fuzz", "peers"):
        (workspace / name).mkdir()
        later(workspace / name / "main.rs")
    os.utime(workspace, (0, 0))
    assert engine.up_to_date()


def test_a_source_saved_during_the_build_is_built_again(tmp_path: Path, workspace: Path) -> None:
    cargo(tmp_path / "bin", script=f"{BUILDS}; sleep 0.05; touch crates/ferry/src/main.rs")
    engine.build(lambda _: None)
    assert not engine.up_to_date()


def test_binary_that_has_gone_is_built_again(tmp_path: Path) -> None:
    cargo(tmp_path / "bin")
    engine.build(lambda _: None)
    engine.program().unlink()
    assert not engine.up_to_date()


def test_a_failure_shows_cargos_output_and_is_tried_again(tmp_path: Path) -> None:
    cargo(tmp_path / "bin", script="seq 1 300; echo 'error[E0308]: mismatched types' >&2; exit 101")
    with pytest.raises(LabFault) as caught:
        engine.build(lambda _: None)
    assert "\n1\n" in str(caught.value)
    assert "error[E0308]" in str(caught.value)
    assert not engine.up_to_date()


def test_rustc_is_the_cargos_own(tmp_path: Path, workspace: Path) -> None:
    cargo(tmp_path / "bin", "1.63.0")
    newer = cargo(tmp_path / "usr")
    engine.build(lambda _: None)
    assert str(newer.with_name("rustc")) in (workspace / "target/calls").read_text()


def clone(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another checkout of the same sources; from here on the engine."""
    other = workspace.with_name("another") / "engine"
    shutil.copytree(workspace, other, ignore=shutil.ignore_patterns("target"))
    monkeypatch.setattr(engine, "engine_dir", lambda: other)
    return other


def calls(workspace: Path) -> int:
    path = workspace / "target/calls"
    return path.read_text().count("build --release") if path.exists() else 0


def test_another_checkout_of_the_same_sources_compiles_nothing(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cargo(tmp_path / "bin")
    engine.build(lambda _: None)
    other = clone(workspace, monkeypatch)
    engine.build(lambda _: None)
    assert calls(other) == 0
    assert engine.program().read_text() == "x"
    assert os.access(engine.program(), os.X_OK)
    assert engine.up_to_date()


@pytest.mark.parametrize("different", ["a source", "a source more", "rustc", "RUSTFLAGS", "a damaged cache"])
def test_what_differs_is_built(tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, different: str) -> None:
    cargo(tmp_path / "bin")
    engine.build(lambda _: None)
    other = clone(workspace, monkeypatch)
    match different:
        case "a source":
            (other / "crates/ferry/src/main.rs").write_text("fn main() { panic!() }\n")
        case "a source more":
            (other / "crates/ferry/build.rs").write_text("fn main() {}\n")
        case "rustc":
            (tmp_path / "bin/rustc").write_text("#!/bin/sh\necho another\n")
        case "RUSTFLAGS":
            monkeypatch.setenv("RUSTFLAGS", "-C target-cpu=native")
        case _:
            (kept,) = (tmp_path / "cache").glob("ferry-*/ferry")
            kept.write_text("y")
    engine.build(lambda _: None)
    assert calls(other) == 1
    assert engine.program().read_text() == "x"


def test_a_build_during_which_a_source_changed_is_not_kept(tmp_path: Path) -> None:
    cargo(tmp_path / "bin", script=f"{BUILDS}; echo >>crates/ferry/src/main.rs")
    engine.build(lambda _: None)
    assert list((tmp_path / "cache").glob("ferry-*")) == []


def test_the_cache_has_a_bounded_number_of_builds(tmp_path: Path, workspace: Path) -> None:
    cargo(tmp_path / "bin")
    for number in range(6):
        (workspace / "crates/ferry/src/main.rs").write_text(f"// {number}\n")
        later(workspace / "crates/ferry/src/main.rs")
        engine.build(lambda _: None)
    assert calls(workspace) == 6
    assert len(list((tmp_path / "cache").glob("ferry-*/ferry"))) == 4


def test_a_cache_that_refuses_costs_no_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").write_text("a file")
    cargo(tmp_path / "bin")
    said: list[str] = []
    engine.build(said.append)
    assert engine.up_to_date()
    assert "not kept" in said[-1]


def test_the_real_workspace_says_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    engine.least_rust.cache_clear()
    assert engine.least_rust().count(".") >= 1
