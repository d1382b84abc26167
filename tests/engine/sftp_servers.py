"""SFTP servers on the loopback, each with keys of its own run: OpenSSH, ProFTPD, dropbear, AsyncSSH, and the odd one.

None of them runs as root: root's tests drop to `daemon`, an ordinary user's servers are that user's.
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lab.model.errors import LabFault
from lab.servers.sshd import KeyPair, known_hosts, make_key, render_config
from tests.support import sftp_programs
from tests.support.ports import free_port
from tests.support.waiting import until

_ODD = Path(__file__).parents[1] / "support" / "odd_sftp.py"
_STOP_S = 5.0


@dataclass(frozen=True)
class Person:
    """Who runs servers and ferry."""

    name: str
    uid: int
    gid: int
    # Tests of root run as another user: root may do everything, and its sshd would need a user and a folder.
    dropped: bool

    def start(self, argv: Sequence[str | Path], *, dropped: bool = True, **more: Any) -> subprocess.Popen[bytes]:
        who: dict[str, Any] = {"user": self.uid, "group": self.gid, "extra_groups": []} if self.dropped and dropped else {}
        made: subprocess.Popen[bytes] = subprocess.Popen([str(word) for word in argv], start_new_session=True, **who, **more)
        return made

    def owns(self, *paths: Path) -> None:
        for path in paths:
            os.chown(path, self.uid, self.gid)

    def in_own_mounts(self, script: str, *words: str | Path) -> list[str]:
        """A command that runs `script` where it may mount, then `words` as this person; what is mounted is gone with it."""
        unshare = ["unshare", "--mount", "--propagation", "private"]
        then = 'exec setpriv --reuid "$uid" --regid "$gid" --clear-groups -- "$@"' if self.dropped else 'exec "$@"'
        if not self.dropped:
            unshare += ["--map-current-user", "--keep-caps"]
        line = f"uid={self.uid} gid={self.gid}; {script}\n{then}"
        return [*unshare, "--", "/bin/sh", "-ec", line, "sh", *(str(word) for word in words)]


@cache
def person() -> Person:
    # Not `nobody`: with nss-systemd that account is locked, and sshd refuses it.
    entry = pwd.getpwnam("daemon") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    return Person(entry.pw_name, entry.pw_uid, entry.pw_gid, os.geteuid() == 0)


@cache
def may_mount() -> str:
    """Why not; empty when this user may mount things in a namespace of its own."""
    probe = person().in_own_mounts("mount -t tmpfs -o size=64k none /mnt", "true")
    done = subprocess.run(probe, capture_output=True, check=False)
    return done.stderr.decode(errors="replace").strip() if done.returncode else ""


@dataclass(frozen=True)
class Keys:
    """The servers of a test session."""

    user: KeyPair = field(default_factory=make_key)
    stranger: KeyPair = field(default_factory=make_key)


@dataclass
class SftpServer:
    """`home` is a folder that the login may write to; URLs name its absolute path. `remake` starts the same again on its port."""

    name: str
    folder: Path
    port: int
    keys: Keys
    argv: list[str]
    login: str
    as_person: bool = True
    env: dict[str, str] = field(default_factory=dict)
    host_key: KeyPair = field(default_factory=make_key)
    process: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def known_hosts(self) -> str:
        return known_hosts(["127.0.0.1"], self.port, self.host_key)

    def url(self, path: Path | str, *, port: int | None = None, login: str = "") -> str:
        """`path` is absolute."""
        return f"sftp://{login or self.login}@127.0.0.1:{port or self.port}{path}"

    def start(self) -> None:
        """Returns when it says who it is."""
        with self.log.open("ab") as log:
            more: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "cwd": self.folder}
            environment = {**os.environ, **self.env}
            if self.as_person:
                self.process = person().start(self.argv, env=environment, **more)
            else:
                self.process = subprocess.Popen(self.argv, start_new_session=True, env=environment, **more)
        until(self._answers, f"{self.name} answers")

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise LabFault(f"{self.name} ended ({self.process.returncode}): {self.log.read_text(errors='replace')[-2000:]}")
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5.0) as sock:
                return sock.recv(4) == b"SSH-"
        except OSError:
            return False

    def kill(self) -> None:
        """Kill all processes at once, those in other sessions too, without a shutdown."""
        if self.process is None or self.process.poll() is not None:
            return
        os.kill(self.process.pid, signal.SIGSTOP)
        for pid in [*descendants(self.process.pid), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(_STOP_S)

    stop = kill


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text()
            children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(text.split(" ", 1)[0]))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        more = children.get(waiting.pop(), [])
        found += more
        waiting += more
    return found


def _prepare(name: str, root: Path, keys: Keys) -> SftpServer:
    """A folder with `home` in it, the host's key, and who may log in."""
    folder = root / name
    made = SftpServer(name, folder, free_port(), keys, [], person().name)
    made.home.mkdir(parents=True)
    made.log.touch()
    write(folder / "host_key", made.host_key.private, 0o600)
    write(folder / "authorized_keys", f"{keys.user.public}\n".encode(), 0o600)
    person().owns(folder, made.home, made.log)
    return made


