"""Cases that ferry fails on purpose, and why."""

from __future__ import annotations

_ALONE = "The frame is right by itself, and not where the case puts it: "
_UPGRADE = "ferry asks for no upgrade, so it refuses a 101 (RFC 9110, 15.2.2)."
_EMPTY_LINE = (
    "An empty line before a response: a server may overlook one before a request (RFC 9112, 2.2); nothing says so of a client."
)
_LF = "Lines that end with LF alone: RFC 9112, 2.2 lets a recipient take them, and old servers send them."
_NOT_HTTP = "Not HTTP/1.0 or HTTP/1.1."
_CODINGS = (
    "A body whose coding is not exactly `chunked` has an end that two recipients may see differently: "
    "ferry refuses it (RFC 9112, 6.1)."
)

EXPLAINED: dict[str, dict[str, str]] = {
    "http2-frame-test-case": {
        "continuation/header.json": _ALONE + "CONTINUATION without HEADERS.",
        "continuation/normal.json": _ALONE + "CONTINUATION without HEADERS.",
        "data/normal.json": _ALONE + "DATA on an even stream, which a server would have to announce.",
        "headers/normal.json": "Its header block is a dummy text, not HPACK.",
        "headers/priority.json": "Its header block is a dummy text, not HPACK.",
        "push_promise/normal.json": "ferry's SETTINGS forbid pushes.",
        "window_update/normal.json": _ALONE + "WINDOW_UPDATE on an even stream, which a server would have to announce.",
    },
    "llhttp": {
        "response/connection.md:293 HTTP 101 response with Upgrade and Content-Length header": _UPGRADE,
        "response/connection.md:331 HTTP 101 response with Upgrade and Transfer-Encoding header": _UPGRADE,
        "response/connection.md:586 HTTP 100 first, then 400": _EMPTY_LINE,
        "response/invalid.md:287 Only LFs present and no body": _LF,
        "response/invalid.md:327 Only LFs present": _LF,
        "response/sample.md:40 RTSP response": _NOT_HTTP,
        "response/sample.md:60 ICE response": _NOT_HTTP,
        "response/sample.md:330 No carriage ret": _LF,
        "response/sample.md:645 HTTP version 0.9": _NOT_HTTP,
        "response/sample.md:695 Response starting with CRLF": _EMPTY_LINE,
        "response/transfer-encoding.md:43 `chunked` before other transfer-encoding": _CODINGS,
        "response/transfer-encoding.md:74 multiple transfer-encoding where chunked is not the last one": _CODINGS,
        "response/transfer-encoding.md:110 `chunkedchunked` transfer-encoding does not enable chunked enconding": _CODINGS,
        "response/transfer-encoding.md:248 No extension after semicolon": (
            "A chunk size with a semicolon and nothing behind it: ferry skips extensions without reading them."
        ),
    },
}
"""By archive and case."""
