"""Becomes the User-Mode Linux router. Runs as root of the lab, in the router's namespace; stdlib only.

    python -I -m lab.hosts.agent.uml_launch ROOT MEMORY_MIB BUFFER_BYTES INTERFACE=MAC INTERFACE=MAC -- BOOT_ARGUMENT...

ROOT is the folder that `lab.assets` built: the UML kernel, its libc and initrd; `/` where all that is in place (a container).
Each INTERFACE becomes vec0, vec1, ... in the
guest, over a packet socket opened here with a large receive buffer and passed in (`transport=fd`).
"""

from __future__ import annotations

import os
import sys

from lab.hosts.agent import syscalls
from lab.hosts.agent.protocol import RUN_DIR


def main() -> None:
    root, memory_mib, buffer_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    split = sys.argv.index("--")
    devices = []
    for number, port in enumerate(sys.argv[4:split]):
        interface, mac = port.split("=")
        opened, real_buffer = syscalls.packet_socket(interface, buffer_bytes)
        fd = opened.detach()
        os.set_inheritable(fd, True)
        devices.append(f"vec{number}:transport=fd,fd={fd},mac={mac},depth=128")
        print(f"receive-buffer {real_buffer}", flush=True)
    if root != "/":
        # Seen by this process alone: UML wants /proc, some of /dev, and a writable place for its memory and its uml_dir.
        syscalls.unshare(syscalls.CLONE_NEWNS)
        for folder in ("/dev", "/proc", RUN_DIR):
            syscalls.bind(folder, root + ("/run" if folder == RUN_DIR else folder), recursive=True)
        os.chroot(root)
    os.chdir("/")
    syscalls.hide_extended_registers()
    kernel = "/usr/bin/linux.uml"
    arguments = [
        f"mem={memory_mib}M",
        "con=null",
        "con0=fd:0,fd:1",
        f"uml_dir={RUN_DIR}/uml",
        *devices,
        *sys.argv[split + 1 :],
    ]
    os.execve(kernel, [kernel, *arguments], {"TMPDIR": f"{RUN_DIR}/uml", "HOME": f"{RUN_DIR}/uml"})


if __name__ == "__main__":
    main()