def write(path: Path, data: bytes, mode: int = 0o644) -> Path:
    """A file of the person's."""
    path.write_bytes(data)
    path.chmod(mode)
    person().owns(path)
    return path


def openssh(
    root: Path,
    keys: Keys,
    *,
    name: str = "openssh",
    sessions: int = 10,
    full: bool = False,
    forwards: bool = False,
    open_files: int = 0,
) -> SftpServer:
    """`full`: its home is a file system of 1 MiB of its own. `forwards`: it may be a jump host. `open_files`: RLIMIT_NOFILE."""
    made = _prepare(name, root, keys)
    sshd = sftp_programs.copied(sftp_programs.find("sshd"), root)
    config = render_config(made.folder, port=made.port, bind="127.0.0.1")
    assert "MaxSessions 100\n" in config
    config = config.replace("MaxSessions 100\n", f"MaxSessions {sessions}\n")
    if forwards:
        assert "AllowTcpForwarding no\n" in config
        config = config.replace("AllowTcpForwarding no\n", "AllowTcpForwarding yes\n")
    write(made.folder / "sshd_config", config.encode())
    made.argv = [str(sshd), "-D", "-e", "-f", str(made.folder / "sshd_config")]
    if open_files:
        made.argv = ["prlimit", f"--nofile={open_files}", *made.argv]
    if full:
        mount = f'mount -t tmpfs -o size=1m,uid="$uid",gid="$gid" none {shlex.quote(str(made.home))}'
        made.argv, made.as_person = person().in_own_mounts(mount, *made.argv), False
    return made


def proftpd(root: Path, keys: Keys) -> SftpServer:
    made = _prepare("proftpd", root, keys)
    program = sftp_programs.copied(sftp_programs.find("proftpd"), root)
    modules = next(folder for folder in program.parents if (folder / "usr").is_dir()) / "usr/lib/proftpd"
    me = person()
    write(made.folder / "passwd", f"{me.name}:!:{me.uid}:{me.gid}::{made.home}:/bin/sh\n".encode(), 0o600)
    body = keys.user.public.split()[1]
    rfc4716 = f"---- BEGIN SSH2 PUBLIC KEY ----\n{body}\n---- END SSH2 PUBLIC KEY ----\n"
    write(made.folder / "authorized_keys", rfc4716.encode(), 0o600)
    config = f"""\
ModulePath {modules}
LoadModule mod_sftp.c
ServerType standalone
ServerName tests
DefaultAddress 127.0.0.1
SocketBindTight on
Port {made.port}
User {me.name}
Group {grp.getgrgid(me.gid).gr_name}
UseIPv6 off
UseReverseDNS off
WtmpLog off
TransferLog none
ControlsEngine off
SystemLog {made.folder}/system.log
ScoreboardFile {made.folder}/scoreboard
PidFile {made.folder}/pid
DelayEngine off
RequireValidShell off
AuthOrder mod_auth_file.c
AuthUserFile {made.folder}/passwd
AllowOverwrite on
AllowStoreRestart on
AllowRetrieveRestart on
SFTPEngine on
SFTPHostKey {made.folder}/host_key
SFTPAuthMethods publickey
SFTPAuthorizedUserKeys file:{made.folder}/authorized_keys
SFTPLog {made.folder}/sftp.log
"""
    write(made.folder / "proftpd.conf", config.encode())
    made.argv = [str(program), "--nodaemon", "--quiet", "--config", str(made.folder / "proftpd.conf")]
    return made


