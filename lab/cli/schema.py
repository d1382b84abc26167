"""JSON Schemas generated from the models, for topologies, clients, endpoints and results.

`python -m lab.cli.schema` rewrites all files; a unit test compares them with the generator.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from lab.model.paths import package_root, shipped_clients_dir, shipped_endpoints_dir, shipped_topologies_dir
from lab.model.topology import Topology

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def topology_schema() -> dict[str, Any]:
    return {"$schema": _DIALECT, **Topology.model_json_schema()}


def client_schema() -> dict[str, Any]:
    """The schema of a file that describes a client."""
    from lab.model.client import ClientFile

    return {"$schema": _DIALECT, **ClientFile.model_json_schema()}


def endpoint_schema() -> dict[str, Any]:
    """The schema of a file that describes a server."""
    from lab.model.endpoint import EndpointFile

    return {"$schema": _DIALECT, **EndpointFile.model_json_schema()}


def result_models() -> dict[str, type[BaseModel]]:
    """The model of each kind of result file, and of the output of `lab compare --json`."""
    from lab.model.answer import Answer
    from lab.model.comparison import Comparison
    from lab.model.results import CellResult, RunRecord

    return {"cell": CellResult, "answer": Answer, "run": RunRecord, "comparison": Comparison}


def result_schema(kind: str) -> dict[str, Any]:
    """The schema of one kind of result; its `$id` carries the version."""
    from lab.model.results import SCHEMA_VERSION

    made = result_models()[kind].model_json_schema(mode="serialization")
    return {"$schema": _DIALECT, "$id": f"urn:roughwater:result:{kind}:{SCHEMA_VERSION}", **made}


def files() -> dict[Path, dict[str, Any]]:
    """Every generated file and its content."""
    results = package_root() / "lab" / "store"
    return {
        shipped_topologies_dir() / "topology.schema.json": topology_schema(),
        shipped_clients_dir() / "client.schema.json": client_schema(),
        shipped_endpoints_dir() / "endpoint.schema.json": endpoint_schema(),
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
