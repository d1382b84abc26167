"""Reads traces: mahimahi's files, Pensieve's and CSV. A fault is one line that names the file and the line."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from lab.model.base import first_problem
from lab.model.errors import UsageProblem, did_you_mean
from lab.model.link import DirectionName, Link, LinkOverride
from lab.model.paths import traces_dirs
from lab.model.topology import Topology
from lab.model.trace import LONGEST_MS, MOST_FRAMES, Trace, TraceDirection, TraceRtt, packed
from lab.model.units import BitRate, Duration

_MS_NS, _S_NS = 10**6, 10**9
_HEADER_BYTES = 14  # Ethernet's, as tc counts a frame
_LARGEST_BYTES = 64 << 20
_EVERY = {"every_s": _S_NS, "every_ms": _MS_NS}
_NAMING = "e.g. `# columns: time_s=Timestamp, down_kbit_s=DL_bitrate, up_kbit_s=UL_bitrate`; every_s=1 in place of a time"
_TIMES = {"time_s": _S_NS, "time_ms": _MS_NS}
_RATES = {"bit_s": 1, "kbit_s": 1000, "mbit_s": 10**6}
_MOST_BIT_S = 10**10
_LONGEST_RTT_MS = 10_000
_EXPECTED = "time_s or time_ms; rate_mbit_s, or down_mbit_s and up_mbit_s (or kbit_s, bit_s); rtt_ms if there are any"
WAYS: tuple[DirectionName, ...] = ("down", "up")


class Row(NamedTuple):
    """The rates, and the round trip if there is one, from `at_ns` on."""

    at_ns: int
    down_bit_s: int
    up_bit_s: int
    rtt: Duration | None


class Series(NamedTuple):
    """Rates by time; the last row holds until `end_ns`."""

    rows: tuple[Row, ...]
    end_ns: int


def with_trace(topology: Topology, folder: Path) -> Topology:
    """The topology with its trace read; `folder` is its file's. A direction without a rate gets the trace's mean.

    Raises UsageProblem, one line.
    """
    if topology.schedule is None or topology.schedule.trace is None:
        return topology
    asked = topology.schedule.trace
    files: dict[DirectionName, str | TraceDirection] = (
        {"down": asked, "up": asked} if isinstance(asked, str) else {"down": asked.down, "up": asked.up}
    )
    found: dict[str, TraceDirection] = {}
    rtts: tuple[TraceRtt, ...] = () if isinstance(asked, str) else asked.rtts
    for way, file in files.items():
        if isinstance(file, TraceDirection):
            found[way] = file
            continue
        if topology.link.direction(way).rate is not None:
            raise UsageProblem(
                f"{topology.name}: the link has a rate ({way}), and its trace decides what passes", remedy="leave the rate out"
            )
        path = find_trace(file, folder)
        data = _bytes(path)
        frame_bits = (topology.link.direction(way).mtu + _HEADER_BYTES) * 8
        text = _text(data, path)
        if series := parse_rates(text, path, str(path)):
            counts = frames_of(
                [(row.at_ns, row.up_bit_s if way == "up" else row.down_bit_s) for row in series.rows], series.end_ns, frame_bits
            )
            rtts = _changes(series.rows) or rtts
        else:
            counts = parse_mahimahi(text, str(path))
        if not any(counts):
            raise UsageProblem(f"{path}: nothing passes in this trace ({way})")
        found[way] = TraceDirection(file=file, sha256=hashlib.sha256(data).hexdigest(), frames=packed(counts))
    trace = Trace(down=found["down"], up=found["up"], rtts=rtts)
    link = _with_rates(topology.link, trace)
    try:
        schedule = topology.schedule.model_copy(update={"trace": trace})
        return Topology.model_validate({**dict(topology), "link": link, "schedule": schedule})
    except ValueError as problem:
        raise UsageProblem(f"{topology.name}: {first_problem(problem)}") from None


def find_trace(file: str, folder: Path) -> Path:
    """The file of a trace: by its path from `folder`, else by its name in a folder of traces. Raises UsageProblem."""
    if (path := folder / file).is_file():
        return path
    known = {each.name: each for place in reversed(traces_dirs()) if place.is_dir() for each in place.iterdir() if each.is_file()}
    if file in known:
        return known[file]
    raise UsageProblem(
        f"no trace {file!r} in {folder} or in a folder of traces{did_you_mean(file, known)}",
        remedy="`lab traces` lists those that can be downloaded",
    )


def parse_mahimahi(text: str, origin: str) -> list[int]:
    """Frames per millisecond of a file with a line per opportunity to send one: its millisecond. Raises UsageProblem.

    The last line is where the trace begins again, as in mahimahi.
    """
    at: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not (word := line.strip()):
            continue
        if not (word.isascii() and word.isdigit()) or len(word) > len(str(LONGEST_MS)) or int(word) > LONGEST_MS:
            raise UsageProblem(f"{origin}:{number}: {_quoted(word)} is not a time in milliseconds of at most {LONGEST_MS}")
        if at and int(word) < at[-1]:
            raise UsageProblem(f"{origin}:{number}: {word} is before {at[-1]}, the line above")
        at.append(int(word))
    if not at or at[-1] == 0:
        raise UsageProblem(f"{origin}: a trace needs lines with milliseconds, the last of them above 0")
    counts = [0] * at[-1]
    for each in at:
        counts[each % at[-1]] += 1
    if max(counts) > MOST_FRAMES:
        raise UsageProblem(f"{origin}: {max(counts)} packets in a millisecond are too many (at most {MOST_FRAMES})")
    return counts


def parse_rates(text: str, path: Path, origin: str) -> Series | None:
    """A CSV file's series or Pensieve's; None for a file of mahimahi, which has packets. Raises UsageProblem."""
    if path.suffix == ".csv":
        return parse_csv(text, origin)
    return parse_pensieve(text, origin) if is_pensieve(text) else None


def is_pensieve(text: str) -> bool:
    """True if the first line has two columns; mahimahi's files have one."""
    return len(next((line for line in text.splitlines() if line.strip()), "").split()) == 2


