"""The parts that decide a cell's bytes: each of them changes the digest, and nothing else does."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lab.hosts.host import RouterFacts
from lab.model.results import ClientIdentity, VirtualMachine
from lab.model.transfer import Transfer
from lab.model.units import Size
from lab.run.counts import counted, digest, other_parts
from tests.support.noted_hosts import NotedNetwork

GUEST = VirtualMachine(
    seed=7, session_seed=1, kernel_release="7.2", kernel_sha256="k" * 64, charge_ns=200, charge_most_ns=10_000, conditions={}
)
DOWN = Transfer(protocol="http1", direction="get", size=Size(1000))
SCRIPT = "#!/usr/bin/python3\nimport sys\n"


@pytest.fixture(autouse=True)
def servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine's first unit tests run while the servers are downloaded."""
    programs = {"nginx": "/usr/bin/env", "sshd": "/bin/sh", "sftp-server": "/bin/ls"}
    monkeypatch.setattr("lab.run.counts.find", lambda name: Path(programs[name]))


def client(sha256: str = "c" * 64) -> ClientIdentity:
    return ClientIdentity(name="mine", version="1", path="/run/lab/program/0/up.py", sha256=sha256, command=[])


def count(program: str, transfer: Transfer = DOWN, guest: VirtualMachine = GUEST, **changed: Any) -> dict[str, str]:
    network: Any = NotedNetwork()
    network.router_facts = RouterFacts("kernel", "7.2", changed.get("tc", "6.1.0"), supports_seed=False)
    network.client.under_test = network.client
    network.server.under_test = network.server
    identity = client(changed.get("sha256", "c" * 64))
    found = counted(guest, network, identity, program, transfer, userlands={}, link_changes=changed.get("link_changes", False))
    assert found.digest == digest(found.counts)
    return found.counts


def script(folder: Path, more: int = 0) -> str:
    folder.mkdir(parents=True)
    (folder / "up.py").write_text(SCRIPT)
    (folder / "helper.py").write_text("x = 1\n")
    for number in range(more):
        (folder / f"empty {number}").touch()
    return str(folder / "up.py")


def test_each_part_has_a_value(tmp_path: Path) -> None:
    found = count(script(tmp_path / "a"))
    names = ["lab", "kernel", "price", "seed", "client", "client's libraries", "client's folder", "server"]
    assert [*found][: len(names)] == names
    assert all(found.values())


def test_a_place_and_files_that_are_not_read_do_not_count(tmp_path: Path) -> None:
    assert count(script(tmp_path / "a")) == count(script(tmp_path / "another place" / "b", more=40))


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"guest": GUEST.model_copy(update={"session_seed": 2})}, "seed"),
        ({"guest": GUEST.model_copy(update={"kernel_sha256": "l" * 64})}, "kernel"),
        ({"guest": GUEST.model_copy(update={"charge_ns": 300})}, "price"),
        ({"sha256": "d" * 64}, "client"),
        ({"transfer": DOWN.model_copy(update={"protocol": "sftp"})}, "server"),
    ],
)
def test_another_part_is_another_digest(changed: dict[str, Any], part: str, tmp_path: Path) -> None:
    program = script(tmp_path / "a")
    one, other = count(program), count(program, **changed)
    assert digest(one) != digest(other)
    assert other_parts(*(GUEST.model_copy(update={"counts": each}) for each in (one, other))) == [part]


def test_tc_is_a_part_where_the_link_changes() -> None:
    assert count("sh", tc="6.1.0") == count("sh", tc="6.15.0")
    one, other = count("sh", tc="6.1.0", link_changes=True), count("sh", tc="6.15.0", link_changes=True)
    assert {name for name in one if one[name] != other[name]} == {"tc"}


def test_a_file_that_is_copied_is_a_part(tmp_path: Path) -> None:
    one = count(script(tmp_path / "a"))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "helper.py").write_text("x = 2\n")
    other = count(str(tmp_path / "b" / "up.py"))
    assert {name for name in one if one[name] != other[name]} == {"client's folder"}


def test_a_program_has_libraries_and_no_folder() -> None:
    found = count("sh")
    assert found["client's libraries"] != count("/usr/bin/python3")["client's libraries"]
    assert "client's folder" not in found


def test_older_results_say_nothing_about_parts() -> None:
    assert other_parts(GUEST, GUEST.model_copy(update={"counts": {"seed": "1"}})) == []
    assert other_parts(None, GUEST) == []
