"""curl's command line and report; the reports are real (7.88.1 over the loopback), then spoilt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.clients.adapter import UnreadableReportError, stream_rates
from lab.clients.curl import Curl, body_seconds, write_out
from lab.clients.registry import parse_client, resolve
from lab.hosts.host import Completed
from lab.model.endpoints import Endpoints
from lab.model.errors import UsageProblem
from lab.model.results import MOST_FILE_TIMES
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size
from tests.support.local_host import LocalHost

ENDS = Endpoints("server", "/run/lab/server", "/run/lab/client", "/c/ca.pem", "/c/.ssh/known_hosts", "/c/.ssh/key")
ENDS = ENDS.for_sample("5MiB", "7-5MiB")
REPORT = {
    "http_version": "1.1",
    "scheme": "HTTP",
    "http_code": "200",
    "num_connects": "1",
    "size_download": "5242880",
    "size_upload": "0",
    "speed_download": "6571285",
    "speed_upload": "0",
    "time_namelookup": "0.000040",
    "time_connect": "0.020140",
    "time_appconnect": "0.000000",
    "time_pretransfer": "0.020181",
    "time_starttransfer": "0.040247",
    "time_total": "2.661095",
}


def transfer(protocol: str = "http1", direction: str = "get", **more: Any) -> Transfer:
    return Transfer.model_validate({"protocol": protocol, "direction": direction, "size": Size(5 << 20), **more})


def completed(stdout: bytes) -> Completed:
    return Completed(("curl",), 0, stdout, b"", 0, 1, 0.0, 0.0)


def said(**changes: str) -> Completed:
    return completed(f"\nroughwater-curl {json.dumps({**REPORT, **changes})}\n".encode())


@pytest.mark.parametrize(
    ("wanted", "words", "url"),
    [
        (transfer(), ["--http1.1"], "http://server/files/5MiB"),
        (transfer(chunked=True), ["--http1.1"], "http://server/chunked/5MiB"),
        (transfer("https1"), ["--http1.1", "--cacert", "/c/ca.pem"], "https://server/files/5MiB"),
        (transfer("h2", "put"), ["--http2", "-T", "/run/lab/client/files/5MiB"], "https://server/upload/7-5MiB"),
        (transfer("h2", "put", sink=True), ["--http2"], "https://server/sink/7-5MiB"),
        (transfer("sftp"), ["--key", "/c/.ssh/key", "-u", "lab:"], "sftp://server/run/lab/server/files/5MiB"),
        (transfer("sftp", "put"), ["--key", "-T"], "sftp://server/run/lab/server/upload/7-5MiB"),
        (transfer(limit=ByteRate(2_000_000)), ["--limit-rate", "2000000"], "http://server/files/5MiB"),
    ],
)
def test_command(wanted: Transfer, words: list[str], url: str) -> None:
    command = Curl("curl-8", "/opt/curl").command(wanted, ENDS)
    assert command[:2] == ["/opt/curl", "-q"]
    assert command[-1] == url
    assert [word for word in words if word not in command] == []
    assert ("--limit-rate" in command) == (wanted.limit is not None)


def test_urls_name_a_port_that_is_not_the_default() -> None:
    ends = Endpoints("server", "/s", "/c", "", "", "", http_port=8080)
    assert ends.url(transfer()) == "http://server:8080/files/PAYLOAD"


def test_environment_keeps_the_users_own_configuration_out() -> None:
    environment = Curl().environment(ENDS)
    assert environment["HOME"] == "/run/lab/client"
    assert environment["http_proxy"] == ""


def test_download_report() -> None:
    numbers = Curl().parse(transfer(), said())
    assert (numbers.bytes, numbers.total_s, numbers.first_byte_s, numbers.connect_s) == (5242880, 2.661095, 0.040247, 0.02014)
    assert (numbers.tls_s, numbers.status, numbers.http_version) == (None, 200, "1.1")
    assert body_seconds(transfer(), numbers) == pytest.approx(2.620848)


def test_upload_body_ends_a_round_trip_before_the_answer() -> None:
    numbers = Curl().parse(transfer(direction="put"), said(size_upload="5242880", size_download="8"))
    assert numbers.bytes == 5242880
    assert body_seconds(transfer(direction="put"), numbers) == pytest.approx(2.661095 - 0.020181 - 0.0201)
    assert body_seconds(transfer("sftp", "put"), numbers) == pytest.approx(2.661095 - 0.020181 - 0.0402)


def test_sftp_has_neither_status_nor_version() -> None:
    numbers = Curl().parse(transfer("sftp"), said(http_code="000", http_version="0", time_appconnect="0.031828"))
    assert (numbers.status, numbers.http_version, numbers.tls_s) == (None, None, 0.031828)


def test_old_curls_print_sizes_as_floats_and_decimal_commas() -> None:
    numbers = Curl().parse(transfer(), said(size_download="5242880.000", time_total="2,661095"))
    assert (numbers.bytes, numbers.total_s) == (5242880, 2.661095)


FILES = transfer("h2", files=4, parallel=4, limit=ByteRate(1_000_000))
REQUESTS = transfer("h2", files=3, parallel=2, discard=True)


@pytest.mark.parametrize(
    ("wanted", "end"),
    [
        (
            FILES,
            [
                *("--parallel", "--parallel-max", "4"),
                *("-o", "/run/lab/client/out/5MiB/f#1", "https://server/files/5MiB/f[00000-00003]"),
            ],
        ),
        (transfer(files=12), ["-o", "/run/lab/client/out/5MiB/f#1", "http://server/files/5MiB/f[00000-00011]"]),
        (REQUESTS, [*("--parallel", "--parallel-max", "2"), *("-o", "/dev/null", "https://server/files/5MiB?[1-3]")]),
        (transfer(discard=True), ["-o", "/dev/null", "http://server/files/5MiB"]),
        (transfer(discard=True, no_file=True), ["--out-null", "http://server/files/5MiB"]),
        (transfer("h2", files=3, repeat=True), ["-o", "/run/lab/client/out/5MiB/#1", "https://server/files/5MiB?[1-3]"]),
    ],
)
def test_command_of_several_files_and_of_none_kept(wanted: Transfer, end: list[str]) -> None:
    command = Curl().command(wanted, ENDS)
    assert command[len(command) - len(end) :] == end
    assert ("--parallel" in command) == (wanted.parallel > 1)
    assert command[command.index("-w") + 1] == write_out(wanted)
    assert Curl().supports(wanted) == ""


def reports(*changes: dict[str, str]) -> Completed:
    told = [json.dumps({**REPORT, "http_version": "2", **each}) for each in changes]
    return completed("".join(f"\nroughwater-curl {each}\n" for each in told).encode())


def test_several_at_once_report_each_rate_and_the_time_of_the_process() -> None:
    # 2.620848 s of body at 2 MB/s each, except the last, which ignored its limit.
    numbers = Curl().parse(FILES, reports({}, {}, {"time_total": "0.140247"}, {"num_connects": "0"}))
    assert (numbers.bytes, numbers.http_version, numbers.status) == (4 * 5242880, "2", 200)
    assert numbers.stream_byte_s == pytest.approx([5242880 / 2.620848] * 3 + [5242880 / 0.1])
    assert numbers.total_s == pytest.approx(1e-9), "what the process took, by the lab's clock"
    assert numbers.raw["set"] == {"reports": 4, "num_connects": 3.0}
    assert Curl().body_seconds(FILES, numbers) is None


def test_one_after_the_other_has_a_clock() -> None:
    wanted = transfer("h2", files=2)
    numbers = Curl().parse(wanted, reports({}, {"time_total": "1.0"}))
    assert numbers.total_s == pytest.approx(3.661095)
    assert Curl().body_seconds(wanted, numbers) == pytest.approx(3.661095 - 0.040247)


def test_an_unexpected_version_shows_among_many() -> None:
    assert Curl().parse(FILES, reports({}, {"http_version": "1.1"})).http_version == "1.1 and 2"
    assert Curl().parse(FILES, reports({"http_code": "404"}, {})).status == 404


REQUEST_LINES = """\
roughwater-request 200 2 1 5242880 0.011250 0.021466
roughwater-request 200 2 0 5242880 0.001250 0.021466
roughwater-request 200 2 0 5242880 0.001250 0.021466
"""


def test_requests_have_short_reports() -> None:
    numbers = Curl().parse(REQUESTS, completed(REQUEST_LINES.encode()))
    assert (numbers.bytes, numbers.http_version, numbers.status, numbers.tls_s) == (3 * 5242880, "2", 200, None)
    assert (numbers.first_byte_s, numbers.stream_byte_s) == (0.01125, [])
    assert numbers.raw["set"] == {"reports": 3, "num_connects": 1.0}
    assert len(write_out(REQUESTS)) < 150
    alone = transfer("h2", files=3, discard=True)
    assert Curl().body_seconds(alone, Curl().parse(alone, completed(REQUEST_LINES.encode()))) == pytest.approx(0.064398 - 0.01125)


@pytest.mark.parametrize("output", ["", REQUEST_LINES * 2, "roughwater-request 200 2\n", REQUEST_LINES.replace("5242880", "-1")])
def test_requests_without_a_report_are_unreadable(output: str) -> None:
    with pytest.raises(UnreadableReportError) as caught:
        Curl().parse(REQUESTS, completed(output.encode()))
    assert "\n" not in str(caught.value)


def test_how_many_at_once() -> None:
    assert Curl().supports(transfer(files=500, parallel=300)) == ""
    assert "at most 300" in Curl().supports(transfer(files=500, parallel=301))
    assert "one file after the other" in Curl(lacks=("parallel",)).supports(FILES)
    assert Curl(lacks=("parallel",)).supports(transfer(files=3)) == ""


@pytest.mark.parametrize(
    ("bodies", "rates"),
    [
        ([(10, 2.0), (10, 1.0)], [5.0, 10.0]),
        ([(10, 0.0)], [10e6]),
        ([(10, 1.0), (10, None)], []),
        ([(0, 1.0)], []),
        ([], []),
    ],
)
def test_rates_of_streams(bodies: list[tuple[float, float | None]], rates: list[float]) -> None:
    assert stream_rates(bodies) == pytest.approx(rates)


@given(st.lists(st.floats(1.0, 1e9), min_size=1, max_size=9000))
def test_of_many_streams_the_ends_are_kept(sizes: list[float]) -> None:
    kept = stream_rates((size, 1.0) for size in sizes)
    assert len(kept) <= MOST_FILE_TIMES
    assert (kept[0], kept[-1]) == (min(sizes), max(sizes))
    assert len(sizes) > MOST_FILE_TIMES - 1 or kept == sorted(sizes)


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"<html>hello</html>",
        b"roughwater-curl {",
        b'roughwater-curl {"size_download": "5"}',
        b"roughwater-curl [1]",
        b"\xff\xfe",
    ],
)
def test_garbage_is_named_in_one_line(output: bytes) -> None:
    with pytest.raises(UnreadableReportError) as caught:
        Curl().parse(transfer(), completed(output))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "soon", ""])
def test_impossible_numbers_are_garbage(value: str) -> None:
    with pytest.raises(UnreadableReportError):
        Curl().parse(transfer(), said(time_total=value))


@given(st.binary(max_size=200))
def test_only_an_unreadable_report_is_raised(output: bytes) -> None:
    try:
        Curl().parse(transfer(), completed(b"roughwater-curl " + output))
    except UnreadableReportError:
        return


def test_a_report_that_makes_no_sense_has_no_body_time() -> None:
    numbers = Curl().parse(transfer(), said(time_starttransfer="3", time_total="2"))
    assert body_seconds(transfer(), numbers) is None


def test_what_curl_cannot_do() -> None:
    assert "buffer" in Curl().supports(transfer(buffer_size=Size(1024)))
    assert Curl().supports(transfer("sftp")) == ""


def test_identity_is_that_of_the_program_on_the_host(tmp_path: Path) -> None:
    program = tmp_path / "mycurl"
    program.write_text("#!/bin/sh\necho curl 9.9.9 of $#\necho more\n")
    program.chmod(0o755)
    found = Curl("curl-9", str(program)).identify(LocalHost("client", tmp_path))
    assert (found.name, found.version, found.path) == ("curl-9", "curl 9.9.9 of 2", str(program))
    assert len(found.sha256) == 64


def test_client_that_is_not_there_is_the_users_problem(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"there is no /no/such/curl on host client .*PATH"):
        Curl("curl", "/no/such/curl").identify(LocalHost("client", tmp_path))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("curl-nightly", "install it, or give curl-nightly=PATH, or ask for curl"),
        ("openssh-sftp", "install it, or give openssh-sftp=PATH, or ask for openssh"),
        ("curl-nightly=/no/such/curl", "install it, or give curl-nightly=PATH"),
        ("curl=/no/such/curl", "install it, or give curl=PATH"),
    ],
)
def test_a_name_that_only_begins_as_a_clients_says_what_that_is_called(name: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="there is no ") as caught:
        resolve(parse_client(name)).identify(LocalHost("client", tmp_path))
    assert caught.value.remedy == remedy


def test_client_that_does_not_run_is_the_users_problem(tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho libfoo.so: cannot open >&2\nexit 127\n")
    program.chmod(0o755)
    with pytest.raises(UsageProblem, match="libfoo"):
        Curl("curl", str(program)).identify(LocalHost("client", tmp_path))


@pytest.mark.parametrize(("name", "has"), [("curl", True), ("curl@8.15.0", False), ("curl@8.16.0", True), ("curl@7.88.1", False)])
def test_a_version_that_has_no_out_null(name: str, *, has: bool) -> None:
    assert ("--out-null" in Curl(name).supports(transfer(discard=True, no_file=True))) is not has
    assert Curl(name).supports(transfer(discard=True)) == ""