def parse_pensieve(text: str, origin: str) -> Series:
    """Lines of a time in seconds and the rate in Mbit/s since the line above, as Pensieve has them and those who came after it.

    The first line only says when the trace begins. Raises UsageProblem.
    """
    rows: list[Row] = []
    before: Fraction | None = None
    begun = Fraction(0)
    for number, line in enumerate(text.splitlines(), 1):
        if not (words := line.split()):
            continue
        place = f"{origin}:{number}"
        if len(words) != 2:
            raise UsageProblem(f"{place}: {len(words)} columns; seconds and Mbit/s are two")
        at, mbit_s = (_number(word, place) for word in words)
        if mbit_s * _RATES["mbit_s"] > _MOST_BIT_S:
            raise UsageProblem(f"{place}: a rate above {BitRate(_MOST_BIT_S)}")
        if at * 1000 > 10 * LONGEST_MS:
            raise UsageProblem(f"{place}: its time is too late", remedy="let the times begin at 0")
        if before is None:
            begun = at
        elif at <= before:
            raise UsageProblem(f"{place}: its time is not after that of the row above")
        else:
            bit_s = round(mbit_s * _RATES["mbit_s"])
            rows.append(Row(round((before - begun) * _S_NS), bit_s, bit_s, None))
        before = at
    if before is None or not rows:
        raise UsageProblem(f"{origin}: a trace needs two rows")
    return Series(tuple(rows), _checked_end(round((before - begun) * _S_NS), origin))


