"""Clients as data: what a file may contain, where its faults are reported, and how its templates are filled in."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.clients.adapter import UNKNOWN_VERSION, UnreadableReportError
from lab.clients.curl import WRITE_OUT
from lab.clients.described import DescribedClient, load_client
from lab.clients.registry import adapter_for, list_clients, resolve
from lab.hosts.host import Completed
from lab.hosts.local import LocalHost
from lab.model.client import ClientFile, placeholders
from lab.model.endpoints import Endpoints
from lab.model.errors import UsageProblem
from lab.model.load import parse_model
from lab.model.paths import shipped_clients_dir
from lab.model.results import ClientIdentity
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import ByteRate, Size

ENDS = Endpoints("server", "/s", "/c", "/c/ca.pem", "/c/.ssh/known_hosts", "/c/.ssh/key", ssh_port=2022)
ENDS = ENDS.for_sample("5MiB", "7-5MiB")
AXEL = """\
name: axel
program: axel
version: [--version]
get: axel -q -n 1 -o {output} {url}
limit: --max-speed={limit}
protocols: [http1]
"""
SHIPPED = sorted(path.stem for path in shipped_clients_dir().glob("*.yaml"))


def client(text: str) -> DescribedClient:
    spec = parse_model(ClientFile, text, "mine.yaml")
    return DescribedClient(spec.name, spec.program, spec)


def transfer(protocol: str = "http1", direction: str = "get", **more: Any) -> Transfer:
    return Transfer.model_validate({"protocol": protocol, "direction": direction, "size": Size(5 << 20), **more})


def completed(stdout: str = "", stderr: str = "") -> Completed:
    return Completed(("client",), 0, stdout.encode(), stderr.encode(), 1_000_000_000, 3_500_000_000, 0.0, 0.0)


def test_a_client_in_six_lines() -> None:
    axel = client(AXEL)
    assert axel.command(transfer(), ENDS) == ["axel", "-q", "-n", "1", "-o", "/c/out/5MiB", "http://server/files/5MiB"]
    limited = axel.command(transfer(limit=ByteRate(1_000_000)), ENDS)
    assert limited[:3] == ["axel", "--max-speed=1000000", "-q"]
    assert (axel.inputs(transfer(), ENDS), axel.environment(ENDS)["HOME"]) == ({}, "/c")
    assert axel.spec.version == ["--version"]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (transfer(limit=ByteRate(1000), chunked=True), ""),
        (transfer(direction="put"), "axel does not upload"),
        (transfer("h2"), "axel speaks HTTP/1.1 only"),
        (transfer(buffer_size=Size(4096)), "axel has no option for its buffer size"),
    ],
)
def test_what_is_not_described_is_not_supported(wanted: Transfer, reason: str) -> None:
    assert client(AXEL).supports(wanted) == reason


@pytest.mark.parametrize(
    ("text", "wanted", "reason"),
    [
        ("cannot: {put: 'it is a downloader'}\n", transfer("h2", "put"), "it is a downloader"),
        ("cannot: {chunked: 'it wants a length'}\n", transfer(chunked=True), "it wants a length"),
        ("put: {sftp: 'axel {source} {remote}'}\n", transfer(direction="put"), "axel does not put over HTTP/1.1"),
        ("put: {sftp: 'axel {source} {remote}'}\n", transfer("sftp", "put", files=2), "axel does not upload sets of files"),
        (
            "buffer: {option: '-b {buffer}', unit: 1 KiB}\n",
            transfer(buffer_size=Size(4097)),
            "axel counts its buffer in steps of 1 KiB",
        ),
        ("buffer: {option: '-b {buffer}', most: 1 MiB}\n", transfer(buffer_size=Size(2 << 20)), "axel's buffer is at most 1 MiB"),
        (
            "buffer: {option: '-b {buffer}', direction: put}\n",
            transfer(buffer_size=Size(1)),
            "axel has a buffer size for uploads only",
        ),
    ],
)
def test_what_it_cannot_do_has_a_reason(text: str, wanted: Transfer, reason: str) -> None:
    assert client(AXEL + text).supports(wanted) == reason


@pytest.mark.parametrize(
    ("limit", "byte_s", "reason"),
    [
        ("null", 1000, "axel has no limit of its own"),
        ("{option: '-l {limit}', unit: 1 KiB/s}", 102_399, "axel counts its limit in steps of 1 KiB/s: at least 100 KiB/s"),
        ("{option: '-l {limit}', unit: 1 KiB/s}", 102_400, ""),
        ("{option: '-l {limit}', least: 2 kB/s}", 1999, "axel's limit is at least 2 kB/s"),
        (
            "{option: '-l {limit}', what: 'its slot', least: 2 kB/s, most: 9 kB/s}",
            9001,
            "axel's limit is its slot: 2 kB/s to 9 kB/s",
        ),
        ("{option: '-l {limit}', direction: put}", 5000, "axel limits uploads only"),
    ],
)
def test_a_limit_has_its_bounds(limit: str, byte_s: int, reason: str) -> None:
    adapter = client(AXEL.replace("--max-speed={limit}", limit))
    assert adapter.supports(transfer(limit=ByteRate(byte_s))).replace("102400 B/s", "100 KiB/s") == reason


def test_a_limit_in_steps_is_rounded() -> None:
    adapter = client(AXEL.replace("--max-speed={limit}", "{option: '-l {limit}', unit: 1 KiB/s}"))
    assert adapter.command(transfer(limit=ByteRate(1_000_000)), ENDS)[1:3] == ["-l", "977"]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (AXEL.replace("{url}", "{ulr}"), 4, "get.any: unknown placeholder {ulr}; did you mean 'url'?"),
        (AXEL.replace("{url}", "{limit}"), 4, "unknown placeholder {limit}"),
        (AXEL.replace("{url}", "{}"), 4, "a placeholder is {name}"),
        (AXEL.replace("{url}", "{url!r}"), 4, "a placeholder is {name}"),
        (AXEL.replace("{url}", "{url"), 4, "expected '}'"),
        (AXEL.replace("{url}", "'{url}"), 4, "No closing quotation"),
        (AXEL.replace("{url}", "x{options}"), 4, "{options} becomes several words"),
        (AXEL.replace("get: axel", "get: axle"), 4, "neither begins with the program, axel"),
        (AXEL.replace("get: axel", "get: nice {program}"), 4, "needs {options}"),
        (AXEL + "command: axle {action}\n", 7, "command: 'axle {action}' neither begins with the program, axel"),
        (AXEL.replace("get:", "got:"), 4, "got: unknown field; did you mean 'get'?"),
        (AXEL.replace("get: axel -q -n 1 -o {output} {url}\n", ""), 1, "no action: give"),
        (AXEL.replace("protocols: [http1]\n", ""), 1, "no protocols: give"),
        (AXEL.replace("[http1]", "[http9]"), 6, "protocols.0: unknown protocol 'http9'; did you mean 'http1'?"),
        (AXEL.replace("={limit}", ""), 1, "neither its option nor files have a {limit}"),
        (AXEL + "limit2: 1\n", 7, "limit2: unknown field; did you mean 'limit'?"),
        (AXEL + "buffer:\n  optoin: x\n", 8, "buffer.optoin: unknown field; did you mean 'option'?"),
        (AXEL + "buffer:\n  option: -b {buffer}\n  unit: 0\n", 7, "the unit must be more than 0 bytes"),
        (AXEL + "files:\n  a: x\n  b: '{hots}'\n", 9, "files.b: unknown placeholder {hots}; did you mean 'host'?"),
        (AXEL + "files: {a: '{buffer}'}\n", 1, "{buffer} is used but not described"),
        (AXEL + "files: {../a: x}\n", 7, "should match pattern"),
        (AXEL + "environment: {A: '{url}'}\n", 7, "unknown placeholder {url}"),
        (AXEL + "command: axel\n", 1, "neither command nor files have an {action}"),
        (AXEL + "report: '(?P<speed>.)'\n", 7, "unknown group 'speed'"),
        (AXEL + "report: '(?P<bytes>'\n", 7, "is not a regular expression"),
        (AXEL + "report: wget\n", 7, "'wget' is neither a reader"),
        (AXEL + "cannot: {fly: x}\n", 7, "cannot.fly: 'fly' is not a feature"),
    ],
)
def test_faults_say_where_and_what(text: str, line: int, problem: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        client(text)
    assert str(caught.value).startswith(f"mine.yaml:{line}: ")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(alphabet="{}url: axel-%'\"\\!.[]\n", max_size=60))
def test_any_template_can_be_filled_in_or_is_refused(text: str) -> None:
    try:
        found = placeholders(text)
    except ValueError:
        return
    assert text.format_map(dict.fromkeys(found, "x")) is not None


@given(st.text(alphabet=st.characters(exclude_characters="\x00"), max_size=40))
def test_a_value_stays_one_word_whatever_is_in_it(name: str) -> None:
    words = client(AXEL).command(transfer(), ENDS.for_sample(name, "up"))
    assert len(words) == 7
    assert words[6] == f"http://server/files/{name}"


def test_braces_of_the_commands_own_are_doubled() -> None:
    adapter = client(AXEL.replace("-q", "-w '%{{http_code}}'"))
    assert adapter.command(transfer(), ENDS)[1:3] == ["-w", "%{http_code}"]


def test_options_go_where_they_are_said_to() -> None:
    adapter = client(AXEL.replace("get: axel -q", "get: nice -n 5 {program} -q {options}"))
    moved = DescribedClient("mine", "/opt/axel", adapter.spec)
    assert moved.command(transfer(limit=ByteRate(5)), ENDS)[:6] == ["nice", "-n", "5", "/opt/axel", "-q", "--max-speed=5"]


def test_a_file_and_an_environment_are_filled_in() -> None:
    adapter = client(
        AXEL.replace("limit: --max-speed={limit}", "limit: {}")
        + "files:\n  axelrc: |\n    dir {output_dir}\n    speed {limit}\n    do {action}\nenvironment: {RC: '{workdir}/axelrc'}\n"
    )
    told = "dir /c/out\nspeed 7\ndo axel -q -n 1 -o /c/out/5MiB http://server/files/5MiB\n"
    assert adapter.inputs(transfer(limit=ByteRate(7)), ENDS) == {"/c/axelrc": told.encode()}
    assert b"speed" not in adapter.inputs(transfer(), ENDS)["/c/axelrc"]
    assert adapter.environment(ENDS)["RC"] == "/c/axelrc"


def test_the_environment_is_in_force_when_the_version_is_asked(tmp_path: Path) -> None:
    asks = 'test -n "$MINE" && echo "version 1 of $MINE"'
    text = f"name: mine\nprogram: /bin/sh\nenvironment: {{MINE: '{{workdir}}/x'}}\nversion: [-c, '{asks}']\nprotocols: [http1]\n"
    found = client(f"{text}get: '{{program}} {{url}}'\n").identify(LocalHost("client", tmp_path))
    assert found.version == f"version 1 of {tmp_path}/x"


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_file_tells_editors_its_schema(name: str) -> None:
    first = (shipped_clients_dir() / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=./client.schema.json"


@pytest.mark.parametrize(
    ("name", "wanted", "told"),
    [
        ("wget", transfer(limit=ByteRate(9)), "--limit-rate=9 -O /c/out/5MiB http://server/files/5MiB"),
        ("wget", transfer("https1", "put"), "--method=PUT --body-file=/c/files/5MiB -O /c/out/5MiB https://server/upload/7-5MiB"),
        ("aria2", transfer("https1"), "-d /c/out -o 5MiB --ca-certificate=/c/ca.pem https://server/files/5MiB"),
        ("wget2", transfer("https1"), "--no-http2 --ca-certificate=/c/ca.pem -O /c/out/5MiB https://server/files/5MiB"),
        ("wget2", transfer("h2"), "--max-threads=1 --ca-certificate=/c/ca.pem -O /c/out/5MiB https://server/files/5MiB"),
        ("rsync", transfer("sftp"), "-e 'sh /c/rsync-ssh.sh -p 2022' lab@server:/s/files/5MiB /c/out/5MiB"),
        (
            "rsync",
            transfer("sftp", "put", limit=ByteRate(204800)),
            "-e 'sh /c/rsync-ssh.sh -p 2022' /c/files/5MiB lab@server:/s/upload/7-5MiB",
        ),
        ("requests", transfer("https1"), "/c/requests-client.py get https://server/files/5MiB /c/out/5MiB /c/ca.pem"),
        ("httpx", transfer(direction="put"), "/c/httpx-client.py put http://server/upload/7-5MiB /c/files/5MiB /c/ca.pem"),
        ("curl-resume", transfer(), "--http1.1 -o /c/out/5MiB http://server/files/5MiB"),
        ("wget-resume", transfer(), "-nv -O /c/out/5MiB http://server/files/5MiB"),
        ("aria2-resume", transfer(), "-d /c/out -o 5MiB http://server/files/5MiB"),
        ("h2load", transfer("h2", "put"), "-H ':method: PUT' -d /c/files/5MiB https://server/upload/7-5MiB"),
        ("h2load", transfer("h2", files=500, parallel=20, discard=True), "h2load -n 500 -c 1 -m 20 https://server/files/5MiB"),
        ("h2load", transfer(files=3, parallel=20, discard=True), "h2load --h1 -n 3 -c 3 -m 1 http://server/files/5MiB"),
        ("h2load", transfer("h2", discard=True), "h2load -n 1 -c 1 -m 1 https://server/files/5MiB"),
    ],
)
def test_shipped_clients_get_their_command_lines(name: str, wanted: Transfer, told: str) -> None:
    assert adapter_for(name).supports(wanted) == ""
    assert shlex.join(adapter_for(name).command(wanted, ENDS)).endswith(told)


@pytest.mark.parametrize(
    ("name", "wanted", "reason"),
    [
        ("wget", transfer(direction="put", limit=ByteRate(9)), "wget limits downloads only"),
        ("aria2", transfer(direction="put"), "aria2 does not upload"),
        ("wget2", transfer(direction="put"), "wget2 sends a body"),
        ("rsync", transfer(), "rsync speaks SFTP, rsync only"),
        ("h2load", transfer("h2"), "h2load throws away"),
        ("h2load", transfer("h2", files=3), "h2load throws away"),
        ("h2load", transfer("sftp", discard=True), "h2load speaks"),
        ("h2load", transfer("h2", files=3, discard=True, limit=ByteRate(9)), "h2load has no limit of its own"),
        ("wget", transfer(discard=True), "wget does not download and throw away (get_discard)"),
        ("rclone", transfer("sftp", files=3, parallel=2), "rclone has no option for the number of files at once"),
        ("rclone", transfer("sftp", discard=True), "rclone does not download and throw away"),
        ("h2load", transfer("h2", "put", limit=ByteRate(9)), "h2load has no limit of its own"),
    ],
)
def test_shipped_clients_say_what_they_cannot_do(name: str, wanted: Transfer, reason: str) -> None:
    assert adapter_for(name).supports(wanted).startswith(reason)


@pytest.mark.parametrize(
    ("text", "wanted", "reason"),
    [
        ("get_discard: axel -o /dev/null {url}", transfer(discard=True), ""),
        ("get_discard: axel -o /dev/null {url}", transfer(files=2, discard=True), "axel asks for one file only once"),
        ("get_discard: axel -n {files} {url}", transfer(files=2, discard=True), ""),
        ("get_discard: axel -n {files} {url}", transfer(files=2, parallel=2, discard=True), "axel has no option for the number"),
        ("get_set: axel -P {output} -p {parallel} {url}", transfer(files=2, parallel=2), ""),
        ("get_set: axel -P {output} {url}", transfer(files=2, parallel=2), "axel has no option for the number"),
        ("get_set: axel -P {output} {url}", transfer(files=2), ""),
        ("get_set: axel -P {output} {url}", transfer(files=2, limit=ByteRate(9)), "axel does not report the rate of each"),
        ("cannot: {discard: 'it keeps all'}", transfer(discard=True), "it keeps all"),
        ("cannot: {keep: 'it keeps nothing'}", transfer(), "it keeps nothing"),
        ("cannot: {parallel: 'one is enough'}\nget_set: axel {parallel}", transfer(files=2, parallel=2), "one is enough"),
    ],
)
def test_several_and_none_kept_must_be_described(text: str, wanted: Transfer, reason: str) -> None:
    found = client(f"{AXEL}{text}\n").supports(wanted)
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


# nghttp2 1.52
H2LOAD = """\
finished in 1.02s, 490.20 req/s, 4.70MB/s
requests: 500 total, 500 started, 500 done, 500 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 500 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 4.79MB (5027540) total, 7.34KB (7514) headers (space savings 92.37%), 4.77MB (5000000) data
                     min         max         mean         sd        +/- sd
