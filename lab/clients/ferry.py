"""ferry, the bundled engine: HTTP/1.1, HTTP/1.1 over TLS, h2 and SFTP, both ways; sets of files, and requests for one file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.clients import ferry_report, windows
from lab.clients.adapter import clean_environment, identify_program
from lab.hosts.host import Completed, Host
from lab.model.endpoint import LAB_PROTOCOLS, protocol_words
from lab.model.endpoints import SET_NAME, Endpoints, is_windows_path
from lab.model.errors import UsageProblem
from lab.model.extras import install_command
from lab.model.paths import checkout, package_root
from lab.model.results import ClientIdentity, ClientNumbers
from lab.model.transfer import Transfer

PROGRAM_VARIABLE = "ROUGHWATER_FERRY"
# ferry's own: names its configuration file, or is "none".
CONFIG_VARIABLE = "FERRY_CONFIG"
FERRY_BACKGROUND = "ferry-background"
"""The client that is ferry with `--background`."""
FERRY_BACKGROUND_MANY = "ferry-background-16"
"""The same with `--connections 16` for downloads over HTTP/1.1: a connection alone keeps little where packets are lost."""
FERRY_FALLBACK = "ferry-fallback"
"""ferry with `--http3=fallback`, for cells of h2: HTTP/3 first, and h2 over TCP where no QUIC connection comes about."""
FERRIES = frozenset({"ferry", FERRY_BACKGROUND, FERRY_BACKGROUND_MANY, FERRY_FALLBACK})
"""The clients that are this program."""
_MANY = "16"
_PROTOCOL = {"http1": "--http1.1", "https1": "--http1.1", "h2": "--http2", "h3": "--http3"}
_LEAST_BUFFER, _LARGEST_BUFFER = 4 << 10, 16 << 20
_HELP_S = 10.0


def built_ferry() -> Path:
    """The path of the engine's own release build in this checkout (`lab.assets.engine` makes it)."""
    return package_root() / "engine" / "target" / "release" / "ferry"


def find_ferry() -> Path:
    """`$ROUGHWATER_FERRY`, else this checkout's own build, else the program of the package roughwater-ferry.

    Raises UsageProblem if there is no such program.
    """
    named = os.environ.get(PROGRAM_VARIABLE, "")
    packaged = Path(sysconfig.get_path("scripts")) / "ferry"
    path = Path(named).expanduser().absolute() if named else built_ferry() if checkout() else packaged
    if path.is_file() and os.access(path, os.X_OK):
        return path
    if named:
        raise UsageProblem(f"{PROGRAM_VARIABLE} names {path}, which is not a program", remedy=f"unset {PROGRAM_VARIABLE}")
    if checkout():
        raise UsageProblem("ferry has not been built", remedy="make setup")
    raise UsageProblem("ferry is not installed", remedy=f"install its wheel, roughwater_ferry-*.whl: {install_command('FILE')}")


def _speaks_http3(program: Path) -> bool:
    """True if that build of ferry knows --http3, by its own help. A Windows program is not asked: that needs Wine."""
    return not windows.is_windows_file(program) and _has_option(program, program.stat().st_mtime_ns, "--http3")


def _takes_lists(program: Path) -> bool:
    """True if that build of ferry knows --input. A Windows program is not asked, and is taken for a build of today."""
    return windows.is_windows_file(program) or _has_option(program, program.stat().st_mtime_ns, "--input")


@cache
def _has_option(program: Path, changed_ns: int, option: str) -> bool:
    del changed_ns  # another build at the same path is asked again
    done = subprocess.run([program, "get", "--help"], capture_output=True, text=True, timeout=_HELP_S, check=False)
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w.-])", done.stdout) is not None


