"""Every call to the system fails once: no panic, no wrong file, the right class of error, in every protocol and direction."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.clients.ferry import find_ferry
from lab.servers.certificates import make_certificates
from tests.engine.harness import sha256
from tests.engine.sftp_harness import SftpBench
from tests.engine.sftp_servers import SftpServer, person
from tests.support import faults
from tests.support.torture import Attempt, Rack, build
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(900)

_SERVER = Path(__file__).parents[1] / "support" / "faulty_server.py"
SIZE = 50_000
NEW, OLD = faults.content(SIZE), b"old" * 1000
# Retries would hide the class; the other tests of faults have them.
FLAGS = ("--retry", "0", "--stall", "2s", "--timeout-connect", "2s", "--timeout-first-byte", "2s", "--json=-")
# By what failed: the exit codes that are right, besides those of a run without a failure: ferry did without the call.
# 2: the file that --cacert, --identity or --known-hosts names.
RIGHT = {"file": {2, 13}, "socket": {10}, "system": {10, 13}}
EXIT_CODES = {0, 2, 10, 11, 12, 13}


@pytest.fixture(scope="module")
def shim(sftp_root: Path) -> Path:
    return build(sftp_root)


@dataclass(frozen=True)
class Web:
    port: int
    folder: Path

    def url(self, word: str) -> str:
        return f"https://127.0.0.1:{self.port}/honest/{SIZE}?run={word}"

    def uploads(self) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]
        return [line for line in lines if line["what"] == "upload"]


@pytest.fixture(scope="module")
def web(sftp_root: Path) -> Iterator[Web]:
    folder = sftp_root / "web"
    folder.mkdir()
    made = make_certificates(["127.0.0.1"])
    (folder / "good.pem").write_bytes(made.server_key_pem + made.server_pem)
    (folder / "ca.pem").write_bytes(made.ca_pem)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-I", _SERVER, folder, f"{port}=good"])

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(listens, "the server listens")
        yield Web(port, folder)
    finally:
        process.kill()
        process.wait()


def judge(attempt: Attempt, whole: bool, ends: tuple[int, ...]) -> str | None:
    """What is wrong with a run, if anything is. `whole`: the file is the old or the new one, and the new one with exit code 0."""
    what = f"{attempt.failed}: exit code {attempt.code}: {attempt.stderr.strip()[-300:]}"
    if attempt.failed is None:
        return None if whole else f"nothing failed, and {what}"
    if "panicked" in attempt.stderr or attempt.code not in EXIT_CODES:
        return f"PANIC or signal: {what}" if attempt.code != 124 else f"HANGS: {what}"
    if not whole:
        return f"WRONG FILE: {what}"
    if attempt.code not in RIGHT[attempt.failed.kind].union(ends):
        return f"wrong class: {what}"
    report = attempt.stdout.strip()
    if report and json.loads(report)["exit_code"] != attempt.code:
        return f"another exit code in the report: {what}"
    return None


def torture(rack: Rack, whole: Callable[[Attempt], bool], how: str) -> None:
    began, faulty, seen = time.monotonic(), [], Counter[int]()
    for attempt in rack.every_call(how):
        fault = judge(attempt, whole(attempt), rack.ends)
        seen[attempt.code] += attempt.failed is not None
        if fault:
            faulty.append(fault)
    print(f"{sum(seen.values())} calls failed, exit codes {dict(seen)}, {time.monotonic() - began:.1f} s")
    assert not faulty, f"{len(faulty)} of {sum(seen.values())}:\n" + "\n".join(faulty)


HOW = pytest.mark.parametrize("how", ["error", "interrupted"])


@HOW
@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_http_get(web: Web, shim: Path, tmp_path: Path, version: str, how: str) -> None:
    def command(folder: Path) -> list[str]:
        flags = ["--cacert", str(web.folder / "ca.pem"), version, *FLAGS]
        return [str(find_ferry()), "get", "--overwrite", "-o", "file", web.url(folder.name), *flags]

    def whole(attempt: Attempt) -> bool:
        data = (attempt.folder / "file").read_bytes()
        return data == NEW or (attempt.code != 0 and data == OLD)

    torture(Rack(shim, tmp_path, lambda folder: (folder / "file").write_bytes(OLD) and None, command), whole, how)


@HOW
@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_http_put(web: Web, shim: Path, tmp_path: Path, version: str, how: str) -> None:
    def command(folder: Path) -> list[str]:
        flags = ["--cacert", str(web.folder / "ca.pem"), version, *FLAGS]
        return [str(find_ferry()), "put", "source", web.url(f"{tmp_path.name}-{folder.name}"), *flags]

    def whole(attempt: Attempt) -> bool:
        taken = [line["sha256"] for line in web.uploads() if line["run"] == f"{tmp_path.name}-{attempt.folder.name}"]
        return attempt.code != 0 or taken == [sha256(SIZE)]

    torture(Rack(shim, tmp_path, lambda folder: (folder / "source").write_bytes(NEW) and None, command), whole, how)


@HOW
@pytest.mark.parametrize("direction", ["get", "put"])
def test_sftp(openssh: SftpServer, desk: SftpBench, shim: Path, direction: str, how: str) -> None:
    root, remote = desk.folder, desk.remote(openssh)
    given = desk.give(openssh, SIZE)
    data = given.read_bytes()

    def prepare(folder: Path) -> None:
        ours = folder / ("file" if direction == "get" else "source")
        ours.write_bytes(OLD if direction == "get" else data)
        person().owns(ours)
        if direction == "put":
            theirs = remote / folder.name
            theirs.write_bytes(OLD)
            person().owns(theirs)

    if direction == "get":
        words = desk.get_words(openssh, given, "--overwrite", *FLAGS)
    else:
        words = desk.put_words(Path("source"), openssh, remote / "FOLDER", *FLAGS)

    def command(folder: Path) -> list[str]:
        return [str(desk.program), *(word.replace("FOLDER", folder.name) for word in words)]

    def whole(attempt: Attempt) -> bool:
        found = (attempt.folder / "file" if direction == "get" else remote / attempt.folder.name).read_bytes()
        return found == data or (attempt.code != 0 and found == OLD)

    who: dict[str, object] = {"user": person().uid, "group": person().gid, "extra_groups": []} if person().dropped else {}
    torture(Rack(shim, root, prepare, command, lambda folder: person().owns(folder), who), whole, how)


def _other_name() -> str | None:
    """A name of this machine that is not localhost, which ferry knows without asking."""
    lines = (line.split("#")[0].split() for line in Path("/etc/hosts").read_text().splitlines())
    names = (name for _, *names in filter(None, lines) for name in names)
    return next((name for name in names if name.rsplit(".", 1)[-1] != "localhost"), None)


@HOW
def test_a_name(shim: Path, tmp_path: Path, how: str) -> None:
    """It takes the resolver, and the thread that asks it. The port is closed."""
    name = _other_name()
    if name is None:
        pytest.skip("/etc/hosts has localhost only, and a name server is nothing to test with")

    def command(_: Path) -> list[str]:
        return [str(find_ferry()), "get", "-o", "file", f"http://{name}:1/", *FLAGS]

    rack = Rack(shim, tmp_path, lambda _: None, command, ends=(10,))
    torture(rack, lambda attempt: attempt.code != 0 and not (attempt.folder / "file").exists(), how)
