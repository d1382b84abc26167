"""The pages by their structure: what is in them, what must not be, and how large they are."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lab.judge.compare import compare_cells
from lab.model.comparison import Comparison, RunSide
from lab.model.results import CellResult, HostLoad, HostQuality, SetAside
from lab.model.trend import Trend, TrendPoint, TrendReport, TrendStep
from lab.model.units import Ratio
from lab.store.stored_run import StoredRun
from reports import build, series, uplot
from reports.build import compare_page, run_page, tally, trend_page
from reports.cells import CellView
from tests.support.stored_runs import many_cells
from tests.unit.reports.conftest import HOSTILE
from tests.unit.store.conftest import MakeCell

VOID = {"meta", "link", "input", "br", "hr", "img", "col"}
OPTIONAL_END = {"td", "th", "tr", "li", "dt", "dd", "tbody", "thead", "option", "p"}


class Page(HTMLParser):
    """Elements, ids, links, texts; and whether what must be closed is."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.count: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.events: list[str] = []
        self.headings: list[int] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.words: list[str] = []
        self.policy = ""
        self._open: list[str] = []
        self._script: dict[str, str | None] | None = None
        self.feed(text)
        self.close()
        self.left_open = [tag for tag in self._open if tag not in OPTIONAL_END]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] += 1
        found = dict(attrs)
        if tag not in VOID:
            self._open.append(tag)
        if name := found.get("id"):
            self.ids.append(name)
        self.links += [value or "" for key, value in attrs if key in ("href", "src")]
        self.events += [key for key, _ in attrs if key.startswith("on")]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        self._script = found if tag == "script" else None

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        while self._open:
            if (last := self._open.pop()) == tag:
                break
            assert last in OPTIONAL_END, f"</{tag}> closes {last}"
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts.append((self._script, data))
        elif "style" not in self._open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def check_whole(text: str) -> Page:
    page = Page(text)
    assert page.left_open == []
    assert [name for name, count in Counter(page.ids).items() if count > 1] == []
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(page.headings, page.headings[1:], strict=False))
    assert [link for link in page.links if not link.startswith("#")] == []
    assert {link[1:] for link in page.links} - set(page.ids) == set()
    assert page.events == []
    assert re.findall(r"(?:src|href)\s*=\s*[\"']?https?:", text) == []
    assert "@import" not in text
    assert "url(" not in text
    return page


def test_a_run_has_its_verdict_counts_matrix_and_every_cell(throttle: StoredRun) -> None:
    page = check_whole(run_page(throttle))
    assert throttle.record is not None
    for cell in throttle.cells:
        assert cell.id in page.text
        assert cell.verdict.reason in page.text
        assert cell.client.sha256 in page.text
    assert page.count["details"] >= len(throttle.cells)
    assert sum(script[0].get("type") == "application/json" for script in page.scripts) == len(throttle.cells)
    for fact in (throttle.path.name, "AMD EPYC", "User-Mode Linux", "namespaces", throttle.record.git_revision[:12]):  # type: ignore[index]
        assert fact in page.text
    assert "1 of" in page.text
    assert "tc qdisc add dev" in page.text
    assert "lab run curl--dsl-50--h2-get-5MiB-at-2MBps-chunked" in page.text


def test_only_the_scripts_whose_digests_the_policy_names_may_run(throttle: StoredRun) -> None:
    page = Page(run_page(throttle))
    running = [text for kind, text in page.scripts if not kind.get("type")]
    assert len(running) == 2
    assert running[0] == uplot.script()
    for text in running:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in page.policy
    assert page.policy.startswith("default-src 'none'")
    assert "unsafe" not in page.policy


def test_hostile_words_stay_words(hostile: StoredRun) -> None:
    text = run_page(hostile)
    page = check_whole(text)
    assert len([script for script in page.scripts if not script[0].get("type")]) == 2
    assert page.count["img"] == 0
    assert "<script>document" not in text
    assert HOSTILE in page.text


def test_a_qualification_has_its_table_pairs_and_baselines(qualify: StoredRun) -> None:
    page = check_whole(run_page(qualify))
    assert qualify.qualification is not None
    assert qualify.qualification.judged.reason in page.text
    assert {"qualification", "candidate-and-baseline"} <= set(page.ids)
    assert page.text.count("baseline") >= 2
    for pair in qualify.answers:
        assert pair.id in page.text


def test_a_baseline_does_not_count(qualify: StoredRun) -> None:
    found = tally(qualify)
    assert qualify.record is not None
    assert sum(found.counts.values()) == len(qualify.record.verdicts) - len(qualify.record.baselines)


