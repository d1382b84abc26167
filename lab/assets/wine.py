"""Wine, where there is no Windows: its programs, and private prefixes to run ferry.exe in.

A prefix (Wine's C: drive and registry) takes ten seconds and 700 MB to make, nearly all of it copies of Wine's DLLs. It is made
once, in the cache, with links instead of copies. Each run gets a copy of that template (13 MB, about 0.1 s), and its wineserver
ends with it. ~/.wine stays untouched, no window opens, and the desktop's menus get no entries.

Wine 8 (Debian 12) lacks bcryptprimitives.dll, Rust's source of random numbers. The template then gets a replacement, built by
mingw; Wine 10 (Debian 13) has the DLL. Wine is not Windows: TCP, timers and files are those of Linux.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from lab.assets import store, windows
from lab.assets.store import Progress
from lab.model import files
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir

PACKAGE = "wine64"
# Debian's loader is not on PATH; its `wine` is a script that looks for it.
_FOLDERS = ("/usr/lib/wine", "/usr/local/bin", "/usr/bin", "/opt/wine-stable/bin", "/usr/lib/x86_64-linux-gnu/wine")
_LOADERS = ("wine64", "wine")
_SERVERS = ("wineserver64", "wineserver")
_LIBRARIES = "x86_64-windows"
_RANDOM = "bcryptprimitives.dll"
_RANDOM_SOURCE = """\
#include <windows.h>
BOOLEAN WINAPI SystemFunction036(PVOID buffer, ULONG length); /* RtlGenRandom */
__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *data, SIZE_T length) {
    while (length > 0) {
        ULONG piece = length > 0x10000000 ? 0x10000000 : (ULONG)length;
        if (!SystemFunction036(data, piece)) return FALSE;
        data += piece;
        length -= piece;
    }
    return TRUE;
}
BOOL WINAPI DllMain(HINSTANCE instance, DWORD reason, LPVOID reserved) { return TRUE; }
"""
# No menus, no .NET, no browser engine: Wine would offer to download the last two.
_OVERRIDES = "winemenubuilder.exe=d;mscoree=d;mshtml=d"
_LAYOUT = 1  # raise when the template's layout changes in a way the text above does not show
_BOOT_TIMEOUT_S = 180.0
_END_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class WineFacts:
    """`program` runs `ferry.exe ARGS`; `template` is the prefix to copy."""

    program: Path
    server: Path
    version: str
    template: Path

    @property
    def label(self) -> str:
        """The name in results."""
        return f"Wine {self.version}, not Windows"


def find_program() -> tuple[Path, Path] | None:
    """Wine's loader for 64-bit programs, and its server."""
    loader, server = _first(_LOADERS), _first(_SERVERS)
    return (loader, server) if loader and server else None


def remedy() -> str:
    return f"sudo apt-get install --no-install-recommends {PACKAGE}"


def find() -> WineFacts | None:
    """Wine with an intact template in the cache; None if `ensure` must make it."""
    programs = find_program()
    if programs is None:
        return None
    version = _version(programs[0])
    template = _place(version)
    return WineFacts(*programs, version, template / "prefix") if store.load(template) else None


def ensure(progress: Progress) -> WineFacts:
    """Wine and its template, made if it is not in the cache. Raises UsageProblem if Wine is not installed."""
    programs = find_program()
    if programs is None:
        raise UsageProblem("Wine is not installed", remedy=remedy())
    if ready := find():
        return ready
    with store.locked(progress, "wine"):
        if ready := find():
            return ready
        loader, server = programs
        version = _version(loader)
        progress(f"making a prefix of Wine {version} (ten seconds, once)")
        with store.installing(_place(version), "wine") as (made, facts):
            _make(loader, server, made / "prefix")
            facts.update(version=version, program=str(loader))
        return WineFacts(loader, server, version, _place(version) / "prefix")


