"""Bodies that come compressed (`ferry get --compressed`), from nginx and from servers that compress badly, on the loopback."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import signal
import subprocess
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.clients.ferry import find_ferry
from lab.servers import nginx
from lab.servers.certificates import Certificates, make_certificates
from tests.engine.harness import Told, failed
from tests.engine.test_hostile_http import arrived, ferry
from tests.support.hostile_http import DATA, END_HEADERS, END_STREAM, HEADERS, HostileServer, Talk, block, frame, head, serve
from tests.support.local_host import LocalHost
from tests.support.ports import free_port

FILE = b"".join(b"line %d of a file that is worth compressing\n" % number for number in range(4_000))
GZIP = gzip.compress(FILE, mtime=0)
ONCE = ("--retry", "0")
BRIEFLY = ("--retry-max-wait", "50ms")


def zstd_runs(blocks: int, length: int = 1 << 17, window_log: int = 20) -> bytes:
    """A frame by hand (RFC 8878, section 3.1.1), of blocks that repeat one byte."""
    body = b"\x28\xb5\x2f\xfd\0" + bytes([(window_log - 10) << 3])
    for index in range(1, blocks + 1):
        body += (length << 3 | 1 << 1 | (index == blocks)).to_bytes(3, "little") + b"x"
    return body


def zstd_raw(content: bytes) -> bytes:
    """A frame whose blocks are stored as they are."""
    body = b"\x28\xb5\x2f\xfd\0" + bytes([(17 - 10) << 3])
    pieces = [content[at : at + (1 << 17)] for at in range(0, len(content), 1 << 17)] or [b""]
    for index, piece in enumerate(pieces, 1):
        body += (len(piece) << 3 | (index == len(pieces))).to_bytes(3, "little") + piece
    return body


def skippable(content: bytes) -> bytes:
    return b"\x5a\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


def get(folder: Path, server: HostileServer, *words: str, compressed: bool = True) -> Told:
    asked = ("--compressed",) if compressed else ()
    return ferry(folder, "get", server.url(), "-o", "file", *server.trust(), *asked, *words)


def kept_nothing(folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == []


@dataclass(frozen=True)
class Answer:
    """The answer to every request, over either protocol."""

    body: bytes
    coding: str | None = "gzip"
    length: int | None = -1
    fields: tuple[tuple[str, str], ...] = ()
    status: str = "200 OK"

    def __call__(self, talk: Talk, server: HostileServer) -> None:
        length = len(self.body) if self.length == -1 else self.length
        fields = [("content-encoding", self.coding)] if self.coding is not None else []
        fields += self.fields
        if server.cacert:
            talk.hello()
            stream = talk.asked()
            announced = [("content-length", str(length))] if length is not None else []
            talk.send(frame(HEADERS, block((":status", self.status[:3]), *fields, *announced), flags=END_HEADERS, stream=stream))
            for at in range(0, len(self.body), 1 << 14):
                talk.send(frame(DATA, self.body[at : at + (1 << 14)], stream=stream))
            talk.send(frame(DATA, flags=END_STREAM, stream=stream))
            return
        server.requests.append(talk.request())
        talk.send(head(self.status, length, *(f"{name}: {value}" for name, value in fields), "Connection: close") + self.body)


# From nginx


@dataclass
class Nginx:
    server: nginx.NginxServer
    files: Path
    cacert: Path

    def url(self, path: str, *, tls: bool) -> str:
        scheme, port = ("https", self.server.https_port) if tls else ("http", self.server.http_port)
        return f"{scheme}://127.0.0.1:{port}{path}"


GZIP_LOCATIONS = """
        location /on-the-fly/ { alias WORK/files/; gzip on; gzip_types *; gzip_comp_level 6; }
        location /beforehand/ { alias WORK/files/; gzip_static on; }
        location /zstd/ { alias WORK/files/; try_files $uri.zst =404; add_header Content-Encoding zstd; }
        location = /ready"""


@pytest.fixture(scope="module")
def compressing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    folder = tmp_path_factory.mktemp("nginx")
    host = LocalHost("server", folder / "server")
    certificates: Certificates = make_certificates(["127.0.0.1"])
    http, https = free_port(), free_port()
    # Workers of root's nginx would run as another user, who may not read pytest's folder.
    user = "root" if os.geteuid() == 0 else ""
    config = nginx.render_config(host.workdir, http_port=http, https_port=https, bind="127.0.0.1", worker_user=user)
    assert config.count("\n        location = /ready") == 1
    config = config.replace("\n        location = /ready", GZIP_LOCATIONS.replace("WORK", str(host.workdir)))
    files = Path(host.workdir) / "files"
    host.write(files / "text", FILE)
    host.write(files / "text.gz", GZIP)
    host.write(files / "text.zst", compress_zstd(FILE))
    cacert = folder / "ca.pem"
    cacert.write_bytes(certificates.ca_pem)
    try:
        server = nginx.start(host, certificates, http_port=http, https_port=https, bind="127.0.0.1", config=config)
        yield Nginx(server, files, cacert)
    finally:
        host.close()


def compress_zstd(content: bytes) -> bytes:
    """By Facebook's own program where there is one, which the machine of a user need not have."""
    program = shutil.which("zstd")
    if program is None:
        return zstd_raw(content)
    return subprocess.run([program, "-19", "--check", "-c"], input=content, capture_output=True, check=True).stdout


