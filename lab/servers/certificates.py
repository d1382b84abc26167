"""A certificate authority and a server certificate for one run, never stored.

Our own and not trustme's, because every key and number must follow from a machine's seed in virtual time.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A guest's or a VM's clock may be behind the lab's.
_BACKDATED = timedelta(hours=1)
_LIFETIME = timedelta(days=7)


@dataclass(frozen=True)
class Certificates:
    """PEM bytes. The authority's own key is forgotten at once: it signs exactly one certificate."""

    ca_pem: bytes
    server_pem: bytes
    server_key_pem: bytes = field(repr=False)


def make_certificates(
    addresses: Iterable[str],
    *,
    names: Iterable[str] = ("server", "localhost"),
    age: timedelta = timedelta(0),
    now: datetime | None = None,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> Certificates:
    """EC P-256 throughout; the server's certificate is good for every DNS name and every IP address given.

    Everything in it follows from `random_bytes` and `now` (the present where left out), signatures too (RFC 6979). The system's
    own random bytes repeat nothing: then signatures need not, and Debian 12's cryptography in a server's container will do.
    `age` is how long ago the server's was made, for tests of clients: it expires after a week. The authority is always new.
    """
    now = now or datetime.now(UTC)
    repeatable = random_bytes is not os.urandom
    ca_key, server_key = _key(random_bytes), _key(random_bytes)
    ca_number, server_number = (int.from_bytes(random_bytes(20), "big") >> 1 for _ in range(2))
    ca_name, server_name = _name("Roughwater CA of one run"), _name("server")
    ca = _signed(
        _builder(ca_name, ca_name, ca_key.public_key(), now, ca_number)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False),
        ca_key,
        repeatable=repeatable,
    )
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in dict.fromkeys(addresses) if address]
    server = _signed(
        _builder(server_name, ca_name, server_key.public_key(), now - age, server_number)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False),
        ca_key,
        repeatable=repeatable,
    )
    pem = serialization.Encoding.PEM
    key_pem = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Certificates(ca.public_bytes(pem), server.public_bytes(pem), key_pem)


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, *, repeatable: bool) -> x509.Certificate:
    if repeatable:
        return builder.sign(key, hashes.SHA256(), ecdsa_deterministic=True)
    return builder.sign(key, hashes.SHA256())


def _key(random_bytes: Callable[[int], bytes]) -> ec.EllipticCurvePrivateKey:
    """Eight bytes more than the curve's order: the remainder is as good as uniform (FIPS 186-5, A.2.1)."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256 (FIPS 186-5, SP 800-186)
    return ec.derive_private_key(int.from_bytes(random_bytes(40), "big") % (order - 1) + 1, ec.SECP256R1())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime, number: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(number)
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LIFETIME)
    )


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )
