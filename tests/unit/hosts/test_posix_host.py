"""What a Linux host sets, reads back and times: by commands, whose output is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.hosts import linux_settings
from lab.hosts.host import Completed
from lab.hosts.linux_settings import OFFLOADS, SYSCTLS
from lab.hosts.ping import ping
from lab.model.errors import LabFault
from lab.net.pins import assert_host_pinned, pin_host
from tests.support.local_host import LocalHost

HELD = "\n".join(value.replace(" ", "\t") for value in SYSCTLS.values())
CUBIC = '[{"dst":"default","metrics":[{"congestion":"cubic"}]}]'
OFF = "Features for eth0:\n" + "\n".join(f"{name}: off" for name in OFFLOADS)


@dataclass
class Printing(LocalHost):
    """Every command prints `said`; the commands are kept."""

    said: str = ""
    ran: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        self.ran.append(" ".join(argv))
        return Completed(tuple(argv), 0, self.said.encode(), b"", 0, 0, 0.0, 0.0)


def printing(folder: Path, said: str) -> Printing:
    return Printing("client", folder, said=said)


def test_a_host_that_holds_every_setting_has_no_problem(tmp_path: Path) -> None:
    assert printing(tmp_path, f"{HELD}\n--\n{CUBIC}\n--\n{OFF}\n").unpinned("cubic") == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("67108864", "212992", "net.ipv4.tcp_rmem"),
        ("cubic", "bbr", "congestion control"),
        ('"metrics":[{"congestion":"cubic"}]', '"metrics":[]', "congestion control"),
        ("generic-receive-offload: off", "generic-receive-offload: on", "generic-receive-offload"),
        ("tx-checksumming: off", "", "tx-checksumming"),
    ],
)
def test_every_setting_that_differs_is_a_problem_of_its_own(tmp_path: Path, before: str, after: str, said: str) -> None:
    host = printing(tmp_path, f"{HELD}\n--\n{CUBIC}\n--\n{OFF}\n".replace(before, after, 1))
    (problem,) = host.unpinned("cubic")
    assert said in problem
    with pytest.raises(LabFault):
        assert_host_pinned(host, "cubic")


def test_settings_are_written_before_they_are_read_back(tmp_path: Path) -> None:
    host = printing(tmp_path, f"{HELD}\n--\n{CUBIC}\n--\n{OFF}\n")
    pin_host(host, "cubic", mtu=1400)
    setting, reading = host.ran
    for part in ("mtu 1400", "congctl cubic", "tso off gso off gro off tx off", *SYSCTLS.values()):
        assert part in setting
    assert linux_settings.READ_SYSCTLS in reading


def test_round_trips_are_those_that_came_back(tmp_path: Path) -> None:
    once = "rtt min/avg/max/mdev = {0}/{0}/{0}/0.000 ms\n"
    host = printing(tmp_path, "".join(once.format(ms) for ms in ("20.125", "20.250", "21.000")) + "0 received\n")
    assert ping(host, "10.9.2.2", 4) == [20.125, 20.25, 21.0]
    assert host.ran[0].endswith(" 4 10.9.2.2")


def test_two_round_trips_are_too_few(tmp_path: Path) -> None:
    with pytest.raises(LabFault):
        ping(printing(tmp_path, "rtt min/avg/max/mdev = 1.0/1.0/1.0/0.0 ms\n" * 2), "10.9.2.2", 4)