@pytest.mark.parametrize("version", ["http/1.1", "http/1.1 over tls", "h2"])
@pytest.mark.parametrize(("path", "coding"), [("/on-the-fly/", "gzip"), ("/beforehand/", "gzip"), ("/zstd/", "zstd")])
def test_nginx_compresses_and_the_file_is_the_original(
    tmp_path: Path, compressing: Nginx, version: str, path: str, coding: str
) -> None:
    words = ("--http1.1",) if "tls" in version else ()
    url = compressing.url(f"{path}text", tls=version != "http/1.1")
    digest = hashlib.sha256(FILE).hexdigest()
    check = ("--checksum", f"sha256:{digest}", "--cacert", str(compressing.cacert))
    told = ferry(tmp_path, "get", url, "-o", "file", "--compressed", *check, *words)
    arrived(tmp_path, told, FILE)
    found = told.transfer
    assert found["protocol"] == ("h2" if version == "h2" else "http/1.1")
    assert (found["content_encoding"], found["decoded_bytes"], found["size"]) == (coding, len(FILE), len(FILE))
    assert found["bytes"] > 0
    if path == "/beforehand/":
        assert found["bytes"] == len(GZIP)
    assert sum(found["series"]["bytes"]) == found["bytes"]


def test_without_the_flag_nginx_sends_the_file_as_it_is(tmp_path: Path, compressing: Nginx) -> None:
    told = ferry(tmp_path, "get", compressing.url("/on-the-fly/text", tls=False), "-o", "file")
    arrived(tmp_path, told, FILE)
    assert told.transfer["bytes"] == len(FILE)
    assert "content_encoding" not in told.transfer


def test_standard_output_gets_the_decoded_file(compressing: Nginx) -> None:
    command = [str(find_ferry()), "get", compressing.url("/on-the-fly/text", tls=False), "-o", "-", "--compressed", "-q"]
    assert subprocess.run(command, capture_output=True, check=True, timeout=60).stdout == FILE


def test_a_limit_is_about_the_wire(tmp_path: Path, compressing: Nginx) -> None:
    url = compressing.url("/beforehand/text", tls=False)
    told = ferry(tmp_path, "get", url, "-o", "file", "--compressed", "--limit-rate", "100kB/s")
    arrived(tmp_path, told, FILE)
    found = told.transfer
    assert found["limit_byte_s"] == 100_000
    assert found["bytes"] == len(GZIP)
    # By the clock of the report, which is the limiter's: never sooner than the wire's bytes allow, whatever they become.
    assert found["phases"]["body_s"] >= 0.97 * len(GZIP) / 100_000


# What is asked for


