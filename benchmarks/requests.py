"""Small requests of 10 KB over TLS: ferry, h2load, curl and a hyper client take turns.

python -m benchmarks.requests [-n 7] [--requests 50000] [--quick] [--part link]... [--server nginx]... [--client NAME=PATH]...

Two parts: on a link in virtual time (`benchmarks.requests_link`), where processing is free and a busy machine changes nothing;
and over the loopback in real time, which wants an idle machine: 50,000 over one h2 connection, 100 at once, and as many over
HTTP/1.1, 6 at once.

ferry is `ferry get --input` with a list of URLs, where a request goes through all that a user's transfer does (queue, retries,
checks, report). ferry-bench (engine/peers) is a loop on the same engine that keeps nothing: what its machines can do.

nginx and h2o serve one connection with one thread, so they may be the limit: then every client has their rate, and only
the CPU time per request differs. quick-server (engine/peers) answers from memory and does not limit any client.
All figures include start and handshake and use the lab's clock.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Literal, NamedTuple

from benchmarks.common import (
    HYPER,
    PEERS,
    Loopback,
    Run,
    extracted,
    ferry_programs,
    keep,
    loopback,
    one_line_end,
    ratio,
    say,
    spread,
    table,
)
from benchmarks.ratios import Measured
from lab.judge.sweep import turn_order
from lab.servers.process import ServerProcess

SIZE = 10_000
PARALLEL = 100
H2O_PORT = 8443
QUICK_PORT = 8444
SERVERS = ("nginx", "h2o", "quick")
LOOP = "ferry-bench"
CLIENTS = ("h2load", "ferry", LOOP, HYPER, "curl")
QUICK_REQUESTS = 2000
PARTS = ("link", "loopback")


class Kind(NamedTuple):
    """How many requests are under way: as streams of one h2 connection, or over as many connections of HTTP/1.1."""

    name: str
    h2: bool
    parallel: int

    @property
    def option(self) -> str:
        return "--http2" if self.h2 else "--http1.1"


H2 = Kind("one TLS h2 connection, 100 at once", h2=True, parallel=PARALLEL)
HTTP1 = Kind("HTTP/1.1 over TLS, 6 at once", h2=False, parallel=6)
KINDS = (H2, HTTP1)


@dataclass(frozen=True)
class Peer:
    """`command` takes URL and number of requests.

    `counts` is where the number of successes is: in h2load's words, in a report (ferry's totals, its loop's own), or only in the
    exit code.
    """

    command: Callable[[str, int], list[str]]
    counts: Literal["h2load", "set", "bench", "exit code"] = "exit code"


Peers = dict[str, Peer]

H2O = """\
num-threads: 2
http2-max-concurrent-requests-per-connection: 256
access-log: /dev/null
error-log: {own}/error.log
pid-file: {own}/h2o.pid
listen:
  host: 127.0.0.1
  port: {port}
  ssl:
    certificate-file: {own}/server.pem
    key-file: {own}/server.key
hosts:
  default:
    paths:
      /files:
        file.dir: {files}
"""


def peers(lab: Loopback, clients: Sequence[str] = CLIENTS, kind: Kind = H2) -> Peers:
    """The installed clients by name, in the order of `clients`; the others are compared with the first.

    The client on hyper speaks h2 only.
    """
    found: Peers = {}
    for name in clients:
        if name == "h2load":
            found |= _h2load(kind)
        elif name == HYPER:
            found |= _hyper(lab) if kind.h2 else {}
        elif name == LOOP:
            found |= _loop(lab, kind)
        elif name == "curl":
            found |= _curl(lab, kind)
        else:
            for build, program in ferry_programs([name], lab.host).items():
                found |= _ferry(lab, build, program, kind)
    return found


def _h2load(kind: Kind) -> Peers:
    program = extracted({"h2load": "nghttp2-client"}).get("h2load")
    if not program:
        return {}
    at_once = str(kind.parallel)
    words = ["-c", "1", "-m", at_once] if kind.h2 else ["--h1", "-c", at_once, "-m", "1"]
    return {"h2load": Peer(lambda url, n: [str(program), "-n", str(n), *words, url], "h2load")}


def _ferry(lab: Loopback, name: str, program: str, kind: Kind) -> Peers:
    words = [program, "get", "--quiet", "--json", "-", "--totals", "--discard", kind.option, "--cacert", lab.ca_path]
    words += ["--parallel", str(kind.parallel)]
    return {name: Peer(lambda url, n: [*words, "--input", _list(lab, url, n)], "set")}


def _list(lab: Loopback, url: str, n: int) -> str:
    """A file with n URLs, which differ as curl's do."""
    path = lab.file(f"urls-{n}")
    lab.host.write(path, "".join(f"{url}?{index + 1}\n" for index in range(n)).encode())
    return path


