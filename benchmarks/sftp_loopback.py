"""One large file over SFTP on the loopback: rate and CPU of ferry, OpenSSH, curl, lftp and rclone; no router, no link.

python -m benchmarks.sftp_loopback [-n 7] [--size 1GiB] [--quick] [--client C]... [--direction D]...

One sshd whose only cipher is aes128-gcm@openssh.com, so that all clients pay for the same one. A client without it (curl on a
libssh2 before 1.11) talks to a second sshd, aes128-ctr with HMAC; the output says so, and its figures are less comparable.
Rounds are interleaved in rotating order, the first does not count, and the sha256 of the received file is checked after the
clock has stopped. MiB/s include start and handshake. CPU is user + system of the client and all its children (the ssh of OpenSSH
and of lftp), per GiB. A peer that was slow in the first round then transfers less. The output says so; CPU per GiB and MiB/s
refer to the bytes that it transferred.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from benchmarks.claims import Claim, claims_table, median_ratio
from benchmarks.common import Loopback, Run, keep, loopback, one_line_end, ratio, say, spread, table
from benchmarks.ratios import Measured
from benchmarks.sftp import Choice, Direction, clients_here, parser
from lab.clients.adapter import ClientAdapter
from lab.clients.ferry import Ferry
from lab.judge.sweep import turn_order
from lab.model.endpoints import Endpoints
from lab.model.transfer import Transfer
from lab.model.units import Size
from lab.run.arrived import collect
from lab.servers import sshd as sshd_server
from lab.servers.payload import Payload, write_payload
from lab.servers.sshd import Sshd, SshdOptions

SAMPLES = 7
GIB, MIB = 1 << 30, 1 << 20
CIPHER, OTHER_CIPHER = "aes128-gcm@openssh.com", "aes128-ctr"
PORT, OTHER_PORT = 22, 2022
PLACE = "127.0.0.1"
# A peer below this in the round that does not count moves no more than so much afterwards.
SLOW_BYTE_S = 150 * MIB
SLOW_SIZE = 256 * MIB
QUICK_SIZE = 64 * MIB
CPU_AT_MOST, RATE_AT_LEAST = 0.6, 1.3
HEADINGS = ["direction", "client", "cipher", "MiB", "n", "MiB/s", "CPU s/GiB", "rate / ours", "CPU / ours", "peak MiB"]


@dataclass(frozen=True)
class Server:
    """One sshd and what its clients need."""

    sshd: Sshd
    cipher: str
    endpoints: Endpoints


@dataclass
class Runner:
    """A client in one direction: with which server, how much, and what came of it."""

    name: str
    adapter: ClientAdapter
    direction: Direction
    server: Server
    size: int
    runs: list[Run]

    @property
    def good(self) -> list[Run]:
        return [run for run in self.runs if run.ok]

    @property
    def failed(self) -> int:
        return len(self.runs) - len(self.good)

    @property
    def rates(self) -> list[float]:
        """MiB/s."""
        return [self.size / run.wall_s / MIB for run in self.good]

    @property
    def cpu(self) -> list[float]:
        """Seconds per GiB."""
        return [run.cpu_s / self.size * GIB for run in self.good]


def start_sshd(lab: Loopback, folder: str, port: int, cipher: str, clients_folder: str) -> Server:
    """A second server on the same host, in a separate folder with its clients' files."""
    lab.host.run(["mkdir", "-p", lab.file(folder)])
    host = copy.copy(lab.host)
    vars(host)["workdir"] = lab.host.workdir / folder
    sshd = sshd_server.start(host, port=port, names=(PLACE,), options=SshdOptions(ciphers=cipher))
    home = lab.file(clients_folder)
    key, known = f"{home}/.ssh/id_ed25519", f"{home}/.ssh/known_hosts"
    lab.host.write(key, sshd.user_key.private, mode=0o600)
    lab.host.write(f"{key}.pub", f"{sshd.user_key.public}\n".encode())
    lab.host.write(known, sshd.known_hosts.encode(), mode=0o600)
    ends = Endpoints(
        server=PLACE,
        server_workdir=lab.file("served"),
        client_workdir=home,
        ca_path=lab.ca_path,
        known_hosts_path=known,
        ssh_key_path=key,
        ssh_port=port,
    )
    return Server(sshd, cipher, ends)


