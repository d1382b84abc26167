"""Boots the UML router in the chroot given as first argument, the others being the kernel's.

Its console is this process's standard input and output.
Run as `unshare -Urmpn --fork --kill-child python3 boot_uml.py ROOT ARGUMENT…` (root: -mpn): a stand-in for the lab's agent,
so that the asset can be tested without it. The seccomp filter answers ptrace(PTRACE_GETREGSET) with EINVAL, because
6.12 cannot hold the registers of CPUs with AMX and falls back to the older call when it is refused.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from pathlib import Path

PR_SET_NO_NEW_PRIVS, SYS_SECCOMP, SECCOMP_SET_MODE_FILTER = 38, 317, 1
SYS_PTRACE, PTRACE_GETREGSET, EINVAL = 101, 0x4204, 22


def refuse_getregset() -> None:
    instructions = [
        (0x20, 0, 0, 0),  # load the number of the system call
        (0x15, 0, 3, SYS_PTRACE),
        (0x20, 0, 0, 16),  # load its first argument
        (0x15, 0, 1, PTRACE_GETREGSET),
        (0x06, 0, 0, 0x00050000 | EINVAL),
        (0x06, 0, 0, 0x7FFF0000),  # allow
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in instructions))
    header = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.syscall(SYS_SECCOMP, SECCOMP_SET_MODE_FILTER, 0, header) == 0, os.strerror(ctypes.get_errno())


def main(root: Path, arguments: list[str]) -> None:
    subprocess.run(["mount", "--rbind", "/dev", root / "dev"], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", root / "run"], check=True)
    os.chroot(root)
    os.chdir("/")
    refuse_getregset()
    kernel = "/usr/bin/linux.uml"
    argv = [kernel, "mem=128M", "con=null", "con0=fd:0,fd:1", "uml_dir=/run/", *arguments]
    os.execve(kernel, argv, {"TMPDIR": "/run", "HOME": "/run"})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