def _loop(lab: Loopback, kind: Kind) -> Peers:
    copy = lab.bring(PEERS / f"{LOOP}/target/release/{LOOP}")
    if copy is None:
        return {}
    connections = 1 if kind.h2 else kind.parallel
    words = [copy, kind.option, "--cacert", lab.ca_path, "-c", str(connections), "-p", str(kind.parallel)]
    return {LOOP: Peer(lambda url, n: [*words, "-n", str(n), url], "bench")}


def _hyper(lab: Loopback) -> Peers:
    copy = lab.bring(PEERS / "hyper/target/release/hyper-requests")
    if copy is None:
        return {}
    words = [copy, "--cacert", lab.ca_path, "--parallel", str(PARALLEL)]
    return {HYPER: Peer(lambda url, n: [*words, "--requests", str(n), url])}


def _curl(lab: Loopback, kind: Kind) -> Peers:
    words = ["curl", "-q", "-sS", "--fail", kind.option, "--cacert", lab.ca_path]
    words += ["--parallel", "--parallel-max", str(kind.parallel)]
    return {"curl": Peer(lambda url, n: [*words, "-o", "/dev/null", f"{url}?[1-{n}]"])}


def all_done(peer: Peer, run: Run, requests: int) -> bool:
    """Whether every request succeeded, by the client's own count: a client that drops requests looks fast."""
    if not run.ok:
        return False
    if peer.counts == "h2load":
        counts = re.search(r"(\d+) succeeded", run.said)
        return counts is not None and int(counts[1]) == requests
    report = (run.report or {}).get(peer.counts)
    if peer.counts == "bench":
        return isinstance(report, dict) and report.get("succeeded") == requests
    if peer.counts == "set":
        return isinstance(report, dict) and (report.get("files"), report.get("failed")) == (requests, 0)
    return True


@contextmanager
def server(lab: Loopback, name: str) -> Iterator[str | None]:
    """Run the server; yields the URL of its file, None where the server has not been built."""
    file = lab.write_random("10kB", SIZE)
    if name == "nginx":
        nginx = lab.nginx(workers=2)
        try:
            yield "https://127.0.0.1/files/10kB"
        finally:
            nginx.stop()
        return
    own = lab.host.workdir / name
    lab.host.write(own / "server.pem", lab.certificates.server_pem)
    lab.host.write(own / "server.key", lab.certificates.server_key_pem, mode=0o600)
    if name == "h2o":
        port = H2O_PORT
        lab.host.write(own / "h2o.conf", H2O.format(own=own, port=port, files=file.rpartition("/")[0]).encode())
        command = [str(extracted({"h2o": "h2o"})["h2o"]), "-c", str(own / "h2o.conf")]
    else:
        port = QUICK_PORT
        program = lab.bring(PEERS / "quick-server/target/release/quick-server")
        if program is None:
            yield None
            return
        command = [program, f"127.0.0.1:{port}", str(own / "server.pem"), str(own / "server.key")]
    running = ServerProcess(name, lab.host, (lab.host.start(command),), (), own / "error.log")
    try:
        answer = ["curl", "-q", "-sS", "--retry", "20", "--retry-connrefused", "--retry-delay", "1", "--cacert", lab.ca_path]
        url = f"https://127.0.0.1:{port}/files/10kB"
        lab.host.run([*answer, "-o", "/dev/null", url])
        yield url
    finally:
        running.stop()


