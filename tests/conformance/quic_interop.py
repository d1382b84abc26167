"""The client's test cases of quic-interop-runner, restated: what each asks for, and which test asks ferry the same.

The runner pairs programs in containers over a simulator. Its cases are restated from their descriptions, on links of the lab and
against aioquic of Debian 13. A case names tests of this project, or says why it does not apply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.model.paths import project_root

COMMIT = "028d6f143f"
"""The version of https://github.com/quic-interop/quic-interop-runner that was read."""

_HERE = "tests/conformance/test_quic_interop.py"
_ENGINE = "engine/crates/ferry-engine/tests/http3.rs"
_FAULTS = "suites/faults.robot"
_OURS = "test_the_client_gets_its_files"


@dataclass(frozen=True)
class Case:
    """`asks`: what a client must do. `tests`: `PATH::NAME`, with `[ID]` where it has parameters. `why`: why there is no test."""

    name: str
    asks: str
    tests: tuple[str, ...] = ()
    why: str = ""


CASES = (
    Case("handshake", "a small file, without Retry or version negotiation", (f"{_HERE}::{_OURS}[handshake]",)),
    Case(
        "transfer",
        "files that are larger than the windows at first, at once",
        (f"{_HERE}::{_OURS}[transfer]", f"{_ENGINE}::many_downloads_share_a_connection"),
    ),
    Case("longrtt", "a handshake over a round trip of 1.5 s", (f"{_HERE}::{_OURS}[longrtt]",)),
    Case("chacha20", "ChaCha20-Poly1305, because the server has nothing else", (f"{_HERE}::test_the_server_insists[chacha20]",)),
    Case("multiplexing", "many small files on streams of one connection", (f"{_HERE}::{_OURS}[multiplexing]",)),
    Case("retry", "the handshake again, with the server's token", (f"{_HERE}::test_the_server_insists[retry]",)),
    Case(
        "resumption",
        "a second connection by a ticket of the first",
        why="Switched off over QUIC: a run has one connection to a server, and keeps nothing for the next run.",
    ),
    Case("zerortt", "a request in the first flight", why="Off by decision: what is sent so can be replayed (ADR 0038, 7)."),
    Case("http3", "files over HTTP/3", (f"{_HERE}::{_OURS}[http3]", f"{_ENGINE}::a_download_is_what_the_server_has")),
    Case("blackhole", "go on after 2 s in which nothing passes, again and again", (f"{_HERE}::{_OURS}[blackhole]",)),
    Case("keyupdate", "follow the server to new keys", (f"{_HERE}::test_the_server_insists[keyupdate]",)),
    Case(
        "ecn",
        "send packets that can ECN, as long as the server counts marks",
        (f"{_HERE}::test_packets_can_be_marked",),
    ),
    Case(
        "amplificationlimit",
        "go on where a server may not send yet, with a certificate of many packets",
        (f"{_HERE}::test_the_server_insists[amplificationlimit]",),
    ),
    Case("handshakeloss", "connections while 30 % of the packets are lost", (f"{_HERE}::test_handshakes_get_through[loss]",)),
    Case("transferloss", "a file while 2 % of the packets are lost", (f"{_HERE}::{_OURS}[transferloss]",)),
    Case(
        "handshakecorruption",
        "connections while 30 % of the packets are damaged",
        (f"{_HERE}::test_handshakes_get_through[corrupt]",),
    ),
    Case("transfercorruption", "a file while 2 % of the packets are damaged", (f"{_HERE}::{_OURS}[transfercorruption]",)),
    Case("ipv6", "a connection over IPv6", (f"{_HERE}::test_over_ipv6",)),
    Case(
        "v2",
        "version 2 of QUIC where the server has it",
        why="ferry speaks version 1 alone (RFC 9000), as quinn-proto does; version 2 (RFC 9369) is not asked of a client.",
    ),
    Case(
        "rebind-port",
        "go on when a NAT gives the client another port",
        (f"{_ENGINE}::a_router_that_forgets_the_client_costs_no_attempt", f"{_FAULTS}::Port Of The NAT Changed, H3 Down"),
    ),
    Case(
        "rebind-addr",
        "go on when the server sees the client at another address",
        (f"{_FAULTS}::Address Changed, H3 Down", f"{_FAULTS}::Address Changed, H3 Up"),
    ),
    Case(
        "connectionmigration",
        "move to the address that the server prefers",
        why="quinn-proto reads a server's preferred address and does not move to it, as a client should (RFC 9000, 9.6.1).",
    ),
    Case("goodput", "10 MB over 10 Mbit/s", (f"{_HERE}::{_OURS}[goodput]",)),
    Case(
        "crosstraffic",
        "the same next to a flow of TCP with cubic",
        why="Not asked yet: `lab harm`, which has such flows, measures no HTTP/3.",
    ),
)

_TEST = {".py": r"^def {}\(", ".rs": r"^fn {}\(", ".robot": r"^{}  "}


def has_test(test: str) -> bool:
    """Whether there is a test of that `PATH::NAME`; of one with an `[ID]`, whether its file has that parameter."""
    path, _, name = test.partition("::")
    name, _, parameter = name.removesuffix("]").partition("[")
    file = project_root() / path
    if not file.is_file():
        return False
    text = file.read_text(encoding="utf-8")
    named = re.search(_TEST[file.suffix].format(re.escape(name)), text, re.MULTILINE)
    return bool(named) and (not parameter or f'"{parameter}"' in text)


def table() -> list[str]:
    """The rows of the page."""
    rows = [f"| {case.name} | {case.asks} | {', '.join(f'`{test}`' for test in case.tests) or case.why} |" for case in CASES]
    return ["| case | asks a client to | asked of ferry by, or why not |", "|---|---|---|", *rows]
