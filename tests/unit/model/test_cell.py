"""Cell names: exact inverses, and a message that shows the form."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.base import SLUG_PATTERN
from lab.model.cell_name import format_cell_name, format_transfer, parse_cell_name, parse_transfer
from lab.model.errors import UsageProblem
from lab.model.transfer import BOUNDS, BoundKind, Expectation, Transfer
from lab.model.units import ByteRate, Size

SLUGS = st.from_regex(SLUG_PATTERN, fullmatch=True).filter(str.isascii)


@st.composite
def transfers(draw: st.DrawFn) -> Transfer:
    protocol = draw(st.sampled_from(["http1", "https1", "h2", "sftp"]))
    direction = draw(st.sampled_from(["get", "put"]))
    flag = draw(st.booleans()) and protocol != "sftp"
    discard = direction == "get" and draw(st.booleans())
    most = 100_000 if discard and protocol != "sftp" else 10_000
    several = (protocol == "sftp" and not discard) or (protocol != "sftp" and direction == "get")
    files = draw(st.integers(1, most)) if several else 1
    return Transfer.model_validate(
        {
            "protocol": protocol,
            "direction": direction,
            "size": Size(draw(st.integers(0, 2**50))),
            "limit": draw(st.none() | st.builds(ByteRate, st.integers(1, 2**50))),
            "chunked": flag and direction == "get",
            "sink": flag and direction == "put",
            "buffer_size": draw(st.none() | st.builds(Size, st.integers(1, 2**40))),
            "files": files,
            "parallel": draw(st.integers(1, 1000)) if files > 1 else 1,
            "discard": discard,
        }
    )


@given(SLUGS, SLUGS, transfers(), st.sampled_from([None, *BOUNDS]))
def test_a_cells_name_is_its_inverse_and_a_plain_file_name(
    client: str, topology: str, transfer: Transfer, kind: BoundKind | None
) -> None:
    name = format_cell_name(client, topology, transfer, kind)
    if problem := Expectation.of(transfer, kind=kind).problem(transfer):
        with pytest.raises(UsageProblem, match=re.escape(problem)):
            parse_cell_name(name)
    else:
        assert parse_cell_name(name) == (client, topology, transfer, kind)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", name)


@given(transfers())
def test_a_transfers_name_is_its_inverse(transfer: Transfer) -> None:
    assert parse_transfer(format_transfer(transfer)) == transfer


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("http1-get-5MiB-at-1MBps", {"size": "5 MiB", "limit": "1 MB/s"}),
        ("h2-get-5MB-at-8Mbps-chunked", {"protocol": "h2", "size": "5 MB", "limit": "1 MB/s", "chunked": True}),
        ("https1-put-20kB-sink", {"protocol": "https1", "direction": "put", "size": "20 kB", "sink": True}),
        ("sftp-put-1GiB-buf64KiB", {"protocol": "sftp", "direction": "put", "size": "1 GiB", "buffer_size": "64 KiB"}),
        ("sftp-put-1000x20kB", {"protocol": "sftp", "direction": "put", "size": "20 kB", "files": 1000}),
        ("sftp-get-1x1MiB", {"protocol": "sftp", "size": "1 MiB"}),
        ("h2-get-4x5MiB-at-1MBps-p4", {"protocol": "h2", "size": "5 MiB", "limit": "1 MB/s", "files": 4, "parallel": 4}),
        (
            "h2-get-50000x10kB-p100-discard",
            {"protocol": "h2", "size": "10 kB", "files": 50_000, "parallel": 100, "discard": True},
        ),
        (
            "h2-get-50000x10kB-p100-discard-nofile",
            {"protocol": "h2", "size": "10 kB", "files": 50_000, "parallel": 100, "discard": True, "no_file": True},
        ),
        (
            "h2-get-50000x10kB-p100-repeat",
            {"protocol": "h2", "size": "10 kB", "files": 50_000, "parallel": 100, "repeat": True},
        ),
        ("http1-get-1GiB-discard", {"size": "1 GiB", "discard": True}),
        ("http1-get-3x1MB-p1-chunked", {"size": "1 MB", "files": 3, "chunked": True}),
        ("http1-get-5MiB-at-512KiBps-buf20kB", {"size": "5 MiB", "limit": "512 KiB/s", "buffer_size": "20 kB"}),
    ],
)
def test_names_as_people_write_them(text: str, fields: dict[str, object]) -> None:
    assert parse_transfer(text) == Transfer.model_validate({"protocol": "http1", "direction": "get"} | fields)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("curl--dsl-20", "it has 2 parts, not three"),
        ("", "it has 1 part, not three"),
        ("Curl--dsl-20--http1-get-5MiB", "'Curl' is not a name for a client"),
        ("curl--dsl_--http1-get-5MiB", "'dsl_' is not a name for a topology"),
        ("curl--dsl-20--http1-get", "it is not of the form"),
        ("curl--dsl-20--http3-get-5MiB", "did you mean 'h3'"),
        ("curl--dsl-20--http1-get-5Mib", "'5Mib' is not a size: unknown unit 'Mib'"),
        ("curl--dsl-20--http1-get-5MiB-at-1bps", "whole number of bytes per second"),
        ("curl--dsl-20--http1-put-5MiB-chunked", "chunked needs an HTTP get"),
        ("curl--dsl-20--http1-get-5MiB\n", "it is not of the form"),
        ("curl--dsl-20--http1-put-2x5MiB", "over HTTP only a get can have more"),
        ("curl--dsl-20--http1-get-5MiB-p2", "parallel needs more than one file"),
        ("curl--dsl-20--http1-get-2x5MiB-p1001", "less than or equal to 1000"),
        ("curl--dsl-20--http1-get-2x5MiB-p0", "greater than or equal to 1"),
        ("curl--dsl-20--http1-put-5MiB-discard", "discard needs a get"),
        ("curl--dsl-20--sftp-get-2x5MiB-discard", "requests for one file need HTTP"),
        ("curl--dsl-20--http1-get-5MiB-nofile", "no_file needs discard"),
        ("curl--dsl-20--http1-get-5MiB-repeat", "repeat needs a get of several files"),
        ("curl--dsl-20--http1-get-2x5MiB-discard-repeat", "repeat needs a get of several files"),
        ("curl--dsl-20--http1-get-10001x5MiB", "at most 10000 files"),
        ("curl--dsl-20--http1-get-100001x5MiB-discard", "less than or equal to 100000"),
        ("curl--dsl-20--http1-get-5MiB--burst", "a burst needs a transfer with a limit"),
        ("curl--dsl-20--http1-get-5MiB--speed", "unknown expectation 'speed'"),
        ("curl--dsl-20--http1-get-5MiB--", "unknown expectation ''"),
        ("curl--dsl-20--http1-get-5MiB--limit", "unknown expectation 'limit'"),
        ("curl--dsl-20--http1-get-5MiB--cpu--fill", "it has 5 parts, not three"),
        ("curl--dsl-20--sftp-get-0x5MiB", "greater than or equal to 1"),
        ("curl--dsl-20--sftp-get-10001x5MiB", "at most 10000 files"),
    ],
)
def test_bad_names_say_why_and_show_the_form(text: str, problem: str) -> None:
    with pytest.raises(UsageProblem, match=re.escape(problem)) as caught:
        parse_cell_name(text)
    assert "CLIENT--TOPOLOGY--PROTOCOL-DIRECTION-[FILESx]SIZE" in caught.value.remedy
    assert "\n" not in str(caught.value)
