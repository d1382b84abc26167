"""Figures that others have published, with their conditions, and how far the lab may be from each.

All bands were committed before the first run of the part that they belong to; the history of this file is the proof. The RFC's
own tables and bands are in `rfc9438.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.model.units import BitRate, Duration

L4S_TESTS = "heistp/l4s-tests@e21cd91, s1_table.md"
ICCRG = "L4STeam/l4steam.github.io@43b12da, iccrg-exp/results"


@dataclass(frozen=True)
class TwoFlows:
    """Two CUBIC flows in one pfifo: goodput of each in Mbit/s over the last minute of three, by the sockets' delivery rate."""

    rate: BitRate
    queue_packets: int
    rtts: tuple[Duration, Duration]
    published: tuple[float, float]

    @property
    def name(self) -> str:
        return f"{self.rate.bit_s // 10**6}M-{self.rtts[0].ms:g}ms-{self.rtts[1].ms:g}ms"

    @property
    def total(self) -> float:
        return sum(self.published)

    @property
    def share(self) -> float:
        """The first flow's part."""
        return self.published[0] / self.total


def _two(mbit: int, packets: int, rtts: tuple[int, int], published: tuple[float, float]) -> TwoFlows:
    first, second = (Duration(ms * 10**6) for ms in rtts)
    return TwoFlows(BitRate(mbit * 10**6), packets, (first, second), published)


TWO_FLOWS: tuple[TwoFlows, ...] = (
    _two(50, 1000, (10, 10), (22.22, 25.26)),
    _two(50, 1000, (20, 10), (18.89, 28.60)),
    _two(50, 1000, (20, 20), (23.46, 24.07)),
    _two(50, 1000, (80, 20), (22.32, 25.14)),
    _two(50, 1000, (80, 80), (24.14, 23.27)),
    _two(50, 1000, (160, 10), (17.22, 30.27)),
    _two(10, 200, (10, 10), (4.56, 4.87)),
    _two(10, 200, (20, 10), (3.10, 6.34)),
    _two(10, 200, (20, 20), (4.65, 4.80)),
    _two(10, 200, (80, 20), (5.78, 3.65)),
    _two(10, 200, (80, 80), (4.82, 4.61)),
    _two(10, 200, (160, 10), (4.80, 4.63)),
)
"""The rows of that table whose congestion control Linux has (the others have one flow of Prague) and whose queue is a pfifo."""

TWO_FLOWS_TOTAL = 0.02
"""The sum of both flows. Theirs is a mean of the sockets' own estimates, 0.7 to 1.5 % below rate x 1448 / 1514; ours counts
acknowledged bytes, so ours is expected to be higher by that."""
TWO_FLOWS_SHARE = 0.10
"""The first flow's share, in absolute terms. Theirs is one run of three minutes, and two flows with equal round trips differ in
it by up to 6.4 percentage points. Ours is the median of `TWO_FLOWS_SEEDS`."""
TWO_FLOWS_SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class OneFlow:
    """One CUBIC flow with ECN through fq_codel, 40 s of iperf3, in Mbit/s at the receiver."""

    rate: BitRate
    rtt: Duration
    published: float
    band: float

    @property
    def name(self) -> str:
        return f"{self.rate.bit_s // 10**6}M-{self.rtt.ms:g}ms"


_NEAR, _FAR = 0.005, 0.03


def _one(mbit: int, rtt_ms: int, published: float) -> OneFlow:
    """At 5 ms the queue is never empty, and the figure is the rate's: half a percent. At 20 ms and more an AQM that marks at 5 ms
    of queue leaves it empty after each backoff, and how long depends on the CUBIC of the kernel (5.4 there): 3 %.
    """
    return OneFlow(BitRate(mbit * 10**6), Duration(rtt_ms * 10**6), published, _NEAR if rtt_ms == 5 else _FAR)


