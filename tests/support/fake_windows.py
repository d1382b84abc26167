"""Stands in for `ssh` and `sftp` to a Windows machine: does what runner.ps1 is told to, on this machine. Not PowerShell.

usage (as `ssh`): ... HOST "powershell.exe ... -EncodedCommand BASE64"; what scripts other than the runner print is $FAKE_FACTS.
Folders of `C:` are below $FAKE_DRIVE; whatever is asked is appended to $FAKE_LOG, a line of JSON each.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path


def log(what: dict[str, object]) -> None:
    with Path(os.environ["FAKE_LOG"]).open("a") as file:
        file.write(json.dumps(what) + "\n")


def here(path: str) -> Path:
    """Where a path of that machine is on this one."""
    return Path(os.environ["FAKE_DRIVE"]) / path.lstrip("/").removeprefix("C:").lstrip("/")


def emit(text: str) -> None:
    print(text, flush=True)


def runner() -> None:
    asked = json.loads(base64.b64decode(sys.stdin.readline()))
    given = base64.b64decode(sys.stdin.readline())
    log({"request": asked})
    started = time.monotonic_ns()
    words = [asked["program"], *shlex.split(asked["arguments"])]
    facts: dict[str, object] = {"user": 0.25, "system": 0.125, "peak": 1 << 20, "timedOut": False}
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **asked["env"]}
        )
    except FileNotFoundError as error:
        facts |= {"returncode": 127, "stdout": "", "stderr": base64.b64encode(str(error).encode()).decode(), "peak": None}
    else:
        emit(f"throughline-pid {process.pid}")
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
    emit("throughline-done " + base64.b64encode(json.dumps(facts).encode()).decode())


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
        emit(os.environ.get("FAKE_FACTS", "{}"))
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
