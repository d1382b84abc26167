"""The programs that the lab runs: a table with the purpose and the package of each, and functions to find them.

setup.sh installs them, `lab doctor` explains them, other modules call `require`. Installing the packages of servers would start
daemons on the user's machine, so `provide` has them extracted into the cache, unless the machine has them already; and with them
what a cell needs where nothing was set up, by an installed lab.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from lab.assets import engine, extracted
from lab.assets.store import Progress
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir, checkout

SERVERS_VARIABLE = "ROUGHWATER_SERVERS"
TESTERS_VARIABLE = "ROUGHWATER_TESTERS"
PEERS_VARIABLE = "ROUGHWATER_PEERS"
BUILDERS_VARIABLE = "ROUGHWATER_BUILDERS"
VMS_VARIABLE = "ROUGHWATER_VMS"
STANDARDS_VARIABLE = "ROUGHWATER_STANDARDS"
RELEASE_VARIABLE = "ROUGHWATER_RELEASE"

Group = Literal["lab", "cell", "server", "git", "peers", "clients", "test", "vm-proof", "bench-standards", "release"]
# The groups of tools that no measurement needs -> the variable by which `make GROUP` has them installed.
EXTRAS: dict[Group, str] = {
    "peers": PEERS_VARIABLE,
    "clients": BUILDERS_VARIABLE,
    "test": TESTERS_VARIABLE,
    "vm-proof": VMS_VARIABLE,
    "bench-standards": STANDARDS_VARIABLE,
    "release": RELEASE_VARIABLE,
}


@dataclass(frozen=True)
class Tool:
    """A program, its Debian package and its purpose.

    `group` is `cell` for a tool that cells need, `lab` for setting a checkout up, `server` for a daemon (downloaded, never
    installed), else the make target that installs it. `folders` are searched besides PATH. `file` or `module` is the thing to
    look for if the tool is not a program. `finder` replaces the search if a program must also be recent enough.
    """

    name: str
    package: str
    why: str
    group: Group = "lab"
    folders: tuple[str, ...] = ()
    file: str = ""
    module: str = ""
    finder: Callable[[], Path | None] | None = None

    @property
    def daemon(self) -> bool:
        return self.group == "server"

    @property
    def optional(self) -> bool:
        """True for a tool that a lab works without."""
        return self.group not in ("lab", "cell", "server")


TOOLS: tuple[Tool, ...] = (
    Tool("ip", "iproute2", "wires hosts together and pins their routes", group="cell"),
    Tool("tc", "iproute2", "shapes the link, on a kernel that has netem", group="cell"),
    Tool("ethtool", "ethtool", "switches segmentation offload off and proves it", group="cell"),
    Tool("ping", "iputils-ping", "calibrates the round-trip time", group="cell"),
    Tool("iperf3", "iperf3", "calibrates the goodput", group="cell"),
    Tool("tcpdump", "tcpdump", "captures a sample's packets (--pcap)", group="cell"),
    Tool("curl", "curl", "a client", group="cell"),
    Tool("ssh", "openssh-client", "the transport of sftp", group="cell"),
    Tool("sftp", "openssh-client", "a client", group="cell"),
    Tool("ssh-keygen", "openssh-client", "makes the keys of a run", group="cell"),
    Tool("time", "time", "measures a client's CPU and memory where the lab is not its parent", group="cell"),
    Tool("mmdebstrap", "mmdebstrap", "downloads the User-Mode Linux router"),
    Tool(
        "debian-archive-keyring",
        "debian-archive-keyring",
        "proves that download is Debian's",
        file="/usr/share/keyrings/debian-archive-keyring.gpg",
    ),
    Tool("venv", "python3-venv", "holds the lab's Python packages", module="ensurepip"),
    Tool("cargo", engine.PACKAGE, "builds ferry", finder=engine.find_cargo),
    Tool("cc", "gcc", "compiles ferry's cryptography"),
    Tool("libc6-dev", "libc6-dev", "linked into ferry", file="/usr/include/stdio.h"),
    Tool("chromium", "chromium", "opens reports in the lab's own tests", group="test"),
    Tool("vagrant", "vagrant", "checks the Vagrantfile", group="test"),
    Tool(
        "vagrant-libvirt",
        "vagrant-libvirt",
        "checks the libvirt part of the Vagrantfile",
        group="test",
        file="/usr/share/vagrant-plugins/plugins.d",
    ),
    Tool("rubocop", "rubocop", "lints the Vagrantfile", group="test"),
    Tool("shellcheck", "shellcheck", "lints the scripts of virtual machines", group="test"),
    Tool("faketime", "faketime", "sets the clock of a command that is tormented", group="test"),
    Tool("c++", "g++", "compiles what runs ferry's fuzz targets", group="test"),
    Tool("git", "git", "records the revision a result was made with", group="git"),
    Tool("lftp", "lftp", "a client to compare with, over SFTP", group="peers"),
    Tool("rclone", "rclone", "a client to compare with, over SFTP", group="peers"),
    Tool("rsync", "rsync", "a client to compare with, over SSH; the server's host needs it too", group="peers"),
    Tool("wget", "wget", "a client to compare with, over HTTP", group="peers"),
    Tool("wget2", "wget2", "a client to compare with, over HTTP", group="peers"),
    Tool("aria2c", "aria2", "a client to compare with, over HTTP", group="peers"),
    Tool(
        "requests",
        "python3-requests",
        "a client to compare with, in Debian's Python",
        group="peers",
        file="/usr/lib/python3/dist-packages/requests/__init__.py",
    ),
    Tool(
        "httpx",
        "python3-httpx",
        "a client to compare with, in Debian's Python",
        group="peers",
        file="/usr/lib/python3/dist-packages/httpx/__init__.py",
    ),
    Tool("cmake", "cmake", "builds versions of curl", group="clients"),
    Tool("make", "make", "runs cmake's plan", group="clients"),
    Tool("libssl-dev", "libssl-dev", "TLS for versions of curl", group="clients", file="/usr/include/openssl/ssl.h"),
    Tool("ccache", "ccache", "compiles again only what differs between revisions of a repository", group="clients"),
    Tool("zlib1g-dev", "zlib1g-dev", "compression for versions of curl", group="clients", file="/usr/include/zlib.h"),
    Tool("qemu-system-x86_64", "qemu-system-x86", "boots virtual machines where there is no Vagrant", group="vm-proof"),
    Tool("mke2fs", "e2fsprogs", "makes the disks of virtual machines", group="vm-proof"),
    Tool("fakeroot", "fakeroot", "lets users without root make those disks", group="vm-proof"),
    Tool("newuidmap", "uidmap", "lets users without root install packages on them", group="vm-proof"),
    Tool("nft", "nftables", "drops every N-th packet, to compare TCP with its standard", group="bench-standards"),
    Tool("lintian", "lintian", "checks the package for Debian", group="release"),
    Tool("nginx", "nginx", "the HTTP server", group="server"),
    Tool("sshd", "openssh-server", "the SFTP server", group="server"),
    Tool(
        "sftp-server",
        "openssh-sftp-server",
        "the file server behind sshd",
        group="server",
        folders=("/usr/lib/openssh", "/usr/libexec"),
    ),
)

_EXTRACTED: tuple[Group, ...] = ("cell", "server")
_BY_NAME = {tool.name: tool for tool in TOOLS}
# PATH has no sbin for ordinary users, but inside the lab's namespaces they may use these programs.
_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin")


def find(name: str) -> Path | None:
    """The path of a program: from PATH, the system's folders or, for servers, the cache. None if it is missing."""
    tool = _BY_NAME.get(name, Tool(name, "", ""))
    if tool.finder:
        return tool.finder()
    if tool.file:
        path = Path(tool.file)
        return path if path.exists() else None
    if tool.module:
        spec = importlib.util.find_spec(tool.module)
        return Path(spec.origin) if spec and spec.origin else None
    if not (tool.daemon and os.environ.get(SERVERS_VARIABLE) == "cache"):
        path_variable = os.environ.get("PATH", "")
        if found := shutil.which(name, path=os.pathsep.join((path_variable, *tool.folders, *_FOLDERS))):
            return Path(found).absolute()
    return extracted.find(name) if tool.group in _EXTRACTED else None


