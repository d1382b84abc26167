"""curl's test files (docs/tests/FILEFORMAT.md in its source): sections, variables, conditions. A character is a byte."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

_SECTION = re.compile(r"^ *<(?P<name>[a-z]+\d*)(?P<attributes>(?: [^>\n]*)?)>[ \r]*\n(?P<text>.*?)^ *</(?P=name)>", re.M | re.S)
_ATTRIBUTE = re.compile(r'([a-z-]+)="([^"]*)"')
_CODES = re.compile(
    r"%(?P<kind>b64|hex)\[(?P<text>.*?)\](?P=kind)%|%repeat\[(?P<count>\d+) x (?P<piece>.*?)\]%|%days\[(?P<days>\d+)\]"
)
_FIELD = re.compile(r"[A-Za-z0-9_-]+: [^\r]*\Z")
_FIRST_LINE = re.compile(r"HTTP/(?:1.1|1.0|2|3) [1-5][^\r]*\Z|(?:GET|POST|PUT|DELETE) \S+ HTTP/\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Part:
    """A section's text, and the attributes of its label."""

    text: str
    attributes: Mapping[str, str]

    @property
    def data(self) -> bytes:
        """What is sent, or compared."""
        text = self.text
        if "hex" in self.attributes:
            return bytes.fromhex("".join(re.findall(r"[0-9a-fA-F]", text)))
        if "base64" in self.attributes:
            return base64.b64decode(text)
        if "nonewline" in self.attributes:
            text = text.removesuffix("\n").removesuffix("\r")
        return text.encode("latin-1")


@dataclass(frozen=True)
class TestFile:
    """One test. Parts by section and name."""

    number: int
    parts: Mapping[tuple[str, str], tuple[Part, ...]]

    __test__ = False

    def get(self, section: str, name: str) -> Part | None:
        """The first part of that name."""
        return next(iter(self.parts.get((section, name), ())), None)

    def text(self, section: str, name: str) -> str:
        part = self.get(section, name)
        return part.text if part else ""

    def words(self, section: str, name: str) -> frozenset[str]:
        """One of each line."""
        return frozenset(line.strip() for line in self.text(section, name).splitlines() if line.strip())


def read(number: int, raw: str, variables: Mapping[str, str], features: frozenset[str]) -> TestFile:
    """A test file's parts: `raw` has a character for each byte."""
    names = sorted(variables, key=len, reverse=True)
    known = re.compile("%(" + "|".join(map(re.escape, names)) + ")")
    text = known.sub(lambda found: variables[found[1]], raw)
    text = _conditions(_CODES.sub(_decoded, text), features)
    parts: dict[tuple[str, str], list[Part]] = {}
    for section in ("info", "reply", "client", "verify"):
        found = re.search(rf"^ *<{section}>\s*\n(.*?)^ *</{section}>", text, re.M | re.S)
        for each in _SECTION.finditer(found[1] if found else ""):
            attributes = dict(_ATTRIBUTE.findall(each["attributes"]))
            body = _with_crlf(each["text"]) if "crlf" in attributes else each["text"]
            parts.setdefault((section, each["name"]), []).append(Part(body, attributes))
    return TestFile(number, {key: tuple(value) for key, value in parts.items()})


def _percent(text: str) -> str:
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)


def _decoded(found: re.Match[str]) -> str:
    if found["kind"] == "hex":
        return _percent(found["text"])
    if found["kind"] == "b64":
        return base64.b64encode(_percent(found["text"]).encode("latin-1")).decode()
    if found["count"]:
        return _percent(found["piece"]) * int(found["count"])
    return str(int(time.time()) + int(found["days"]) * 86400)


def _conditions(text: str, features: frozenset[str]) -> str:
    """`%if FEATURE`, `%else`, `%endif`, which can be nested."""
    kept, shown = [], [True]
    for line in text.splitlines(keepends=True):
        if asked := re.match(r"%if (!?)(\S+)", line):
            shown.append(shown[-1] and (asked[2] in features) != bool(asked[1]))
        elif line.startswith("%else"):
            shown[-1] = shown[-2] and not shown[-1]
        elif line.startswith("%endif"):
            shown.pop()
        elif shown[-1]:
            kept.append(line)
    return "".join(kept)


def _with_crlf(text: str) -> str:
    """Lines of a head end with CRLF, and so does the empty line behind it."""
    made, in_head = [], False
    for line in text.split("\n"):
        bare = line.removesuffix("\r")
        head = bool(_FIRST_LINE.match(bare) or _FIELD.match(bare))
        made.append(bare + "\r" if head or (in_head and not line) else line)
        in_head = head
    # The last piece stands behind the last line end.
    made[-1] = made[-1].removesuffix("\r")
    return "\n".join(made)
