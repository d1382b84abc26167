"""JSON Schemas, generated from the models: for editors of topologies, clients and scenarios, and for readers of results.

`python -m lab.spec.schema` rewrites all files; a unit test compares them with the generator.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.paths import project_root, repros_dir, shipped_clients_dir, topologies_dir
from lab.spec.models import Topology
from lab.spec.scenario import Scenario

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def topology_schema() -> dict[str, Any]:
    return {"$schema": _DIALECT, **Topology.model_json_schema()}


def scenario_schema() -> dict[str, Any]:
    return {"$schema": _DIALECT, **Scenario.model_json_schema()}


def client_schema() -> dict[str, Any]:
    """The schema of a file that describes a client; imported late, because clients stand above the spec."""
    from lab.client.data_spec import ClientFile

    return {"$schema": _DIALECT, **ClientFile.model_json_schema()}


def cell_schema() -> dict[str, Any]:
    """The schema of one result file; imported late, because results stand above the spec."""
    from lab.result.models import CellResult

    return {"$schema": _DIALECT, **CellResult.model_json_schema(mode="serialization")}


def run_schema() -> dict[str, Any]:
    """The schema of run.json; imported late, because results stand above the spec."""
    from lab.result.models import RunRecord

    return {"$schema": _DIALECT, **RunRecord.model_json_schema(mode="serialization")}


def study_schema() -> dict[str, Any]:
    """The schema of one study's result file."""
    from lab.result.study import StudyResult

    return {"$schema": _DIALECT, **StudyResult.model_json_schema(mode="serialization")}


def pair_schema() -> dict[str, Any]:
    """The schema of the result file of two clients side by side."""
    from lab.result.qualification import PairResult

    return {"$schema": _DIALECT, **PairResult.model_json_schema(mode="serialization")}


def finding_schema() -> dict[str, Any]:
    """The schema of the result file of a study that is no cell."""
    from lab.result.finding import Finding

    return {"$schema": _DIALECT, **Finding.model_json_schema(mode="serialization")}


def qualification_schema() -> dict[str, Any]:
    """The schema of what a release came to."""
    from lab.result.qualification import Qualification

    return {"$schema": _DIALECT, **Qualification.model_json_schema(mode="serialization")}


def files() -> dict[Path, dict[str, Any]]:
    """Every generated file and what belongs in it."""
    return {
        topologies_dir() / "topology.schema.json": topology_schema(),
        repros_dir() / "scenario.schema.json": scenario_schema(),
        shipped_clients_dir() / "client.schema.json": client_schema(),
        project_root() / "lab" / "result" / "cell.schema.json": cell_schema(),
        project_root() / "lab" / "result" / "run.schema.json": run_schema(),
        project_root() / "lab" / "result" / "study.schema.json": study_schema(),
        project_root() / "lab" / "result" / "pair.schema.json": pair_schema(),
        project_root() / "lab" / "result" / "finding.schema.json": finding_schema(),
        project_root() / "lab" / "result" / "qualification.schema.json": qualification_schema(),
    }


def render(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def main() -> None:
    for path, schema in files().items():
        path.write_text(render(schema), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
