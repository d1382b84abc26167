"""curl's data tests over SFTP, against OpenSSH's sshd, which curl's own runner starts for them too."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lab.clients.ferry import find_ferry
from tests.conformance import curl_command as rules
from tests.conformance.cases import Excluded, Outcome
from tests.conformance.curl_command import ExcludedError
from tests.conformance.curl_file import TestFile, read
from tests.conformance.curl_replies import is_over_ssh, tests
from tests.engine.sftp_servers import Keys, SftpServer, openssh, person, running, write

SCP = "SCP: ferry has SFTP only."
QUOTE = "`-Q`: commands for the server besides the transfer, which ferry has none of."
LISTING = "A listing of a directory is what is written: `ferry get -r` fetches its files."
MD5 = "A host key by its MD5, which can be forged: ferry's pins are SHA-256."
FOLDERS = "`--ftp-create-dirs`: of a URL for one file, ferry makes no folders."
COMPRESSION = "SSH's compression, which ferry does not ask for."

_EXCLUDED = {
    "-Q": QUOTE,
    "-I": rules.HEAD,
    "--head": rules.HEAD,
    "--hostpubmd5": MD5,
    "--ftp-create-dirs": FOLDERS,
    "--compressed-ssh": COMPRESSION,
}
_FEATURES = frozenset({"sftp", "SSL", "!SSPI", "libssh2", "!oldlibssh"})
_CLASSES = {
    # Access denied, bad range, another host key, login denied (by the server, or for a key that is not there), no such file.
    9: {11},
    36: {11, 12},
    60: {11},
    67: {11, 13},
    78: {11},
}
"""curl's exit codes, and those of ferry's that mean the same (docs/reference/ferry.md)."""
_PLAIN_FILE, _READ_ONLY_FILE = "Test file to support curl test suite\n", "Read-only test file to support curl test suite\n"
_IN_2000 = 946_728_000
_AT_THE_END_OF_2000 = 978_264_000
_PATIENCE_S = 60.0


@dataclass
class _Asked:
    """ferry's part of a test: one run for each URL."""

    urls: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    upload: str | None = None
    user: str = ""


def _translated(test: TestFile, server: SftpServer) -> _Asked:
    """Raises ExcludedError."""
    made, words = _Asked(), iter(shlex.split(test.text("client", "command").strip()))
    for word in words:
        if word in _EXCLUDED:
            raise ExcludedError(_EXCLUDED[word])
        match word:
            case "--key":
                path = next(words)
                made.words += ["--identity", str(server.folder / "user_key") if path.endswith("/curl_client_key") else path]
            case "--pubkey":
                next(words)
            case "-u":
                # An empty name (1459) is never sent: the host key comes first. ferry wants one before.
                made.user = next(words).partition(":")[0] or server.login
            case "-T":
                made.upload = next(words)
            case "-r":
                made.words += ["--range", next(words)]
            case "--connect-timeout":
                made.words += ["--timeout-connect", f"{next(words)}s"]
            case "--hostpubsha256":
                made.words += ["--pin", f"SHA256:{next(words).rstrip('=')}"]
            case "-l":
                pass
            case "--insecure" | "--remote-time":
                made.words.append(word)
            case _ if word.startswith("sftp://"):
                made.urls.append(word)
            case _:
                raise ExcludedError(rules.ANOTHER)
    return made


def _excluded(test: TestFile) -> str | None:
    """The rule by what the test says it needs."""
    if "scp" in test.words("client", "server"):
        return SCP
    if test.text("client", "tool").strip():
        return rules.PROGRAM
    if test.words("client", "server") != {"sftp"}:
        return rules.ANOTHER
    return None


def _variables(number: int, server: SftpServer, folder: Path) -> dict[str, str]:
    digest = hashlib.sha256(base64.b64decode(server.host_key.public.split()[1])).digest()
    return {
        "TESTNUMBER": str(number),
        "HOSTIP": "127.0.0.1",
        "SSHPORT": str(server.port),
        "SSHSRVSHA256": base64.b64encode(digest).decode(),
        "USER": server.login,
        "LOGDIR": "log",
        "SFTP_PWD": str(folder),
        "PWD": str(folder),
        # Nothing is run that these stand in front of.
        "PERL": "perl",
        "SRCDIR": "srcdir",
    }


