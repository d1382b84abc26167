"""The application on libcurl as a client: its command lines, its report, and the file that describes one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.assets import libcurl_build, store
from lab.clients import versions
from lab.clients.adapter import UnreadableReportError
from lab.clients.libcurl import Libcurl
from lab.clients.registry import resolve
from lab.hosts.host import Completed
from lab.model.client import ClientFile
from lab.model.endpoints import Endpoints
from lab.model.errors import UsageProblem
from lab.model.libcurl import LibcurlSettings
from lab.model.load import parse_model
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import ByteRate, Size

ENDS = Endpoints("server", "/run/lab/server", "/run/lab/client", "/c/ca.pem", "/c/.ssh/known_hosts", "/c/.ssh/key")
ENDS = ENDS.for_sample("5MiB", "7-5MiB")
REPORT = {
    "libcurl": "libcurl/8.4.0 OpenSSL/3.0.19",
    "interface": "easy",
    "code": 0,
    "error": "",
    "done": 1,
    "bytes": 5242880,
    "status": 200,
    "http_version": 2,
    "connects": 1,
    "time_namelookup": 0.0001,
    "time_connect": 0.0201,
    "time_appconnect": 0.0,
    "time_pretransfer": 0.0202,
    "first_byte_s": 0.0402,
    "last_byte_s": 2.6502,
    "total_s": 2.6503,
    "callbacks": 320,
    "largest_callback": 16384,
    "turns": 0,
}


def transfer(protocol: str = "http1", direction: str = "get", **more: Any) -> Transfer:
    return Transfer.model_validate({"protocol": protocol, "direction": direction, "size": Size(5 << 20), **more})


def client(version: str = "8.4.0", **settings: Any) -> Libcurl:
    return Libcurl(f"libcurl@{version}", "/x/app", LibcurlSettings.model_validate(settings), version=version)


def said(*lines: str, **changes: object) -> Completed:
    text = "\n".join((*lines, "", f"roughwater-libcurl {json.dumps({**REPORT, **changes})}", ""))
    return Completed(("app",), 0, text.encode(), b"", 0, 3, 0.0, 0.0)


@pytest.mark.parametrize(
    ("settings", "wanted", "words"),
    [
        ({}, transfer(), "--http 1.1 get http://server/files/5MiB /run/lab/client/out/5MiB"),
        (
            {"interface": "multi", "wait": "sleep", "every": "50 ms", "receive_window": "64 KiB", "timer": "15.625 ms"},
            transfer(limit=ByteRate(1_000_000)),
            "--multi --wait sleep --every-ms 50 --tick-us 15625 --receive-window 65536 --limit 1000000 --http 1.1 get "
            "http://server/files/5MiB /run/lab/client/out/5MiB",
        ),
        (
            {"interface": "multi", "wait": "wait", "idle": "100 ms"},
            transfer("h2", discard=True, files=9, parallel=3),
            "--multi --wait wait --every-ms 1000 --idle-ms 100 --files 9 --parallel 3 --http 2 --cacert /c/ca.pem get "
            "https://server/files/5MiB /dev/null",
        ),
        (
            {"wait": "sleep"},
            transfer(files=9, parallel=3, limit=ByteRate(1_000_000)),
            "--multi --wait sleep --every-ms 1000 --limit 1000000 --files 9 --parallel 3 --each --http 1.1 get "
            "http://server/files/5MiB/ /run/lab/client/out/5MiB/",
        ),
        (
            {"buffer": "1 KiB", "upload_buffer": "1 MiB", "unknown_size": True, "send_window": "64 KiB"},
            transfer("https1", "put"),
            "--buffer 1024 --upload-buffer 1048576 --send-window 65536 --unknown-size --http 1.1 --cacert /c/ca.pem put "
            "https://server/upload/7-5MiB /run/lab/client/files/5MiB",
        ),
        (
            {"no_delay": False},
            transfer("sftp", buffer_size=Size(65536)),
            "--buffer 65536 --nagle --user lab --key /c/.ssh/key --pubkey /c/.ssh/key.pub --known-hosts /c/.ssh/known_hosts get "
            "sftp://server/run/lab/server/files/5MiB /run/lab/client/out/5MiB",
        ),
        (
            {"buffer": "1 KiB", "upload_buffer": "1 MiB"},
            transfer("sftp", "put", files=10, buffer_size=Size(65536)),
            "--buffer 65536 --upload-buffer 65536 --files 10 --user lab --key /c/.ssh/key --pubkey /c/.ssh/key.pub --known-hosts "
            "/c/.ssh/known_hosts put sftp://server/run/lab/server/upload/7-5MiB/ /run/lab/client/files/5MiB/",
        ),
    ],
)
def test_the_command_line_has_the_settings_and_the_transfer(settings: dict[str, Any], wanted: Transfer, words: str) -> None:
    assert client(**settings).command(wanted, ENDS) == ["/x/app", *words.split()]


@pytest.mark.parametrize(
    ("version", "wanted", "problem"),
    [
        ("8.4.0", transfer(buffer_size=Size(16 << 20)), "libcurl@8.4.0 takes 1 KiB to 10 MiB as CURLOPT_BUFFERSIZE"),
        ("7.86.0", transfer(buffer_size=Size(1 << 20)), "libcurl@7.86.0 takes 1 KiB to 512 KiB as CURLOPT_BUFFERSIZE"),
        ("debian", transfer(buffer_size=Size(1 << 20)), ""),
        ("8.4.0", transfer(direction="put", buffer_size=Size(4096)), "takes 16 KiB to 2 MiB as CURLOPT_UPLOAD_BUFFERSIZE"),
        ("8.4.0", transfer("sftp", "put", buffer_size=Size(2 << 20)), ""),
        ("7.61.1", transfer(direction="put", buffer_size=Size(65536)), "has no CURLOPT_UPLOAD_BUFFERSIZE (since 7.62.0)"),
        ("8.4.0-libssh2-1.9.0", transfer(buffer_size=Size(1 << 20)), ""),
    ],
)
def test_a_buffer_that_libcurl_would_silently_change_is_refused(version: str, wanted: Transfer, problem: str) -> None:
    assert problem in client(version).supports(wanted)
    assert bool(problem) == bool(client(version).supports(wanted))


def test_a_version_without_sftp_says_so() -> None:
    adapter = Libcurl("libcurl@7.84.0", "/x/app", lacks=versions.lacks("libcurl@7.84.0"), version="7.84.0")
    assert adapter.supports(transfer("sftp")) == "libcurl@7.84.0 was built without sftp"
    assert adapter.supports(transfer("h2", files=4, parallel=4)) == ""


def test_a_report_becomes_numbers() -> None:
    numbers = client().parse(transfer(), said())
    assert (numbers.bytes, numbers.total_s, numbers.first_byte_s, numbers.connect_s) == (5242880, 2.6503, 0.0402, 0.0201)
    assert (numbers.http_version, numbers.status, numbers.tls_s) == ("1.1", 200, None)
    assert client().body_start_s(transfer(), numbers) == 0.0402
    assert client().body_seconds(transfer(), numbers) == pytest.approx(2.61)


def test_an_uploads_body_ends_a_round_trip_before_its_answer() -> None:
    wanted = transfer(direction="put")
    numbers = client().parse(wanted, said())
    assert client().body_seconds(wanted, numbers) == pytest.approx(2.6503 - 0.0202 - 0.02)


def test_a_sets_upload_does_not_end_with_the_last_byte_that_libcurl_took() -> None:
    wanted = transfer("sftp", "put", files=10)
    numbers = client().parse(wanted, said(last_byte_s=1.0))
    assert client().body_seconds(wanted, numbers) == pytest.approx(2.6503 - 0.0202 - 2 * 0.02)


def test_limited_files_have_a_rate_each() -> None:
    wanted = transfer(files=2, parallel=2, limit=ByteRate(1_000_000))
    lines = ("roughwater-file 5242880 0.0 1.0 6.0 6.1", "roughwater-file 5242880 0.0 1.0 5.0 5.1")
    numbers = client().parse(wanted, said(*lines, done=2, bytes=10485760))
    assert numbers.stream_byte_s == [5242880 / 5, 5242880 / 4]
    assert client().body_seconds(wanted, numbers) is None


@pytest.mark.parametrize(
    ("completed", "problem"),
    [
        (Completed(("app",), 0, b"hello", b"", 0, 1, 0.0, 0.0), "no report"),
        (said(total_s=-1), "impossible"),
        (said(bytes="many"), "cannot be read"),
        (said(done=3), "3 of 1"),
        (Completed(("app",), 0, b"roughwater-libcurl [1]\n", b"", 0, 1, 0.0, 0.0), "cannot be read"),
    ],
)
def test_an_unreadable_report_is_the_clients_fault(completed: Completed, problem: str) -> None:
    with pytest.raises(UnreadableReportError, match=problem):
        client().parse(transfer(), completed)


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of the application on 8.4.0, in a cache of the test's own."""
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    for version in ("8.4.0", "debian"):
        directory = libcurl_build.place(version)
        directory.mkdir(parents=True)
        (directory / libcurl_build.PROGRAM).write_text(version)
        store.write_manifest(directory, {}, store.digests(directory))
    return str(libcurl_build.place("8.4.0") / libcurl_build.PROGRAM)


