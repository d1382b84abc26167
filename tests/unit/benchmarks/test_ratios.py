"""The table of ratios: what it calls lost, and what it leaves open."""

from __future__ import annotations

import pytest

from benchmarks.claims import Estimate
from benchmarks.ratios import Figure, Measured, change, ratios_table


@pytest.mark.parametrize(
    ("ratio", "figure", "failed", "said"),
    [
        (Estimate(1.1, 1.02, 1.2, 7), "rate", 0, "gained"),
        (Estimate(1.1, 1.02, 1.2, 7), "CPU", 0, "LOST"),
        (Estimate(0.9, 0.8, 0.98, 7), "rate", 0, "LOST"),
        (Estimate(0.9, 0.8, 0.98, 7), "CPU", 0, "gained"),
        (Estimate(0.9, 0.8, 1.0, 7), "rate", 0, "no difference shown"),
        (Estimate(0.5, 0.5, 0.5, 4), "rate", 0, "n < 5 shows nothing"),
        (Estimate(1.1, 1.02, 1.2, 7), "rate", 2, "2 FAILED"),
        (None, "rate", 0, "no figure"),
    ],
)
def test_a_change_is_shown_only_by_all_of_its_interval(ratio: Estimate | None, figure: Figure, failed: int, said: str) -> None:
    assert change(ratio, figure, failed) == said


def measured(client: str, rate: float, cpu: float, job: str = "bulk, h2 get") -> Measured:
    return Measured(job, client, [rate] * 5, [cpu] * 5)


def test_every_job_has_its_rate_and_its_cpu_time() -> None:
    lines = ratios_table(
        [
            measured("curl", 50.0, 4.0),
            measured("ferry", 100.0, 1.0),
            measured("ferry-before", 125.0, 2.0),
            measured("curl", 1.0, 1.0, "what ferry did not do"),
        ],
        ["curl", "hyper"],
    ).splitlines()
    assert len(lines) == 3
    assert "0.80 (0.80 to 0.80)  LOST    0.50 (0.50 to 0.50)" in lines[1]
    assert "0.50 (0.50 to 0.50)  gained  4.00 (4.00 to 4.00)" in lines[2]
    assert all(line.endswith("-") for line in lines[1:])


def test_one_build_alone_is_compared_with_its_peers_only() -> None:
    line = ratios_table([measured("ferry", 2.0, 1.0), measured("hyper", 1.0, 1.0)], ["hyper"]).splitlines()[1]
    assert "LOST" not in line
    assert line.endswith("0.50 (0.50 to 0.50)")
    assert ratios_table([measured("curl", 1.0, 1.0)], ["curl"]) == "no job was done by ferry"
