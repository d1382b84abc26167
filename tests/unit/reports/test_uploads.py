"""The table of uploads against rows of the report that it repeats (public figures), and from answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lab.model.answer import Answer, Observation
from lab.model.load import load_topology
from lab.model.results import ClientIdentity, Verdict
from lab.model.transfer import Transfer
from lab.model.units import Size
from reports.uploads import FIXTURE, HEADINGS, UploadRow, sorted_rows, uploads_markdown, uploads_of, version_of

# As published in 2018: times with curl as it was and with its patch, then what the report computed from them.
PUBLISHED = [
    ("10.0.17134.191", 3.735, 1.625, "43.51%", "2.30"),
    ("6.0.6002", 15.234, 2.234, "14.66%", "6.82"),
    ("10.0.17134.191", 1.219, 1.531, "125.59%", "0.80"),
    ("6.1.7601", 8.175, 2.106, "25.76%", "3.88"),
    ("5.2.3790", 5.031, 5.0, "99.38%", "1.01"),
]
AT = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.mark.parametrize(("version", "vanilla", "patched", "left", "ratio"), PUBLISHED)
def test_a_row_is_computed_as_published(version: str, vanilla: float, patched: float, left: str, ratio: str) -> None:
    assert UploadRow(version, vanilla, patched).words == (version, f"{vanilla:.3f}", f"{patched:.3f}", left, "", ratio)


def test_the_published_total() -> None:
    assert UploadRow("TOTAL", 205.303, 102.271).words[3:] == ("49.81%", "", "2.01")


def test_rows_are_sorted_by_what_is_left_and_end_in_total_and_median() -> None:
    found = sorted_rows(UploadRow(*row[:3]) for row in PUBLISHED)
    assert [line[3] for line in found.lines] == ["14.66%", "25.76%", "43.51%", "99.38%", "125.59%", "37.42%", "43.51%"]
    assert found.lines[-2] == ("TOTAL", "33.394", "12.496", "37.42%", "", "2.67")
    assert found.lines[-1] == ("MEDIAN", "", "", "43.51%", "", "2.30")
    two = sorted_rows(UploadRow(*row[:3]) for row in PUBLISHED[:2])
    assert two.lines[-1][3] == "29.09%", "of an even number the mean of the middle two"


def answer(times: dict[str, list[float]], **more: Any) -> Answer:
    rows = [Observation(name=arm, figures={"time_s": seconds}) for arm, each in times.items() for seconds in each]
    client = ClientIdentity(name="curl", version="8", path="/bin/true", sha256="0" * 64, command=[], notes=more.pop("notes", []))
    fields: dict[str, Any] = {
        "id": "curl--far-200--http1-put-4MiB--send-buffers",
        "question": "send-buffers",
        "run": "20261123T000000-test-0000",
        "lab_version": "0.1.0",
        "clocks": ["real"],
        "machine": {"kernel": "6.12.1"},
        "client": client,
        "topology": load_topology("far-200"),
        "transfer": Transfer(protocol="http1", direction="put", size=Size.parse("4 MiB")),
        "observations": rows,
        "verdict": Verdict(name="PASS", reason="-"),
        "started_at": AT,
        "ended_at": AT,
    }
    return Answer.model_validate({**fields, **more})


def test_an_answer_is_a_row_of_medians() -> None:
    found = uploads_of([answer({"fixed": [2.0, 2.4, 9.0], "automatic": [1.0, 1.2, 1.1]})])
    assert [line[:4] for line in found.lines[:1]] == [("Linux 6.12.1", "2.400", "1.100", "45.83%")]
    assert found.rows[0].comment == "curl http1-put-4MiB on far-200"
    assert uploads_markdown(found).splitlines()[0] == f"| {' | '.join(HEADINGS)} |"


def test_what_was_not_measured_is_marked_or_left_out() -> None:
    fixture = answer({"fixed": [2.0], "automatic": [1.0]}, notes=[f"{FIXTURE}"])
    broken = answer({"fixed": [2.0]}, verdict=Verdict(name="FAIL", reason="cut off"))
    other = answer({"fixed": [2.0], "automatic": [1.0]}, question="platform")
    found = uploads_of([fixture, broken, other])
    assert [row.comment for row in found.rows] == [f"curl http1-put-4MiB on far-200, {FIXTURE}"]
    assert found.left_out == ("curl--far-200--http1-put-4MiB--send-buffers (20261123T000000-test-0000): FAIL, cut off",)


@pytest.mark.parametrize(
    ("more", "version"),
    [
        ({"machine": {"client_version": "10.0.26100.1742"}}, "10.0.26100.1742"),
        ({"clocks": ["virtual"]}, "Linux, virtual time"),
        ({}, "Linux 6.12.1"),
    ],
)
def test_the_version_is_the_clients_system(more: dict[str, Any], version: str) -> None:
    assert version_of(answer({"fixed": [2.0], "automatic": [1.0]}, **more)) == version


def test_wine_is_not_windows() -> None:
    found = answer({"fixed": [2.0], "automatic": [1.0]})
    assert found.client
    wine = found.client.model_copy(update={"version": "ferry 0.1.0 under Wine 8.0, not Windows"})
    assert version_of(found.model_copy(update={"client": wine})) == "Wine 8.0"
