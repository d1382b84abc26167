"""A real Chromium without a network, for pages as files. Where there is none the tests say so and are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.assets import tools
from lab.store.stored_run import StoredRun, read_run_folder
from reports.build import run_page
from tests.support.stored_runs import many_cells, unpack

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "report-screenshots"


@dataclass
class Opened:
    """A page with its errors and network requests, of which there must be none."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


# Not longer than a file's tests: while it is open its event loop belongs to their thread, where asyncio.run() then fails.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    program = tools.find("chromium")
    if program is None:
        pytest.skip(f"there is no Chromium here ({tools.remedy('chromium')})")
    with sync_playwright() as playwright:
        # Root has no sandbox in Chromium; the page is our own.
        browser = playwright.chromium.launch(executable_path=str(program), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens a file with the network off; closes it, and fails the test for any error or request that it made."""
    opened: list[tuple[Any, Opened]] = []

    def open_file(path: Path, *, width: int = 1280, height: int = 900, scheme: str = "light") -> Opened:
        context = browser.new_context(
            offline=True,
            color_scheme=scheme,  # type: ignore[arg-type]
            viewport={"width": width, "height": height},
        )
        found = Opened(context.new_page())
        opened.append((context, found))
        found.page.on("console", lambda said: found.errors.append(said.text) if said.type in ("error", "warning") else None)
        found.page.on("pageerror", lambda error: found.errors.append(str(error)))
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.goto(path.as_uri())
        return found

    yield open_file
    for context, found in opened:
        files = {request.partition("#")[0] for request in found.requests}
        context.close()
        assert found.errors == []
        assert len(files) == 1
        assert files.pop().startswith("file://")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoredRun]:
    """The stored runs by the word in their names, and `many`: 200 cells of ten samples."""
    folders = {run.name.split("-")[1]: run for run in unpack(tmp_path_factory.mktemp("stored"))}
    return {name: read_run_folder(path) for name, path in folders.items()} | {"many": many_cells(folders["throttle"])}


@pytest.fixture(scope="session")
def pages(runs: dict[str, StoredRun], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same as files."""
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name, run in runs.items():
        made[name] = folder / f"{name}.html"
        made[name].write_text(run_page(run), encoding="utf-8")
    return made


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """Where pictures are kept; the folder is printed, so that a person can look."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    print(f"\nscreenshots: {SCREENSHOTS}")
    return SCREENSHOTS
