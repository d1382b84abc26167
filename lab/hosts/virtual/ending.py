"""The reason for the end of a machine in virtual time, in one line, from its kernel's output and its process's exit status."""

from __future__ import annotations

import signal

# Words of the kernel, and their meaning.
_SAID = (
    ("setup_physmem", "it got no {memory} MB of memory (ulimit -v, or this machine has no more)"),
    ("map_memory(", "it got no {memory} MB of memory (ulimit -v, or this machine has no more)"),
    ("exitcode=0x00007f00", "its first program cannot be loaded (ulimit -n: may it open 64 files?)"),
    (
        "SECCOMP userspace requested but not functional",
        "its programs cannot be run: seccomp(2) is forbidden here (a container's profile?)",
    ),
)
_SIGNALS = {
    signal.SIGKILL: "killed, perhaps for its memory",
    signal.SIGSYS: "a system call is forbidden here (a container's seccomp profile?)",
    signal.SIGXCPU: "no more CPU time (ulimit -t)",
    signal.SIGXFSZ: "no file may be so large (ulimit -f)",
}


def why(console: str, returncode: int | None, memory_bytes: int) -> str:
    for sign, meaning in _SAID:
        if sign in console:
            return meaning.format(memory=memory_bytes >> 20)
    lines = [line.strip() for line in console.splitlines() if line.strip()]
    said = next((line for line in lines if "panic" in line.lower()), lines[-1] if lines else "")
    if returncode is not None and returncode < 0:
        number = signal.Signals(-returncode)
        ended = f"{number.name}: {_SIGNALS[number]}" if number in _SIGNALS else number.name
        return f"{said}; {ended}" if said else ended
    return said or "it printed nothing"
