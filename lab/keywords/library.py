"""The Robot library: thin, typed keywords over `lab.runner`. All logic is in the `lab` package.

Suites import it with `Library    lab.keywords.library.LabLibrary`. Under `lab run` it uses the session that the command made;
under plain `robot` it makes one of its own and closes it at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self

from robot.api import SkipExecution
from robot.api.deco import keyword, library
from robot.libraries.BuiltIn import BuiltIn

from lab import __version__
from lab.client.registry import parse_client
from lab.errors import ClientFault, LabFault, NotSupported, UsageProblem
from lab.result.models import CellResult
from lab.result.store import RunDir
from lab.result.study import StudyResult
from lab.runner import current
from lab.runner.session import Session
from lab.spec.cell import parse_cell_name
from lab.spec.load import load_topology
from lab.spec.models import Cell, Expectation, Transfer, first_problem
from lab.spec.study import BufferStudy
from lab.spec.units import ByteRate, Ratio, Size

Protocol = Literal["http1", "https1", "h2", "sftp"]
Direction = Literal["get", "put"]


class Sizes(tuple[Size, ...]):
    """Several sizes, with commas between them: ``16 KiB, 1 MiB``."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(Size.parse(part) for part in text.split(","))


@library(
    scope="GLOBAL",
    version=__version__,
    converters={ByteRate: ByteRate.parse, Size: Size.parse, Sizes: Sizes.parse, Ratio: Ratio.parse},
    listener="SELF",
)
class LabLibrary:
    """Keywords that run cells and studies, and judge them.

    A cell is one client on one link with one transfer; a study is several cells that differ in one thing, run interleaved. The
    verdict is PASS, FAIL, INCONCLUSIVE (the test is skipped, with the reason) or INVALID (the lab was at fault: the test fails
    with an error that says so).
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
        protocol: Protocol = "http1",
        direction: Direction = "get",
        size_known: bool = True,
    ) -> CellResult:
        """Transfers ``size`` under ``limit`` over the ``topology``'s link until there are enough samples for a verdict.

        ``size_known=no`` is a download whose length the server does not announce.
        Passes when the interval of the mean deviation of the body rate from the limit lies inside ``tolerance``.

        | Judge Limited Transfer    client=ferry    topology=dsl-20    limit=8 Mbit/s    size=5 MiB    tolerance=5 % |
        """
        with _usage("no such transfer"):
            transfer = Transfer(protocol=protocol, direction=direction, size=size, limit=limit, chunked=not size_known)
        return self._judge(client, topology, transfer, Expectation(tolerance=tolerance))

    @keyword(tags=("lab",))
    def judge_buffer_sizes(
        self,
        *,
        client: str,
        topology: str,
        size: Size,
        buffers: Sizes,
        protocol: Protocol = "sftp",
        direction: Direction = "put",
        floor: Ratio = Ratio(0.9),
    ) -> StudyResult:
        """Transfers ``size`` with each of the client's ``buffers`` in turn, round by round, until there are enough for a verdict.

        Passes when the lower end of the interval of the slowest buffer's mean throughput over the fastest's is at least
        ``floor``. Buffers that the client cannot be given are left out, and named in the verdict's notes; fewer than two that are
        left are an error.

        | Judge Buffer Sizes    client=ferry    topology=far-200    size=64 MiB    buffers=16 KiB, 1 MiB, 16 MiB    floor=90 % |
        """
        with _usage("no such study"):
            transfer = Transfer(protocol=protocol, direction=direction, size=size)
            study = BufferStudy(
                client=parse_client(client),
                topology=load_topology(topology),
                transfer=transfer,
                buffers=tuple(buffers),
                floor=floor,
            )
        with _skipping():
            result = self._session().run_study(study)
        report(result)
        return result

    @keyword(tags=("lab",))
    def judge_file_set(
        self,
        *,
        client: str,
        topology: str,
        files: int,
        size: Size,
        direction: Direction = "put",
        tolerance: Ratio = Ratio(0.05),
    ) -> CellResult:
        """Transfers a set of ``files`` of ``size`` each over SFTP, in one run of the client, until there are enough samples.

        Every file must arrive whole. In a set of 200 and more the last hundred files must also be as fast as the first: it passes
        when the upper end of the interval of their mean time per file over the first hundred's is at most ``tolerance`` above 1.

        | Judge File Set    client=ferry    topology=metro-200    direction=put    files=1000    size=20 kB    tolerance=5 % |
        """
        with _usage("no such transfer"):
            transfer = Transfer(protocol="sftp", direction=direction, size=size, files=files)
        return self._judge(client, topology, transfer, Expectation.of(transfer, tolerance))

    @keyword(tags=("lab",))
    def judge_cell(self, name: str, *, tolerance: Ratio = Ratio(0.05), client: str = "") -> CellResult:
        """Runs the cell called ``name`` (client--topology--transfer) and judges it against its own limit, if it has one.

        Without a limit, a set of 200 files and more is judged as by `Judge File Set`.
        ``client`` says where the cell's client is, as NAME=PATH, when it is not simply on the path.
        """
        named, topology, transfer = parse_cell_name(name)
        return self._judge(client or named, topology, transfer, Expectation.of(transfer, tolerance))

    def _judge(self, client: str, topology: str, transfer: Transfer, expectation: Expectation) -> CellResult:
        cell = Cell(client=parse_client(client), topology=load_topology(topology), transfer=transfer, expectation=expectation)
        with _skipping():
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


@contextmanager
def _usage(what: str) -> Iterator[None]:
    """A value that makes no sense with the others is the user's problem, told in one line."""
    try:
        yield
    except ValueError as problem:
        raise UsageProblem(f"{what}: {first_problem(problem)}") from None


@contextmanager
def _skipping() -> Iterator[None]:
    """What the client cannot do is no fault of anyone's: the test is skipped, with the reason."""
    try:
        yield
    except NotSupported as reason:
        raise SkipExecution(str(reason)) from None


def report(result: CellResult | StudyResult) -> None:
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