time for request:      201us      4.45ms       902us       411us    81.20%
"""


def test_h2load_counts_what_it_throws_away_and_not_what_it_sends() -> None:
    h2load = adapter_for("h2load")
    requests = Transfer.model_validate({"protocol": "h2", "direction": "get", "size": "10 kB", "files": 500, "discard": True})
    numbers = h2load.parse(requests, completed(H2LOAD))
    assert (numbers.bytes, numbers.total_s) == (5_000_000, 1.02)
    assert h2load.parse(transfer("h2", "put"), completed(H2LOAD)).bytes is None
    with pytest.raises(UnreadableReportError, match="printed nothing"):
        h2load.parse(requests, completed("starting benchmark...\n"))


REPORT = AXEL + "report: 'took (?P<total_s>\\S+), first after (?P<first_byte_s>\\S+)(?:, (?P<bytes>\\S+) bytes)?$'\n"


def test_a_pattern_reads_a_report() -> None:
    adapter = client(REPORT)
    numbers = adapter.parse(transfer(), completed("took 9, first after 8\n", "took 2.5s, first after 250ms, 77 bytes\nbye\n"))
    assert (numbers.bytes, numbers.total_s, numbers.first_byte_s) == (77, 2.5, 0.25)
    assert (adapter.body_start_s(transfer(), numbers), adapter.body_seconds(transfer(), numbers)) == (0.25, 2.25)
    assert adapter.parse(transfer(), completed("took 9, first after 8\n")).bytes is None


def test_a_pattern_of_the_bodys_time_alone() -> None:
    adapter = client(AXEL + "report: 'in (?P<body_s>[0-9.]+)'\n")
    numbers = adapter.parse(transfer(), completed("in 1.5"))
    assert (numbers.total_s, adapter.body_seconds(transfer(), numbers)) == (2.5, 1.5)
    total_only = client(AXEL + "report: 'in (?P<total_s>[0-9.]+)'\n")
    assert total_only.body_seconds(transfer(), total_only.parse(transfer(), completed("in 1.5"))) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "axel printed nothing that its report's pattern matches"),
        ("took long, first after 1", "axel reports 'long' as total_s"),
        ("took nan, first after 1", "axel reports 'nan' as total_s"),
        ("took -1, first after 1", "axel reports '-1' as total_s"),
        ("took 2, first after 1, many bytes", "axel reports 'many' bytes"),
    ],
)
def test_garbage_is_named_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(UnreadableReportError) as caught:
        client(REPORT).parse(transfer(), completed(text))
    assert str(caught.value) == problem


@given(st.text(max_size=80), st.text(max_size=20), st.text(max_size=20))
def test_only_an_unreadable_report_is_raised(before: str, took: str, first: str) -> None:
    try:
        numbers = client(REPORT).parse(transfer(), completed(f"{before}took {took}, first after {first}"))
    except UnreadableReportError:
        return
    assert numbers.total_s >= 0


def test_a_built_in_reader_speaks_for_a_client() -> None:
    text = AXEL.replace("axel -q", "axel -w {curl_report}") + "report: curl\n"
    adapter = client(text)
    assert WRITE_OUT in adapter.command(transfer(), ENDS)
    with pytest.raises(UnreadableReportError, match="no report"):
        adapter.parse(transfer(), completed("x"))


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_by_its_path_and_under_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "axel", AXEL)
    monkeypatch.chdir(tmp_path)
    found = resolve(ClientSpec.parse("./axel.yaml"))
    assert isinstance(found, DescribedClient)
    assert (found.name, found.program, found.spec.name) == ("axel", "axel", "axel")
    assert resolve(ClientSpec.parse("old=axel.yaml")).name == "old"


def test_a_program_by_a_path_is_seen_from_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "axel", AXEL.replace("program: axel", "program: ./axel").replace("get: axel", "get: ./axel"))
    assert adapter_for("axel", str(path)).command(transfer(), ENDS)[0] == str(tmp_path / "axel")


def test_the_users_folders_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "axel" not in list_clients()
    write(tmp_path / "clients", "axel", AXEL)
    assert adapter_for("axel").command(transfer(), ENDS)[1] == "-q"
    assert adapter_for("axel-2", "/opt/axel").command(transfer(), ENDS)[:2] == ["/opt/axel", "-q"]
    write(tmp_path / "own", "axel", AXEL.replace("-q", "-v"))
    monkeypatch.setenv("ROUGHWATER_CLIENTS", str(tmp_path / "own"))
    assert adapter_for("axel").command(transfer(), ENDS)[1] == "-v"
    monkeypatch.setenv("ROUGHWATER_CLIENTS", str(tmp_path / "none"))
    with pytest.raises(UsageProblem, match="which is not a folder"):
        adapter_for("axel")


def test_a_users_own_curl_takes_the_place_of_the_labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "curl", "name: curl\nprotocols: [http1]\nget: curl -o {output} {url}\n")
    monkeypatch.setenv("ROUGHWATER_CLIENTS", str(tmp_path))
    assert adapter_for("curl").command(transfer(), ENDS) == ["curl", "-o", "/c/out/5MiB", "http://server/files/5MiB"]


def test_files_that_cannot_be_used_are_the_users_problem(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"client .*none\.yaml cannot be read: No such file"):
        adapter_for("none", str(tmp_path / "none.yaml"))
    with pytest.raises(UsageProblem, match=r"'axel' is not the name of the file"):
        load_client(write(tmp_path, "other", AXEL))
    with pytest.raises(UsageProblem, match="unknown client 'wgett'; did you mean 'wget'"):
        adapter_for("wgett")


# --- its version ------------------------------------------------------------------------------------------------------


def identified(folder: Path, script: str, *more: str) -> ClientIdentity:
    program = folder / "up"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    text = "\n".join(["name: up", f"program: {program}", "protocols: [http1]", "put: '{program} {source} {url}'", *more])
    (folder / "up.yaml").write_text(f"{text}\n")
    return adapter_for("up", str(folder / "up.yaml")).identify(LocalHost("client", folder / "host"))


@pytest.mark.parametrize(
    ("script", "more", "version"),
    [
        ("echo up 1.2", (), "up 1.2"),
        ("echo 'which file?' >&2; exit 2", (), UNKNOWN_VERSION),
        (":", (), UNKNOWN_VERSION),
        ("touch ran; echo up 1.2", ("version: []",), UNKNOWN_VERSION),
        ('echo "up $A $B"', ("environment: {A: '1', B: '{program}'}", "version: -v"), "up 1 {program}"),
    ],
)
def test_a_version_that_no_program_prints_is_unknown(tmp_path: Path, script: str, more: tuple[str, ...], version: str) -> None:
    found = identified(tmp_path, script, *more)
    assert found.version == version.format(program=tmp_path / "up")
    assert (found.path, len(found.sha256)) == (str(tmp_path / "up"), 64)
    assert not [*tmp_path.rglob("ran")]


def test_a_version_that_the_file_asks_for_is_printed(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"up -v failed on host client: which file\?") as raised:
        identified(tmp_path, "echo 'which file?' >&2; exit 2", "version: -v")
    assert "(version)" in str(raised.value.remedy)
    with pytest.raises(UsageProblem, match="exit code 3, and no version"):
        identified(tmp_path, "exit 3", "version: -v")


def test_a_file_without_the_right_to_run_says_how_to_give_it(tmp_path: Path) -> None:
    (tmp_path / "up").write_text("#!/bin/sh\n")
    (tmp_path / "up.yaml").write_text("name: up\nprogram: ./up\nprotocols: [http1]\nput: '{program} {source} {url}'\n")
    with pytest.raises(UsageProblem, match="client up: up may not be run on host client: it is not executable") as raised:
        adapter_for("up", str(tmp_path / "up.yaml")).identify(LocalHost("client", tmp_path / "host"))
    assert "chmod +x up" in str(raised.value.remedy)


def test_a_file_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="up --version failed on host client: "):
        identified(tmp_path, "exit 126")
