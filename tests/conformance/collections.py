"""The collections, and what each of their cases asks of ferry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.conformance.badssl import badssl
from tests.conformance.cases import Collection, Outcome
from tests.conformance.certificates import bsi, go_names, pkits
from tests.conformance.curl_heads import curl_heads
from tests.conformance.curl_replies import curl_replies
from tests.conformance.curl_sftp import curl_sftp
from tests.conformance.frames import frames
from tests.conformance.h2spec import h2spec
from tests.conformance.heads import broken_heads
from tests.conformance.lengths import content_lengths
from tests.conformance.limbo import limbo
from tests.conformance.program import answers, crate, members
from tests.conformance.qpack import qpack
from tests.conformance.ssh_clients import ssh_audit, strict_kex
from tests.conformance.urls import unicode_hosts, wpt_urls


def hpack() -> Iterator[Outcome]:
    """One case per header block: its fields, decoded after all blocks before it in the same story."""
    fixtures = crate("httlib-hpack")[1] / "fixtures"
    paths = sorted(path for path in fixtures.rglob("*.json"))
    stories = [(str(path.relative_to(fixtures)), json.loads(path.read_bytes())["cases"]) for path in paths]
    wanted = ("wire", "header_table_size")
    given = [
        {"kind": "hpack", "blocks": [{key: case[key] for key in wanted if key in case} for case in cases]} for _, cases in stories
    ]
    for (path, cases), answer in zip(stories, answers(given), strict=True):
        for index, case in enumerate(cases):
            made = answer["blocks"][index] if index < len(answer["blocks"]) else {"error": "a block before it failed"}
            expected = [list(pair) for field in case["headers"] for pair in field.items()]
            yield Outcome(f"{path} {index}", "" if made.get("fields") == expected else f"{made}"[:200])


_CASE = re.compile(
    r"^#+ (?P<title>[^\n]+)\n(?:(?!^#).)*?<!-- meta=(?P<meta>\{[^\n]*\}) -->\n```http\n(?P<http>.*?)```", re.M | re.S
)
_LOG = re.compile(r"```log\n(.*?)```", re.S)


def _wire(text: str) -> str:
    """The bytes that a block of llhttp's Markdown stands for (its test/md-test.ts), one character each."""
    text = re.sub(r"\\\n", "", text.removesuffix("\n")).replace("\n", "\r\n")
    for mark, meant in ((r"\r", "\r"), (r"\n", "\n"), (r"\t", "\t"), (r"\f", "\f")):
        text = text.replace(mark, meant)
    return re.sub(r"\\x([0-9a-fA-F]+)", lambda found: chr(int(found[1], 16)), text)


@dataclass
class _Logged:
    """The first message as llhttp's log has it."""

    status: int | None = None
    body: str = ""
    complete: bool = False
    error: str = ""


def _logged(log: str) -> _Logged:
    found = _Logged()
    for line in log.splitlines():
        if match := re.search(r"headers complete status=(\d+)", line):
            found.status = int(match[1])
        elif match := re.search(r'span\[body\]=(?:"(.*)"|(\w+))$', line):
            found.body += match[1] if match[1] is not None else {"cr": "\r", "lf": "\n", "tab": "\t"}[match[2]]
        elif "message complete" in line and 100 <= (found.status or 0) < 200 and found.status != 101:
            # To ferry, an interim answer belongs to the final one, and has no body.
            found = _Logged()
        elif "message complete" in line:
            found.complete = True
            break
        elif match := re.search(r'error code=\d+ reason="(.*)"', line):
            # Bytes behind a complete message concern the connection.
            found.error = match[1]
            break
    return found


def llhttp() -> Iterator[Outcome]:
    """Responses in llhttp's strict mode: what it refuses is refused, and status and body of the first message are the same."""
    cases = []
    for path, text in members("llhttp", "vendor/llhttp/test/response", ".md"):
        for match in _CASE.finditer(text):
            log = _LOG.search(text, match.end())
            # The other types switch checks off that ferry has no switch for.
            if log and json.loads(match["meta"])["type"] in {"response", "response-finish"}:
                line = text.count("\n", 0, match.start()) + 1
                # llhttp's switch for answers that have no body although they say so: those to HEAD.
                method = "HEAD" if "skipBody" in match["meta"] else "GET"
                wire = _wire(match["http"]).encode("latin-1").hex()
                cases.append((f"response/{path}:{line} {match['title']}", method, wire, _logged(log[1])))
    given = [{"kind": "response", "method": method, "wire": wire} for _, method, wire, _ in cases]
    for (name, *_, wanted), answer in zip(cases, answers(given), strict=True):
        yield Outcome(name, _differs(wanted, answer))


def _differs(wanted: _Logged, answer: dict[str, Any]) -> str:
    error, status = answer["error"], answer["heads"][-1]["status"] if answer["heads"] else None
    if wanted.error:
        return "" if error else f"accepts it: {wanted.error}"
    if wanted.complete and error:
        return f"refuses it: {error}"
    if wanted.status is not None and error and not answer["heads"]:
        return f"refuses it: {error}"
    if wanted.status is not None and (status, answer["body"]) != (wanted.status, wanted.body):
        return f"status {status}, body {answer['body']!r}, error {error}"[:200]
    return ""


COLLECTIONS = (
    Collection("HPACK blocks of 14 encoders", "hpack-test-case", "the decoder of header fields", hpack),
    Collection("QPACK blocks of two encoders", "qifs", "the decoder of header fields over HTTP/3", qpack),
    Collection("HTTP/2 frames", "http2-frame-test-case", "the decoder of frames and its error codes", frames),
    Collection("HTTP/1.1 responses of llhttp", "llhttp", "the reader of responses", llhttp),
    Collection("Tests of curl", "curl-data", "what is asked for and written, and how the program ends", curl_replies),
    Collection(
        "SFTP tests of curl", "curl-sftp", "the program against OpenSSH's server: files, ranges, logins, host keys", curl_sftp
    ),
    Collection(
        "Replies of curl's tests", "curl-replies", "the reader of responses, compared with CPython's `http.client`", curl_heads
    ),
    Collection("Content-Length of WPT", "wpt-content-length", "the length of a response", content_lengths),
    Collection("Heads of WPT", "wpt-h1-parsing", "status lines and fields that are not well-formed", broken_heads),
    Collection("HTTP/2 clients of h2spec", "h2spec", "the program against a server that breaks the rules", h2spec),
    Collection("Servers of badssl.com", "badssl", "certificates and TLS, the program against each", badssl),
    Collection("ssh-audit", "ssh-audit", "the algorithms that the program offers an SSH server", ssh_audit),
    Collection("Strict key exchange", "strict-kex", "the program against Terrapin's kind of server", strict_kex),
    Collection("Certificates of NIST", "pkits", "which paths of certificates are trusted (PKITS)", pkits),
    Collection("Certificates of the BSI", "bsi", "the same, of a German office", bsi),
    Collection("Name constraints of Go", "go-names", "the same, names and purposes that an authority may sign", go_names),
    Collection(
        "x509-limbo",
        "x509-limbo",
        "certificates of servers: paths, constraints, names, long computations",
        limbo,
    ),
    Collection("URLs of WPT", "wpt-url", "URLs that are typed, and those of Location fields", wpt_urls),
    Collection("Host names of Unicode", "unicode-idna", "international host names in a URL", unicode_hosts),
)