def test_findings_have_their_rows_facts_and_verdicts(quirks: StoredRun) -> None:
    page = check_whole(run_page(quirks))
    for finding in quirks.answers:
        assert finding.id in page.text
        assert finding.judged.reason in page.text
        for row in finding.observations:
            assert row.name in page.text
    assert len([script for script in page.scripts if not script[0].get("type")]) == 1  # without charts there is no uPlot


def test_a_run_that_was_cut_off_and_a_file_that_cannot_be_read_are_reported(throttle: StoredRun) -> None:
    cut = StoredRun(path=throttle.path, cells=throttle.cells[:1], problems=["cells/x.json: cut off or not JSON"])
    page = check_whole(run_page(cut))
    assert "no run.json" in page.text
    assert "cells/x.json: cut off or not JSON" in page.text
    assert tally(cut).exit_code == {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3, "INVALID": 4}[throttle.cells[0].verdict.name]


def test_a_run_with_nothing_in_it_is_a_page_that_says_so(tmp_path: Path) -> None:
    assert "holds no results" in check_whole(run_page(StoredRun(path=tmp_path))).text


def test_what_was_set_aside_and_the_host_are_evidence(make_cell: MakeCell, tmp_path: Path) -> None:
    load = HostLoad(
        span_s=5,
        steal_share=0.031,
        foreign_cores=1.25,
        lab_cores=0.4,
        cores=2,
        late_p99_ms=7.5,
        late_worst_ms=21,
        frequency_mhz=None,
        load_1min=2.5,
    )
    cell = make_cell()
    spoilt = SetAside(reason="others took 1.25 cores", sample=cell.samples[0].model_copy(update={"host": load, "index": 7}))
    cell = cell.model_copy(
        update={
            "set_aside": [spoilt],
            "host": HostQuality(before=load, after=None, problems=["steal 3.1 % (at most 1 %)"]),
            "plan": [5, 10],
        }
    )
    page = check_whole(run_page(StoredRun(path=tmp_path, cells=[cell])))
    assert "set aside: others took 1.25 cores" in page.text
    assert "steal 3.10 %, others 1.25 of 2 cores" in page.text
    assert "steal 3.1 % (at most 1 %)" in page.text
    spots = CellView(cell, "x", None).judged.spots
    assert [spot.label for spot in spots if not spot.judged] == ["(8)"]


def test_two_cells_whose_ids_look_alike_have_their_own_anchors(make_cell: MakeCell, tmp_path: Path) -> None:
    cells = [make_cell(cell_id=name) for name in ("a b", "a-b", "a  b", "")]
    check_whole(run_page(StoredRun(path=tmp_path, cells=cells)))


@pytest.mark.parametrize("kind", ["burst", "memory", "cpu", "fill"])
def test_a_bound_is_printed_in_its_own_unit(qualify: StoredRun, kind: str) -> None:
    from lab.judge.tolerance import LookPlan, judge_samples
    from lab.model.transfer import Expectation

    base = next(cell for cell in qualify.cells if cell.transfer.limit is not None)
    samples = [sample.model_copy(update={"goodput_ratio": 0.9, "burst_ratio": 1.2}) for sample in base.samples]
    expectation = Expectation.model_validate({"kind": kind})
    verdict = judge_samples(samples, expectation, LookPlan())
    cell = base.model_copy(update={"samples": samples, "expectation": expectation, "verdict": verdict})
    view = CellView(cell, "x", None)
    judged = view.judged
    assert expectation.bound in (judged.band_low, judged.band_high)
    assert judged.low is not None
    assert judged.mean is not None
    assert judged.high is not None
    assert judged.low <= judged.mean <= judged.high
    assert judged.mean == pytest.approx(sum(spot.value for spot in judged.spots) / len(judged.spots), rel=0.05)
    assert view.told[0] == judged.tell(judged.mean)


# ---------------------------------------------------------------------------------------------------------------------


def unpack(packed: series.Packed) -> list[list[int]]:
    planes = gzip.decompress(base64.b64decode(packed.text))
    half = len(planes) // 2
    numbers = [low + 256 * high for low, high in zip(planes[:half], planes[half:], strict=True)]
    found, at = [], 0
    for *_, count in packed.samples:
        found.append(numbers[at : at + count])
        at += count
    assert at == half
    return found


def test_a_packed_series_is_the_measured_one_to_a_thousandth_of_its_peak(throttle: StoredRun) -> None:
    for cell in throttle.cells:
        packed = series.pack(cell, 10, 10)
        assert packed is not None
        peak = max(max(sample.series.goodput_bit_s) for sample in cell.samples if sample.series) / 8
        for sample, numbers in zip(cell.samples, unpack(packed), strict=True):
            assert sample.series is not None
            for number, rate in zip(numbers, sample.series.goodput_bit_s, strict=True):
                assert number * packed.unit == pytest.approx(rate / 8, abs=peak / 1000)