def measure(lab: Loopback, name: str, commands: Peers, n: int, requests: int) -> list[Run]:
    """n runs of each client, interleaved in turning order, after one warm-up run."""
    runs: list[Run] = []
    names = list(commands)
    with server(lab, name) as url:
        if url is None:
            return runs
        for peer in names:
            lab.run(peer, commands[peer].command(url, max(1, requests // 10)))
        for index in range(n):
            for peer in (names[turn] for turn in turn_order(len(names), index)):
                client = commands[peer]
                run = lab.run(peer, client.command(url, requests))
                run = replace(run, ok=all_done(client, run, requests))
                runs.append(run)
                say(f"{name} {peer} {index + 1}/{n}: {requests / run.wall_s:.0f}/s{'' if run.ok else ', FAILED'}")
    return runs


def measured(job: str, runs: Sequence[Run], commands: Mapping[str, Peer], requests: int) -> list[Measured]:
    """Requests per second, and CPU microseconds of one, by client."""
    found = []
    for name in commands:
        all_runs = [run for run in runs if run.name == name]
        good = [run for run in all_runs if run.ok]
        rates, cpu = [requests / run.wall_s for run in good], [run.cpu_s / requests * 1e6 for run in good]
        found.append(Measured(job, name, rates, cpu, len(all_runs) - len(good)))
    return found


def render(lines: Sequence[Measured]) -> str:
    first = lines[0]
    rows = [
        [
            line.client,
            str(len(line.rates)) + (f" ({line.failed} failed)" if line.failed else ""),
            spread(line.rates),
            spread(line.cpu, "{:.1f}"),
            ratio(line.rates, first.rates),
            ratio(line.cpu, first.cpu),
        ]
        for line in lines
    ]
    return table(["client", "n", "requests/s", "CPU us/request", f"rate / {first.client}", f"CPU / {first.client}"], rows)


def compare(  # noqa: PLR0917 - two callers
    lab: Loopback, commands: Peers, servers: Sequence[str], n: int, requests: int, kind: Kind = H2
) -> tuple[list[Measured], dict[str, object]]:
    """A table for each server, printed; what was measured, and the raw samples."""
    lines: list[Measured] = []
    kept: dict[str, object] = {}
    for name in servers:
        runs = measure(lab, name, commands, n, requests)
        kept[name] = [asdict(run) for run in runs]
        if not runs:
            continue
        found = measured(f"requests, {name}", runs, commands, requests)
        lines += found
        print(f"\n{name}: {requests} x {SIZE} B, {kind.name}; median (min to max)")
        print(render(found), flush=True)
    return lines, kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, help="samples per peer and server (default: 7, and 1 with --quick)")
    parser.add_argument("--requests", type=int, help=f"default: 50000, and {QUICK_REQUESTS} with --quick")
    parser.add_argument("--quick", action="store_true", help="one small sample of each: does it run at all?")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: both")
    parser.add_argument("--server", choices=SERVERS, action="append", help="of h2 over the loopback")
    parser.add_argument(
        "--client", action="append", help="h2load, hyper, curl, ferry-bench, or builds of ferry: ferry, ferry-before=PATH"
    )
    options = parser.parse_args()
    n = options.n or (1 if options.quick else 7)
    requests = options.requests or (QUICK_REQUESTS if options.quick else 50_000)
    clients, parts = options.client or CLIENTS, options.part or PARTS
    kept: dict[str, object] = {}
    if "link" in parts:
        from benchmarks import requests_link

        kept["link"] = requests_link.compare(clients, n)
    if "loopback" in parts:
        # An HTTP/1.1 request costs nginx more than any of these clients: the other two servers would not say more.
        for kind, servers in ((H2, options.server or SERVERS), (HTTP1, SERVERS[:1])):
            with loopback() as lab:
                kept[kind.name] = compare(lab, peers(lab, clients, kind), servers, n, requests, kind)[1]
    print(f"raw samples: {keep('requests', kept)}")


if __name__ == "__main__":
    one_line_end(main)
