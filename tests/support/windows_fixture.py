"""Makes tests/data/windows-fixture of a real run on Linux: the run itself, and what a run on Windows would look like.

    .venv/bin/python -m tests.support.windows_fixture RESULTS/RUN

No figure comes from Windows. The speeds are the Linux run's; CPU seconds are twice as many on a host of half the score.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
from pathlib import Path

from lab.model.results import CellResult, HostSnapshot
from lab.store.run_dir import RunDir, read_run
from lab.store.stored_run import read_run_folder

DATA = Path(__file__).resolve().parents[1] / "data" / "windows-fixture"
LINUX, WINDOWS = "linux-run", "windows-fixture-run"
CPU_FACTOR = 2.0
FACTS: dict[str, object] = {
    "fixture": "made by tests/support/windows_fixture.py of a run on Linux; not a measurement",
    "system": "Windows",
    "caption": "Microsoft Windows 11 Enterprise Evaluation",
    "version": "10.0.26100",
    "build": "26100.1742",
    "edition": "EnterpriseEval",
    "architecture": "AMD64",
    "nic": "Intel(R) 82574L Gigabit Network Connection",
    "nic_driver": "Intel 12.15.22.6",
    "nic_speed": "1 Gbps",
    "power_plan": "Balanced",
    "defender_on": True,
}
_LINUX_ONLY = ("sysctl.", "offload.", "routes", "qdiscs")


def as_on_windows(cell: CellResult) -> CellResult:
    """The cell as if its client ran on Windows: with other facts, another label and CPU times, but the same speeds."""
    client = cell.client.model_copy(
        update={"path": r"C:\roughwater\bin\ferry\ferry.exe", "sha256": "0" * 64, "notes": ["FIXTURE, not a measurement"]}
    )
    samples = [
        sample.model_copy(update={"cpu_user_s": sample.cpu_user_s * CPU_FACTOR, "cpu_system_s": sample.cpu_system_s * CPU_FACTOR})
        for sample in cell.samples
    ]
    return cell.model_copy(
        update={
            "run": WINDOWS,
            "client": client,
            "samples": samples,
            "before": _seen_on_windows(cell.before),
            "after": _seen_on_windows(cell.after),
        }
    )


def _seen_on_windows(snapshot: HostSnapshot) -> HostSnapshot:
    linux = snapshot.hosts["client"]
    kept = {name: value for name, value in linux.items() if not name.startswith(_LINUX_ONLY)}
    score = linux.get("cpu_score_MBps")
    scored = {"cpu_score_MBps": score / CPU_FACTOR} if isinstance(score, int | float) else {}
    return snapshot.model_copy(update={"hosts": {**snapshot.hosts, "client": {**kept, **FACTS, **scored}}})


def make(source: Path, target: Path = DATA) -> None:
    """Both runs, gzipped, from the finished run in `source`."""
    found, record = read_run_folder(source), read_run(source)
    for name, change in ((LINUX, lambda cell: cell.model_copy(update={"run": LINUX})), (WINDOWS, as_on_windows)):
        shutil.rmtree(target / name, ignore_errors=True)
        cells = [change(cell) for cell in found.cells]
        run = record.model_copy(update={"name": name, "findings": []})
        files = {"run.json": run.model_dump_json(indent=1), **{f"cells/{cell.id}.json": cell.model_dump_json() for cell in cells}}
        for path, text in files.items():
            packed = target / name / f"{path}.gz"
            packed.parent.mkdir(parents=True, exist_ok=True)
            packed.write_bytes(gzip.compress(text.encode(), mtime=0))


def unpack(target: Path) -> tuple[RunDir, RunDir]:
    """The run on Linux and the fixture of one on Windows, as folders below `target`."""
    for packed in DATA.glob("*/**/*.gz"):
        file = target / packed.relative_to(DATA).with_suffix("")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.decompress(packed.read_bytes()))
    return RunDir.open(target / LINUX), RunDir.open(target / WINDOWS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the folder of a finished run on Linux, with CPU scores")
    make(parser.parse_args().run)
