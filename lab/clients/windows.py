"""Windows programs as clients on a Linux host: under Wine, in the client's own namespace. Wine is not Windows, and labelled so.

All of it is in the client host's work folder, which is gone with the network: the program, a script that stands for it,
and a prefix. Its wineserver is started before the first sample and lives until the network ends (it is a process of the lab's
PID namespace, so that not even a killed lab leaves it behind): a sample's time has the start of the program in it, as for every
client, and not the boot of Wine.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from lab.assets import windows as build
from lab.assets import wine
from lab.clients.adapter import identify_program
from lab.hosts.host import Host
from lab.model.errors import LabFault, UsageProblem
from lab.model.results import ClientIdentity

FERRY = "ferry.exe"
BUILD = "make ferry-windows"
_LABEL = re.compile(r" under (Wine \d\S*, not Windows)$")
# The DOS header: its mark, and where the offset of the PE header is ("PE Format", learn.microsoft.com).
_DOS_MARK, _PE_MARK = b"MZ", b"PE\0\0"
_OFFSET_AT, _DOS_BYTES = 0x3C, 0x40
# Debian's loader takes half a second for its first program, a busy machine's ten times that.
_START_TIMEOUT_S = 60.0


def is_windows_program(image: bytes) -> bool:
    """True if the file that starts with `image` is a program for Windows: an MZ header that points to a PE header."""
    if not image.startswith(_DOS_MARK) or len(image) < _DOS_BYTES:
        return False
    offset = int.from_bytes(image[_OFFSET_AT:_DOS_BYTES], "little")
    return image[offset : offset + len(_PE_MARK)] == _PE_MARK


def is_windows_file(path: Path) -> bool:
    """True if the file is a program for Windows; False for a file that cannot be read."""
    try:
        with path.open("rb") as file:
            # Linkers put the PE header within the first few hundred bytes.
            return is_windows_program(file.read(1 << 16))
    except OSError:
        return False


def find_ferry() -> Path:
    """This checkout's ferry.exe. Raises UsageProblem where it has not been built."""
    if found := build.find():
        return found
    raise UsageProblem(f"{FERRY} has not been built", remedy=BUILD)


def identify_under_wine(host: Host, name: str, image: bytes, stand_in: str, version_flags: list[str]) -> ClientIdentity:
    """Bring a Windows program and Wine onto the host; afterwards the path `stand_in` runs it.

    Path and checksum are the program's own. Raises UsageProblem where there is no Wine, or where the host's files are not this
    machine's (compose, a VM): Wine and its prefix are.
    """
    if not host.shares_files:
        raise UsageProblem(
            f"client {name}: a Windows program runs under Wine only where hosts are namespaces of this machine",
            remedy="use --backend namespaces, or a Windows host",
        )
    try:
        facts = wine.ensure(_silent)
    except UsageProblem as problem:
        raise UsageProblem(f"client {name} is a Windows program: {problem.message}", remedy=problem.remedy) from None
    folder = PurePosixPath(stand_in).parent
    program = folder / f"{PurePosixPath(stand_in).name}.exe"
    host.write(program, image, mode=0o755)
    host.write(stand_in, wine.script(facts, folder, facts.template, facts.program, program).encode(), mode=0o755)
    if host.ends_orphans:
        _server(host, facts, folder, "-p")
    try:
        identity = identify_program(host, name, str(program), version_flags, teller=stand_in, notes=[note(facts.label)])
    finally:
        if not host.ends_orphans:
            _server(host, facts, folder, "-k")
    return identity.model_copy(update={"version": f"{identity.version} under {facts.label}"})


def note(label: str) -> str:
    return f"under {label}: TCP, timers and files are Linux's; CPU and memory are the program's own, wineserver's are not counted"


def system_of(identity: ClientIdentity) -> str | None:
    """The system under the client if it is not the host's own: "Wine 8.0, not Windows"."""
    found = _LABEL.search(identity.version)
    return found[1] if found else None


def _server(host: Host, facts: wine.WineFacts, folder: PurePosixPath, option: str) -> None:
    """wineserver in the prefix that the stand-in uses. A running one stays, and ending a stopped one is not an error."""
    script = wine.script(facts, folder, facts.template, facts.server)
    done = host.run(["/bin/sh", "-c", script, "wineserver", option], check=False, timeout_s=_START_TIMEOUT_S)
    if done.returncode not in (0, 1, 2) or done.timed_out:
        raise LabFault(f"{host.name}: wineserver {option} failed: {done.error_text}", remedy=wine.remedy())


def _silent(_: str) -> None:
    pass
