"""provision.sh run for real in a fresh Debian 12: on a root without a kernel, on a bootable one, and once more."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

import pytest

from images.guest.image import MIRROR
from lab.model.paths import project_root

SCRIPT = project_root() / "images" / "vagrant" / "linux" / "provision.sh"
COMMAND = "PROVISION=yes .venv/bin/pytest tests/vagrant/test_provision.py"
# Installed by what it depends on, and no part of a root that mmdebstrap makes: a real machine has them.
KERNEL, INIT = "linux-image-cloud-amd64", "systemd-sysv"
NO_KERNEL = re.compile(r"roughwater: kernel \S+ has no sch_netem here: the router needs linux-image-amd64")
WELL = "roughwater: packages are there"

# In the chroot. The last time there is no network: who asks for anything to be downloaded fails.
DRIVER = f"""\
say() {{
    echo "== $1"
    shift
    "$@" 2>&1 || echo "code $?"
}}
list() {{
    find / -xdev '(' -path /told -o -path /proc -o -path /sys -o -path /dev -o -path /tmp ')' -prune -o \\
        -printf '%p %y %m %u %g %s %l %T@ %C@\\n' | sort
}}
export DEBIAN_FRONTEND=noninteractive
{{
    say bare sh /provision.sh
    say kernel apt-get -q install -y --no-install-recommends {KERNEL}
    say first sh /provision.sh
    say packages dpkg-query -W -f '${{Package}} ${{db:Status-Status}}\\n'
    for service in nginx iperf3; do say "$service" systemctl is-enabled "$service"; done
    say before list
    say second unshare --net sh /provision.sh
    say after list
    say modules mv /lib/modules /lib/modules-elsewhere
    say none sh /provision.sh
}} >/told
"""


@dataclass(frozen=True)
class Provisioned:
    """What each step said; `code N` is the last line of a failed step."""

    said: dict[str, list[str]]

    def __getitem__(self, step: str) -> list[str]:
        return self.said[step]


@pytest.fixture(scope="module")
def provisioned(tmp_path_factory: pytest.TempPathFactory) -> Provisioned:
    if os.environ.get("PROVISION") != "yes":
        pytest.skip(f"downloads a Debian and takes a minute or two: {COMMAND}")
    if shutil.which("mmdebstrap") is None:
        pytest.skip("no mmdebstrap: sudo apt-get install --no-install-recommends mmdebstrap")
    folder = tmp_path_factory.mktemp("provision")
    (folder / "driver.sh").write_text(DRIVER)
    command = [
        "mmdebstrap",
        "--quiet",
        "--variant=apt",
        # Nothing is kept of the root; root or not is mmdebstrap's own business.
        "--format=null",
        f"--include={INIT}",
        f"--customize-hook=upload {SCRIPT} /provision.sh",
        f"--customize-hook=upload {folder}/driver.sh /driver.sh",
        '--customize-hook=chroot "$1" sh /driver.sh',
        f"--customize-hook=download /told {folder}/told",
        "bookworm",
        "-",
        MIRROR,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    text = (folder / "told").read_text()
    steps = re.findall(r"^== (\S+)\n(.*?)(?=^== |\Z)", text, re.M | re.S)
    return Provisioned({name: said.splitlines() for name, said in steps})


# The fixture is the first test's.
pytestmark = pytest.mark.timeout(1000)


def test_a_root_without_a_kernel_gets_a_list_of_what_it_lacks(provisioned: Provisioned) -> None:
    *_, line, code = provisioned["bare"]
    assert NO_KERNEL.fullmatch(line), provisioned["bare"]
    assert code == "code 1"


def test_everything_is_there_afterwards(provisioned: Provisioned) -> None:
    assert provisioned["first"] == [WELL]
    wanted = re.search(r"^packages='(.+)'$", SCRIPT.read_text(), re.M)
    assert wanted
    installed = {line.removesuffix(" installed") for line in provisioned["packages"] if line.endswith(" installed")}
    assert set(wanted[1].split()) <= installed
    assert provisioned["nginx"][0] == provisioned["iperf3"][0] == "disabled"


def test_the_second_time_downloads_and_changes_nothing(provisioned: Provisioned) -> None:
    assert provisioned["second"] == [WELL]
    assert len(provisioned["before"]) > 1000
    assert provisioned["before"] == provisioned["after"]


def test_a_kernel_without_netem_is_reported_every_time(provisioned: Provisioned) -> None:
    assert provisioned["modules"] == []
    line, code = provisioned["none"]
    assert NO_KERNEL.fullmatch(line)
    assert code == "code 1"
