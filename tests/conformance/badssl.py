"""badssl.com's kinds of servers, restated: certificates and TLS parameters of the same kinds are made for each run."""

from __future__ import annotations

import functools
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lab.clients.ferry import find_ferry
from tests.conformance.cases import Excluded, Outcome
from tests.conformance.program import DATA
from tests.support.hostile_http import PATIENCE_S, head, serve_sockets

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
_DOMAIN = "badssl.test"
_DAY = timedelta(days=1)
_PEM = serialization.Encoding.PEM
BODY = b"ok"
_NOBODY = x509.Name([])
_ORGANISATION = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "badssl, restated")])


@functools.cache
def _rsa(bits: int) -> rsa.RSAPrivateKey:
    # To make a key of this size takes up to a minute.
    if bits == 8192:
        made = serialization.load_pem_private_key((DATA / "rsa8192.pem").read_bytes(), None)
        assert isinstance(made, rsa.RSAPrivateKey)
        return made
    return rsa.generate_private_key(65537, bits)


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key."""

    made: x509.Certificate
    key: Key

    @property
    def pem(self) -> bytes:
        return self.made.public_bytes(_PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _authority(name: str, issuer: Certificate | None = None) -> Certificate:
    key = rsa.generate_private_key(65537, 2048)
    builder = _builder(_name(name), issuer.made.subject if issuer else _name(name), key)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return Certificate(builder.sign(issuer.key if issuer else key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, begin: timedelta = -_DAY, end: timedelta = 30 * _DAY
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return made.serial_number(x509.random_serial_number()).not_valid_before(now + begin).not_valid_after(now + end)


@functools.cache
def _root() -> Certificate:
    """What the program trusts."""
    return _authority("badssl root, restated")


@functools.cache
def _intermediate() -> Certificate:
    return _authority("badssl intermediate, restated", _root())


def _leaf(
    *,
    issuer: Certificate | None = None,
    subject: x509.Name | None = None,
    names: tuple[str, ...] = (f"*.{_DOMAIN}", _DOMAIN),
    key: Key | None = None,
    digest: hashes.HashAlgorithm | None = None,
    begin: timedelta = -_DAY,
    end: timedelta = 30 * _DAY,
    self_signed: bool = False,
) -> Certificate:
    key, issuer = key or _rsa(2048), issuer or _intermediate()
    subject = _name(f"*.{_DOMAIN}") if subject is None else subject
    builder = _builder(subject, subject if self_signed else issuer.made.subject, key, begin, end)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), critical=subject == _NOBODY
        )
    return Certificate(builder.sign(key if self_signed else issuer.key, digest or hashes.SHA256()), key)


def _plain() -> list[Certificate]:
    return [_leaf(), _intermediate()]


def _of_stranger(name: str) -> Callable[[], list[Certificate]]:
    def chain() -> list[Certificate]:
        stranger = _authority(name)
        return [_leaf(issuer=stranger), stranger]

    return chain


def _with(key: Callable[[], Key]) -> Callable[[], list[Certificate]]:
    return lambda: [_leaf(key=key()), _intermediate()]


def _many(count: int) -> Callable[[], list[Certificate]]:
    names = (f"*.{_DOMAIN}", *(f"{number}.{_DOMAIN}" for number in range(1, count)))
    return lambda: [_leaf(names=names), _intermediate()]


def _signed_with_sha1(certificate: Certificate, issuer: Certificate) -> Certificate:
    """A certificate that signs itself, which openssl has signed again: `cryptography` signs nothing with SHA-1 any more."""
    with tempfile.TemporaryDirectory(prefix="roughwater-badssl-") as made:
        folder = Path(made)
        (folder / "in.pem").write_bytes(certificate.pem)
        (folder / "issuer.pem").write_bytes(issuer.pem + issuer.key_pem)
        command = [
            "openssl",
            "x509",
            "-in",
            "in.pem",
            "-CA",
            "issuer.pem",
            "-CAkey",
            "issuer.pem",
            "-sha1",
            "-days",
            "30",
            "-CAcreateserial",
        ]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    return Certificate(x509.load_pem_x509_certificate(done.stdout), certificate.key)


def _sha1() -> list[Certificate]:
    return [_signed_with_sha1(_leaf(self_signed=True), _intermediate()), _intermediate()]


def _sha1_intermediate() -> list[Certificate]:
    issuer = _signed_with_sha1(_authority("badssl sha1 intermediate, restated"), _root())
    return [_leaf(issuer=issuer), issuer]


@dataclass(frozen=True)
class Case:
    """`connects` is what badssl.com's dashboard calls the better outcome."""

    name: str
    connects: bool
    chain: Callable[[], list[Certificate]] = _plain
    ciphers: str = "DEFAULT"
    versions: tuple[ssl.TLSVersion, ssl.TLSVersion] = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    group: tuple[str, ...] = field(default=())
    """How openssl makes the server's group of Diffie and Hellman."""
    openssl_connects: bool = True
    """False where OpenSSL's client refuses such a server too, whatever it is asked to take."""


