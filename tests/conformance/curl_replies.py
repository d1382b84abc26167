"""curl's data tests: its replies to ferry, what ferry writes and how it ends, and what it asks for where the two ask the same."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.clients.ferry import find_ferry
from lab.servers.certificates import make_certificates
from tests.conformance import curl_command as rules
from tests.conformance.cases import Excluded, Outcome
from tests.conformance.curl_command import ExcludedError, Translated, translate
from tests.conformance.curl_file import TestFile, read
from tests.conformance.curl_server import CurlServer, Request, parse_request, serving
from tests.conformance.program import package

FEATURES = frozenset({"http", "https", "SSL", "proxy", "crypto", "!SSPI", "IPv6", "IDN", "libz", "zstd"})
_HEAD = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})[^\n]*\n(?:(?!\r?\n)[^\n]*\n)*\r?\n")
_TRAILERS = re.compile(rb"\n0+\r?\n((?:[^\r\n]+\r?\n)+)\r?\n?\Z")
_SERVERS = frozenset({"http", "https", "http-proxy", "socks5"})
_LACKED = {
    **dict.fromkeys(("NTLM", "SPNEGO", "GSS-API", "TLS-SRP", "SSPI"), rules.LOGIN),
    "brotli": rules.CODINGS,
    **dict.fromkeys(
        ("alt-svc", "HSTS", "DoH", "UnixSockets", "ipfs", "getrlimit", "shuffle-dns", "override-dns"), rules.ELSEWHERE
    ),
    **dict.fromkeys(("SSLpinning", "ECH"), rules.TLS),
    **dict.fromkeys(("http/2", "h2c", "http/3"), rules.OLD),
    **dict.fromkeys(("ws", "ftp", "mqtt", "file", "getrlimit", "ld_preload", "Debug", "win32", "!http", "!IDN"), rules.ANOTHER),
}

_ANY_FAILURE = frozenset({10, 11, 12, 13})
_CLASSES: dict[int, frozenset[int]] = {
    1: frozenset({2, 11, 12}),
    3: frozenset({2, 11}),
    5: frozenset({10, 11}),
    6: frozenset({2, 10, 11}),
    7: frozenset({10, 11}),
    8: frozenset({11, 12}),
    18: frozenset({10, 12}),
    28: frozenset({10}),
    33: frozenset({11, 12}),
    47: frozenset({11}),
    52: frozenset({10, 12}),
    56: _ANY_FAILURE,
    63: frozenset({11, 12}),
    97: frozenset({10, 11}),
}
"""curl's exit codes, and those of ferry's that mean the same (docs/reference/ferry.md)."""


@functools.cache
def tests() -> dict[int, str]:
    """The text of each test, a character for each byte."""
    found: dict[int, str] = {}
    with tarfile.open(package("curl-data")) as tar:
        for entry in tar:
            match = re.search(r"/tests/data/test(\d+)$", entry.name)
            file = tar.extractfile(entry) if match else None
            if match and file:
                found[int(match[1])] = file.read().decode("latin-1")
    return found


def is_over_ssh(text: str) -> bool:
    """Tests of SFTP and SCP are a collection of their own."""
    servers = re.search(r"<server>(.*?)</server>", text, re.S)
    return servers is not None and not {"sftp", "scp"}.isdisjoint(servers[1].split())


def variables(number: int, folder: str | Path, ports: dict[str, int]) -> dict[str, str]:
    """A character of a value is a byte of the test's text."""
    place = os.fsencode(folder).decode("latin-1")
    return {
        "TESTNUMBER": str(number),
        "HOSTIP": "127.0.0.1",
        "CLIENTIP": "127.0.0.1",
        "HOST6IP": "[::1]",
        "HTTPPORT": str(ports["HTTP"]),
        "HTTPSPORT": str(ports["HTTPS"]),
        "PROXYPORT": str(ports["PROXY"]),
        "SOCKSPORT": str(ports["SOCKS"]),
        # Nothing listens there: it is another's to give out (RFC 6335, section 6).
        "NOLISTENPORT": "1",
        "LOGDIR": place,
        "FILE_PWD": place,
        "SRCDIR": place,
        "PWD": place,
        "VERSION": "8.14.1",
        "USER": "someone",
        "DEV_NULL": "/dev/null",
    }


