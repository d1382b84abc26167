"""What ferry takes from ssh_config, with OpenSSH's sshd as the server."""

from __future__ import annotations

import pytest

from tests.engine.harness import EXIT_CODES, failed, is_one_clear_line
from tests.engine.sftp_harness import SftpBench, done, sha256
from tests.engine.sftp_servers import SftpServer

SIZE = 30_000


def config(desk: SftpBench, server: SftpServer, more: str = "", name: str = "config") -> str:
    """A file in which `there` is the server, and everything that ferry needs to know."""
    hosts = desk.hosts(f"an-alias {server.host_key.public}\n")
    text = f"""
Host there !elsewhere
  HostName 127.0.0.1
  Port {server.port}
  User {server.login}
  IdentityFile {desk.key()}
  IdentitiesOnly yes
  IdentityAgent none
  HostKeyAlias an-alias
  UserKnownHostsFile {hosts}
  GlobalKnownHostsFile none
{more}"""
    desk.write(name, text.encode(), 0o600)
    return name


def test_a_host_is_reached_by_its_name_in_ssh_config(desk: SftpBench, openssh: SftpServer) -> None:
    path = desk.give(openssh, SIZE)
    named = config(desk, openssh)
    done(desk.run("get", f"sftp://there{path}", "-o", "file", "-F", named))
    assert desk.files()["file"] == sha256(SIZE)
    done(desk.run("put", "file", f"sftp://there{path}-again", "--ssh-config", named))
    assert path.with_name(path.name + "-again").read_bytes() == path.read_bytes()
    other = desk.run("get", f"sftp://me@elsewhere.invalid{path}", "-o", "other", "-F", named, "--retry", "0")
    # Without a resolver ferry cannot know that there is no such host.
    failed(other, "transient" if other.code == EXIT_CODES["transient"] else "permanent", "elsewhere")


def test_the_file_in_the_home_directory_is_read_and_can_be_left_out(desk: SftpBench, openssh: SftpServer) -> None:
    path = desk.give(openssh, SIZE)
    named = config(desk, openssh)
    folder = desk.folder / ".ssh"
    desk.write(".ssh/config", (desk.folder / named).read_bytes(), 0o600)
    home = {"HOME": str(folder.parent)}
    done(desk.run("get", f"sftp://there{path}", "-o", "file", env=home))
    without = desk.run("get", f"sftp://me@there{path}", "-o", "other", "-F", "none", "--retry", "0", env=home)
    assert without.code in (10, 11), without.report
    (folder / "config").chmod(0o666)
    code, _, stderr = desk.start("get", f"sftp://there{path}", "-o", "other", env=home, json=False).ended()
    assert code == 2
    is_one_clear_line(stderr.decode(), "chmod 600")


def test_a_flag_and_the_url_come_before_the_file(desk: SftpBench, openssh: SftpServer) -> None:
    path = desk.give(openssh, SIZE)
    named = config(desk, openssh)
    stranger = str(desk.key(desk.keys.stranger))
    refused = desk.run("get", f"sftp://there{path}", "-o", "file", "-F", named, "--identity", stranger)
    failed(refused, "permanent", stranger)
    nobody = desk.run("get", f"sftp://nobody-here@there{path}", "-o", "file", "-F", named)
    failed(nobody, "permanent", "user nobody-here")


def test_an_alias_is_what_the_host_is_known_by(desk: SftpBench, openssh: SftpServer) -> None:
    path = desk.give(openssh, SIZE)
    named = config(desk, openssh)
    hosts = desk.folder.parent / f"{desk.word}.hosts"
    hosts.write_text(openssh.known_hosts)
    unknown = desk.run("get", f"sftp://there{path}", "-o", "file", "-F", named)
    failed(unknown, "permanent", f"this line: an-alias {openssh.host_key.public}")


def test_what_ferry_cannot_do_is_refused_before_it_connects(desk: SftpBench, openssh: SftpServer) -> None:
    path = desk.give(openssh, SIZE)
    for line, telling in (
        ("ProxyCommand nc %h %p", "ProxyCommand"),
        ("RevokedHostKeys /etc/revoked", "RevokedHostKeys"),
        ("Match host 127.0.0.1 exec true", "Match exec"),
        ("Host *\n  StrictHostKeyChecking perhaps", "line 13: stricthostkeychecking perhaps"),
    ):
        named = config(desk, openssh, f"  {line}\n")
        ferry = desk.start("get", f"sftp://there{path}", "-o", "file", "-F", named, json=False)
        code, _, stderr = ferry.ended()
        assert code == 2, (line, stderr)
        is_one_clear_line(stderr.decode(), telling)
    assert "file" not in desk.files()


def test_lax_host_keys_are_not_followed(desk: SftpBench, openssh: SftpServer) -> None:
    path = desk.give(openssh, SIZE)
    text = (
        f"Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  IdentityFile {desk.key()}\n  IdentityAgent none\n"
    )
    desk.write("lax", text.encode(), 0o600)
    failed(desk.run("get", openssh.url(path), "-o", "file", "-F", "lax"), "permanent", "is unknown")


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("Ciphers 3des-cbc,aes256-ctr", "cipher", "aes256-ctr"),
        ("Ciphers -*gcm*,chacha*,aes128-ctr", "cipher", "aes192-ctr"),
        ("KexAlgorithms ^ecdh-sha2-nistp384", "kex", "ecdh-sha2-nistp384"),
        ("Ciphers +3des-cbc", "cipher", "aes128-gcm@openssh.com"),
        ("MACs hmac-sha2-512\n  Ciphers aes128-ctr", "cipher", "aes128-ctr"),
    ],
)
def test_algorithms_are_those_that_the_file_allows(
    desk: SftpBench, openssh: SftpServer, line: str, field: str, value: str
) -> None:
    path = desk.give(openssh, SIZE)
    told = desk.run("get", f"sftp://there{path}", "-o", "file", "-F", config(desk, openssh, f"  {line}\n"))
    done(told)
    assert told.report["ssh"][field] == value


@pytest.mark.parametrize("keyword", ["Ciphers", "MACs", "KexAlgorithms", "HostKeyAlgorithms"])
def test_a_file_that_leaves_no_algorithm_is_refused_in_one_line(desk: SftpBench, openssh: SftpServer, keyword: str) -> None:
    path = desk.give(openssh, SIZE)
    named = config(desk, openssh, f"  {keyword} something@example.com\n")
    code, _, stderr = desk.start("get", f"sftp://there{path}", "-o", "file", "-F", named, json=False).ended()
    assert code == 2
    is_one_clear_line(stderr.decode(), f"ssh_config's {keyword}")


def test_what_the_file_forbids_and_ferry_does_not_is_said_in_one_line(desk: SftpBench, openssh: SftpServer) -> None:
    path = desk.give(openssh, SIZE)
    named = config(desk, openssh, "  RequiredRSASize 4096\n  PubkeyAcceptedAlgorithms +ssh-rsa\n")
    code, _, stderr = desk.start("get", f"sftp://there{path}", "-o", "file", "-F", named, "-q", json=False).ended()
    assert code == 0
    is_one_clear_line(stderr.decode(), "RequiredRSASize", "not followed")