def require(name: str) -> Path:
    """The path of a program. Raises UsageProblem, which says how to install it."""
    if path := find(name):
        return path
    raise UsageProblem(f"{name} is not installed", remedy=remedy(name))


_SYSTEM_PYTHON = Path("/usr/bin/python3")


@cache
def host_program(name: str) -> str:
    """The path of a program on a host that shares this machine's files. Raises UsageProblem.

    For Python it is the system's, if there is one: the user of the host may not be able to read a virtual environment.
    """
    if name == "python3":
        return str(_SYSTEM_PYTHON if _SYSTEM_PYTHON.exists() else Path(sys.executable).resolve())
    return str(require(name))


def remedy(tool: Tool | str) -> str:
    """The way to get a tool, to put in brackets. An installed lab has no make targets."""
    known = _BY_NAME.get(tool) if isinstance(tool, str) else tool
    if known is None:
        return "not provided by the lab"
    if known.finder:
        return engine.remedy()
    package = f"sudo apt-get install {known.package}"
    if known.daemon:
        return "lab doctor --fix downloads it"
    if known.group == "cell":
        return f"lab doctor --fix, or {package}"
    target = known.group if known.group in EXTRAS else "setup"
    return f"{package}, or make {target}" if checkout() else package


def missing(tools: Iterable[Tool] = TOOLS) -> list[Tool]:
    return [tool for tool in tools if find(tool.name) is None]


