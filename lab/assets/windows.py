"""ferry.exe: ferry for Windows (x86_64-pc-windows-gnu), cross-built from `engine/`.

Uses a Rust that has the target's standard library (rustup's), else a recent Rust with the source of that library, which is
then built too (`-Zbuild-std`, Debian's rust-web-src). Both link with Debian's mingw. Only crates are downloaded. The result is
`engine/target/windows/`: ferry.exe, its SHA-256, and the versions of the tools that built it.
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
from lab.model import files
from lab.model.errors import LabFault

TARGET = "x86_64-pc-windows-gnu"
_MINGW = "x86_64-w64-mingw32"
# Packages that a clean Debian 12 needs in addition to those that build the engine for Linux.
PACKAGES = ("cargo-web", "rust-web-src", "gcc-mingw-w64-x86-64-posix")
_LONGEST_BUILD_S = 7200.0
# Part of Windows 10 and later; the loader resolves the names api-ms-win-*.
_SYSTEM_DLLS = re.compile(
    r"(api-ms-win-[a-z0-9-]+|advapi32|bcrypt|bcryptprimitives|crypt32|kernel32|msvcrt|ntdll|ole32|oleaut32|secur32|shell32|ucrtbase"
    r"|user32|userenv|ws2_32)\.dll"
)


@dataclass(frozen=True)
class Toolchain:
    """A cargo that can build for Windows. `source`: the standard library is built too."""

    cargo: Path
    source: bool

    @property
    def argv(self) -> list[str]:
        # std, and the panic strategy of the release profile.
        return ["-Zbuild-std=std,panic_abort"] if self.source else []

    @property
    def environment(self) -> dict[str, str]:
        """AWS-LC has prebuilt assembly, which saves nasm. RUSTC_BOOTSTRAP lets a stable compiler accept `-Z`."""
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
    """The path of ferry.exe, which may not exist."""
    return folder() / "ferry.exe"


def checksum_file() -> Path:
    """The checksum of ferry.exe in the format of `sha256sum -c`."""
    return folder() / "ferry.exe.sha256"


def facts_file() -> Path:
    """JSON: version, target, cargo, rustc, linker, whether std was built, imported DLLs, SHA-256."""
    return folder() / "ferry.exe.json"


def version() -> str:
    """ferry's version, which is the workspace's."""
    manifest = tomllib.loads((engine.engine_dir() / "Cargo.toml").read_text(encoding="utf-8"))
    return str(manifest["workspace"]["package"]["version"])


def find() -> Path | None:
    """ferry.exe if it exists and matches its checksum; it may be older than the sources."""
    try:
        expected = checksum_file().read_text(encoding="ascii").split()[0]
        return program() if files.digest(program()) == expected else None
    except (OSError, ValueError, IndexError):
        return None


def up_to_date() -> bool:
    """True if program and facts are there, and no source has changed since the last successful build began."""
    return find() is not None and facts_file().exists() and engine.newer_than_sources(_stamp())


def find_toolchain() -> Toolchain | None:
    """A toolchain with the target installed, else one with the library's source. None without either or without mingw."""
    return _find_rust() if find_tool("gcc") else None


def missing_packages() -> list[str]:
    """The Debian packages that are missing to build ferry.exe."""
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
    """ferry.exe, built if its sources have changed. Raises LabFault with cargo's output."""
    if up_to_date():
        return program()
    toolchain = find_toolchain()
    if toolchain is None:
        raise LabFault(f"no toolchain can build for {TARGET}", remedy=remedy())
    scope = ", standard library included" if toolchain.source else ""
    progress(f"building ferry.exe with {toolchain.cargo}{scope} (3 to 12 minutes the first time)")
    began = time.time()
    built = _cargo_build(toolchain)
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=folder()) as name:
        staged = Path(name) / "ferry.exe"
        # All symbols: mingw's dlltool names some after rustc's temporary folders, so that no build would repeat another.
        _mingw("strip", "--strip-all", "-o", str(staged), str(built))
        imported = imports(staged)
        if foreign := [dll for dll in imported if not _SYSTEM_DLLS.fullmatch(dll)]:
            names = ", ".join(foreign)
            raise LabFault(f"ferry.exe imports {names}, which Windows does not have", remedy=f"link with Debian's {PACKAGES[-1]}")
        digest = files.digest(staged)
        facts = {**_provenance(toolchain), "version": version(), "target": TARGET, "imports": imported, "sha256": digest}
        files.write_text(facts_file(), json.dumps(facts, indent=1, sort_keys=True) + "\n")
        files.write_text(checksum_file(), f"{digest}  ferry.exe\n")
        staged.chmod(0o755)
        staged.rename(program())
    engine.mark(_stamp(), began)
    progress(f"{program()}, {program().stat().st_size / 1e6:.1f} MB, sha256 {digest}")
    return program()


def imports(path: Path) -> list[str]:
    """The DLLs that a program imports: names in lower case, sorted."""
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


def _provenance(toolchain: Toolchain) -> dict[str, str]:
    first = {
        "cargo": [str(toolchain.cargo), "--version"],
        "rustc": [toolchain.environment.get("RUSTC", "rustc"), "--version"],
        "linker": [str(find_tool("gcc")), "--version"],
    }
    versions = {name: _output(tuple(argv), toolchain.cargo).partition("\n")[0] for name, argv in first.items()}
    return {**versions, "std": "built from source" if toolchain.source else "installed"}


def _has_library(cargo: Path, *, source: bool) -> bool:
    rustc = str(cargo.parent / "rustc")
    if source:
        root = _output((rustc, "--print", "sysroot"), cargo).strip()
        return bool(root) and (Path(root) / "lib/rustlib/src/rust/library/Cargo.lock").exists()
    libraries = _output((rustc, "--print", "target-libdir", "--target", TARGET), cargo).strip()
    return bool(libraries) and any(Path(libraries).glob("libstd-*.rlib"))


@cache
def _output(argv: tuple[str, ...], cargo: Path) -> str:
    """Standard output of a short command; empty if it fails."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=30, check=False, cwd=engine.engine_dir(), env=engine.environment(cargo)
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _stamp() -> Path:
    return folder() / ".roughwater-built"
