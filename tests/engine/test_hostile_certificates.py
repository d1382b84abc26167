"""Certificates of clients (nginx that verifies them, servers that refuse by an alert, unusable files), and servers' own."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import ipaddress
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lab.assets import extracted
from lab.servers.certificates import make_certificates
from tests.engine.harness import failed
from tests.engine.test_hostile_http import BODY, arrived, ferry
from tests.engine.test_hostile_proxy import listens
from tests.support.hostile_http import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    Talk,
    block,
    frame,
    head,
    serve_sockets,
)
from tests.support.ports import free_port

NGINX = """\
{2}daemon off; pid {0}/pid; error_log {0}/error.log; worker_processes 1; events {{ }}
http {{
    access_log off; client_body_temp_path {0}/body;
    proxy_temp_path {0}/p; fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;
    server {{
        listen 127.0.0.1:{1} ssl http2; root {0}; ssl_certificate {0}/server.pem; ssl_certificate_key {0}/server.key;
        ssl_client_certificate {0}/client.pem; ssl_verify_client on;
    }}
}}
"""


def client(folder: Path, name: str) -> None:
    """Write a self-signed certificate and its key, in the forms that --cert and --key take."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(
            subject, subject, key.public_key(), x509.random_serial_number(), now - timedelta(1), now + timedelta(1)
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = serialization.BestAvailableEncryption(b"open sesame")
    files = {
        f"{name}.pem": made.public_bytes(pem),
        f"{name}.key": key.private_bytes(pem, pkcs8, serialization.NoEncryption()),
        f"{name}.locked": key.private_bytes(pem, pkcs8, locked),
    }
    files[f"{name}.both"] = files[f"{name}.pem"] + files[f"{name}.key"]
    for file, data in files.items():
        (folder / file).write_bytes(data)
        (folder / file).chmod(0o600)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Certificates of a server, of a client it knows, and of a stranger."""
    made = make_certificates(["127.0.0.1"])
    for name, data in {
        "ca.pem": made.ca_pem,
        "server.pem": made.server_pem,
        "server.key": made.server_key_pem,
        "data": BODY,
    }.items():
        (tmp_path / name).write_bytes(data)
    client(tmp_path, "client")
    client(tmp_path, "stranger")
    return tmp_path


@contextlib.contextmanager
def nginx(folder: Path) -> Iterator[int]:
    program = extracted.find("nginx")
    if program is None:
        pytest.skip("the lab's nginx has not been fetched: run `make setup`")
    port = free_port()
    # Root's nginx reads as another user, who may not enter pytest's folders.
    user = "user root; " if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(NGINX.format(folder, port, user), encoding="ascii")
    with subprocess.Popen(
        [str(program), "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL
    ) as process:
        try:
            listens(process, port)
            yield port
        finally:
            process.terminate()


@contextlib.contextmanager
def answering(context: ssl.SSLContext) -> Iterator[int]:
    """A server with that context and one answer: its port."""

    def script(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as talk:
            talk.recv(4096)
            talk.sendall(head("200 OK", len(BODY)) + BODY)

    with serve_sockets(script) as server:
        yield server.port


@contextlib.contextmanager
def strict(folder: Path) -> Iterator[int]:
    """Ends the handshake by an alert, where nginx answers 400."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "client.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    with answering(context) as port:
        yield port


@dataclass(frozen=True)
class Shown:
    name: str
    words: tuple[str, ...]
    # What the error of a server says that refuses it; None where it is accepted.
    nginx: str | None = None
    strict: str | None = None


SHOWN = (
    Shown("certificate-and-key", ("--cert", "client.pem", "--key", "client.key")),
    Shown("one-file", ("--cert", "client.both")),
    Shown("none", (), "400", "--cert"),
    Shown("stranger", ("--cert", "stranger.both"), "400", "refuses the client certificate"),
)


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.name)
@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_nginx_knows_the_client_by_its_certificate(folder: Path, shown: Shown, version: str) -> None:
    with nginx(folder) as port:
        told = ferry(folder, "get", f"https://127.0.0.1:{port}/data", "-o", "file", "--cacert", "ca.pem", version, *shown.words)
    if shown.nginx is None:
        arrived(folder, told)
    else:
        failed(told, "permanent", shown.nginx)


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.name)
def test_a_server_that_refuses_a_client_is_not_asked_again(folder: Path, shown: Shown) -> None:
    with strict(folder) as port:
        told = ferry(folder, "get", f"https://127.0.0.1:{port}/data", "-o", "file", "--cacert", "ca.pem", *shown.words)
    if shown.strict is None:
        arrived(folder, told)
    else:
        failed(told, "permanent", shown.strict)
        assert len(told.attempts) == 1


@dataclass(frozen=True)
class Unusable:
    name: str
    words: tuple[str, ...]
    text: str


UNUSABLE = (
    Unusable("no-file", ("--cert", "none.pem"), "none.pem"),
    Unusable("no-key", ("--cert", "client.pem"), "the key cannot be read"),
    Unusable("no-certificate", ("--cert", "client.key"), "no certificate"),
    Unusable("another-key", ("--cert", "client.pem", "--key", "stranger.key"), "--key"),
    Unusable("locked", ("--cert", "client.pem", "--key", "client.locked"), "encrypted"),
    Unusable("open", ("--cert", "client.pem", "--key", "open.key"), "chmod 600"),
)


