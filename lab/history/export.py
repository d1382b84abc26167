"""Runs in the formats of other tools; derived from the cells, disposable.

hyperfine: its `--export-json` (`results[].times` in seconds, `parameters`), so what reads that draws cells too; times are whole
transfers, process start to end. benchfmt: golang.org/design/14313-benchmark-format with the units and `key=value` names that
benchstat knows, one line per transfer. otava: a CSV with a row per run and two columns per cell, as Apache Otava's importer
takes it (`time_column: time`). openmetrics: OpenMetrics 1.0 text, gauges with the time their cell ended.

Only transfers that arrived whole are in any of them, and no cell that is INVALID: there the lab was at fault. Each says
which clock a cell ran by; what means nothing in virtual time is left out (`lab.result.meaning`).
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median, stdev

from lab.judge.cost import cost_of, cpu_costs
from lab.judge.matching import os_of, short_version
from lab.result.meaning import cpu_is_real, rate_is_real
from lab.result.models import CellResult, Sample
from lab.result.salvage import Salvaged
from lab.spec.cell import format_transfer

_GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}


def export_runs(form: str, runs: Sequence[Salvaged]) -> str:
    """The runs as one text. `form` is a key of `FORMATS`."""
    return FORMATS[form](runs)


def hyperfine(runs: Sequence[Salvaged]) -> str:
    """One result per cell whose times mean something on its clock."""
    results = [_hyperfine_result(run, cell) for run, cell in _cells(runs) if rate_is_real(cell)]
    return json.dumps({"results": results}, indent=2) + "\n"


def benchfmt(runs: Sequence[Salvaged]) -> str:
    """Configuration lines where they change, then a line per transfer."""
    lines = [
        "Unit B/s better=higher",
        "Unit sec/op better=lower",
        "Unit cpu-sec/GB better=lower",
        "Unit peak-RSS-bytes better=lower",
    ]
    told: dict[str, str] = {}
    for run, cell in _cells(runs):
        for key, value in _configuration(run, cell).items():
            if told.get(key) != value:
                told[key] = value
                lines.append(f"{key}: {value}")
        lines += [f"{_benchmark(cell)} 1 {pairs}" for sample in _whole(cell) if (pairs := _pairs(cell, sample))]
    return "\n".join(lines) + "\n"


def otava(runs: Sequence[Salvaged]) -> str:
    """A row per run in the order of time; an empty field where a run has no such cell."""
    by_run: dict[str, list[CellResult]] = {}
    for run, cell in _cells(runs):
        by_run.setdefault(run, []).append(cell)
    names = sorted({_series(cell) for cells in by_run.values() for cell in cells})
    figures: tuple[tuple[str, Callable[[CellResult], float | None]], ...] = (
        ("byte_s", _rate),
        ("cpu_s_per_gb", cost_of),
    )
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["time", "run", "commit", "lab_version", *(f"{name}.{figure}" for name in names for figure, _ in figures)])
    for run, cells in sorted(by_run.items(), key=lambda item: item[1][0].started_at):
        found = {_series(cell): cell for cell in cells}
        values = [figure(found[name]) if name in found else None for name in names for _, figure in figures]
        head = [cells[0].started_at.isoformat(), run, _fact(cells[0], "git_revision"), cells[0].lab_version]
        writer.writerow([*head, *("" if value is None else repr(value) for value in values)])
    return out.getvalue()


def openmetrics(runs: Sequence[Salvaged]) -> str:
    """A family per figure, one sample per run and cell."""
    lines: list[str] = []
    found = list(_cells(runs))
    for name, unit, words, figure in _FAMILIES:
        lines += [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else []), f"# HELP {name} {words}"]
        for run, cell in found:
            if (value := figure(cell)) is not None:
                labels = ",".join(f'{key}="{_escaped(text)}"' for key, text in _labels(run, cell).items())
                lines.append(f"{name}{{{labels}}} {value!r} {cell.ended_at.timestamp():.3f}")
    return "\n".join([*lines, "# EOF"]) + "\n"


FORMATS: Mapping[str, Callable[[Sequence[Salvaged]], str]] = {
    "hyperfine": hyperfine,
    "benchfmt": benchfmt,
    "otava": otava,
    "openmetrics": openmetrics,
}


def _cells(runs: Sequence[Salvaged]) -> Iterator[tuple[str, CellResult]]:
    for run in runs:
        for cell in run.cells:
            if cell.verdict.name != "INVALID" and _whole(cell):
                yield run.path.name, cell


def _series(cell: CellResult) -> str:
    """Values of two clocks are two series."""
    return cell.id if cell.clock == "real" else f"{cell.id}.virtual"


def _whole(cell: CellResult) -> list[Sample]:
    return [sample for sample in cell.samples if sample.ok]


def _rate(cell: CellResult) -> float | None:
    rates = [sample.body_byte_s for sample in _whole(cell) if sample.body_byte_s and rate_is_real(cell)]
    return math.exp(fmean(map(math.log, rates))) if rates else None


def _hyperfine_result(run: str, cell: CellResult) -> dict[str, object]:
    samples = _whole(cell)
    times = [sample.wall_s for sample in samples]
    return {
        "command": cell.id,
        "mean": fmean(times),
        "stddev": stdev(times) if len(times) > 1 else None,
        "median": median(times),
        "user": fmean(sample.cpu_user_s for sample in samples) if cpu_is_real(cell) else None,
        "system": fmean(sample.cpu_system_s for sample in samples) if cpu_is_real(cell) else None,
        "min": min(times),
        "max": max(times),
        "times": times,
        "memory_usage_byte": [sample.max_rss_bytes or 0 for sample in samples],
        "exit_codes": [sample.exit_code for sample in samples],
        "parameters": _labels(run, cell),
    }


def _labels(run: str, cell: CellResult) -> dict[str, str]:
    return {
        "run": run,
        "cell": cell.id,
        "client": cell.client.name,
        "version": short_version(cell),
        "topology": cell.topology.name,
        "transfer": format_transfer(cell.transfer),
        "verdict": cell.verdict.name,
        "clock": cell.clock,
    }


def _configuration(run: str, cell: CellResult) -> dict[str, str]:
    machine = _fact(cell, "machine")
    known = {
        "goos": os_of(cell).lower(),
        "goarch": _GOARCH.get(machine, machine),
        "cpu": _fact(cell, "cpu_model"),
        "pkg": "throughline",
        "commit": _fact(cell, "git_revision"),
        "run": run,
        "client-version": short_version(cell),
        "kernel": _fact(cell, "kernel"),
        "backend": cell.backend,
        "clock": cell.clock,
    }
    return {key: " ".join(value.split()) for key, value in known.items() if value}


def _benchmark(cell: CellResult) -> str:
    parts = {"client": cell.client.name, "topology": cell.topology.name, "transfer": format_transfer(cell.transfer)}
    if cell.expectation.named:
        parts["kind"] = cell.expectation.named
    return "BenchmarkTransfer/" + "/".join(f"{key}={value}" for key, value in parts.items())


def _pairs(cell: CellResult, sample: Sample) -> str:
    cost = cpu_costs([sample]) if cpu_is_real(cell) else []
    timed = rate_is_real(cell)
    known: dict[str, float | None] = {
        "sec/op": sample.wall_s if timed else None,
        "B/s": sample.body_byte_s if timed else None,
        "cpu-sec/GB": cost[0] if cost else None,
        "peak-RSS-bytes": sample.max_rss_bytes,
    }
    return " ".join(f"{value!r} {unit}" for unit, value in known.items() if value is not None)


def _fact(cell: CellResult, key: str) -> str:
    value = cell.before.machine.get(key)
    return "" if value is None else str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _mean_seconds(cell: CellResult) -> float | None:
    return fmean(sample.wall_s for sample in _whole(cell)) if rate_is_real(cell) else None


def _most_memory(cell: CellResult) -> float | None:
    sizes = [sample.max_rss_bytes for sample in _whole(cell) if sample.max_rss_bytes is not None]
    return float(max(sizes)) if sizes else None


_FAMILIES: tuple[tuple[str, str, str, Callable[[CellResult], float | None]], ...] = (
    ("throughline_goodput_bytes_per_second", "", "Geometric mean of the body rates of whole transfers.", _rate),
    ("throughline_transfer_seconds", "seconds", "Mean time of a whole transfer, process start to end.", _mean_seconds),
    ("throughline_cpu_seconds_per_gigabyte", "", "Client CPU seconds per 10^9 bytes.", cost_of),
    ("throughline_memory_bytes", "bytes", "Largest resident set of a transfer.", _most_memory),
)
