"""Port counters, TCP counters, tcpdump, what arrived: parsers on real output, scripts on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.hosts.tcp_counters import parse_counters
from lab.model.errors import LabFault
from lab.net.pcap import capture, tcpdump_command
from lab.net.ports import PortCounters, PortReading, PortSampler, cut, parse_header, parse_row
from lab.run.arrived import Arrived, collect, sink_count
from tests.support.local_host import LocalHost, LocalNetwork

# /proc/net/snmp and netstat of Linux 6.18, shortened.
SNMP = """\
Icmp: InMsgs InErrors InCsumErrors
Icmp: 12 0 0
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs
Tcp: 1 200 120000 -1 205 187 31 4 43221 41932 7 0
TcpExt: SyncookiesSent TCPTimeouts TCPLostRetransmit
TcpExt: 0 3 1
"""


def test_tcp_counters() -> None:
    counters = parse_counters(SNMP)
    assert (counters["TcpRetransSegs"], counters["TcpMaxConn"], counters["TcpExtTCPTimeouts"]) == (7, -1, 3)


@pytest.mark.parametrize("text", ["", "Tcp: A B\nTcp: 1\n", "Tcp: A\nUdp: 1\n", "Udp: A\nUdp: 1\n"])
def test_tcp_counters_that_cannot_be_read_are_the_labs_fault(text: str) -> None:
    with pytest.raises(LabFault):
        parse_counters(text)


def test_this_machine_has_tcp_counters(tmp_path: Path) -> None:
    assert LocalHost("client", tmp_path).retransmits() >= 0


def test_header_and_row() -> None:
    grid = parse_header(b"roughwater-ports 1 wc ws 10000000 5000")
    assert (grid.base_ns, grid.interval_ns) == (5000, 10_000_000)
    row = parse_row(b"9000 1 2 3 4 5 6 7 8", "wc", "ws")
    assert row.t_ns == 9000
    assert row["wc"] == PortCounters(rx_bytes=1, rx_packets=2, tx_bytes=3, tx_packets=4)
    assert row["ws"].tx_packets == 8


@pytest.mark.parametrize("line", [b"", b"roughwater-ports 2 a b 1 1", b"something else"])
def test_foreign_header_is_the_labs_fault(line: bytes) -> None:
    with pytest.raises(LabFault):
        parse_header(line)


def test_cut_keeps_a_reading_on_either_side() -> None:
    rows = [PortReading(t, {}) for t in (0, 10, 20, 30, 40)]
    assert [row.t_ns for row in cut(rows, 12, 28)] == [10, 20, 30]
    assert [row.t_ns for row in cut(rows, 10, 30)] == [10, 20, 30]
    assert [row.t_ns for row in cut(rows, -5, 99)] == [0, 10, 20, 30, 40]
    assert cut([], 0, 1) == []


def test_sampler_counts_this_machines_loopback(tmp_path: Path) -> None:
    network = LocalNetwork(tmp_path)
    with PortSampler(network, interval_ms=2) as sampler:
        first = sampler.rows()[0]
        rows = sampler.between(first.t_ns, first.t_ns + 20_000_000)
        assert sampler.grid is not None
        process = network.wire.started[0]
    times = [row.t_ns for row in rows]
    assert times == sorted(set(times))
    assert times[-1] >= first.t_ns + 20_000_000
    assert rows[-1]["lo"].tx_bytes >= rows[0]["lo"].tx_bytes
    assert process.wait(1).returncode == 0


def test_sampler_without_its_interface_is_the_labs_fault(tmp_path: Path) -> None:
    network = LocalNetwork(tmp_path)
    network.wire_ports = type(network.wire_ports)("lo", "nosuch0")
    with pytest.raises(LabFault, match="interface lo or nosuch0 is not here"), PortSampler(network):
        pass


def test_tcpdump_that_cannot_capture_says_why(tmp_path: Path) -> None:
    program = tmp_path / "tcpdump"
    program.write_text("#!/bin/sh\necho 'nosuch0: No such device exists' >&2\nexit 1\n")
    program.chmod(0o755)
    with (
        pytest.raises(LabFault, match="No such device exists"),
        capture(LocalHost("wire", tmp_path), "nosuch0", tmp_path / "x.pcap", program=str(program)),
    ):
        pass


def test_capture_is_ready_before_the_block_and_complete_after_it(tmp_path: Path) -> None:
    program = tmp_path / "tcpdump"
    program.write_text(
        "#!/bin/sh\ntrap 'printf END; exit 0' TERM\nprintf HEAD\necho 'tcpdump: listening on lo' >&2\n"
        "while :; do sleep 0.01; done\n"
    )
    program.chmod(0o755)
    with capture(LocalHost("wire", tmp_path), "lo", tmp_path / "evidence" / "x.pcap", program=str(program)) as file:
        assert file.read_bytes() == b"HEAD"
    assert file.read_bytes() == b"HEADEND"
    assert [path.name for path in file.parent.iterdir()] == ["x.pcap"]
    assert "--immediate-mode" in tcpdump_command("lo")
    assert [tcpdump_command("lo", complete=each)[4] for each in (False, True)] == ["128", "0"]


def test_collect_checks_and_removes(tmp_path: Path) -> None:
    host = LocalHost("client", tmp_path)
    file, note = tmp_path / "got", tmp_path / "rss"
    file.write_bytes(b"hello")
    note.write_text("11668\n")
    found = collect(host, str(file), str(note))
    assert found == Arrived(5, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", "11668\n")
    assert not file.exists()
    assert not note.exists()
    assert collect(host, str(file), str(note)) == Arrived(0)


def test_arrived_problem() -> None:
    assert Arrived(5, "ab").problem(5, "ab") == ""
    assert Arrived(4, "ab").problem(5, "ab") == "4 of 5 bytes arrived"
    assert "content is wrong" in Arrived(5, "ab").problem(5, "cd")
    assert Arrived(5).problem(5, "cd") == ""


def test_sink_count_is_that_of_the_exact_upload(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    counts.write_text("/sink/1-5MiB 100\n/sink/11-5MiB 200\n/sink/1-5MiB.x 300\n")
    host = LocalHost("server", tmp_path)
    assert sink_count(host, str(counts), "/sink/1-5MiB") == Arrived(100)
    assert sink_count(host, str(counts), "/sink/2-5MiB") == Arrived(0)
    assert sink_count(host, str(tmp_path / "none"), "/sink/1") == Arrived(0)
