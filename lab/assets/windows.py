"""ferry.exe: ferry for Windows (x86_64-pc-windows-gnu), cross-built on this machine from `engine/`.

Two ways, the first that is here: a Rust with the target's standard library installed (rustup's), else any recent Rust with
that library's source beside it, which is built along (`-Zbuild-std`, Debian's rust-web-src). Either links with Debian's mingw.
Nothing is downloaded but crates. The artefact is `engine/target/windows/`: ferry.exe, its SHA-256, and what it was made with.
Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.assets import engine, store
from lab.assets.store import Progress
from lab.errors import LabFault

TARGET = "x86_64-pc-windows-gnu"
_MINGW = "x86_64-w64-mingw32"
# What a clean Debian 12 needs beside what builds the engine for itself.
PACKAGES = ("cargo-web", "rust-web-src", "gcc-mingw-w64-x86-64-posix")
_LONGEST_BUILD_S = 7200.0
# Part of every Windows from 10 on; api-ms-win-* are names that its loader resolves.
_SYSTEM_DLLS = re.compile(
    r"(api-ms-win-[a-z0-9-]+|advapi32|bcrypt|bcryptprimitives|crypt32|kernel32|msvcrt|ntdll|ole32|oleaut32|secur32|shell32|ucrtbase"
    r"|user32|userenv|ws2_32)\.dll"
)


@dataclass(frozen=True)
class Toolchain:
    """A cargo that can build for Windows. `source`: the standard library is built along."""

    cargo: Path
    source: bool

    @property
    def argv(self) -> list[str]:
        # The panic strategy of the release profile, and what std itself is made of.
        return ["-Zbuild-std=std,panic_abort"] if self.source else []

    @property
    def environment(self) -> dict[str, str]:
        """AWS-LC brings its assembly as objects, so that no nasm is needed; a stable compiler takes `-Z` only when told to."""
        more = {"AWS_LC_SYS_PREBUILT_NASM": "1"}
        rustc = self.cargo.parent / "rustc"
        if rustc.exists():
            more["RUSTC"] = str(rustc)
        if self.source:
            more["RUSTC_BOOTSTRAP"] = "1"
        return {**engine.environment(self.cargo), **more}


def folder() -> Path:
    return engine.engine_dir() / "target" / "windows"


def program() -> Path:
    """ferry.exe, whether it is there or not."""
    return folder() / "ferry.exe"


def checksum_file() -> Path:
    """As `sha256sum -c` reads it."""
    return folder() / "ferry.exe.sha256"


def facts_file() -> Path:
    """JSON: version, target, cargo, rustc, linker, whether std was built along, DLLs imported, SHA-256."""
    return folder() / "ferry.exe.json"


def version() -> str:
    """Of the workspace, which is ferry's."""
    manifest = tomllib.loads((engine.engine_dir() / "Cargo.toml").read_text(encoding="utf-8"))
    return str(manifest["workspace"]["package"]["version"])


def find() -> Path | None:
    """ferry.exe, where it is here and what its checksum says; it may be older than the sources."""
    try:
        expected = checksum_file().read_text(encoding="ascii").split()[0]
        return program() if store.digest(program()) == expected else None
    except (OSError, ValueError, IndexError):
        return None


def up_to_date() -> bool:
    """Whether the last build that ended well began after the last change of a source."""
    return find() is not None and facts_file().exists() and engine.newer_than_sources(_stamp())


def find_toolchain() -> Toolchain | None:
    """One that has the target installed, else one that has the library's source. None where mingw's linker is missing, too."""
    return _find_rust() if find_tool("gcc") else None


def missing_packages() -> list[str]:
    """Debian packages without which there is no ferry.exe."""
    rust = [] if _find_rust() else [*PACKAGES[:2]]
    return rust if find_tool("gcc") else [*rust, PACKAGES[2]]


def _find_rust() -> Toolchain | None:
    recent = [cargo for cargo in engine.cargos() if engine.is_recent(cargo)]
    for source in (False, True):
        for cargo in recent:
            if _has_library(cargo, source=source):
                return Toolchain(cargo, source)
    return None


def find_tool(name: str) -> Path | None:
    """mingw's gcc, strip or objdump."""
    found = shutil.which(f"{_MINGW}-{name}", path=os.pathsep.join((os.environ.get("PATH", ""), *engine.FOLDERS[1:])))
    return Path(found).absolute() if found else None


def remedy() -> str:
    return f"sudo apt-get install {' '.join(PACKAGES)}, or rustup target add {TARGET} and gcc-mingw-w64-x86-64-posix"


