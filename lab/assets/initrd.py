"""The router's root file system: busybox, iproute2, sch_netem and the shell loop that is its init.

Made from an extracted Debian tree, either merged (trixie: everything below /usr) or not (bookworm: /bin, /sbin, /lib).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from lab.assets import cpio, store
from lab.model.errors import LabFault

LOADER = "lib64/ld-linux-x86-64.so.2"
LIBRARIES = "lib/x86_64-linux-gnu"

INIT = """\
#!/bin/busybox sh
# The console is the only way in: the lab writes one command per line (4095 bytes at most, the terminal's limit)
# and frames its answer itself.
# tc and ip are functions because this shell prefers busybox's applets of those names whatever PATH says,
# and the applets know no netem.
export PATH=/sbin:/bin
tc() { /sbin/tc "$@"; }
ip() { /sbin/ip "$@"; }
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
for m in /modules/*.ko; do /bin/busybox insmod "$m" || echo "cannot load $m"; done
# Through tty0, because /dev/console is never hung up: on it, init would not see that the lab has closed its end.
exec </dev/tty0 >/dev/tty0 2>&1
/bin/busybox stty -echo -onlcr
echo "READY $(/bin/busybox uname -r) $(/sbin/tc -V)"
while read -r line; do eval "$line"; done
/bin/busybox poweroff -f
"""

_PROGRAM_FOLDERS = ("usr/bin", "usr/sbin", "bin", "sbin")
_LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")


def program(tree: Path, name: str) -> Path:
    """A program in the extracted tree, links followed (trixie has /usr/sbin/ip -> ../bin/ip)."""
    for folder in _PROGRAM_FOLDERS:
        path = tree / folder / name
        if path.is_file():
            return path
    raise LabFault(f"the extracted Debian packages hold no {name}")


def loader(tree: Path) -> Path:
    """The tree's dynamic loader. Not /lib64/ld-linux…, which may be an absolute link to the machine's."""
    for folder in _LIBRARY_FOLDERS:
        path = tree / folder / Path(LOADER).name
        if path.is_file():
            return path
    raise LabFault("the extracted Debian packages hold no dynamic loader")


def libraries(tree: Path, binary: Path) -> dict[str, Path]:
    """The shared libraries that `binary` needs, by soname, as the tree's loader finds them.

    Raises LabFault for a library outside the tree, which would have another version inside the router.
    """
    search = ":".join(str(tree / folder) for folder in _LIBRARY_FOLDERS)
    code, output = store.run([loader(tree), "--inhibit-cache", "--library-path", search, "--list", binary])
    if code != 0:
        raise LabFault(f"cannot list the libraries of {binary.name}: {store.reason(output)}")
    found: dict[str, Path] = {}
    for line in output.splitlines():
        soname, arrow, target = line.strip().partition(" => ")
        if not arrow or soname.startswith("/"):
            continue
        path = Path(target.rpartition(" (")[0])
        if not path.is_relative_to(tree):
            raise LabFault(f"{binary.name} needs {soname}, which the extracted packages do not hold")
        found[soname] = path
    return found


def modules(tree: Path) -> tuple[str, list[Path]]:
    """Kernel release and the module files netem needs, dependencies first."""
    root = tree / "usr/lib/uml/modules"
    releases = sorted(path.name for path in root.iterdir()) if root.is_dir() else []
    if len(releases) != 1:
        raise LabFault(f"expected the modules of one kernel below {root}, found {releases}")
    directory = root / releases[0]
    for line in (directory / "modules.dep").read_text().splitlines():
        module, _, needs = line.partition(":")
        if PurePosixPath(module).name == "sch_netem.ko":
            return releases[0], [directory / name for name in [*reversed(needs.split()), module]]
    raise LabFault(f"the kernel {releases[0]} has no sch_netem")


def build(tree: Path) -> bytes:
    """The compressed archive. Level 6: at 9 it is 1 % smaller and takes three times as long."""
    return gzip.compress(cpio.archive(_entries(tree)), compresslevel=6, mtime=0)


def _entries(tree: Path) -> Iterator[cpio.Entry]:
    data: dict[str, tuple[Path, bool]] = {
        "bin/busybox": (program(tree, "busybox"), True),
        LOADER: (loader(tree), True),
    }
    for name in ("tc", "ip"):
        binary = program(tree, name)
        data[f"sbin/{name}"] = (binary, True)
        data.update({f"{LIBRARIES}/{soname}": (path, False) for soname, path in libraries(tree, binary).items()})
    # Numbered, because init loads them in the order of their names.
    data.update({f"modules/{n:02}-{path.name}": (path, False) for n, path in enumerate(modules(tree)[1])})
    # netem reads distributions of jitter (normal, pareto) from these tables.
    tables = sorted((tree / "usr/lib/x86_64-linux-gnu/tc").glob("*.dist"))
    data.update({f"usr/lib/x86_64-linux-gnu/tc/{path.name}": (path, False) for path in tables})

    folders = {"dev", "proc", "sys", "tmp", "etc"}
    folders.update(str(parent) for name in data for parent in PurePosixPath(name).parents if parent.name)
    yield from (cpio.directory(name) for name in folders)
    yield from (cpio.file(name, path.read_bytes(), executable=executable) for name, (path, executable) in data.items())
    yield cpio.file("init", INIT.encode(), executable=True)
    # init's own standard streams, before devtmpfs is mounted over them.
    yield cpio.character_device("dev/console", 5, 1)
    yield cpio.character_device("dev/null", 1, 3)
