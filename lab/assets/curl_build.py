"""Versions of curl built from sources of package registries: the tool, and the library for `libcurl_build`.

`curl_versions` has the package and checksum of every version. cargo downloads them. nghttp2 and libssh2 come from crates too
and are linked statically; TLS and zlib are the machine's. A version can name its libssh2: `8.4.0-libssh2-1.10.1`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from lab.assets import engine, store, tools
from lab.assets.curl_versions import LIBSSH2, LIBSSH2S, NGHTTP2, VERSIONS, WITH_LIBSSH2, Package
from lab.assets.store import Progress
from lab.assets.tools import Tool
from lab.model import files
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir

# Tools that a build needs besides cargo, which downloads the sources.
BUILD_TOOLS = tuple(
    tool
    for tool in tools.TOOLS
    if (tool.group == "clients" and tool.name != "ccache")
    or tool.name in ("cc", "libc6-dev")  # `lab bisect` uses ccache if it can
)
PROGRAM = "curl"
LIBRARY = "lib/libcurl.a"
HEADERS = "include"
_LONGEST_FETCH_S = 600.0
_LONGEST_BUILD_S = 1800.0

_RELEASE = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DBUILD_TESTING=OFF",
    "-DCMAKE_INSTALL_LIBDIR=lib",
    # perf walks stacks by frame pointers, and a flame graph needs the names of static functions too.
    "-DCMAKE_C_FLAGS=-g1 -fno-omit-frame-pointer",
)
_NGHTTP2_FLAGS = (*_RELEASE, "-DENABLE_LIB_ONLY=ON", "-DBUILD_STATIC_LIBS=ON", "-DENABLE_DOC=OFF")
_LIBSSH2_FLAGS = (*_RELEASE, "-DBUILD_EXAMPLES=OFF", "-DCRYPTO_BACKEND=OpenSSL", "-DENABLE_ZLIB_COMPRESSION=OFF")
_CURL_FLAGS = (
    *_RELEASE,
    "-DBUILD_CURL_EXE=ON",
    "-DUSE_NGHTTP2=ON",
    *(f"-D{name}=OFF" for name in ("CURL_USE_LIBPSL", "USE_LIBIDN2", "CURL_BROTLI", "CURL_ZSTD", "CURL_USE_PKGCONFIG")),
    *(f"-D{name}=OFF" for name in ("ENABLE_MANUAL", "ENABLE_CURL_MANUAL", "BUILD_LIBCURL_DOCS", "BUILD_MISC_DOCS")),
    "-DCURL_DISABLE_LDAP=ON",
    "-DCURL_DISABLE_LDAPS=ON",
    # Not every version of curl finds out what a static libssh2 needs; at the end of the line these serve all of them.
    "-DCMAKE_C_STANDARD_LIBRARIES=-lssl -lcrypto -lz -lpthread -ldl",
)
# Prefixes of options: older versions know only the first, newer ones only the second.
_PREFIXES = ("CMAKE_USE_", "CURL_USE_")
_PARTS = ("OPENSSL", "LIBSSH2")
# Folders that newer crates leave out although curl's CMakeLists.txt names them; empty ones are enough.
_LEFT_OUT = ("docs", "docs/examples")
_LAYOUT = 1  # raise when a build changes in a way that the flags do not show


def place(version: str) -> Path:
    """The directory of a version. Its name has a digest of the recipe."""
    package, libssh2 = _parts(version)
    how = " ".join(_CURL_FLAGS) + _libraries_recipe(libssh2)
    name = package.holds if libssh2 == LIBSSH2 else version
    return cache_dir() / f"curl-{name}-{_short(how, package.sha256)}"


def find(version: str) -> Path | None:
    """The program from the cache, its checksums verified."""
    directory = place(version)
    return directory / PROGRAM if store.load(directory) else None


def build(version: str, progress: Progress, *, with_library: bool = False) -> Path:
    """The program, built unless it is in the cache. Raises UsageProblem if a build tool is missing.

    With `with_library` a build that was made before the lab kept the library is made again.
    """
    with store.locked(progress, place(version).name):
        ready = find(version)
        if ready and (not with_library or (place(version) / LIBRARY).exists()):
            return ready
        package, libssh2 = _parts(version)
        with store.installing(place(version)) as (tree, facts):
            _from_crate(package, libssh2, tree.parent, tree, progress)
            says = _says(tree / PROGRAM)
            linked = [f" nghttp2/{NGHTTP2.holds}", f" libssh2/{libssh2.holds}"]
            # A source tree that is not a release prints 8.4.0-DEV. cmake goes on without a library that it did not find.
            if not re.match(rf"curl {re.escape(package.holds)}(-DEV)? ", says) or any(library not in says for library in linked):
                raise LabFault(f"curl {version} was built, but prints: {says}")
            facts.update(version=version, package=str(package), says=says)
    return place(version) / PROGRAM


def _parts(version: str) -> tuple[Package, Package]:
    """The packages of curl and of libssh2."""
    curl, _, libssh2 = version.partition(WITH_LIBSSH2)
    return VERSIONS[curl], LIBSSH2S[libssh2] if libssh2 else LIBSSH2


def static_libraries(version: str) -> list[Path]:
    """The files that a program needs to link a version's library statically, the library first. The version has been built."""
    libraries = _libraries_place(_parts(version)[1]) / "lib"
    return [place(version) / LIBRARY, libraries / "libnghttp2.a", libraries / "libssh2.a"]


