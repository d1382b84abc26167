"""Numbers in pages: a unit, few digits, a dash where there is no value. Pure.

MB/s is 10^6 bytes per second, Mbit/s 10^6 bits. `tell` functions take a value in the lab's own unit (see `lab.model.results`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from lab.model import numbers
from lab.model.results import Sample, VerdictName, verdict_of_exit_code
from reports.answers import NOTHING

MEANING: Mapping[VerdictName, str] = {
    "PASS": "shown to keep what is expected of it",
    "FAIL": "shown not to keep what is expected of it",
    "INCONCLUSIVE": "the samples do not decide",
    "INVALID": "the lab or its host was at fault",
}


def headline(counts: Mapping[VerdictName, int], exit_code: int) -> str:
    """The run in one sentence, from its exit code."""
    total = sum(counts.values())
    if not total:
        return "No verdict: nothing was judged."
    name = verdict_of_exit_code(exit_code)
    share = f"{counts.get(name, 0)} of {total} verdicts"
    sentences: dict[VerdictName, str] = {
        "PASS": f"All {total} verdicts that count are PASS." if total > 1 else "The one verdict that counts is PASS.",
        "FAIL": f"{share}: a client was shown not to keep what is expected of it.",
        "INCONCLUSIVE": f"No FAIL, but {share} could not be decided.",
        "INVALID": f"No FAIL, but in {share} the lab or its host was at fault.",
    }
    return sentences[name]


def why_words(samples: Sequence[Sample]) -> str:
    """The cause that held most of the samples back, in the words of one, with their number; empty where none was watched."""
    found = [sample.why for sample in samples if sample.why]
    if not found:
        return ""
    (cause, times), *_ = Counter(each.cause for each in found).most_common(1)
    told = next(each.sentence for each in found if each.cause == cause)
    return told if len(found) == 1 else f"{told} ({times} of {len(found)} samples)"


def slug(text: str) -> str:
    """For an anchor: letters, digits, and `. _ @ -`; never empty."""
    return re.sub(r"[^A-Za-z0-9._@-]+", "-", text).strip("-")[:120] or "x"


def anchors(prefix: str, ids: Iterable[str]) -> dict[str, str]:
    """A unique anchor per id, also where two ids make the same slug."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for each in ids:
        base = anchor = f"{prefix}-{slug(each)}"
        number = 2
        while anchor in taken:
            anchor, number = f"{base}-{number}", number + 1
        taken.add(anchor)
        found[each] = anchor
    return found


def number(value: float | None, digits: int = 2, scale: float = 1.0, sign: bool = False) -> str:
    """`1.000`, or a dash where there is none; `scale` multiplies."""
    if value is None:
        return NOTHING
    return f"{value * scale:{'+z' if sign else 'z'}.{digits}f}"


def percent(value: float | None, digits: int | None = None) -> str:
    """A fraction as `+0.12 %`. Without `digits` a small fraction gets as many digits as it needs."""
    if value is None:
        return NOTHING
    return numbers.percent(value) if digits is None else f"{value * 100:+z.{digits}f} %"


def megabytes_s(value: float | None) -> str:
    return NOTHING if value is None else f"{value / 1e6:.3f} MB/s"


def moment(at: datetime | None) -> str:
    """`2026-11-22 01:40:08 UTC`."""
    return at.strftime("%Y-%m-%d %H:%M:%S UTC") if at else NOTHING


def span(seconds: float) -> str:
    """`4 min 36 s`, `12 s`, `0.8 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours} h" if hours else "", f"{minutes} min" if minutes else "", f"{rest} s" if rest and not hours else ""]
    return " ".join(part for part in parts if part) or "0 s"


def memory(value: float | None) -> str:
    """Bytes as `7.2 MB`, or from 1 GB on as `25.3 GB`."""
    if value is None:
        return NOTHING
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.1f} MB"


def words(value: object) -> str:
    """Any fact of a snapshot in one line."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {words(each)}" for key, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(words(each) for each in value) or NOTHING
    return str(value)