def installable() -> list[Tool]:
    """The tools for setup.sh to install: those of every lab, and the groups whose variables are set. Never servers."""
    wanted = {"lab", "cell", *(group for group, variable in EXTRAS.items() if os.environ.get(variable))}
    return [tool for tool in TOOLS if tool.group in wanted]


def packages(tools: Iterable[Tool]) -> list[str]:
    """The Debian packages of `tools`, without duplicates, in the table's order."""
    return list(dict.fromkeys(tool.package for tool in tools))


def can_provide(tool: Tool) -> bool:
    """True if the next run fetches the tool where it is missing."""
    return tool.group in _EXTRACTED and shutil.which("apt-get") is not None


def provide(progress: Progress, groups: Collection[Group] = _EXTRACTED) -> None:
    """Download the tools of cells and the servers that this machine lacks; this process and its children then have them on PATH.

    Everything a group lacks at once: it is some megabytes, and one folder is simpler. Raises LabFault, which names them.
    """
    for group in groups:
        wanted = [tool for tool in TOOLS if tool.group == group]
        if lacking := missing(wanted):
            if not shutil.which("apt-get"):
                names = ", ".join(tool.name for tool in lacking)
                raise LabFault(
                    f"this machine has no {names}, and no apt-get to fetch them with",
                    remedy="install them with your package manager",
                )
            extracted.build({tool.name: tool.package for tool in (wanted if group == "server" else lacking)}, progress)
            if still := missing(wanted):
                raise LabFault(
                    f"{', '.join(tool.name for tool in still)} cannot be provided", remedy="install the packages by hand"
                )
        if group == "cell":
            _show([path for tool in wanted if (path := find(tool.name)) and path.is_relative_to(cache_dir())])


def _show(programs: Iterable[Path]) -> None:
    """Append the folders of extracted programs to PATH: clients and scripts on the hosts call them by name."""
    known = os.environ.get("PATH", "").split(os.pathsep)
    new = dict.fromkeys(str(extracted.folder_for_path(program)) for program in programs)
    os.environ["PATH"] = os.pathsep.join((*known, *(folder for folder in new if folder not in known)))
