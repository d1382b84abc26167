"""Client certificates: nginx that verifies them, servers that refuse by an alert, and unusable files."""

from __future__ import annotations

import contextlib
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
from tests.support.hostile_http import head, serve_sockets
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
def strict(folder: Path) -> Iterator[int]:
    """Ends the handshake by an alert, where nginx answers 400."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "client.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / "server.pem", folder / "server.key")

    def script(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as talk:
            talk.recv(4096)
            talk.sendall(head("200 OK", len(BODY)) + BODY)

    with serve_sockets(script) as server:
        yield server.port


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