DESCRIBED = """\
name: windows-app
libcurl:
  interface: multi
  wait: sleep
  every: 50 ms
  receive_window: 64 KiB
notes: [as on Windows]
"""
SLOW = LibcurlSettings.model_validate({"interface": "multi", "wait": "sleep", "every": "50 ms", "receive_window": "64 KiB"})


def test_a_file_describes_an_application(built: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "clients"
    folder.mkdir()
    (folder / "windows-app.yaml").write_text(DESCRIBED)
    monkeypatch.setenv("ROUGHWATER_CLIENTS", str(folder))
    expected = Libcurl("windows-app@8.4.0", built, SLOW, version="8.4.0", notes=("as on Windows",))
    assert resolve(ClientSpec.parse("windows-app@8.4.0")) == expected
    assert resolve(ClientSpec.parse(f"windows-app@8.4.0={folder}/windows-app.yaml")) == expected
    default = resolve(ClientSpec.parse(f"{folder}/windows-app.yaml"))
    assert isinstance(default, Libcurl)
    assert (default.name, default.version, default.settings) == ("windows-app", "debian", SLOW)
    assert resolve(ClientSpec.parse("windows-app")) == default
    own = resolve(ClientSpec.parse("windows-app-of-mine=/opt/app"))
    assert isinstance(own, Libcurl)
    assert (own.name, own.program, own.settings) == ("windows-app-of-mine", "/opt/app", expected.settings)
    with pytest.raises(UsageProblem, match=r"windows-app 8\.5\.0 has not been built") as caught:
        versions.program("windows-app@8.5.0")
    assert caught.value.remedy == "lab client build windows-app@8.5.0"


def test_libcurl_by_name(built: str) -> None:
    assert resolve(ClientSpec.parse("libcurl@8.4.0")) == Libcurl("libcurl@8.4.0", built, version="8.4.0")
    plain = resolve(ClientSpec.parse("libcurl"))
    assert isinstance(plain, Libcurl)
    assert plain.program == str(libcurl_build.find("debian"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("libcurl: {wait: often}", "'poll', 'wait', 'select' or 'sleep'"),
        ("libcurl: {interface: multi, wait: sleep, every: 0 ms}", "every of 1 ms or more"),
        ("libcurl: {every: 1.5 ms}", "counts milliseconds"),
        ("libcurl: {idle: 10 ms}", "idle is a part of wait: wait"),
        ("libcurl: {timer: 2 s}", "timer is at most 1 s"),
        ("libcurl: {}\nget: app {url}", "has name, libcurl and notes, and no get"),
    ],
)
def test_a_wrong_description_is_one_line(text: str, problem: str) -> None:
    with pytest.raises(UsageProblem, match=problem) as caught:
        parse_model(ClientFile, f"name: mine\n{text}\n", "mine.yaml")
    assert "\n" not in str(caught.value)
