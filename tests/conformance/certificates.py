"""Paths of certificates that others have made, through the verifier of ferry's TLS: trusted, or not."""

from __future__ import annotations

import base64
import calendar
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.conformance.cases import Excluded, Outcome
from tests.conformance.go_names import Made, rows
from tests.conformance.program import answers, package

_LISTS = "Only a revocation list says that the path is not valid, and ferry asks for none."
_POLICIES = "Certificate policies, which a TLS client has no list of."
_DSA = "DSA, which TLS has no longer."


@dataclass(frozen=True)
class Path:
    """The certificates that a server shows, its own first, for a client that trusts one root."""

    name: str
    valid: bool
    chain: tuple[bytes, ...]
    roots: tuple[bytes, ...]
    time: int
    """Of the check, in seconds since 1970."""


def _judged(paths: list[Path]) -> Iterator[Outcome]:
    """A path that is trusted, but for another name than was asked for, is trusted: the suites judge no names."""
    given = [
        {
            "kind": "certificate",
            "chain": [each.hex() for each in path.chain],
            "roots": [each.hex() for each in path.roots],
            "name": "conformance.test",
            "time": path.time,
        }
        for path in paths
    ]
    for path, answer in zip(paths, answers(given), strict=True):
        error = answer["error"]
        if path.valid:
            yield Outcome(path.name, f"refuses it: {error}" if error else "")
        else:
            yield Outcome(path.name, "" if error else "accepts it")


def _files(source: str, folder: str) -> Mapping[str, bytes]:
    """The files below a folder of the source's package."""
    found = {}
    with tarfile.open(package(source)) as tar:
        for entry in tar:
            if f"/{folder}/" in entry.name and (file := tar.extractfile(entry)):
                found[entry.name.partition(f"/{folder}/")[2]] = file.read()
    return found


_PKITS_TIME = calendar.timegm((2024, 1, 1, 0, 0, 0))


def pkits() -> Iterator[Outcome | Excluded]:
    """The tests of NIST's Public Key Interoperability Test Suite, as a TLS client can be asked them."""
    files = _files("pkits", "nist-pkits")
    tests: list[dict[str, Any]] = json.loads(files["vectors.json"])
    paths = []
    for test in tests:
        if rule := _pkits_rule(test):
            yield Excluded(rule)
            continue
        root, *rest = (files[f"certs/{name}"] for name in test["CertPath"])
        paths.append(Path(test["Name"], test["ShouldValidate"], tuple(reversed(rest)), (root,), _PKITS_TIME))
    yield from _judged(paths)


def _pkits_rule(test: dict[str, Any]) -> str:
    """By the sections of the suite."""
    section, name = test["Name"].split()[0], test["Name"]
    if "DSA" in name:
        return _DSA
    if re.match(r"4\.(8|9|10|11|12)\.", section):
        return _POLICIES
    about_lists = re.match(r"4\.(4|14|15)\.", section) or "CRL" in name or "cRLSign" in name or section in {"4.5.2", "4.5.5"}
    return _LISTS if about_lists and not test["ShouldValidate"] else ""


# Where its description does not say so, the test is one of what must work.
_BSI_VALID = re.compile(r"path is (?:not invalid|valid)|and is valid|exhaustive search")
_BSI_TIME = calendar.timegm((2017, 8, 19, 12, 0, 0))


def bsi() -> Iterator[Outcome | Excluded]:
    """The certification paths of Germany's Federal Office for Information Security (BSI), in Botan's tests."""
    files = _files("bsi", "src/tests/data/x509/bsi")
    another, paths = _der(files["common_01/common_01_root_ca.TA.pem.crt"]), []
    for name in sorted({path.partition("/")[0] for path in files if "/" in path}):
        if name.startswith("CRL_"):
            yield Excluded(_LISTS)
            continue
        kept = {path: _der(data) for path, data in files.items() if path.startswith(f"{name}/") and path.endswith(".crt")}
        (leaf,) = [data for path, data in kept.items() if ".TC." in path]
        # One test is of a client that does not have the root.
        (root,) = [data for path, data in kept.items() if ".TA." in path] or [another]
        rest = [data for path, data in sorted(kept.items()) if ".TC." not in path and ".TA." not in path]
        said = " ".join(files[f"{name}/description.txt"].decode().split())
        paths.append(Path(name, _BSI_VALID.search(said) is not None, (leaf, *rest), (root,), _BSI_TIME))
    yield from _judged(paths)


def _der(data: bytes) -> bytes:
    """Files of both forms are called .crt."""
    if not data.startswith(b"-----"):
        return data
    return base64.b64decode(b"".join(data.split(b"-----")[2].split()))


def go_names() -> Iterator[Outcome | Excluded]:
    """Go's table of name constraints and key usages."""
    found = list(rows())
    yield from (each for each in found if isinstance(each, Excluded))
    yield from _judged(
        [Path(each.name, each.valid, each.chain, each.roots, each.time) for each in found if isinstance(each, Made)]
    )
