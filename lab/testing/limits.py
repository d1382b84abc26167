"""`assert_limit_kept`: a cell with its samples, and its verdict as an exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ruamel.yaml import YAML

from lab.clients.registry import parse_client
from lab.model.base import first_problem
from lab.model.cell import Cell
from lab.model.errors import EXIT_INCONCLUSIVE, ClientFault, LabFault, RoughwaterError, UsageProblem
from lab.model.results import CellResult
from lab.model.topology import Topology
from lab.model.transfer import Expectation, Transfer
from lab.run.questions import CellQuestion
from lab.run.session import Session


class Undecided(RoughwaterError):
    """INCONCLUSIVE: the interval straddles the band after the last sample."""

    exit_code = EXIT_INCONCLUSIVE


class LimitKept:
    """Call it with a client and a limit."""

    def __init__(self, session: Session, topology: Topology, folders: pytest.TempPathFactory) -> None:
        self._session, self._topology, self._folders = session, topology, folders

    def __call__(
        self,
        client: str | Mapping[str, Any],
        *,
        limit: str,
        size: str = "5 MiB",
        protocol: str = "http1",
        direction: str = "get",
        tolerance: str = "5 %",
    ) -> CellResult:
        """The cell's result where the mean rate is proven to lie within the tolerance of the limit.

        `client` is what `--client` takes, or the fields of a client's file. Raises ClientFault (FAIL), Undecided (INCONCLUSIVE),
        LabFault (INVALID), NotSupported where the client cannot do it, UsageProblem for what makes no sense. A result of the same
        client, network and transfer earlier in this run is replaced.
        """
        spec = parse_client(client if isinstance(client, str) else self._written(client))
        try:
            transfer = Transfer.model_validate({"protocol": protocol, "direction": direction, "size": size, "limit": limit})
            expectation = Expectation.model_validate({"kind": "limit", "tolerance": tolerance})
            cell = Cell(client=spec, topology=self._topology, transfer=transfer, expectation=expectation)
        except ValueError as problem:
            raise UsageProblem(f"no such transfer: {first_problem(problem)}") from None
        found = CellQuestion(cell).ask(self._session)
        said = f"{found.verdict.name}: {found.verdict.reason} [{found.id}]"
        match found.verdict.name:
            case "FAIL":
                raise ClientFault(said)
            case "INVALID":
                raise LabFault(said)
            case "INCONCLUSIVE":
                raise Undecided(said)
        return found

    def _written(self, client: Mapping[str, Any]) -> str:
        """The path of a client's file with these fields."""
        path = self._folders.mktemp("client") / f"{client.get('name', 'client')}.yaml"
        with path.open("w", encoding="utf-8") as out:
            YAML(typ="safe").dump(dict(client), out)
        return str(path)
