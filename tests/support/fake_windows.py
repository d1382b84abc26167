"""Stands in for `ssh` and `sftp` to a Windows machine: executes the requests of runner.ps1 on this machine. Not PowerShell.

usage (as `ssh`): ... HOST "powershell.exe ... -EncodedCommand BASE64". It also does the
work of the scripts about files and programs. pins.ps1 prints $FAKE_PINS, guard.ps1 $FAKE_WAY, and all others $FAKE_FACTS.
Folders of `C:` are below $FAKE_DRIVE, also in the words of commands. Each request is appended to $FAKE_LOG as a line of JSON.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path


def log(what: dict[str, object]) -> None:
    with Path(os.environ["FAKE_LOG"]).open("a") as file:
        file.write(json.dumps(what) + "\n")


def here(path: str) -> Path:
    """Where a path of that machine is on this one."""
    return Path(os.environ["FAKE_DRIVE"]) / path.replace("\\", "/").lstrip("/").removeprefix("C:").lstrip("/")


def word_here(word: str) -> str:
    """A word of a command, which may be such a path."""
    return "/dev/null" if word == "NUL" else str(here(word)) if re.match(r"C:[\\/]", word) else word


def take_apart(line: str) -> list[str]:
    """A command line as Microsoft's C runtime does it: 2n backslashes and a quote are n and an end, 2n+1 are n and a quote."""
    found: list[str] = []
    word, inside, started, index = "", False, False, 0
    while index < len(line):
        letter = line[index]
        slashes = len(line[index:]) - len(line[index:].lstrip("\\"))
        if slashes and line[index + slashes : index + slashes + 1] == '"':
            word += "\\" * (slashes // 2)
            index += slashes
            started = True
            if slashes % 2:
                word += '"'
                index += 1
            continue
        if letter == '"':
            inside, started = not inside, True
        elif letter in " \t" and not inside:
            if started:
                found.append(word)
            word, started = "", False
        else:
            word, started = word + letter, True
        index += 1
    return [*found, word] if started else found


def emit(text: str) -> None:
    print(text, flush=True)


def runner() -> None:
    asked = json.loads(base64.b64decode(sys.stdin.readline()))
    given = base64.b64decode(sys.stdin.readline())
    log({"request": asked})
    started = time.monotonic_ns()
    words = [word_here(word) for word in (asked["program"], *take_apart(asked["arguments"]))]
    facts: dict[str, object] = {"user": 0.25, "system": 0.125, "peak": 1 << 20, "timedOut": False}
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **{name: word_here(value) for name, value in asked["env"].items()}},
        )
    except FileNotFoundError as error:
        facts |= {"returncode": 127, "stdout": "", "stderr": base64.b64encode(str(error).encode()).decode(), "peak": None}
    else:
        emit(f"roughwater-pid {process.pid}")
        try:
            out, err = process.communicate(given, timeout=asked["timeout_s"])
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            facts["timedOut"] = True
        facts |= {
            "returncode": process.returncode,
            "stdout": base64.b64encode(out).decode(),
            "stderr": base64.b64encode(err).decode(),
        }
    now = time.monotonic_ns() + int(os.environ.get("FAKE_CLOCK_NS", "0"))
    facts |= {"started": now - (time.monotonic_ns() - started), "ended": now, "now": now}
    emit("roughwater-done " + base64.b64encode(json.dumps(facts).encode()).decode())


def clock() -> None:
    for _ in sys.stdin:
        emit(str(time.monotonic_ns() + int(os.environ.get("FAKE_CLOCK_NS", "0"))))


def collect(asked: dict[str, str]) -> object:
    path = here(asked["Path"])
    if not path.is_file():
        return {"size": 0, "sha256": ""}
    data = path.read_bytes()
    path.unlink()
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def identify(asked: dict[str, str]) -> object:
    path = shutil.which(word_here(asked["Program"]))
    if path is None:
        return None
    # As it was asked for: the runner finds it again on this machine.
    return {"path": asked["Program"], "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest()}


def answer(script: str, boot: str) -> None:
    """Answer any script except runner.ps1; its first line says which one it is."""
    asked = {name: value.replace("''", "'") for name, value in re.findall(r" -(\w+) '((?:[^']|'')*)'", boot)}
    if script.startswith("# Tells this machine's clock"):
        clock()
    elif script.startswith("# Size and sha256 of a file"):
        emit(json.dumps(collect(asked)))
    elif script.startswith("# Where a program is"):
        emit(json.dumps(identify(asked)))
    elif script.startswith("# Settings of TCP"):
        emit(os.environ["FAKE_PINS"])
    elif script.startswith("# By which way"):
        emit(os.environ["FAKE_WAY"])
    elif script.startswith("# How quick"):
        emit("\n".join(["sha256 812.500"] * int(asked["Rounds"])))
    elif script.startswith("# Ends every process"):
        emit('{"ended": 0}')
    elif "SegmentsResent" in script:
        emit("17")
    else:
        emit(os.environ.get("FAKE_FACTS", "{}"))


def ssh(command: str) -> int:
    boot = base64.b64decode(command.split("-EncodedCommand ")[1]).decode("utf-16-le")
    script = base64.b64decode(sys.stdin.readline()).decode()
    log({"boot": boot, "script": script[:80]})
    if refused := os.environ.get("FAKE_REFUSES"):
        sys.stderr.write(refused + "\n")
        return 255
    if script.startswith("# Runs one command"):
        runner()
    elif "taskkill" in script:
        subprocess.run(["kill", "-9", script.split("/PID ")[1].split()[0]], check=False)
    else:
        answer(script, boot)
    return 0


def sftp() -> int:
    """The four commands that the lab uses."""
    for line in sys.stdin.read().splitlines():
        log({"sftp": line})
        forgiven, words = line.startswith("-"), shlex.split(line.removeprefix("-"))
        try:
            if words[0] == "mkdir":
                here(words[1]).mkdir()
            elif words[0] == "put":
                here(words[2]).write_bytes(Path(words[1]).read_bytes())
                here(words[2]).chmod(0o755)
            elif words[0] == "get":
                Path(words[2]).write_bytes(here(words[1]).read_bytes())
            elif words[0] == "rm":
                here(words[1]).unlink()
            elif words[0] == "rename":
                # As on Windows: never over a file that is there.
                if here(words[2]).exists():
                    raise FileExistsError(words[2])
                here(words[1]).rename(here(words[2]))
        except OSError as error:
            if not forgiven:
                sys.stderr.write(f"{words[1]}: {error.strerror}\n")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(sftp() if os.environ["FAKE_NAME"] == "sftp" else ssh(sys.argv[-1]))
