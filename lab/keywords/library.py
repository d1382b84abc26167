"""The Robot library: thin, typed keywords over `lab.runner`. All logic is in the `lab` package.

Suites import it with `Library    lab.keywords.library.LabLibrary`. Under `lab run` it uses the session that the command made;
under plain `robot` it makes one of its own and closes it at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Self

from robot.api import SkipExecution, logger
from robot.api.deco import keyword, library
from robot.libraries.BuiltIn import BuiltIn

from lab import __version__
from lab.client.registry import parse_client
from lab.errors import ClientFault, LabFault, NotSupported, UsageProblem
from lab.result.finding import Finding
from lab.result.models import CellResult
from lab.result.store import RunDir
from lab.result.study import StudyResult
from lab.runner import current, flamegraph
from lab.runner.platform import run_platform
from lab.runner.quirks import Quirk, run_quirk
from lab.runner.reproduce import Outcome, check_clients, plan, reproduce
from lab.runner.send_buffers import Off, compare_send_buffers
from lab.runner.session import Options, Session
from lab.spec.cell import parse_cell_name
from lab.spec.load import load_topology
from lab.spec.models import BoundKind, Cell, Expectation, Transfer, first_problem
from lab.spec.scenario import find_scenario
from lab.spec.study import BufferStudy
from lab.spec.units import ByteRate, Ratio, Size
from reports.cells import log_html

Protocol = Literal["http1", "https1", "h2", "sftp"]
Direction = Literal["get", "put"]
Promise = Literal["limit", "burst", "cpu", "memory"]
# Small enough that every link of the study is longer than it.
_FIXED_BUFFER = Size(64 << 10)


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
    with an error that says so). Each runs in virtual time, unless its question is about the machine.
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
        files: int = 1,
        promise: Promise = "limit",
    ) -> CellResult:
        """Transfers ``size`` under ``limit`` over the ``topology``'s link until there are enough samples for a verdict.

        ``size_known=no`` is a download whose length the server does not announce. ``files`` are that many at once, each of
        ``size`` and over HTTP each under ``limit``; over h2 they are streams of one connection.
        Passes when the interval of the mean deviation of the body rate from the limit lies inside ``tolerance``. Another
        ``promise`` is judged as by `Judge Bound`, by its default bound.

        | Judge Limited Transfer    client=ferry    topology=dsl-20    limit=8 Mbit/s    size=5 MiB    tolerance=5 % |
        """
        with _usage("no such transfer"):
            transfer = Transfer(
                protocol=protocol,
                direction=direction,
                size=size,
                limit=limit,
                chunked=not size_known,
                files=files,
                parallel=files,
            )
        return self._judge(client, topology, transfer, Expectation(kind=promise, tolerance=tolerance))

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

        Without a limit, a set of 200 files and more is judged as by `Judge File Set`. A name that ends in --burst, --memory,
        --cpu or --fill asks for that instead, by its default bound.
        ``client`` says where the cell's client is, as NAME=PATH, when it is not simply on the path.
        """
        named, topology, transfer, kind = parse_cell_name(name)
        return self._judge(client or named, topology, transfer, Expectation.of(transfer, tolerance, kind))

    @keyword(tags=("lab",))
    def reproduce_scenario(self, scenario: str) -> list[Outcome]:
        """Runs the ``scenario`` of that name (or file) on the clients that are said to have its bug, and on those said not to.

        Passes when every bad one FAILs and every good one PASSes; skipped, with the reason, where one has not been built.

        | Reproduce Scenario    upload-limit |
        """
        due = plan([find_scenario(scenario)])
        with _skipping():
            check_clients(cell for *_, cell in due)
            outcomes = reproduce(self._session(), due)
        report_scenario(outcomes)
        return outcomes

    @keyword(tags=("lab",))
    def judge_bound(
        self,
        *,
        client: str,
        topology: str,
        kind: BoundKind,
        size: Size,
        bound: float | None = None,
        protocol: Protocol = "http1",
        direction: Direction = "get",
        limit: ByteRate | None = None,
    ) -> CellResult:
        """Transfers ``size`` and judges one figure of it against a bound, each in its own unit.

        ``burst``: fastest 100 ms, after the first half second, over what ``limit`` allows, at most 1.5. ``memory``: peak
        resident set, at most
        67108864 bytes. ``cpu``: CPU seconds per second, at most 0.5. ``fill``: body rate over the link's ideal goodput, at
        least 0.8.

        | Judge Bound    client=ferry    topology=metro-200    kind=fill    size=64 MiB    bound=0.9 |
        """
        with _usage("no such transfer"):
            transfer = Transfer(protocol=protocol, direction=direction, size=size, limit=limit)
            expectation = Expectation(kind=kind, bound=bound)
        return self._judge(client, topology, transfer, expectation)

    @keyword(tags=("lab",))
    def measure_requests(
        self, *, client: str, topology: str, requests: int, size: Size, parallel: int, protocol: Protocol = "h2"
    ) -> CellResult:
        """Makes so many ``requests`` for a file of ``size``, ``parallel`` at once, over h2 on one connection.

        The answers are thrown away. Nothing is promised but that all of it arrives: requests per second, CPU and memory are in
        the result.

        | Measure Requests    client=h2load    topology=link-local    requests=50000    size=10 kB    parallel=100 |
        """
        with _usage("no such transfer"):
            transfer = Transfer(protocol=protocol, direction="get", size=size, files=requests, parallel=parallel, discard=True)
        return self._judge(client, topology, transfer, Expectation(kind="none"))

    @keyword(tags=("lab",))
    def measure_platform_work(
        self, *, client: str, topology: str, size: Size, protocol: Protocol = "h2", discard: bool = False
    ) -> Finding:
        """Downloads ``size`` to a file, or throws it away, between two measurements of the host's CPU score.

        The finding has MB/s, CPU seconds per GB, and those times the score: the MB that this processor would hash in the time.
        That last figure can be compared between hosts.

        | Measure Platform Work    client=ferry    topology=link-local    size=200 MB    discard=yes |
        """
        with _usage("no such cell"):
            transfer = Transfer(protocol=protocol, direction="get", size=size, discard=discard)
            cell = Cell(
                client=parse_client(client),
                topology=load_topology(topology),
                transfer=transfer,
                expectation=Expectation(kind="none"),
            )
        with _skipping():
            result = run_platform(self._session(), cell)
        report(result)
        return result

    @keyword(tags=("lab",))
    def compare_send_buffers(
        self,
        *,
        client: str,
        topology: str,
        size: Size,
        protocol: Protocol = "http1",
        fixed: Off | Size = _FIXED_BUFFER,
        rounds: int = 5,
    ) -> Finding:
        """Uploads ``size`` with the client host's send buffer fixed at ``fixed`` and with the automatic one, in turn.

        ``fixed=off`` leaves the host as it is: ferry is told ``--sndbuf off``, and ``--sndbuf auto`` in turn.
        Nothing is promised but that every upload is whole; time and speed-up are in the finding.

        | Compare Send Buffers    client=curl    topology=far-200    size=4 MiB    rounds=5 |
        """
        with _usage("no such transfer"):
            transfer = Transfer(protocol=protocol, direction="put", size=size)
        if rounds < 1:
            raise UsageProblem(f"{rounds} rounds are none", remedy="take five")
        with _skipping():
            result = compare_send_buffers(
                self._session(), parse_client(client), load_topology(topology), transfer, fixed=fixed, rounds=rounds
            )
        report(result)
        return result

    @keyword(tags=("lab",))
    def check_quirk(self, quirk: Quirk, *, client: str, topology: str, size: Size) -> Finding:
        """Does something to the client's network, and judges how the client takes it. The network is put back afterwards.

        ``refused``: nobody listens, at the server and at localhost; it must say so within a second more than the round trip.
        ``localhost``: it fetches from localhost, and must not ask the resolver for its address.
        ``flap``: the link is down for a second in the middle of a download; it must finish whole, or fail with an error.
        ``address``: its host gets another address meanwhile; likewise, within 60 s. All over HTTP/1.1.

        | Check Quirk    flap    client=curl    topology=dsl-20    size=8 MiB |
        """
        with _usage("no such transfer"):
            transfer = Transfer(protocol="http1", direction="get", size=size)
        with _skipping():
            result = run_quirk(self._session(), parse_client(client), load_topology(topology), transfer, quirk)
        report(result)
        return result

    def _judge(self, client: str, topology: str, transfer: Transfer, expectation: Expectation) -> CellResult:
        with _usage("no such cell"):
            cell = Cell(client=parse_client(client), topology=load_topology(topology), transfer=transfer, expectation=expectation)
        with _skipping():
            result = self._session().run_cell(cell)
        self._flamegraph(cell)
        report(result)
        return result

    def _flamegraph(self, cell: Cell) -> None:
        session = self._session()
        if session.options.flamegraph is not None:
            flamegraph.record(session, cell, session.options.flamegraph)

    def _session(self) -> Session:
        session = current.get()
        if session is not None:
            return session
        if self._own is None:
            self._own = Session(RunDir.create("robot"), Options(clock="auto"))
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


