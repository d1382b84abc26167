"""What the benchmarks share: where raw samples go, tables, peers, and a loopback to run them on."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lab.assets import extracted as packaged
from lab.clients import usage
from lab.clients.adapter import ClientAdapter
from lab.clients.ferry import Ferry
from lab.clients.registry import adapter_for, parse_client, resolve
from lab.hosts.host import Completed, Host
from lab.hosts.namespaces.network import open_network
from lab.hosts.scripts import script_command
from lab.model.errors import RoughwaterError, UsageProblem
from lab.model.paths import project_root, results_dir
from lab.servers import nginx as nginx_server
from lab.servers.certificates import Certificates, make_certificates
from lab.store.provenance import machine_facts

PATIENCE_S = 600.0
PEERS = project_root() / "engine" / "peers"
HYPER = "hyper"
_TREE_SCRIPT = Path(__file__).with_name("tree_script.py")


def keep(name: str, samples: object) -> Path:
    """Write the raw samples, with facts about the machine."""
    folder = results_dir() / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    path.write_text(json.dumps({"machine": machine_facts(), "samples": samples}, indent=2, default=str) + "\n")
    return path


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, words to the left and numbers to the right."""
    whole = [list(headings), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in whole) for column in range(len(headings))]
    numeric = [all(not row[column][:1].isalpha() for row in rows) for column in range(len(headings))]
    return "\n".join(
        "  ".join(
            f"{cell:>{width}}" if right else f"{cell:<{width}}" for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in whole
    )


def spread(values: Sequence[float], form: str = "{:.0f}") -> str:
    """`median (min to max)`, or a dash where there is nothing."""
    if not values:
        return "-"
    return f"{form.format(statistics.median(values))} ({form.format(min(values))} to {form.format(max(values))})"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The ratio of the medians."""
    return f"{statistics.median(ours) / statistics.median(theirs):.2f}" if ours and theirs and statistics.median(theirs) else "-"


def say(text: str) -> None:
    """Print progress to standard error, so that the tables can be redirected."""
    print(text, file=sys.stderr, flush=True)


def adapter_of(text: str) -> ClientAdapter:
    """The adapter of a --client: as `lab run` has them (`ferry-before=PATH` is another build), and `hyper` of engine/peers."""
    if text == HYPER:
        return adapter_for(HYPER, str(PEERS / HYPER / "hyper.yaml"))
    return resolve(parse_client(text))


def present_clients(texts: Sequence[str], host: Host) -> dict[str, ClientAdapter]:
    """The adapters whose programs are on the host, by name. For the others it prints why not."""
    found: dict[str, ClientAdapter] = {}
    for text in texts:
        try:
            adapter = adapter_of(text)
            say(f"{adapter.name}: {adapter.identify(host).version}")
            found[adapter.name] = adapter
        except UsageProblem as problem:
            say(f"{text} is left out: {problem}")
    if not found:
        raise UsageProblem("none of the clients is here", remedy="make setup")
    return found


def ferry_programs(texts: Sequence[str], host: Host) -> dict[str, str]:
    """Copies of builds of ferry on that host, by name. For a build that is not there it prints why.

    Raises UsageProblem for a client that is not ferry.
    """
    found: dict[str, str] = {}
    for text in texts:
        try:
            adapter = adapter_of(text)
            if isinstance(adapter, Ferry):
                found[adapter.name] = adapter.identify(host).path
        except UsageProblem as problem:
            say(f"{text} is left out: {problem}")
            continue
        if not isinstance(adapter, Ferry):
            raise UsageProblem(
                f"client {text}: this benchmark has no commands for it", remedy="give builds of ferry as NAME=PATH"
            )
    return found


def one_line_end(main: object) -> None:
    """Run a benchmark's `main`: a known problem ends in one line, as `lab` does."""
    try:
        main()  # type: ignore[operator]
    except RoughwaterError as problem:
        say(f"benchmark: {problem}")
        sys.exit(problem.exit_code)


@dataclass(frozen=True)
class Run:
    """One command that has ended, in figures."""

    name: str
    ok: bool
    wall_s: float
    cpu_s: float
    max_rss_bytes: int | None
    said: str
    report: dict[str, object] | None = None


@dataclass(frozen=True)
class Loopback:
    """A host of the lab's that runs servers and clients alike: commands as its ordinary user, gone with the network."""

    host: Host
    certificates: Certificates
    ca_path: str

    def file(self, path: str) -> str:
        return f"{self.host.workdir}/{path}"

    def run(self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None, whole_tree: bool = False) -> Run:
        """Under GNU time for the memory; `report` is what it printed, where that is one JSON document.

        CPU seconds are those of the command and the children it waited for; with `whole_tree`, of all its descendants.
        """
        memory, tree = self.file("rss"), self.file("tree")
        command = usage.wrap(argv, usage.find_time(self.host), memory)
        if whole_tree:
            command = script_command(self.host, _TREE_SCRIPT, tree, *command)
        done: Completed = self.host.run(command, env=env, check=False, timeout_s=PATIENCE_S)
        rss = self.host.run(["cat", memory], check=False).text
        wall_s, cpu_s = done.wall_s, done.user_s + done.system_s
        ok = done.returncode == 0 and not done.timed_out
        if not ok:
            say(f"{name} failed: {done.error_text[:200]}")
        elif whole_tree:
            wall_s, cpu_s = map(float, self.host.run(["cat", tree]).text.split())
        return Run(name, ok, wall_s, cpu_s, usage.max_rss_bytes(rss), done.text[-2000:], _report(done))

    def bring(self, program: Path) -> str | None:
        """A copy of a program of engine/peers; None, and a message, where it has not been built."""
        if not program.is_file():
            say(f"{program.name} is left out: {program} has not been built (make bench-engine builds it)")
            return None
        copy = self.file(f"bin/{program.name}")
        self.host.write(copy, program.read_bytes(), mode=0o755)
        return copy

    def write_random(self, name: str, size: int) -> str:
        """A file of that size below `files/`; content does not matter here."""
        path = self.file(f"files/{name}")
        self.host.run(
            ["/bin/sh", "-c", 'mkdir -p "${1%/*}" && head -c "$2" /dev/urandom >"$1"', "make", path, str(size)], timeout_s=60
        )
        return path

    def nginx(self, *, workers: int) -> nginx_server.NginxServer:
        return nginx_server.start(self.host, self.certificates, workers=workers)


@contextmanager
def loopback() -> Iterator[Loopback]:
    """The client's namespace of a lab, nothing shaped; the router is idle. Ports below 1024 are free there for everybody."""
    network = open_network()
    try:
        host = network.client
        certificates = make_certificates(["127.0.0.1"])
        ca_path = f"{host.workdir}/ca.pem"
        host.write(ca_path, certificates.ca_pem)
        yield Loopback(host, certificates, ca_path)
    finally:
        network.close()


def extracted(programs: dict[str, str]) -> dict[str, Path]:
    """Programs that are only measured with: Debian's packages extracted into the cache like the servers, nothing installed."""
    lacking = {name: package for name, package in programs.items() if packaged.find(name) is None}
    if lacking:
        packaged.build(lacking, say)
    return {name: path for name in programs if (path := packaged.find(name))}


def _report(done: Completed) -> dict[str, object] | None:
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return None
    return report if isinstance(report, dict) else None
