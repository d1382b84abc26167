"""Transfers with a fault each: is exit code 0 always a complete and identical file?

The client speaks to a program on the server's host, so that the faulty side is at the far end of the link: `middle_script` harms
TCP connections to the lab's own servers, `odd_server_script` is an HTTP server that fails or lies. For h2 a second nginx is in
front of that server. QUIC is harmed datagram by datagram. The seed decides the details of a fault: its byte, its bits, its
status.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from lab.clients.last_words import last_words
from lab.clients.registry import resolve_for
from lab.hosts.host import Completed, Host, Process
from lab.hosts.scripts import script_command
from lab.judge.faults import DEADLINE_S, Left, fault_problem, outcome, summary
from lab.judge.quirks import verdict_on
from lab.model.answer import Answer, Fault, Observation
from lab.model.errors import LabFault, NotSupported
from lab.model.results import Verdict
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.run.events.client_run import Bench, ClientRun, Ports, prepare
from lab.run.events.flap import link_down, other_address
from lab.run.events.quirks import Request, investigate
from lab.run.session import Session
from lab.servers.bundle import serving_host
from lab.servers.process import ServerProcess, wait_ready

_HERE = Path(__file__).parent
_MIDDLE, _ODD, _LEFT = (_HERE / name for name in ("middle_script.py", "odd_server_script.py", "left_script.py"))
HARMED = Ports(http=8180, https=8543, ssh=8122)
ODD = Ports(http=8181, https=8544, ssh=0)
_DOWN_S = {"down-1s": 1.0, "down-5s": 5.0, "down-30s": 30.0}
_MARKED = (*_DOWN_S, "address")
_CONNECTION: tuple[Fault, ...] = ("fin", "rst", "corrupt", "killed", "down-1s", "down-5s", "down-30s", "address", "rebind")
_DOWNLOADS: tuple[Fault, ...] = ("length-long", "length-short", "chunked-cut", "wrong-range", "ignored-range")
_NOT_AGAIN = "a server from a userland is not started again by the programs of the machine"
_BEGIN_S = 60.0
_PAUSE_S = 0.01
_AGAIN_S = 1.0
"""A service manager starts a server that was killed again after a while."""


def refusal(fault: Fault, transfer: Transfer) -> str:
    """The reason why the transfer cannot have this fault; empty where it can."""
    behind_nginx = "nginx, which the lab has in front of its odd server"
    reasons = {
        "QUIC has neither FIN nor RST, and an attacker cannot write its close": transfer.protocol == "h3"
        and fault in ("fin", "rst"),
        "a TCP connection ends where its NAT forgets it": transfer.protocol != "h3" and fault == "rebind",
        _NOT_AGAIN: transfer.protocol == "h3" and fault == "killed",
        "the lab has no SFTP server that lies": transfer.protocol == "sftp" and fault not in _CONNECTION,
        f"{fault} is a fault of downloads": transfer.direction == "put" and fault in _DOWNLOADS,
        "early-success is a fault of uploads": transfer.direction == "get" and fault == "early-success",
        f"{behind_nginx}, cuts a body to its announced length": transfer.protocol != "http1" and fault == "length-short",
        f"{behind_nginx}, passes an upload on when it is complete": transfer.protocol != "http1" and fault == "early-success",
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def draw(fault: Fault, transfer: Transfer, sample: int, rng: random.Random) -> dict[str, Any]:
    """The plan of one sample, as the scripts read it."""
    size = transfer.size.bytes
    # The last bytes are where a client may take an end for the end: one sample in six is there.
    at = rng.randint(1, size) if rng.random() < 5 / 6 else size - rng.randint(0, min(size - 1, 2048))
    inside = rng.randint(1, size - 1)
    status, retry_s, times = rng.choice((500, 502, 503, 503, 504)), rng.choice((0, 0, 1, 2)), rng.choice((1, 1, 2))
    cut = {"at": inside, "shift": rng.choice((-1, 1)) * rng.randint(1, 100_000), "unnamed": rng.random() < 0.3}
    error = {"status": status, "retry_after_s": retry_s, "times": times}
    own: dict[str, dict[str, Any]] = {
        "corrupt": {"bit": rng.randrange(8), "bytes": rng.choice((1, 1, 1, 3, 100))},
        "http-error": error,
        "error-cut": error,
        "wrong-range": cut,
        "ignored-range": cut,
        "length-long": {"extra": rng.choice((1, rng.randint(2, 5000)))},
        "length-short": {"at": inside},
        "chunked-cut": {"at": inside},
        # In the first half: the client has the answer while it still has content to send.
        "early-success": {"at": max(inside // 2, 1), "abrupt": rng.random() < 0.5},
    }
    if fault in _MARKED:
        own[fault] = {"fault": "mark", "at": max(inside * 7 // 10, 1)}
    return {"sample": sample, "fault": fault, "direction": transfer.direction, "at": at} | own.get(fault, {})


@dataclass
class Stage:
    """The faulty programs of one network, running."""

    bench: Bench
    transfer: Transfer
    topology: Topology
    fault: Fault
    folder: PurePath
    harmed: ServerProcess
    processes: list[Process] = field(default_factory=list)

    @property
    def ports(self) -> Ports:
        return HARMED if self.fault in _CONNECTION else ODD

    @property
    def receiver(self) -> Host:
        network = self.bench.network
        return network.client if self.transfer.direction == "get" else network.server

    def events(self) -> list[dict[str, Any]]:
        """The notes of the faulty programs in this sample so far."""
        return [json.loads(line) for line in self.bench.network.server.read(self.folder / "log").splitlines()]

    def plan(self, told: dict[str, Any]) -> None:
        server = self.bench.network.server
        if self.fault == "killed":
            # Its first process may have been killed by the last sample's fault: no reason to give up.
            wait_ready([replace(self.harmed, processes=())])
            told |= {"mark": self.mark, "argv": self.harmed.processes[-1].argv, "again_s": _AGAIN_S}
        server.write(self.folder / "log", b"")
        server.write(self.folder / "plan.json", json.dumps(told).encode())

    @property
    def mark(self) -> str:
        """In the command line of the server's first process and of no other program."""
        return str(self.bench.network.server.workdir / ("sshd/sshd_config" if self.harmed.name == "sshd" else "nginx/nginx.conf"))


