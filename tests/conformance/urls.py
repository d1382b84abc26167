"""URLs and host names, read by ferry from its command line and from Location fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.conformance.cases import Excluded, Outcome
from tests.conformance.program import answers, crate

_SCHEME = re.compile(r"^[\0- ]*([A-Za-z][A-Za-z0-9+.-]*):")
_HTTP = ("http", "https")
_SURROGATE = "A lone surrogate: neither an argument nor a field of HTTP can have one."


def _scheme(url: str) -> str | None:
    found = _SCHEME.match(re.sub(r"[\t\r\n]", "", url))
    return found[1].lower() if found else None


def _asked(case: dict[str, Any]) -> str | None:
    """What a client asks for: the URL without credentials and fragment; None where the case is not a URL."""
    if case.get("failure"):
        return None
    url = str(case["href"]).partition("#")[0]
    return re.sub(r"^(\w+://)[^/@]*@", r"\1", url) if case["username"] or case["password"] else url


def wpt_urls() -> Iterator[Outcome | Excluded]:
    """A case without a base is typed; one with an HTTP base is the Location field of an answer to it."""
    cases = json.loads((crate("url")[1] / "tests" / "urltestdata.json").read_text(encoding="utf-8"))
    held: list[tuple[str, dict[str, Any], str | None]] = []
    for case in (each for each in cases if isinstance(each, dict)):
        base, text = case.get("base"), case["input"]
        absolute = base is None or _scheme(base) not in _HTTP
        if case.get("failure"):
            http = _scheme(text) in _HTTP or (not absolute and _scheme(text) is None)
        else:
            http = case["protocol"].removesuffix(":") in _HTTP
        if not http:
            yield Excluded("The URL is neither http nor https.")
        elif absolute and _scheme(text) is None:
            yield Excluded("A relative URL, whose base is neither http nor https.")
        elif any("\ud800" <= character <= "\udfff" for character in text):
            yield Excluded(_SURROGATE)
        elif "\0" in text:
            yield Excluded("A NUL: neither an argument nor a field of HTTP can have one.")
        elif absolute:
            held.append((json.dumps(text), {"kind": "url", "input": text}, _asked(case)))
        else:
            held.append((f"{json.dumps(text)} against {base}", {"kind": "url", "input": text, "base": base}, case.get("href")))
    yield from _judged(held)


def _columns() -> Iterator[list[str]]:
    for line in (crate("idna")[1] / "tests" / "IdnaTestV2.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield [_unescaped(column.strip()) for column in line.partition("#")[0].split(";")]


def _unescaped(text: str) -> str:
    text = re.sub(r"\\u([0-9A-Fa-f]{4})|\\x\{([0-9A-Fa-f]+)\}", lambda found: chr(int(found[1] or found[2], 16)), text)
    # Surrogate pairs come as two escapes.
    return "" if text == '""' else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_OFF = {"A4_1", "A4_2", "V2", "V3", "U1", "X4_2"}
"""Statuses of checks that the URL standard turns off for a host (domain to ASCII, with beStrict false)."""
_DELIMITER = re.compile(r"[\0- \x7f#%/:<>?@\[\\\]^|]")
"""What ends a host in a URL, or what the URL standard forbids there."""


def unicode_hosts() -> Iterator[Outcome | Excluded]:
    """ferry reads https://NAME/ as a URL whose host is NAME in ASCII, or refuses it."""
    held: list[tuple[str, dict[str, Any], str | None]] = []
    for number, (source, unicode, unicode_status, ascii_n, ascii_status, *_) in enumerate(_columns()):
        status = ascii_status or unicode_status
        wrong = set(re.findall(r"\w+", status)) - _OFF
        if _DELIMITER.search(source) or not source:
            yield Excluded("The name is empty, or has a character that delimits the host in a URL.")
        elif not wrong and status not in ("", "[]"):
            yield Excluded("The name fails only checks that the URL standard turns off (lengths, hyphens, STD3).")
        elif "\ufffd" in source:
            yield Excluded(_SURROGATE)
        else:
            wanted = None if wrong else f"https://{ascii_n or unicode or source}/"
            held.append((f"{number} {json.dumps(source)}", {"kind": "url", "input": f"https://{source}/"}, wanted))
    yield from _judged(held)


def _judged(held: list[tuple[str, dict[str, Any], str | None]]) -> Iterator[Outcome]:
    """Name, what is given and the URL that comes of it, None where it is refused."""
    for (name, _, wanted), answer in zip(held, answers([given for _, given, _ in held]), strict=True):
        found = answer.get("href")
        if found == wanted:
            yield Outcome(name)
        else:
            yield Outcome(name, f"refuses it: {answer['error']}" if found is None else f"accepts it: {found}, not {wanted}")
