"""Pages opened from disk in a browser with the network off: they draw, filter, zoom, print and are readable."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.store.stored_run import StoredRun
from reports.build import compare_page, run_page, trend_page
from tests.report.conftest import Open
from tests.unit.reports.conftest import cell, hostile, make_cell_fixture, record
from tests.unit.reports.test_page import make_comparison, make_trend
from tests.unit.store.conftest import MakeCell

Runs = dict[str, StoredRun]

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

__all__ = ["cell", "hostile", "make_cell_fixture", "record"]

# How many pixels of a canvas are not as transparent as it began.
DRAWN = """(canvas) => { const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let drawn = 0; for (let at = 3; at < data.length; at += 4) drawn += data[at] > 0; return drawn; }"""
SCALE = "(figure) => { const { min, max } = figure.chart.scales.x; return [min, max]; }"
WIDTH = "document.documentElement.scrollWidth"


def unfold(cell: Locator) -> Locator:
    """Open a cell as a reader does; its chart is there then."""
    if not cell.evaluate("(cell) => cell.open"):
        cell.locator("summary").first.click()
    figure = cell.locator(".goodput")
    figure.locator("canvas").wait_for(state="visible")
    return figure


def violations(page: Page, *, rules: list[str] | None = None) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    options: dict[str, Any] = {"runOnly": {"type": "rule", "values": rules}} if rules else {}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{each['id']}: {node['target']} {node['failureSummary']}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("name", ["throttle", "qualify"])
def test_the_matrix_and_every_plot_are_there(open_page: Open, pages: dict[str, Path], runs: Runs, name: str) -> None:
    page = open_page(pages[name]).page
    cells = runs[name].cells
    assert page.locator("#grid td > a").count() == len(cells)
    assert page.locator("#grid td .w").count() == len(cells)
    for at in range(len(cells)):
        cell = page.locator("details.cell").nth(at)
        figure = unfold(cell)
        assert figure.locator("canvas").evaluate(DRAWN) > 2000
        dots = cell.locator("svg.p .dots").first
        assert dots.evaluate("(path) => path.getTotalLength() >= 0 && path.getBBox().height > 20")
        assert cell.locator("svg.p .iv").count() == 1
        assert cell.locator(".tools button[aria-pressed]").count() > len(cells[0].samples)


def test_a_click_in_the_matrix_opens_the_cell(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["throttle"]).page
    link = page.locator("#grid td > a").last
    target = page.locator(f"[id='{(link.get_attribute('href') or '')[1:]}']")
    link.click()
    target.locator(".reason").wait_for(state="visible")
    # The page gives it the focus after it has opened.
    page.wait_for_function("document.activeElement.tagName === 'SUMMARY'")
    target.locator("summary").first.click()
    assert not target.evaluate("(cell) => cell.open")
    link.click()  # the same address again
    target.locator(".reason").wait_for(state="visible")


def test_the_filter_hides_what_does_not_fit(open_page: Open, pages: dict[str, Path], runs: Runs) -> None:
    page = open_page(pages["many"]).page
    cells = runs["many"].cells
    shown = page.locator("details.cell:visible")
    assert shown.count() == 200

    def expect(count: int) -> None:
        assert page.locator("#shown").inner_text() == f"{count} of 200 cells"
        assert shown.count() == count
        assert page.locator("#grid td:not(.dim) > a:visible").count() == count

    failed = sum(cell.verdict.name == "FAIL" for cell in cells)
    assert 0 < failed < 200
    page.select_option("select[name=verdict]", "FAIL")
    expect(failed)
    client = next(cell for cell in cells if cell.verdict.name == "FAIL").client.name
    page.select_option("select[name=client]", client)
    expect(sum(cell.verdict.name == "FAIL" and cell.client.name == client for cell in cells))
    assert page.locator("#grid thead th:visible").count() == 2
    page.click("button[type=reset]")
    page.wait_for_function("document.getElementById('shown').textContent.startsWith('200')")
    link = cells[0].topology.name
    page.select_option("select[name=link]", link)
    expect(sum(cell.topology.name == link for cell in cells))
    page.select_option("select[name=link]", "")
    page.fill("input[name=text]", cells[7].id.upper())
    expect(sum(cells[7].id in cell.id for cell in cells))
    page.fill("input[name=text]", "no such thing")
    assert page.locator("#nothing").is_visible()


def test_goodput_zooms_by_dragging_and_back(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["throttle"]).page
    figure = unfold(page.locator("details.cell").first)
    before = figure.evaluate(SCALE)
    over = figure.locator(".u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=5)
    page.mouse.up()
    page.wait_for_function("(least) => document.querySelector('.live').chart.scales.x.min > least", arg=before[0])
    after = figure.evaluate(SCALE)
    assert before[0] < after[0] < after[1] < before[1]
    figure.get_by_role("button", name="mean over 10 ms").click()
    assert figure.evaluate(SCALE) == pytest.approx(after)
    figure.get_by_role("button", name="Whole").click()
    page.wait_for_function("(most) => document.querySelector('.live').chart.scales.x.max > most", arg=after[1])


def test_a_sample_can_be_taken_out_of_the_plot(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["throttle"]).page
    figure = unfold(page.locator("details.cell").first)
    button = figure.get_by_role("button", name="sample 2")
    button.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    assert figure.evaluate("(figure) => figure.chart.series[2].show") is False


def test_what_the_browser_unpacks_is_what_was_measured(open_page: Open, pages: dict[str, Path], runs: Runs) -> None:
    page = open_page(pages["throttle"]).page
    cell = runs["throttle"].cells[0]
    own = page.locator("details.cell").filter(has=page.get_by_role("heading", name=cell.id, exact=True))
    figure = unfold(own)
    figure.get_by_role("button", name="mean over 10 ms").click()
    drawn = figure.evaluate("(figure) => figure.chart.data[1].filter((value) => value !== null)")
    series = cell.samples[0].series
    assert series is not None
    measured = [rate / 8e6 for rate in series.goodput_bit_s]
    peak = max(max(sample.series.goodput_bit_s) for sample in cell.samples if sample.series) / 8e6
    assert drawn == pytest.approx(measured, abs=peak / 1000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["throttle", "qualify", "windows"])
def test_nothing_hinders_a_reader(open_page: Open, pages: dict[str, Path], scheme: str, name: str) -> None:
    """All of axe-core's rules, contrast AA among them, with a cell open."""
    page = open_page(pages[name], scheme=scheme).page
    if page.locator("details.cell").count():
        unfold(page.locator("details.cell").first)
    assert violations(page) == []