def parse_csv(text: str, origin: str) -> Series:
    """A table with a header, a row per change. Lines that begin with # are comments; `# columns: ...` names the columns.

    Raises UsageProblem.
    """
    named = _named(text, origin)
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]
    if not lines:
        raise UsageProblem(f"{origin}: an empty trace", remedy=f"columns: {_EXPECTED}")
    names = [name.strip() for name in _cells(lines[0][1], f"{origin}:{lines[0][0]}")]
    columns = _columns(_renamed(names, named, f"{origin}:{lines[0][0]}"), f"{origin}:{lines[0][0]}", timed=named.every_ns > 0)
    rows: list[Row] = []
    for number, line in lines[1:]:
        place = f"{origin}:{number}"
        cells = _cells(line, place)
        if len(cells) != len(names):
            raise UsageProblem(f"{place}: {len(cells)} columns, and the header has {len(names)}")
        row = _row(cells, columns, place, len(rows) * named.every_ns)
        if rows and row.at_ns <= rows[-1].at_ns:
            raise UsageProblem(f"{place}: its time is not after that of the row above")
        rows.append(row)
    if len(rows) < 2:
        raise UsageProblem(f"{origin}: a trace needs two rows; the last lasts as long as the one before")
    rows = [row._replace(at_ns=row.at_ns - rows[0].at_ns) for row in rows]
    return Series(tuple(rows), _checked_end(2 * rows[-1].at_ns - rows[-2].at_ns, origin))


def _checked_end(end_ns: int, origin: str) -> int:
    if not _MS_NS <= end_ns <= LONGEST_MS * _MS_NS:
        raise UsageProblem(f"{origin}: it lasts {end_ns / 1e9:g} s, and a trace 1 ms to {LONGEST_MS / 1000:g} s")
    return end_ns


