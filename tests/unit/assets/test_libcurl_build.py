"""The application on libcurl, compiled against this machine's: what it transfers, reports and refuses. Wheels are toys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lab.assets import curl_build, libcurl_build, tools
from lab.assets.curl_versions import Package
from lab.model import files
from lab.model.errors import LabFault, UsageProblem

BODY = os.urandom(300_000)


def quiet(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROUGHWATER_CACHE", str(tmp_path_factory.mktemp("cache")))
        program = libcurl_build.build(libcurl_build.SYSTEM, quiet)
        assert libcurl_build.build(libcurl_build.SYSTEM, quiet) == libcurl_build.find(libcurl_build.SYSTEM) == program
        return program


class Handler(BaseHTTPRequestHandler):
    """Serves BODY under every name but /missing, and keeps what is uploaded."""

    protocol_version = "HTTP/1.1"
    uploads: dict[str, tuple[bytes, str]]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        missing = self.path.startswith("/missing")
        self.send_response(404 if missing else 200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def do_PUT(self) -> None:
        body, length = b"", self.headers["Content-Length"]
        if length:
            body = self.rfile.read(int(length))
        else:
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        self.uploads[self.path] = (body, "sized" if length else "chunked")
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    Handler.uploads = {}
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    thread.join()
    made.server_close()


def run(application: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, report and error text."""
    done = subprocess.run(
        [application, *words], capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "no_proxy": "*"}
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("roughwater-libcurl ")]
    return done.returncode, json.loads(lines[-1].partition(" ")[2]) if lines else {}, done.stderr


WAYS: dict[str, list[str]] = {
    "easy": [],
    "poll": ["--multi"],
    "wait": ["--multi", "--wait", "wait", "--idle-ms", "1"],
    "select": ["--multi", "--wait", "select"],
    "sleep": ["--multi", "--wait", "sleep", "--every-ms", "2"],
    "coarse": ["--multi", "--tick-us", "5000"],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_download_is_complete_however_the_application_waits(application: Path, server: str, tmp_path: Path, way: str) -> None:
    code, report, said = run(
        application, *WAYS[way], "--http", "1.1", "--buffer", "4096", "get", f"{server}/a", f"{tmp_path}/out"
    )
    assert (code, said) == (0, "")
    assert (tmp_path / "out").read_bytes() == BODY
    assert (report["code"], report["bytes"], report["status"], report["http_version"]) == (0, len(BODY), 200, 2)
    assert report["interface"] == ("easy" if way == "easy" else "multi")
    assert report["largest_callback"] <= 4096
    assert report["callbacks"] >= len(BODY) / 4096
    assert 0 < report["first_byte_s"] <= report["last_byte_s"] <= report["total_s"]


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("way", ["easy", "poll"])
def test_an_upload_of_known_and_unknown_size(application: Path, server: str, tmp_path: Path, way: str, unknown: bool) -> None:
    source = tmp_path / "source"
    source.write_bytes(BODY)
    words = [*WAYS[way], *(["--unknown-size"] if unknown else []), "--http", "1.1", "--upload-buffer", "20000"]
    code, report, _ = run(application, *words, "put", f"{server}/up-{way}-{unknown}", str(source))
    assert (code, report["bytes"], report["status"]) == (0, len(BODY), 201)
    assert Handler.uploads[f"/up-{way}-{unknown}"] == (BODY, "chunked" if unknown else "sized")
    assert report["largest_callback"] <= 20000


@pytest.mark.parametrize(("parallel", "connections"), [(1, 1), (3, 3)])
def test_a_set_has_a_line_for_each_file(application: Path, server: str, tmp_path: Path, parallel: int, connections: int) -> None:
    (tmp_path / "out").mkdir()
    words = ["--multi", "--files", "7", "--parallel", str(parallel), "--each", "--http", "1.1"]
    done = subprocess.run(
        [application, *words, "get", f"{server}/", f"{tmp_path}/out/"], capture_output=True, text=True, check=True
    )
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"f{at:05d}" for at in range(7)]
    assert all(path.read_bytes() == BODY for path in (tmp_path / "out").iterdir())
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("roughwater-file ")] == [str(len(BODY))] * 7
    report = json.loads(lines[-1].partition(" ")[2])
    assert (report["done"], report["bytes"], report["connects"]) == (7, 7 * len(BODY), connections)


