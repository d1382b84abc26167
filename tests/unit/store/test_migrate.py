"""Results of every older lab are read by this one: real files of each version, and a step for each change."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any, get_args

import pytest

from lab.model.answer import Answer, baseline_cells
from lab.model.errors import UsageProblem
from lab.model.results import SCHEMA_VERSION, exit_code
from lab.store.migrate import STEPS, Kind, checked_version, upgrade, version_number
from lab.store.run_dir import SHELVES, parse_json, validated

DATA = Path(__file__).resolve().parents[2] / "data"
FOLDERS = sorted(DATA.glob("results-*"))
FILES = sorted(path for folder in FOLDERS for path in folder.glob("**/*.json*"))


def version_of(folder: Path) -> str:
    return folder.name.removeprefix("results-")


def shelf_of(path: Path) -> Any:
    name = path.name.removesuffix(".gz")
    return next(shelf for shelf in SHELVES if shelf.holds(path.with_name(name)))


def document_of(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    assert isinstance(document, dict)
    return document


# --- the chain ----------------------------------------------------------------------------------------------------------------


def test_the_chain_leads_from_the_first_version_to_todays() -> None:
    version, passed = "1.0", ["1.0"]
    while version != SCHEMA_VERSION:
        target, _ = STEPS[version]
        assert version_number(target) > version_number(version)
        version = target
        passed.append(version)
    assert set(passed) == {*STEPS, SCHEMA_VERSION}, "a step that no result takes"


def test_every_version_before_todays_has_real_files_of_every_kind() -> None:
    assert {version_of(folder) for folder in FOLDERS} >= STEPS.keys()
    for version in STEPS:
        kinds = {shelf_of(path).kind for path in FILES if version_of(DATA / path.relative_to(DATA).parts[0]) == version}
        old = set(get_args(Kind)) - {"answer"}
        wanted = {"cell", "run"} if version_number(version) >= (2, 0) else old
        assert kinds == wanted, f"results-{version} lacks a kind"


@pytest.mark.parametrize("folder", FOLDERS, ids=version_of)
def test_a_folder_of_results_is_of_a_version_that_can_be_read(folder: Path) -> None:
    assert version_of(folder) in {*STEPS, SCHEMA_VERSION}
    assert (folder / "README.md").is_file()
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 150_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name[:60])
def test_todays_models_read_every_stored_file(path: Path) -> None:
    shelf, document = shelf_of(path), document_of(path)
    assert document["schema_version"] == version_of(DATA / path.relative_to(DATA).parts[0])
    before = copy.deepcopy(document)
    upgraded = upgrade(document, shelf.kind, path.name)
    assert document == before, "a step changes what it was given"
    again = validated(upgraded, shelf.model).model_dump(mode="json")
    assert again == upgraded, "a migrated document is today's in full: nothing is left to defaults, nothing is lost"
    assert again["schema_version"] == SCHEMA_VERSION


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name[:60])
def test_todays_documents_are_left_alone(path: Path) -> None:
    shelf, document = shelf_of(path), document_of(path)
    upgraded = upgrade(document, shelf.kind, "-")
    assert upgrade(upgraded, shelf.kind, "-") == upgraded


# --- what each step does ------------------------------------------------------------------------------------------------------


def test_what_1_0_did_not_know_is_written_as_not_known() -> None:
    document = document_of(next(path for path in FILES if path.parent.name == "cells" and "results-1.0" in path.parts))
    upgraded: Any = upgrade(document, "cell", "-")
    assert (upgraded["host"], upgraded["set_aside"], upgraded["plan"]) == (None, [], [])
    assert {sample["host"] for sample in upgraded["samples"]} == {None}
    assert upgraded["verdict"]["method"] is None
    assert (upgraded["verdict"]["host_notes"], upgraded["verdict"]["cause"]) == ([], None)
    link = {**document["topology"]["link"], "udp": "open", "hidden_mtu": None}
    grown = {
        "same_host": False,
        "schedule": None,
        "userlands": None,
        "endpoint": None,
        "ip": 4,
        "ipv6": "open",
        "dns": None,
        "path": ["link"],
    }
    assert upgraded["topology"] == {**document["topology"], "link": link, **grown}
    assert upgraded["certificate"]["link"]["udp"] == "open"
    assert upgraded["transfer"] == {**document["transfer"], "no_file": False, "repeat": False}
    looks = [look for name in ("before", "after") for look in upgraded["certificate"][name]]
    assert looks
    assert [look["trace"] for look in looks] == [None] * len(looks)
    assert [look["datagrams"] for look in looks] == [[]] * len(looks)
    assert upgraded["client"] == {**document["client"], "variables": {}}
    untouched = document.keys() - {"schema_version", "samples", "verdict", "topology", "transfer", "certificate", "client"}
    assert {key: upgraded[key] for key in untouched} == {key: document[key] for key in untouched}
    unknown = dict.fromkeys(("host", "seed", "body_error_s", "said_body_s", "tail_s", "why"))
    known = {"command": [], "interruptions": 0}
    assert [{**sample, **unknown, **known} for sample in document["samples"]] == upgraded["samples"]


@pytest.mark.parametrize(
    "path", [path for path in FILES if {"results-1.0", "results-1.1"} & {*path.parts}], ids=lambda path: path.name[:60]
)
def test_every_result_before_1_2_ran_in_real_time(path: Path) -> None:
    shelf = shelf_of(path)
    upgraded: Any = upgrade(document_of(path), shelf.kind, "-")
    if shelf.kind != "qualification":
        assert upgraded["clock" if shelf.kind == "cell" else "clocks"] == ("real" if shelf.kind == "cell" else ["real"])
    if shelf.kind == "cell":
        assert upgraded["virtual"] is None
        samples = [*upgraded["samples"], *(each["sample"] for each in upgraded["set_aside"])]
        assert {sample["seed"] for sample in samples} == {None}


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("samples", [None, 7, [3, None], {"a": 1}])
def test_a_broken_document_is_left_for_the_model_to_refuse(kind: Kind, samples: object) -> None:
    broken = {"schema_version": "1.0", "samples": samples, "set_aside": samples, "verdict": samples}
    upgraded = upgrade(broken, kind, "-")
    with pytest.raises(ValueError, match="Field required"):
        validated(upgraded, next(shelf.model for shelf in SHELVES if shelf.kind == kind))


def of_kind(kind: str) -> list[tuple[dict[str, Any], Answer]]:
    """Every stored document of one kind, and the answer that it is read as."""
    documents = [document_of(path) for path in FILES if shelf_of(path).kind == kind]
    return [(each, validated(upgrade(each, kind, "-"), Answer)) for each in documents]  # type: ignore[arg-type]


def test_a_study_is_an_answer_about_buffer_sizes() -> None:
    for old, new in of_kind("study"):
        assert (new.question, new.id, str(new.bound)) == ("buffer-sizes", old["id"], old["floor"])
        assert [(arm.name, arm.cell, arm.byte_s) for arm in new.arms] == [
            (arm["setting"], arm["cell"], arm["byte_s"]) for arm in old["arms"]
        ]
        assert (new.rate_clock, new.order, new.judged.reason) == (old["clock"], old["order"], old["verdict"]["reason"])


def test_a_pair_is_an_answer_about_a_candidate_and_its_baseline() -> None:
    for old, new in of_kind("pair"):
        assert (new.question, new.not_judged, str(new.bound)) == ("no-slower", old["untold"], old["margin"])
        for name in ("candidate", "baseline"):
            arm = new.arm(name)
            assert (arm.cell, arm.verdict, arm.byte_s) == tuple(old[name][key] for key in ("cell", "verdict", "byte_s"))
        assert (new.verdict is None) == (old["verdict"] is None)
        assert baseline_cells([new]) == {old["baseline"]["cell"]}


def test_a_finding_is_an_answer_about_its_event() -> None:
    for old, new in of_kind("finding"):
        assert (new.question, new.judged.name) == (old["kind"], old["verdict"]["name"])
        assert [seen.model_dump() for seen in new.observations] == old["rows"]


def test_a_qualification_is_an_answer_that_rests_on_its_parts() -> None:
    for old, new in of_kind("qualification"):
        assert (new.question, exit_code([new.judged.name]), new.judged.reason) == (
            "qualification",
            old["exit_code"],
            old["headline"],
        )
        assert [(part.id, part.verdict, part.baseline, part.comparison, part.regression) for part in new.parts] == [
            tuple(item[key] for key in ("id", "verdict", "baseline", "pair", "regression")) for item in old["items"]
        ]
        assert not new.counts


def test_what_the_host_did_moves_from_the_warnings_to_the_host_notes() -> None:
    cell = document_of(next(path for path in FILES if path.parent.name == "cells" and "results-1.2" in path.parts))
    cell["verdict"]["warnings"] = ["bimodal", "host was busy: after the samples X"]
    verdict: Any = upgrade(cell, "cell", "-")["verdict"]
    assert (verdict["warnings"], verdict["host_notes"]) == (["bimodal"], ["after the samples X"])


# --- what cannot be read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"schema_version": "0.9"}, "x.json: schema 0.9 is unknown to this lab (1.0, "),
        (
            {"schema_version": "99.0"},
            f"x.json: schema 99.0 is newer than {SCHEMA_VERSION}, the newest this lab reads (update the lab)",
        ),
        ({"schema_version": "1.0.1"}, "it has no schema_version"),
        ({"schema_version": "9" * 5000 + ".1"}, "it has no schema_version"),
        ({"schema_version": 1.0}, "it has no schema_version"),
        ({}, "it has no schema_version"),
        ([], "it has no schema_version"),
    ],
)
def test_a_version_that_is_not_known_is_one_clear_line(document: object, said: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        upgrade(document, "cell", "x.json")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_1_10_is_newer_than_1_9() -> None:
    assert version_number("1.10") > version_number("1.9")


@pytest.mark.parametrize("text", [b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}', b"[" * 100_000, b"9" * 5000, b'{"a": 1'])
def test_what_is_not_json_is_one_clear_line(text: bytes) -> None:
    with pytest.raises(UsageProblem, match=r"x\.json: cut off or not JSON"):
        parse_json(text, "x.json", remedy="-")


@pytest.mark.parametrize(
    ("rates", "mean"),
    [([1e6, 4e6], 2e6), ([2, 8], 4.0), ([], None), ([1e6, 0.0], None), ([1e6, -1.0], None), (["x"], None), (None, None)],
)
def test_a_side_of_a_pair_has_the_mean_of_its_rates_where_they_have_one(rates: object, mean: float | None) -> None:
    document = document_of(next(path for path in FILES if path.parent.name == "pairs" and "results-1.2" in path.parts))
    document["candidate"]["byte_s"] = rates
    upgraded: Any = upgrade(document, "pair", "-")
    side, other = upgraded["arms"]
    assert (side["name"], side["value"], other["name"]) == ("candidate", document["candidate"]["client"]["name"], "baseline")
    assert side["mean_byte_s"] == (None if mean is None else pytest.approx(mean))
    assert side["byte_s"] == rates


def test_a_side_of_another_form_is_left_for_the_model_to_refuse() -> None:
    document = document_of(next(path for path in FILES if path.parent.name == "pairs" and "results-1.2" in path.parts))
    for broken in (None, 7, {"client": "curl"}):
        upgraded: Any = upgrade({**document, "baseline": broken}, "pair", "-")
        assert upgraded["arms"][1] == broken


def test_a_version_is_checked_in_one_line_with_its_remedy() -> None:
    assert checked_version(document={"schema_version": "1.0"}, newest="1.0", origin="x") == {"schema_version": "1.0"}
    with pytest.raises(UsageProblem) as caught:
        checked_version({"schema_version": "one"}, "1.0", "x", remedy="get it again")
    assert str(caught.value) == "x: not a result of this lab, it has no schema_version such as 1.0 (get it again)"
    with pytest.raises(UsageProblem) as caught:
        checked_version({"schema_version": "1.1"}, "1.0", "x")
    assert str(caught.value) == "x: schema 1.1 is newer than 1.0, the newest this lab reads (update the lab)"
    for version in ("1234567.0", "0.1234567"):
        with pytest.raises(UsageProblem, match="it has no schema_version"):
            checked_version({"schema_version": version}, "9.9", "x")
    with pytest.raises(UsageProblem, match=r"schema 123456\.0 is newer"):
        checked_version({"schema_version": "123456.0"}, "9.9", "x")


def test_a_skipped_line_of_a_qualification_keeps_its_reason() -> None:
    document = document_of(next(path for path in FILES if path.name.startswith("qualification") and "results-1.2" in path.parts))
    document["skipped"] = [{"name": "h2", "reason": "not built in", "more": 1}]
    upgraded: Any = upgrade(document, "qualification", "-")
    assert upgraded["skipped"] == {"h2": "not built in"}
    for broken in ([{"name": "h2"}], [7], "x", None):
        upgraded = upgrade({**document, "skipped": broken}, "qualification", "-")
        assert upgraded["skipped"] == broken
    assert upgraded["verdict"]["cause"] == "verdicts"
    assert upgraded["facts"] == {"set": document["set"]}


def test_the_codes_of_a_qualification_are_verdicts() -> None:
    document = document_of(next(path for path in FILES if path.name.startswith("qualification") and "results-1.2" in path.parts))
    for code, name in ((0, "PASS"), (1, "FAIL"), (3, "INCONCLUSIVE"), (4, "INVALID")):
        upgraded: Any = upgrade({**document, "exit_code": code}, "qualification", "-")
        assert upgraded["verdict"]["name"] == name
    upgraded = upgrade({**document, "exit_code": "x", "baseline": ""}, "qualification", "-")
    assert upgraded["verdict"]["name"] == "x"
    assert [arm["name"] for arm in upgraded["arms"]] == ["candidate"]
