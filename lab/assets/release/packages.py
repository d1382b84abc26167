"""Builds the Python packages: the lab's wheel and source archive, and ferry's wheels for Linux and Windows."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import tarfile
import time
import zipfile
from pathlib import Path

from lab.assets.release.workshop import Words, Workshop
from lab.model.errors import LabFault

# glibc 2.28: Debian 10, RHEL 8 and everything later. Zig's linker takes exactly this glibc's symbols.
MANYLINUX = "manylinux_2_28"
LINUX_TARGET = "x86_64-unknown-linux-gnu"


def lab_packages(shop: Workshop, out: Path) -> list[Path]:
    """The wheel and the source archive of `roughwater`."""
    return [_hatchling(shop, shop.root, kind, out) for kind in ("wheel", "sdist")]


def wheel_of_sdist(shop: Workshop, sdist: Path, work: Path) -> Path:
    """The wheel that the source archive alone gives."""
    with tarfile.open(sdist) as archive:
        # Debian 12's Python 3.11.2 has neither the filter nor the argument, and takes any attribute.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(work)  # noqa: S202 - it was made here
    (source,) = (path for path in work.iterdir() if path.is_dir())
    return _hatchling(shop, source, "wheel", work / "dist")


def _hatchling(shop: Workshop, source: Path, kind: str, out: Path) -> Path:
    known = set(out.glob("*"))
    shop.run([shop.tools / "python", "-m", "hatchling", "build", "--target", kind, "--directory", out], cwd=source)
    (made,) = set(out.glob("*")) - known
    return made


def ferry_linux(shop: Workshop, out: Path) -> Path:
    """The wheel of `roughwater-ferry` for Linux. Zig links it, for a glibc older than this machine's."""
    known = set(out.glob("*"))
    maturin: Words = ["maturin", "build", "--release", "--locked", "--manifest-path", "crates/ferry/Cargo.toml"]
    target: Words = ["--target", LINUX_TARGET, "--zig", "--compatibility", MANYLINUX]
    # In engine/, whose .cargo/config.toml holds for every build of ferry.
    words = [*maturin, *target, "--target-dir", shop.root / "engine/target", "--out", out]
    shop.run(words, cwd=shop.root / "engine", env=shop.rust_environment)
    (made,) = set(out.glob("*.whl")) - known
    without_paths(made, shop.root, shop.epoch)
    return made


def ferry_windows(shop: Workshop, linux: Path, out: Path) -> Path:
    """The wheel for Windows: the one for Linux with ferry.exe, from the project's cross-build, in place of ferry."""
    path = {"PYTHONPATH": str(shop.root)}
    said = shop.run([sys.executable, "-m", "lab.assets", "windows"], env={**shop.rust_environment, **path})
    return for_windows(linux, Path(said.strip().splitlines()[-1]), out, shop.epoch)


def for_windows(linux: Path, program: Path, out: Path, epoch: int) -> Path:
    """A copy of a wheel with one program, for Windows: `program` replaces it."""
    files = _files(linux)
    script = next((name for name in files if ".data/scripts/" in name), "")
    if not script:
        raise LabFault(f"{linux.name} has no program")
    del files[script]
    files[f"{script}.exe"] = program.read_bytes()
    info = _info(files)
    tags = re.compile(rb"(?:^Tag: .*\n)+", re.MULTILINE)
    files[f"{info}/WHEEL"] = tags.sub(b"Tag: py3-none-win_amd64\n", files[f"{info}/WHEEL"])
    return _pack(files, out / f"{info.removesuffix('.dist-info')}-py3-none-win_amd64.whl", epoch)


def without_paths(wheel: Path, root: Path, epoch: int) -> None:
    """Replace the folder of the build in the wheel's inventory, where cargo names the project's own crates by it."""
    files = _files(wheel)
    for name in files:
        if "/sboms/" in name:
            files[name] = files[name].replace(str(root).encode(), b"/roughwater")
    _pack(files, wheel, epoch)


def _files(wheel: Path) -> dict[str, bytes]:
    """All files except RECORD, which `_pack` writes."""
    with zipfile.ZipFile(wheel) as given:
        return {name: given.read(name) for name in given.namelist() if not name.endswith(".dist-info/RECORD")}


def _info(files: dict[str, bytes]) -> str:
    return next(name.partition("/")[0] for name in files if name.endswith(".dist-info/WHEEL"))


def _pack(files: dict[str, bytes], made: Path, epoch: int) -> Path:
    """Write a wheel. The same files give the same bytes on every machine."""
    record = f"{_info(files)}/RECORD"
    lines = "".join(f"{name},{_record_digest(content)},{len(content)}\n" for name, content in sorted(files.items()))
    # A zip has no dates before 1980.
    moment = time.gmtime(max(epoch, 315532800))[:6]
    with zipfile.ZipFile(made, "w") as wheel:
        for name, content in [*sorted(files.items()), (record, f"{lines}{record},,\n".encode())]:
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | (0o755 if ".data/scripts/" in name else 0o644)) << 16
            wheel.writestr(entry, content, compresslevel=9)
    return made


def _record_digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