def missing_tools() -> list[Tool]:
    return [tool for tool in BUILD_TOOLS if not (Path(tool.file).exists() if tool.file else tools.find(tool.name))]


def _says(program: Path) -> str:
    """The first line that the program prints as its version, or an error message."""
    _, said = store.run([program, "-q", "--version"], timeout_s=30)
    return next(iter(said.splitlines()), "nothing")


def _from_crate(package: Package, libssh2: Package, work: Path, tree: Path, progress: Progress) -> None:
    if lacking := missing_tools():
        names = ", ".join(tool.name for tool in lacking)
        packages = " ".join(tools.packages(lacking))
        raise UsageProblem(f"curl cannot be built without {names}", remedy=f"make clients, or sudo apt-get install {packages}")
    libraries = _libraries(libssh2, work, progress)
    progress(f"downloading {package}")
    source = _unpacked(package, work) / "curl"
    for folder in _LEFT_OUT:
        (source / folder).mkdir(parents=True, exist_ok=True)
        (source / folder / "CMakeLists.txt").touch()
    what = f"curl {package.holds}" + ("" if libssh2 == LIBSSH2 else f" with libssh2 {libssh2.holds}")
    progress(f"building {what}")
    old, new = _PREFIXES
    prefix = new if f"{new}OPENSSL" in (source / "CMakeLists.txt").read_text(encoding="utf-8") else old
    flags = (*_CURL_FLAGS, *(f"-D{prefix}{part}=ON" for part in _PARTS), f"-DCMAKE_PREFIX_PATH={libraries}")
    built = _cmake(source, work / "curl", flags, what, target="curl")
    shutil.copy2(built / "src" / "curl", tree / PROGRAM)
    (tree / LIBRARY).parent.mkdir()
    shutil.copy2(built / LIBRARY, tree / LIBRARY)
    shutil.copytree(source / "include" / "curl", tree / HEADERS / "curl", ignore=shutil.ignore_patterns("Makefile*", "*.in"))


def _libraries(libssh2: Package, work: Path, progress: Progress) -> Path:
    """The folder with static libraries of nghttp2 and a libssh2, built once for all versions of curl."""
    final = _libraries_place(libssh2)
    if store.load(final):
        return final
    parts = ((NGHTTP2, "nghttp2", _NGHTTP2_FLAGS), (libssh2, "libssh2", _LIBSSH2_FLAGS))
    # Another version may be built at the same time, and needs them too.
    with store.locked(progress, final.name):
        if store.load(final):
            return final
        _build_libraries(parts, final, work, progress)
    return final


def _build_libraries(parts: Sequence[tuple[Package, str, Sequence[str]]], final: Path, work: Path, progress: Progress) -> None:
    with store.installing(final) as (prefix, facts):
        for package, folder, flags in parts:
            what = f"{folder} {package.holds}"
            progress(f"building {what}, once for all versions of curl")
            source = _unpacked(package, work) / folder
            _cmake(source, work / folder, (*flags, f"-DCMAKE_INSTALL_PREFIX={prefix}"), what, target="install")
        facts["packages"] = [str(package) for package, *_ in parts]