@pytest.mark.parametrize("unusable", UNUSABLE, ids=lambda unusable: unusable.name)
def test_an_unusable_client_certificate_is_named(folder: Path, unusable: Unusable) -> None:
    (folder / "open.key").write_bytes((folder / "client.key").read_bytes())
    (folder / "open.key").chmod(0o644)
    told = ferry(folder, "get", "https://127.0.0.1:9/data", "-o", "file", "--cacert", "ca.pem", *unusable.words)
    failed(told, "usage", unusable.text)


# A server's own certificate


LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
ELSEWHERE = x509.DNSName("elsewhere")


@dataclass(frozen=True)
class Own:
    """A server's certificate; signed by itself unless `signed` is false. `error` is what refuses it."""

    name: str
    names: tuple[x509.GeneralName, ...] = (LOOPBACK,)
    subject: str = "server"
    is_ca: bool = True
    signed: bool = True
    age_days: int = 1
    error: str = ""


OWN = (
    # Certificates as `openssl req -x509` makes them, with and without -addext subjectAltName.
    Own("ca"),
    Own("only-a-common-name", names=(), subject="127.0.0.1"),
    Own("no-ca", is_ca=False),
    Own("no-ca-only-a-common-name", names=(), subject="127.0.0.1", is_ca=False),
    Own("of-an-unknown-ca", is_ca=False, signed=False),
    Own("other-name", names=(ELSEWHERE,), error="for elsewhere, not for 127.0.0.1"),
    Own("other-name-in-spite-of-its-common-name", names=(ELSEWHERE,), subject="127.0.0.1", error="another name"),
    Own("other-common-name", names=(), error="names no host"),
    Own("expired", age_days=40, error="expired"),
    Own("not-yet-valid", age_days=-5, error="not valid yet"),
)


def own(folder: Path, wanted: Own) -> x509.Certificate:
    """Write server.key, and server.pem, which is good for a month."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, wanted.subject)])
    issuer = subject if wanted.signed else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "unknown")])
    begin = datetime.now(UTC) - timedelta(days=wanted.age_days)
    builder = x509.CertificateBuilder(
        issuer, subject, key.public_key(), x509.random_serial_number(), begin, begin + timedelta(30)
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=wanted.is_ca, path_length=None), critical=True)
    if wanted.names:
        builder = builder.add_extension(x509.SubjectAlternativeName(wanted.names), critical=False)
    made = builder.sign(key if wanted.signed else ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "server.pem").write_bytes(made.public_bytes(pem))
    (folder / "server.key").write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    return made


@contextlib.contextmanager
def showing(folder: Path) -> Iterator[str]:
    """A server with server.pem: its URL."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    with answering(context) as port:
        yield f"https://127.0.0.1:{port}/data"


@pytest.mark.parametrize("wanted", OWN, ids=lambda wanted: wanted.name)
def test_a_certificate_that_is_given_itself_is_trusted(tmp_path: Path, wanted: Own) -> None:
    own(tmp_path, wanted)
    with showing(tmp_path) as url:
        told = ferry(tmp_path, "get", url, "-o", "file", "--cacert", "server.pem")
        (tmp_path / "server.pem").rename(tmp_path / "first.pem")
        # Another one of the same name is another one.
        own(tmp_path, wanted)
        other = ferry(tmp_path, "get", url, "-o", "other", "--cacert", "server.pem")
    if wanted.error:
        failed(told, "permanent", "TLS with 127.0.0.1", "its certificate", wanted.error)
    else:
        arrived(tmp_path, told)
    failed(other, "permanent", "TLS with 127.0.0.1", "its certificate")
    for problem in (told.error, other.error):
        assert "Error" not in problem.get("message", "")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_a_server_has_the_key_that_is_pinned(folder: Path, version: str) -> None:
    made = x509.load_pem_x509_certificate((folder / "server.pem").read_bytes())
    der, spki = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    digest = hashlib.sha256(made.public_key().public_bytes(der, spki)).digest()
    right = f"sha256//{base64.b64encode(digest).decode()}"
    wrong = f"sha256//{base64.b64encode(bytes(32)).decode()}"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    context.set_alpn_protocols([{"--http1.1": "http/1.1", "--http2": "h2"}[version]])

    def script(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as wrapped:
            talk = Talk(wrapped, 0)
            if version == "--http1.1":
                talk.request()
                talk.send(head("200 OK", len(BODY)) + BODY)
                return
            talk.hello()
            stream = talk.asked()
            pieces = [BODY[at : at + 16_000] for at in range(0, 48_000, 16_000)]
            fields = block((":status", "200"), ("content-length", "48000"))
            talk.send(
                frame(HEADERS, fields, flags=END_HEADERS, stream=stream), *(frame(DATA, each, stream=stream) for each in pieces)
            )
            talk.send(frame(DATA, flags=END_STREAM, stream=stream))

    trusts = {"verified": ("--cacert", "ca.pem"), "insecure": ("--insecure",), "untrusted": ("--cacert", "client.pem")}
    with serve_sockets(script) as server:
        url = f"https://127.0.0.1:{server.port}/data"
        for trust, words in trusts.items():
            for pins, fine in ((right, True), (f"{wrong};{right}", True), (wrong, False)):
                told = ferry(
                    folder, "get", url, "-o", f"{trust}-{pins[8:12]}", "--overwrite", version, *words, "--pinnedpubkey", pins
                )
                if trust == "untrusted":
                    failed(told, "permanent", "--cacert")
                elif fine:
                    assert told.code == 0, told.error
                else:
                    failed(told, "permanent", right, "--pinnedpubkey")
                    assert len(told.attempts) == 1
