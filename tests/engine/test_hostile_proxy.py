"""ferry through proxies: microsocks and tinyproxy as Debian has them, and scripted ones that refuse, close or say too much."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.harness import Told, failed
from tests.engine.sftp_harness import SftpBench, done, sha256
from tests.engine.sftp_servers import Odd
from tests.engine.test_hostile_http import BODY, arrived, ferry
from tests.support.hostile_http import HostileServer, SocketServer, Talk, head, serve, serve_sockets
from tests.support.ports import free_port
from tests.support.sftp_programs import LackingError, find
from tests.support.waiting import until

VARIABLES = [name for scheme in ("http", "https", "sftp", "all", "no") for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper())]
TINYPROXY = 'Port {port}\nListen 127.0.0.1\nTimeout 60\nAllow 127.0.0.1\nLogLevel Error\nLogFile "{folder}/log"\n'


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


# Real ones


@dataclass(frozen=True)
class Proxy:
    name: str
    scheme: str
    program: str
    login: bool = False

    def words(self, folder: Path, port: int) -> tuple[str, ...]:
        user = "me@" if self.login else ""
        (folder / "secret").write_text("open-sesame\n", encoding="ascii")
        (folder / "secret").chmod(0o600)
        return (
            "--proxy",
            f"{self.scheme}://{user}127.0.0.1:{port}",
            *(("--proxy-password-file", "secret") if self.login else ()),
        )


PROXIES = (
    Proxy("socks5h", "socks5h", "microsocks"),
    Proxy("socks5", "socks5", "microsocks"),
    Proxy("socks5h-login", "socks5h", "microsocks", login=True),
    Proxy("http", "http", "tinyproxy"),
    Proxy("http-login", "http", "tinyproxy", login=True),
)
by_name = pytest.mark.parametrize("proxy", PROXIES, ids=lambda proxy: proxy.name)


@contextlib.contextmanager
def running(proxy: Proxy, folder: Path) -> Iterator[int]:
    """Its port."""
    try:
        program = find(proxy.program)
    except LackingError as error:
        pytest.skip(str(error))
    port = free_port()
    if proxy.program == "microsocks":
        command = [str(program), "-i", "127.0.0.1", "-p", str(port), *(("-u", "me", "-P", "open-sesame") if proxy.login else ())]
    else:
        config = folder / "tinyproxy.conf"
        login = "BasicAuth me open-sesame\n" if proxy.login else ""
        config.write_text(TINYPROXY.format(port=port, folder=folder) + login, encoding="ascii")
        command = [str(program), "-d", "-c", str(config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            listens(process, port)
            yield port
        finally:
            process.kill()


def listens(process: subprocess.Popen[bytes], port: int) -> None:
    def answers() -> bool:
        assert process.poll() is None
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5.0):
            return True
        return False

    until(answers, "it listens")


def answers(talk: Talk, server: HostileServer) -> None:
    server.requests.append(talk.request())
    length = int(server.requests[-1].lower().partition("content-length: ")[2].partition("\r\n")[0] or 0)
    talk.take(length)
    talk.send(head("200 OK", len(BODY)) + BODY)


@by_name
@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_a_download_goes_through_a_proxy(tmp_path: Path, proxy: Proxy, tls: bool) -> None:
    with serve(answers, tls=tls) as server, running(proxy, tmp_path) as port:
        # A name: who resolves it differs.
        url = server.url().replace("127.0.0.1", "localhost")
        told = ferry(tmp_path, "get", url, "-o", "file", *server.trust(), *proxy.words(tmp_path, port), "--retry", "0")
    arrived(tmp_path, told)
    assert told.transfer["remote"] == f"127.0.0.1:{port}"
    assert "proxy-authorization" not in server.requests[0].lower()
    assert "sesame" not in str(told.report) + told.stderr


@by_name
def test_an_upload_goes_through_a_proxy(tmp_path: Path, proxy: Proxy) -> None:
    (tmp_path / "source").write_bytes(BODY)
    with serve(answers, tls=True) as server, running(proxy, tmp_path) as port:
        words = (*server.trust(), *proxy.words(tmp_path, port), "--retry", "0")
        told = ferry(tmp_path, "put", "source", server.url(), *words)
    assert told.code == 0, told.error
    assert told.transfer["remote"] == f"127.0.0.1:{port}"


@by_name
def test_sftp_goes_through_a_proxy(desk: SftpBench, odd: Odd, tmp_path: Path, proxy: Proxy) -> None:
    there = desk.give(odd.server, 100_000)
    with running(proxy, tmp_path) as port:
        secret = str(desk.write("secret", b"open-sesame", 0o600))
        words = (word.replace("secret", secret) for word in proxy.words(tmp_path, port))
        told = desk.get(odd.server, there, *words, login="honest")
    done(told)
    assert desk.files()["file"] == sha256(100_000)
    assert told.transfer["remote"] == f"127.0.0.1:{port}"


@pytest.mark.parametrize("proxy", [proxy for proxy in PROXIES if proxy.login], ids=lambda proxy: proxy.name)
@pytest.mark.parametrize("word", ["wrong", None])
def test_a_proxy_that_wants_another_password_says_so(tmp_path: Path, proxy: Proxy, word: str | None) -> None:
    with serve(answers, tls=True) as server, running(proxy, tmp_path) as port:
        words = proxy.words(tmp_path, port)
        (tmp_path / "secret").write_text(word or "", encoding="ascii")
        if word is None:
            words = ("--proxy", f"{proxy.scheme}://127.0.0.1:{port}")
        told = ferry(tmp_path, "get", server.url(), "-o", "file", *server.trust(), *words)
    failed(told, "permanent", "proxy")
    assert len(told.attempts) == 1


@by_name
def test_a_server_that_the_proxy_cannot_reach_is_tried_again(tmp_path: Path, proxy: Proxy) -> None:
    with running(proxy, tmp_path) as port:
        words = ("--insecure", "--retry", "1", "--retry-max-wait", "50ms", *proxy.words(tmp_path, port))
        told = ferry(tmp_path, "get", f"https://127.0.0.1:{free_port()}/", "-o", "file", *words)
    failed(told, "transient", "proxy")
    assert len(told.attempts) == 2


# Scripted ones


@dataclass(frozen=True)
class Refusal:
    name: str
    scheme: str
    says: tuple[bytes, ...]
    kind: str
    text: str = "proxy"


REFUSALS = (
    Refusal("407", "http", (head("407 Proxy Authentication Required", 0),), "permanent", "--proxy-password-file"),
    Refusal("403", "http", (head("403 Forbidden", 5) + b"words",), "permanent", "403"),
    Refusal("502", "http", (head("502 Bad Gateway", 0),), "transient", "502"),
    Refusal("ssh", "http", (b"SSH-2.0-OpenSSH_10.0\r\n",), "permanent", "not an HTTP proxy"),
    Refusal("endless", "http", (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,), "permanent"),
    Refusal("closes", "http", (), "transient", "closed"),
    Refusal("closes-in-the-head", "http", (b"HTTP/1.1 200 OK\r\nVia",), "transient", "closed"),
    Refusal("socks-4", "socks5h", (b"\x04\0",), "permanent", "not a SOCKS5 proxy"),
    Refusal("socks-wants-login", "socks5h", (b"\x05\xff",), "permanent", "--proxy-password-file"),
    Refusal("socks-failed", "socks5h", (b"\x05\0", b"\x05\x01\0\x01"), "transient", "reply 1"),
    Refusal("socks-rules", "socks5h", (b"\x05\0", b"\x05\x02\0\x01"), "permanent", "reply 2"),
    Refusal("socks-refused", "socks5h", (b"\x05\0", b"\x05\x05\0\x01"), "transient", "reply 5"),
    Refusal("socks-unknown", "socks5h", (b"\x05\0", b"\x05\xee\0\x01"), "permanent", "reply 238"),
    Refusal("socks-odd-address", "socks5h", (b"\x05\0", b"\x05\0\0\x09"), "permanent", "unknown kind"),
    Refusal("socks-short", "socks5h", (b"\x05\0", b"\x05\0\0\x03\xff"), "transient", "closed"),
)


@contextlib.contextmanager
def scripted(*says: bytes, then: Callable[[socket.socket], None] = lambda _: None) -> Iterator[tuple[SocketServer, list[bytes]]]:
    """Answers every message with the next of `says`; what it was asked is in the list."""
    asked: list[bytes] = []

    def script(sock: socket.socket) -> None:
        asked.append(sock.recv(4096))
        for answer in says:
            sock.sendall(answer)
            if answer is not says[-1]:
                asked.append(sock.recv(4096))
        then(sock)

    with serve_sockets(script) as server:
        yield server, asked


def through(folder: Path, server: SocketServer, scheme: str, url: str, *words: str) -> Told:
    proxy = ("--proxy", f"{scheme}://127.0.0.1:{server.port}")
    return ferry(folder, "get", url, "-o", "file", "--insecure", "--retry", "0", *proxy, *words)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_what_a_proxy_refuses_is_an_error_with_its_class(tmp_path: Path, refusal: Refusal) -> None:
    with scripted(*refusal.says) as (server, _):
        told = through(tmp_path, server, refusal.scheme, "https://server.example/file")
    failed(told, refusal.kind, f"127.0.0.1:{server.port}", refusal.text)


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_a_proxy_that_says_nothing_is_given_up_in_time(tmp_path: Path, scheme: str) -> None:
    with scripted(then=lambda sock: sock.recv(1)) as (server, _):
        told = through(tmp_path, server, scheme, "https://server.example/file", "--timeout-connect", "2s")
    failed(told, "transient", "--timeout-connect")


@dataclass(frozen=True)
class Ask:
    name: str
    scheme: str
    url: str
    says: tuple[bytes, ...]
    asked: bytes


ASKS = (
    Ask("connect", "http", "https://server.example/x", (head("403 No", 0),), b"CONNECT server.example:443 HTTP/1.1\r\n"),
    Ask("connect-ipv6", "http", "https://[::1]:8443/x", (head("403 No", 0),), b"CONNECT [::1]:8443 HTTP/1.1\r\n"),
    Ask("connect-sftp", "http", "sftp://me@server.example/x", (head("403 No", 0),), b"CONNECT server.example:22 HTTP/1.1\r\n"),
    Ask(
        "absolute", "http", "http://server.example:81/x?y", (head("403 No", 0),), b"GET http://server.example:81/x?y HTTP/1.1\r\n"
    ),
    Ask("socks-name", "socks5h", "https://server.example/x", (b"\5\0", b"\5\2\0\1"), b"\5\1\0\3\x0eserver.example\x01\xbb"),
    Ask("socks-address", "socks5h", "http://127.9.9.9/x", (b"\5\0", b"\5\2\0\1"), b"\5\1\0\1\x7f\x09\x09\x09\0\x50"),
    Ask("socks-ipv6", "socks5h", "http://[::1]/x", (b"\5\0", b"\5\2\0\1"), b"\5\1\0\4" + bytes(15) + b"\x01\0\x50"),
    Ask("socks-resolved", "socks5", "https://server.example/x", (b"\5\0", b"\5\2\0\1"), b"\5\1\0\1\x7f\x09\x09\x08\x01\xbb"),
)


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: ask.name)
def test_a_proxy_is_asked_for_the_server_as_the_url_has_it(tmp_path: Path, ask: Ask) -> None:
    words = () if ask.url.startswith("sftp") else ("--resolve", "server.example:443:127.9.9.8")
    with scripted(*ask.says) as (server, asked):
        failed(through(tmp_path, server, ask.scheme, ask.url, *words), "permanent")
    assert asked[-1].startswith(ask.asked)


def test_bytes_behind_a_proxys_answer_are_the_servers(tmp_path: Path) -> None:
    """An SSH server speaks first, so that its banner can be in the same packet."""
    client = b""

    def read(sock: socket.socket) -> None:
        nonlocal client
        while len(client) < 300:
            client += sock.recv(4096)

    with scripted(head() + b"SSH-2.0-OpenSSH_10.0\r\n", then=read) as (server, _):
        through(tmp_path, server, "http", "sftp://me@server.example/x", "--no-agent")
    assert client.startswith(b"SSH-2.0-ferry")


# The environment


@dataclass(frozen=True)
class Setting:
    name: str
    variables: dict[str, str]
    words: tuple[str, ...] = ()
    through: bool = False


SETTINGS = (
    Setting("http_proxy", {"http_proxy": "PROXY"}, through=True),
    Setting("HTTP_PROXY-is-a-header-of-cgi", {"HTTP_PROXY": "PROXY"}),
    Setting("ALL_PROXY", {"ALL_PROXY": "PROXY"}, through=True),
    Setting("https_proxy", {"https_proxy": "PROXY"}),
    Setting("NO_PROXY", {"http_proxy": "PROXY", "NO_PROXY": "x, 127.0.0.0/8"}),
    Setting("noproxy", {"http_proxy": "PROXY"}, ("--noproxy", "*")),
    Setting("noproxy-instead", {"http_proxy": "PROXY", "NO_PROXY": "*"}, ("--noproxy", "x"), through=True),
    Setting("proxy-none", {"http_proxy": "PROXY"}, ("--proxy", "")),
)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_the_environment_names_proxies_as_for_curl(tmp_path: Path, setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(head("200 OK", 5) + b"proxy") as (proxy, asked), serve(answers) as server:
        for name, value in setting.variables.items():
            monkeypatch.setenv(name, value.replace("PROXY", f"http://127.0.0.1:{proxy.port}"))
        told = ferry(tmp_path, "get", server.url(), "-o", "file", "--retry", "0", *setting.words)
    arrived(tmp_path, told, b"proxy" if setting.through else BODY)
    assert bool(asked) is setting.through
