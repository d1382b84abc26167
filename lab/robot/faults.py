"""The keyword of the suite `faults`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from robot.api.deco import keyword

from lab.clients.registry import parse_client
from lab.model.answer import Fault
from lab.model.base import first_problem
from lab.model.errors import UsageProblem
from lab.model.load import load_topology
from lab.model.transfer import Transfer
from lab.model.units import Size
from lab.robot.declared import QUESTION
from lab.run.questions import FaultQuestion, Question, Result


class FaultKeywords:
    """A row is one fault of one client, protocol and direction."""

    @abstractmethod
    def _answer(self, question: Question, why: str = "") -> Result: ...

    @keyword(tags=(QUESTION,))
    def exit_code_should_be_true(
        self,
        fault: Fault,
        protocol: Literal["http1", "https1", "h2", "sftp"],
        direction: Literal["get", "put"],
        *,
        client: str,
        topology: str,
        size: Size,
        seeds: int = 3,
    ) -> Result:
        """Transfers a file with a ``fault``, ``seeds`` times, each at another byte, and looks at what the client says.

        Passes when each run with exit code 0 left an identical file where it belongs. A run that ends with another exit code is
        right as such. One that does not end within 20 minutes fails. Skipped where the client or the protocol cannot have it.

        | Exit Code Should Be True    rst    sftp    put    client=curl    topology=dsl-20    size=1 MiB |
        """
        if seeds < 1:
            raise UsageProblem(f"seeds={seeds}: at least one transfer is needed", remedy="use seeds=3")
        try:
            transfer = Transfer(protocol=protocol, direction=direction, size=size)
        except ValueError as problem:
            raise UsageProblem(f"no such transfer: {first_problem(problem)}") from None
        return self._answer(FaultQuestion(parse_client(client), load_topology(topology), transfer, fault, seeds))
