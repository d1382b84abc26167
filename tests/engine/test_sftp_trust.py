"""Identity of server and client: no data and no secrets before both are proven."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from dataclasses import dataclass

import pytest

from lab.servers.sshd import KeyPair, known_hosts, make_key
from tests.engine import under_wine
from tests.engine.harness import failed, is_one_clear_line
from tests.engine.sftp_harness import SftpBench, done, sha256
from tests.engine.sftp_servers import Odd, SftpServer, person

SIZE = 30_000
PASSWORD = "open sesame"


def fingerprint(key: KeyPair) -> str:
    """As `ssh-keygen -l` prints it."""
    digest = hashlib.sha256(base64.b64decode(key.public.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


@pytest.fixture
def me(desk: SftpBench) -> tuple[str, ...]:
    return ("--identity", str(desk.key()), "--no-agent")


def get(desk: SftpBench, server: SftpServer, *words: str) -> list[str]:
    return ["get", server.url(desk.give(server, SIZE)), "-o", "file", *words]


def test_an_unknown_host(desk: SftpBench, openssh: SftpServer, me: tuple[str, ...]) -> None:
    """One line tells the fingerprint and what to add; nothing is added by itself."""
    hosts = desk.hosts()
    told = desk.run(*get(desk, openssh, *me, "--known-hosts", str(hosts)))
    failed(told, "permanent", fingerprint(openssh.host_key), openssh.known_hosts.strip())
    assert len(told.attempts) == 1
    assert desk.files() == {}
    assert hosts.read_text() == ""


def test_a_missing_known_hosts_file_has_no_hosts(desk: SftpBench, openssh: SftpServer, me: tuple[str, ...]) -> None:
    told = desk.run(*get(desk, openssh, *me, "--known-hosts", "nowhere"))
    failed(told, "permanent", fingerprint(openssh.host_key), openssh.known_hosts.strip())
    assert desk.files() == {}


def test_a_host_key_that_has_changed(desk: SftpBench, openssh: SftpServer, me: tuple[str, ...]) -> None:
    hosts = desk.hosts(known_hosts(["127.0.0.1"], openssh.port, make_key()))
    told = desk.run(*get(desk, openssh, *me, "--known-hosts", str(hosts)))
    failed(told, "permanent", fingerprint(openssh.host_key))
    assert len(told.attempts) == 1
    assert desk.files() == {}
    put = desk.run("put", desk.source(SIZE), openssh.url(desk.remote(openssh) / "new"), *me, "--known-hosts", hosts)
    failed(put, "permanent")
    assert not (desk.remote(openssh) / "new").exists()


def test_a_host_key_that_was_revoked(desk: SftpBench, openssh: SftpServer, me: tuple[str, ...]) -> None:
    hosts = desk.hosts(f"@revoked * {openssh.host_key.public}\n", openssh.known_hosts)
    failed(desk.run(*get(desk, openssh, *me, "--known-hosts", str(hosts))), "permanent")
    assert desk.files() == {}


def test_known_by_another_port_is_not_known(desk: SftpBench, openssh: SftpServer, me: tuple[str, ...]) -> None:
    hosts = desk.hosts(known_hosts(["127.0.0.1"], openssh.port + 1, openssh.host_key))
    failed(desk.run(*get(desk, openssh, *me, "--known-hosts", str(hosts))), "permanent", fingerprint(openssh.host_key))


@pytest.mark.parametrize("lines", ["comments", "pattern", "second-key"])
def test_a_known_host(desk: SftpBench, openssh: SftpServer, me: tuple[str, ...], lines: str) -> None:
    other = make_key()
    text = {
        "comments": f"# a comment\n\n{openssh.known_hosts.strip()} with a comment\n",
        "pattern": f"elsewhere,[127.0.0.*]:{openssh.port} {openssh.host_key.public}\n",
        "second-key": known_hosts(["127.0.0.1"], openssh.port, other) + openssh.known_hosts,
    }[lines]
    told = desk.run(*get(desk, openssh, *me, "--known-hosts", str(desk.hosts(text))))
    done(told)
    assert desk.files() == {"file": sha256(SIZE)}
    assert told.report["ssh"]["host_key"] == f"ssh-ed25519 {fingerprint(openssh.host_key)}"
    assert told.transfer["insecure"] is False


def test_pins(desk: SftpBench, openssh: SftpServer, me: tuple[str, ...]) -> None:
    right, wrong = fingerprint(openssh.host_key), fingerprint(make_key())
    nobody = ("--known-hosts", str(desk.hosts()))
    failed(desk.run(*get(desk, openssh, *me, *nobody, "--pin", wrong)), "permanent", right)
    assert desk.files() == {}
    # A pin overrides known_hosts.
    failed(desk.run(*get(desk, openssh, *desk.trust(openssh), "--pin", wrong)), "permanent", right)
    assert desk.files() == {}
    done(desk.run(*get(desk, openssh, *me, *nobody, "--pin", wrong, "--pin", right)))
    assert desk.files() == {"file": sha256(SIZE)}


def test_insecure_is_reported(desk: SftpBench, openssh: SftpServer, me: tuple[str, ...]) -> None:
    told = desk.run(*get(desk, openssh, *me, "--known-hosts", str(desk.hosts()), "--insecure"))
    done(told)
    assert told.transfer["insecure"] is True
    assert desk.files() == {"file": sha256(SIZE)}


def test_a_key_that_is_refused(desk: SftpBench, openssh: SftpServer) -> None:
    hosts = ("--known-hosts", str(desk.hosts(openssh.known_hosts)))
    told = desk.run(*get(desk, openssh, *hosts, "--no-agent", "--identity", str(desk.key(desk.keys.stranger))))
    failed(told, "permanent", openssh.login)
    assert len(told.attempts) == 1
    assert desk.files() == {}


def test_the_second_key_is_tried(desk: SftpBench, openssh: SftpServer, me: tuple[str, ...]) -> None:
    stranger = str(desk.key(desk.keys.stranger))
    done(desk.run(*get(desk, openssh, "--known-hosts", str(desk.hosts(openssh.known_hosts)), "--identity", stranger, *me)))
    assert desk.files() == {"file": sha256(SIZE)}


def test_no_credentials_at_all(desk: SftpBench, openssh: SftpServer) -> None:
    told = desk.run(*get(desk, openssh, "--known-hosts", str(desk.hosts(openssh.known_hosts)), "--no-agent"))
    failed(told, "permanent")
    assert "--identity" in told.error["message"]
    assert desk.files() == {}


@pytest.mark.parametrize("what", ["missing", "unreadable", "garbage"])
def test_a_file_that_is_not_an_identity(desk: SftpBench, openssh: SftpServer, what: str) -> None:
    if what != "missing":
        desk.write("id", b"garbage" if what == "garbage" else desk.keys.user.private, 0o600 if what == "garbage" else 0)
    hosts = ("--known-hosts", str(desk.hosts(openssh.known_hosts)))
    told = desk.run(*get(desk, openssh, *hosts, "--no-agent", "--identity", "id"))
    failed(told, "local", "id")
    assert len(told.attempts) == 1
    assert "file" not in {path.name for path in desk.folder.iterdir()}


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o601])
def test_a_key_that_others_may_read_is_refused(desk: SftpBench, openssh: SftpServer, mode: int) -> None:
    """As OpenSSH refuses it, before the server is asked anything. On Windows no mode tells."""
    if under_wine.wanted():
        pytest.skip("under Wine: files have no mode")
    key = desk.write("id", desk.keys.user.private, mode)
    hosts = ("--known-hosts", str(desk.hosts(openssh.known_hosts)))
    told = desk.run(*get(desk, openssh, *hosts, "--no-agent", "--identity", "id"))
    failed(told, "local", f"id may be read by other users of this machine (mode {mode:03o}); chmod 600 it")
    key.chmod(0o600)
    done(desk.run(*get(desk, openssh, *hosts, "--no-agent", "--identity", "id")))
    assert desk.files()["file"] == sha256(SIZE)


@pytest.fixture
def locked(desk: SftpBench) -> str:
    """The user's key, encrypted with PASSWORD."""
    desk.write("locked", desk.keys.user.private, 0o600)
    command = ["ssh-keygen", "-q", "-p", "-P", "", "-N", PASSWORD, "-f", desk.folder / "locked"]
    assert person().start(command, stdout=subprocess.DEVNULL).wait(10.0) == 0
    return "locked"