def _excluded(test: TestFile) -> str | None:
    """The rule by what the test says it needs."""
    servers = test.words("client", "server")
    if "http-ipv6" in servers:
        return rules.IPV6
    if test.text("client", "tool").strip() or "unittest" in test.words("info", "keywords"):
        return rules.PROGRAM
    if not servers or not servers <= _SERVERS:
        return rules.TLS if any(each.startswith("https ") for each in servers) else rules.ANOTHER
    for feature in sorted(test.words("client", "features")):
        if feature in _LACKED:
            return _LACKED[feature]
    if re.search(r"(?im)^content-encoding:.*\b(deflate|br)\b", test.text("reply", "data")):
        return rules.CODINGS
    if "Expect: 100-continue" in test.text("verify", "protocol"):
        return rules.EXPECT
    if any("_HOME=" in each for each in test.words("client", "setenv")):
        return rules.COMMAND
    if test.words("verify", "errorcode") & {"23", "26"}:
        return rules.LOCAL
    orders = {line.partition(" ")[0].rstrip(":") for line in test.words("reply", "servercmd")}
    if orders - {"idle", "delay", "writedelay", "skip", "auth_required", "swsclose", "connection-monitor", "no-expect"}:
        return rules.ANOTHER
    return None


@dataclass(frozen=True)
class Wanted:
    """The outcome of a transfer that curl reports no error for."""

    body: bytes
    statuses: tuple[int, ...]


def _wanted(test: TestFile, made: Translated) -> Wanted:
    """The bodies that are written, one behind the other, and the statuses of all answers: curl writes their heads too."""
    reply = test.get("reply", "data")
    checks = [parts[0] for (section, name), parts in test.parts.items() if section == "reply" and name.startswith("datacheck")]
    if checks:
        written = b"".join(each.data for each in checks)
    elif reply and "nocheck" not in reply.attributes:
        written = reply.data
    elif reply and len(made.urls) == 1 and not test.get("reply", "data1") and not test.get("reply", "data2"):
        # Then curl's own output is something else, and the reply is all there is.
        written = _plain(reply.data)
    else:
        raise ExcludedError(rules.UNJUDGED)
    # curl's output has the fields behind a chunked body too.
    trailers = _TRAILERS.search(reply.data) if reply else None
    if trailers and checks:
        written = written.removesuffix(trailers[1] + b"\r\n").removesuffix(trailers[1])
    return Wanted(_HEAD.sub(b"", written), tuple(int(status) for status in _HEAD.findall(written)))


def _plain(reply: bytes) -> bytes:
    """An answer whose body is as long as its Content-Length, or ends with the connection. Raises ExcludedError."""
    head = _HEAD.match(reply)
    if head is None or re.search(rb"\ntransfer-encoding:", head[0], re.I) or _HEAD.search(reply, head.end()):
        raise ExcludedError(rules.UNJUDGED)
    length = re.search(rb"\ncontent-length: *(\d+)", head[0], re.I)
    return reply[: head.end() + int(length[1])] if length else reply


def _run(number: int, tls: Path) -> Outcome | Excluded:
    with serving(tls) as server, tempfile.TemporaryDirectory(prefix="roughwater-curl-") as made:
        folder = Path(made)
        # In the URL standard, a host that ends in a number is an IPv4 address: such a name gets a letter.
        text = re.sub(r"(?<=[a-z]\.)%TESTNUMBER(?=[^0-9A-Za-z]|$)", "n%TESTNUMBER", tests()[number], flags=re.M)
        test = read(number, text, variables(number, folder, server.ports), FEATURES)
        title = " ".join(test.text("client", "name").split())
        try:
            if rule := _excluded(test):
                raise ExcludedError(rule)
            asked = translate(test)
            found = _judged(test, asked, server, folder)
        except ExcludedError as error:
            return Excluded(error.rule)
        return Outcome(f"test{number} {title}", found)


def _judged(test: TestFile, asked: Translated, server: CurlServer, folder: Path) -> str:
    code = int(test.text("verify", "errorcode").split(",")[0].strip() or 0)
    wanted = _wanted(test, asked) if code == 0 else Wanted(b"", ())
    if len(asked.urls) > 1 and (code or any(status >= 400 for status in wanted.statuses) or asked.upload):
        raise ExcludedError(rules.SEVERAL)
    for (section, name), parts in test.parts.items():
        for part in parts if section == "client" and name.startswith("file") else ():
            _write(folder, part.attributes.get("name", ""), part.data)
    stdin = test.get("client", "stdin")
    server.test = test
    for index, command in enumerate(asked.commands()):
        out, report = folder / f"ferry-{index}.out", folder / f"ferry-{index}.json"
        done, told = _ferry(command, asked.environment, folder, out, report, stdin.data if stdin else b"")
        if done < 0:
            return f"is killed by signal {-done}"
        # The test has curl's output for the first URL only.
        written = None if index else out.read_bytes() if out.exists() else b""
        if difference := _ending(code, wanted, done, told, written if command[0] == "get" else None):
            return difference
    return _requests(test, asked, server) if asked.comparable else ""


