"""The parts of a sample that a transfer over the loopback cannot show: counters, ratios, and which words describe a client."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from lab.hosts.host import Completed, Ports
from lab.model.link import Link
from lab.model.results import ClientNumbers, WireCounters
from lab.model.transfer import Transfer
from lab.model.units import Size
from lab.net.ports import Grid, PortCounters, PortReading
from lab.run import sample as module
from lab.run.sample import reading_of, run_client

MS = 1_000_000
ADAPTER: Any = SimpleNamespace(name="it")


def transfer(protocol: str = "http1", **more: Any) -> Transfer:
    return Transfer.model_validate({"protocol": protocol, "direction": "get", "size": Size(100_000), **more})


def done(code: int = 0, *, out: bytes = b"", error: bytes = b"", timed_out: bool = False) -> Completed:
    return Completed((), code, out, error, 0, 2500 * MS, 0, 0, timed_out=timed_out)


def numbers(**more: Any) -> ClientNumbers:
    known: dict[str, Any] = {"bytes": 100_000, "total_s": 1.0, "connect_s": None, "tls_s": None, "first_byte_s": None, "raw": {}}
    return ClientNumbers.model_validate({**known, "http_version": "", "status": None, **more})


# --- words about a client ---------------------------------------------------------------------------------------------


def problems(protocol: str, ended: Completed, report: ClientNumbers | str) -> list[str]:
    return list(module._problems(ADAPTER, transfer(protocol), ended, report))


def test_the_most_telling_problem_comes_first() -> None:
    assert problems("http1", done(137, error=b"Killed\n", timed_out=True), "no report") == [
        "it was still running after 2 s and was killed",
        "it failed with exit code 137: Killed",
        "no report",
    ]
    assert problems("http1", done(7, error=b" \n"), numbers()) == ["it failed with exit code 7"]
    report = b'{"transfers": [{"message": "no byte within 30 s"}]}'
    assert problems("http1", done(10, out=report), numbers()) == ["it failed with exit code 10: no byte within 30 s"]
    assert problems("h2", done(), numbers(bytes=99_999, http_version="1.1")) == [
        "it reports 99999 of 100000 bytes",
        "it was asked for HTTP/2 and spoke HTTP/1.1",
    ]


@pytest.mark.parametrize(("protocol", "version"), [("http1", "1.1"), ("https1", "1.1"), ("h2", "2"), ("h3", "3")])
def test_a_client_must_speak_the_version_that_it_was_asked_for_if_it_says_one(protocol: str, version: str) -> None:
    assert problems(protocol, done(), numbers(http_version=version)) == []
    assert problems(protocol, done(), numbers(http_version="")) == []
    assert problems(protocol, done(), numbers(http_version="9")) == [f"it was asked for HTTP/{version} and spoke HTTP/9"]


def test_a_client_need_not_count_its_bytes_and_sftp_has_no_version() -> None:
    assert problems("http1", done(), numbers(bytes=None)) == []
    assert problems("sftp", done(), numbers(http_version="1.1")) == []


# --- the client's run -------------------------------------------------------------------------------------------------


@dataclass
class Host:
    """Notes what is done to its client."""

    told: list[tuple[Any, ...]] = field(default_factory=list)

    def run(self, argv: list[str], **how: Any) -> str:
        self.told.append(("run", argv, how))
        return "done"

    def start(self, argv: list[str], **how: Any) -> Any:
        self.told.append(("start", argv, how))
        return SimpleNamespace(
            stop=lambda grace_s: self.told.append(("stop", grace_s)),
            wait=lambda timeout_s: self.told.append(("wait", timeout_s)) or "done",  # type: ignore[func-returns-value]
        )


def test_a_client_may_fail_and_is_given_up_in_time() -> None:
    host: Any = Host()
    assert run_client(host, ["it"], {"A": "1"}, "/w", 7.0, None) == "done"  # type: ignore[comparison-overlap]
    assert host.told == [("run", ["it"], {"env": {"A": "1"}, "cwd": "/w", "timeout_s": 7.0, "check": False})]


def test_what_is_done_meanwhile_begins_when_the_client_has_been_started() -> None:
    host: Any = Host()
    run_client(host, ["it"], {"A": "1"}, "/w", 7.0, lambda _: host.told.append(("meanwhile",)))
    assert host.told == [("start", ["it"], {"env": {"A": "1"}, "cwd": "/w"}), ("meanwhile",), ("wait", 7.0)]


def test_a_client_does_not_outlive_what_fails_meanwhile() -> None:
    host: Any = Host()

    def broken(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_client(host, ["it"], {}, "/w", 7.0, broken)
    assert [each[0] for each in host.told] == ["start", "stop"]
    assert host.told[-1] == ("stop", 0.0)


# --- counters and ratios ----------------------------------------------------------------------------------------------


def test_goodput_is_held_against_the_best_that_the_link_carries() -> None:
    slow_udp = {"rate": "8 Mbit/s", "udp": {"policed": "4 Mbit/s", "burst": "100 KB"}}
    link = Link.model_validate(slow_udp).direction("down")
    best = 1448 / 1514 * 1e6
    assert module._ratio_to_ideal(best / 4, link, "h2", ipv6=False) == pytest.approx(0.25)
    assert module._ratio_to_ideal(best / 4 * 1428 / 1448, link, "h2", ipv6=True) == pytest.approx(0.25)
    assert module._ratio_to_ideal(best / 4, link, "h3", ipv6=False) == pytest.approx(0.5)
    assert module._ratio_to_ideal(None, link, "h2", ipv6=False) is None
    assert module._ratio_to_ideal(1e6, None, "h2", ipv6=False) is None
    assert module._ratio_to_ideal(1e6, Link().direction("down"), "h2", ipv6=False) is None


def wire(payload: int) -> WireCounters:
    zeros = dict.fromkeys(WireCounters.model_fields, 0)
    return WireCounters.model_validate({**zeros, "payload_bytes": payload})


def test_content_that_is_thrown_away_must_have_passed_but_for_a_kibibyte() -> None:
    thrown = transfer(discard=True)
    assert module._discarded_problem(thrown, wire(100_000 - 1024)) == ""
    assert module._discarded_problem(thrown, wire(100_000 - 1025)) == "98975 of 100000 bytes crossed the wire"
    assert module._discarded_problem(thrown, None) == "0 of 100000 bytes crossed the wire"
    assert module._discarded_problem(transfer(), None) == ""


def row(t_ms: float, down: int, up: int, packets: int = 0) -> PortReading:
    counters = {"c": PortCounters(7, 7, down, packets), "s": PortCounters(7, 7, up, packets * 2)}
    return PortReading(round(t_ms * MS), counters)


def counted(rows: list[PortReading], *, headers: int = 66, port: str = "c", tcp: bool = True) -> WireCounters | None:
    network: Any = SimpleNamespace(wire_ports=Ports(client="c", server="s"))
    before, after = module._Counted(10, 20, 30), module._Counted(11, 23, 35)
    return module._wire(network, rows, port, before, after, headers, counts_retransmits=tcp)


def test_the_wire_is_what_its_counters_grew_by() -> None:
    rows = [row(0, 1_000, 500, 10), row(5, 7, 7, 7), row(10, 9_000, 800, 15)]
    assert counted(rows) == WireCounters(
        wire_bytes_down=8_000,
        wire_bytes_up=300,
        wire_packets_down=5,
        wire_packets_up=10,
        payload_bytes=8_000 - 5 * 66,
        retransmits=1,
        router_drops_down=3,
        router_drops_up=5,
    )
    quic = counted(rows, headers=42, tcp=False)
    assert quic is not None
    assert (quic.retransmits, quic.payload_bytes) == (None, 8_000 - 5 * 42)
    upload = counted([row(0, 1_000, 500, 10), row(10, 9_000, 5_500, 15)], port="s")
    assert upload is not None
    assert upload.payload_bytes == 5_000 - 10 * 66
    assert counted([]) is None


def test_a_reading_is_what_a_port_has_sent() -> None:
    assert reading_of(row(5, 900, 70, 3), "s") == (5 * MS, 70, 6)


def test_retransmits_are_the_senders_and_drops_each_ports() -> None:
    qdiscs = [
        {"dev": "c", "root": True, "kind": "netem", "drops": 4},
        {"dev": "s", "root": True, "kind": "netem", "drops": 9},
    ]
    printed = SimpleNamespace(text=str(qdiscs).replace("'", '"').replace("True", "true"))
    router = SimpleNamespace(run=lambda *_, **__: printed)
    network: Any = SimpleNamespace(router=router, router_ports=Ports(client="c", server="s"))
    sender: Any = SimpleNamespace(retransmits=lambda: 3)
    assert module._count(network, sender) == module._Counted(3, 4, 9)


def series(start_s: float, grid: Grid | None, started_ms: int = 100) -> Any:
    """2,000 bytes every 10 ms, after a handshake and a silence; one reading is late."""
    sizes = [0, 200, 200, 200, *(200 + 2_000 * number for number in range(1, 5))]
    rows = [row(100 + 10 * at + 6 * (at == 6), size, 0) for at, size in enumerate(sizes)]
    sampler: Any = SimpleNamespace(grid=grid)
    ended = Completed((), 0, b"", b"", started_ms * MS, 400 * MS, 0, 0)
    return module._series(sampler, rows, "c", ended, start_s, 66)


def test_a_series_begins_with_the_body_so_that_a_handshake_does_not_count_as_silence() -> None:
    assert series(0.0, None).longest_gap_ms == 20.0
    assert series(0.0099, None).longest_gap_ms == 20.0, "the reading before the body's first byte is the first"
    assert series(0.01, None).longest_gap_ms == 0.0
    assert sum(series(0.01, None).goodput_bit_s) == pytest.approx(8_000 * 800)
    assert series(0.0, None, started_ms=120).longest_gap_ms == 0.0, "counted from the client's start"
    assert sum(series(0.0, None, started_ms=50).goodput_bit_s) == pytest.approx(8_200 * 800)


def test_readings_that_were_late_are_counted_where_it_is_known_when_they_were_due() -> None:
    assert series(0.02, None).late_slots == 0
    assert series(0.02, Grid(100 * MS, 10 * MS)).late_slots == 1