@pytest.mark.parametrize("how", ["file", "environment", "program"])
def test_a_passphrase(desk: SftpBench, openssh: SftpServer, locked: str, how: str) -> None:
    if how == "program" and under_wine.wanted():
        pytest.skip("a script of /bin/sh is no program for Windows")
    desk.write("secret", f"{PASSWORD}\n".encode(), 0o600)
    asks = desk.write("asks", f"#!/bin/sh\necho '{PASSWORD}'\n".encode(), 0o755)
    words = {"file": ("--passphrase-file", "secret"), "environment": ("--passphrase-env", "SECRET"), "program": ()}[how]
    env = {"SSH_ASKPASS": str(asks), "SSH_ASKPASS_REQUIRE": "force"} if how == "program" else {"SECRET": PASSWORD}
    hosts = ("--known-hosts", str(desk.hosts(openssh.known_hosts)))
    told = desk.run(*get(desk, openssh, *hosts, "--no-agent", "--identity", locked, *words), env=env)
    done(told)
    assert desk.files()["file"] == sha256(SIZE)
    assert PASSWORD not in str(told.report) + told.stderr


def test_an_encrypted_key_without_its_passphrase(desk: SftpBench, openssh: SftpServer, locked: str) -> None:
    hosts = ("--known-hosts", str(desk.hosts(openssh.known_hosts)))
    told = desk.run(*get(desk, openssh, *hosts, "--no-agent", "--identity", locked))
    failed(told, "local", f"the key {locked} is encrypted", "--passphrase-file")
    assert len(told.attempts) == 1
    desk.write("secret", b"something else", 0o600)
    wrong = desk.run(*get(desk, openssh, *hosts, "--no-agent", "--identity", locked, "--passphrase-file", "secret"))
    failed(wrong, "local", f"the passphrase does not open the key {locked}")
    (desk.folder / "secret").chmod(0o644)
    shared = desk.run(*get(desk, openssh, *hosts, "--no-agent", "--identity", locked, "--passphrase-file", "secret"))
    failed(shared, "usage", "--passphrase-file secret", "chmod 600")