def test_the_request_names_both_codings_and_the_users_own_list_comes_first(tmp_path: Path) -> None:
    for words, expected in (((), "zstd, gzip"), (("--header", "Accept-Encoding: gzip"), "gzip")):
        with serve(Answer(GZIP)) as server:
            told = get(tmp_path, server, "--overwrite", *words)
        arrived(tmp_path, told, FILE)
        assert f"\r\naccept-encoding: {expected}\r\n" in server.requests[0].lower() + "\r\n"


def test_nothing_is_asked_for_without_the_flag_and_what_comes_is_stored(tmp_path: Path) -> None:
    """As servers label files that are stored compressed: `file.tar.gz` with Content-Encoding: gzip."""
    with serve(Answer(GZIP)) as server:
        told = get(tmp_path, server, compressed=False)
    arrived(tmp_path, told, GZIP)
    assert "accept-encoding" not in server.requests[0].lower()
    assert "decoded_bytes" not in told.transfer


# What is a file


@pytest.mark.parametrize("tls", [False, True], ids=["http/1.1", "h2"])
@pytest.mark.parametrize(
    ("answer", "file"),
    [
        (Answer(GZIP, "x-gzip"), FILE),
        (Answer(GZIP, "GZip"), FILE),
        (Answer(FILE, "identity"), FILE),
        (Answer(FILE, None), FILE),
        (Answer(FILE, ""), FILE),
        (Answer(gzip.compress(FILE[:100]) + gzip.compress(b"") + gzip.compress(FILE[100:])), FILE),
        (Answer(zstd_raw(FILE[:200_000]) + skippable(b"ignored") + zstd_runs(2, 5), "zstd"), FILE[:200_000] + b"x" * 10),
        (Answer(zstd_runs(4, 1 << 17, window_log=23), "zstd"), b"x" * (4 << 17)),
        (Answer(b"", "gzip", 0), b""),
        (Answer(gzip.compress(b"")), b""),
        (Answer(GZIP, length=None), FILE),
        (Answer(b"", "gzip", None, status="204 No Content"), b""),
    ],
    ids=[
        "x-gzip",
        "case",
        "identity",
        "none",
        "empty-field",
        "members",
        "frames",
        "window",
        "empty",
        "empty-gzip",
        "unknown",
        "204",
    ],
)
def test_what_is_decoded(tmp_path: Path, tls: bool, answer: Answer, file: bytes) -> None:
    with serve(answer, tls=tls, alpn="h2" if tls else "http/1.1") as server:
        told = get(tmp_path, server, *ONCE)
    arrived(tmp_path, told, file)
    decodes = answer.coding not in (None, "", "identity")
    assert told.transfer.get("decoded_bytes") == (len(file) if decodes else None)
    assert told.transfer["bytes"] == len(answer.body)


def damaged(at: int) -> bytes:
    return GZIP[:at] + bytes([GZIP[at] ^ 1]) + GZIP[at + 1 :]


@pytest.mark.parametrize("tls", [False, True], ids=["http/1.1", "h2"])
@pytest.mark.parametrize(
    ("answer", "telling"),
    [
        (Answer(GZIP[:-1], length=None), "cut short"),
        (Answer(GZIP[:1000]), "cut short"),
        (Answer(GZIP[:5]), "cut short"),
        (Answer(damaged(len(GZIP) - 6)), "checksum"),
        (Answer(damaged(len(GZIP) - 2)), "checksum"),
        (Answer(damaged(0)), "malformed"),
        (Answer(FILE), "malformed"),
        (Answer(GZIP + b"garbage"), "follows its end"),
        (Answer(GZIP + b"\0" * 512), "follows its end"),
        (Answer(zlib.compress(FILE)), "malformed"),
        (Answer(GZIP, "zstd"), "malformed"),
        (Answer(zstd_raw(FILE)[:-1], "zstd"), "cut short"),
        (Answer(zstd_runs(1, 5) + b"garbage", "zstd"), "follows its end"),
        (Answer(zstd_runs(1, 5, window_log=24), "zstd"), "malformed"),
        (Answer(zstd_runs(1, 5, window_log=31), "zstd"), "malformed"),
        # An unknown dictionary.
        (Answer(b"\x28\xb5\x2f\xfd\x03\x38\x01\x00\x00\x00" + zstd_runs(1, 5)[6:], "zstd"), "malformed"),
    ],
)
def test_a_body_that_is_not_complete_and_correct_is_an_integrity_error(
    tmp_path: Path, tls: bool, answer: Answer, telling: str
) -> None:
    with serve(answer, tls=tls, alpn="h2" if tls else "http/1.1") as server:
        told = get(tmp_path, server, *BRIEFLY)
    failed(told, "integrity", telling, "body cannot be decoded")
    assert len(told.attempts) == 1
    kept_nothing(tmp_path)


