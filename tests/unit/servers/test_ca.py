"""Certificates of one run: what a TLS client checks."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from lab.servers.certificates import make_certificates


def test_server_certificate_is_signed_for_every_name_and_address() -> None:
    made = make_certificates(["10.77.2.2", "127.0.0.1"])
    ca, server = (x509.load_pem_x509_certificate(pem) for pem in (made.ca_pem, made.server_pem))
    server.verify_directly_issued_by(ca)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["server", "localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.77.2.2"), ipaddress.ip_address("127.0.0.1")]
    key = load_pem_private_key(made.server_key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() == server.public_key()


def test_validity_spans_an_hour_ago_to_days_ahead() -> None:
    server = x509.load_pem_x509_certificate(make_certificates([]).server_pem)
    now = datetime.now(UTC)
    assert now - timedelta(hours=2) < server.not_valid_before_utc < now - timedelta(minutes=59)
    assert server.not_valid_after_utc > now + timedelta(days=1)


def test_every_run_has_its_own_authority_and_no_key_is_shown() -> None:
    one, other = make_certificates([]), make_certificates([])
    assert one.ca_pem != other.ca_pem
    assert "PRIVATE" not in repr(one)
    subject = x509.load_pem_x509_certificate(one.ca_pem).subject
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "Roughwater CA of one run"


def test_debian_12_can_sign_and_a_seed_repeats_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 11, 25, tzinfo=UTC)
    made = [make_certificates(["10.77.2.2"], now=now, random_bytes=Random(1).randbytes) for _ in range(2)]
    assert made[0] == made[1]
    sign = x509.CertificateBuilder.sign

    def of_debian_12(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, digest: SHA256) -> x509.Certificate:
        return sign(builder, key, digest)

    monkeypatch.setattr(x509.CertificateBuilder, "sign", of_debian_12)
    assert make_certificates(["10.77.2.2"]).server_pem
