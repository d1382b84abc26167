"""The effect of the host's load on verdicts; pure. The rules:

1. A sample is set aside for what the host did during it (`why_disturbed`), never for what it shows, failed or not, and is taken
   again. So every judged sample was taken on a quiet host.
2. A cell sets aside at most as many samples as its plan's first look needs, and then stops. It is INVALID if it did not reach its
   first look; otherwise the plan decides on the samples that it has.
3. A FAIL needs a quiet host. If the host was disturbed while idle, before or after the samples, or if rule 2 ended the cell, a
   FAIL becomes INVALID. Each sample was quiet, but a load just below the limits, or a burst too short to show in the mean of a
   transfer, is likely near one above them. A red result that the client did not cause costs more than another run.
4. A PASS stands and says that the host was busy. Noise can make a client that is too fast look right, but the disturbed samples
   are set aside. Noise below the limits spreads the samples and so widens the interval that has to lie inside the band. It turns
   a PASS into INCONCLUSIVE, not the other way round.
5. CPU used by the lab and its client does not count as a disturbance. Late timers count only if there was CPU left to wake them,
   because a client that uses all cores makes its own timers late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.judge.tolerance import LookPlan, with_invalid
from lab.model.results import CellResult, HostLoad, HostQuality, SetAside, Verdict

_THE_HOST = "the host was busy: "


@dataclass(frozen=True)
class HostLimits:
    """The limits above which a host is disturbed.

    A quiet two-core machine (a virtual one, 20 samples, light and heavy): steal up to 0.4 % and once 1.3 %; foreign 0.02 to 0.06
    cores in samples of a second and more, to 0.13 in those of a third; lateness p99 0.2 to 0.6 ms where a client is limited to
    1 MB/s, 3 to 5 ms where the link fills the cores. With two CPU hogs next to them: foreign 1.65 to 1.96, lateness p99 1.4 to
    11.
    """

    steal_share: float = 0.02
    """Share of the machine's CPU time."""
    foreign_share: float = 0.125
    """Share of the cores: a quarter of one core of two."""
    late_p99_ms: float = 10.0
    """One slot of the counters: above it one reading in a hundred is missed."""
    busy_share: float = 0.9
    """Share of the cores that the lab and others use together: above it the load itself makes timers late."""
    counted_s: float = 0.04
    """CPU seconds by which the counters may be off: they count ticks of 10 ms, rounded down for every process."""

    def most_foreign_cores(self, load: HostLoad) -> float:
        """The cores that other processes may use during the span."""
        return self.foreign_share * load.cores + self.counted_s / load.span_s

    def most_steal_share(self, load: HostLoad) -> float:
        """The share of CPU time that the hypervisor may give to others."""
        return self.steal_share + self.counted_s / (load.cores * load.span_s)


def why_disturbed(load: HostLoad | None, limits: HostLimits) -> str | None:
    """The disturbance by the host, with its figure and the limit; None where the host was quiet or its load is unknown."""
    return f"{_THE_HOST}{what}" if (what := _what(load, limits)) else None


def host_quality(
    before: HostLoad | None, after: HostLoad | None, set_aside: Sequence[SetAside], limits: HostLimits, plan: LookPlan
) -> HostQuality:
    """The machine around the samples of a cell, and each way in which it was unfit to judge a client."""
    problems = [
        f"{when} the samples {what}" for when, load in (("before", before), ("after", after)) if (what := _what(load, limits))
    ]
    if len(set_aside) >= most_set_aside(plan):
        problems.append(set_aside_words(set_aside))
    return HostQuality(before=before, after=after, problems=problems)


def most_set_aside(plan: LookPlan) -> int:
    """The number of samples that a cell may set aside; with the last of them it stops."""
    return plan.looks[0]


def judge_on_host(
    verdict: Verdict | None,
    quality: HostQuality | None,
    *,
    set_aside: Sequence[SetAside] = (),
    enough: bool,
    problems: Sequence[str] = (),
) -> Verdict:
    """The verdict on this host, by the rules above. None stands for a cell that was never judged.

    `enough`: the plan's first look was reached. `problems` are the lab's other faults, which make any verdict INVALID.
    """
    noisy = quality.problems if quality else []
    undecided = verdict is None or (verdict.name == "INCONCLUSIVE" and not enough)
    spoils = bool(problems) or undecided or (verdict is not None and verdict.name == "FAIL")
    judged = with_invalid(verdict, [*problems, *([f"{_THE_HOST}{'; '.join(noisy)}"] if noisy and spoils else ())])
    words = [*noisy, *([set_aside_words(set_aside)] if set_aside else [])]
    found = [each for each in dict.fromkeys(words) if not (spoils and each in noisy)]
    return judged.model_copy(update={"host_notes": found}) if found else judged


def judge_together(verdict: Verdict | None, cells: Sequence[CellResult], plan: LookPlan, *, problems: Sequence[str]) -> Verdict:
    """The verdict on several interleaved cells, judged by `judge_on_host`: a disturbance of one of them counts for all."""
    quality = HostQuality(before=None, after=None, problems=host_problems(cells))
    return judge_on_host(
        verdict,
        quality,
        set_aside=[each for cell in cells for each in cell.set_aside],
        enough=min(len(cell.samples) for cell in cells) >= plan.looks[0],
        problems=problems,
    )


def host_problems(cells: Sequence[CellResult]) -> list[str]:
    """The problems of all cells, each once, because interleaved cells share the time before and after them."""
    return list(dict.fromkeys(problem for cell in cells if cell.host for problem in cell.host.problems))


def set_aside_words(set_aside: Sequence[SetAside]) -> str:
    """The number of transfers set aside, and the reason for the last one."""
    count = len(set_aside)
    what = set_aside[-1].reason.removeprefix(_THE_HOST)
    return f"a transfer was set aside: {what}" if count == 1 else f"{count} transfers were set aside, the last because {what}"


def _what(load: HostLoad | None, limits: HostLimits) -> str:
    if load is None:
        return ""
    return ", ".join(each for each in (_steal(load, limits), _foreign(load, limits), _late(load, limits)) if each)


def _steal(load: HostLoad, limits: HostLimits) -> str:
    most = limits.most_steal_share(load)
    if load.steal_share is None or load.steal_share <= most:
        return ""
    return f"its hypervisor gave {load.steal_share:.1%} of the CPU time to others (at most {most:.1%})"


def _foreign(load: HostLoad, limits: HostLimits) -> str:
    most = limits.most_foreign_cores(load)
    if load.foreign_cores is None or load.foreign_cores <= most:
        return ""
    return f"other processes took {load.foreign_cores:.2f} of {load.cores} cores (at most {most:.2f})"


def _late(load: HostLoad, limits: HostLimits) -> str:
    if load.late_p99_ms is None or load.late_p99_ms <= limits.late_p99_ms:
        return ""
    taken = (load.lab_cores or 0.0) + (load.foreign_cores or 0.0)
    if load.lab_cores is None or taken >= limits.busy_share * load.cores:
        return ""
    return (
        f"one timer in a hundred woke {load.late_p99_ms:.0f} ms late or more (at most {limits.late_p99_ms:.0f} ms) on idle cores"
    )