_TLS10, _TLS11, _TLS12 = (ssl.TLSVersion.TLSv1,) * 2, (ssl.TLSVersion.TLSv1_1,) * 2, (ssl.TLSVersion.TLSv1_2,) * 2
_NAMED_GROUP = ("genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt")
_DHE = "DHE-RSA-AES128-GCM-SHA256"

CASES = (
    Case("expired", False, lambda: [_leaf(begin=-30 * _DAY, end=-_DAY), _intermediate()]),
    Case("wrong.host", False),
    Case("self-signed", False, lambda: [_leaf(self_signed=True)]),
    Case("untrusted-root", False, _of_stranger("badssl untrusted root, restated")),
    Case("superfish", False, _of_stranger("Superfish, restated")),
    Case("edellroot", False, _of_stranger("eDellRoot, restated")),
    Case("dsdtestprovider", False, _of_stranger("DSDTestProvider, restated")),
    Case("preact-cli", False, _of_stranger("preact-cli, restated")),
    Case("webpack-dev-server", False, _of_stranger("webpack-dev-server, restated")),
    Case("dh1024", False, ciphers=_DHE, versions=_TLS12, group=(*_NAMED_GROUP, "dh_rfc5114:1")),
    Case("null", False, ciphers="NULL-SHA256", versions=_TLS12),
    Case("tls-v1-0", False, versions=_TLS10),
    Case("tls-v1-1", False, versions=_TLS11),
    Case("cbc", False, ciphers="ECDHE-RSA-AES128-SHA256", versions=_TLS12),
    Case(
        "dh2048",
        False,
        ciphers=_DHE,
        versions=_TLS12,
        group=(*_NAMED_GROUP, "group:ffdhe2048"),
    ),
    Case("static-rsa", False, ciphers="AES128-GCM-SHA256", versions=_TLS12),
    Case("revoked", False),
    Case("no-sct", False),
    Case("1000-sans", True, _many(1000)),
    Case("10000-sans", True, _many(10000), openssl_connects=False),
    Case("sha384", True, lambda: [_leaf(digest=hashes.SHA384()), _intermediate()]),
    Case("sha512", True, lambda: [_leaf(digest=hashes.SHA512()), _intermediate()]),
    Case("rsa4096", True, _with(lambda: _rsa(4096))),
    Case("rsa8192", True, _with(lambda: _rsa(8192))),
    Case("no-subject", True, lambda: [_leaf(subject=_NOBODY), _intermediate()]),
    Case("no-common-name", True, lambda: [_leaf(subject=_ORGANISATION), _intermediate()]),
    Case("no-san", False, lambda: [_leaf(names=(), subject=_name(f"no-san.{_DOMAIN}")), _intermediate()]),
    Case("incomplete-chain", True, lambda: [_leaf()]),
    Case("reversed-chain", True, lambda: [_leaf(), _root(), _intermediate()]),
    Case("xn--n1aae7f7o", True),
    Case("sha1", False, _sha1),
    Case("sha1-intermediate", False, _sha1_intermediate),
    Case("tls-v1-2", True, versions=_TLS12),
    Case("sha256", True),
    Case("rsa2048", True),
    Case("ecc256", True, _with(lambda: ec.generate_private_key(ec.SECP256R1()))),
    Case("ecc384", True, _with(lambda: ec.generate_private_key(ec.SECP384R1()))),
    Case("extended-validation", True),
    Case("mozilla-modern", True, versions=(ssl.TLSVersion.TLSv1_3,) * 2),
)

