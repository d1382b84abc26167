"""The programs the lab runs: one table of what each is for and where it comes from, and how to find it.

setup.sh installs what the table asks for, `lab doctor` explains it, everybody else calls `require`. Servers are marked
`daemon`: installing those packages would start daemons on the user's machine, so they are downloaded and extracted into
the cache instead (see `servers`), unless the machine already has them.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.assets import engine, servers
from lab.assets.store import Progress
from lab.errors import LabFault, UsageProblem

SERVERS_VARIABLE = "THROUGHLINE_SERVERS"
# Set by `make peers`: programs that are only compared with are packages to install, too.
PEERS_VARIABLE = "THROUGHLINE_PEERS"
# Set by `make clients`: what versions of a client are built with is a package to install, too.
BUILDERS_VARIABLE = "THROUGHLINE_BUILDERS"
# Set by `make test`: a browser of 300 MB is nothing that a measurement needs.
TESTERS_VARIABLE = "THROUGHLINE_TESTERS"
# Set by `make vm-proof` and `make kernel-router`: what boots virtual machines is a package to install, too.
VMS_VARIABLE = "THROUGHLINE_VMS"
# Set by `make bench-standards`: what plants a loss in every N-th packet is nothing that a measurement needs.
STANDARDS_VARIABLE = "THROUGHLINE_STANDARDS"


@dataclass(frozen=True)
class Tool:
    """`folders` are searched besides PATH; `file` or `module` is looked for instead, where the tool is no program; `finder` is a
    search of the tool's own, where being there is not enough. A `peer` is a client that others are compared with, and no more; a
    `builder` is only what versions of a client are built with (`lab client build`), a `tester` what only tests need, a
    `vm` what only virtual machines without Vagrant need (images/guest, images/vagrant), `standards` what only that one
    benchmark needs.
    """

    name: str
    package: str
    why: str
    daemon: bool = False
    optional: bool = False
    peer: bool = False
    builder: bool = False
    tester: bool = False
    vm: bool = False
    standards: bool = False
    folders: tuple[str, ...] = ()
    file: str = ""
    module: str = ""
    finder: Callable[[], Path | None] | None = None


TOOLS: tuple[Tool, ...] = (
    Tool("ip", "iproute2", "wires hosts together and pins their routes"),
    Tool("tc", "iproute2", "shapes the link, on a kernel that has netem"),
    Tool("ethtool", "ethtool", "switches segmentation offload off and proves it"),
    Tool("ping", "iputils-ping", "calibrates the round-trip time"),
    Tool("iperf3", "iperf3", "calibrates the goodput"),
    Tool("tcpdump", "tcpdump", "captures a sample's packets (--pcap)"),
    Tool("curl", "curl", "a client, and the one the throttle suite qualifies"),
    Tool("ssh", "openssh-client", "the transport of sftp"),
    Tool("sftp", "openssh-client", "a client"),
    Tool("ssh-keygen", "openssh-client", "makes the keys of a run"),
    Tool("time", "time", "measures a client's CPU and memory where the lab is not its parent"),
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
    Tool("libc6-dev", "libc6-dev", "what ferry is linked with", file="/usr/include/stdio.h"),
    Tool("chromium", "chromium", "opens reports in the lab's own tests", optional=True, tester=True),
    Tool("vagrant", "vagrant", "checks the Vagrantfile", optional=True, tester=True),
    Tool(
        "vagrant-libvirt",
        "vagrant-libvirt",
        "checks its libvirt part",
        optional=True,
        tester=True,
        file="/usr/share/vagrant-plugins/plugins.d",
    ),
    Tool("rubocop", "rubocop", "lints its Ruby", optional=True, tester=True),
    Tool("shellcheck", "shellcheck", "lints the scripts of its machines", optional=True, tester=True),
    Tool("git", "git", "records the revision a result was made with", optional=True),
    Tool("lftp", "lftp", "a client to compare with, over SFTP", optional=True, peer=True),
    Tool("rclone", "rclone", "a client to compare with, over SFTP", optional=True, peer=True),
    Tool("cmake", "cmake", "builds versions of curl", optional=True, builder=True),
    Tool("make", "make", "runs cmake's plan", optional=True, builder=True),
    Tool("libssl-dev", "libssl-dev", "the TLS of those versions", optional=True, builder=True, file="/usr/include/openssl/ssl.h"),
    Tool("zlib1g-dev", "zlib1g-dev", "their compression", optional=True, builder=True, file="/usr/include/zlib.h"),
    Tool("qemu-system-x86_64", "qemu-system-x86", "boots virtual machines where there is no Vagrant", optional=True, vm=True),
    Tool("mke2fs", "e2fsprogs", "makes their disk", optional=True, vm=True),
    Tool("fakeroot", "fakeroot", "lets an ordinary user make it", optional=True, vm=True),
    Tool("newuidmap", "uidmap", "lets an ordinary user install their packages", optional=True, vm=True),
    Tool("nft", "nftables", "drops every N-th packet, where TCP is held against its standard", optional=True, standards=True),
    Tool("nginx", "nginx", "the HTTP server", daemon=True),
    Tool("sshd", "openssh-server", "the SFTP server", daemon=True),
    Tool(
        "sftp-server",
        "openssh-sftp-server",
        "the SFTP server's file part",
        daemon=True,
        folders=("/usr/lib/openssh", "/usr/libexec"),
    ),
)

_BY_NAME = {tool.name: tool for tool in TOOLS}
# An ordinary user's PATH has no sbin, but these programs are usable by ordinary users inside the lab's namespaces.
_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin")


def find(name: str) -> Path | None:
    """The user's own build first (PATH), then the machine's, then the cache's."""
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
    return servers.find(name) if tool.daemon else None


