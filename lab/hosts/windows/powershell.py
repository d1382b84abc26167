"""Scripts for Windows PowerShell 5.1 (what every Windows has) as command lines that no shell in between can misread. Pure."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
RUNNER, FACTS = "runner.ps1", "facts.ps1"
# Base64 has no character that is special to cmd.exe, PowerShell or sh. The script itself comes by standard input, because
# cmd.exe takes 8191 characters.
_BOOT = "$s=[Text.Encoding]::UTF8.GetString([Convert]::FromBase64String([Console]::In.ReadLine()));& ([ScriptBlock]::Create($s))"
_PROGRAM = "powershell.exe -NoLogo -NoProfile -NonInteractive -ExecutionPolicy Bypass -EncodedCommand "
# PowerShell takes each of these for a single quote (about_Quoting_Rules).
_QUOTES = "'\u2018\u2019\u201a\u201b"
_DONE, _PID = "roughwater-done ", "roughwater-pid "


@cache
def script(name: str) -> str:
    """The text of a script in this folder."""
    return (_HERE / name).read_text(encoding="utf-8")


def literal(text: str) -> str:
    """A PowerShell string of exactly this text. Raises ValueError for a NUL, which no command line can hold."""
    if "\0" in text:
        raise ValueError("a command line cannot hold a NUL")
    return "'" + "".join(letter * 2 if letter in _QUOTES else letter for letter in text) + "'"


def encoded_command(text: str) -> str:
    """The command line that runs a short script: -EncodedCommand takes base64 of UTF-16LE."""
    return _PROGRAM + base64.b64encode(text.encode("utf-16-le")).decode()


def boot_command(arguments: Mapping[str, str] | None = None) -> str:
    """The command line that runs the script whose base64 is the first line of standard input, with these named arguments."""
    words = [f" -{name} {literal(value)}" for name, value in (arguments or {}).items()]
    return encoded_command(_BOOT + "".join(words))


def line(text: str | bytes) -> bytes:
    """One line of base64."""
    data = text.encode() if isinstance(text, str) else text
    return base64.b64encode(data) + b"\n"


def arguments(argv: Sequence[str]) -> str:
    """The arguments as CreateProcess takes them, quoted for Microsoft's C runtime."""
    for word in argv:
        literal(word)
    return subprocess.list2cmdline(argv)


def request(argv: Sequence[str], *, env: Mapping[str, str], cwd: str, timeout_s: float, stdin: bytes) -> bytes:
    """Standard input of `runner.ps1` after `boot_command()`: itself, what to run, and the command's own input."""
    # Windows knows no case in the name of a variable, and ConvertFrom-Json refuses an object with `a` and `A`: the last counts.
    one = {name.upper(): name for name in env}
    kept = {name: env[name] for name in one.values()}
    asked = {"program": argv[0], "arguments": arguments(argv[1:]), "env": kept, "cwd": cwd, "timeout_s": timeout_s}
    return line(script(RUNNER)) + line(json.dumps(asked)) + line(stdin)


def parse_pid(text: str) -> int | None:
    """The process id in a line of `runner.ps1`; None for any other line."""
    rest = text.strip().removeprefix(_PID)
    return int(rest) if text.startswith(_PID) and rest.isdigit() else None


def parse_done(text: str) -> dict[str, object] | None:
    """The facts of a command that has ended; None for any other line. Raises ValueError for a damaged line."""
    if not text.startswith(_DONE):
        return None
    found = json.loads(base64.b64decode(text.strip().removeprefix(_DONE), validate=True))
    if not isinstance(found, dict):
        raise ValueError("no facts")  # noqa: TRY004 - as json.loads does
    return found