EXCLUDED = {
    "rc4": "OpenSSL no longer has the cipher (RC4, 3DES).",
    "rc4-md5": "OpenSSL no longer has the cipher (RC4, 3DES).",
    "3des": "OpenSSL no longer has the cipher (RC4, 3DES).",
    "dh480": "OpenSSL refuses to serve with a group of less than 1024 bits.",
    "dh512": "OpenSSL refuses to serve with a group of less than 1024 bits.",
    "pinning-test": "A pin that only a browser can have built in.",
}


def _context(case: Case, folder: Path) -> ssl.SSLContext:
    chain = case.chain()
    (folder / "server.pem").write_bytes(chain[0].key_pem + b"".join(each.pem for each in chain))
    (folder / "root.pem").write_bytes(_root().pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Else OpenSSL refuses to be a bad server.
    context.set_ciphers(f"{case.ciphers}:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = case.versions
    context.load_cert_chain(folder / "server.pem")
    if case.group:
        group = folder / "group.pem"
        subprocess.run(
            ["openssl", case.group[0], "-out", str(group), *case.group[1:]], check=True, capture_output=True, timeout=60
        )
        context.load_dh_params(group)
    return context


def _works(port: int, case: Case) -> None:
    """A client that verifies nothing and has every cipher gets the body: nothing else is wrong with the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = case.versions
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as plain, context.wrap_socket(plain) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        answer = b""
        while more := sock.recv(1 << 16):
            answer += more
        assert answer.endswith(BODY)


def _run(case: Case) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="roughwater-badssl-") as made:
        folder = Path(made)
        context = _context(case, folder)

        def talk(sock: socket.socket) -> None:
            with context.wrap_socket(sock, server_side=True) as secure:
                secure.recv(1 << 16)
                secure.sendall(head("200 OK", len(BODY), "Connection: close") + BODY)
                secure.unwrap()

        with serve_sockets(talk) as server:
            if case.openssl_connects:
                _works(server.port, case)
            name = f"{case.name}.{_DOMAIN}"
            command = [
                str(find_ferry()),
                "get",
                f"https://{name}:{server.port}/",
                "-o",
                "-",
                "--cacert",
                str(folder / "root.pem"),
            ]
            command += ["--resolve", f"{name}:{server.port}:127.0.0.1", "--http1.1", "--retry", "0", "--no-progress"]
            # A busy machine takes its time for the large keys.
            command += ["--timeout-tls", "50s"]
            done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    told = done.stderr.decode(errors="replace").strip()
    if done.returncode < 0:
        return Outcome(case.name, f"is killed by signal {-done.returncode}: {told}")
    connected = done.returncode == 0 and done.stdout == BODY
    if connected == case.connects:
        return Outcome(case.name)
    return Outcome(case.name, "accepts it" if connected else f"refuses it: {told}")


def badssl() -> Iterator[Outcome | Excluded]:
    """Each against a run of the program that trusts one root."""
    yield from map(Excluded, EXCLUDED.values())
    # Made once, before the threads need them.
    _intermediate(), _rsa(2048)
    with ThreadPoolExecutor(4) as pool:
        yield from pool.map(_run, CASES)