@dataclass(frozen=True)
class Word:
    name: str
    text: str
    right: bool

    def __str__(self) -> str:
        return self.name


WORDS = (Word("right", PASSWORD, True), Word("newline", f"{PASSWORD}\n", True), Word("wrong", "close sesame", False))


@pytest.mark.parametrize(
    ("word", "way"),
    # Only a file ends in a line feed that does not belong to the password.
    [(word, way) for word in WORDS for way in ("file", "environment") if (word.name, way) != ("newline", "environment")],
    ids=str,
)
def test_a_password(desk: SftpBench, odd: Odd, word: Word, way: str) -> None:
    desk.write("secret", word.text.encode(), 0o600)
    there = desk.give(odd.server, SIZE)
    how = ("--password-file", "secret") if way == "file" else ("--password-env", "SECRET")
    hosts = ("--known-hosts", str(desk.hosts(odd.server.known_hosts)))
    words = ["get", odd.server.url(there, login="password"), "-o", "file", *hosts, "--no-agent", *how]
    told = desk.run(*words, env={"SECRET": word.text})
    if word.right:
        done(told)
        assert told.report["ssh"]["auth"] == "password"
        assert desk.files()["file"] == sha256(SIZE)
    else:
        failed(told, "permanent", "password")
        assert len(told.attempts) == len(odd.asked("password")) == 1
        assert "file" not in desk.files()
    assert word.text.strip() not in str(told.report) + told.stderr


def test_a_password_is_not_shown_to_a_stranger(desk: SftpBench, odd: Odd) -> None:
    desk.write("secret", PASSWORD.encode(), 0o600)
    there = desk.give(odd.server, SIZE)
    hosts = ("--known-hosts", str(desk.hosts(known_hosts(["127.0.0.1"], odd.server.port, make_key()))))
    words = ["get", odd.server.url(there, login="password"), "-o", "file", *hosts, "--no-agent", "--password-file", "secret"]
    failed(desk.run(*words), "permanent")
    assert odd.asked("password") == []


def test_a_failure_is_one_line_for_a_person(desk: SftpBench, openssh: SftpServer, me: tuple[str, ...]) -> None:
    words = get(desk, openssh, *me, "--known-hosts", str(desk.hosts()))
    ferry = desk.start(*words, json=False)
    code, stdout, stderr = ferry.ended()
    assert (code, stdout) == (11, b"")
    is_one_clear_line(stderr.decode(), fingerprint(openssh.host_key))
