"""The schemas of results are closed, described, versioned and enforced."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from lab.cli.schema import result_models, result_schema
from lab.model.paths import project_root
from lab.model.results import SCHEMA_VERSION, CellResult
from lab.store.run_dir import ANSWERS, CELLS, OLD_SHELVES, RUN_SHELF, SHELVES, RunDir, read_result

KINDS = sorted(result_models())
# Free facts: what others report in their own words, and maps whose keys are names or ids.
FREE = {
    "EndpointFile.files": "texts by name, as its file has them",
    "EndpointFile.environment": "templates by variable",
    "EndpointFile.credentials": "templates by variable",
    "EndpointFile.ports": "numbers by name, as its file has them",
    "EndpointFile.urls": "by protocol",
    "VirtualMachine.counts": "digests and versions by name; which there are depends on the client",
    "Certificate.qdisc_readback": "tc's own JSON, which changes with iproute2",
    "ClientNumbers.raw": "the client's own report, untouched",
    "HostSnapshot.hosts": "facts by host and name; which there are depends on the host",
    "HostSnapshot.machine": "facts by name; which there are depends on the machine",
    "CellResult.router": "facts of the router by name, with its kind's own",
    "Answer.router": "facts of the router by name, with its kind's own",
    "Answer.machine": "facts by name; which there are depends on the machine",
    "Answer.skipped": "by setting, or by line of a set",
    "Answer.facts": "by name; each question has its own",
    "Arm.figures": "figures by name with unit",
    "Arm.facts": "by name; each question has its own",
    "CellResult.backend_facts": "versions and digests by name; which there are depends on the engine",
    "CellResult.timing_s": "seconds by phase",
    "CellResult.userlands": "by host",
    "ClientIdentity.variables": "values by name, as --env gave them",
    "Answer.userlands": "by host",
    "UserlandFacts.packages": "versions by name; which there are depends on the system",
    "Diagnosis.shares": "by cause",
    "Observation.figures": "figures by name with unit; each question has its own",
    "Observation.facts": "what was seen, by name; each question has its own",
    "RunRecord.verdicts": "by id",
    "RunRecord.skipped": "by id",
    "PathCertificate.links": "by the name of a node, which the topology chooses",
    "PathCertificate.nats": "by the name of a node, which the topology chooses",
    "VirtualMachine.conditions": "by condition; a kernel to come may need others",
}
UNIT_IN_NAME = re.compile(r"_(s|ms|ns|bit_s|byte_s|bytes|mhz|mbps|ratio|share|cores|per_s|per_gb|per_file)$")
UNIT_IN_WORDS = re.compile(
    r"\b(bytes|fraction|share|number of|unit of|own unit|same unit|segments|packets|frames|counts|0 to 1)\b"
)
# Numbers that count nothing and measure nothing; and the figures of a finding, each with its unit in its own name.
NO_UNIT = {"exit_code", "status", "seed", "session_seed", "index", "p_outside", "figures"}


def objects(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a schema that has properties, by its model's name."""
    schema = result_schema(kind)
    yield schema["title"], schema
    yield from ((name, each) for name, each in schema.get("$defs", {}).items() if each.get("type") == "object")


def open_places(node: Any, where: str) -> Iterator[str]:
    """The parts of a property that allow keys outside the schema."""
    if isinstance(node, dict):
        if node.get("type") == "object" and node.get("additionalProperties") is not False:
            yield where
        for key, value in node.items():
            if key not in ("default", "examples"):
                yield from open_places(value, where)
    elif isinstance(node, list):
        for value in node:
            yield from open_places(value, where)


@pytest.mark.parametrize("kind", KINDS)
def test_every_object_is_closed_but_for_free_facts(kind: str) -> None:
    for name, each in objects(kind):
        assert each["additionalProperties"] is False, name
        for key, value in each["properties"].items():
            assert set(open_places(value, f"{name}.{key}")) <= FREE.keys()


def test_the_list_of_free_facts_is_exact() -> None:
    found = {
        place
        for kind in KINDS
        for name, each in objects(kind)
        for key, value in each["properties"].items()
        for place in open_places(value, f"{name}.{key}")
    }
    assert found == FREE.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_every_property_says_what_it_is_in_plain_words_with_its_unit(kind: str) -> None:
    for name, each in objects(kind):
        assert each.get("description"), f"{name} has no docstring"
        for key, value in each["properties"].items():
            words = value.get("description", "")
            assert len(words) >= 8, f"{name}.{key} has no description"
            if key not in NO_UNIT and re.search(r'"type": "(number|integer)"', json.dumps(value)):
                assert UNIT_IN_NAME.search(key) or UNIT_IN_WORDS.search(words), f"{name}.{key} has no unit: {words}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_carries_the_version(kind: str) -> None:
    schema = result_schema(kind)
    assert schema["$id"] == f"urn:roughwater:result:{kind}:{SCHEMA_VERSION}"
    assert schema["properties"]["schema_version"]["const"] == SCHEMA_VERSION
    Draft202012Validator.check_schema(schema)


def test_each_kind_that_is_stored_has_a_schema() -> None:
    assert {shelf.kind for shelf in SHELVES if shelf not in OLD_SHELVES} | {"comparison"} == set(KINDS)
    assert {path.name for path in (project_root() / "lab" / "store").glob("*.json")} == {f"{kind}.schema.json" for kind in KINDS}
    for kind in KINDS:
        committed = json.loads((project_root() / "lab" / "store" / f"{kind}.schema.json").read_text(encoding="utf-8"))
        assert committed == result_schema(kind), f"{kind}.schema.json is stale: python -m lab.cli.schema"


def validator(kind: str) -> Draft202012Validator:
    """A validator of the published file, not of the models."""
    path = project_root() / "lab" / "store" / f"{kind}.schema.json"
    return Draft202012Validator(json.loads(path.read_text(encoding="utf-8")), format_checker=FormatChecker())


def test_real_results_keep_to_the_published_schemas(stored_1_0: Path) -> None:
    """Read by today's lab and written again, and checked by a JSON Schema validator that does not know the models."""
    seen = set()
    for folder in stored_1_0.iterdir():
        for shelf in (RUN_SHELF, CELLS, ANSWERS):
            for path in RunDir.open(folder).files(shelf.model):
                document = read_result(path, shelf.model).model_dump(mode="json")
                assert [fault.message for fault in validator(shelf.kind).iter_errors(document)] == []
                seen.add(shelf.kind)
    assert seen == {"run", "cell", "answer"}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda it: it.update(colour="green"), "colour"),
        (lambda it: it["samples"][0].update(colour="green"), "colour"),
        (lambda it: it["verdict"].update(name="MAYBE"), "MAYBE"),
        (lambda it: it.update(schema_version="0.9"), SCHEMA_VERSION),
        (lambda it: it.pop("client"), "client"),
        (lambda it: it["samples"][0].update(index=-1), "-1"),
    ],
)
def test_the_published_schema_refuses(cell: CellResult, spoil: Callable[[dict[str, Any]], object], said: str) -> None:
    document = json.loads(cell.model_dump_json())
    assert not list(validator("cell").iter_errors(document))
    spoil(document)
    assert [fault for fault in validator("cell").iter_errors(document) if said in fault.message]