def build(progress: Progress) -> Path:
    """ferry.exe, built when the sources are newer. Raises LabFault with everything cargo said when it cannot."""
    if up_to_date():
        return program()
    toolchain = find_toolchain()
    if toolchain is None:
        raise LabFault(f"nothing here can build for {TARGET}", remedy=remedy())
    along = ", standard library included" if toolchain.source else ""
    progress(f"building ferry.exe with {toolchain.cargo}{along} (3 to 12 minutes the first time)")
    began = time.time()
    built = _cargo_build(toolchain)
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=folder()) as name:
        staged = Path(name) / "ferry.exe"
        _mingw("strip", "--strip-debug", "-o", str(staged), str(built))
        imported = imports(staged)
        if foreign := [dll for dll in imported if not _SYSTEM_DLLS.fullmatch(dll)]:
            names = ", ".join(foreign)
            raise LabFault(f"ferry.exe wants {names}, which no Windows has", remedy=f"is it Debian's {PACKAGES[-1]} that links?")
        digest = store.digest(staged)
        facts = {**_provenance(toolchain), "version": version(), "target": TARGET, "imports": imported, "sha256": digest}
        _place(Path(name), "ferry.exe.json", json.dumps(facts, indent=1, sort_keys=True) + "\n")
        _place(Path(name), "ferry.exe.sha256", f"{digest}  ferry.exe\n")
        staged.chmod(0o755)
        staged.rename(program())
    engine.mark(_stamp(), began)
    progress(f"{program()}, {program().stat().st_size / 1e6:.1f} MB, sha256 {digest}")
    return program()


def imports(path: Path) -> list[str]:
    """Names of the DLLs that a program imports, in lower case, each once."""
    names = re.findall(r"DLL Name: (\S+)", _mingw("objdump", "-p", str(path)))
    return sorted({name.lower() for name in names})


def _cargo_build(toolchain: Toolchain) -> Path:
    target_dir = Path(os.environ.get("CARGO_TARGET_DIR") or engine.engine_dir() / "target").absolute()
    argv = [str(toolchain.cargo), "build", "--release", "--locked", "--quiet", "-p", "ferry", "--target", TARGET]
    argv += ["--target-dir", str(target_dir), *toolchain.argv]
    code, output = store.run(argv, timeout_s=_LONGEST_BUILD_S, cwd=engine.engine_dir(), env=toolchain.environment)
    built = target_dir / TARGET / "release" / "ferry.exe"
    if code or not built.exists():
        raise LabFault(f"ferry.exe cannot be built with {toolchain.cargo} (exit code {code}):\n{output.strip()}")
    return built


def _mingw(name: str, *words: str) -> str:
    tool = find_tool(name)
    if tool is None:
        raise LabFault(f"{_MINGW}-{name} is missing", remedy=remedy())
    code, output = store.run([tool, *words], timeout_s=120)
    if code:
        raise LabFault(f"{tool} {' '.join(words)}: {store.reason(output)}")
    return output


def _place(staging: Path, name: str, text: str) -> None:
    (staging / name).write_text(text, encoding="ascii")
    (staging / name).rename(folder() / name)


def _provenance(toolchain: Toolchain) -> dict[str, str]:
    first = {
        "cargo": [str(toolchain.cargo), "--version"],
        "rustc": [toolchain.environment.get("RUSTC", "rustc"), "--version"],
        "linker": [str(find_tool("gcc")), "--version"],
    }
    told = {name: _said(tuple(argv), toolchain.cargo).partition("\n")[0] for name, argv in first.items()}
    return {**told, "std": "built from source" if toolchain.source else "installed"}


def _has_library(cargo: Path, *, source: bool) -> bool:
    rustc = str(cargo.parent / "rustc")
    if source:
        root = _said((rustc, "--print", "sysroot"), cargo).strip()
        return bool(root) and (Path(root) / "lib/rustlib/src/rust/library/Cargo.lock").exists()
    libraries = _said((rustc, "--print", "target-libdir", "--target", TARGET), cargo).strip()
    return bool(libraries) and any(Path(libraries).glob("libstd-*.rlib"))


@cache
def _said(argv: tuple[str, ...], cargo: Path) -> str:
    """Standard output of a short question; nothing where it cannot be asked."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=30, check=False, cwd=engine.engine_dir(), env=engine.environment(cargo)
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _stamp() -> Path:
    return folder() / ".throughline-built"
