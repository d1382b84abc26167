"""ferry's command line, its report (the types of engine/crates/ferry-engine/src/report), and the way it gets onto a host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.clients import ferry
from lab.clients.adapter import UnreadableReportError
from lab.clients.curl import Curl
from lab.clients.ferry import Ferry, find_ferry
from lab.clients.registry import parse_client, resolve
from lab.hosts.host import Completed
from lab.model.endpoints import Endpoints
from lab.model.errors import UsageProblem
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size
from tests.support.local_host import LocalHost

ENDS = Endpoints("server", "/run/lab/server", "/run/lab/client", "/c/ca.pem", "/c/.ssh/known_hosts", "/c/.ssh/key")
ENDS = ENDS.for_sample("5MiB", "7-5MiB")
PHASES = {
    "dns_s": 0.001,
    "connect_s": 0.020,
    "tls_s": None,
    "first_byte_s": 0.021,
    "body_start_s": 0.042,
    "body_s": 2.5,
    "total_s": 2.542,
}
ATTEMPT = {"offset": 0, "bytes": 5242880, "total_s": 2.542, "status": 200, "waited_s": 0.0, "error": None}
TRANSFER: dict[str, Any] = {
    "url": "http://server/files/5MiB",
    "direction": "get",
    "protocol": "http/1.1",
    "status": 200,
    "remote": "10.0.0.1:80",
    "tls": None,
    "insecure": False,
    "limit_byte_s": 2097152,
    "limit_shared": False,
    "buffer_size_bytes": 65536,
    "bytes": 5242880,
    "offset": 0,
    "size": 5242880,
    "phases": PHASES,
    "body_byte_s": 2097152.0,
    "wall_byte_s": 2062502.0,
    "deviation": 0.0,
    "shortfall_s": 0.0,
    "worst_window_byte_s": 2099000.0,
    "longest_gap_ms": 4.2,
    "series": {"slot_ms": 100, "bytes": [209715] * 25},
    "tcp": [{"t_s": 0.042, "rtt_us": 20011}],
    "attempts": [ATTEMPT],
}


def transfer(protocol: str = "http1", direction: str = "get", **more: Any) -> Transfer:
    return Transfer.model_validate({"protocol": protocol, "direction": direction, "size": Size(5 << 20), **more})


def completed(stdout: bytes) -> Completed:
    return Completed(("ferry",), 0, stdout, b"", 0, 1, 0.0, 0.0)


def said(*, whole: dict[str, Any] | None = None, phases: dict[str, Any] | None = None, **changes: Any) -> Completed:
    """A report whose transfer differs by `changes`, its phases by `phases`, and the document itself by `whole`."""
    told = {**TRANSFER, "phases": {**PHASES, **(phases or {})}, **changes}
    document = {"schema": "ferry-report-1", "version": "0.1.0", "command": "get", "ok": True, "exit_code": 0}
    process = {"wall_s": 2.55, "cpu_user_s": 0.01, "cpu_system_s": 0.02, "max_rss_bytes": 8 << 20}
    return completed(json.dumps({**document, "transfers": [told], "process": process, **(whole or {})}).encode())


@pytest.mark.parametrize(
    ("wanted", "words", "end"),
    [
        (transfer(), ["get", "--http1.1"], ["--overwrite", "-o", "/run/lab/client/out/5MiB", "http://server/files/5MiB"]),
        (transfer(chunked=True), ["--http1.1"], ["http://server/chunked/5MiB"]),
        (transfer("https1"), ["--http1.1", "--cacert", "/c/ca.pem"], ["https://server/files/5MiB"]),
        (transfer("h2", "put"), ["put", "--http2"], ["/run/lab/client/files/5MiB", "https://server/upload/7-5MiB"]),
        (transfer("h2", "put", sink=True), ["--http2"], ["https://server/sink/7-5MiB"]),
        (transfer(limit=ByteRate(2_000_000)), ["--limit-rate", "2000000"], []),
        (transfer(buffer_size=Size(4096)), ["--buffer-size", "4096"], []),
    ],
)
def test_command(wanted: Transfer, words: list[str], end: list[str]) -> None:
    command = Ferry("ferry-next", "/opt/ferry").command(wanted, ENDS)
    assert command[:2] == ["/run/lab/client/bin/ferry-next/ferry", wanted.direction]
    assert command[len(command) - len(end) :] == end
    assert [word for word in [*words, "--quiet", "--json"] if word not in command] == []
    assert ("--limit-rate" in command) == (wanted.limit is not None)
    assert ("--cacert" in command) == (wanted.protocol != "http1")


@pytest.mark.parametrize(
    ("wanted", "end"),
    [
        (transfer("sftp"), ["--overwrite", "-o", "/run/lab/client/out/5MiB", "sftp://lab@server/run/lab/server/files/5MiB"]),
        (transfer("sftp", "put"), ["/run/lab/client/files/5MiB", "sftp://lab@server/run/lab/server/upload/7-5MiB"]),
        (
            transfer("sftp", files=2),
            ["-r", "sftp://lab@server/run/lab/server/files/5MiB/", "--output", "/run/lab/client/out/5MiB"],
        ),
        (transfer("sftp", "put", files=2), ["/run/lab/client/files/5MiB", "sftp://lab@server/run/lab/server/upload/7-5MiB/"]),
    ],
)
def test_command_over_sftp(wanted: Transfer, end: list[str]) -> None:
    command = Ferry().command(wanted, ENDS)
    assert command[1:] == [
        *(wanted.direction, "--quiet", "--json", "-"),
        *("--known-hosts", "/c/.ssh/known_hosts", "--identity", "/c/.ssh/key", "--no-agent"),
        *end,
    ]


SET = {"files": 2, "bytes": 10485760, "body_s": 5.0, "total_s": 5.1}


def said_of_a_set(**changes: Any) -> Completed:
    told = {**TRANSFER, "protocol": "sftp", "status": None}
    return said(whole={"transfers": [told, told], "set": {**SET, **changes}})


def test_the_numbers_of_a_set_are_those_of_its_sum() -> None:
    wanted = transfer("sftp", files=2)
    numbers = Ferry().parse(wanted, said_of_a_set())
    assert (numbers.bytes, numbers.total_s, numbers.http_version, numbers.status) == (10485760, 5.1, None, None)
    assert (numbers.connect_s, Ferry().body_seconds(wanted, numbers)) == (pytest.approx(0.021), 5.0)
    assert Ferry().body_start_s(wanted, numbers) == pytest.approx(0.042)
    assert numbers.raw["set"] == SET
    assert Ferry().body_seconds(wanted, Ferry().parse(wanted, said_of_a_set(body_s=None))) is None


@pytest.mark.parametrize(
    "broken",
    [
        said(),
        said(whole={"set": None}),
        said(whole={"set": SET, "transfers": []}),
        said_of_a_set(total_s=None),
        said_of_a_set(body_s="soon"),
        said_of_a_set(bytes=None),
    ],
)
def test_a_set_without_its_sum_is_unreadable(broken: Completed) -> None:
    with pytest.raises(UnreadableReportError) as caught:
        Ferry().parse(transfer("sftp", files=2), broken)
    assert "\n" not in str(caught.value)


FILES = transfer("h2", files=2, parallel=2, limit=ByteRate(2_000_000))
REQUESTS = transfer("h2", files=500, parallel=20, discard=True)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (
            FILES,
            [
                *("env", "-C", "/run/lab/client/out/5MiB", "/run/lab/client/bin/ferry/ferry", "get", "--quiet", "--json", "-"),
                *("--http2", "--cacert", "/c/ca.pem", "--limit-rate", "2000000", "--limit-each", "--parallel", "2", "-O"),
                *("--input", "/run/lab/client/urls/5MiB"),
            ],
        ),
        (
            REQUESTS,
            [
                *("/run/lab/client/bin/ferry/ferry", "get", "--quiet", "--json", "-", "--http2", "--cacert", "/c/ca.pem"),
                *("--parallel", "20", "--totals", "--discard", "--input", "/run/lab/client/urls/5MiB"),
            ],
        ),
        (
            transfer(files=9, parallel=3, discard=True, limit=ByteRate(9)),
            [
                *("/run/lab/client/bin/ferry/ferry", "get", "--quiet", "--json", "-", "--http1.1", "--limit-rate", "9"),
                *("--limit-each", "--parallel", "3", "--discard", "--input", "/run/lab/client/urls/5MiB"),
            ],
        ),
        (
            transfer(discard=True),
            [
                *("/run/lab/client/bin/ferry/ferry", "get", "--quiet", "--json", "-", "--http1.1"),
                *("--discard", "http://server/files/5MiB"),
            ],
        ),
    ],
)
def test_command_of_several_files_and_of_none_kept(wanted: Transfer, words: list[str]) -> None:
    assert Ferry().command(wanted, ENDS) == words
    assert Ferry().supports(wanted) == ""


def test_the_list_has_the_files_of_a_set_and_the_requests_of_curl() -> None:
    path = "/run/lab/client/urls/5MiB"
    urls = b"https://server/files/5MiB/f00000\nhttps://server/files/5MiB/f00001\n"
    assert Ferry().inputs(FILES, ENDS) == {path: urls}
    lines = Ferry().inputs(REQUESTS, ENDS)[path].decode().splitlines()
    assert (len(lines), lines[0], lines[-1]) == (500, "https://server/files/5MiB?1", "https://server/files/5MiB?500")
    assert Curl().command(REQUESTS, ENDS)[-1] == "https://server/files/5MiB?[1-500]"
    for alone in (transfer(), transfer("sftp", files=2), transfer(discard=True)):
        assert Ferry().inputs(alone, ENDS) == {}


def test_several_over_http_have_each_their_rate_and_the_processs_time() -> None:
    told = {**TRANSFER, "protocol": "h2"}
    slow = {**told, "phases": {**PHASES, "body_s": 5.0}}
    numbers = Ferry().parse(FILES, said(whole={"transfers": [told, slow]}))
    assert (numbers.bytes, numbers.total_s, numbers.http_version, numbers.status) == (10485760, 2.55, "2", 200)
    assert numbers.stream_byte_s == pytest.approx([5242880 / 5.0, 5242880 / 2.5])
    assert Ferry().body_seconds(FILES, numbers) is None
    again = {**told, "attempts": [ATTEMPT, ATTEMPT]}
    assert Ferry().parse(FILES, said(whole={"transfers": [told, again]})).stream_byte_s == []
    assert Ferry().parse(FILES, said(whole={"transfers": [told, TRANSFER]})).http_version == "1.1 and 2"


LATENCY = {"min": 400, "p50": 900, "p90": 1200, "p99": 1500, "max": 2000}
TOTALS: dict[str, Any] = {"files": 500, "failed": 0, "bytes": 500 * 5242880, "body_s": None, "total_s": 2.5}
TOTALS |= {"protocols": ["h2"], "connections": 1, "latency_us": LATENCY}


def test_requests_are_counted_together_and_timed_by_the_wire() -> None:
    numbers = Ferry().parse(REQUESTS, said(whole={"transfers": [], "set": TOTALS}))
    assert (numbers.bytes, numbers.total_s, numbers.http_version) == (500 * 5242880, 2.55, "2")
    assert (Ferry().body_seconds(REQUESTS, numbers), numbers.raw["set"]) == (None, TOTALS)
    assert Ferry().body_start_s(REQUESTS, numbers) == 0.0
    both = Ferry().parse(REQUESTS, said(whole={"transfers": [], "set": {**TOTALS, "protocols": ["h2", "http/1.1"]}}))
    assert both.http_version == "1.1 and 2"


def test_requests_with_a_limit_have_each_their_rate() -> None:
    limited = REQUESTS.model_copy(update={"files": 2, "limit": ByteRate(9)})
    told = {**TRANSFER, "protocol": "h2"}
    numbers = Ferry().parse(limited, said(whole={"transfers": [told, told], "set": TOTALS}))
    assert (numbers.bytes, len(numbers.stream_byte_s), "set" in numbers.raw) == (10485760, 2, False)


@pytest.mark.parametrize(
    ("wanted", "whole", "problem"),
    [
        (REQUESTS, {"transfers": [], "error": {"message": "connection refused"}}, "ferry: connection refused"),
        (REQUESTS, {"set": {**TOTALS, "body_s": "soon"}}, "cannot be read"),
        (REQUESTS, {"set": {**TOTALS, "bytes": None}}, "cannot be read"),
        (REQUESTS, {"set": TOTALS, "process": None}, "cannot be read"),
        (FILES, {"transfers": []}, "has no transfer"),
        (FILES, {"process": {"wall_s": None}}, "cannot be read"),
    ],
)
def test_several_without_a_report_are_unreadable(wanted: Transfer, whole: dict[str, Any], problem: str) -> None:
    with pytest.raises(UnreadableReportError, match=problem) as caught:
        Ferry().parse(wanted, said(whole=whole))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (transfer("sftp", files=9, parallel=2), "ferry itself decides"),
        (transfer(files=9, repeat=True), "names a file by its URL"),
    ],
)
def test_what_ferry_cannot_do_with_several(wanted: Transfer, reason: str) -> None:
    assert reason in Ferry().supports(wanted)
    assert Ferry().supports(transfer(files=10_000, parallel=100, limit=ByteRate(9))) == ""
    assert Ferry().supports(transfer(files=9, discard=True, limit=ByteRate(9), buffer_size=Size(4096))) == ""
    assert "one file at a time" in Ferry(background=True).supports(transfer(files=9, parallel=2, discard=True))
    assert Ferry(background=True).supports(transfer(files=9, discard=True)) == ""


def test_an_older_build_has_no_lists(tmp_path: Path) -> None:
    for words, reason in (("--parallel", "without --input"), ("--input <FILE>", "")):
        program = tmp_path / words[2:5]
        program.write_text(f"#!/bin/sh\necho '{words}'\n")
        program.chmod(0o755)
        found = Ferry("ferry-other", str(program)).supports(transfer(files=9, discard=True))
        assert (found == "") == (reason == "")
        assert reason in found
        assert Ferry("ferry-other", str(program)).supports(transfer()) == ""


def test_one_file_over_sftp_has_neither_status_nor_version() -> None:
    numbers = Ferry().parse(transfer("sftp"), said(protocol="sftp", status=None))
    assert (numbers.bytes, numbers.http_version, numbers.status) == (5242880, None, None)


def test_what_ferry_cannot_do() -> None:
    assert Ferry().supports(transfer("sftp", files=3)) == ""
    assert "4 KiB" in Ferry().supports(transfer(buffer_size=Size(1024)))
    assert Ferry().supports(transfer(buffer_size=Size(4096), chunked=True)) == ""


def test_durations_become_instants() -> None:
    numbers = Ferry().parse(transfer(), said())
    assert (numbers.bytes, numbers.status, numbers.http_version, numbers.tls_s) == (5242880, 200, "1.1", None)
    assert (numbers.connect_s, numbers.first_byte_s) == (pytest.approx(0.021), pytest.approx(0.042))
    assert (numbers.total_s, Ferry().body_start_s(transfer(), numbers)) == (pytest.approx(2.542), pytest.approx(0.042))
    assert Ferry().body_seconds(transfer(), numbers) == 2.5


def test_upload_has_the_same_clock_and_a_later_first_byte() -> None:
    put = transfer("h2", "put")
    numbers = Ferry().parse(put, said(protocol="h2", direction="put", phases={"tls_s": 0.03, "first_byte_s": 0.02}))
    assert (numbers.http_version, numbers.tls_s) == ("2", pytest.approx(0.051))
    assert numbers.first_byte_s == pytest.approx(0.042 + 2.5 + 0.02)
    assert Ferry().body_seconds(put, numbers) == 2.5


def test_an_address_and_an_open_connection_have_no_such_phases() -> None:
    numbers = Ferry().parse(transfer(), said(phases={"dns_s": None, "connect_s": None, "first_byte_s": None}))
    assert (numbers.connect_s, numbers.tls_s, numbers.first_byte_s) == (None, None, None)


def test_a_second_attempt_has_no_body_rate_but_the_complete_file() -> None:
    attempts = [{**ATTEMPT, "bytes": 1000, "total_s": 1.0}, {**ATTEMPT, "offset": 1000, "waited_s": 0.5}]
    numbers = Ferry().parse(transfer(), said(bytes=5241880, offset=1000, attempts=attempts))
    assert (numbers.bytes, numbers.total_s) == (5242880, pytest.approx(1.5 + 2.542))
    assert Ferry().body_seconds(transfer(), numbers) is None
    assert Ferry().body_start_s(transfer(), numbers) == pytest.approx(1.542)


def test_no_body_clock_no_body_time() -> None:
    numbers = Ferry().parse(transfer(), said(bytes=0, phases={"body_s": None, "body_start_s": None}))
    assert Ferry().body_seconds(transfer(), numbers) is None
    assert Ferry().body_start_s(transfer(), numbers) == 0.0


def test_evidence_is_kept_within_bounds() -> None:
    raw = Ferry().parse(transfer(), said()).raw
    assert (raw["series"], raw["tcp"]) == (TRANSFER["series"], TRANSFER["tcp"])
    assert raw["process"]
    many = Ferry().parse(transfer(), said(tcp=[{"t_s": n / 10} for n in range(1201)], series={"bytes": [1] * 20_000})).raw
    assert isinstance(many["tcp"], list)
    assert (len(many["tcp"]), many["tcp_every"]) == (401, 3)
    assert (many["series"], many["series_left_out"]) == (None, 20_000)


def test_failure_before_any_transfer_is_ferrys_own_sentence() -> None:
    failure = {"class": "local", "message": "cannot read /c/ca.pem: no such file"}
    with pytest.raises(UnreadableReportError, match=r"^ferry: cannot read /c/ca\.pem"):
        Ferry().parse(transfer(), said(whole={"transfers": [], "ok": False, "error": failure}))


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"hello",
        b"{",
        b"[]",
        b'{"schema": "ferry-report-9"}',
        b'{"schema": "ferry-report-1"}',
        b'{"schema": "ferry-report-1", "transfers": [1]}',
        b'{"schema": "ferry-report-1", "transfers": [{"phases": {"total_s": 1}, "attempts": [1]}]}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_garbage_is_named_in_one_line(output: bytes) -> None:
    with pytest.raises(UnreadableReportError) as caught:
        Ferry().parse(transfer(), completed(output))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, "soon", True, None])
def test_impossible_numbers_are_garbage(value: object) -> None:
    with pytest.raises(UnreadableReportError):
        Ferry().parse(transfer(), said(phases={"total_s": value}))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "soon", None, []])
def test_impossible_sizes_are_garbage(value: object) -> None:
    with pytest.raises(UnreadableReportError):
        Ferry().parse(transfer(), said(bytes=value))


@given(
    st.recursive(st.none() | st.floats() | st.text(max_size=4), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_only_an_unreadable_report_is_raised(value: object) -> None:
    for name in TRANSFER:
        try:
            numbers = Ferry().parse(transfer(), said(**{name: value}) if name != "phases" else said(whole={"transfers": [value]}))
        except UnreadableReportError:
            continue
        Ferry().body_start_s(transfer(), numbers)
        Ferry().body_seconds(transfer(), numbers)


def script(path: Path, version: str = "ferry 0.1.0 (abc)") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)
    return path


def test_the_host_runs_a_copy(tmp_path: Path) -> None:
    program = script(tmp_path / "checkout" / "ferry")
    host = LocalHost("client", tmp_path / "client")
    found = Ferry("ferry-next", str(program)).identify(host)
    assert (found.name, found.version) == ("ferry-next", "ferry 0.1.0 (abc)")
    assert found.path == str(tmp_path / "client/bin/ferry-next/ferry")
    program.unlink()
    assert host.run([found.path]).text == "ferry 0.1.0 (abc)\n"


def test_the_command_is_the_copy_that_was_identified(tmp_path: Path) -> None:
    adapter = Ferry("ferry", str(script(tmp_path / "ferry")))
    found = adapter.identify(LocalHost("client", tmp_path / "client"))
    ends = Endpoints("server", "/s", str(tmp_path / "client"), "/c/ca.pem", "/k", "/key")
    assert adapter.command(transfer(), ends)[0] == found.path


@pytest.mark.parametrize("program", ["/no/such/ferry", "no-such-ferry", "/usr"])
def test_a_ferry_that_is_not_there_is_the_users_problem(tmp_path: Path, program: str) -> None:
    with pytest.raises(UsageProblem, match="ferry-next=PATH"):
        Ferry("ferry-next", program).identify(LocalHost("client", tmp_path))


def test_no_configuration_of_anybody_reaches_a_run_of_the_lab() -> None:
    environment = Ferry("ferry-next", "/opt/ferry").environment(ENDS)
    assert environment[ferry.CONFIG_VARIABLE] == "none"
    assert environment["HOME"] == "/run/lab/client"


def test_found_by_variable_before_the_checkouts_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = script(tmp_path / "own"), script(tmp_path / "other")
    monkeypatch.setattr(ferry, "built_ferry", lambda: own)
    monkeypatch.delenv(ferry.PROGRAM_VARIABLE, raising=False)
    assert find_ferry() == own
    monkeypatch.setenv(ferry.PROGRAM_VARIABLE, str(other))
    assert find_ferry() == other
    monkeypatch.setenv(ferry.PROGRAM_VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(UsageProblem, match=ferry.PROGRAM_VARIABLE):
        find_ferry()


def test_a_missing_ferry_says_what_builds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ferry, "built_ferry", lambda: tmp_path / "nothing")
    monkeypatch.delenv(ferry.PROGRAM_VARIABLE, raising=False)
    with pytest.raises(UsageProblem, match=r"not been built \(make setup\)"):
        Ferry().identify(LocalHost("client", tmp_path))


@pytest.mark.parametrize("name", ["ferry-background", "ferry-background=/opt/ferry"])
def test_in_the_background_it_is_ferry_with_a_flag(name: str) -> None:
    adapter = resolve(parse_client(name))
    wanted = Transfer(protocol="http1", direction="get", size=Size(5), limit=ByteRate(9))
    command = adapter.command(wanted, ENDS)
    assert isinstance(adapter, Ferry)
    assert adapter.program == name.partition("=")[2] or adapter.program == "ferry"
    assert "--background" in command
    assert "--limit-rate" in command
    assert "--background" not in Ferry().command(wanted, ENDS)


def test_over_several_connections_in_the_background_only_downloads_over_http1_have_them() -> None:
    adapter = resolve(parse_client("ferry-background-16"))
    wanted = Transfer(protocol="http1", direction="get", size=Size(5))
    command = adapter.command(wanted, ENDS)
    assert command[command.index("--connections") + 1] == "16"
    assert "--background" in command
    for other in (wanted.model_copy(update={"direction": "put"}), wanted.model_copy(update={"protocol": "sftp"})):
        command = adapter.command(other, ENDS)
        assert "--background" in command
        assert "--connections" not in command


def test_with_fallback_it_tries_http3_and_is_measured_over_h2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ferry"
    program.write_text("#!/bin/sh\necho '  --http3[=<WHEN>]'\n")
    program.chmod(0o755)
    monkeypatch.setenv(ferry.PROGRAM_VARIABLE, str(program))
    adapter = resolve(parse_client("ferry-fallback"))
    wanted = Transfer(protocol="h2", direction="get", size=Size(5))
    assert adapter.supports(wanted) == ""
    command = adapter.command(wanted, ENDS)
    assert "--http3=fallback" in command
    assert "--http2" not in command
    for other in ("http1", "https1", "h3", "sftp"):
        assert "falls back" in adapter.supports(wanted.model_copy(update={"protocol": other}))


@pytest.mark.parametrize(
    ("help_text", "reason"),
    [
        ("  --http2\n  --http3  only HTTP/3\n", ""),
        ("  --http2\n", "has no --http3"),
        ("  --http3-only-later\n", "has no --http3"),
    ],
)
def test_a_build_without_http3_is_refused_for_it(tmp_path: Path, help_text: str, reason: str) -> None:
    program = tmp_path / "ferry"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{help_text}'\n")
    program.chmod(0o755)
    told = Ferry("ferry", str(program)).supports(Transfer(protocol="h3", direction="get", size=Size(1 << 20)))
    assert told.endswith(reason)
    assert bool(told) == bool(reason)


def test_http3_is_asked_for_with_the_runs_authority() -> None:
    words = Ferry().command(Transfer(protocol="h3", direction="get", size=Size(1 << 20)), ENDS)
    assert "--http3" in words
    assert words[words.index("--cacert") + 1] == ENDS.ca_path
    assert words[-1].startswith("https://")
