"""The size of the page for 200 cells with 10 samples, and the time that Chromium needs to show it.

`python -m benchmarks.report [RUNS]`: opens the page RUNS times (10) in a fresh context without a network. It prints the time from
the start of the navigation to the load event and to the first paint after it, by the browser's clock, and the time by Python's.
Needs an idle machine. Not part of CI.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from lab.assets import tools
from reports.build import run_page
from tests.support.stored_runs import many_cells, unpack

_PAINTED = """() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => {
  const [entry] = performance.getEntriesByType('navigation');
  done([entry.loadEventEnd / 1e3, performance.now() / 1e3]);
})))"""


def main() -> None:
    from playwright.sync_api import sync_playwright

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    program = tools.require("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        run = many_cells(unpack(Path(folder))[0])
        started = time.perf_counter()
        page = Path(folder) / "report.html"
        page.write_text(run_page(run), encoding="utf-8")
        made_s = time.perf_counter() - started
        browser = playwright.chromium.launch(executable_path=str(program), args=["--no-sandbox"])
        loads, paints = [], []
        for _ in range(count):
            context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
            tab = context.new_page()
            tab.goto(page.as_uri())
            loaded_s, painted_s = tab.evaluate(_PAINTED)
            loads.append(loaded_s)
            paints.append(painted_s)
            context.close()
        browser.close()
        print(
            f"{len(run.cells)} cells of {len(run.cells[0].samples)} samples: {page.stat().st_size} bytes, made in {made_s:.2f} s"
        )
        for name, found in (("load event", loads), ("first paint after it", paints)):
            print(f"{name}: median {median(found):.3f} s, worst {max(found):.3f} s of {count}")


if __name__ == "__main__":
    main()
