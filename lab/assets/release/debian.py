"""Builds the package for Debian 12 and 13: the lab, its locked dependencies and ferry in /usr/lib/roughwater.

That folder is a virtual environment of the system's Python. One environment serves both releases, because a Python looks for its
packages in lib/pythonX.Y of its own version: Debian 12 reads lib/python3.11, Debian 13 lib/python3.13.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from lab.assets import tools
from lab.assets.release import inventory
from lab.assets.release.packages import MANYLINUX
from lab.assets.release.workshop import Words, Workshop, uv_cache
from lab.model.files import digest

# The Pythons of Debian 12 and 13.
PYTHONS = ("3.11", "3.13")
HOME = "usr/lib/roughwater"
# Debian's own part of the version, for a new package of the same lab.
REVISION = "1"
MAINTAINER = "Roughwater maintainers <maintainers@roughwater.invalid>"
_TEMPLATES = Path(__file__).with_name("debian")
# Files in which uv notes a package's origin: this machine's paths and times.
_NOTES = ("RECORD", "direct_url.json", "uv_cache.json", "REQUESTED", "INSTALLER")


def file_name(version: str) -> str:
    return f"roughwater_{version}-{REVISION}_amd64.deb"


def build(shop: Workshop, version: str, *, wheel: Path, ferry: Path, work: Path, out: Path) -> Path:
    """The .deb, in `out`. `work` gets its tree."""
    shutil.rmtree(work, ignore_errors=True)
    home = work / HOME
    for python in PYTHONS:
        _install(shop, wheel, home / f"lib/python{python}/site-packages", python)
    _link_equal_files(*(home / f"lib/python{python}" for python in PYTHONS))
    _programs(work, ferry)
    _documents(shop, work, version)
    _tidy(work)
    _control(work, version)
    made = out / file_name(version)
    # The number of threads decides how xz divides its input. Level 2 takes a third of the usual time, for a tenth more.
    shop.run(["dpkg-deb", "--root-owner-group", "-Zxz", "-z2", "--threads-max=2", "--build", work, made])
    return made


def _install(shop: Workshop, wheel: Path, target: Path, python: str) -> None:
    lock = target.with_name("requirements.txt")
    lock.parent.mkdir(parents=True)
    lock.write_text(inventory.dependencies((shop.root / "requirements.lock").read_text(encoding="utf-8")), encoding="utf-8")
    uv: Words = ["uv", "pip", "install", "--quiet", "--no-config", "--no-build", "--link-mode=copy", "--cache-dir", uv_cache()]
    for_debian: Words = ["--target", target, "--python-version", python, "--python-platform", f"x86_64-{MANYLINUX}"]
    shop.run([*uv, *for_debian, "--require-hashes", "--requirement", lock])
    shop.run([*uv, *for_debian, "--no-index", "--no-deps", wheel])
    lock.unlink()
    for name in _NOTES:
        for path in target.glob(f"*.dist-info/{name}"):
            path.unlink()
    shutil.rmtree(target / "bin", ignore_errors=True)
    (target / ".lock").unlink(missing_ok=True)
    # Git's, for the checkout.
    for name in (".gitattributes", ".gitignore"):
        for path in target.rglob(name):
            path.unlink()


def _link_equal_files(first: Path, second: Path) -> None:
    """Make equal files of both folders one file, which is packed once. Most of Python's are equal, no compiled one is."""
    for path in second.rglob("*"):
        twin = first / path.relative_to(second)
        if path.is_file() and twin.is_file() and path.stat().st_size == twin.stat().st_size and digest(path) == digest(twin):
            path.unlink()
            os.link(twin, path)