def test_an_empty_body_that_only_a_close_has_ended_is_refused(tmp_path: Path) -> None:
    with serve(Answer(b"", length=None)) as server:
        told = get(tmp_path, server, *ONCE)
    failed(told, "integrity", "cut short")
    kept_nothing(tmp_path)


@pytest.mark.parametrize("coding", ["br", "deflate", "gzip, gzip", "gzip, zstd", "compress", "aes128gcm", "gzip;q=1"])
def test_what_was_not_asked_for_is_refused(tmp_path: Path, coding: str) -> None:
    with serve(Answer(GZIP, coding)) as server:
        told = get(tmp_path, server, *BRIEFLY)
    failed(told, "permanent", coding, "not asked for")
    assert len(told.attempts) == 1
    kept_nothing(tmp_path)


def test_the_checksum_is_of_the_decoded_file(tmp_path: Path) -> None:
    wrong = hashlib.sha256(GZIP).hexdigest()
    with serve(Answer(GZIP)) as server:
        told = get(tmp_path, server, "--checksum", f"sha256:{wrong}")
    failed(told, "integrity", "checksum")
    assert told.transfer["checksum"] == f"sha256:{hashlib.sha256(FILE).hexdigest()}"
    kept_nothing(tmp_path)


# How much


@pytest.mark.parametrize("limited", [(), ("--limit-rate", "1MB/s")], ids=["unlimited", "limited"])
@pytest.mark.parametrize(
    "answer",
    # 1 : 1000 and 1 : 32,000.
    [Answer(gzip.compress(bytes(50_000_000), 9)), Answer(zstd_runs(4096), "zstd"), Answer(zstd_runs(4096), "zstd", None)],
    ids=["gzip", "zstd", "zstd-unknown"],
)
def test_a_bomb_ends_at_the_largest_size_that_the_user_wants(tmp_path: Path, answer: Answer, limited: tuple[str, ...]) -> None:
    with serve(answer) as server:
        told = get(tmp_path, server, "--max-filesize", "1MB", *BRIEFLY, *limited)
    failed(told, "permanent", "more than the 1000000 bytes of --max-filesize")
    assert told.transfer["decoded_bytes"] <= 1_000_000 + (1 << 16)
    assert len(told.attempts) == 1
    kept_nothing(tmp_path)


def test_what_decodes_to_nothing_ends_too(tmp_path: Path) -> None:
    with serve(Answer(skippable(bytes(2_000_000)) + zstd_runs(1, 5), "zstd", None)) as server:
        told = get(tmp_path, server, "--max-filesize", "1MB", *ONCE)
    failed(told, "permanent", "--max-filesize")
    kept_nothing(tmp_path)


def test_a_bomb_needs_little_memory(tmp_path: Path) -> None:
    """1 GiB of a file, in an address space of a quarter of it."""
    with serve(Answer(zstd_runs(8192, window_log=23), "zstd")) as server:
        told = ferry(tmp_path, "get", server.url(), "--discard", "--compressed", memory=256 << 20)
    assert told.code == 0, (told.error, told.stderr)
    assert told.transfer["decoded_bytes"] == 8192 << 17


