"""Stands in for `vagrant`: fake_vagrant.py FOLDER WORDS... `FOLDER/status` has a line `NAME STATE` per machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CONFIG = "Host {0}\n  HostName 127.0.0.1\n  User vagrant\n  Port 2200\n  UserKnownHostsFile /dev/null\n  IdentityFile /key\n"


def main(folder: Path, words: list[str]) -> int:
    with (folder / "calls").open("a") as calls:
        calls.write(" ".join(words) + "\n")
    if words[0] == "--version":
        print("Vagrant 2.3.4")
    elif words[0] == "status":
        for line in (folder / "status").read_text().splitlines():
            name, state = line.split()
            print(f"1,{name},metadata,provider,libvirt\n1,{name},provider-name,libvirt\n1,{name},state,{state}")
    elif words[0] == "ssh-config":
        print(CONFIG.format(words[1]))
    elif words[0] == "up" and os.environ.get("ROUGHWATER_LINK") != "no":
        sys.stderr.write("roughwater: the Vagrantfile would call the lab that is waiting for it\n")
        return 1
    elif words[0] == "up" and (folder / "fails").exists():
        print("==> linux: Importing base box...")
        sys.stderr.write((folder / "fails").read_text() + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