def _libraries_place(libssh2: Package) -> Path:
    return cache_dir() / f"curl-libraries-{_short(_libraries_recipe(libssh2))}"


def _unpacked(package: Package, work: Path) -> Path:
    crate = _fetch_crate(package, work)
    into = work / "sources"
    into.mkdir(exist_ok=True)
    code, said = store.run(["tar", "-xzf", crate, "-C", into])
    if code:
        raise LabFault(f"cannot unpack {crate.name}: {store.reason(said)}")
    return into / f"{package.name}-{package.version}"


def _fetch_crate(package: Package, work: Path) -> Path:
    """Download a crate as the dependency of a temporary package; the lock file makes cargo accept a yanked version."""
    cargo = engine.find_cargo()
    if cargo is None:
        raise UsageProblem(f"no cargo to download {package.name} with", remedy=engine.remedy())
    manifest = work / f"fetch-{package.name}"
    (manifest / "src").mkdir(parents=True)
    (manifest / "src" / "lib.rs").touch()
    (manifest / "Cargo.toml").write_text(
        '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
        f'[dependencies]\n{package.name} = {{ version = "={package.version.partition("+")[0]}", default-features = false }}\n'
    )
    (manifest / "Cargo.lock").write_text(
        f'version = 3\n[[package]]\nname = "{package.name}"\nversion = "{package.version}"\nchecksum = "{package.sha256}"\n'
        'source = "registry+https://github.com/rust-lang/crates.io-index"\n'
    )
    code, said = store.run(
        [cargo, "fetch", "--target", "x86_64-unknown-linux-gnu"],
        timeout_s=_LONGEST_FETCH_S,
        cwd=manifest,
        env=engine.environment(cargo),
    )
    if code:
        raise LabFault(f"cannot download {package}: {_why(said)}", remedy="is cargo's registry reachable?")
    home = Path(os.environ.get("CARGO_HOME") or "~/.cargo").expanduser()
    found = sorted((home / "registry" / "cache").glob(f"*/{package.name}-{package.version}.crate"))
    # cargo does not check a file again that it downloaded before.
    return verified(package, found, remedy=f"if the file is damaged, delete {found[0]}" if found else "")


def verified(package: Package, found: Sequence[Path], remedy: str = "") -> Path:
    """The file with the checksum of the table. Raises LabFault before anything else is unpacked."""
    for path in found:
        if files.digest(path) == package.sha256:
            return path
    if not found:
        raise LabFault(f"{package} was downloaded, but its file is missing")
    raise LabFault(f"{package} has changed: the checksum of {found[0].name} differs from the lab's", remedy=remedy)


def _cmake(source: Path, build: Path, flags: Sequence[str], what: str, *, target: str) -> Path:
    log = cache_dir() / f"{what.replace(' ', '-')}.log"
    steps: tuple[list[str | Path], ...] = (
        ["cmake", "-G", "Unix Makefiles", "-S", source, "-B", build, *flags],
        ["cmake", "--build", build, "--target", target, "--parallel", str(os.cpu_count() or 1)],
    )
    for step in steps:
        code, said = store.run(step, timeout_s=_LONGEST_BUILD_S)
        if code:
            log.write_text(said, encoding="utf-8")
            raise LabFault(f"{what} cannot be built: {_why(said)}", remedy=f"full output: {log}")
    log.unlink(missing_ok=True)
    return build


def _why(said: str) -> str:
    """The first error of cmake, the compiler or the linker, with the next line, where cmake puts its reason."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    first = next((at for at, line in enumerate(lines) if re.search(r"\berror\b", line, re.IGNORECASE)), None)
    if first is None:
        return store.reason(said)
    return " ".join(lines[first : first + 2])[:300]


def _libraries_recipe(libssh2: Package) -> str:
    return "\n".join((NGHTTP2.sha256, libssh2.sha256, *_NGHTTP2_FLAGS, *_LIBSSH2_FLAGS))


def _short(*texts: str) -> str:
    return hashlib.sha256("\n".join((str(_LAYOUT), *texts)).encode()).hexdigest()[:12]