@dataclass(frozen=True)
class Ferry:
    """`name` is its name in results. `program` is a path on the machine of the lab; `ferry` stands for the checkout's build, and
    `ferry.exe` for its build for Windows. A Windows program on a Linux host runs under Wine (`lab.clients.windows`).

    `identify` copies the program onto the client host, and it runs from there, because
    - a host's ordinary user may not be able to read the checkout (root's lab in another user's mode-700 home), and a container
      or a VM does not have it. `Host.write` works on every host, and its files are removed with the network;
    - a build that ends while a cell is running must not change the client under test: the result has the copy's checksum.
    """

    name: str = "ferry"
    program: str = "ferry"
    # `--sndbuf`, where a study wants another than its default.
    sndbuf: str = ""
    # `--background`.
    background: bool = False
    # `--connections`, for downloads over HTTP/1.1.
    connections: str = ""
    # `--http3=fallback`.
    fallback: bool = False

    def identify(self, host: Host) -> ClientIdentity:
        """Copy the program to the host and identify it. Must come before the first `command` is run."""
        source = self.source() if host.platform == "linux" or self.program != "ferry" else windows.find_ferry()
        try:
            image = source.read_bytes()
        except OSError as error:
            raise UsageProblem(f"client {self.name}: {source}: {error.strerror}", remedy=f"give {self.name}=PATH") from None
        copy = self._copy(str(host.workdir))
        if host.platform == "linux" and windows.is_windows_program(image):
            return windows.identify_under_wine(host, self.name, image, copy, ["--version"])
        if host.platform == "windows" and not windows.is_windows_program(image):
            raise UsageProblem(f"client {self.name}: {source} is not a Windows program", remedy=windows.BUILD)
        host.copy(source, copy, mode=0o755)
        return identify_program(host, self.name, copy, ["--version"])

    def supports(self, transfer: Transfer) -> str:
        if transfer.buffer_size is not None and not _LEAST_BUFFER <= transfer.buffer_size.bytes <= _LARGEST_BUFFER:
            return "ferry's buffer is 4 KiB to 16 MiB"
        if transfer.protocol not in LAB_PROTOCOLS:
            return f"ferry does not speak {protocol_words(transfer.protocol)}"
        if transfer.protocol == "sftp" and transfer.parallel > 1:
            return "over SFTP ferry itself decides how many files it moves at once"
        return self._http3_lacks(transfer) or self._list_lacks(transfer)

    def _http3_lacks(self, transfer: Transfer) -> str:
        if self.fallback and (transfer.protocol != "h2" or transfer.requests):
            return f"{self.name} tries HTTP/3 and is measured over h2, to which it falls back"
        if (transfer.protocol == "h3" or self.fallback) and not _speaks_http3(self.source()):
            return f"{self.name} here has no --http3"
        return ""

    def _list_lacks(self, transfer: Transfer) -> str:
        """The reason why this client cannot run a list of URLs; empty if it can."""
        if not _is_list(transfer):
            return ""
        if transfer.repeat:
            return "ferry names a file by its URL, and all requests for one file have the same"
        if self.background and transfer.requests and transfer.parallel > 1:
            return f"{self.name} moves one file at a time"
        # This checkout's own build is of today.
        if self.program != "ferry" and not _takes_lists(self.source()):
            return f"{self.name} is a build of ferry without --input"
        return ""

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        # Only the report goes to standard output: its own bar would, if at all, be on standard error.
        words = [self._copy(endpoints.client_workdir), transfer.direction, "--quiet", "--json", "-"]
        if transfer.protocol == "sftp":
            words += ["--known-hosts", endpoints.known_hosts_path, "--identity", endpoints.ssh_key_path, "--no-agent"]
        else:
            words.append("--http3=fallback" if self.fallback else _PROTOCOL[transfer.protocol])
        if transfer.protocol in ("https1", "h2", "h3"):
            words += ["--cacert", endpoints.ca_path]
        if transfer.limit is not None:
            words += ["--limit-rate", str(transfer.limit.byte_s)]
        if transfer.buffer_size is not None:
            words += ["--buffer-size", str(transfer.buffer_size.bytes)]
        words += self._in_background(transfer)
        if self.sndbuf:
            words += ["--sndbuf", self.sndbuf]
        url = endpoints.url(transfer, user=True)
        if transfer.direction == "put":
            return [*words, endpoints.source_path, url]
        if _is_list(transfer):
            return _with_list(words, transfer, endpoints)
        if transfer.discard:
            return [*words, "--discard", url]
        if transfer.files > 1:
            return [*words, "-r", url, "--output", endpoints.output_path]
        return [*words, "--overwrite", "-o", endpoints.output_path, url]

    def inputs(self, transfer: Transfer, endpoints: Endpoints) -> dict[str, bytes]:
        """The list of URLs. Requests for one file differ by a query that nginx ignores, as curl's do."""
        if not _is_list(transfer):
            return {}
        url = endpoints.url(transfer)
        ends = (f"?{index + 1}" if transfer.requests else SET_NAME % index for index in range(transfer.files))
        return {_list_path(endpoints): "".join(f"{url}{end}\n" for end in ends).encode()}

    def environment(self, endpoints: Endpoints) -> dict[str, str]:
        # HOME alone is not enough: XDG_CONFIG_HOME or Windows's APPDATA may lead to a user's file.
        # A variable, because older builds of ferry have no flag for it.
        return {**clean_environment(endpoints), CONFIG_VARIABLE: "none"}

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        return ferry_report.read_report(transfer, completed)

    def body_start_s(self, transfer: Transfer, numbers: ClientNumbers) -> float:
        del transfer
        return ferry_report.body_start_s(numbers)

    def body_seconds(self, transfer: Transfer, numbers: ClientNumbers) -> float | None:
        return ferry_report.body_seconds(transfer, numbers)

    def source(self) -> Path:
        """The program on the lab's own machine."""
        if self.program == "ferry":
            return find_ferry()
        if found := shutil.which(self.program):
            return Path(found).absolute()
        if self.program == windows.FERRY:
            return windows.find_ferry()
        # Files from Windows seldom have the mark of a program.
        if windows.is_windows_file(path := Path(self.program).expanduser()):
            return path.absolute()
        remedy = windows.BUILD if Path(self.program).name == windows.FERRY else f"give {self.name}=PATH"
        raise UsageProblem(f"client {self.name}: there is no program {self.program}", remedy=remedy)

    def _in_background(self, transfer: Transfer) -> list[str]:
        if not self.background:
            return []
        many = (
            self.connections and transfer.files == 1 and transfer.direction == "get" and transfer.protocol in ("http1", "https1")
        )
        return ["--background", *(["--connections", self.connections] if many else [])]

    def _copy(self, workdir: str) -> str:
        return f"{workdir}/bin/{self.name}/ferry{'.exe' if is_windows_path(workdir) else ''}"


