"""One complete transfer: run the client, count on the wire meanwhile, check what arrived, and put it all into a `Sample`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from lab.clients import usage
from lab.clients.adapter import ClientAdapter, UnreadableReportError
from lab.clients.last_words import last_words
from lab.hosts.agent.places import SAMPLE_VARIABLE
from lab.hosts.clocks import workers
from lab.hosts.host import Completed, Host, Network, Process
from lab.judge.diagnosis import CHANGES, unexplained
from lab.link.readback import drops
from lab.link.theory import ideal_goodput_bit_s
from lab.model.diagnosis import Diagnosis
from lab.model.endpoints import Endpoints
from lab.model.link import Link, LinkDirection
from lab.model.results import ClientNumbers, Sample, WireCounters, WireSeries
from lab.model.transfer import Transfer
from lab.net.pcap import KEYS_VARIABLE, capture, fetch_keys, keys_of
from lab.net.ports import PortReading, PortSampler
from lab.net.qdiscs import read_qdiscs
from lab.net.scheduled import RunningSchedule
from lab.net.series import SLOT_NS, Reading, build_series, header_bytes, late_slots, payload_between
from lab.net.tap import over_ipv6
from lab.net.watch import Watch
from lab.run import sets
from lab.run.arrived import Arrived, collect, sink_count
from lab.run.timed import tap_for, time_sample
from lab.run.why import explain, of_failed
from lab.servers.bundle import Servers
from lab.servers.payload import Payload, PayloadSet

# Captures are taken where the data arrives, behind the router: on the wire's own ports a tap does not see what a User-Mode Linux
# router sends, because its sockets bypass the queueing layer where taps sit (PACKET_QDISC_BYPASS).
# ARP and RST have no timestamps: each makes the payload seem some 20 bytes less than it was.
_UNCOUNTED_BYTES = 1 << 10
_HTTP_1_0 = "1"
"""curl's word for HTTP/1.0."""
_HTTP_VERSION = {"http1": "1.1", "https1": "1.1", "h2": "2", "h3": "3"}


@dataclass(frozen=True)
class _Counted:
    """Counters that only grow; a sample is the difference of two."""

    retransmits: int
    drops_down: int
    drops_up: int


def patience_s(transfer: Transfer) -> float:
    """Seconds after which a client is given up: five times what its limit asks for; ten minutes where it has none.

    A second more for each file of a set: some clients need half a dozen round trips for one.
    """
    files = transfer.files if transfer.kept_set else 0
    limit = transfer.limit_byte_s
    return files + (60 + 5 * transfer.total_bytes / limit if limit else 600.0)