def served(lab: Loopback, size: int, servers: Sequence[Server]) -> Payload:
    """One payload, by hard links where the server and all clients look for it."""
    payload = write_payload(lab.host, size)
    for home in (lab.file("served"), *(server.endpoints.client_workdir for server in servers)):
        # An adapter puts a program that the lab brings along into the host's own folder, and looks for it in its client's.
        script = 'mkdir -p "$2/files" "$2/upload" "$2/out"; ln -f "$1" "$2/files/"; ln -sfn "$3" "$2/bin"'
        lab.host.run(["/bin/sh", "-ec", script, "serve", str(payload.path), home, lab.file("bin")])
    return payload


def move(lab: Loopback, runner: Runner, payload: Payload) -> Run:
    """One transfer, and whether the content is intact. The received file is removed."""
    transfer = Transfer(protocol="sftp", direction=runner.direction, size=Size(runner.size))
    ends = runner.server.endpoints.for_sample(payload.name, f"put-{payload.name}")
    for path, text in runner.adapter.inputs(transfer, ends).items():
        lab.host.write(path, text)
    # A fresh file every time: to overwrite one in place is another task.
    run = lab.run(runner.name, runner.adapter.command(transfer, ends), env=runner.adapter.environment(ends), whole_tree=True)
    problem = collect(lab.host, ends.arrival_path(transfer)).problem(payload.size, payload.sha256)
    if run.ok and problem:
        say(f"{runner.name} {runner.direction}: {problem}")
    # A set of reports with every TCP sample would be megabytes.
    kept = {key: (run.report or {}).get(key) for key in ("version", "ok", "ssh", "process")} if run.report else None
    return replace(run, ok=run.ok and not problem, said=problem or run.said[-300:], report=kept)


def warm_up(lab: Loopback, runner: Runner, other: Server, payloads: Mapping[int, Payload], slow_size: int) -> None:
    """The round that does not count decides which server, and how much, a client is measured with."""
    run = move(lab, runner, payloads[slow_size])
    if not run.ok:
        runner.server = other
        run = move(lab, runner, payloads[slow_size])
        say(f"{runner.name}: {'goes on' if run.ok else 'fails too'} with {other.cipher}, having failed with {CIPHER}")
    rate = slow_size / run.wall_s
    if run.ok and rate >= SLOW_BYTE_S:
        runner.size = max(payloads)
    say(f"{runner.name} {runner.direction}, not counted: {rate / MIB:.0f} MiB/s, will move {runner.size // MIB} MiB")


def measure(
    lab: Loopback, clients: Mapping[str, ClientAdapter], choice: Choice, servers: Sequence[Server], size: int
) -> list[Runner]:
    slow_size = min(size, SLOW_SIZE)
    payloads = {each: served(lab, each, servers) for each in {size, slow_size}}
    ours = next(iter(clients))
    done: list[Runner] = []
    for direction in choice.directions:
        runners = [Runner(name, adapter, direction, servers[0], slow_size, []) for name, adapter in clients.items()]
        for runner in runners:
            warm_up(lab, runner, servers[1], payloads, slow_size)
            # Claims, and other builds of ferry, need the complete file; only peers may transfer less.
            compared = runner.name in (ours, "openssh") or isinstance(runner.adapter, Ferry)
            runner.size = size if compared else runner.size
        for index in range(choice.n):
            for runner in (runners[turn] for turn in turn_order(len(runners), index)):
                run = move(lab, runner, payloads[runner.size])
                runner.runs.append(run)
                rate = runner.size / run.wall_s / MIB
                failed = "" if run.ok else ", FAILED"
                say(f"{runner.name} {direction} {index + 1}/{choice.n}: {rate:.0f} MiB/s, CPU {run.cpu_s:.2f} s{failed}")
        done += runners
    return done


