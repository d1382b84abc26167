"""OpenSSH's sftp, lftp and rclone: command lines, scripts and options, what they cannot do; rclone's report is a real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.clients.adapter import ClientAdapter, UnreadableReportError
from lab.clients.curl import Curl, body_seconds
from lab.clients.registry import adapter_for
from lab.hosts.host import Completed
from lab.model.endpoints import SET_NAME, Endpoints
from lab.model.errors import UsageProblem
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size
from tests.support.local_host import LocalHost

ENDS = Endpoints("server", "/s", "/c", "/c/ca.pem", "/c/.ssh/known_hosts", "/c/.ssh/key", ssh_port=2022)
ENDS = ENDS.for_sample("5MiB", "7-5MiB")
OPENSSH, LFTP, RCLONE = (adapter_for(name) for name in ("openssh", "lftp", "rclone"))
ALL = [OPENSSH, LFTP, RCLONE]
STATS = {"bytes": 400000, "checks": 0, "elapsedTime": 0.440785092, "errors": 0, "transferTime": 0, "transfers": 20}
LOG = (
    '{"level":"info","msg":"Starting bandwidth limiter at 976.562Ki Byte/s","source":"accounting/token_bucket.go:108"}\n'
    f'{{"level":"warning","msg":"\\nTransferred: ...\\n\\n","source":"accounting/stats.go:482","stats":{json.dumps(STATS)}}}\n'
)


def transfer(direction: str = "get", **more: Any) -> Transfer:
    return Transfer.model_validate({"protocol": "sftp", "direction": direction, "size": Size(5 << 20), **more})


def completed(stderr: str = "", stdout: str = "") -> Completed:
    return Completed(("client",), 0, stdout.encode(), stderr.encode(), 1_000_000_000, 3_500_000_000, 0.0, 0.0)


@pytest.mark.parametrize("adapter", ALL, ids=lambda each: each.name)
def test_what_all_of_them_can_and_cannot_do(adapter: ClientAdapter) -> None:
    assert adapter.supports(transfer(files=1000, limit=ByteRate(1_000_000), buffer_size=Size(255 << 10))) == ""
    assert "speaks SFTP" in adapter.supports(Transfer.model_validate({**transfer().model_dump(), "protocol": "h2"}))
    for size in (1023, (255 << 10) + 1):
        assert adapter.supports(transfer(buffer_size=Size(size))).endswith("is one request: 1 KiB to 255 KiB")


@pytest.mark.parametrize("adapter", ALL, ids=lambda each: each.name)
def test_no_configuration_of_the_user_and_no_question(adapter: ClientAdapter) -> None:
    assert adapter.environment(ENDS)["HOME"] == "/c"
    told = " ".join([*adapter.command(transfer(), ENDS), *(text.decode() for text in adapter.inputs(transfer(), ENDS).values())])
    assert "/c/.ssh/key" in told
    assert "/c/.ssh/known_hosts" in told
    assert "2022" in told


@pytest.mark.parametrize(
    ("wanted", "batch"),
    [
        (transfer(), 'get "/s/files/5MiB" "/c/out/5MiB"\n'),
        (transfer("put"), 'put "/c/files/5MiB" "/s/upload/7-5MiB"\n'),
        (transfer(files=2), 'get -r "/s/files/5MiB" "/c/out/5MiB"\n'),
        (transfer("put", files=2), 'put -r "/c/files/5MiB" "/s/upload/7-5MiB"\n'),
    ],
)
def test_openssh_reads_its_work_from_a_batch(wanted: Transfer, batch: str) -> None:
    command = OPENSSH.command(wanted, ENDS)
    assert (command[:5], command[-1]) == (["sftp", "-S", "ssh", "-b", "/c/sftp.batch"], "lab@server")
    assert OPENSSH.inputs(wanted, ENDS) == {"/c/sftp.batch": batch.encode()}
    assert command[command.index("-F") + 1] == "none"
    for option in ("IdentityAgent=none", "StrictHostKeyChecking=yes", "BatchMode=yes"):
        assert command[command.index(option) - 1] == "-o"


def test_openssh_counts_its_limit_in_1024_bits() -> None:
    command = adapter_for("x", "/opt/sftp").command(transfer(limit=ByteRate(1_000_000), buffer_size=Size(4096)), ENDS)
    assert command[0] == "/opt/sftp"
    assert command[command.index("-l") + 1] == "7812"
    assert command[command.index("-B") + 1] == "4096"
    assert "steps of 128 B/s" in OPENSSH.supports(transfer(limit=ByteRate(12_799)))
    assert OPENSSH.supports(transfer(limit=ByteRate(12_800))) == ""


@pytest.mark.parametrize(
    ("wanted", "last"),
    [
        (transfer(), 'get "/s/files/5MiB" -o "/c/out/5MiB"'),
        (transfer("put"), 'put "/c/files/5MiB" -o "/s/upload/7-5MiB"'),
        (transfer(files=2), 'mirror "/s/files/5MiB" "/c/out/5MiB"'),
        (transfer("put", files=2), 'mirror -R "/c/files/5MiB" "/s/upload/7-5MiB"'),
    ],
)
def test_lftp_reads_its_work_from_a_script(wanted: Transfer, last: str) -> None:
    assert LFTP.command(wanted, ENDS) == ["lftp", "--norc", "-f", "/c/lftp.script"]
    lines = LFTP.inputs(wanted, ENDS)["/c/lftp.script"].decode().splitlines()
    assert lines[-1] == f"open -u lab, sftp://server:2022 && {last}"
    connect = next(line for line in lines if "connect-program" in line)
    assert connect.startswith('set sftp:connect-program "ssh -a -x -F none -i /c/.ssh/key -o ')
    assert not any("limit-rate" in line or "sftp:size" in line for line in lines)


def test_lftp_gets_limit_and_request_size() -> None:
    script = LFTP.inputs(transfer(limit=ByteRate(1_000_000), buffer_size=Size(4096)), ENDS)["/c/lftp.script"].decode()
    assert "set net:limit-rate 1000000:1000000\n" in script
    assert "set sftp:size-read 4096\nset sftp:size-write 4096\n" in script


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (transfer(), ["copyto", ":sftp:/s/files/5MiB", "/c/out/5MiB"]),
        (transfer("put"), ["copyto", "/c/files/5MiB", ":sftp:/s/upload/7-5MiB"]),
        (transfer(files=2), ["copy", ":sftp:/s/files/5MiB", "/c/out/5MiB"]),
        (transfer("put", files=2), ["copy", "/c/files/5MiB", ":sftp:/s/upload/7-5MiB"]),
    ],
)
def test_rclone_is_configured_by_options(wanted: Transfer, words: list[str]) -> None:
    command = RCLONE.command(wanted, ENDS)
    assert command[:5] == ["rclone", *words, "--config="]
    assert not {"--bwlimit", "--sftp-chunk-size", "--transfers", "--checkers"} & set(command)
    assert RCLONE.inputs(wanted, ENDS) == {}


def test_rclone_gets_limit_and_request_size() -> None:
    command = RCLONE.command(transfer(limit=ByteRate(1_000_000), buffer_size=Size(4096)), ENDS)
    assert command[command.index("--bwlimit") + 1] == "1000000B"
    assert command[command.index("--sftp-chunk-size") + 1] == "4096B"


@pytest.mark.parametrize("adapter", [OPENSSH, LFTP], ids=lambda each: each.name)
def test_a_client_without_a_report_has_its_processs_time_and_no_bytes(adapter: ClientAdapter) -> None:
    numbers = adapter.parse(transfer(), completed("garbage"))
    assert (numbers.bytes, numbers.total_s, numbers.first_byte_s) == (None, 2.5, None)
    assert (adapter.body_seconds(transfer(), numbers), adapter.body_start_s(transfer(), numbers)) == (None, 0.0)


def test_rclones_last_stats_are_its_report() -> None:
    numbers = RCLONE.parse(transfer(), completed(LOG.replace("400000", "7") + LOG))
    assert (numbers.bytes, numbers.total_s, numbers.raw) == (400000, 2.5, {"stats": STATS})
    assert RCLONE.body_seconds(transfer(), numbers) is None


@pytest.mark.parametrize(
    "text",
    ["", "not json", '{"stats": 3}', '{"stats"', '{"stats": {}}', '{"stats": {"bytes": true}}', '{"stats": {"bytes": -1}}'],
)
def test_rclones_garbage_is_named_in_one_line(text: str) -> None:
    with pytest.raises(UnreadableReportError) as caught:
        RCLONE.parse(transfer(), completed(text))
    assert "\n" not in str(caught.value)


@given(st.text(max_size=200))
def test_only_an_unreadable_report_is_raised(text: str) -> None:
    try:
        RCLONE.parse(transfer(), completed(f'{{"stats": {text}'))
    except UnreadableReportError:
        return


def program(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_ssh_next_to_an_sftp_prints_its_version(tmp_path: Path) -> None:
    sftp = program(tmp_path, "sftp", "exit 1")
    host = LocalHost("client", tmp_path)
    with pytest.raises(UsageProblem, match="ssh -V failed"):
        adapter_for("hpn", sftp).identify(host)
    program(tmp_path, "ssh", 'echo "HPN-SSH 18 $1" >&2')
    found = adapter_for("hpn", sftp).identify(host)
    assert (found.name, found.version, found.path) == ("hpn", "HPN-SSH 18 -V", sftp)
    assert "64 requests" in found.notes[0]


def test_peers_say_what_their_defaults_are(tmp_path: Path) -> None:
    path = program(tmp_path, "peer", "echo 1.0")
    assert "--transfers 4" in adapter_for("rclone", path).identify(LocalHost("client", tmp_path)).notes[0]
    assert "max-packets-in-flight 16" in adapter_for("lftp", path).identify(LocalHost("client", tmp_path)).notes[0]


def test_curl_moves_a_set_by_a_range_of_names_over_one_connection() -> None:
    get, put = (Curl().command(transfer(way, files=230), ENDS) for way in ("get", "put"))
    assert get[-3:] == ["-o", "/c/out/5MiB/f#1", "sftp://server:2022/s/files/5MiB/f[00000-00229]"]
    assert put[-3:] == ["-T", "/c/files/5MiB/f[00000-00229]", "sftp://server:2022/s/upload/7-5MiB/"]
    assert (SET_NAME % 0, SET_NAME % 229) == ("f00000", "f00229")


def curl_report(**changes: str) -> str:
    zero = {"http_code": "000", "num_connects": "0", "speed_download": "1", "speed_upload": "0", "size_upload": "0"}
    times = dict.fromkeys(
        ("time_namelookup", "time_connect", "time_appconnect", "time_pretransfer", "time_starttransfer"), "0.25"
    )
    sizes = {"http_version": "0", "scheme": "SFTP", "size_download": "100", "time_total": "1.5"}
    return f"roughwater-curl {json.dumps({**zero, **times, **sizes, **changes})}\n"


def test_curls_reports_of_a_set_are_summed_up() -> None:
    wanted = transfer(files=2)
    two = curl_report(num_connects="1") + curl_report(time_total="0.5")
    numbers = Curl().parse(wanted, completed(stdout=two))
    assert (numbers.bytes, numbers.total_s, numbers.connect_s) == (200, 2.0, 0.25)
    assert numbers.raw["set"] == {"reports": 2, "num_connects": 1.0}
    assert body_seconds(wanted, numbers) == pytest.approx(1.75)
    with pytest.raises(UnreadableReportError, match="3 reports of 2"):
        Curl().parse(wanted, completed(stdout=two + curl_report()))
