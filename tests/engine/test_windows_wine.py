"""ferry.exe under Wine, on the loopback: it starts, moves bytes over each protocol, keeps files intact and refusals short.

Wine is not Windows: what is shown here is ferry's own part. `python -m lab.assets windows` builds ferry.exe, Wine is Debian's
wine64; where either is missing, these tests are skipped and say so.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.assets import windows, wine
from lab.servers.certificates import make_certificates
from tests.engine import sftp_servers
from tests.engine.harness import Told, failed
from tests.engine.sftp_harness import MIB, ONCE, SftpBench, content, digests, done, sha256
from tests.engine.sftp_servers import SftpServer, may_mount, person, write
from tests.support import faults, faulty_server
from tests.support.ports import free_port
from tests.support.tcp_proxy import proxy_to
from tests.support.waiting import until

SIZE = 3 * MIB + 17
PROTOCOLS = {"http1": ("plain", ()), "https1": ("good", ("--http1.1",)), "h2": ("good", ("--http2",))}


@pytest.fixture(scope="module")
def program(sftp_root: Path) -> Iterator[Path]:
    """A script that runs ferry.exe. No process of Wine is left after the tests."""
    ferry = windows.find()
    if ferry is None:
        pytest.skip("no ferry.exe: python -m lab.assets windows builds it")
    if wine.find_program() is None:
        pytest.skip(f"no Wine: {wine.remedy()}")
    if not windows.up_to_date():
        pytest.skip("ferry.exe is older than engine/: python -m lab.assets windows builds it")
    with wine.launcher(wine.ensure(print), ferry, sftp_root / "wine") as script:
        yield script


@pytest.fixture
def desk(sftp_root: Path, program: Path, ssh_keys: sftp_servers.Keys, request: pytest.FixtureRequest) -> Iterator[SftpBench]:
    word = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")[:60]
    folder = sftp_root / "clients" / word
    folder.mkdir(parents=True)
    person().owns(folder.parent, folder)
    made = SftpBench(program, folder, ssh_keys, word)
    yield made
    made.stop()


@dataclass
class Web:
    """The faulty server on the loopback."""

    folder: Path
    ports: dict[str, int]
    process: subprocess.Popen[bytes]

    def url(self, size: int = SIZE, at: str = "plain", fault: str = "honest", host: str = "127.0.0.1", port: int = 0) -> str:
        scheme = "http" if at == "plain" else "https"
        return f"{scheme}://{host}:{port or self.ports[at]}/{fault}/{size}"

    def log(self, what: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]
        assert not [line for line in lines if line["what"] == "fault of the server itself"]
        return [line for line in lines if line["what"] == what]


@pytest.fixture(scope="module")
def web(sftp_root: Path) -> Iterator[Web]:
    folder = sftp_root / "web"
    folder.mkdir()
    certificates = make_certificates(["127.0.0.1"])
    write(folder / "good.pem", certificates.server_key_pem + certificates.server_pem, 0o600)
    write(folder / "ca.pem", certificates.ca_pem)
    ports = {"plain": free_port(), "good": free_port()}
    argv = [sys.executable, "-I", faulty_server.__file__, str(folder), *(f"{port}={kind}" for kind, port in ports.items())]
    with subprocess.Popen(argv) as process:
        made = Web(folder, ports, process)
        until(lambda: all(answers(port) for port in ports.values()), "the web server listens")
        yield made
        process.terminate()


def answers(port: int) -> bool:
    probe = ["curl", "--silent", "--insecure", "--output", "/dev/null", "--max-time", "2"]
    urls = [f"http://127.0.0.1:{port}/honest/1", f"https://127.0.0.1:{port}/honest/1"]
    return any(subprocess.run([*probe, url], check=False).returncode == 0 for url in urls)


def moved(told: Told) -> dict[str, Any]:
    """The transfer of a run that did what it was asked to."""
    assert told.code == 0, f"exit code {told.code}: {told.error} {told.stderr}"
    return told.transfer


def test_it_starts_and_says_what_it_is(desk: SftpBench) -> None:
    code, out, err = desk.start("--version", json=False).ended()
    assert (code, out.decode().strip(), err) == (0, f"ferry {windows.version()}", b"")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_get_over_http(desk: SftpBench, web: Web, protocol: str) -> None:
    at, flags = PROTOCOLS[protocol]
    told = desk.run("get", "-o", "file", *flags, "--cacert", str(web.folder / "ca.pem"), web.url(at=at))
    assert moved(told)["protocol"] == ("h2" if protocol == "h2" else "http/1.1")
    assert (desk.folder / "file").read_bytes() == faults.content(SIZE)
    assert set(desk.files()) == {"file"}


def test_a_file_that_replaces_another_is_as_open_to_others(desk: SftpBench, web: Web) -> None:
    """Wine keeps what everyone may do as permissions of the file; everyone may read a new file of this desk."""
    for name, mode in (("shut", 0o600), ("open", 0o644)):
        desk.write(name, b"old")
        (desk.folder / name).chmod(mode)
        moved(desk.run("get", "-o", name, "--overwrite", web.url(1000)))
        assert (desk.folder / name).read_bytes() == faults.content(1000)
        assert (desk.folder / name).stat().st_mode & 0o004 == mode & 0o004


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_put_over_http(desk: SftpBench, web: Web, protocol: str) -> None:
    at, flags = PROTOCOLS[protocol]
    source = desk.source(SIZE)
    before = len(web.log("upload"))
    moved(desk.run("put", str(source), web.url(at=at), *flags, "--cacert", str(web.folder / "ca.pem")))
    assert [(upload["bytes"], upload["sha256"]) for upload in web.log("upload")[before:]] == [(SIZE, sha256(SIZE))]


def test_get_over_sftp(desk: SftpBench, openssh: SftpServer) -> None:
    done(desk.get(openssh, desk.give(openssh, 5 * MIB + 1)))
    assert desk.files() == {"file": sha256(5 * MIB + 1)}


def test_put_over_sftp(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.remote(openssh)
    done(desk.put(desk.source(5 * MIB + 1), openssh, there / "file"))
    assert digests(there) == {"file": sha256(5 * MIB + 1)}


@pytest.mark.parametrize("mode", ["auto", "off", "200K"])
@pytest.mark.parametrize("way", ["http", "sftp"])
def test_the_send_buffer_is_reported(desk: SftpBench, web: Web, openssh: SftpServer, way: str, mode: str) -> None:
    source = desk.source(SIZE)
    if way == "http":
        told = desk.run("put", str(source), web.url(), "--sndbuf", mode)
    else:
        told = desk.put(source, openssh, desk.remote(openssh) / "file", "--sndbuf", mode)
    facts = moved(told)["sndbuf"]
    if mode == "auto":
        # An answer, or the reason why there is no answer.
        assert facts["mode"] == "auto"
        assert facts["queries"] >= 1
        assert (facts["ideal_bytes"] is None) is (facts["refused"] is not None)
        if facts["ideal_bytes"] is not None:
            # What Windows begins with, and Wine always says, is not set.
            least = facts["ideal_bytes"] if facts["ideal_bytes"] > 65_536 else 0
            assert facts["final_bytes"] >= max(least, facts["initial_bytes"])
    else:
        assert (facts["queries"], facts["ideal_bytes"], facts["refused"]) == (0, None, None)
        assert facts["mode"] == ("off" if mode == "off" else "bytes")
        if mode == "off":
            assert facts["final_bytes"] == facts["initial_bytes"]
        else:
            assert facts["final_bytes"] >= 200 * 1024


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_refused_connection_is_reported_at_once(desk: SftpBench, web: Web, host: str) -> None:
    url = web.url(host=host, port=free_port())
    told = desk.run("get", "-o", "file", url)
    failed(told, "transient", "10061")
    assert len(told.attempts) == 1
    assert len(desk.run("get", "-o", "file", "--retry", "2", "--retry-max-wait", "50ms", url).attempts) == 3
    assert desk.files() == {}


def test_localhost_is_reached_without_a_resolver(desk: SftpBench, web: Web) -> None:
    told = desk.run("get", "-o", "file", web.url(host="any.localhost"))
    assert moved(told)["phases"]["dns_s"] is None


@pytest.mark.parametrize("protocol", ["http", "sftp"])
def test_a_reset_half_way_is_a_failure_and_then_goes_on(desk: SftpBench, web: Web, openssh: SftpServer, protocol: str) -> None:
    with proxy_to(web.ports["plain"] if protocol == "http" else openssh.port) as proxy:
        if protocol == "http":
            words = ["get", "-o", "file", web.url(8 * MIB, port=proxy.port)]
            expected = faults.content(8 * MIB)
        else:
            words = desk.get_words(openssh, desk.give(openssh, 8 * MIB), port=proxy.port)
            expected = content(8 * MIB)
        for more, code in ((ONCE, 10), (("--retry", "3", "--retry-max-wait", "50ms"), 0)):
            proxy.hold_after("down", 4 * MIB)
            ferry = desk.start(*words, *more)
            proxy.wait_held()
            proxy.reset()
            proxy.release()
            told = ferry.told()
            assert told.code == code, told.error
            if code:
                failed(told, "transient")
                assert not (desk.folder / "file").exists()
    assert (desk.folder / "file").read_bytes() == expected


def test_a_full_disk(desk: SftpBench, web: Web) -> None:
    if why := may_mount():
        pytest.skip(f"no small disk: this user may not mount one: {why}")
    small = desk.folder / "small"
    small.mkdir()
    script = 'code=0; "$@" || code=$?; ls -A small >listing; exit $code'
    mount = f'mount -t tmpfs -o size=1m,uid="$uid",gid="$gid" none {shlex.quote(str(small))}'
    before = person().in_own_mounts(mount, "/bin/sh", "-c", script, "sh")
    told = desk.start("get", "-o", "small/file", web.url(), "--retry", "2", before=before, dropped=False).told()
    failed(told, "local", "file")
    assert len(told.attempts) == 1
    assert "file" not in (desk.folder / "listing").read_text().splitlines()


NOT_FOR_WINDOWS = ("CON", "nul.txt", "aux", "com1.log", "LPT9", "dot.", "space ", "stream:x", "back\\slash", "what?")


def test_names_that_windows_reads_as_something_else(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.remote(openssh) / "tree"
    there.mkdir()
    person().owns(there)
    for name in (*NOT_FOR_WINDOWS, "console.txt", "good"):
        write(there / name, content(100))
    told = desk.get(openssh, there, "--recursive", output="tree")
    refused = [transfer["error"] for transfer in told.report["transfers"] if "error" in transfer]
    assert len(refused) == len(NOT_FOR_WINDOWS), told.report
    assert {error["class"] for error in refused} == {"permanent"}
    assert desk.files() == {"tree/console.txt": sha256(100), "tree/good": sha256(100)}


@pytest.mark.parametrize(
    "name",
    ["CON", "nul.txt", "COM1", "file.", "file ", "file:stream"],
    ids=["console", "null-with-suffix", "port", "dot", "space", "stream"],
)
def test_a_device_cannot_hold_a_file(desk: SftpBench, web: Web, name: str) -> None:
    failed(desk.run("get", "-o", name, web.url(100)), "local", "cannot be a file's name")
    assert desk.files() == {}


def test_the_null_device_takes_everything(desk: SftpBench, web: Web) -> None:
    assert moved(desk.run("get", "-o", "NUL", web.url(100)))["bytes"] == 100
    assert desk.files() == {}


@pytest.mark.parametrize("name", ["NUL", "con.txt", "file:stream"])
def test_a_url_names_no_device(desk: SftpBench, web: Web, name: str) -> None:
    told = desk.run("get", "-O", f"http://127.0.0.1:{web.ports['plain']}/{name}")
    assert (told.code, told.report) == (2, {}), told.report
    assert "no file name" in told.stderr
    assert desk.files() == {}


def test_a_file_is_replaced_only_on_request_and_completely(desk: SftpBench, web: Web) -> None:
    desk.write("file", b"old")
    failed(desk.run("get", "-o", "file", web.url(1000)), "local", "file")
    assert (desk.folder / "file").read_bytes() == b"old"
    moved(desk.run("get", "-o", "file", "--overwrite", web.url(1000)))
    assert (desk.folder / "file").read_bytes() == faults.content(1000)
    assert set(desk.files()) == {"file"}