def _ending(code: int, wanted: Wanted, done: int, told: dict[str, Any], written: bytes | None) -> str:
    """What is otherwise about exit code, status and what was written, where that is known."""
    said = f"exit {done}, status {told['status']}: {told['message']}"
    last = wanted.statuses[-1] if wanted.statuses else 200
    if code and written:
        return f"writes {written[:80]!r} where curl fails ({code})"
    if code == 22:
        return "" if done in {10, 11} and told["status"] and told["status"] >= 400 else f"does not fail by status: {said}"
    if code:
        return "" if done in _CLASSES.get(code, _ANY_FAILURE | {2}) else f"ends otherwise than by curl's error {code}: {said}"
    if last >= 300:
        # curl writes such an answer; ferry has no file that anyone asked for.
        return "" if done in {10, 11} and told["status"] == last and not written else f"takes it otherwise than as {last}: {said}"
    if done:
        return f"refuses it: {said}"
    return "" if written in (None, wanted.body) else f"writes {written[:120]!r}, not {wanted.body[:120]!r}"


def _ferry(
    command: tuple[str, ...], environment: dict[str, str], folder: Path, out: Path, report: Path, stdin: bytes
) -> tuple[int, dict[str, Any]]:
    # The test's words have a character for each byte; a path of this machine has its own encoding.
    words = [
        os.fsencode(find_ferry()),
        *(word.encode("latin-1") for word in command),
        b"--json",
        os.fsencode(report),
        b"--no-progress",
    ]
    words += [b"-o", os.fsencode(out)] if command[0] == "get" else []
    surroundings = {b"HOME": os.fsencode(folder), b"PATH": os.fsencode(os.environ["PATH"])}
    done = subprocess.run(
        words,
        cwd=folder,
        env=surroundings | {name.encode(): value.encode("latin-1") for name, value in environment.items()},
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    told: dict[str, Any] = {"status": None, "message": done.stderr.decode(errors="replace").strip()}
    if report.exists() and report.stat().st_size:
        transfers = json.loads(report.read_text(encoding="utf-8"))["transfers"]
        told["status"] = transfers[0]["status"] if transfers else None
    return done.returncode, told


def _write(folder: Path, name: str, data: bytes) -> None:
    path = Path(os.fsdecode(name.encode("latin-1")))
    if name and path.is_relative_to(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o600)


_COMPARED = ("host", "range", "authorization", "proxy-authorization", "content-length", "transfer-encoding")


def _requests(test: TestFile, asked: Translated, server: CurlServer) -> str:
    """What is otherwise about the requests: methods, targets, the fields that both have reason to send, bodies."""
    protocol = test.get("verify", "protocol")
    if protocol is None or (asked.proxy and test.get("verify", "proxy")):
        return ""
    wanted = _parsed(protocol.data)
    made = [_compared(each) for each in server.requests]
    return "" if made == wanted else f"asks {made}, not {wanted}"


def _compared(request: Request) -> tuple[str, ...]:
    fields = (f"{name}: {value}" for name in _COMPARED if (value := request.field(name)) is not None)
    return (request.method, request.target, *fields)


def _parsed(log: bytes) -> list[tuple[str, ...]]:
    text = log.decode("latin-1").replace("\r\n", "\n")
    return [_compared(parse_request(each)) for each in re.findall(r"^[A-Z]+ \S.* HTTP/1\.[01]\n(?:[^\n]+\n)*", text, re.M)]


def curl_replies() -> Iterator[Outcome | Excluded]:
    """Each test against a run of the program, with a server of its own."""
    with tempfile.TemporaryDirectory(prefix="roughwater-curl-") as made:
        tls = Path(made) / "server.pem"
        certificates = make_certificates(["127.0.0.1"])
        tls.write_bytes(certificates.server_key_pem + certificates.server_pem)
        with ThreadPoolExecutor(4) as pool:
            numbers = sorted(number for number, text in tests().items() if not is_over_ssh(text))
            yield from pool.map(functools.partial(_run, tls=tls), numbers)
