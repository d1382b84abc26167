"""Runs in the formats of other tools; derived from the cells and disposable.

hyperfine: its `--export-json` (`results[].times` in seconds, `parameters`). Times are from process start to end. benchfmt:
golang.org/design/14313-benchmark-format with the units and `key=value` names that benchstat knows, one line per transfer.
otava: a CSV with a row per run and a column per cell and figure, as Apache Otava's importer takes it (`time_column: time`).
openmetrics: OpenMetrics 1.0 text, gauges with the time their cell ended, and `roughwater_run_complete`, which is 0 for a run that
did not come to its end.

Every format has only successful transfers, and no cell that is INVALID, because there the lab was at fault. Each names the clock
of a cell. Figures that mean nothing on that clock are left out.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

from lab.judge.matching import os_of, short_version
from lab.model.cell_name import format_transfer
from lab.model.figures import FIGURES, Figure
from lab.model.results import CellResult, Sample
from lab.store.stored_run import StoredRun

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}
_METRIC_UNITS = {
    "B/s": "bytes_per_second",
    "B": "bytes",
    "s": "seconds",
    "ms": "milliseconds",
    "CPU s/GB": "cpu_seconds_per_gigabyte",
    "1": "",
}


def export_runs(form: str, runs: Sequence[StoredRun]) -> str:
    """The runs as one text. `form` is a key of `FORMATS`."""
    return FORMATS[form](runs)


def hyperfine(runs: Sequence[StoredRun]) -> str:
    """One result per cell whose times mean something on its clock."""
    results = [_hyperfine_result(run, cell) for run, cell in _cells(runs) if FIGURES["wall"].applies(cell)]
    return json.dumps({"results": results}, indent=2) + "\n"


def benchfmt(runs: Sequence[StoredRun]) -> str:
    """Configuration lines where they change, then a line per transfer."""
    better = {name: "higher" if figure.more_is_better else "lower" for name, figure in FIGURES.items() if figure.target is None}
    lines = [f"Unit {_go_unit(FIGURES[name])} better={way}" for name, way in better.items()]
    written: dict[str, str] = {}
    for run, cell in _cells(runs):
        for key, value in _configuration(run, cell).items():
            if written.get(key) != value:
                written[key] = value
                lines.append(f"{key}: {value}")
        lines += [f"{_benchmark(cell)} 1 {pairs}" for sample in _successful(cell) if (pairs := _pairs(cell, sample))]
    return "\n".join(lines) + "\n"


def otava(runs: Sequence[StoredRun]) -> str:
    """A row per run in the order of time; a field is empty where the run has no such cell."""
    by_run: dict[str, list[CellResult]] = {}
    for run, cell in _cells(runs):
        by_run.setdefault(run, []).append(cell)
    rows: list[dict[str, str]] = []
    columns: set[str] = set()
    for run, cells in sorted(by_run.items(), key=lambda item: item[1][0].started_at):
        values = {
            f"{_series(cell)}.{name}": repr(value)
            for cell in cells
            for name, figure in FIGURES.items()
            if (value := figure.summarise(cell)) is not None
        }
        columns |= values.keys()
        head = {"time": cells[0].started_at.isoformat(), "run": run, "commit": _fact(cells[0], "git_revision")}
        rows.append({**head, "lab_version": cells[0].lab_version, **values})
    out = io.StringIO()
    writer = csv.DictWriter(out, ["time", "run", "commit", "lab_version", *sorted(columns)], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def openmetrics(runs: Sequence[StoredRun]) -> str:
    """A family per figure that a cell has, one sample per run and cell, and a family for which runs are complete."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.openmetrics.exposition import generate_latest
    from prometheus_client.registry import Collector

    families = [family for figure in FIGURES.values() if (family := _family(figure, [*_cells(runs)])).samples]
    families.append(_complete(runs))

    class Cells(Collector):
        def collect(self) -> list[Metric]:
            return families

    registry = CollectorRegistry()
    registry.register(Cells())
    text: bytes = generate_latest(registry)
    return text.decode()


def _family(figure: Figure, cells: Sequence[tuple[str, CellResult]]) -> Metric:
    from prometheus_client.metrics_core import Metric

    unit = _METRIC_UNITS.get(figure.unit.base, re.sub(r"\W+", "_", figure.unit.base.lower()))
    name = f"roughwater_{figure.name}{f'_{unit}' if unit else ''}"
    family = Metric(name, f"{figure.title}: {figure.summary} of the successful transfers", "gauge", unit)
    for run, cell in cells:
        if (value := figure.summarise(cell)) is not None:
            family.add_sample(name, _labels(run, cell), value, timestamp=cell.ended_at.timestamp())
    return family


def _complete(runs: Sequence[StoredRun]) -> Metric:
    """1 for a run with everything that was asked for; else 0, and how the run ended."""
    from prometheus_client.metrics_core import Metric

    name = "roughwater_run_complete"
    family = Metric(name, "1: the run came to its end with everything that was asked for; 0: it did not", "gauge")
    for run in runs:
        record = run.record
        at = record.ended_at if record else max((cell.ended_at for cell in run.cells), default=None)
        labels = {"run": run.path.name, "ended": (record.ended if record else None) or ""}
        family.add_sample(name, labels, float(run.whole), timestamp=at.timestamp() if at else None)
    return family


FORMATS: Mapping[str, Callable[[Sequence[StoredRun]], str]] = {
    "hyperfine": hyperfine,
    "benchfmt": benchfmt,
    "otava": otava,
    "openmetrics": openmetrics,
}


def _cells(runs: Sequence[StoredRun]) -> Iterator[tuple[str, CellResult]]:
    for run in runs:
        for cell in run.cells:
            if cell.verdict.name != "INVALID" and _successful(cell):
                yield run.path.name, cell


def _series(cell: CellResult) -> str:
    """The name of the cell's series. Each clock has a series, because values by different clocks are not comparable."""
    return cell.id if cell.clock == "real" else f"{cell.id}.virtual"


def _successful(cell: CellResult) -> list[Sample]:
    return [sample for sample in cell.samples if sample.ok]


def _hyperfine_result(run: str, cell: CellResult) -> dict[str, object]:
    samples = _successful(cell)
    times = [sample.wall_s for sample in samples]
    return {
        "command": cell.id,
        "mean": fmean(times),
        "stddev": stdev(times) if len(times) > 1 else None,
        "median": median(times),
        "user": fmean(sample.cpu_user_s for sample in samples) if FIGURES["processor"].applies(cell) else None,
        "system": fmean(sample.cpu_system_s for sample in samples) if FIGURES["processor"].applies(cell) else None,
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
        "pkg": "roughwater",
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
    known = ((figure.value(cell, sample), _go_unit(figure)) for figure in FIGURES.values())
    return " ".join(f"{value!r} {unit}" for value, unit in known if value is not None)


def _go_unit(figure: Figure) -> str:
    """Without spaces, which end a unit."""
    base = "" if figure.unit.base == "1" else f"-{figure.unit.base.replace(' ', '-')}"
    return figure.benchmark_unit or f"{figure.name}{base}"


def _fact(cell: CellResult, key: str) -> str:
    value = cell.before.machine.get(key)
    return "" if value is None else str(value)