def run_faults(
    session: Session, client: ClientSpec, topology: Topology, transfer: Transfer, fault: Fault, *, samples: int
) -> Answer:
    """Run `samples` transfers, each with the fault at another place, to a verdict, and write the answer.

    Raises NotSupported for a fault that the transfer cannot have, and as `Session.run_cell`.
    """
    request = Request(client, topology, transfer, "no-wrong-file", fault)
    with session.noting_skip(request.id):  # before a machine is booted for it
        if reason := refusal(fault, transfer):
            raise NotSupported(f"{request.id}: {reason}")
        resolve_for(client, transfer, request.id)

    def take(bench: Bench) -> Iterator[Observation]:
        with ExitStack() as stack:
            stage = set_up(stack, bench, transfer, topology, fault)
            for index in range(samples):
                seed = session.lab.machines.sample_seed(request.id, index)
                bench.network.vary(seed)
                yield observe(stage, draw(fault, transfer, index, random.Random(seed)))  # noqa: S311 - a fault is no secret

    return investigate(session, request, take, judge)


def judge(rows: Sequence[Observation]) -> Verdict:
    if not rows or any(row.problem for row in rows):
        return verdict_on(rows, "")
    return verdict_on(rows, summary(rows))


def set_up(stack: ExitStack, bench: Bench, transfer: Transfer, topology: Topology, fault: Fault) -> Stage:
    """Start the faulty programs and wait until they answer; they end with `stack`."""
    server, servers = bench.network.server, bench.servers
    folder = server.workdir / "faults"
    harmed: ServerProcess = servers.sshd if transfer.protocol == "sftp" else servers.nginx
    stage = Stage(bench, transfer, topology, fault, folder, harmed)
    server.write(folder / "log", b"")
    probe = server.address
    if fault == "killed" and serving_host(server, transfer.protocol) is not server:
        raise NotSupported(_NOT_AGAIN)
    if fault in _CONNECTION:
        ends = servers.endpoints
        routes = ((HARMED.http, ends.http_port), (HARMED.https, ends.https_port), (HARMED.ssh, ends.ssh_port))
        datagrams = [f"udp:{HARMED.https}:{ends.https_port}"] if transfer.protocol == "h3" else []
        words = script_command(server, _MIDDLE, str(folder), *(f"{port}:{target}" for port, target in routes), *datagrams)
        found = [ServerProcess("the middle", server, (server.start(words),), (f"http,{probe},{HARMED.http},/ready",))]
        _know_host(bench, servers.sshd.known_hosts)
    else:
        files, uploads = server.workdir / "files", server.workdir / "upload"
        words = script_command(server, _ODD, str(folder), str(ODD.http), str(files), str(uploads))
        found = [ServerProcess("the odd server", server, (server.start(words),), (f"http,{probe},{ODD.http},/ready",))]
        if transfer.protocol != "http1":
            config = front_config(server.workdir, folder, http3=transfer.protocol == "h3")
            server.write(folder / "nginx.conf", config.encode())
            nginx = server.under_test.program("nginx")
            argv = [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
            front = server.under_test.start(argv)
            found.append(
                ServerProcess("nginx in front", server, (front,), (f"listen,{probe},{ODD.https}",), folder / "error.log")
            )
    for each in found:
        stack.callback(each.stop)
    wait_ready(found)
    return stage


def _know_host(bench: Bench, known_hosts: str) -> None:
    """The server's key under the other port too; OpenSSH writes it as [name]:port."""
    ends = bench.servers.endpoints
    lines = [line.split(" ", 1) for line in known_hosts.splitlines()]
    names = [(name[1:].partition("]")[0] if name.startswith("[") else name, key) for name, key in lines]
    text = known_hosts + "".join(f"[{name}]:{HARMED.ssh} {key}\n" for name, key in names)
    bench.network.client.write(ends.known_hosts_path, text.encode(), mode=0o600)


def front_config(workdir: PurePath, folder: PurePath, *, http3: bool = False) -> str:
    """nginx.conf of a server for TLS and h2 that passes every request on to the odd server, and its answer back as it comes."""
    own = workdir / "nginx"
    temporary = "\n".join(
        f"    {kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    quic = f"listen 0.0.0.0:{ODD.https} quic reuseport;\n        http3 on;" if http3 else ""
    return f"""\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
worker_processes 1;
events {{ worker_connections 512; }}
http {{
    access_log off;
{temporary}
    client_max_body_size 0;
    server {{
        listen 0.0.0.0:{ODD.https} ssl http2;
        {quic}
        ssl_certificate {own}/server.pem;
        ssl_certificate_key {own}/server.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        location / {{
            proxy_pass http://127.0.0.1:{ODD.http};
            proxy_http_version 1.1;
            proxy_buffering off;
        }}
    }}
}}
"""


def observe(stage: Stage, told: dict[str, Any]) -> Observation:
    """One transfer with the fault of that plan. Raises LabFault where the client succeeded and the fault was never due."""
    stage.plan(told)
    attempt = prepare(stage.bench, stage.transfer, ports=stage.ports)
    reference = stage.bench.servers.payload(stage.receiver, stage.transfer.size.bytes).path
    done = _run(stage, attempt)
    events = stage.events()
    left = what_is_left(stage.receiver, attempt.endpoints.arrival_path(stage.transfer), str(reference))
    struck = next((event for event in events if event["what"] == "fault"), None)
    size = stage.transfer.size.bytes
    content = left.problem(size)
    name = f"{stage.fault} at byte {told['at']}" if stage.fault not in ("http-error", "error-cut") else f"{told['status']}"
    facts = {
        "outcome": outcome(exit_code=done.returncode, timed_out=done.timed_out, content=content),
        "left": left.words(size),
        "said": last_words(done) if done.returncode else "",
        "plan": " ".join(f"{key}={told[key]}" for key in told if key not in ("sample", "fault", "direction", "mark", "argv")),
    }
    facts = {key: text for key, text in facts.items() if text}
    figures = {"wall_s": done.wall_s, "exit_code": float(done.returncode)}
    if struck is None:
        if not done.returncode:
            raise LabFault(f"{name}: the client was done before the fault was due")
        why = f"failed with exit code {done.returncode} before anything was done to it: {last_words(done)}"
        return Observation(name=name, problem=why, figures=figures | {"ended_after_s": 0.0}, facts=facts)
    waited_s = max((done.ended_ns - struck["t_ns"]) / 1e9, 0.0)
    problem = fault_problem(exit_code=done.returncode, timed_out=done.timed_out, content=content, waited_s=waited_s)
    figures |= {
        "ended_after_s": waited_s,
        "attempts": float(sum(event["what"] in ("connection", "request") for event in events)),
        "left_bytes": float(max(left.size, 0)),
        "differing_bytes": float(left.differ),
        "other_files": float(len(left.others)),
    }
    return Observation(name=name, problem=problem, figures=figures, facts=facts)


def _run(stage: Stage, attempt: ClientRun) -> Completed:
    """The client's run, and what is done to the network meanwhile."""
    network = stage.bench.network
    process = attempt.start()
    try:
        if stage.fault in _DOWN_S:
            if _marked(stage, process):
                with link_down(network, stage.topology.link):
                    network.clock.sleep(_DOWN_S[stage.fault])
        elif stage.fault == "address" and _marked(stage, process):
            with other_address(network.client, stage.topology):
                return process.wait(DEADLINE_S)
        return process.wait(DEADLINE_S)
    except BaseException:
        process.stop(0.0)
        raise


def _marked(stage: Stage, process: Process) -> bool:
    """Wait for the byte of the plan. False when the client ends before it."""
    clock = stage.bench.network.clock
    deadline_ns = clock.monotonic_ns() + round(_BEGIN_S * 1e9)
    while process.running():
        if b'"fault"' in stage.bench.network.server.read(stage.folder / "log"):
            return True
        if clock.monotonic_ns() > deadline_ns:
            raise LabFault(f"the client had not moved that much {_BEGIN_S:g} s after its start")
        clock.sleep(_PAUSE_S)
    return False


def what_is_left(host: Host, path: str, reference: str) -> Left:
    """Look at what is in the folder of the received file, and empty it."""
    place = PurePath(path)
    found = json.loads(host.run(script_command(host, _LEFT, str(place.parent), place.name, reference)).text)
    return Left(found["size"], found["differ"], found["others"])