def claims_of(runners: Sequence[Runner], direction: str) -> list[Claim]:
    ours, *peers = [runner for runner in runners if runner.direction == direction]
    openssh = next((peer for peer in peers if peer.name.startswith("openssh")), None)
    able = [peer for peer in peers if peer.rates and not isinstance(peer.adapter, Ferry)]
    best = max(able, key=lambda peer: statistics.median(peer.rates)) if able else None
    return [
        Claim(
            f"loopback {direction}: CPU per GiB of {ours.name} / of openssh",
            "at most",
            CPU_AT_MOST,
            median_ratio(ours.cpu, openssh.cpu if openssh else []),
            failed=ours.failed,
        ),
        Claim(
            f"loopback {direction}: MiB/s of {ours.name} / of {best.name + ', the best peer' if best else 'any peer'}",
            "at least",
            RATE_AT_LEAST,
            median_ratio(ours.rates, best.rates if best else []),
            failed=ours.failed,
        ),
    ]


def row(runner: Runner, ours: Runner) -> list[str]:
    memory = [run.max_rss_bytes / MIB for run in runner.good if run.max_rss_bytes]
    return [
        runner.direction,
        runner.name,
        runner.server.cipher.partition("@")[0],
        str(runner.size // MIB),
        str(len(runner.good)) + (f" ({runner.failed} failed)" if runner.failed else ""),
        spread(runner.rates),
        spread(runner.cpu, "{:.2f}"),
        ratio(runner.rates, ours.rates),
        ratio(runner.cpu, ours.cpu),
        f"{max(memory):.0f}" if memory else "-",
    ]


def compare(lab: Loopback, choice: Choice, size: int) -> tuple[list[Measured], dict[str, object]]:
    """The table and the claims, printed; what was measured, and the raw samples."""
    servers: list[Server] = []
    try:
        servers.append(start_sshd(lab, "gcm", PORT, CIPHER, "home"))
        servers.append(start_sshd(lab, "ctr", OTHER_PORT, OTHER_CIPHER, "home-ctr"))
        runners = measure(lab, clients_here(choice.clients, lab.host), choice, servers, size)
    finally:
        for server in servers:
            server.sshd.stop()
    firsts = {direction: next(each for each in runners if each.direction == direction) for direction in choice.directions}
    claims = [claim for direction in choice.directions for claim in claims_of(runners, direction)]
    print("\nmedian (min to max); rates include start and handshake")
    print(table(HEADINGS, [row(runner, firsts[runner.direction]) for runner in runners]))
    print("\nratios of medians (95 % bootstrap interval)")
    print(claims_table(claims), flush=True)
    kept: dict[str, object] = {
        "runners": [
            {
                "client": each.name,
                "direction": each.direction,
                "cipher": each.server.cipher,
                "bytes": each.size,
                "samples": [asdict(run) for run in each.runs],
            }
            for each in runners
        ],
        "claims": [claim.kept() for claim in claims],
    }
    return [Measured(f"sftp, {each.direction}", each.name, each.rates, each.cpu, each.failed) for each in runners], kept


def main() -> None:
    made = parser(__doc__, samples=SAMPLES, shaped=False)
    made.add_argument("--size", type=Size.parse, default=Size(GIB))
    options = made.parse_args()
    choice = Choice.of(options, SAMPLES)
    with loopback() as lab:
        _, kept = compare(lab, choice, QUICK_SIZE if choice.quick else options.size.bytes)
    print(f"raw samples: {keep('sftp-loopback', kept)}")


if __name__ == "__main__":
    one_line_end(main)