def test_an_interrupt_is_heard_while_a_bomb_explodes(tmp_path: Path) -> None:
    """32 GiB of one piece that has come already."""
    command = [str(find_ferry()), "get", "--compressed", "--discard", "--json=report"]
    with serve(Answer(zstd_runs(1 << 18, window_log=23), "zstd")) as server:
        process = subprocess.Popen([*command, server.url()], cwd=tmp_path)
        try:
            while not server.requests:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.02)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()


# Again


@dataclass
class Breaking:
    """The first answer ends after `sent` bytes of its body, the others are complete."""

    first: Answer
    sent: int
    later: Callable[[str], Answer]
    requests: list[str]

    def __call__(self, talk: Talk, _: HostileServer) -> None:
        text = talk.request()
        self.requests.append(text.lower() + "\r\n")
        answer, upto = (self.first, self.sent) if len(self.requests) == 1 else (self.later(text), None)
        fields = [f"Content-Encoding: {answer.coding}"] if answer.coding else []
        fields += [f"{name}: {value}" for name, value in answer.fields]
        talk.send(head(answer.status, len(answer.body), *fields, "Connection: close") + answer.body[:upto])


ETAG = ("ETag", '"one"')


def test_a_compressed_body_that_breaks_off_is_fetched_from_its_begin(tmp_path: Path) -> None:
    whole = Answer(GZIP, fields=(ETAG,))
    script = Breaking(whole, 5_000, lambda _: whole, [])
    with serve(script) as server:
        told = get(tmp_path, server, *BRIEFLY)
    arrived(tmp_path, told, FILE)
    assert [attempt["offset"] for attempt in told.attempts] == [0, 0]
    assert [attempt["bytes"] for attempt in told.attempts] == [5_000, len(GZIP)]
    for request in script.requests:
        assert "\r\nrange:" not in request
        assert "\r\naccept-encoding: zstd, gzip\r\n" in request


def test_a_compressed_body_is_not_kept_for_another_run(tmp_path: Path) -> None:
    whole = Answer(GZIP, fields=(ETAG,))
    with serve(Breaking(whole, 5_000, lambda _: whole, [])) as server:
        told = get(tmp_path, server, *ONCE)
    failed(told, "transient")
    kept_nothing(tmp_path)


def rest(text: str) -> Answer:
    assert '\r\nif-range: "one"' in text.lower()
    assert "accept-encoding" not in text.lower()
    piece = FILE[5_000:]
    fields = (ETAG, ("Content-Range", f"bytes 5000-{len(FILE) - 1}/{len(FILE)}"))
    return Answer(piece, None, fields=fields, status="206 Partial Content")


def test_what_came_as_it_is_goes_on_where_it_ended_and_as_it_is(tmp_path: Path) -> None:
    script = Breaking(Answer(FILE, None, fields=(ETAG,)), 5_000, rest, [])
    with serve(script) as server:
        told = get(tmp_path, server, *BRIEFLY)
    arrived(tmp_path, told, FILE)
    assert [attempt["offset"] for attempt in told.attempts] == [0, 5_000]


def test_a_rest_that_is_compressed_is_not_put_behind_a_beginning_that_was_not(tmp_path: Path) -> None:
    def compressed_rest(text: str) -> Answer:
        answer = rest(text)
        return Answer(answer.body, "gzip", fields=answer.fields, status=answer.status)

    script = Breaking(Answer(FILE, None, fields=(ETAG,)), 5_000, compressed_rest, [])
    with serve(script) as server:
        told = get(tmp_path, server, *BRIEFLY)
    failed(told, "integrity", "the beginning without")
    kept_nothing(tmp_path)


def test_what_was_written_to_standard_output_cannot_be_sent_again(tmp_path: Path) -> None:
    whole = Answer(GZIP)
    script = Breaking(whole, 5_000, lambda _: whole, [])
    with serve(script) as server:
        command = [str(find_ferry()), "get", server.url(), "-o", "-", "--compressed", "--json=report", *BRIEFLY]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.returncode == 10
    assert FILE.startswith(done.stdout)
    assert len(script.requests) == 1
