"""Complete samples against real servers on the loopback, and faulty clients. The loopback's port counts both directions."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.clients import usage
from lab.clients.curl import Curl
from lab.clients.described import DescribedClient, load_client
from lab.link.theory import ideal_goodput_bit_s
from lab.model.endpoints import Endpoints
from lab.model.link import Link
from lab.model.paths import shipped_clients_dir
from lab.model.results import Sample, WireSeries
from lab.model.transfer import Transfer
from lab.model.units import BitRate, ByteRate, Size
from lab.run.sample import burst_ratio, deviation_from_limit, patience_s, take_sample
from lab.servers.bundle import Servers
from tests.support.local_host import LocalNetwork

SIZE = 300_000
# Prints a perfect report and transfers nothing, or what `{body}` says.
LIAR = """#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
{body}
cat <<'END'
roughwater-curl {report}
END
exit {code}
"""
REPORT = (
    '{"http_version": "1.1", "scheme": "HTTP", "http_code": "200", "num_connects": "1", "size_download": "300000", '
    '"size_upload": "300000", "speed_download": "1", "speed_upload": "1", "time_namelookup": "0", "time_connect": "0.001", '
    '"time_appconnect": "0", "time_pretransfer": "0.001", "time_starttransfer": "0.002", "time_total": "0.5"}'
)


def transfer(protocol: str = "http1", direction: str = "get", **more: Any) -> Transfer:
    return Transfer.model_validate({"protocol": protocol, "direction": direction, "size": Size(SIZE), **more})


def liar(folder: Path, *, body: str = "", report: str = REPORT, code: int = 0) -> Curl:
    program = folder / "liar"
    program.write_text(LIAR.replace("{body}", body).replace("{report}", report).replace("{code}", str(code)))
    program.chmod(0o755)
    return Curl("liar", str(program))


@pytest.mark.parametrize(
    "wanted",
    [
        transfer("http1", "get"),
        transfer("https1", "get", chunked=True),
        transfer("h2", "get"),
        transfer("sftp", "get"),
        transfer("http1", "put"),
        transfer("https1", "put", sink=True),
        transfer("h2", "put", sink=True),
        transfer("h2", "put"),
        transfer("sftp", "put"),
    ],
    ids=lambda t: f"{t.protocol}-{t.direction}{'-sink' * t.sink}{'-chunked' * t.chunked}",
)
def test_every_transfer_curl_can_do(network: LocalNetwork, servers: Servers, wanted: Transfer) -> None:
    found = take_sample(network, servers, Curl(), wanted, 3)
    assert found.problem == ""
    assert (found.ok, found.index, found.expected_bytes, found.exit_code) == (True, 3, SIZE, 0)
    assert found.client is not None
    assert found.client.bytes == SIZE
    # On a busy machine the loopback's handshake can take longer than a body: then the end of an upload cannot be determined.
    assert found.body_s is not None or wanted.direction == "put"
    if found.body_s is not None:
        assert found.body_byte_s is not None
        assert found.body_byte_s * found.body_s == pytest.approx(SIZE)
        # Here nothing taps the port. The client's clock counts then, unless a slow machine spreads the content over readings.
        assert found.body_clock in ("client", "wire")
        assert 0 < found.client.total_s <= found.wall_s
        assert found.body_clock == "wire" or 0 < found.body_s < found.client.total_s
    assert found.wire is not None
    # A RST has no timestamps: each makes the estimate 12 bytes too small.
    assert found.wire.payload_bytes >= 0.999 * SIZE
    assert found.series is not None
    assert sum(found.series.goodput_bit_s) * found.series.slot_ms / 8e3 >= 0.95 * SIZE
    assert (found.wire.router_drops_down, found.deviation) == (0, None)
    assert Sample.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_set_over_http_is_distinct_files_each_checked(network: LocalNetwork, servers: Servers, parallel: int) -> None:
    wanted = transfer("h2", files=3, parallel=parallel, limit=ByteRate(2_000_000))
    found = take_sample(network, servers, Curl(), wanted, 0)
    assert found.problem == ""
    assert (found.expected_bytes, len(found.file_times_s)) == (3 * SIZE, 3)
    assert found.client is not None
    assert (found.client.bytes, len(found.client.stream_byte_s), found.client.http_version) == (3 * SIZE, 3, "2")
    assert found.deviation in (found.client.stream_byte_s[0] / 2e6 - 1, found.client.stream_byte_s[-1] / 2e6 - 1)
    assert (found.slowest_stream_byte_s, found.fastest_stream_byte_s) == (
        found.client.stream_byte_s[0],
        found.client.stream_byte_s[-1],
    )
    # Whether the client's buffers take all of it at once is the machine's business: test_timed.py has both cases.
    assert found.body_clock in ("exit", None if parallel > 1 else "client")
    assert found.requests_per_s is None
    assert [path.name for path in Path(network.client.workdir, "out").iterdir()] == [".keep"]


def test_requests_are_counted_and_leave_nothing(network: LocalNetwork, servers: Servers) -> None:
    gigabit = Link(rate=BitRate.parse("1 Gbit/s")).direction("down")
    found = take_sample(network, servers, Curl(), transfer("h2", files=40, parallel=10, discard=True), 0, link=gigabit)
    assert found.problem == ""
    assert found.client is not None
    assert (found.client.bytes, found.client.status, found.deviation) == (40 * SIZE, 200, None)
    # Fast machines may be done before ten readings of the port: then there is no rate.
    if found.body_s is not None:
        assert found.requests_per_s == pytest.approx(40 / found.body_s)
        assert found.goodput_ratio == pytest.approx(40 * SIZE / found.body_s * 8 / (ideal_goodput_bit_s(gigabit) or 0))


def test_one_download_thrown_away(network: LocalNetwork, servers: Servers) -> None:
    # Over TLS, whose handshake makes up for what the loopback does not count.
    found = take_sample(network, servers, Curl(), transfer("https1", discard=True, limit=ByteRate(1_000_000)), 0)
    assert found.problem == ""
    assert found.body_clock in ("exit", "client")
    assert found.series is not None
    assert found.burst_ratio is not None
    # The loopback takes all of it in an instant: 300 kB where 100 kB were allowed.
    assert 0.9 < found.burst_ratio < 3.5


def test_what_was_thrown_away_must_have_come(network: LocalNetwork, servers: Servers, tmp_path: Path) -> None:
    found = take_sample(network, servers, liar(tmp_path), transfer(discard=True), 0)
    assert found.problem.endswith(f" of {SIZE} bytes crossed the wire")
    assert (found.ok, found.body_byte_s) == (False, None)
    counted = liar(tmp_path, report=REPORT.replace('"300000"', '"5"'))
    assert take_sample(network, servers, counted, transfer(discard=True), 0).problem == "liar reports 5 of 300000 bytes"


SMOOTH, FULL, SILENT = [8e6] * 10, [160e6] * 10, [0.0] * 10


@pytest.mark.parametrize(
    ("slots", "ratio"),
    [
        pytest.param(SMOOTH * 2, 0.5, id="smooth"),
        pytest.param([80e6, 80e6], 1.0, id="shorter than a window"),
        pytest.param([160e6] * 3, 3.0, id="shorter than a window, and a burst"),
        pytest.param(FULL + SMOOTH * 9, 0.5, id="only how it began"),
        pytest.param(FULL + SMOOTH * 8, 10.0, id="too short to leave its beginning out"),
        pytest.param(FULL + SILENT * 9 + FULL, 10.0, id="again and again"),
    ],
)
def test_a_burst_is_what_a_tenth_of_a_second_carries_once_the_transfer_has_begun(slots: list[float], ratio: float) -> None:
    series = WireSeries(
        slot_ms=10,
        goodput_bit_s=slots,
        worst_window_byte_s=None,
        slowest_window_byte_s=None,
        longest_gap_ms=0,
        late_slots=0,
    )
    assert burst_ratio(transfer(files=3, parallel=2, limit=ByteRate(1_000_000)), series) == pytest.approx(ratio)
    assert burst_ratio(transfer(), series) is None
    assert burst_ratio(transfer(limit=ByteRate(1)), None) is None


def test_one_stream_that_keeps_to_no_limit_is_the_deviation_of_all() -> None:
    wanted = transfer("h2", files=4, parallel=4, limit=ByteRate(1_000_000))
    # The total time is exactly right, because the three others keep their limits.
    assert deviation_from_limit(wanted, 4e6, [1e6, 1e6, 1e6, 5e7]) == pytest.approx(49)
    assert deviation_from_limit(wanted, 4e6, [0.5e6, 1e6, 1e6, 1.9e6]) == pytest.approx(-0.5)
    assert deviation_from_limit(wanted, 4e6, []) is None
    assert deviation_from_limit(transfer(limit=ByteRate(1_000_000)), 1.1e6, []) == pytest.approx(0.1)
    assert deviation_from_limit(transfer(), 1.1e6, []) is None


def test_limit_gives_a_deviation_and_files_are_gone(network: LocalNetwork, servers: Servers) -> None:
    found = take_sample(network, servers, Curl(), transfer("http1", "put", limit=ByteRate(1_500_000)), 0)
    assert found.ok, found.problem
    assert found.body_byte_s is not None
    assert found.deviation == pytest.approx(found.body_byte_s / 1_500_000 - 1)
    assert [path.name for path in Path(network.client.workdir, "out").iterdir()] == [".keep"]
    assert not list(Path(network.server.workdir, "upload").glob("*B"))


def test_memory_is_the_clients_own(network: LocalNetwork, servers: Servers) -> None:
    if usage.find_time(network.client) is None:
        pytest.skip("GNU time is not installed")
    found = take_sample(network, servers, Curl(), transfer(), 0)
    assert found.max_rss_bytes is not None
    assert 2 << 20 < found.max_rss_bytes < 40 << 20  # this Python, which forked it, has more


@pytest.mark.parametrize(
    ("body", "more", "problem"),
    [
        ("", {}, "0 of 300000 bytes arrived"),
        ("head -c 200000 /dev/zero >$out", {}, "200000 of 300000 bytes arrived"),
        ("head -c 300000 /dev/zero >$out", {}, "the content is wrong: sha256 "),
        ("echo no route >&2", {"code": 7}, "liar failed with exit code 7: no route"),
        ("", {"code": 9}, "liar failed with exit code 9"),
        ("", {"report": "<garbage>"}, "curl's report cannot be read"),
        ("", {"report": REPORT.replace('"300000"', '"5"')}, "liar reports 5 of 300000 bytes"),
        ("", {"report": REPORT.replace('"1.1"', '"2"')}, "liar was asked for HTTP/1.1 and spoke HTTP/2"),
        ("kill -9 $$", {}, "liar failed with exit code "),
        ("exec sleep 60", {}, "liar was still running after"),
    ],
)
def test_a_client_at_fault_makes_a_sample_that_is_not_ok(
    network: LocalNetwork, servers: Servers, tmp_path: Path, body: str, more: dict[str, Any], problem: str
) -> None:
    # Only the client that does not end waits for its time-out.
    timeout_s = 2.0 if "still running" in problem else 60.0
    found = take_sample(network, servers, liar(tmp_path, body=body, **more), transfer(), 0, timeout_s=timeout_s)
    assert not found.ok
    assert found.problem.startswith(problem), found.problem
    assert "\n" not in found.problem
    assert (found.body_byte_s, found.deviation) == (None, None)


@pytest.mark.parametrize("sink", [False, True], ids=["stored", "sink"])
def test_an_upload_that_never_came_is_noticed_on_the_server(
    network: LocalNetwork, servers: Servers, tmp_path: Path, sink: bool
) -> None:
    found = take_sample(network, servers, liar(tmp_path), transfer("http1", "put", sink=sink), 0)
    assert found.problem == f"0 of {SIZE} bytes arrived"


def test_client_that_is_not_there_is_its_samples_problem(network: LocalNetwork, servers: Servers) -> None:
    found = take_sample(network, servers, Curl("curl-0", "/no/such/curl"), transfer(), 0)
    assert (found.ok, found.exit_code) == (False, 127)
    assert found.client is None


def test_download_is_compared_with_the_payload_asked_for_not_with_the_servers_file(
    network: LocalNetwork, servers: Servers
) -> None:
    payload = servers.payload(network.server, SIZE)
    path = Path(payload.path)
    good = path.read_bytes()
    path.write_bytes(bytes(SIZE))
    try:
        found = take_sample(network, servers, Curl(), transfer(), 0)
    finally:
        path.write_bytes(good)
    assert found.problem.startswith("the content is wrong")
    assert hashlib.sha256(good).hexdigest() == replace(payload).sha256


class Local(DescribedClient):
    """A shell script in place of sftp that gets the commands for sftp."""

    text: str = ""

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        ends = [endpoints.remote_path(transfer), endpoints.local_path(transfer)]
        return ["/bin/sh", "-ec", self.text, "sh", *(ends if transfer.direction == "get" else reversed(ends))]


@pytest.mark.parametrize("direction", ["get", "put"])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('cp "$1"/* "$2"', ""),
        ('cp -r "$1" "$2"', ""),
        ("true", "5 of 5 files did not arrive: "),
        ('cp "$1"/* "$2"; echo spoilt >"$2/f00002"', "1 of 5 files do not have 2000 bytes: f00002"),
        ('cp "$1"/* "$2"; echo no >&2; exit 3', "openssh failed with exit code 3: no"),
    ],
)
def test_a_sample_of_a_set(
    network: LocalNetwork, servers: Servers, direction: str, text: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Local, "text", text)
    wanted = transfer("sftp", direction, size=Size(2_000), files=5)
    adapter = Local("openssh", "sftp", load_client(shipped_clients_dir() / "openssh.yaml"))
    found = take_sample(network, servers, adapter, wanted, 0, timeout_s=20)
    assert found.problem.startswith(problem) if problem else found.problem == ""
    assert found.ok == (not problem)
    assert found.expected_bytes == 10_000
    assert len(found.file_times_s) == (0 if text == "true" else 5)
    assert found.file_times_s == sorted(found.file_times_s)
    assert (found.total_byte_s is None) == bool(problem)
    assert (found.body_s, found.body_clock) == (None, None)
    left = {path.name for path in Path(network.client.workdir, "out").iterdir()}
    assert left == {".keep"}
    assert not list(Path(network.server.workdir, "upload").glob("*5x2000B*"))


def test_patience_follows_the_limit() -> None:
    assert patience_s(transfer(limit=ByteRate(100_000))) == 60 + 15
    assert patience_s(transfer()) == 600
    assert patience_s(transfer(files=4, parallel=2, limit=ByteRate(100_000))) == 4 + 60 + 30
    assert patience_s(transfer(files=50_000, parallel=100, discard=True)) == 600