def in_background(name: str, program: str, *, connections: str = "") -> Ferry:
    """ferry that leaves queues to others."""
    return Ferry(name, "ferry" if program in FERRIES else program, background=True, connections=connections)


def in_background_many(name: str, program: str) -> Ferry:
    """The same over several connections."""
    return in_background(name, program, connections=_MANY)


def with_fallback(name: str, program: str) -> Ferry:
    """ferry that tries HTTP/3 first."""
    return Ferry(name, "ferry" if program in FERRIES else program, fallback=True)


def _is_list(transfer: Transfer) -> bool:
    """True if ferry reads URLs from a file: over SFTP a set is one directory."""
    return transfer.files > 1 and transfer.protocol != "sftp"


def _list_path(endpoints: Endpoints) -> str:
    return f"{endpoints.client_workdir}/urls/{endpoints.payload}"


def _with_list(words: list[str], transfer: Transfer, endpoints: Endpoints) -> list[str]:
    """`words` with the list of `Ferry.inputs`, and what becomes of the files."""
    words = [*words, *(["--limit-each"] if transfer.limit is not None else []), "--parallel", str(transfer.parallel)]
    source = ["--input", _list_path(endpoints)]
    if transfer.requests:
        # A limit is each file's, so each must be in the report. Without a limit that would be 100 MB for 50,000 requests.
        return [*words, *([] if transfer.limit is not None else ["--totals"]), "--discard", *source]
    # Files are named by their URLs into the folder where it runs: over HTTP there is no other for several.
    return ["env", "-C", endpoints.output_path, *words, "-O", *source]
