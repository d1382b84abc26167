"""The parsers on real output kept here as text, and a whole snapshot through hosts that run their commands on this machine."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.backend.host import Completed, Network
from lab.result.provenance import (
    INTERESTING_OFFLOADS,
    INTERESTING_SYSCTLS,
    end_script,
    git_revision,
    host_snapshot,
    machine_facts,
    parse_sections,
)

OUTPUT = """\
@@ throughline sysctls
net/ipv4/tcp_rmem:4096\t131072\t6291456
net/ipv4/tcp_no_metrics_save:1
net/ipv4/tcp_congestion_control:cubic
@@ throughline end 0
@@ throughline offloads
Features for eth0:
rx-checksumming: on
tx-checksumming: off
\ttx-checksum-ipv4: off [fixed]
scatter-gather: on
tcp-segmentation-offload: off
\ttx-tcp-segmentation: off
generic-segmentation-offload: off [requested on]
generic-receive-offload: on
large-receive-offload: off [fixed]
@@ throughline end 0
@@ throughline routes
[{"dst":"10.9.2.0/24","gateway":"10.9.1.1","dev":"eth0","metrics":[{"congctl":"cubic"}]}]
@@ throughline end 0
@@ throughline qdiscs
[{"kind":"noqueue","dev":"lo"},
 {"kind":"fq_codel","dev":"eth0"}]
@@ throughline end 0
"""


class LocalHost:
    """Runs commands here and remembers them; a command may be replaced by words."""

    platform = "linux"
    address = ""
    workdir: PurePath = PurePosixPath("/nowhere")

    def __init__(self, name: str, answers: Mapping[str, tuple[int, str, str]] | None = None) -> None:
        self.name = name
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


def test_sections_become_flat_facts() -> None:
    facts = parse_sections(OUTPUT)
    assert facts["sysctl.net.ipv4.tcp_rmem"] == "4096 131072 6291456"
    assert facts["sysctl.net.core.rmem_max"] is None, "a namespace may not have it; that is a fact too"
    assert facts["offload.eth0.generic-segmentation-offload"] == "off"
    assert facts["offload.eth0.generic-receive-offload"] == "on"
    assert facts["routes"] == [{"dst": "10.9.2.0/24", "gateway": "10.9.1.1", "dev": "eth0", "metrics": [{"congctl": "cubic"}]}]
    assert [qdisc["kind"] for qdisc in cast(list[dict[str, str]], facts["qdiscs"])] == ["noqueue", "fq_codel"]
    assert facts["unread"] == []
    assert set(facts) == {
        *(f"sysctl.{name}" for name in INTERESTING_SYSCTLS),
        *(f"offload.eth0.{name}" for name in INTERESTING_OFFLOADS),
        "routes",
        "qdiscs",
        "unread",
    }


def test_a_failed_section_is_named_with_its_error() -> None:
    broken = OUTPUT.replace(
        '[{"kind":"noqueue","dev":"lo"},\n {"kind":"fq_codel","dev":"eth0"}]\n@@ throughline end 0', "@@ throughline end 127"
    )
    errors = "@@ throughline routes\na warning\n@@ throughline qdiscs\nsh: 1: tc: not found\n"
    facts = parse_sections(broken, errors)
    assert facts["qdiscs"] is None
    assert facts["unread"] == ["qdiscs: sh: 1: tc: not found"]
    assert facts["routes"] != []


@pytest.mark.parametrize("keep", [0, 2, 6, 18])
def test_a_cut_answer_names_what_is_missing(keep: int) -> None:
    facts = parse_sections("\n".join(OUTPUT.splitlines()[:keep]))
    unread = cast(list[str], facts["unread"])
    assert "qdiscs: no answer" in unread
    assert ("sysctls: no answer" in unread) == (keep < 5)


def test_text_that_is_not_json_is_no_fact() -> None:
    facts = parse_sections(OUTPUT.replace('[{"dst"', 'Dump terminated\n[{"dst"'))
    assert facts["routes"] is None
    assert cast(list[str], facts["unread"])[0].startswith("routes: not JSON: Dump terminated")


@pytest.mark.skipif(not all(map(shutil.which, ("ip", "tc", "ethtool"))), reason="needs ip, tc and ethtool")
def test_the_script_on_this_machine() -> None:
    done = subprocess.run(["sh", "-c", end_script("lo")], capture_output=True, text=True, check=True)
    facts = parse_sections(done.stdout, done.stderr, "lo")
    assert facts["unread"] == []
    assert facts["sysctl.net.ipv4.ip_forward"] == Path("/proc/sys/net/ipv4/ip_forward").read_text().strip()
    assert facts["offload.lo.tcp-segmentation-offload"] in ("on", "off")
    assert isinstance(facts["qdiscs"], list)


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


def test_steal_is_the_eighth_figure(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 0 200 600 0 0 20 80 30 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    facts = machine_facts(tmp_path)
    assert (facts["steal_s"], facts["cpu_s"]) == (0.8, 10.0), "guest time is counted in user time already"


def test_a_machine_that_tells_nothing_gives_none(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path)
    for name in ("cpu_model", "memory_bytes", "load_1min", "steal_s", "net.core.rmem_max", "net.ipv4.tcp_congestion_control"):
        assert facts[name] is None
