"""JSON Schemas, generated from the models: for editors of topologies, clients and scenarios, and for readers of results.

`python -m lab.spec.schema` rewrites all files; a unit test compares them with the generator.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

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


def result_models() -> dict[str, type[BaseModel]]:
    """The model of each kind of result file, and of what `lab compare --json` prints; results stand above the spec."""
    from lab.result.comparison import Comparison
    from lab.result.store import SHELVES

    return {**{shelf.kind: shelf.model for shelf in SHELVES}, "comparison": Comparison}


def result_schema(kind: str) -> dict[str, Any]:
    """The schema of one kind of result; its `$id` carries the version."""
    from lab.result.models import SCHEMA_VERSION

    made = result_models()[kind].model_json_schema(mode="serialization")
    return {"$schema": _DIALECT, "$id": f"urn:throughline:result:{kind}:{SCHEMA_VERSION}", **made}


def files() -> dict[Path, dict[str, Any]]:
    """Every generated file and what belongs in it."""
    results = project_root() / "lab" / "result"
    return {
        topologies_dir() / "topology.schema.json": topology_schema(),
        repros_dir() / "scenario.schema.json": scenario_schema(),
        shipped_clients_dir() / "client.schema.json": client_schema(),
        **{results / f"{kind}.schema.json": result_schema(kind) for kind in result_models()},
    }


def render(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def main() -> None:
    for path, schema in files().items():
        path.write_text(render(schema), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
