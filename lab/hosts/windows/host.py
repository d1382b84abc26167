"""A Windows machine over SSH as a Host: every task of the lab is a PowerShell script that prints one line of JSON.

None of it has been run on Windows yet (docs/how-to/windows.md): the scripts are parsed, their answers come from a stand-in.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any, Literal

from lab.hosts.command_host import Command, CommandHost
from lab.hosts.host import CollectedFile, Completed, Host
from lab.hosts.payload_script import write as write_payload
from lab.hosts.ssh.connection import Connection
from lab.hosts.ssh.machine_problems import architecture_problem, clock_problem, licence_problem
from lab.hosts.windows import powershell
from lab.hosts.windows.answers import NOT_RUN, PROVIDERS, bypass_problem, byte_count, pin_problems
from lab.hosts.windows.process import WindowsProcess
from lab.hosts.windows.shell import SCRIPT_S, START_S, MachineClock, PowerShell
from lab.model.errors import LabFault, UsageProblem
from lab.model.scratch import scratch_folder

WORK_FOLDER = "C:\\roughwater"
# Set-NetAdapter... restarts the port, which takes seconds.
_PIN_S = 120.0
_HASH_S = 300.0
_RETRANSMITS = "[Net.NetworkInformation.IPGlobalProperties]::GetIPGlobalProperties().GetTcpIPv4Statistics().SegmentsResent"


@dataclass
class WindowsHost(CommandHost[WindowsProcess]):
    """`mac` is the MAC address of its lab port, `gateway` the router's address; `workdir` is below `WORK_FOLDER`."""

    connection: Connection
    name: str
    address: str
    mac: str = ""
    gateway: str = ""
    server_address: str = ""
    workdir: PurePath = field(default_factory=lambda: PureWindowsPath(WORK_FOLDER, f"run-{secrets.token_hex(4)}"))
    platform: Literal["windows"] = "windows"
    capture_port: str = ""  # Windows has no tcpdump
    tap_port: str = ""
    reports_peak_memory: bool = True
    _programs: dict[str, str] = field(default_factory=dict)
    _mtu: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._shell = PowerShell(self.connection, self.name)

    @property
    def clock(self) -> MachineClock:
        return self._shell.clock

    def script(self, text: str, *, arguments: Mapping[str, str] | None = None, timeout_s: float = SCRIPT_S) -> str:
        """The output of a PowerShell script. Raises LabFault with the first line of its error output."""
        return self._shell.script(text, arguments=arguments, timeout_s=timeout_s)

    def set_clock(self) -> None:
        self._shell.set_clock()

    def program(self, name: str) -> str:
        if name not in self._programs:
            done = self.run(["where.exe", name], cwd=WORK_FOLDER, check=False)
            found = done.text.splitlines()
            if done.returncode or not found:
                raise UsageProblem(
                    f"{name} is not on machine {self.name}", remedy=f"put it on the PATH there, or into {WORK_FOLDER}"
                )
            self._programs[name] = found[0].strip()
        return self._programs[name]

    def write(self, path: str | PurePath, data: bytes, *, mode: int = 0o644) -> None:  # noqa: ARG002 - Windows has no such modes
        with scratch_folder("roughwater-") as folder:
            source = folder / "data"
            source.write_bytes(data)
            self.put({PureWindowsPath(path): source})

    def put(self, files: Mapping[PurePath, Path]) -> None:
        """All in one SFTP session."""
        targets = {PureWindowsPath(path): source for path, source in files.items()}
        parents = dict.fromkeys(
            each for path in targets for each in reversed(path.parents) if each != PureWindowsPath(path.anchor)
        )
        lines = [f"-mkdir {_remote(each)}" for each in parents]
        for target, source in targets.items():
            part = target.with_name(target.name + ".part")
            # A rename on Windows does not replace a file: the old one is removed first, if there is one.
            lines += [
                f'put "{source}" {_remote(part)}',
                f"-rm {_remote(target)}",
                f"rename {_remote(part)} {_remote(target)}",
            ]
        self.connection.copy("\n".join(lines) + "\n")

    def read(self, path: str | PurePath) -> bytes:
        with scratch_folder("roughwater-") as folder:
            target = folder / "data"
            self.connection.copy(f'get {_remote(PureWindowsPath(path))} "{target}"\n')
            return target.read_bytes()

    def prepare_folder(self, path: str) -> None:
        del path
        raise UsageProblem(
            "a set of files cannot be downloaded to a Windows machine: the lab cannot read there when each was complete",
            remedy="upload it, or use a Linux client",
        )

    def make_payload(self, path: PurePath, size: int, seed: int, count: int = 0, name: str = "") -> list[str]:
        """Make the payload on the machine of the lab and copy it, because the Windows machine has no Python."""
        places = [path / (name % index) for index in range(count)] or [path]
        with scratch_folder("roughwater-") as folder:
            sources = {place: folder / str(index) for index, place in enumerate(places)}
            found = [write_payload(size, seed + index, str(source)) for index, source in enumerate(sources.values())]
            self.put(sources)
        return found

    def collect(self, path: str, note_path: str = "") -> CollectedFile:
        """Size and checksum of a file. There is never a note, because only GNU time writes one, and Windows does not have it."""
        del note_path
        answer = self._shell.ask("collect.ps1", {"Path": path}, _HASH_S)
        return CollectedFile(byte_count(answer, "size"), str(answer.get("sha256") or ""))

    def pin(self, congestion_control: str, mtu: int) -> None:
        self._mtu = mtu
        provider = PROVIDERS.get(congestion_control, "")
        change = "yes" if provider else ""
        self._shell.ask("pins.ps1", {"Mac": self.mac, "Provider": provider, "Mtu": str(mtu), "Change": change}, _PIN_S)

    def unpinned(self, congestion_control: str) -> list[str]:
        return pin_problems(self._shell.ask("pins.ps1", {"Mac": self.mac}, _PIN_S), congestion_control, self._mtu)

    def bypass(self, other: Host) -> str:
        answer = self._shell.ask("guard.ps1", {"Mac": self.mac, "Remote": other.address})
        return bypass_problem(answer, self.name, other.name, self.gateway)

    def retransmits(self) -> int:
        """All of the machine's, the lab's own SSH connection included."""
        text = self.script(_RETRANSMITS).strip()
        if not text.isdigit():
            raise LabFault(f"{self.name}: its TCP counters cannot be read: {text[:80]!r}")
        return int(text)

    def end_processes(self, variable: str) -> None:
        """By the work folder in their command line, because Windows shows no process's environment."""
        del variable
        self._shell.ask("sweep.ps1", {"Folder": str(self.workdir)})

    def identify(
        self, program: str, version_flags: Sequence[str], teller: str = "", env: Mapping[str, str] | None = None
    ) -> Completed:
        answer = self._shell.ask_maybe("identify.ps1", {"Program": program}, _HASH_S)
        words = (program, *version_flags)
        if answer is None:
            return Completed(words, 127, b"", f"{program}: not found".encode(), 0, 0, 0.0, 0.0)
        done = self.run([teller or str(answer.get("path")), *version_flags], env=env, check=False)
        head = f"{answer.get('path')}\n{answer.get('sha256')}\n".encode()
        return Completed(words, done.returncode, head + done.stdout, done.stderr, done.started_ns, done.ended_ns, 0.0, 0.0)

    def cpu_score(self, rounds: int) -> str:
        return self.script(powershell.script("score.ps1"), arguments={"Rounds": str(rounds)})

    def machine_facts(self) -> dict[str, Any]:
        """Version, build, edition, NIC, driver, power plan, licence, what may disturb; None for what it does not report."""
        return self._shell.ask(powershell.FACTS, {"Mac": self.mac, "WorkFolder": WORK_FOLDER}, SCRIPT_S)

    def facts(self) -> dict[str, object]:
        facts: dict[str, object] = self.machine_facts()
        facts["system"] = f"{facts.get('caption') or 'Windows'} {facts.get('build') or ''}".strip()
        facts["note"] = NOT_RUN
        facts["clock_error_ms"] = self.clock.error_ns / 1e6
        unread = [name for name, value in facts.items() if value is None]
        questions: dict[str, tuple[str, dict[str, str]]] = {
            "tcp": ("pins.ps1", {"Mac": self.mac}),
            "way": ("guard.ps1", {"Mac": self.mac, "Remote": self.server_address}),
        }
        for name, (script, arguments) in questions.items():
            try:
                facts[name] = self._shell.ask(script, arguments)
            except LabFault as fault:
                unread.append(f"{name}: {fault.message}")
        return {**facts, "unread": unread}

    def assert_fit(self, *, ours_utc_s: float | None = None) -> dict[str, object]:
        """The facts of a machine fit to be measured. Raises UsageProblem or LabFault with the first problem."""
        asked = time.time()
        facts = self.machine_facts()
        now = time.time() if ours_utc_s is None else ours_utc_s
        theirs = float(str(facts.get("utc_ms") or 0)) / 1000
        minutes, status = (
            None if facts.get(key) is None else int(str(facts[key])) for key in ("licence_minutes_left", "licence_status")
        )
        for problem in (
            architecture_problem(self.name, str(facts.get("architecture"))),
            clock_problem(self.name, theirs, now if ours_utc_s is not None else min(max(theirs, asked), now)),
            licence_problem(self.name, status, minutes),
        ):
            if problem:
                raise problem
        return facts

    def close(self) -> None:
        """Remove the work folder and close the connection. Idempotent."""
        with contextlib.suppress(LabFault):
            folder = powershell.literal(str(self.workdir))
            self.script(f"if (Test-Path -LiteralPath {folder}) {{ Remove-Item -LiteralPath {folder} -Recurse -Force }}")
        self.connection.close()

    def _begin(self, command: Command) -> WindowsProcess:
        """With or without `root` as the administrator who logs in."""
        words = command.argv
        if words[0].startswith("/"):
            raise UsageProblem(
                f"this needs {words[0]} on the client's machine, which Windows does not have", remedy="use a Linux client for it"
            )
        if "/" in words[0]:
            words = (str(PureWindowsPath(words[0])), *words[1:])
        self._shell.keep_clock()
        cwd = command.cwd or str(self.workdir)
        asked = powershell.request(words, env=command.env, cwd=cwd, timeout_s=command.timeout_s, stdin=command.stdin)
        return WindowsProcess(self._shell, words, asked, (command.stdout, command.stderr), command.timeout_s)

    def _complete(self, command: Command) -> Completed:
        return self._begin(command).wait(command.timeout_s + START_S)

    def _quoted(self, argv: tuple[str, ...]) -> str:
        return powershell.arguments(argv)


def _remote(path: PureWindowsPath) -> str:
    """The path in the form of Windows' sftp-server: /C:/folder/file, in quotes for sftp's batch language."""
    text = path.as_posix()
    if any(letter in text for letter in '"\r\n'):
        raise UsageProblem(f"a file on Windows cannot be called {text!r}")
    return f'"/{text}"' if path.drive else f'"{text}"'


def open_windows(
    connection: Connection, *, name: str, address: str, mac: str = "", gateway: str = "", server_address: str = ""
) -> tuple[WindowsHost, dict[str, object]]:
    """A machine that is fit, and its facts; its clock is set and its work folder made. Raises as `assert_fit`."""
    host = WindowsHost(connection, name, address, mac, gateway, server_address)
    try:
        facts = host.assert_fit()
        host.set_clock()
        host.script(f"New-Item -ItemType Directory -Force -Path {powershell.literal(str(host.workdir))} | Out-Null")
    except BaseException:
        connection.close()
        raise
    return host, facts