def test_where_room_is_scarce_the_worst_sample_keeps_its_bursts(throttle: StoredRun) -> None:
    cells = throttle.cells
    whole = sum(len(packed.text) for packed in series.choose(cells) if packed)
    less = series.choose(cells, whole // 2)
    assert 0 < sum(len(packed.text) for packed in less if packed) <= whole // 2
    for cell, packed in zip(cells, less, strict=True):
        assert packed is not None
        worst = series.worst_sample(cell)
        assert worst is not None
        slots = {number: slot for number, slot, _ in packed.samples}
        assert slots.pop(worst.index + 1) == 10
        assert all(slot > 10 for slot in slots.values())


def test_merging_keeps_the_bytes() -> None:
    assert series.merge([1, 2, 3, 4, 5], 2) == [1.5, 3.5, 5]


def test_two_hundred_cells_of_ten_samples_are_two_megabytes_at_most(stored: dict[str, Path]) -> None:
    run = many_cells(stored["throttle"], cells=200, samples=10)
    text = run_page(run)
    assert len(text.encode()) <= 2_000_000
    page = Page(text)
    charts = [json.loads(body) for kind, body in page.scripts if kind.get("type")]
    assert len(charts) == 200
    assert all(len(chart["samples"]) == 10 for chart in charts)


def test_uplot_can_be_put_into_a_page() -> None:
    assert "(v1.6.31)" in uplot.script()[:200]
    assert "</script" not in uplot.script().lower()
    assert ".uplot" in uplot.style()


# ---------------------------------------------------------------------------------------------------------------------


def make_comparison(cell: CellResult, other: CellResult) -> Comparison:
    at = cell.started_at
    side = RunSide(run="a <b>", path="/a", started_at=at, ended_at=at, whole=True)
    found = compare_cells(cell, other, 0.01)
    return Comparison(
        lab_version="0.1.0",
        a=side,
        b=side.model_copy(update={"run": "b", "whole": False}),
        within=Ratio(0.01),
        answers=[found],
        only_in_a=["lonely"],
        only_in_b=[],
        differences=[],
        notes=["not interleaved"],
        exit_code=0,
    )


def test_a_comparison_has_its_ratios_and_what_is_missing(make_cell: MakeCell) -> None:
    found = make_comparison(make_cell(), make_cell((0.0, 0.001, -0.001, 0.002, -0.002)))
    page = check_whole(compare_page(found))
    interval = found.answers[0].verdict.interval
    assert interval is not None
    for words in (found.answers[0].id, "a <b>", "lonely", "not interleaved", "not complete", f"{interval.mean:.4f}"):
        assert words in page.text
    assert page.count["svg"] == 1


def make_trend(steps: int = 1) -> TrendReport:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    points = [
        TrendPoint(
            run=f"run-{number:02}",
            at=at + timedelta(days=number),
            n=5,
            mean=1e6 * (0.95 if number >= 20 else 1),
            low=0.94e6,
            high=1.01e6,
            verdict="FAIL" if number == 29 else "PASS",
        )
        for number in range(30)
    ]
    step = TrendStep(
        index=20,
        before_run="run-19",
        after_run="run-20",
        at=points[20].at,
        change=-0.05,
        low=-0.055,
        high=-0.045,
        confidence=0.99,
        better=False,
        changed=[],
    )
    trend = Trend(
        cell="curl--<x>",
        clock="real",
        figure="rate",
        unit="B/s",
        points=points,
        steps=[step] * steps,
        noise=0.004,
        notes=["<a note>"],
    )
    return TrendReport(lab_version="0.1.0", source="results", least=0.01, trends=[trend], problems=["one line"], exit_code=1)


def test_a_trend_names_its_step() -> None:
    page = check_whole(trend_page(make_trend()))
    for words in ("run-20", "-5.0 %", "curl--<x>", "<a note>", "one line", "worse", "1 of 1 series"):
        assert words in page.text
    assert page.count["svg"] == 1
    assert page.count["circle"] == 29  # and a square for the FAIL


def test_a_trend_without_a_step_or_a_point_is_a_page_too() -> None:
    report = make_trend(0)
    empty = report.trends[0].model_copy(update={"points": []})
    page = check_whole(trend_page(report.model_copy(update={"trends": [report.trends[0], empty]})))
    assert "No series steps" in page.text


def test_the_same_results_make_the_same_page(throttle: StoredRun) -> None:
    assert build.run_page(throttle) == build.run_page(throttle)
