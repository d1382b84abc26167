"""A snapshot through hosts that run their commands on this machine, and the machine's own facts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from lab.hosts.host import Completed, Network
from lab.store import provenance
from lab.store.provenance import git_revision, host_snapshot, machine_facts
from tests.support import local_host


class LocalHost(local_host.LocalHost):
    """Runs commands here and remembers them; a command may be replaced by words."""

    def __init__(self, name: str, answers: Mapping[str, tuple[int, str, str]] | None = None) -> None:
        super().__init__(name, Path("/nowhere"))
        self.answers = answers or {}
        self.asked: list[Sequence[str]] = []

    def run(self, argv: Sequence[str], *, check: bool = True, **_: Any) -> Completed:
        self.asked.append(argv)
        if argv[0] in self.answers:
            code, out, err = self.answers[argv[0]]
            return Completed(tuple(argv), code, out.encode(), err.encode(), 0, 0, 0, 0)
        done = subprocess.run(argv, capture_output=True, check=check)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr, 0, 0, 0, 0)


def network(router: LocalHost) -> Network:
    return cast(Network, SimpleNamespace(client=LocalHost("client"), router=router, server=LocalHost("server")))


def test_a_snapshot_asks_each_end_once_and_the_router_twice() -> None:
    qdiscs = [{"kind": "netem", "drops": 3}]
    router = LocalHost("router", {"tc": (0, json.dumps(qdiscs), ""), "ip": (0, "", "")})
    hosts = network(router)
    snapshot = host_snapshot(hosts)
    assert set(snapshot.hosts) == {"client", "router", "server"}
    assert snapshot.hosts["router"] == {"qdiscs": qdiscs, "routes": [], "unread": []}
    assert router.asked == [["tc", "-s", "-j", "qdisc"], ["ip", "-j", "route"]]
    assert len(cast(LocalHost, hosts.client).asked) == len(cast(LocalHost, hosts.server).asked) == 1
    assert snapshot.hosts["client"]["sysctl.net.ipv4.ip_forward"] in ("0", "1")
    assert json.loads(snapshot.model_dump_json())["machine"]["cores"] >= 1


def test_a_router_that_cannot_answer_is_said_so() -> None:
    router = LocalHost("router", {"tc": (2, "", "RTNETLINK answers: No such device"), "ip": (127, "", "")})
    facts = host_snapshot(network(router)).hosts["router"]
    assert facts["qdiscs"] is None
    assert facts["unread"] == ["qdiscs: RTNETLINK answers: No such device", "routes: exit code 127"]


def test_machine_facts_of_this_machine() -> None:
    facts = machine_facts()
    assert isinstance(facts["memory_bytes"], int)
    assert facts["memory_bytes"] > 1 << 27
    assert isinstance(facts["cpu_s"], float)
    assert isinstance(facts["steal_s"], float)
    assert facts["cpu_s"] > facts["steal_s"] >= 0
    assert facts["git_revision"] == git_revision()
    json.dumps(facts, allow_nan=False)


def test_the_revision_is_the_checkouts(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        own = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.example", *words]
        return subprocess.run(own, check=True, capture_output=True, text=True).stdout.strip()

    assert provenance._git(tmp_path, "rev-parse", "HEAD") is None, "no checkout"
    git("init", "--quiet")
    assert provenance._git(tmp_path, "rev-parse", "--verify", "HEAD") is None, "git refuses: there is no commit"
    git("commit", "--quiet", "--allow-empty", "--message=first")
    assert provenance._git(tmp_path, "rev-parse", "HEAD") == git("rev-parse", "HEAD")


def test_steal_is_the_eighth_figure(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 0 200 600 0 0 20 80 30 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    facts = machine_facts(tmp_path)
    assert (facts["steal_s"], facts["cpu_s"]) == (0.8, 10.0), "guest time is counted in user time already"


def test_a_machine_that_reports_nothing_has_no_facts(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path)
    for name in ("cpu_model", "memory_bytes", "load_1min", "steal_s", "net.core.rmem_max", "net.ipv4.tcp_congestion_control"):
        assert facts[name] is None