def dropbear(root: Path, keys: Keys) -> SftpServer:
    """dropbear with OpenSSH's sftp-server. It looks for keys in the home folder from passwd, so it gets another passwd."""
    if why := may_mount():
        raise sftp_programs.LackingError(f"dropbear needs a passwd of its own, and this user may not mount one: {why}")
    made = _prepare("dropbear", root, keys)
    program = sftp_programs.copied(sftp_programs.find("dropbear"), root)
    server = sftp_programs.copied(sftp_programs.find("sftp-server"), root)
    convert = sftp_programs.copied(sftp_programs.find("dropbearconvert"), root)
    me = person()
    for command in (["mkdir", "-m", "700", ".ssh"], ["cp", "authorized_keys", ".ssh/authorized_keys"]):
        assert me.start(command, cwd=made.folder).wait(_STOP_S) == 0
    key: list[str | Path] = [convert, "openssh", "dropbear", made.folder / "host_key", made.folder / "dropbear_key"]
    code = me.start(key, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait(_STOP_S)
    if code:
        raise LabFault(f"dropbearconvert cannot read the host key ({code})")
    shutil.copy("/etc/passwd", made.folder / "passwd")
    lines = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith(f"{me.name}:")]
    write(made.folder / "passwd", "\n".join([*lines, f"{me.name}:x:{me.uid}:{me.gid}::{made.folder}:/bin/sh", ""]).encode())
    words: list[str | Path] = [program, "-F", "-E", "-s", "-j", "-k", "-p", f"127.0.0.1:{made.port}", "-P", made.folder / "pid"]
    words += ["-r", made.folder / "dropbear_key", "-c", str(server)]
    made.argv = me.in_own_mounts(f"mount --bind {shlex.quote(str(made.folder / 'passwd'))} /etc/passwd", *words)
    made.as_person = False
    return made


def asyncssh(root: Path, keys: Keys) -> SftpServer:
    """Its own SFTP server, as it comes."""
    return _scripted("asyncssh", "stock", root, keys)


@dataclass
class Odd:
    """The server whose login names what is odd about it; `log` tells what it was asked."""

    server: SftpServer
    since: int = 0

    def asked(self, what: str = "request") -> list[dict[str, Any]]:
        """By the test that is running."""
        lines = [json.loads(line) for line in self.server.log.read_text().splitlines()[self.since :] if line.startswith("{")]
        own = [line for line in lines if line["what"] == "fault of the server itself"]
        if own:
            raise LabFault(f"the odd server has a fault that was not asked for: {own}")
        return [line for line in lines if line["what"] == what]

    def mark(self) -> None:
        self.since = len(self.server.log.read_text().splitlines())


def odd(root: Path, keys: Keys) -> SftpServer:
    return _scripted("odd", "odd", root, keys)


def _scripted(name: str, kind: str, root: Path, keys: Keys) -> SftpServer:
    made = _prepare(name, root, keys)
    # As the user of the tests, who can read the environment.
    made.as_person = False
    made.argv = [sys.executable, "-I", str(_ODD), kind, str(made.folder), str(made.port)]
    return made


KINDS: dict[str, Callable[[Path, Keys], SftpServer]] = {
    "openssh": openssh,
    "proftpd": proftpd,
    "dropbear": dropbear,
    "asyncssh": asyncssh,
}


@contextlib.contextmanager
def running(server: SftpServer) -> Iterator[SftpServer]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


def openssh_client(server: SftpServer, batch: str, *, port: int | None = None, login: str = "") -> str:
    """What OpenSSH's own `sftp` says to a batch: the proof of a server. Raises LabFault when it failed."""
    folder = server.folder
    identity = write(folder / "client_key", server.keys.user.private, 0o600)
    hosts = write(folder / "client_hosts", known_hosts(["127.0.0.1"], port or server.port, server.host_key).encode())
    options = [
        "IdentitiesOnly=yes", "BatchMode=yes", "StrictHostKeyChecking=yes", f"UserKnownHostsFile={hosts}",
        "GlobalKnownHostsFile=/dev/null", "ConnectTimeout=10",
    ]  # fmt: skip
    words = ["sftp", "-q", "-F", "/dev/null", "-i", str(identity), "-P", str(port or server.port), "-b", "-"]
    for option in options:
        words += ["-o", option]
    began = time.monotonic()
    process = person().start(
        [*words, f"{login or server.login}@127.0.0.1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
    )
    output, _ = communicate(process, batch.encode(), 30.0)
    text = output.decode(errors="replace")
    if process.returncode:
        raise LabFault(f"OpenSSH's sftp against {server.name} ({process.returncode}, {time.monotonic() - began:.1f} s): {text}")
    return text


def communicate(process: subprocess.Popen[bytes], stdin: bytes | None, timeout_s: float) -> tuple[bytes, bytes]:
    """Run a command; on a timeout, kill its process group."""
    try:
        return process.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()
