"""wire.sh run for real, twice, in namespaces of its own: its ports are veth ends, its /etc is a copy."""

from __future__ import annotations

import os
import subprocess

import pytest

from lab.hosts.vagrant.network import MACS
from lab.model.paths import project_root

SCRIPT = project_root() / "images" / "vagrant" / "linux" / "wire.sh"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make users and network namespaces in a copy of /etc")

_PLACE = """\
mount -t tmpfs none /run
mount -t tmpfs none /home
mkdir /run/etc /run/upper /run/work
mount -t tmpfs none /run/etc
cp -a /etc/. /run/etc/
mount --bind /run/etc /etc
sed -i '/^lab:/d' /etc/passwd /etc/shadow /etc/group
echo '10.9.9.9 server' >>/etc/hosts
ip link set lo up
ip link add mgmt0 type veth peer name far0
number=0
for mac in $2; do
    number=$((number + 1))
    ip link add "port$number" address "$mac" type veth peer name "far$number"
    ip link set "port$number" up
    ip link set "far$number" up
    ip address add "192.168.$number.1/24" dev "port$number"
done
"""
_TELL = """\
ip -n lab -br -4 address
ip -n lab route
ip -n lab neighbour
ip -br link | awk '{ print $1 }' | sed 's/@.*//' | sort | xargs
cat /etc/hosts
id -un lab
ls /run/netns
ip netns exec lab cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/ip_unprivileged_port_start
"""


def wired(role: str, macs: str, script: str) -> subprocess.CompletedProcess[str]:
    words = [
        "unshare",
        "--mount",
        "--net",
        "--propagation",
        "private",
        "/bin/sh",
        "-ec",
        _PLACE + script,
        "sh",
        role,
        macs,
        str(SCRIPT),
    ]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("role", list(MACS))
def test_the_second_time_changes_nothing(role: str) -> None:
    once = f'sh "$3" $1 $2 >/dev/null; ( {_TELL} )\n'
    done = wired(role, " ".join(MACS[role]), once + "echo ==\n" + once)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split("==\n")
    assert first == second
    assert "mgmt0" in first, "the management port stays outside"
    assert first.count("10.77.2.2 server") == 1
    assert "10.9.9.9" not in first


def test_a_client_has_one_port_and_one_way() -> None:
    done = wired("client", MACS["client"][0], f'sh "$3" $1 $2 >/dev/null; {_TELL}')
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "10.77.1.2/24" in said
    assert "default via 10.77.1.1 dev eth0" in said
    assert "10.77.1.1 dev eth0 lladdr 02:54:4c:01:00:01 PERMANENT" in said
    assert "192.168.1.1" not in said, "what the port had before is gone"
    assert "port1" not in said


def test_a_router_forwards() -> None:
    done = wired("router", " ".join(MACS["router"]), f'sh "$3" $1 $2 >/dev/null; {_TELL}')
    assert done.returncode == 0, done.stderr
    assert "to-client" in done.stdout
    assert "to-server" in done.stdout
    assert done.stdout.rstrip().endswith("1\n0")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("client 02:00:00:00:00:99", "no port of this machine has MAC 02:00:00:00:00:99"),
        ("router 02:54:4c:01:00:02", "usage: wire.sh"),
        ("", "usage: wire.sh"),
        ("printer x", "usage: wire.sh"),
    ],
)
def test_what_cannot_be_is_one_line(words: str, told: str) -> None:
    done = wired("client", MACS["client"][0], f'sh "$3" {words}')
    assert done.returncode == 1
    assert done.stderr.startswith("roughwater: ")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
