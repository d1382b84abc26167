"""The lab's application on libcurl (`libcurl/application.c`), compiled against every libcurl that can be had.

A version that `curl_build` builds is linked statically, that of a wheel and this system's are linked as shared libraries.
Compiling takes a second and needs `cc` only.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from lab.assets import curl_build, store, tools
from lab.assets.curl_versions import LIBCURLS, WITH_LIBSSH2, Package
from lab.assets.store import Progress
from lab.model.errors import LabFault, UsageProblem
from lab.model.files import digest
from lab.model.paths import cache_dir

PROGRAM = "libcurl-application"
SYSTEM = "debian"
SYSTEM_LIBRARIES = tuple(Path(folder) / "libcurl.so.4" for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"))
# A lock of its own: the application takes a second to compile, and should not wait for what takes minutes to download.
_PART = "libcurl"
_SOURCES = Path(__file__).with_name("libcurl")
# -rdynamic: its poll() replaces the C library's for a shared libcurl too. The frame pointer is for flame graphs.
_FLAGS = ("-std=gnu11", "-O2", "-g", "-fno-omit-frame-pointer", "-Wall", "-rdynamic")
_STATIC = ("-lssl", "-lcrypto", "-lz", "-lpthread", "-ldl")
_LONGEST_COMPILE_S = 120.0
_LONGEST_FETCH_S = 600.0


def place(version: str) -> Path:
    """The directory of the application on a version; its name has a digest of the sources and of what they are linked with."""
    package = _wheel(version)
    if version == SYSTEM:
        library = system_library()
        linked = digest(library) if library else ""
    else:
        linked = package.sha256 if package else curl_build.place(version).name
    sources = [path.read_text(encoding="utf-8") for path in sorted(_SOURCES.iterdir())]
    recipe = "\n".join((*_FLAGS, *_STATIC, linked, *sources))
    return cache_dir() / f"libcurl-{version}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def system_library() -> Path | None:
    """This system's libcurl.so.4, of the OpenSSL flavour, which comes with its curl."""
    return next((path for path in SYSTEM_LIBRARIES if path.exists()), None)


def find(version: str) -> Path | None:
    """The program from the cache, its checksums verified."""
    directory = place(version)
    return directory / PROGRAM if store.load(directory) else None


def build(version: str, progress: Progress) -> Path:
    """The program, compiled unless it is in the cache; the version of curl that it needs is built first.

    Raises UsageProblem where a compiler or the system's library is missing.
    """
    if ready := find(version):
        return ready
    if not tools.find("cc"):
        raise UsageProblem(
            "the application on libcurl cannot be compiled without cc", remedy="sudo apt-get install gcc libc6-dev"
        )
    package = _wheel(version)
    if version == SYSTEM and system_library() is None:
        raise UsageProblem("libcurl of this system is not installed", remedy="sudo apt-get install curl")
    if version != SYSTEM and package is None:
        curl_build.build(version, progress, with_library=True)
    with store.locked(progress, _PART), store.installing(place(version), _PART) as (tree, facts):
        if package:
            _unpack_wheel(package, tree, progress)
        _compile(version, tree, package)
        says = _says(tree / PROGRAM)
        expected = "" if version == SYSTEM else version.partition(WITH_LIBSSH2)[0]
        if not re.match(rf"application on libcurl\S*/{re.escape(expected)}", says):
            raise LabFault(f"libcurl {version} was linked, but prints: {says}")
        facts.update(version=version, package=str(package or version), says=says)
    return place(version) / PROGRAM


def _wheel(version: str) -> Package | None:
    package = LIBCURLS.get(version)
    return package if package and package.is_wheel else None


def _says(program: Path) -> str:
    """The line that the program prints as its version, or an error message."""
    _, said = store.run([program, "--version"], timeout_s=30)
    return next(iter(said.splitlines()), "nothing")


def _compile(version: str, tree: Path, package: Package | None) -> None:
    source, program = _SOURCES / "application.c", tree / PROGRAM
    if package or version == SYSTEM:
        library = _library(tree / "lib") if package else system_library()
        assert library is not None
        # The wheel's own libraries find each other and need nothing that the linker knows of.
        link: list[str | Path] = ["-Wl,--allow-shlib-undefined", library]
        link += ["-Wl,-rpath,$ORIGIN/lib"] if package else []
    else:
        headers = curl_build.place(version) / curl_build.HEADERS
        check: list[str | Path] = ["-fsyntax-only", "-DCHECK_HEADER", f"-I{headers}", "-x", "c", _SOURCES / "check.c"]
        _cc(check, f"libcurl {version} differs from the lab's declarations")
        link = [*curl_build.static_libraries(version), *_STATIC]
    _cc([*_FLAGS, "-o", program, source, *link], f"the application on libcurl {version} cannot be compiled")


def _cc(words: Sequence[str | Path], problem: str) -> None:
    code, said = store.run(["cc", *words], timeout_s=_LONGEST_COMPILE_S)
    if code:
        first = next((line.strip() for line in said.splitlines() if "error" in line or "undefined" in line), store.reason(said))
        raise LabFault(f"{problem}: {first[:300]}")


def _library(folder: Path) -> Path:
    return next(path for path in sorted(folder.iterdir()) if path.name.startswith("libcurl"))


def _unpack_wheel(package: Package, tree: Path, progress: Progress) -> None:
    """Put the wheel's libraries into the tree, in one folder so that they find each other."""
    progress(f"downloading {package}")
    work = tree.parent
    with zipfile.ZipFile(_fetch_wheel(package, work)) as wheel:
        wheel.extractall(work / "wheel")
    libraries = [path for path in (work / "wheel").rglob("*.so*") if path.parent.name.endswith(".libs")]
    if not any(path.name.startswith("libcurl") for path in libraries):
        raise LabFault(f"{package} holds no libcurl")
    (tree / "lib").mkdir()
    for path in libraries:
        shutil.copy2(path, tree / "lib")


def _fetch_wheel(package: Package, work: Path) -> Path:
    into = work / "download"
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(into)]
    # Always the wheel of the table, whatever Python runs: only its libcurl matters.
    argv += ["--platform", package.platform, "--python-version", "3.11", "--implementation", "cp"]
    code, said = store.run([*argv, f"{package.name}=={package.version}"], timeout_s=_LONGEST_FETCH_S)
    if code:
        raise LabFault(f"cannot download {package}: {store.reason(said)}", remedy="is PyPI reachable?")
    return curl_build.verified(package, sorted(into.glob("*.whl")))