def _prepare(test: TestFile, folder: Path) -> None:
    """The files that the test has, and the folder that its script makes (curl's tests/libtest/test613.pl)."""
    me = person()
    for path in (folder, folder / "log"):
        path.mkdir()
        me.owns(path)
    for found in re.finditer(r"test613\.pl prepare (\S+)", test.text("client", "precheck")):
        made = Path(found[1])
        (made / "asubdir").mkdir(parents=True)
        me.owns(made, made / "asubdir")
        for name, text, mode, time in (
            ("plainfile.txt", _PLAIN_FILE, 0o666, _IN_2000),
            ("rofile.txt", _READ_ONLY_FILE, 0o444, _AT_THE_END_OF_2000),
        ):
            path = write(made / name, text.encode(), mode)
            os.utime(path, (time, time))
    for (section, name), parts in test.parts.items():
        for part in parts if section == "client" and name.startswith("file") else ():
            path = folder / part.attributes["name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, part.data)


def _run(number: int, server: SftpServer) -> Outcome | Excluded:
    folder = server.home / str(number)
    test = read(number, tests()[number], _variables(number, server, folder), _FEATURES)
    try:
        if rule := _excluded(test):
            raise ExcludedError(rule)
        asked = _translated(test, server)
        if any(url.endswith("/") for url in asked.urls) and test.get("reply", "datacheck"):
            raise ExcludedError(LISTING)
        _prepare(test, folder)
        found = _judged(test, asked, folder)
    except ExcludedError as error:
        return Excluded(error.rule)
    return Outcome(f"test{number} {' '.join(test.text('client', 'name').split())}", found)


def _judged(test: TestFile, asked: _Asked, folder: Path) -> str:
    code = int(test.text("verify", "errorcode").strip() or 0)
    before = {path: path.read_bytes() for path in folder.rglob("*.txt")}
    written, done, said = b"", 0, ""
    for index, url in enumerate(asked.urls):
        out = folder / "log" / f"ferry-{index}.out"
        done, said = _ferry(_command(asked, url, out), folder)
        written += out.read_bytes() if out.is_file() else b""
    said = f"exit {done}: {said}"
    if code:
        if written or any(path.read_bytes() != text for path, text in before.items()):
            return f"changes a file where curl fails ({code}): {said}"
        return "" if done in _CLASSES[code] else f"ends otherwise than by curl's error {code}: {said}"
    if done:
        return f"refuses it: {said}"
    upload = test.get("verify", "upload")
    if upload:
        written = (folder / "log" / f"upload.{test.number}").read_bytes()
    wanted = upload or test.get("verify", "stdout") or test.get("reply", "data")
    if wanted and written != wanted.data:
        return f"writes {written[:120]!r}, not {wanted.data[:120]!r}"
    time = re.search(r"\[9\] != (\d+)", test.text("verify", "postcheck"))
    if time and int(out.stat().st_mtime) != int(time[1]):
        return f"gives the file the time {out.stat().st_mtime:.0f}"
    return ""


def _command(asked: _Asked, url: str, out: Path) -> list[str]:
    where = url.replace("sftp://", f"sftp://{asked.user}@", 1) if asked.user else url
    words = [*asked.words, "-F", "none", "--no-agent", "--retry", "0", "--no-progress"]
    if asked.upload:
        return ["put", asked.upload, where, *words]
    return ["get", where, *words, "-o", str(out), *(["-r"] if url.endswith("/") else [])]


def _ferry(command: list[str], folder: Path) -> tuple[int, str]:
    """Exit code and what it says."""
    # Where curl's own home would be: 1459 brings a known_hosts.
    (home, *_) = [*folder.glob("log/*.dir/.ssh"), folder / ".ssh"]
    env = {"HOME": str(home.parent), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [str(find_ferry()), *command], cwd=folder, env=env, capture_output=True, timeout=_PATIENCE_S, check=False
    )
    return done.returncode, done.stderr.decode(errors="replace").strip()


def curl_sftp() -> Iterator[Outcome | Excluded]:
    """Each test against a run of the program for each URL; one server for all of them, and a folder for each."""
    with tempfile.TemporaryDirectory(prefix="roughwater-curl-sftp-") as made:
        Path(made).chmod(0o755)
        person().owns(Path(made))
        keys = Keys()
        with running(openssh(Path(made), keys)) as server:
            key = server.folder / "user_key"
            key.write_bytes(keys.user.private)
            key.chmod(0o600)
            for number in sorted(number for number, text in tests().items() if is_over_ssh(text)):
                yield _run(number, server)