def _programs(work: Path, ferry: Path) -> None:
    """The environment's Python, `lab` and `ferry`, and links to both in /usr/bin."""
    folder = work / HOME / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to("../../../bin/python3")
    (work / HOME / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    shutil.copyfile(_TEMPLATES / "lab.py.in", folder / "lab")
    with zipfile.ZipFile(ferry) as archive:
        (program,) = [name for name in archive.namelist() if name.endswith(".data/scripts/ferry")]
        (folder / "ferry").write_bytes(archive.read(program))
    (work / "usr/bin").mkdir(parents=True)
    for name in ("lab", "ferry"):
        (folder / name).chmod(0o755)
        (work / "usr/bin" / name).symlink_to(f"../lib/roughwater/bin/{name}")


def _documents(shop: Workshop, work: Path, version: str) -> None:
    documents = work / "usr/share/doc/roughwater"
    pages = work / "usr/share/man/man1"
    overrides = work / "usr/share/lintian/overrides/roughwater"
    for folder in (documents, pages, overrides.parent):
        folder.mkdir(parents=True)
    moment = datetime.fromtimestamp(shop.epoch, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
    title = f"roughwater ({version}-{REVISION}) unstable; urgency=medium"
    entry = f"  * Release {version}: /usr/share/doc/roughwater/changelog.gz\n\n -- {MAINTAINER}  {moment}\n"
    _compress(documents / "changelog.Debian.gz", f"{title}\n\n{entry}")
    _compress(documents / "changelog.gz", (shop.root / "CHANGELOG.md").read_text(encoding="utf-8"))
    (documents / "copyright").write_text(_copyright(work / HOME / f"lib/python{PYTHONS[0]}/site-packages"), encoding="utf-8")
    _compress(pages / "ferry.1.gz", (shop.root / "engine/docs/ferry.1").read_text(encoding="utf-8"))
    _compress(pages / "lab.1.gz", (_TEMPLATES / "lab.1.in").read_text(encoding="utf-8").replace("@VERSION@", version))
    shutil.copyfile(_TEMPLATES / "lintian-overrides", overrides)


def _copyright(packages: Path) -> str:
    """The project's licences, and each dependency's as its own metadata states it, whose texts are installed with it."""
    head = (_TEMPLATES / "copyright").read_text(encoding="utf-8")
    found = []
    for path in sorted(packages.glob("*.dist-info/METADATA")):
        fields = _fields(path)
        stated = [value for key, value in fields if key in ("License-Expression", "License")]
        stated += [value.rpartition(" :: ")[2] for key, value in fields if value.startswith("License :: ")]
        name, version = (next(value for key, value in fields if key == wanted) for wanted in ("Name", "Version"))
        if name != "roughwater":
            found.append(f" {name} {version}: {(stated or ['see its folder'])[0]}")
    return head.replace("@DEPENDENCIES@", "\n".join(found))


def _fields(metadata: Path) -> list[tuple[str, str]]:
    header = metadata.read_text(encoding="utf-8").partition("\n\n")[0]
    return [(key, value) for key, _, value in (line.partition(": ") for line in header.splitlines()) if value]


def _tidy(work: Path) -> None:
    """The permissions that Debian wants, whatever the packages came with. Shared libraries need no executable bit."""
    for path in work.rglob("*"):
        if path.is_symlink():
            continue
        program = path.is_file() and path.parent == work / HOME / "bin"
        script = path.is_file() and path.suffix != ".so" and os.access(path, os.X_OK) and path.read_bytes()[:2] == b"#!"
        path.chmod(0o755 if path.is_dir() or program or script else 0o644)


def _control(work: Path, version: str) -> None:
    folder = work / "DEBIAN"
    folder.mkdir()
    # Equal files are one.
    sizes = {path.lstat().st_ino: path.lstat().st_size for path in work.rglob("*") if path.is_file()}
    text = (_TEMPLATES / "control.in").read_text(encoding="utf-8")
    values = {
        "VERSION": f"{version}-{REVISION}",
        "MAINTAINER": MAINTAINER,
        "SIZE": str(sum(sizes.values()) // 1024),
        "RECOMMENDS": _packages("cell"),
        "SUGGESTS": _packages("server"),
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    (folder / "control").write_text(text, encoding="utf-8")
    for name in ("postinst", "prerm"):
        shutil.copyfile(_TEMPLATES / name, folder / name)
        (folder / name).chmod(0o755)
    sums = [f"{_md5(path)}  {path.relative_to(work)}\n" for path in sorted(work.rglob("*")) if _packed(path, folder)]
    (folder / "md5sums").write_text("".join(sums), encoding="utf-8")
    folder.chmod(0o755)


def _packages(group: tools.Group) -> str:
    return ", ".join(tools.packages(tool for tool in tools.TOOLS if tool.group == group))


def _packed(path: Path, control: Path) -> bool:
    return path.is_file() and not path.is_symlink() and control not in path.parents


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        # dpkg --verify reads MD5; SHA256SUMS guards the package.
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _compress(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
