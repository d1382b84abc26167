"""One set of servers on 127.0.0.1 for all tests of this folder, which do not change them."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.assets import tools
from lab.servers.bundle import Places, Servers, start_servers
from tests.support.local_host import LocalNetwork
from tests.support.ports import free_ports

# sshd started by root wants /run/sshd and a user called sshd, which a machine without an installed sshd lacks: a mount
# namespace of its own has both.
_ROOT_SSHD = """#!/bin/sh
exec unshare -m sh -e -c '
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
cp /etc/passwd /run/passwd
grep -q ^sshd: /run/passwd || echo sshd:x:65534:65534::/run/sshd:/bin/false >>/run/passwd
mount --bind /run/passwd /etc/passwd
exec {sshd} "$@"' sshd "$@"
"""


@pytest.fixture(scope="session")
def network() -> Iterator[LocalNetwork]:
    with tempfile.TemporaryDirectory(prefix="roughwater-test-") as folder:
        network = LocalNetwork(Path(folder))
        yield network
        network.close()


@pytest.fixture(scope="session")
def places(network: LocalNetwork) -> Places:
    sshd = None
    if os.geteuid() == 0:
        if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
            pytest.skip("sshd as root needs /run/sshd, and this root may not make a mount namespace to have one")
        sshd = Path(network.server.workdir).parent / "sshd"
        sshd.write_text(_ROOT_SSHD.replace("{sshd}", str(tools.require("sshd"))))
        sshd.chmod(0o755)
    user = pwd.getpwuid(os.geteuid()).pw_name
    http, https, ssh, iperf3 = free_ports(4)
    return Places("127.0.0.1", "127.0.0.1", http, https, ssh, iperf3, user, sshd, "root" if os.geteuid() == 0 else "")


@pytest.fixture(scope="session")
def servers(network: LocalNetwork, places: Places) -> Iterator[Servers]:
    servers = start_servers(network, payload_sizes=[300_000], places=places)
    yield servers
    servers.stop()