def test_the_limit_is_libcurls(application: Path, server: str, tmp_path: Path) -> None:
    """An upload, because downloads of Debian 12's 7.88.1 may read 1.6 MB before they keep any limit."""
    source = tmp_path / "source"
    source.write_bytes(BODY)
    code, report, _ = run(application, "--limit", "600000", "put", f"{server}/limited", str(source))
    assert code == 0
    assert report["total_s"] > 0.3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["get", "{server}/missing", "{folder}/out"], 22, "404"),
        (["get", "http://127.0.0.1:1/", "{folder}/out"], 7, "(7)"),
        (["get", "{server}/a", "{folder}/none/out"], 23, "none/out: No such file"),
        (["get", "{server}/a", "/dev/full"], 23, "(23)"),
        (["put", "{server}/a", "{folder}/none"], 26, "none: No such file"),
        (["--wait", "often", "get", "{server}/a", "{folder}/out"], 2, "--wait takes poll, wait, select or sleep, not often"),
        (["--buffer", "64k", "get", "{server}/a", "{folder}/out"], 2, "--buffer takes a number"),
        (["--parallel", "2", "get", "{server}/a", "{folder}/out"], 2, "--parallel needs --multi"),
        (["get", "{server}/a"], 2, "usage"),
    ],
)
def test_an_error_is_libcurls_code_and_one_line(
    application: Path, server: str, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    got, report, text = run(application, *(word.format(server=server, folder=tmp_path) for word in words))
    assert got == code
    assert said in text
    assert len(text.splitlines()) == 1
    assert report.get("code", 2) == code


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tools, "find", lambda _: None)
    with pytest.raises(UsageProblem, match="cannot be compiled without cc"):
        libcurl_build.build(libcurl_build.SYSTEM, quiet)


PIP = """\
#!/bin/sh
while [ "$1" != --dest ]; do shift; done
mkdir -p "$2" && cp {folder}/*.whl "$2/"
"""


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes a wheel of version 9.9.9 whose libcurl is this machine's."""
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    library = libcurl_build.system_library()
    assert library, "curl comes with its library"
    pip = tmp_path / "pip"
    pip.write_text(PIP.format(folder=tmp_path))
    pip.chmod(0o755)

    def make(inside: str) -> Path:
        path = tmp_path / "toy-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(library, inside)
        monkeypatch.setattr(sys, "executable", str(pip))
        said = subprocess.check_output(["curl", "-q", "--version"], text=True).split()[1]
        monkeypatch.setattr(libcurl_build, "LIBCURLS", {said: Package("toy", "1.0", files.digest(path), said, "any")})
        return path

    return make


def test_a_wheels_libcurl_is_loaded_from_the_cache(wheel: Callable[[str], Path]) -> None:
    wheel("toy.libs/libcurl.so.4")
    (version,) = libcurl_build.LIBCURLS
    program = libcurl_build.build(version, quiet)
    assert subprocess.check_output([program, "--version"], text=True).startswith(f"application on libcurl/{version} ")
    loaded = subprocess.check_output(["ldd", program], text=True)
    assert f"=> {program.parent}/lib/libcurl.so.4" in loaded
    assert libcurl_build.find(version) == program


def test_a_wheel_without_a_libcurl(wheel: Callable[[str], Path]) -> None:
    wheel("toy.libs/libother.so.4")
    (version,) = libcurl_build.LIBCURLS
    with pytest.raises(LabFault, match=r"toy 1\.0 of PyPI holds no libcurl"):
        libcurl_build.build(version, quiet)


def test_a_wheel_with_another_checksum(wheel: Callable[[str], Path]) -> None:
    path = wheel("toy.libs/libcurl.so.4")
    path.write_bytes(path.read_bytes() + b"x")
    (version,) = libcurl_build.LIBCURLS
    with pytest.raises(LabFault, match=r"checksum of toy-1\.0-py3-none-any\.whl"):
        libcurl_build.build(version, quiet)


def test_a_version_of_sources_is_built_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))

    def build(version: str, progress: Callable[[str], None], *, with_library: bool) -> Path:
        raise LabFault(f"asked for {version} {with_library}")

    monkeypatch.setattr(curl_build, "build", build)
    with pytest.raises(LabFault, match=r"asked for 8\.4\.0 True"):
        libcurl_build.build("8.4.0", quiet)