def test_the_theme_button_overrides_the_system(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["throttle"], scheme="light").page
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.click("#theme")
    assert page.evaluate(background) == light
    page.click("#theme")
    assert page.evaluate(background) != light
    assert violations(page, rules=["color-contrast"]) == []


@pytest.mark.parametrize("name", ["throttle", "qualify", "windows"])
def test_four_hundred_pixels_are_enough(open_page: Open, pages: dict[str, Path], name: str) -> None:
    page = open_page(pages[name], width=400, height=800).page
    assert page.evaluate(WIDTH) <= 400
    if page.locator("details.cell").count():
        unfold(page.locator("details.cell").first)
        assert page.evaluate(WIDTH) <= 400
        box = page.locator(".box").first
        assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")  # it scrolls inside


def test_paper_has_the_evidence_of_what_failed_and_no_controls(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["throttle"], scheme="dark").page
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    failed = page.locator("details.cell.FAIL")
    assert failed.count() > 0
    for at in range(failed.count()):
        assert failed.nth(at).locator(".reason").is_visible()
        assert failed.nth(at).locator("table").first.is_visible()
        assert failed.nth(at).locator(".goodput svg:visible, .goodput canvas:visible").count() == 1
    for control in ("#filter", "#theme", ".copy button", "#open-all"):
        assert not page.locator(control).first.is_visible()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 33, 43)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not failed.first.evaluate("(cell) => cell.open")


def test_hostile_words_do_not_run(open_page: Open, hostile: StoredRun, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(run_page(hostile), encoding="utf-8")
    page = open_page(path).page
    for at in range(page.locator("details").count()):
        page.locator("details").nth(at).evaluate("(each) => { each.open = true; }")
    page.locator(".goodput canvas").wait_for(state="visible")
    assert page.title() != "ran"
    assert page.locator("img").count() == 0


def test_without_decompression_the_coarse_plot_stays(open_page: Open, pages: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "old.html"
    # Without its policy the page lets the test take the browser's means away.
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", pages["throttle"].read_text())
    path.write_text(text.replace("<script>", "<script>delete window.DecompressionStream</script><script>", 1))
    figure = open_page(path).page.locator("details.cell").first
    figure.locator("summary").first.click()
    figure.get_by_text("no DecompressionStream").wait_for(state="visible")
    assert figure.locator(".goodput svg").is_visible()


def test_pages_of_a_comparison_and_a_trend(open_page: Open, make_cell: MakeCell, tmp_path: Path, screenshots: Path) -> None:
    comparison, trend = tmp_path / "compare.html", tmp_path / "trend.html"
    comparison.write_text(compare_page(make_comparison(make_cell(), make_cell((0.0, 0.001, -0.001, 0.002, -0.002)))))
    trend.write_text(trend_page(make_trend()))
    for path in (comparison, trend):
        for scheme in ("light", "dark"):
            page = open_page(path, scheme=scheme).page
            assert violations(page) == []
            page.screenshot(path=screenshots / f"{path.stem}-{scheme}.png", full_page=True)
        assert open_page(path, width=400).page.evaluate(WIDTH) <= 400


def test_pictures_are_kept(open_page: Open, pages: dict[str, Path], screenshots: Path) -> None:
    """Screenshots for a person to look at: light, dark, narrow, with an open cell, printed. Earlier ones are removed."""
    cells = {"throttle": True, "qualify": True, "windows": False}
    looks = ("light", "dark", "narrow", *(f"{scheme}-cell" for scheme in ("light", "dark")))
    wanted = {f"{name}-{look}.png" for name in cells for look in looks if cells[name] or not look.endswith("-cell")}
    for old in (*wanted, "throttle.pdf"):
        (screenshots / old).unlink(missing_ok=True)
    for name, has_cells in cells.items():
        for scheme in ("light", "dark"):
            page = open_page(pages[name], scheme=scheme).page
            page.screenshot(path=screenshots / f"{name}-{scheme}.png", full_page=True)
            assert (page.locator("details.cell").count() > 0) is has_cells
            if has_cells:
                unfold(page.locator("details.cell").first)
                page.locator("details.cell").first.screenshot(path=screenshots / f"{name}-{scheme}-cell.png")
        narrow = open_page(pages[name], width=400, height=800).page
        narrow.screenshot(path=screenshots / f"{name}-narrow.png", full_page=True)
    page = open_page(pages["throttle"]).page
    page.pdf(path=screenshots / "throttle.pdf", format="A4")
    assert {name for name in wanted if (screenshots / name).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")} == wanted
    assert (screenshots / "throttle.pdf").read_bytes().startswith(b"%PDF-")
