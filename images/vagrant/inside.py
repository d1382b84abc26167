"""PID 1 of a machine that stands in for a Vagrant box: Debian's mounts, a management port, sshd, the lab's ports wired.

Travels on the second disk with `machine.json`, as the guest's own init does (images/guest/inside.py, whose `furnish` it borrows).
Standard library only. It never ends by itself: the caller that started QEMU ends it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

JOB = Path("/lab-job")


def port_with(mac: str) -> str:
    """The interface of that MAC; the driver needs a moment."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for entry in Path("/sys/class/net").iterdir():
            if (entry / "address").read_text().strip() == mac:
                return entry.name
        time.sleep(0.05)
    raise RuntimeError(f"no port has MAC {mac}")


def main() -> None:
    sys.path.insert(0, str(JOB))
    from furnish import furnish  # type: ignore[import-not-found]

    furnish()
    wanted = json.loads((JOB / "machine.json").read_text())
    Path("/proc/sys/kernel/hostname").write_text(wanted["name"])
    subprocess.run(["modprobe", "-a", "virtio_net", "virtio_rng"], check=True)
    management = port_with(wanted["management_mac"])
    for command in (["address", "add", wanted["management_address"], "dev", management], ["link", "set", management, "up"]):
        subprocess.run(["ip", *command], check=True)
    for source, target, mode in wanted["files"]:
        place = Path(target)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.write_bytes((JOB / source).read_bytes())
        place.chmod(int(mode, 8))
    Path("/run/sshd").mkdir(exist_ok=True)
    # As Vagrant's provisioner does at every boot, and twice: the second time must find nothing to do.
    for _ in range(2):
        subprocess.run(["/bin/sh", str(JOB / "wire.sh"), wanted["role"], *wanted["macs"]], check=True)
    subprocess.run(["/usr/sbin/sshd"], check=True)
    print("guest-init: ready", flush=True)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(0.5)


if __name__ == "__main__":
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        main()
    except BaseException:  # PID 1 must not end, whatever happened: the kernel would panic before the console has it all
        traceback.print_exc()
        print("guest-init: failed", flush=True)
        time.sleep(5)