def take_sample(
    network: Network,
    servers: Servers,
    adapter: ClientAdapter,
    transfer: Transfer,
    index: int,
    *,
    pcap_dir: Path | None = None,
    ports: PortSampler | None = None,
    timeout_s: float | None = None,
    link: LinkDirection | None = None,
    schedule: AbstractContextManager[RunningSchedule | None] | None = None,
    meanwhile: Callable[[Process], None] | None = None,
    watched: Link | None = None,
) -> Sample:
    """A client that fails, lies or hangs makes a sample that is not ok; LabFault is raised only when the lab itself fails.

    `ports` is a running sampler to cut this sample from; without one, one is started, which costs about 40 ms. `link` is
    the direction in which the content goes, for the goodput at best. `schedule` begins with the client. `meanwhile` is called
    once the client has been started. With `watched`, the link as it begins, the sample says what held it back.
    """
    client, server = network.client, network.server
    size = transfer.total_bytes
    sender, receiver = (server, client) if transfer.direction == "get" else (client, server)
    payload = _payload(servers, sender, transfer)
    endpoints = servers.endpoints.for_sample(payload.name, servers.next_upload_name(payload.name))
    if isinstance(payload, PayloadSet) or transfer.repeat:
        receiver.prepare_folder(endpoints.arrival_path(transfer))
    for path, text in adapter.inputs(transfer, endpoints).items():
        client.write(path, text)
    memory_path = f"{endpoints.output_path}.rss"
    # GNU time, where the host needs it, is looked for before anything is counted.
    time_program, command = usage.find_time(client.under_test), adapter.command(transfer, endpoints)
    receiver_port = network.wire_ports.client if transfer.direction == "get" else network.wire_ports.server
    pcap = pcap_dir / f"sample-{index:03d}.pcap" if pcap_dir else None
    mark = network.random_bytes(8).hex()
    with ExitStack() as stack, workers(network.clock, 4) as pool:
        changing = stack.enter_context(schedule) if schedule else None
        counting = pool.submit(_count, network, sender)
        sampler = stack.enter_context(nullcontext(ports) if ports else PortSampler(network))
        tap = tap_for(sampler, transfer, receiver, endpoints)
        keys = f"{endpoints.output_path}.keys" if transfer.over_tls else ""
        variables = stack.enter_context(_captured(network, receiver, receiver_port, pcap, keys))
        watch = stack.enter_context(Watch(network)) if watched else None
        before = counting.result()
        if changing:
            changing.start()
        asked_at, asked_ns = network.clock.now(), network.clock.monotonic_ns()
        done = run_client(
            client.under_test,
            usage.wrap(command, time_program, memory_path),
            {**variables, **adapter.environment(endpoints), **_credentials(endpoints), SAMPLE_VARIABLE: mark},
            endpoints.client_workdir,
            timeout_s or patience_s(transfer),
            meanwhile,
        )
        end_job = pool.submit(client.end_processes, f"{SAMPLE_VARIABLE}={mark}")
        after_job = pool.submit(_count, network, sender)
        here_job = pool.submit(collect, client, endpoints.output_path, memory_path)
        there_job = pool.submit(_arrival, servers, transfer, endpoints, payload, here_job)
        rows = sampler.between(done.started_ns, done.ended_ns + SLOT_NS)
        events = tap.between(done.started_ns, done.ended_ns) if tap else None
        # A link that changes would make one cause of several.
        seen = _seen(network, watch, rows, done, None if changing else watched, transfer) if watch else None
        after, here, there = after_job.result(), here_job.result(), there_job.result()
        end_job.result()
    report = _numbers(adapter, transfer, done)
    numbers = None if isinstance(report, str) else report
    ipv6 = over_ipv6(events, otherwise=endpoints.ip == 6)
    headers = header_bytes(transfer.protocol, ipv6=ipv6)
    wire = _wire(network, rows, receiver_port, before, after, headers, counts_retransmits=transfer.protocol != "h3")
    timed = time_sample(
        adapter, transfer, numbers, events, [reading_of(row, receiver_port) for row in rows], done, ip=endpoints.ip
    )
    body_s = timed.body_s
    problem = _first(
        (
            *_problems(adapter, transfer, done, report, old_http=endpoints.service is not None),
            there.problem,
            _discarded_problem(transfer, wire),
            timed.contradiction(adapter.name, link, network.clock.kind),
        ),
        servers,
    )
    times = sets.file_times(there.ended_ns, done.started_ns)
    moved = numbers.bytes if numbers and numbers.bytes is not None else None if problem else size
    body_byte_s = size / body_s if body_s and not problem else None
    streams = numbers.stream_byte_s if numbers and not problem else []
    series = _series(sampler, rows, receiver_port, done, timed.start_s, headers)
    total_s = timed.total_s or (numbers.total_s if numbers else None)
    return Sample(
        index=index,
        # In virtual time a client starts at the next tick.
        started_at=asked_at + timedelta(microseconds=done.started_ns // 1000 - asked_ns // 1000),
        command=list(command),
        exit_code=done.returncode,
        ok=not problem,
        problem=problem,
        expected_bytes=size,
        client=numbers,
        wall_s=done.wall_s,
        body_s=body_s,
        body_clock=timed.clock if body_s is not None else None,
        body_error_s=timed.error_s if body_s is not None else None,
        said_body_s=timed.said_s,
        body_byte_s=body_byte_s,
        total_byte_s=moved / total_s if moved is not None and total_s else None,
        tail_s=timed.tail_s,
        deviation=deviation_from_limit(transfer, body_byte_s, streams),
        slowest_stream_byte_s=min(streams, default=None),
        fastest_stream_byte_s=max(streams, default=None),
        burst_ratio=burst_ratio(transfer, series),
        goodput_ratio=None if changing else _ratio_to_ideal(body_byte_s, link, transfer.protocol, ipv6=ipv6),
        requests_per_s=transfer.files / body_s if transfer.requests and body_byte_s and body_s else None,
        cpu_user_s=done.user_s,
        cpu_system_s=done.system_s,
        max_rss_bytes=usage.peak_bytes(client, here.note, done),
        interruptions=done.interruptions,
        series=series,
        wire=wire,
        file_times_s=times.times_s,
        file_times_every=times.every,
        first_hundred_s_per_file=times.first_hundred_s_per_file,
        last_hundred_s_per_file=times.last_hundred_s_per_file,
        pcap=pcap.name if pcap else None,
        why=seen and seen.why(network, watched, failed=bool(problem), changing=bool(changing)),
    )


def _first(lines: Sequence[str], servers: Servers) -> str:
    """The first problem. Raises LabFault where there is one and the endpoint has ended: its end is not the client's fault."""
    problem = next((line for line in lines if line), "")
    return servers.endpoint.blames(problem) if problem and servers.endpoint else problem


def _credentials(endpoints: Endpoints) -> Mapping[str, str]:
    """The variables that an endpoint gives to its clients."""
    return endpoints.service.environment if endpoints.service else {}


@contextmanager
def _captured(network: Network, receiver: Host, port: str, file: Path | None, keys: str) -> Iterator[dict[str, str]]:
    """Keeps the packets of the block in `file`, and next to it the `keys` that the client writes to that path of its host.

    Yields the variables by which a client knows the path. Without one the transfer uses no TLS. Without a file nothing is kept.
    """
    if file is None:
        yield {}
        return
    place = (receiver, receiver.capture_port) if receiver.capture_port else (network.wire, port)
    with capture(*place, file, clock=network.clock, complete=bool(keys)):
        yield {KEYS_VARIABLE: keys} if keys else {}
    if keys:
        fetch_keys(network.client, keys, keys_of(file))


@dataclass(frozen=True)
class _Seen:
    """The findings about a watched transfer: the cause of its speed, and the router's drops by device."""

    found: Diagnosis | None
    dropped_at: Mapping[str, int]

    def why(self, network: Network, link: Link | None, *, failed: bool, changing: bool) -> Diagnosis | None:
        """The drops, where the transfer failed: its speed explains nothing."""
        if failed and link:
            return of_failed(self.found, self.dropped_at, network.router_ports, link)
        return unexplained(self.found, CHANGES) if changing and self.found else self.found


def _seen(  # noqa: PLR0917 - one caller
    network: Network, watch: Watch, rows: Sequence[PortReading], done: Completed, link: Link | None, transfer: Transfer
) -> _Seen:
    return _Seen(explain(network, watch, rows, done, link, transfer), watch.dropped_at())


def run_client(  # noqa: PLR0917 - two callers
    client: Host,
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    timeout_s: float,
    meanwhile: Callable[[Process], None] | None,
) -> Completed:
    """Run a command to its end; `meanwhile` is called once it has been started."""
    if meanwhile is None:
        return client.run(command, env=env, cwd=cwd, timeout_s=timeout_s, check=False)
    process = client.start(command, env=env, cwd=cwd)
    try:
        meanwhile(process)
    except BaseException:
        process.stop(0.0)
        raise
    return process.wait(timeout_s)


@dataclass(frozen=True)
class _There:
    """The defect of the received files, and the instant at which each file of a set was complete (CLOCK_MONOTONIC)."""

    problem: str
    ended_ns: tuple[int, ...] = ()


def deviation_from_limit(transfer: Transfer, body_byte_s: float | None, streams: Sequence[float]) -> float | None:
    """From the limit: of one transfer its own, of several that each have it that of the one furthest off, up or down."""
    if transfer.limit is None:
        return None
    limit = transfer.limit.byte_s
    if not transfer.each_limited:
        return body_byte_s / limit - 1 if body_byte_s else None
    return max((rate / limit for rate in streams), key=lambda ratio: abs(math.log(ratio))) - 1 if streams else None


def burst_ratio(transfer: Transfer, series: WireSeries | None) -> float | None:
    """The fastest 100 ms over what the limit allows in them; once begun, as `WireSeries.begun_window_byte_s` says."""
    limit = transfer.limit_byte_s
    return series.begun_window_byte_s / limit if limit and series else None


def _ratio_to_ideal(body_byte_s: float | None, link: LinkDirection | None, protocol: str, *, ipv6: bool) -> float | None:
    ideal_bit_s = ideal_goodput_bit_s(link.for_udp() if protocol == "h3" else link, ipv6=ipv6) if link else None
    return body_byte_s * 8 / ideal_bit_s if body_byte_s and ideal_bit_s else None


def _discarded_problem(transfer: Transfer, wire: WireCounters | None) -> str:
    """Discarded content cannot be hashed, so the bytes on the wire must suffice for it."""
    seen = wire.payload_bytes if wire else 0
    if not transfer.discard or seen + _UNCOUNTED_BYTES >= transfer.total_bytes:
        return ""
    return f"{seen} of {transfer.total_bytes} bytes crossed the wire"


def _payload(servers: Servers, sender: Host, transfer: Transfer) -> Payload | PayloadSet:
    if transfer.kept_set:
        return servers.payload_set(sender, transfer.size.bytes, transfer.files)
    return servers.payload(sender, transfer.size.bytes)


def _arrival(
    servers: Servers, transfer: Transfer, endpoints: Endpoints, payload: Payload | PayloadSet, here_job: Future[Arrived]
) -> _There:
    """Checked on the receiving host; `here_job` looks at the client's own file already."""
    if transfer.discard:
        return _There("")
    receiver = servers.network.client if transfer.direction == "get" else servers.network.server
    if isinstance(payload, PayloadSet):
        found = sets.collect_set(receiver, endpoints.arrival_path(transfer))
        return _There(sets.problem(found, payload), tuple(file.ended_ns for file in found))
    if transfer.repeat:
        found = sets.collect_set(receiver, endpoints.output_path)
        return _There(sets.repeat_problem(found, transfer.files, payload))
    if transfer.direction == "get":
        arrived = here_job.result()
    elif uri := endpoints.sink_uri(transfer):
        arrived = sink_count(receiver, str(servers.nginx.sink_counts), uri)
    else:
        if servers.endpoint and servers.endpoint.service.file.read_back:
            servers.endpoint.read_back(endpoints.upload_name, payload.sha256, endpoints.stored_path)
        arrived = collect(receiver, endpoints.stored_path)
        if endpoints.service and not arrived.sha256:
            return _There(f"0 of {payload.size} bytes arrived: the server has no {endpoints.stored_path}")
    return _There(arrived.problem(payload.size, payload.sha256))


def _numbers(adapter: ClientAdapter, transfer: Transfer, done: Completed) -> ClientNumbers | str:
    """The client's numbers, or one line on why they cannot be read."""
    try:
        return adapter.parse(transfer, done)
    except UnreadableReportError as error:
        return str(error)


def _problems(
    adapter: ClientAdapter, transfer: Transfer, done: Completed, numbers: ClientNumbers | str, *, old_http: bool = False
) -> Iterator[str]:
    """Problems of the client's end and report, one line each, the most telling first. A text as `numbers` is a problem too.

    With `old_http` the server may answer HTTP/1.1 with HTTP/1.0.
    """
    size, wanted = transfer.total_bytes, _HTTP_VERSION.get(transfer.protocol)
    old = {_HTTP_1_0} if old_http and wanted == "1.1" else set[str]()
    if done.timed_out:
        yield f"{adapter.name} was still running after {done.wall_s:.0f} s and was killed"
    if done.returncode:
        words = last_words(done)
        why = f": {words}" if words else ""
        yield f"{adapter.name} failed with exit code {done.returncode}{why}"
    if isinstance(numbers, str):
        yield numbers
        return
    if numbers.bytes is not None and numbers.bytes != size:
        yield f"{adapter.name} reports {numbers.bytes} of {size} bytes"
    if wanted and numbers.http_version and numbers.http_version not in {wanted, *old}:
        yield f"{adapter.name} was asked for HTTP/{wanted} and spoke HTTP/{numbers.http_version}"


def _series(  # noqa: PLR0917 - one caller
    sampler: PortSampler, rows: list[PortReading], port: str, done: Completed, body_start_s: float, headers: int
) -> WireSeries | None:
    """The series from the client's body start, so that the round trips of a handshake do not count as silence.

    The client's clock starts a few ms after the process, so the cut removes no part of the body.
    """
    from_ns = done.started_ns + round(body_start_s * 1e9)
    first = max((index for index, row in enumerate(rows) if row.t_ns <= from_ns), default=0)
    body = rows[first:]
    grid = sampler.grid
    late = late_slots([row.t_ns for row in body], grid.base_ns, grid.interval_ns) if grid else 0
    return build_series([reading_of(row, port) for row in body], late=late, headers=headers)


def reading_of(row: PortReading, port: str) -> Reading:
    """The bytes and packets that a port had sent by then."""
    return Reading(row.t_ns, row[port].tx_bytes, row[port].tx_packets)


def _wire(  # noqa: PLR0917 - one caller
    network: Network,
    rows: list[PortReading],
    receiver_port: str,
    before: _Counted,
    after: _Counted,
    headers: int,
    *,
    counts_retransmits: bool,
) -> WireCounters | None:
    if not rows:
        return None
    down, up = network.wire_ports.client, network.wire_ports.server
    first, last = rows[0], rows[-1]
    return WireCounters(
        wire_bytes_down=last[down].tx_bytes - first[down].tx_bytes,
        wire_bytes_up=last[up].tx_bytes - first[up].tx_bytes,
        wire_packets_down=last[down].tx_packets - first[down].tx_packets,
        wire_packets_up=last[up].tx_packets - first[up].tx_packets,
        payload_bytes=payload_between(reading_of(first, receiver_port), reading_of(last, receiver_port), headers),
        retransmits=after.retransmits - before.retransmits if counts_retransmits else None,
        router_drops_down=after.drops_down - before.drops_down,
        router_drops_up=after.drops_up - before.drops_up,
    )


def _count(network: Network, sender: Host) -> _Counted:
    """Two commands: the sender's counters, and every qdisc of the router in one go."""
    qdiscs, ports = read_qdiscs(network), network.router_ports
    return _Counted(sender.retransmits(), drops(qdiscs[ports.client]), drops(qdiscs[ports.server]))