def require(name: str) -> Path:
    """The program, or one line that says how to get it."""
    if path := find(name):
        return path
    raise UsageProblem(f"{name} is not installed", remedy=remedy(name))


_SYSTEM_PYTHON = Path("/usr/bin/python3")


@cache
def host_program(name: str) -> str:
    """`Host.program` of a host that sees this machine's files.

    Of Pythons the system's, where there is one: a virtualenv's or pyenv's may lie in a home that the host's user cannot enter.
    """
    if name == "python3":
        return str(_SYSTEM_PYTHON if _SYSTEM_PYTHON.exists() else Path(sys.executable).resolve())
    return str(require(name))


def remedy(tool: Tool | str) -> str:
    """How to get a tool, in words that fit in brackets."""
    known = _BY_NAME.get(tool) if isinstance(tool, str) else tool
    if known is None:
        return "not a program the lab provides"
    if known.finder:
        return engine.remedy()
    kinds = {
        "make peers": known.peer,
        "make clients": known.builder,
        "make test": known.tester,
        "make vm-proof": known.vm,
        "make bench-standards": known.standards,
    }
    maker = next((command for command, is_one in kinds.items() if is_one), "make setup")
    return "make setup downloads it" if known.daemon else f"sudo apt-get install {known.package}, or {maker}"


def missing(tools: Iterable[Tool] = TOOLS) -> list[Tool]:
    return [tool for tool in tools if find(tool.name) is None]


def installable() -> list[Tool]:
    """What setup.sh installs: never a server, and nothing optional but the kinds that are asked for."""
    names = (PEERS_VARIABLE, BUILDERS_VARIABLE, TESTERS_VARIABLE, VMS_VARIABLE, STANDARDS_VARIABLE)
    asked = [bool(os.environ.get(name)) for name in names]

    def wanted(tool: Tool) -> bool:
        kinds = (tool.peer, tool.builder, tool.tester, tool.vm, tool.standards)
        return any(kind and ask for kind, ask in zip(kinds, asked, strict=True)) or not (tool.daemon or tool.optional)

    return [tool for tool in TOOLS if wanted(tool)]


def packages(tools: Iterable[Tool]) -> list[str]:
    """The Debian packages that bring `tools`, each once, in the table's order."""
    return list(dict.fromkeys(tool.package for tool in tools))


def fetch_servers(progress: Progress) -> None:
    """Downloads the servers this machine lacks. All of them if any: they are one megabyte, and one folder is simpler."""
    daemons = [tool for tool in TOOLS if tool.daemon]
    if missing(daemons):
        servers.build({tool.name: tool.package for tool in daemons}, progress)
    if still := missing(daemons):
        raise LabFault(f"{', '.join(tool.name for tool in still)} cannot be provided", remedy="install the packages by hand")
