"""Making a page of docs/studies: packing runs, what a template may say, and the rules that refuse a page."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import random
import tarfile
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lab.model.errors import EXIT_USAGE, UsageProblem
from lab.model.results import CellResult, RunRecord
from reports.studies import archive
from reports.studies.__main__ import main
from reports.studies.archive import pack, unpacked
from reports.studies.charts import Group, Line, Mark, intervals, lines
from reports.studies.page import first_sentence, literal_numbers, make_page
from reports.studies.places import Study

FINDING = """{% call finding() %}curl is {{ cell("curl").words }} off. The rest follows.{% endcall %}"""
TEMPLATE = """\
{{ title("does it keep its limit?") }}

{{ command("lab run throttle") }}

FINDING

{{ picture("deviation", deviations(cells(), "Deviation"), "deviation") }}

{{ origin() }}

{{ verdicts(cells()) }}
""".replace("FINDING", FINDING)


@pytest.fixture
def run(cell: CellResult, record: RunRecord, tmp_path: Path) -> Path:
    """The folder of a run with one cell, whose samples have curves, and a log among its evidence."""
    chance = random.Random(1)
    curves = [
        sample.series.model_copy(update={"goodput_bit_s": [chance.random() * 8e6 for _ in range(500)]})
        for sample in cell.samples
        if sample.series
    ]
    samples = [sample.model_copy(update={"series": curve}) for sample, curve in zip(cell.samples, curves, strict=True)]
    cell = cell.model_copy(update={"samples": samples})
    folder = tmp_path / "results" / record.run
    (folder / "cells").mkdir(parents=True)
    (folder / "evidence" / cell.id).mkdir(parents=True)
    (folder / "evidence" / cell.id / "nginx.log").write_text("a line", encoding="utf-8")
    (folder / "cells" / f"{cell.id}.json").write_text(cell.model_dump_json(indent=1), encoding="utf-8")
    (folder / "run.json").write_text(record.model_dump_json(indent=1), encoding="utf-8")
    return folder


@pytest.fixture
def study(run: Path, tmp_path: Path) -> Study:
    made = Study(tmp_path / "studies", "throttle")
    pack(made.data, [("", run)], [])
    made.template.write_text(TEMPLATE, encoding="utf-8")
    return made


def with_template(study: Study, old: str, new: str) -> Study:
    assert old in TEMPLATE
    study.template.write_text(TEMPLATE.replace(old, new), encoding="utf-8")
    return study


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_packing_the_same_run_again_gives_the_same_bytes(study: Study, run: Path) -> None:
    before = digest(study.data)
    for file in run.rglob("*"):
        file.touch()
    pack(study.data, [("", run)], [])
    assert digest(study.data) == before


def test_evidence_is_not_packed(study: Study) -> None:
    with unpacked(study.data) as contents:
        (run,) = contents.all_runs
        assert sorted(file.name for file in run.path.rglob("*") if file.is_file()) == [f"{run.cells[0].id}.json", "run.json"]


def test_a_run_that_is_not_valid_is_not_packed(run: Path, tmp_path: Path) -> None:
    (run / "run.json").unlink()
    with pytest.raises(UsageProblem, match=r"not complete"):
        pack(tmp_path / "data.tar.xz", [("", run)], [])


def test_curves_go_where_the_data_would_be_too_large(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.tar.xz"
    size = pack(path, [("", run)], []).size
    monkeypatch.setattr(archive, "MOST_BYTES", size - 1)
    assert pack(path, [("", run)], []).curves == "first"
    with unpacked(path) as contents:
        first, *others = contents.all_runs[0].cells[0].samples
        assert first.series
        assert first.series.goodput_bit_s
        assert all(sample.series and not sample.series.goodput_bit_s and sample.series.longest_gap_ms for sample in others)
    monkeypatch.setattr(archive, "MOST_BYTES", 100)
    with pytest.raises(UsageProblem, match="may ship 100"):
        pack(path, [("", run)], [])


def test_labels_tell_runs_of_the_same_cell_apart(study: Study, run: Path) -> None:
    pack(study.data, [("before", run), ("after", run)], [])
    with_template(study, 'cell("curl").words', 'data.labelled("after").cell("curl").words')
    assert "curl is" in make_page(study).text
    with pytest.raises(UsageProblem, match="labels: after, before"):
        make_page(with_template(study, 'cell("curl").words', 'data.labelled("between").cell("curl").words'))


def of_kind(path: Path, kind: object) -> None:
    """Write the archive again, with another kind in its manifest."""
    into = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=into, mode="w") as new:
        for info in old.getmembers():
            file = old.extractfile(info)
            assert file
            content = file.read()
            if info.name == archive.MANIFEST:
                content = json.dumps({**json.loads(content), "kind": kind}).encode()
                info.size = len(content)
            new.addfile(info, io.BytesIO(content))
    path.write_bytes(lzma.compress(into.getvalue()))


def test_an_archive_of_the_labs_former_name_opens_and_no_other_kind_does(study: Study) -> None:
    with unpacked(study.data) as today:
        cells = [stored.cells for stored in today.all_runs]
    of_kind(study.data, "throughline-study-data")
    with unpacked(study.data) as former:
        assert [stored.cells for stored in former.all_runs] == cells
        assert cells
    for kind in ("throughline-bundle", "study-data", "", None):
        of_kind(study.data, kind)
        with pytest.raises(UsageProblem, match="one of these is expected: 'roughwater-study-data'"), unpacked(study.data):
            pass


def test_other_files_are_packed(study: Study, run: Path, tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text(json.dumps([{"rate": 7}]), encoding="utf-8")
    pack(study.data, [("", run)], [tmp_path / "sweep.json"])
    with_template(study, 'cell("curl").words', 'data.json("sweep.json")[0].rate')
    assert "curl is 7 off." in make_page(study).text


def test_a_page_has_its_figures_and_names_its_data(study: Study) -> None:
    page = make_page(study)
    assert page.sentence.startswith("curl is ")
    assert page.sentence.endswith(" off.")
    assert digest(study.data) in page.text
    assert "![deviation](throttle/deviation.svg)" in page.text
    assert "| dsl-50 | http1-get-5MiB-at-1MBps |" in page.text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('{{ title("does it keep its limit?") }}', "", "no title"),
        (FINDING, "", "no {% call finding"),
        ('{{ picture("deviation", deviations(cells(), "Deviation"), "deviation") }}', "", "no picture"),
        ('{{ command("lab run throttle") }}', "", "no command"),
        ("lab run throttle", "lab run throttle --client ...", "is cut"),
        ("{{ origin() }}", "", r"no origin\(\)"),
        (" off.", " off, by 11.8 %.", "has '11.8' by hand"),
        (" off.", " off in five of its cells.", "has 'five of' by hand"),
        ("curl is", '{{ says(cell("curl").mean > 0.5, "curl is too fast") }}', "do not show that curl is too fast"),
        ('cell("curl")', 'cell("wget")', "0 cells match wget"),
        ('cell("curl").words', "unknown", "'unknown' is undefined"),
        ('cell("curl").words', 'cell("curl").figure("requests")', "no sample has the figure requests"),
        ("{% endcall %}", "", "Unexpected end of template"),
    ],
)
def test_a_page_that_breaks_a_rule_is_refused(study: Study, old: str, new: str, said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        make_page(with_template(study, old, new))


def test_a_page_without_data_says_which_are_missing(study: Study) -> None:
    study.data.unlink()
    plain = (
        TEMPLATE.replace('{{ cell("curl").words }}', "far").replace("{{ verdicts(cells()) }}", "").replace("{{ origin() }}", "")
    )
    plain = plain.replace('deviations(cells(), "Deviation")', 'bars([("", "curl", 3)], "Deviation", "%")')
    study.template.write_text(plain, encoding="utf-8")
    with pytest.raises(UsageProblem, match="ship the data, or say which are missing"):
        make_page(study)
    study.template.write_text(plain + '{{ no_data("lost") }}', encoding="utf-8")
    assert "**Without its raw data**: lost" in make_page(study).text


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("curl 8.4.0 over h2 and HTTP/1.1 on dsl-50, curl@8.4.0 and SHA-256", []),
        ("{{ given('8 Mbit/s') }}, `--limit 8`", []),
        ("+11.8 % at 16 Mbit/s", ["+11.8", "16"]),
        ("Half of them", ["Half of"]),
    ],
)
def test_numbers_by_hand_are_found_in_the_finding_only(text: str, numbers: list[str]) -> None:
    found = literal_numbers(f"12 % outside {{% call finding() %}}{text}{{% endcall %}} 13 % outside")
    assert [line.split("'")[1] for line in found] == numbers


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("curl 8.4.0 is 11.8 % too fast. The rest.", "curl 8.4.0 is 11.8 % too fast."),
        ("**Reproduced.** The rest.", "Reproduced."),
        ("No end", "No end"),
    ],
)
def test_the_first_sentence_of_a_finding(text: str, first: str) -> None:
    assert first_sentence(text) == first


def test_pictures_are_well_formed_whatever_the_values() -> None:
    marks = [Mark("a <b>", 3.0, -1e9, 1e9, "3 & more"), Mark("b", float("nan")), Mark("c", 0.0)]
    for text in (
        intervals([Group("<g>", marks)], "t", "%", band=(-5, 5), least=-10, most=10),
        intervals([Group("", [Mark("a", 5)])], "t", "s", bars=True),
        intervals([], "t", "s"),
        lines([Line("a & b", [(1, 2), (1024, 3)], [(1, 3), (2, 4)]), Line("c", [(1, 1)])], "t", "x", "y", log_x=True),
    ):
        assert "nan" not in text
        assert ET.fromstring(text).tag.endswith("svg")


def test_the_command_line(study: Study, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--root", str(study.root)]
    assert main([*root, "check"]) == 1
    assert main([*root, "make"]) == 0
    assert main([*root, "check"]) == 0
    assert main([*root, "unpack", "throttle", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(run.name)
    assert main([*root, "pack", "no such name", str(run)]) == EXIT_USAGE
    assert main([*root, "pack", "throttle"]) == EXIT_USAGE
    assert main([*root, "make", "burst"]) == EXIT_USAGE
