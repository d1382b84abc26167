"""Which Rust builds ferry.exe, and what becomes of what it built. cargo, rustc and mingw are scripts, the workspace a toy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.assets import engine, windows
from lab.model.errors import LabFault

CARGO = """\
#!/bin/sh
if [ "$1" = --version ]; then echo "cargo {version} (abc 2026-01-01)"; exit; fi
mkdir -p target; echo "$*" >>target/calls
echo "RUSTC=$RUSTC BOOTSTRAP=${{RUSTC_BOOTSTRAP:-}} NASM=$AWS_LC_SYS_PREBUILT_NASM" >>target/calls
[ ! -e fails ] || {{ echo "error: no"; exit 101; }}
while [ "$1" != --target-dir ]; do shift; done
mkdir -p "$2/x86_64-pc-windows-gnu/release" && printf ferry >"$2/x86_64-pc-windows-gnu/release/ferry.exe"
"""
RUSTC = """\
#!/bin/sh
case "$2" in
target-libdir) echo "{root}/target" ;;
sysroot) echo "{root}" ;;
*) echo "rustc 1.96.0" ;;
esac
"""
MINGW = {
    "gcc": "#!/bin/sh\necho 'gcc 12-posix'\n",
    "strip": '#!/bin/sh\n[ "$1 $2" = "--strip-all -o" ] && cp "$4" "$3"\n',
    "objdump": """\
#!/bin/sh
foreign=$(cat "$(dirname "$0")/foreign" 2>/dev/null)
printf '\\tDLL Name: %s\\n' KERNEL32.dll ws2_32.dll kernel32.dll $foreign
""",
}


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An engine of version 9.8.7 that wants Rust 1.88, mingw, and no cargo."""
    root = tmp_path / "engine"
    (root / "crates").mkdir(parents=True)
    (root / "Cargo.toml").write_text('[workspace.package]\nversion = "9.8.7"\nrust-version = "1.88"\n')
    monkeypatch.setattr(engine, "engine_dir", lambda: root)
    monkeypatch.setattr(engine, "FOLDERS", ("/nonexistent",))
    monkeypatch.setenv("PATH", f"{tmp_path / 'first'}:{tmp_path / 'second'}:{tmp_path / 'mingw'}:/usr/bin:/bin")
    monkeypatch.delenv("CARGO_TARGET_DIR", raising=False)
    monkeypatch.setattr(engine, "cargos", lambda real=engine.cargos: (c for c in real() if tmp_path in c.parents))
    for name, text in MINGW.items():
        script(tmp_path / "mingw" / f"x86_64-w64-mingw32-{name}", text)
    for cached in (engine.least_rust, engine.is_recent, windows._output):
        cached.cache_clear()
    yield root
    for cached in (engine.least_rust, engine.is_recent, windows._output):
        cached.cache_clear()


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def rust(folder: Path, *, installed: bool = False, source: bool = False, version: str = "1.96.0") -> Path:
    root = folder / "sysroot"
    (root / "target").mkdir(parents=True)
    if installed:
        (root / "target/libstd-0123.rlib").touch()
    if source:
        (root / "lib/rustlib/src/rust/library").mkdir(parents=True)
        (root / "lib/rustlib/src/rust/library/Cargo.lock").touch()
    script(folder / "cargo", CARGO.format(version=version))
    script(folder / "rustc", RUSTC.format(root=root))
    return folder / "cargo"


def silent(message: str) -> None:
    raise AssertionError(message)


def build() -> list[str]:
    said: list[str] = []
    windows.build(said.append)
    return said


def test_the_target_that_is_installed_wins_wherever_it_is(tmp_path: Path) -> None:
    rust(tmp_path / "first", source=True)
    found = rust(tmp_path / "second", installed=True)
    assert windows.find_toolchain() == windows.Toolchain(found, source=False)


