"""The keywords of the suites `faults` and `windows-quirks`: something happens to a transfer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from robot.api.deco import keyword

from lab.clients.registry import parse_client
from lab.model.answer import Event, Fault
from lab.model.base import first_problem
from lab.model.errors import UsageProblem
from lab.model.load import load_topology
from lab.model.transfer import Transfer
from lab.model.units import Size
from lab.robot.declared import QUESTION
from lab.run.events.quirks import INTERRUPTIONS
from lab.run.questions import EventQuestion, FaultQuestion, Question, Result


class FaultKeywords:
    """A row is one fault, or one event, of one client, protocol and direction."""

    @abstractmethod
    def _answer(self, question: Question, why: str = "") -> Result: ...

    @keyword(tags=(QUESTION,))
    def exit_code_should_be_true(
        self,
        fault: Fault,
        protocol: Literal["http1", "https1", "h2", "h3", "sftp"],
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
        transfer = _transfer(protocol, direction, size)
        return self._answer(FaultQuestion(parse_client(client), load_topology(topology), transfer, fault, seeds))

    @keyword(tags=(QUESTION,))
    def check_quirk(
        self,
        quirk: Event,
        protocol: Literal["http1", "https1", "h2", "h3", "sftp"] = "http1",
        direction: Literal["get", "put"] = "get",
        *,
        client: str,
        topology: str,
        size: Size,
    ) -> Result:
        """Does something to the client's network, and judges how the client takes it. The network is put back afterwards.

        ``refused``: no server listens, at the server and at localhost; it must say so within a second more than the round trip.
        ``silent``: the server drops every SYN; it must give up in time, with its own connect time-out of 5 s and without.
        ``fallback``: only one of localhost's two addresses serves; it must use that within 2 s (topology same-host).
        ``localhost``: it fetches from localhost, and must not ask the resolver for its address.
        ``flap``: the link is down for a second in the middle of a transfer; it must finish intact, or fail with an error.
        ``address``: its host gets another address meanwhile; the same, within 60 s.

        These two are asked of any ``protocol`` and ``direction``, the others of a download over HTTP/1.1.

        | Check Quirk    flap    client=curl    topology=dsl-20    size=8 MiB |
        """
        transfer = _transfer(protocol, direction, size)
        if (protocol, direction) != ("http1", "get") and quirk not in INTERRUPTIONS:
            raise UsageProblem(f"{quirk} is about the beginning of a download over HTTP/1.1", remedy="leave the protocol out")
        return self._answer(EventQuestion(parse_client(client), load_topology(topology), transfer, quirk))


def _transfer(protocol: Literal["http1", "https1", "h2", "h3", "sftp"], direction: Literal["get", "put"], size: Size) -> Transfer:
    try:
        return Transfer(protocol=protocol, direction=direction, size=size)
    except ValueError as problem:
        raise UsageProblem(f"no such transfer: {first_problem(problem)}") from None