def environment(prefix: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a program in this prefix. It silences Wine's messages, which would mix with the output."""
    inherited = {name: value for name, value in (os.environ if base is None else base).items() if not _is_unwanted(name)}
    return {**inherited, "WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": _OVERRIDES, "WINEARCH": "win64"}


@contextmanager
def prefix(facts: WineFacts, place: Path, owner: tuple[int, int] | None = None) -> Iterator[Path]:
    """A copy of the template at `place`, which must not exist. Afterwards its processes are ended and it is removed.

    `owner` (uid, gid) is the user who will run it: Wine accepts only a prefix that belongs to its user.
    """
    copy_prefix(facts, place, owner)
    try:
        yield place
    finally:
        end(facts, place)
        shutil.rmtree(place, ignore_errors=True)


def copy_prefix(facts: WineFacts, place: Path, owner: tuple[int, int] | None = None) -> None:
    shutil.copytree(facts.template, place, symlinks=True)
    if owner is not None:
        for path in (place, *place.rglob("*")):
            os.chown(path, *owner, follow_symlinks=False)


def end(facts: WineFacts, place: Path) -> None:
    """End all programs of a prefix, its wineserver too, and wait until they have ended."""
    who = place.stat()
    # The server's folder belongs to its user: root would look for a server that does not exist.
    other: dict[str, Any] = {"user": who.st_uid, "group": who.st_gid, "extra_groups": []} if who.st_uid != os.geteuid() else {}
    for option in ("-k", "-w"):
        try:
            subprocess.run(
                [facts.server, option],
                env=environment(place),
                timeout=_END_TIMEOUT_S,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                **other,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabFault(f"Wine in {place} cannot be ended: {error}") from None
    _forget_server(place)


def _forget_server(place: Path) -> None:
    """Remove the server's folder in /tmp, which Debian's Wine records in the prefix and leaves behind."""
    try:
        name = (place / "wineserver").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return
    if re.fullmatch(r"wine-\w{6}", name):
        shutil.rmtree(Path(tempfile.gettempdir()) / name, ignore_errors=True)


_LAUNCHER = """\
#!/bin/sh
# Runs a Windows program under {label}. Written by lab/assets/wine.py.
#
# wineserver opens sockets and files for its clients, so every network and mount namespace needs another server and prefix.
set -eu
umask 077
prefix={folder}/prefix-$(id -u)-$(stat -Lc %i /proc/self/ns/net)-$(stat -Lc %i /proc/self/ns/mnt)
if [ ! -d "$prefix" ]; then
    cp -R --no-preserve=ownership {template} "$prefix.$$"
    mv -T "$prefix.$$" "$prefix" 2>/dev/null || rm -rf "$prefix.$$"
fi
unset DISPLAY WAYLAND_DISPLAY
export WINEPREFIX="$prefix" WINEDEBUG=-all WINEARCH=win64 WINEDLLOVERRIDES='{overrides}'
exec {command} "$@"
"""


def script(facts: WineFacts, folder: str | PurePath, template: str | PurePath, *command: str | PurePath) -> str:
    """A shell script that runs `command` with its arguments in the caller's prefix below `folder`, made on first use."""
    return _LAUNCHER.format(
        label=facts.label,
        folder=shlex.quote(str(folder)),
        template=shlex.quote(str(template)),
        overrides=_OVERRIDES,
        command=shlex.join(map(str, command)),
    )


@contextmanager
def launcher(facts: WineFacts, program: Path, folder: Path) -> Iterator[Path]:
    """A script in `folder` that runs the Windows program `program`; everything it started is ended afterwards.

    All users may call it from any namespace. Each gets a separate prefix below `folder`.
    """
    folder.mkdir(mode=0o777)
    folder.chmod(0o1777)
    shutil.copyfile(program, folder / program.name)
    shutil.copytree(facts.template, folder / "template", symlinks=True)
    stand_in = folder / program.stem
    stand_in.write_text(script(facts, folder, folder / "template", facts.program, folder / program.name))
    for path in (stand_in, folder / program.name):
        path.chmod(0o755)
    try:
        yield stand_in
    finally:
        for made in folder.glob("prefix-*"):
            end(facts, made)


def _first(names: tuple[str, ...]) -> Path | None:
    path = os.pathsep.join((*_FOLDERS, os.environ.get("PATH", "")))
    found = (shutil.which(name, path=path) for name in names)
    return next((Path(name).absolute() for name in found if name), None)


def _is_unwanted(name: str) -> bool:
    return name.startswith("WINE") or name in ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY")


def _version(loader: Path) -> str:
    code, output = store.run([loader, "--version"], timeout_s=30, env=environment(Path("/nonexistent")))
    found = re.match(r"wine-(\d+(?:\.\d+)*)", output)
    if code or not found:
        raise LabFault(f"{loader} does not print its version: {store.reason(output)}", remedy=remedy())
    return found[1]


def _place(version: str) -> Path:
    """The directory's name has a digest of the recipe."""
    recipe = "\n".join((_RANDOM_SOURCE, _OVERRIDES, str(_LAYOUT)))
    return cache_dir() / f"wine-{version}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def _make(loader: Path, server: Path, place: Path) -> None:
    place.mkdir(parents=True)
    # Wine links Documents and similar folders to the home directory: give it an empty one.
    home = {**os.environ, "HOME": str(place.parent), "USER": "ferry", "LOGNAME": "ferry"}
    code, output = store.run([loader, "wineboot", "--init"], timeout_s=_BOOT_TIMEOUT_S, env=environment(place, home))
    end(WineFacts(loader, server, "", place), place)
    system = place / "drive_c" / "windows" / "system32"
    if code or not (system / "kernel32.dll").exists():
        raise LabFault(f"{loader} cannot make a prefix: {store.reason(output)}", remedy=remedy())
    # A copy must not look for the server of the template.
    (place / "wineserver").unlink(missing_ok=True)
    libraries = _libraries(loader)
    _link(place / "drive_c", libraries)
    if not (libraries / _RANDOM).exists():
        _build_random(system / _RANDOM)
    for link in (place / "dosdevices").iterdir():
        # Serial ports of the host.
        if link.name not in ("c:", "z:"):
            link.unlink()
    for link in (place / "drive_c" / "users").rglob("*"):
        if link.is_symlink():
            link.unlink()
            link.mkdir()
    # A run need not update the prefix: it was made by this Wine.
    (place / ".update-timestamp").write_text("disable\n")


def _libraries(loader: Path) -> Path:
    """The folder with this Wine's DLLs."""
    roots = (loader.parent.parent, Path("/usr"))
    for root in roots:
        for folder in (
            root / "lib/x86_64-linux-gnu/wine",
            root / "lib/wine",
            root / "lib64/wine",
            root / "x86_64-linux-gnu/wine",
        ):
            if (folder / _LIBRARIES / "kernel32.dll").exists():
                return folder / _LIBRARIES
    raise LabFault(f"the DLLs of {loader} cannot be found", remedy=remedy())


def _link(drive: Path, libraries: Path) -> None:
    """Replace files that are identical to Wine's by links to them."""
    for path in drive.rglob("*"):
        own = libraries / path.name
        if path.is_symlink() or not path.is_file() or not own.is_file() or own.stat().st_size != path.stat().st_size:
            continue
        if files.digest(own) == files.digest(path):
            path.unlink()
            path.symlink_to(own)


def _build_random(place: Path) -> None:
    gcc = windows.find_tool("gcc")
    if gcc is None:
        raise LabFault(f"this Wine lacks {_RANDOM}, and mingw is missing to build it", remedy=windows.remedy())
    source = place.with_suffix(".c")
    source.write_text(_RANDOM_SOURCE)
    argv: list[str | Path] = [gcc, "-O2", "-s", "-shared", "-nostdlib", "-e", "DllMain", "-o", place, source, "-ladvapi32"]
    code, output = store.run(argv, timeout_s=60)
    source.unlink()
    if code:
        raise LabFault(f"{_RANDOM} cannot be built: {store.reason(output)}")