def test_without_it_the_library_is_built_too(tmp_path: Path, workspace: Path) -> None:
    rust(tmp_path / "first")
    found = rust(tmp_path / "second", source=True)
    assert windows.find_toolchain() == windows.Toolchain(found, source=True)
    build()
    words, environment = (workspace / "target/calls").read_text().splitlines()
    assert "--target x86_64-pc-windows-gnu" in words
    assert "-Zbuild-std=std,panic_abort" in words
    assert environment == f"RUSTC={tmp_path / 'second/rustc'} BOOTSTRAP=1 NASM=1"


def test_an_installed_target_needs_no_unstable_flags(tmp_path: Path, workspace: Path) -> None:
    rust(tmp_path / "first", installed=True)
    build()
    assert "-Z" not in (workspace / "target/calls").read_text()
    assert "BOOTSTRAP= " in (workspace / "target/calls").read_text()


@pytest.mark.parametrize("lacking", ["library", "rust", "mingw"])
def test_what_cannot_build_is_one_line_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    rust(tmp_path / "first", installed=lacking != "library", version="1.70.0" if lacking == "rust" else "1.96.0")
    if lacking == "mingw":
        monkeypatch.setenv("PATH", str(tmp_path / "first"))
    with pytest.raises(LabFault, match=r"x86_64-pc-windows-gnu .*rust-web-src gcc-mingw-w64-x86-64-posix.*rustup target add"):
        windows.build(silent)


def test_the_packages_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert windows.missing_packages() == ["cargo-web", "rust-web-src"]
    rust(tmp_path / "first", source=True)
    assert windows.missing_packages() == []
    monkeypatch.setenv("PATH", str(tmp_path / "first"))
    assert windows.missing_packages() == ["gcc-mingw-w64-x86-64-posix"]


def test_it_is_built_once_with_checksum_and_provenance(tmp_path: Path, workspace: Path) -> None:
    rust(tmp_path / "first", installed=True)
    assert windows.find() is None
    said = build()
    assert len(said) == 2
    assert windows.build(silent) == windows.find() == workspace / "target/windows/ferry.exe"
    assert (workspace / "target/calls").read_text().count("build --release --locked --quiet -p ferry") == 1
    subprocess.run(["sha256sum", "--check", "--quiet", windows.checksum_file().name], cwd=windows.folder(), check=True)
    facts = json.loads(windows.facts_file().read_text())
    assert (facts["version"], facts["target"], facts["std"]) == ("9.8.7", "x86_64-pc-windows-gnu", "installed")
    assert (facts["rustc"], facts["linker"]) == ("rustc 1.96.0", "gcc 12-posix")
    assert facts["imports"] == ["kernel32.dll", "ws2_32.dll"]
    assert [path.name for path in windows.folder().glob(".building-*")] == []


def test_cargo_target_dir_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rust(tmp_path / "first", installed=True)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "elsewhere"))
    build()
    assert (tmp_path / "elsewhere/x86_64-pc-windows-gnu/release/ferry.exe").exists()
    assert windows.find() == windows.program()


def test_a_damaged_program_is_not_found(tmp_path: Path) -> None:
    rust(tmp_path / "first", installed=True)
    build()
    windows.program().write_text("broken")
    assert windows.find() is None
    assert not windows.up_to_date()
    build()
    assert windows.find() is not None


def test_a_dll_that_windows_does_not_have_is_refused(tmp_path: Path) -> None:
    rust(tmp_path / "first", installed=True)
    (tmp_path / "mingw/foreign").write_text("libgcc_s_seh-1.dll libwinpthread-1.dll")
    with pytest.raises(LabFault, match=r"libgcc_s_seh-1\.dll, libwinpthread-1\.dll, which Windows does not have"):
        build()
    assert windows.find() is None


def test_a_failure_shows_cargos_output(tmp_path: Path, workspace: Path) -> None:
    rust(tmp_path / "first", installed=True)
    (workspace / "fails").touch()
    with pytest.raises(LabFault, match=r"(?s)exit code 101.*error: no"):
        build()
