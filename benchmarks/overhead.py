"""What a verdict costs beyond the transfers: wall time of a suite over the sum of its transfer times, and where the rest goes.

python -m benchmarks.overhead [SUITE [OPTION OF lab run...]]
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter

from benchmarks.common import keep
from lab.model.paths import results_dir
from lab.store.run_dir import read_cell


def main() -> None:
    suite, *more = sys.argv[1:] or ["throttle"]
    before = set(results_dir().glob("*/run.json"))
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "lab.cli.main", "run", suite, *more], check=False)
    wall_s = time.monotonic() - started
    new = set(results_dir().glob("*/run.json")) - before
    if len(new) != 1:
        sys.exit("the suite left no result")
    cells = [read_cell(path) for path in sorted(new.pop().parent.glob("cells/*.json"))]
    transfers_s = sum(sample.wall_s for cell in cells for sample in cell.samples)
    where: Counter[str] = Counter()
    for cell in cells:
        where.update(cell.timing_s)
    where["around the transfers"] = where.pop("transfer", 0.0) - transfers_s
    where["start and reports"] = wall_s - transfers_s - sum(where.values())
    print(f"{suite}: wall {wall_s:.1f} s, transfers {transfers_s:.1f} s, ratio {wall_s / transfers_s:.3f}")
    for what, seconds in where.most_common():
        print(f"  {what:22} {seconds:7.2f} s")
    print(f"raw samples: {keep('overhead', {'wall_s': wall_s, 'transfers_s': transfers_s, 'where_s': dict(where)})}")


if __name__ == "__main__":
    main()
