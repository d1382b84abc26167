"""The wheel in a Debian that has only Python, without this checkout, a compiler or sudo."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.bare_debian import PYTHONS, Debian, LackingError, unpack

INSTALL = "python3 -m venv lab-venv && lab-venv/bin/pip install --quiet --no-index --find-links /wheels /wheels/roughwater-*.whl"
HOTEL = "name: hotel\ndescription: An evening.\nlink:\n  rate: 8 Mbit/s\n  rtt: 45 ms\n"

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module", params=PYTHONS)
def debian(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Debian:
    folder: Path = tmp_path_factory.mktemp("bare")
    try:
        made = unpack(request.param, folder)
    except LackingError as why:
        pytest.skip(str(why))
    code, said = made.run(INSTALL)
    assert code == 0, said
    return made


def doctor(debian: Debian, *, user: str = "user", chroot: bool = False) -> dict[str, tuple[str, str]]:
    code, said = debian.run("/home/user/lab-venv/bin/lab doctor --json", user=user, chroot=chroot)
    assert code == 0, said
    return {check["what"]: (check["level"], check["found"] + check["remedy"]) for check in json.loads(said)}


def test_a_user_gets_verdicts(debian: Debian) -> None:
    code, said = debian.run("lab-venv/bin/lab run throttle --client curl --include demo --max-samples 5 && ls")
    assert code in (0, 1, 3), said
    assert "0 INVALID" in said
    assert "lab: downloading iproute2, ethtool," in said
    found = sorted((debian.root / "home/user/results/latest").iterdir())
    assert {"report.html", "junit.xml", "run.json"} <= {path.name for path in found}
    cells = json.loads((debian.root / "home/user/results/latest/run.json").read_text())["verdicts"]
    assert len(cells) == 6
    # A second run downloads nothing. Programs that were fetched find each other: sftp its ssh, sshd its sessions.
    code, said = debian.run("lab-venv/bin/lab run openssh--dsl-20--sftp-get-1MB")
    assert (code, "lab: " in said) == (0, False), said


def test_networks_and_clients_of_your_own_are_found_by_name(debian: Debian) -> None:
    own = f"mkdir -p topologies clients; printf '{HOTEL}' > topologies/hotel.yaml\n"
    code, said = debian.run(own.replace("\n", "\\n", HOTEL.count("\n")) + "lab-venv/bin/lab run curl--hotel--http1-get-500kB")
    assert code == 0, said
    assert "8 Mbit/s" in said


def test_what_needs_a_checkout_says_so_in_one_line(debian: Debian) -> None:
    code, said = debian.run("lab-venv/bin/lab run ferry--dsl-20--http1-get-1MB 2>&1 | tail -1; lab-venv/bin/lab setup")
    assert code != 0
    assert "ferry is not installed (install its wheel, roughwater_ferry-*.whl: /home/user/lab-venv/bin/python" in said
    assert "Traceback" not in said


def test_doctor_as_a_user(debian: Debian) -> None:
    found = doctor(debian)
    assert found["virtual"][0] == found["namespaces"][0] == "ok"
    assert found["compose"][0] == "note"
    assert not [what for what, (level, _) in found.items() if level == "missing"]
    assert not [text for _, text in found.values() if re.search(r"\bmake [a-z]+(,|$)", text)]


def test_doctor_as_root(debian: Debian) -> None:
    found = doctor(debian, user="root")
    assert found["virtual"][0] == found["namespaces"][0] == "ok"


def test_doctor_where_user_namespaces_are_refused(debian: Debian) -> None:
    found = doctor(debian, chroot=True)
    assert found["virtual"][0] == "ok"
    assert found["namespaces"][0] == "note"
    assert "kernel.apparmor_restrict_unprivileged_userns" in found["namespaces"][1]


def test_doctor_fix_fetches_what_is_missing_and_installs_nothing(debian: Debian) -> None:
    code, said = debian.run(
        "export ROUGHWATER_CACHE=$PWD/other; lab-venv/bin/lab doctor --fix; command -v iperf3 nginx || echo none"
    )
    assert "fix: iperf3_" in said
    assert said.endswith("none\n")
    assert code == 0
