"""The program that drives a wheel's libcurl, here over this machine's: every word the adapter says, and real HTTP transfers."""

from __future__ import annotations

import ctypes.util
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from lab.assets import libcurl_cli
from lab.clients.curl import WRITE_OUT, Curl
from lab.hosts.host import Completed
from lab.model.endpoints import Endpoints
from lab.model.results import ClientNumbers
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size

ENDS = Endpoints("server", "/run/lab/server", "/run/lab/client", "/c/ca.pem", "/c/.ssh/known_hosts", "/c/.ssh/key")
BODY = bytes(range(256)) * 2000
GET = Transfer(protocol="http1", direction="get", size=Size(len(BODY)))
PUT = GET.model_copy(update={"direction": "put"})


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver as in the cache: next to the folder of a libcurl."""
    name = ctypes.util.find_library("curl")
    assert name, "curl comes with its library"
    folder = tmp_path_factory.mktemp("curl")
    (folder / "lib").mkdir()
    (folder / "lib" / name).symlink_to(Path("/usr/lib/x86_64-linux-gnu") / name)
    (folder / "curl").write_text(f"#!{sys.executable} -I\n{Path(libcurl_cli.__file__).read_text()}")
    (folder / "curl").chmod(0o755)
    return folder / "curl"


class Server(ThreadingHTTPServer):
    stored: dict[str, bytes]
    headers: list[str]
    connections: int

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.stored, self.headers, self.connections = {}, [], 0

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def do_GET(self) -> None:
        body = self.server.stored.get(self.path.strip("/"))
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        for at in range(0, len(body or b""), 16_384):
            self.wfile.write((body or b"")[at : at + 16_384])
            time.sleep(0.01)

    def do_PUT(self) -> None:
        self.server.headers.append(str(self.headers))
        self.server.stored[self.path.strip("/")] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield served
        served.shutdown()


def run(program: Path, *words: str, transfer: Transfer = GET) -> tuple[int, str, ClientNumbers]:
    done = subprocess.run([program, "-q", "-sS", "--fail", "-w", WRITE_OUT, *words], capture_output=True, timeout=60, check=False)
    completed = Completed(("curl",), done.returncode, done.stdout, done.stderr, 0, 1, 0.0, 0.0)
    return done.returncode, done.stderr.decode(), Curl().parse(transfer, completed)


@pytest.mark.parametrize(
    ("protocol", "direction", "files"),
    [*product(("http1", "https1", "h2"), ("get", "put"), (1,)), *product(("sftp",), ("get", "put"), (1, 5))],
)
def test_it_knows_every_word_of_the_adapter(protocol: str, direction: str, files: int) -> None:
    wanted = Transfer.model_validate(
        {"protocol": protocol, "direction": direction, "size": Size(10), "files": files, "limit": ByteRate(1000)}
    )
    command = Curl().command(wanted, ENDS)
    options = libcurl_cli.parser().parse_args(command[1:])
    assert options.limit_rate == 1000
    assert options.url == command[-1]
    assert options.fail


def test_it_says_which_libcurl_it_drives(program: Path) -> None:
    said = subprocess.run([program, "-q", "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("curl ")
    assert f"libcurl/{said.split()[1]}" in said


def test_download(program: Path, server: Server, tmp_path: Path) -> None:
    server.stored["a"] = BODY
    code, _, numbers = run(program, "--http1.1", "-o", str(tmp_path / "a"), server.url("a"))
    assert code == 0
    assert (tmp_path / "a").read_bytes() == BODY
    assert (numbers.bytes, numbers.status, numbers.http_version) == (len(BODY), 200, "1.1")
    assert 0 < (numbers.connect_s or 0) <= (numbers.first_byte_s or 0) <= numbers.total_s


def test_upload_announces_its_size_and_bears_its_header(program: Path, server: Server, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(BODY)
    words = ["-H", "Expect:", "-H", "X-Mark: yes", "-T", str(tmp_path / "a")]
    code, _, numbers = run(program, *words, server.url("b"), transfer=PUT)
    assert code == 0
    assert server.stored["b"] == BODY
    assert numbers.bytes == len(BODY)
    assert "X-Mark: yes" in server.headers[0]
    assert "Expect" not in server.headers[0]


def test_the_limit_reaches_libcurl(program: Path, server: Server, tmp_path: Path) -> None:
    """By an upload: Debian 12's libcurl reads a small download completely before it checks the clock."""
    (tmp_path / "a").write_bytes(BODY)
    end = ["-T", str(tmp_path / "a")]
    free = run(program, *end, server.url("a"), transfer=PUT)[2]
    limited = run(program, "--limit-rate", "250000", *end, server.url("a"), transfer=PUT)[2]
    # Half of the two seconds that the limit asks for, so that no machine is too quick or too slow.
    assert limited.total_s > max(1.0, 2 * free.total_s)


def test_a_refused_request_fails_as_curl_does(program: Path, server: Server, tmp_path: Path) -> None:
    code, error, numbers = run(program, "-o", str(tmp_path / "a"), server.url("nothing"))
    assert (code, numbers.status) == (22, 404)
    assert error.startswith("curl: (22) ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(("words", "code"), [(["-T", "/no/such/file"], 26), (["-o", "/no/such/folder/file"], 23)])
def test_a_file_that_cannot_be_opened(program: Path, server: Server, words: list[str], code: int) -> None:
    done, error, _ = run(program, *words, server.url("a"), transfer=PUT)
    assert done == code
    assert error.count("\n") == 1
    assert words[1] in error


def test_a_set_uses_one_connection(program: Path, server: Server, tmp_path: Path) -> None:
    for number in range(8, 12):
        (tmp_path / f"f{number:05}").write_bytes(b"%d" % number)
    names = "f[00008-00011]"
    code, _, numbers = run(program, "-T", f"{tmp_path}/{names}", server.url("up/"), transfer=PUT.model_copy(update={"files": 4}))
    assert code == 0
    assert server.stored == {f"up/f{number:05}": b"%d" % number for number in range(8, 12)}
    (tmp_path / "out").mkdir()
    words = ["-o", f"{tmp_path}/out/f#1", server.url(f"up/{names}")]
    code, _, numbers = run(program, *words, transfer=GET.model_copy(update={"files": 4}))
    assert code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"f{number:05}" for number in range(8, 12)]
    assert numbers.bytes == 6
    assert server.connections == 2


def test_an_unknown_flag_is_refused(program: Path, server: Server) -> None:
    done = subprocess.run([program, "-q", "--http3", server.url("a")], capture_output=True, check=False)
    assert done.returncode == 2