def report(result: CellResult | StudyResult | Finding) -> None:
    """Turn a verdict into Robot's own: message, tag and outcome."""
    robot = BuiltIn()
    verdict = result.verdict
    transfer = result.transfer
    robot.set_tags(f"verdict:{verdict.name}", f"direction:{transfer.direction}", f"protocol:{transfer.protocol}")
    robot.set_suite_metadata("Client", f"{result.client.name} {result.client.version}", top=True)
    message = f"{verdict.name}: {verdict.reason} [{result.id}]"
    shown = log_html(result, message) if isinstance(result, CellResult) else ""
    outcomes: dict[str, Any] = {"FAIL": ClientFault, "INVALID": LabFault, "INCONCLUSIVE": SkipExecution}
    if verdict.name in outcomes:
        # Plain: xunit.xml has this message too. Robot unfolds the log of what failed, and the plot is there.
        logger.info(shown or message, html=bool(shown))
        raise outcomes[verdict.name](message)
    robot.set_test_message(f"*HTML*{shown}" if shown else message)


def report_scenario(outcomes: Sequence[Outcome]) -> None:
    """Several verdicts are one of Robot's: the worst of what was not as expected."""
    robot = BuiltIn()
    robot.set_tags(*dict.fromkeys(f"client:{each.client}" for each in outcomes))
    for found, error in ((("PASS", "FAIL"), ClientFault), (("INVALID",), LabFault), (("INCONCLUSIVE",), SkipExecution)):
        if others := [str(each) for each in outcomes if not each.as_expected and each.found in found]:
            raise error("; ".join(others))
    robot.set_test_message("; ".join(f"{each.client} {each.found}: {each.figure}" for each in outcomes))
