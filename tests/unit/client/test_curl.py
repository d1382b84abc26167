"""curl's command line and report; the reports are real (7.88.1 over the loopback), then spoilt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.backend.host import Completed
from lab.client.adapter import UnreadableReportError
from lab.client.curl import Curl, body_seconds
from lab.client.endpoints import Endpoints
from lab.errors import UsageProblem
from lab.spec.models import Transfer
from lab.spec.units import ByteRate, Size
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
    return completed(f"\nthroughline-curl {json.dumps({**REPORT, **changes})}\n".encode())


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


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"<html>hello</html>",
        b"throughline-curl {",
        b'throughline-curl {"size_download": "5"}',
        b"throughline-curl [1]",
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
def test_nothing_but_an_unreadable_report_is_raised(output: bytes) -> None:
    try:
        Curl().parse(transfer(), completed(b"throughline-curl " + output))
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


def test_client_that_does_not_run_is_the_users_problem(tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho libfoo.so: cannot open >&2\nexit 127\n")
    program.chmod(0o755)
    with pytest.raises(UsageProblem, match="libfoo"):
        Curl("curl", str(program)).identify(LocalHost("client", tmp_path))