def frames_of(rates: Sequence[tuple[int, int]], end_ns: int, frame_bits: int) -> list[int]:
    """Frames per millisecond of a series of (from that time on, bit/s).

    By the end of every millisecond as many have passed as the series carries until then, rounded down: so every span of
    milliseconds is right to a frame.
    """
    per_frame = frame_bits * _S_NS
    spans = [(later[0] - earlier[0], earlier[1]) for earlier, later in pairwise([*rates, (end_ns, 0)])]
    counts: list[int] = []
    carried = passed = now = 0
    for length, bit_s in spans:
        end = now + length
        while (edge := (len(counts) + 1) * _MS_NS) <= end:
            carried += bit_s * (edge - now)
            now = edge
            counts.append(carried // per_frame - passed)
            passed += counts[-1]
        carried += bit_s * (end - now)
        now = end
    return counts


def _changes(rows: Sequence[Row]) -> tuple[TraceRtt, ...]:
    """The round trips, where they differ from those before."""
    found: list[TraceRtt] = []
    for row in rows:
        if row.rtt is not None and (not found or row.rtt != found[-1].rtt):
            found.append(TraceRtt(at=Duration(row.at_ns), rtt=row.rtt))
    return tuple(found)


class Named(NamedTuple):
    """The columns of a file that is not the lab's own: by the lab's name, the file's. `every_ns`: each row lasts that long."""

    columns: Mapping[str, str]
    every_ns: int = 0


def _named(text: str, origin: str) -> Named:
    """The columns that the line `# columns: down_kbit_s=DL_bitrate, ...` names. Raises UsageProblem."""
    for number, line in enumerate(text.splitlines(), 1):
        if not (said := re.fullmatch(r"#\s*columns:(.*)", line.strip())):
            continue
        place, every_ns, columns = f"{origin}:{number}", 0, dict[str, str]()
        for part in said[1].split(","):
            ours, equals, theirs = (each.strip() for each in part.partition("="))
            if not equals or not theirs or ours in columns:
                raise UsageProblem(f"{place}: {_quoted(part.strip())} names no column", remedy=_NAMING)
            if ours in _EVERY:
                every_ns = round(_number(theirs, place) * _EVERY[ours])
            else:
                columns[ours] = theirs
        return Named(columns, every_ns)
    return Named({})


def _renamed(names: Sequence[str], named: Named, place: str) -> list[str | None]:
    """The header in the lab's names; None for a column that the file does not name as one of the trace's."""
    if not named.columns:
        return list(names)
    for theirs in named.columns.values():
        if theirs not in names:
            raise UsageProblem(f"{place}: no column {_quoted(theirs)}{did_you_mean(theirs, names)}", remedy=_NAMING)
    ours = {theirs: name for name, theirs in named.columns.items()}
    return [ours.get(name) for name in names]


def _columns(names: Sequence[str | None], place: str, *, timed: bool = False) -> dict[str, tuple[int, Fraction]]:
    """The index and the unit of each quantity's column. A `timed` file has no column with the time."""
    found: dict[str, tuple[int, Fraction]] = {}
    for index, name in enumerate(names):
        if name is None:
            continue
        what, _, unit = name.partition("_")
        if name in _TIMES:
            key, factor = "time", _TIMES[name]
        elif what in ("rate", "down", "up") and unit in _RATES:
            key, factor = what, _RATES[unit]
        elif name == "rtt_ms":
            key, factor = "rtt", _MS_NS
        else:
            raise UsageProblem(f"{place}: {_quoted(name)} is not a column of a trace", remedy=_EXPECTED)
        if key in found:
            raise UsageProblem(f"{place}: two columns of {key}", remedy=_EXPECTED)
        found[key] = (index, Fraction(factor))
    given = frozenset(found) - {"time", "rtt"}
    if ("time" in found) == timed or given not in ({"rate"}, {"down", "up"}):
        raise UsageProblem(f"{place}: columns are missing, or too many", remedy=_EXPECTED)
    return found


def _row(cells: Sequence[str], columns: dict[str, tuple[int, Fraction]], place: str, at_ns: int) -> Row:
    """A row's values; `at_ns` is its time where no column has it."""
    values = {"time": at_ns} | {key: round(_number(cells[index], place) * factor) for key, (index, factor) in columns.items()}
    down, up = (values.get(way, values.get("rate", 0)) for way in WAYS)
    if max(down, up) > _MOST_BIT_S:
        raise UsageProblem(f"{place}: a rate above {BitRate(_MOST_BIT_S)}")
    if values["time"] > 10 * LONGEST_MS * _MS_NS:
        raise UsageProblem(f"{place}: its time is too late", remedy="let the times begin at 0")
    if values.get("rtt", 0) > _LONGEST_RTT_MS * _MS_NS:
        raise UsageProblem(f"{place}: a round trip above {_LONGEST_RTT_MS} ms")
    return Row(values["time"], down, up, Duration(values["rtt"]) if "rtt" in values else None)


def _number(cell: str, place: str) -> Fraction:
    word = cell.strip()
    try:
        # Fraction reads 1/3 and 1e9999 too, which no recorder writes.
        if not word or len(word) > 40 or set(word) - set("0123456789.eE+-"):
            raise ValueError(word)
        found = Fraction(float(word)).limit_denominator(10**9)
    except (ValueError, OverflowError):
        raise UsageProblem(f"{place}: {_quoted(word)} is not a number") from None
    if found < 0:
        raise UsageProblem(f"{place}: {word} is negative")
    return found


def _cells(line: str, place: str) -> list[str]:
    try:
        return next(iter(csv.reader([line], strict=True)))
    except (csv.Error, StopIteration) as problem:
        raise UsageProblem(f"{place}: this is not CSV: {problem}") from None


def _with_rates(link: Link, trace: Trace) -> Link:
    """A direction without a rate gets the trace's mean, which its calibration takes."""
    sides: dict[str, LinkOverride] = {}
    for way in WAYS:
        direction = link.direction(way)
        if direction.rate is None:
            mean = round(trace.direction(way).per_second() * (direction.mtu + _HEADER_BYTES) * 8)
            sides[way] = LinkOverride.model_validate(
                {**dict(getattr(link, way) or LinkOverride()), "rate": BitRate(max(1000, round(mean, -3)))}
            )
    return Link.model_validate({**dict(link), **sides})


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise UsageProblem(f"trace {path} is too large (at most {_LARGEST_BYTES >> 20} MiB)")
        return path.read_bytes()
    except OSError as error:
        raise UsageProblem(f"trace {path} cannot be read: {error.strerror}") from None


def _text(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageProblem(f"trace {path} cannot be read: it is not UTF-8 text") from None


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")
