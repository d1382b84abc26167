"""The facts of a Linux host: the parser on real output, the script on this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import cast

import pytest

from lab.hosts.linux_facts import INTERESTING_OFFLOADS, INTERESTING_SYSCTLS, end_script, parse_sections

OUTPUT = """\
@@ roughwater sysctls
net/ipv4/tcp_rmem:4096\t131072\t6291456
net/ipv4/tcp_no_metrics_save:1
net/ipv4/tcp_congestion_control:cubic
@@ roughwater end 0
@@ roughwater offloads
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
@@ roughwater end 0
@@ roughwater routes
[{"dst":"10.9.2.0/24","gateway":"10.9.1.1","dev":"eth0","metrics":[{"congctl":"cubic"}]}]
@@ roughwater end 0
@@ roughwater qdiscs
[{"kind":"noqueue","dev":"lo"},
 {"kind":"fq_codel","dev":"eth0"}]
@@ roughwater end 0
"""


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
        '[{"kind":"noqueue","dev":"lo"},\n {"kind":"fq_codel","dev":"eth0"}]\n@@ roughwater end 0', "@@ roughwater end 127"
    )
    errors = "@@ roughwater routes\na warning\n@@ roughwater qdiscs\nsh: 1: tc: not found\n"
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


def test_text_that_is_not_json_is_unread() -> None:
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