ONE_FLOW: tuple[OneFlow, ...] = (
    _one(20, 5, 19.126),
    _one(100, 5, 95.557),
    _one(500, 5, 477.081),
    _one(20, 20, 18.896),
    _one(100, 20, 94.063),
    _one(500, 20, 470.857),
    _one(20, 40, 18.288),
    _one(100, 40, 90.684),
    _one(500, 40, 449.360),
    _one(20, 80, 17.064),
    _one(100, 80, 86.500),
)
"""`end.sum_received` of iperf_c1_Cubic__RATE_RTT.json. 500 Mbit/s at 80 ms (292.840) is left out: the receive buffer of Linux 5.4
limits it (6 MiB, half of it window: 314 Mbit/s), and Linux has counted buffers differently since 6.6."""


@dataclass(frozen=True)
class Report:
    """A user's figure of a client, in MB/s of 10^6 bytes, and the conditions given with it."""

    name: str
    source: str
    what: str
    rtt: Duration
    rate: BitRate
    published_mb_s: float
    expected_mb_s: float
    """Written before the run, from the conditions alone."""
    band: float
    """Of `published_mb_s`."""


REPORTS: tuple[Report, ...] = (
    Report(
        "hpn-ssh-58",
        "rapier1/hpn-ssh#58 (December 2023)",
        "ssh HOST 'cat /dev/zero', OpenSSH at both ends, TCP windows that reach 100 MB; 11.8 MiB/s for minutes",
        Duration.parse("167 ms"),
        BitRate(10 * 10**9),
        11.8 * 1.048576,
        # A channel's window is 64 packets of 32 KiB, given back when less than 61 are left: 2 MiB per 167 ms at best.
        12.4,
        0.05,
    ),
    Report(
        "pkg-sftp-158-sftp",
        "pkg/sftp#158 (comment of May 2018)",
        "sftp HOST:1GB, netem 50 ms on the loopback: a round trip of 100 ms; about 18 MB/s",
        Duration.parse("100 ms"),
        BitRate(10 * 10**9),
        18.0,
        # 64 requests of 32 KiB in flight, and the channel's window of 2 MiB: 20.97 MB/s at best.
        20.0,
        0.25,
    ),
    Report(
        "pkg-sftp-158-rclone",
        "pkg/sftp#158 (February 2017)",
        "rclone copy of 1.4 GB to HOST, netem 100 ms on the loopback: a round trip of 200 ms; 9 MB/s",
        Duration.parse("200 ms"),
        BitRate(10 * 10**9),
        9.0,
        # 64 requests of 32 KiB in flight per 200 ms: 10.5 MB/s at best. Today's rclone has the same two numbers.
        10.0,
        0.25,
    ),
)

NOT_RUN: tuple[tuple[str, str], ...] = (
    (
        "pkg/sftp#158 at 1 and 10 ms",
        "100 and 73 MB/s are limited by the reporter's processor, and virtual time has no such limit",
    ),
    (
        "sshfs#300 (200 ms: 1 MB/s)",
        "sshfs needs FUSE, which the kernel of virtual time does not have",
    ),
    ("ESnet's table (scp 17.5 MB/s at 53 ms)", "neither scp's version nor buffers are stated, and disks are part of the figures"),
    ("curl#20030, curl#15267, quiche#231", "HTTP/3, which the lab does not serve yet"),
    ("curl#1102 (33 ms: 2.9 MB/s by HTTP/2)", "the rate of the line and the server's software are not stated"),
    ("curl#6903 (SFTP: 3 MiB/s)", "the report does not state the round trip"),
    ("SSH.NET#899, SSH.NET#866", ".NET, which the lab does not run"),
    ("hpn-ssh#58, the rows of HPN-SSH", "HPN-SSH is in no package registry that the lab uses"),
)

INTERCLOUD = "doitintl/intercloud-throughput@4046e3d, results_202202/results.csv"
INTERCLOUD_SHARE, INTERCLOUD_WITHIN = 0.90, 0.10
"""At least that share of the rows is to be within that distance of its prediction."""
