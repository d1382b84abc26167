"""The Robot library: thin, typed keywords over `lab.runner`. All logic is in the `lab` package.

Suites import it with `Library    lab.keywords.library.LabLibrary`. Under `lab run` it uses the session that the command made;
under plain `robot` it makes one of its own and closes it at the end.
"""

from __future__ import annotations

from typing import Any, Literal

from robot.api import SkipExecution
from robot.api.deco import keyword, library
from robot.libraries.BuiltIn import BuiltIn

from lab import __version__
from lab.errors import ClientFault, LabFault, UsageProblem
from lab.result.models import CellResult
from lab.result.store import RunDir
from lab.runner import current
from lab.runner.session import Session
from lab.spec.cell import parse_cell_name
from lab.spec.load import load_topology
from lab.spec.models import Cell, ClientSpec, Expectation, Transfer, first_problem
from lab.spec.units import ByteRate, Ratio, Size


@library(
    scope="GLOBAL",
    version=__version__,
    converters={ByteRate: ByteRate.parse, Size: Size.parse, Ratio: Ratio.parse},
    listener="SELF",
)
class LabLibrary:
    """Keywords that run cells and judge them.

    A cell is one client on one link with one transfer; its verdict is PASS, FAIL, INCONCLUSIVE (the test is skipped, with
    the reason) or INVALID (the lab was at fault: the test fails with an error that says so).
    """

    ROBOT_LISTENER_API_VERSION = 3

    def __init__(self) -> None:
        self._own: Session | None = None

    @keyword(tags=("lab",))
    def judge_limited_transfer(
        self,
        *,
        client: str,
        topology: str,
        limit: ByteRate,
        size: Size,
        tolerance: Ratio,
        protocol: Literal["http1", "https1", "h2", "sftp"] = "http1",
        direction: Literal["get", "put"] = "get",
        size_known: bool = True,
    ) -> CellResult:
        """Transfers ``size`` under ``limit`` over the ``topology``'s link until there are enough samples for a verdict.

        ``size_known=no`` is a download whose length the server does not announce.
        Passes when the interval of the mean deviation of the body rate from the limit lies inside ``tolerance``.

        | Judge Limited Transfer    client=ferry    topology=dsl-20    limit=8 Mbit/s    size=5 MiB    tolerance=5 % |
        """
        try:
            transfer = Transfer(protocol=protocol, direction=direction, size=size, limit=limit, chunked=not size_known)
        except ValueError as problem:
            raise UsageProblem(f"no such transfer: {first_problem(problem)}") from None
        return self._judge(client, topology, transfer, Expectation(tolerance=tolerance))

    @keyword(tags=("lab",))
    def judge_cell(self, name: str, *, tolerance: Ratio = Ratio(0.05), client: str = "") -> CellResult:
        """Runs the cell called ``name`` (client--topology--transfer) and judges it against its own limit, if it has one.

        ``client`` says where the cell's client is, as NAME=PATH, when it is not simply on the path.
        """
        named, topology, transfer = parse_cell_name(name)
        kind: Literal["limit", "none"] = "limit" if transfer.limit else "none"
        return self._judge(client or named, topology, transfer, Expectation(kind=kind, tolerance=tolerance))

    def _judge(self, client: str, topology: str, transfer: Transfer, expectation: Expectation) -> CellResult:
        cell = Cell(client=ClientSpec.parse(client), topology=load_topology(topology), transfer=transfer, expectation=expectation)
        result = self._session().run_cell(cell)
        report(result)
        return result

    def _session(self) -> Session:
        session = current.get()
        if session is not None:
            return session
        if self._own is None:
            self._own = Session(RunDir.create("robot"))
        return self._own

    def close(self) -> None:
        """Listener hook: Robot is done."""
        if self._own is not None:
            self._own.close()
            self._own = None


def parse_client(text: str) -> ClientSpec:
    """As `ClientSpec.parse`, in the lab's own error."""
    try:
        return ClientSpec.parse(text)
    except ValueError as error:
        raise UsageProblem(str(error)) from None


def report(result: CellResult) -> None:
    """Turn a verdict into Robot's own: message, tag and outcome."""
    robot = BuiltIn()
    verdict = result.verdict
    transfer = result.transfer
    robot.set_tags(f"verdict:{verdict.name}", f"direction:{transfer.direction}", f"protocol:{transfer.protocol}")
    robot.set_suite_metadata("Client", f"{result.client.name} {result.client.version}", top=True)
    message = f"{verdict.name}: {verdict.reason} [{result.id}]"
    outcomes: dict[str, Any] = {"FAIL": ClientFault, "INVALID": LabFault, "INCONCLUSIVE": SkipExecution}
    if verdict.name in outcomes:
        raise outcomes[verdict.name](message)
    robot.set_test_message(message)
