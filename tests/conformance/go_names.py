"""Go's table of name constraints and key usages (crypto/x509), read from its source: certificates are made as the table says."""

from __future__ import annotations

import calendar
import ipaddress
import re
import tarfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

from tests.conformance.cases import Excluded
from tests.conformance.program import package

OTHER_PURPOSE = "A certificate for another purpose than a server's."
NO_NAME = "A name or constraint of a kind that does not exist, which no builder of certificates writes."

_FILE = "/src/crypto/x509/name_constraints_test.go"
_BEGIN, _NOW, _END = (datetime(2024, month, 1, tzinfo=UTC) for month in (1, 6, 12))
_WORD = re.compile(
    r'\s+|//[^\n]*|(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>[A-Za-z]\w*)(?=\s*:)|(?P<mark>[{},:])|(?P<other>[^\s{},:"]+)'
)
_USAGES = {
    "serverAuth": "1.3.6.1.5.5.7.3.1",
    "clientAuth": "1.3.6.1.5.5.7.3.2",
    "email": "1.3.6.1.5.5.7.3.4",
    "netscapeSGC": "2.16.840.1.113730.4.1",
    "msSGC": "1.3.6.1.4.1.311.10.3.3",
    "any": "2.5.29.37.0",
    "other": "2.4.1.2.3",
}


@dataclass(frozen=True)
class Made:
    """A row of the table, as certificates."""

    name: str
    valid: bool
    chain: tuple[bytes, ...]
    roots: tuple[bytes, ...]
    time: int = calendar.timegm(_NOW.timetuple())


def rows() -> Iterator[Made | Excluded]:
    """The table's, in its order."""
    with tarfile.open(package("go-names")) as tar:
        (entry,) = [each for each in tar if each.name.endswith(_FILE)]
        file = tar.extractfile(entry)
        assert file
        source = file.read().decode()
    table = source.partition("var nameConstraintsTests = []nameConstraintsTest")[2].partition("\n}\n")[0] + "\n}"
    said = re.findall(r"^\t// #(\d+): ((?:.*\n)(?:\t//.*\n)*)", table, re.M)
    comments = {int(number): " ".join(text.replace("\t//", " ").split()) for number, text in said}
    for number, row in enumerate(_literal(_words(table))):
        if row.get("requestedEKUs", ["ExtKeyUsageServerAuth"]) != ["ExtKeyUsageServerAuth"]:
            yield Excluded(OTHER_PURPOSE)
        elif '"unknown:"' in repr(row).replace("'", '"'):
            yield Excluded(NO_NAME)
        else:
            yield _made(f"#{number} {comments.get(number, '')}".strip(), row)


def _words(text: str) -> deque[tuple[str, str]]:
    return deque((found.lastgroup, found[0]) for found in _WORD.finditer(text) if found.lastgroup)


def _literal(words: deque[tuple[str, str]]) -> Any:
    """A composite literal: a dict where its elements have keys, else a list. Types are skipped."""
    while True:
        kind, word = words.popleft()
        if kind == "text":
            return re.sub(r"\\x([0-9a-f]{2})|\\(.)", lambda found: chr(int(found[1], 16)) if found[1] else found[2], word[1:-1])
        if word == "{":
            return _elements(words)
        if word.startswith("make("):
            # `make([]constraintsSpec, 1)`: a list with one empty element.
            assert [words.popleft()[1], words.popleft()[1]] == [",", "1)"]
            return [{}]
        # Else a type, in front of its elements.
        if not word.startswith("[") and word not in {"leafSpec", "constraintsSpec"}:
            return word


def _elements(words: deque[tuple[str, str]]) -> Any:
    made: list[Any] = []
    named: dict[str, Any] = {}
    while words[0][1] != "}":
        kind, word = words[0]
        if word == ",":
            words.popleft()
        elif kind == "word":
            words.popleft(), words.popleft()
            named[word] = _literal(words)
        else:
            made.append(_literal(words))
    words.popleft()
    return named if named or not made else made


def _name(text: str) -> x509.GeneralName:
    kind, _, value = text.partition(":")
    match kind:
        case "dns":
            return x509.DNSName(value)
        case "ip":
            return x509.IPAddress(ipaddress.ip_network(value, strict=False) if "/" in value else ipaddress.ip_address(value))
        case "email":
            # A constraint is a host or a domain too, and some of the table's addresses are not valid.
            return x509.RFC822Name._init_without_validation(value)
        case _:
            return x509.UniformResourceIdentifier(value)


def _certificate(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey],
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
) -> bytes:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer[0]).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(_BEGIN).not_valid_after(_END)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer[1], hashes.SHA256()).public_bytes(Encoding.DER)


def _usages(spec: dict[str, Any]) -> list[tuple[x509.ExtensionType, bool]]:
    wanted = [ObjectIdentifier(_USAGES[each]) for each in spec.get("ekus", [])]
    return [(x509.ExtendedKeyUsage(wanted), False)] if wanted else []


def _authority(spec: dict[str, Any]) -> list[tuple[x509.ExtensionType, bool]]:
    made: list[tuple[x509.ExtensionType, bool]] = [(x509.BasicConstraints(ca=True, path_length=None), True), *_usages(spec)]
    permitted, excluded = ([_name(each) for each in spec.get(kind) or []] or None for kind in ("ok", "bad"))
    if permitted or excluded:
        made.append((x509.NameConstraints(permitted, excluded), False))
    return made


def _made(name: str, row: dict[str, Any]) -> Made:
    def called(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    key = ec.generate_private_key(ec.SECP256R1())
    issuer = (called("Root"), key)
    roots = tuple(_certificate(issuer[0], key, issuer, _authority(spec or {})) for spec in row["roots"])
    chain: list[bytes] = []
    for level, specs in enumerate(row.get("intermediates") or []):
        key, above = ec.generate_private_key(ec.SECP256R1()), issuer
        issuer = (called(f"Intermediate level {level}"), key)
        chain += [_certificate(issuer[0], key, above, _authority(spec or {})) for spec in specs]
    leaf = row["leaf"]
    unit = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "Leaf")]
    common = [x509.NameAttribute(NameOID.COMMON_NAME, leaf["cn"])] if leaf.get("cn") else []
    extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.BasicConstraints(ca=False, path_length=None), True)]
    if leaf.get("sans"):
        extensions.append((x509.SubjectAlternativeName([_name(each) for each in leaf["sans"]]), False))
    key = ec.generate_private_key(ec.SECP256R1())
    own = _certificate(x509.Name([*unit, *common]), key, issuer, [*extensions, *_usages(leaf)])
    return Made(name, not row.get("expectedError"), (own, *reversed(chain)), roots)
