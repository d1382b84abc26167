"""Small requests: 50,000 x 10 KB over one TLS h2 connection, 100 at once. ferry, h2load, curl and a hyper client.

python -m benchmarks.requests [-n 5] [--requests 50000] [--server nginx] [--server h2o]

nginx and h2o serve one connection with one thread, so they may be the limit: then every client has their rate, and only
the CPU time per request differs. quick-server (engine/peers) answers from memory and does not limit any client.
All figures include start and handshake and use the lab's clock.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

from benchmarks.common import Loopback, Run, extracted, ferry_program, keep, loopback, one_line_end, ratio, say, spread, table
from lab.model.paths import project_root
from lab.servers.process import ServerProcess

SIZE = 10_000
PARALLEL = 100
H2O_PORT = 8443
QUICK_PORT = 8444
SERVERS = ("nginx", "h2o", "quick")
PEERS = project_root() / "engine" / "peers"
Peers = dict[str, Callable[[str, int], list[str]]]

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


def peers(lab: Loopback) -> Peers:
    """Name -> (URL, requests) -> command line; h2load comes first, because the others are held against it."""
    found: Peers = {}
    program = extracted({"h2load": "nghttp2-client"}).get("h2load")
    if program:
        found["h2load"] = lambda url, n: [str(program), "-n", str(n), "-c", "1", "-m", str(PARALLEL), url]
    if ferry := ferry_program(lab.host):
        words = [ferry, "bench", "--quiet", "--json", "-", "--http2", "--cacert", lab.ca_path, "--connections", "1"]
        found["ferry"] = lambda url, n: [*words, "--parallel", str(PARALLEL), "--requests", str(n), url]
    hyper = PEERS / "hyper-requests/target/release/hyper-requests"
    if hyper.is_file():
        copy = lab.file("bin/hyper-requests")
        lab.host.write(copy, hyper.read_bytes(), mode=0o755)
        found["hyper"] = lambda url, n: [copy, "--cacert", lab.ca_path, "--requests", str(n), "--parallel", str(PARALLEL), url]
    else:
        say(f"hyper is left out: {hyper} has not been built")
    curl = ["curl", "-q", "-sS", "--fail", "--http2", "--cacert", lab.ca_path, "--parallel", "--parallel-max", str(PARALLEL)]
    found["curl"] = lambda url, n: [*curl, "-o", "/dev/null", f"{url}?[1-{n}]"]
    return found


def all_done(run: Run, requests: int) -> bool:
    """Whether every request succeeded, by the client's own count: a client that drops requests looks fast."""
    if not run.ok:
        return False
    if run.name == "h2load":
        counts = re.search(r"(\d+) succeeded", run.said)
        return counts is not None and int(counts[1]) == requests
    if run.name == "ferry":
        bench = (run.report or {}).get("bench")
        return isinstance(bench, dict) and bench.get("succeeded") == requests
    return True


@contextmanager
def server(lab: Loopback, name: str) -> Iterator[str]:
    """Run the server; yields the URL of its file."""
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
        program = lab.file("bin/quick-server")
        lab.host.write(program, (PEERS / "quick-server/target/release/quick-server").read_bytes(), mode=0o755)
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
    """n interleaved runs of each client, after one warm-up run."""
    runs: list[Run] = []
    with server(lab, name) as url:
        for round_ in range(n + 1):
            for peer, command in commands.items():
                run = lab.run(peer, command(url, requests if round_ else max(1, requests // 10)))
                if round_:
                    runs.append(run if all_done(run, requests) else Run(**{**asdict(run), "ok": False}))
                    say(f"{name} {peer} {round_}/{n}: {requests / run.wall_s:.0f}/s{'' if runs[-1].ok else ', FAILED'}")
    return runs


def render(runs: list[Run], commands: Peers, requests: int) -> str:
    rates = {peer: [requests / run.wall_s for run in runs if run.ok and run.name == peer] for peer in commands}
    cpus = {peer: [run.cpu_s / requests * 1e6 for run in runs if run.ok and run.name == peer] for peer in commands}
    first = next(iter(commands))
    rows = []
    for peer in commands:
        failed = sum(not run.ok and run.name == peer for run in runs)
        rows.append(
            [
                peer,
                str(len(rates[peer])) + (f" ({failed} failed)" if failed else ""),
                spread(rates[peer]),
                spread(cpus[peer], "{:.1f}"),
                ratio(rates[peer], rates[first]),
                ratio(cpus[peer], cpus[first]),
            ]
        )
    return table(["client", "n", "requests/s", "CPU us/request", f"rate / {first}", f"CPU / {first}"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=7, help="samples per peer and server")
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--server", choices=SERVERS, action="append")
    options = parser.parse_args()
    kept = {}
    with loopback() as lab:
        commands = peers(lab)
        for name in options.server or SERVERS:
            runs = measure(lab, name, commands, options.n, options.requests)
            kept[name] = [asdict(run) for run in runs]
            print(f"\n{name}: {options.requests} x {SIZE} B, {PARALLEL} at once, one TLS h2 connection; median (min to max)")
            print(render(runs, commands, options.requests), flush=True)
    print(f"raw samples: {keep('requests', kept)}")


if __name__ == "__main__":
    one_line_end(main)
