"""`ssh-config` text -> where machines are; what refusals of `ssh` mean; which options every `ssh` of the lab has."""

from __future__ import annotations

import contextlib
import platform
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.hosts.ssh import machine_problems
from lab.hosts.ssh.config import Target, parse, render
from lab.hosts.ssh.connection import Connection, pin_file, refusal
from lab.model.errors import LabFault, UsageProblem

# As Vagrant 2.3.4 prints it for two machines of VirtualBox.
VAGRANT = """\
Host router
  HostName 127.0.0.1
  User vagrant
  Port 2222
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  PasswordAuthentication no
  IdentityFile "/home/some one/lab/.vagrant/machines/router/virtualbox/private_key"
  IdentitiesOnly yes
  LogLevel FATAL

Host windows-11
  HostName 127.0.0.1
  User vagrant
  Port 2200
  UserKnownHostsFile /dev/null
  IdentityFile C:/Users/me/.vagrant.d/insecure_private_key
  IdentityFile C:/Users/me/.vagrant.d/insecure_private_keys/vagrant.key.ed25519
"""


def test_what_vagrant_prints_is_understood() -> None:
    found = parse(VAGRANT)
    assert list(found) == ["router", "windows-11"]
    key = "/home/some one/lab/.vagrant/machines/router/virtualbox/private_key"
    assert found["router"] == Target("router", "127.0.0.1", "vagrant", 2222, (key,))
    assert len(found["windows-11"].identities) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Host a\n  Port x\n  User u\n", "'x' is not a port"),
        ("Host a\n  Port 70000\n  User u\n", "'70000' is not a port"),
        ("Host a\n  HostName b\n", "Host a has no User"),
        ("  Port 1\n", "ssh-config:1: Port comes before the first Host"),
        ("Host a\n  User\n", "ssh-config:2: User has no value"),
        ('Host a\n  IdentityFile "b\n', "ssh-config:2: a quote is not closed"),
    ],
)
def test_a_bad_config_is_reported_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        parse(text)


WORDS = st.text(st.characters(codec="ascii", categories=("L", "N"), include_characters="-_./ :"), min_size=1, max_size=30)
WORDS = WORDS.map(str.strip).filter(lambda word: word not in ("", "none", "NUL", "/dev/null") and not word.startswith("#"))
NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)


@given(NAMES, NAMES, st.integers(1, 65535), st.lists(WORDS, max_size=3), WORDS | st.just(""))
def test_a_target_written_and_read_is_the_same(name: str, user: str, port: int, keys: list[str], known: str) -> None:
    target = Target(name, "127.0.0.1", user, port, tuple(keys), known)
    assert parse(render(target)) == {name: target}


@given(st.text())
def test_no_text_makes_it_fail_in_any_other_way(text: str) -> None:
    with contextlib.suppress(UsageProblem):
        parse(text)


TARGET = Target("router", "127.0.0.1", "vagrant", 2222, ("/key",))


@pytest.mark.parametrize(
    ("said", "told", "remedy"),
    [
        ("ssh: connect to host 127.0.0.1 port 2222: Connection refused", "no SSH server answers", "vagrant up router"),
        ("ssh: connect to host 10.0.0.1 port 22: Connection timed out", "cannot be reached", "vagrant up router"),
        ("ssh: connect to host 10.0.0.1 port 22: No route to host", "cannot be reached", "vagrant up router"),
        ("vagrant@127.0.0.1: Permission denied (publickey).", "refuses the login", "vagrant ssh-config router"),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "host key of vagrant@127.0.0.1:2222 differs",
            "remove /pins",
        ),
        ("kex_exchange_identification: Connection closed by remote host", "still booting", "try again"),
        ('Load key "/key": bad permissions', "the key for", "vagrant ssh-config"),
        ("something new", "no SSH to vagrant@127.0.0.1:2222: something new", "vagrant ssh router"),
        ("", "ssh printed nothing", "vagrant ssh router"),
    ],
)
def test_a_refusal_is_one_line_that_says_what_to_do(said: str, told: str, remedy: str) -> None:
    fault = refusal(TARGET, said, "/pins")
    assert told in fault.message
    assert remedy in fault.remedy
    assert "\n" not in str(fault)


def test_a_machine_with_a_known_key_is_checked_strictly(tmp_path: Path) -> None:
    words = Connection(Target("a", "h", "u", 22, (), str(tmp_path / "known"))).command("true", shared=False)
    assert "StrictHostKeyChecking=yes" in words
    assert f'UserKnownHostsFile="{tmp_path / "known"}"' in words
    assert "BatchMode=yes" in words
    assert words[-2:] == ["h", "true"]


def test_a_machine_without_one_is_believed_once_and_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path))
    connection = Connection(TARGET, "id-1")
    assert "StrictHostKeyChecking=accept-new" in connection.options(shared=False)
    connection.known_hosts.write_text("router key")
    assert "StrictHostKeyChecking=yes" in connection.options(shared=False)
    assert pin_file(TARGET, "id-2") != connection.known_hosts


class TestFitness:
    def test_the_same_processor_by_another_name(self) -> None:
        assert machine_problems.architecture_problem("w", "AMD64", ours="x86_64") is None
        assert machine_problems.architecture_problem("w", platform.machine()) is None

    def test_another_processor(self) -> None:
        problem = machine_problems.architecture_problem("w", "ARM64", ours="x86_64")
        assert isinstance(problem, UsageProblem)
        assert problem.message == "w: the machine is ARM64, and the lab's programs are built for x86_64"

    @pytest.mark.parametrize(("ahead", "told"), [(31.0, "31 s ahead"), (-3600.0, "3600 s behind")])
    def test_a_clock_that_is_off(self, ahead: float, told: str) -> None:
        problem = machine_problems.clock_problem("w", 1e9 + ahead, 1e9)
        assert isinstance(problem, LabFault)
        assert told in problem.message

    def test_a_clock_that_is_right(self) -> None:
        assert machine_problems.clock_problem("w", 1e9 + 29, 1e9) is None

    @pytest.mark.parametrize(("status", "minutes"), [(0, 0), (5, 0), (2, 0), (3, None), (4, 100)])
    def test_a_licence_that_has_run_out(self, status: int, minutes: int | None) -> None:
        problem = machine_problems.licence_problem("w", status, minutes)
        assert isinstance(problem, LabFault)
        assert "evaluation licence" in problem.message

    @pytest.mark.parametrize(("status", "minutes"), [(1, 0), (2, 5), (None, None)])
    def test_a_licence_that_holds(self, status: int | None, minutes: int | None) -> None:
        assert machine_problems.licence_problem("w", status, minutes) is None
