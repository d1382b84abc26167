"""The Robot library: thin, typed keywords over `lab.run`. All logic is in the `lab` package.

Suites import it with `Library    lab.robot.library.LabLibrary`. Under `lab run` it uses the session that the command made; under
plain `robot` it makes a run of its own, with the same lock, host watch and reports, and ends it when Robot is done.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, Self

from robot.api import SkipExecution
from robot.api.deco import keyword, library
from robot.libraries.BuiltIn import BuiltIn
from robot.running.context import EXECUTION_CONTEXTS

from lab import __version__
from lab.clients.registry import parse_client
from lab.hosts.agent.router import RouterChoice
from lab.hosts.choose import BackendChoice
from lab.model.answer import Answer
from lab.model.base import first_problem
from lab.model.cell import Cell
from lab.model.cell_name import parse_cell_name, parse_transfer
from lab.model.clock import ClockChoice
from lab.model.endpoint import ProtocolName
from lab.model.errors import NotSupported, RoughwaterError, UsageProblem
from lab.model.load import load_topology
from lab.model.scenario import Scenario
from lab.model.study import BufferStudy
from lab.model.transfer import BoundKind, Expectation, Transfer
from lab.model.units import BitRate, ByteRate, Duration, Ratio, Size
from lab.robot import current
from lab.robot.declared import QUESTION, Declared, NotedError
from lab.robot.faults import FaultKeywords
from lab.robot.outcome import report, report_scenario
from lab.robot.steps import StepKeywords
from lab.robot.tables import questions_of
from lab.run.events.send_buffers import Off
from lab.run.measured import measured_run
from lab.run.progress import Lines
from lab.run.questions import (
    Asking,
    BufferQuestion,
    CellQuestion,
    PlatformQuestion,
    Question,
    Result,
    SendBufferQuestion,
    same_work,
)
from lab.run.release import ReleaseRow
from lab.run.reproduce import check_clients, plan, reproduce
from lab.run.settings import WAIT, choose
from reports.files import make_reports

Direction = Literal["get", "put"]
Promise = Literal["limit", "overall", "burst", "cpu", "memory"]
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
    converters={
        BitRate: BitRate.parse,
        ByteRate: ByteRate.parse,
        Size: Size.parse,
        Sizes: Sizes.parse,
        Ratio: Ratio.parse,
        Duration: Duration.parse,
    },
    listener="SELF",
)
class LabLibrary(StepKeywords, FaultKeywords):
    """Keywords that run cells and studies, and judge them.

    A cell is one client on one link with one transfer; a study is several cells that differ in one thing, run interleaved. The
    verdict is PASS, FAIL, INCONCLUSIVE (the test is skipped, with the reason) or INVALID (the lab was at fault: the test fails
    with an error that says so). Each runs in virtual time, unless its question is about the machine.

    Keywords tagged ``question`` are complete: one row of a table each. Those tagged ``step`` are for tests of your own, such as a
    link that changes in the middle of a transfer; they take single samples and judge them as you say.

    Under ``lab run`` the command's options hold. Under plain ``robot`` they are arguments of the import, or environment
    variables (``ROUGHWATER_CLOCK``, ``_BACKEND``, ``_ROUTER``, ``_SEED``, ``_WAIT``, ``_BESIDE``, ``_ANY_HOST``), with the
    names and values of the command's.

    | Library    lab.robot.library.LabLibrary    clock=real    backend=compose |
    """

    ROBOT_LISTENER_API_VERSION = 3

    def __init__(
        self,
        *,
        clock: ClockChoice | None = None,
        backend: BackendChoice | None = None,
        router: RouterChoice | None = None,
        seed: int | None = None,
        wait: Duration | None = None,
        beside: bool | None = None,
        any_host: bool | None = None,
    ) -> None:
        self.noted: list[Declared] | None = None
        self._given = (clock, backend, router, seed, wait, beside, any_host)
        self._own: Asking | None = None
        self._stack = ExitStack()

    @keyword(tags=(QUESTION,))
    def judge_limited_transfer(
        self,
        *,
        client: str,
        topology: str,
        limit: ByteRate,
        size: Size,
        tolerance: Ratio,
        protocol: ProtocolName = "http1",
        direction: Direction = "get",
        size_known: bool = True,
        files: int = 1,
        promise: Promise = "limit",
    ) -> Result:
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

    @keyword(tags=(QUESTION,))
    def judge_buffer_sizes(
        self,
        *,
        client: str,
        topology: str,
        size: Size,
        buffers: Sizes,
        protocol: ProtocolName = "sftp",
        direction: Direction = "put",
        floor: Ratio = Ratio(0.9),
    ) -> Result:
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
        return self._answer(BufferQuestion(study))

    @keyword(tags=(QUESTION,))
    def judge_file_set(
        self,
        *,
        client: str,
        topology: str,
        files: int,
        size: Size,
        direction: Direction = "put",
        tolerance: Ratio = Ratio(0.05),
    ) -> Result:
        """Transfers a set of ``files`` of ``size`` each over SFTP, in one run of the client, until there are enough samples.

        Every file must arrive intact. In a set of 200 and more the last hundred files must also be as fast as the first: it
        passes when the upper end of the interval of their mean time per file over the first hundred's is at most ``tolerance``
        above 1.

        | Judge File Set    client=ferry    topology=metro-200    direction=put    files=1000    size=20 kB    tolerance=5 % |
        """
        with _usage("no such transfer"):
            transfer = Transfer(protocol="sftp", direction=direction, size=size, files=files)
        return self._judge(client, topology, transfer, Expectation.of(transfer, tolerance))

    @keyword(tags=(QUESTION,))
    def judge_cell(self, name: str, *, tolerance: Ratio = Ratio(0.05), client: str = "") -> Result:
        """Runs the cell called ``name`` (client--topology--transfer) and judges it against its own limit, if it has one.

        Without a limit, a set of 200 files and more is judged as by `Judge File Set`. A name that ends in --burst, --memory,
        --cpu or --fill asks for that instead, by its default bound.
        ``client`` says where the cell's client is, as NAME=PATH, when it is not simply on the path.
        """
        named, topology, transfer, kind = parse_cell_name(name)
        return self._judge(client or named, topology, transfer, Expectation.of(transfer, tolerance, kind))

    @keyword(tags=(QUESTION,))
    def judge_release_row(self, name: str, *, client: str, why: str, buffers: str = "") -> Result:
        """Runs the cell TOPOLOGY--TRANSFER[--KIND] of a release's set on ``client``, or with each of ``buffers``.

        ``why`` is the reason for the row. `lab qualify` runs such rows next to a baseline.

        | Judge Release Row    dsl-50--http1-get-5MiB-at-2MBps    client=ferry    why=the limit is kept |
        """
        with _usage("no such row"):
            row = ReleaseRow.named(name, why, [part.strip() for part in buffers.split(",") if part.strip()])
            spec = parse_client(client)
        question = BufferQuestion(row.study(spec)) if row.buffers else CellQuestion(row.cell(spec))
        return self._answer(question, why)

    @keyword(tags=(QUESTION,))
    def reproduce_bug(  # noqa: PLR0917 - the columns of a table
        self, name: str, topology: str, transfer: str, expect: str, bad: str, good: str, report: str, *symptom: str
    ) -> list[Answer]:
        """Runs one cell on the clients that are said to have a bug, and on those said not to.

        ``transfer`` is that part of a cell's name. ``expect`` is ``limit``, ``burst``, ``memory``, ``cpu`` or ``fill``, with a
        bound at its end where the default does not apply: ``fill at least 0.5``. ``bad`` and ``good`` are clients with commas
        between them, or ``none``. ``report`` is a link, or ``none``; ``symptom`` is what was reported. Passes when every bad
        client FAILs and every good one PASSes; skipped, with the reason, where one has not been built.

        | Reproduce Bug    mine    dsl-50    http1-put-1999999B-at-1MBps    limit    curl@8.22.0    curl@8.17.0    none |
        """
        with _usage("no such bug"):
            moved = parse_transfer(transfer)
            scenario = Scenario(
                name=name,
                symptom=" ".join(symptom),
                report="" if report == "none" else report,
                topology=topology,
                transfer=moved,
                expect=_expected(expect),
                good=_listed(good),
                bad=_listed(bad),
            )
        due = plan([scenario])
        self._note(Declared(tuple(CellQuestion(cell) for *_, cell in due), scenario=scenario))
        with _skipping():
            check_clients(cell for *_, cell in due)
            outcomes = reproduce(self.asking, due)
        report_scenario(outcomes)
        return outcomes

    @keyword(tags=(QUESTION,))
    def judge_bound(
        self,
        *,
        client: str,
        topology: str,
        kind: BoundKind,
        size: Size,
        bound: float | None = None,
        protocol: ProtocolName = "http1",
        direction: Direction = "get",
        limit: ByteRate | None = None,
    ) -> Result:
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

    @keyword(tags=(QUESTION,))
    def measure_requests(
        self, *, client: str, topology: str, requests: int, size: Size, parallel: int, protocol: ProtocolName = "h2"
    ) -> Result:
        """Makes this many ``requests`` for a file of ``size``, ``parallel`` at once, over h2 on one connection.

        The answers are thrown away. Nothing is promised but that all of it arrives: requests per second, CPU and memory are in
        the result.

        | Measure Requests    client=h2load    topology=link-local    requests=50000    size=10 kB    parallel=100 |
        """
        with _usage("no such transfer"):
            transfer = Transfer(protocol=protocol, direction="get", size=size, files=requests, parallel=parallel, discard=True)
        return self._judge(client, topology, transfer, Expectation(kind="none"))

    @keyword(tags=(QUESTION,))
    def compare_requests(  # noqa: PLR0917 - the columns of a table
        self,
        topology: str,
        protocol: ProtocolName,
        requests: int,
        parallel: int,
        rounds: int,
        answers: str,
        *clients: str,
        size: Size,
    ) -> Result:
        """Makes ``requests`` for a file of ``size`` by each of ``clients``, one run of each per round, interleaved.

        ``answers`` says what becomes of them: ``null`` writes them to the null device, ``none`` opens no file at all (curl's
        --out-null, since 8.16), ``files`` keeps each in a file of its own, which is checked. Several, with commas between them,
        are compared as well. The result has requests per second, CPU seconds per 1000 requests and peak memory of each, and
        the ratios to the first with 90 % intervals. Nothing is promised but that every answer arrives.

        | Compare Requests    same-host    h2    50000    100    7    null    curl@8.14.1    curl@8.15.0    size=10 kB |
        """
        with _usage("no such comparison"):
            work = Transfer(protocol=protocol, direction="get", size=size, files=requests, parallel=parallel, discard=True)
            cells = [_cell(client, topology, work, Expectation(kind="none")) for client in clients]
            question = same_work(cells, _listed(answers), rounds)
        self._note(Declared((question,)))
        with _skipping():
            check_clients(question.arms)
        return self._answer(question)

    @keyword(tags=(QUESTION,))
    def measure_platform_work(
        self, *, client: str, topology: str, size: Size, protocol: ProtocolName = "h2", discard: bool = False
    ) -> Result:
        """Downloads ``size`` to a file, or throws it away, between two measurements of the host's CPU score.

        The answer has MB/s, CPU seconds per GB, and those times the score: the MB that this processor would hash in the time.
        That last figure can be compared between hosts.

        | Measure Platform Work    client=ferry    topology=link-local    size=200 MB    discard=yes |
        """
        with _usage("no such transfer"):
            transfer = Transfer(protocol=protocol, direction="get", size=size, discard=discard)
        return self._answer(PlatformQuestion(_cell(client, topology, transfer, Expectation(kind="none"))))

    @keyword(tags=(QUESTION,))
    def compare_send_buffers(
        self,
        *,
        client: str,
        topology: str,
        size: Size,
        protocol: ProtocolName = "http1",
        fixed: Off | Size = _FIXED_BUFFER,
        rounds: int = 5,
    ) -> Result:
        """Uploads ``size`` with the client host's send buffer fixed at ``fixed`` and with the automatic one, in turn.

        ``fixed=off`` does not change the host: ferry runs with ``--sndbuf off`` and ``--sndbuf auto`` in turn.
        Every upload must arrive; time and speed-up are in the answer.

        | Compare Send Buffers    client=curl    topology=far-200    size=4 MiB    rounds=5 |
        """
        with _usage("no such transfer"):
            transfer = Transfer(protocol=protocol, direction="put", size=size)
        if rounds < 1:
            raise UsageProblem(f"rounds={rounds}: at least one round is needed", remedy="use rounds=5")
        return self._answer(SendBufferQuestion(parse_client(client), load_topology(topology), transfer, fixed, rounds))

    # --- not keywords -----------------------------------------------------------------------------------------------

    def _judge(self, client: str, topology: str, transfer: Transfer, expectation: Expectation) -> Result:
        return self._answer(CellQuestion(_cell(client, topology, transfer, expectation)))

    def _answer(self, question: Question, why: str = "") -> Result:
        """The result, translated into Robot's status here and nowhere else."""
        self._note(Declared((question,), why))
        outcome = self.asking.ask(question)
        if isinstance(outcome, NotSupported):
            raise SkipExecution(str(outcome))
        if isinstance(outcome, RoughwaterError):
            raise outcome
        report(outcome)
        return outcome

    def _note(self, declared: Declared) -> None:
        if self.noted is not None:
            self.noted.append(declared)
            raise NotedError

    @property
    def asking(self) -> Asking:
        """The command's, or under plain `robot` this library's own."""
        return current.get() or self._own or self._begin()

    def _begin(self) -> Asking:
        clock, backend, router, seed, wait, beside, any_host = self._given
        environment = {name: os.environ.get(f"ROUGHWATER_{name}", "") for name in _VARIABLES}
        settings = choose(
            clock or environment["CLOCK"] or "auto",  # type: ignore[arg-type]
            backend or environment["BACKEND"] or "auto",  # type: ignore[arg-type]
            router or environment["ROUTER"] or "auto",  # type: ignore[arg-type]
            seed=seed if seed is not None else int(environment["SEED"]) if environment["SEED"] else None,
            wait=wait or (Duration.parse(environment["WAIT"]) if environment["WAIT"] else WAIT),
            beside=bool(environment["BESIDE"]) if beside is None else beside,
            any_host=bool(environment["ANY_HOST"]) if any_host is None else any_host,
        )
        options = self._stack.enter_context(settings.options())
        session = self._stack.enter_context(measured_run("robot", options, Lines(), reports=make_reports))
        self._own = Asking(session)
        return self._own

    def start_suite(self, data: Any, result: Any) -> None:
        """Listener hook: under plain `robot`, answer what can be read from the suite, side by side."""
        del result
        if current.get() is not None or not data.tests or EXECUTION_CONTEXTS.current.dry_run:
            return
        self.asking.ahead(questions_of(data, BuiltIn().get_variables()))

    def end_test(self, data: Any, result: Any) -> None:
        """Listener hook: Robot handles Ctrl-C and SIGTERM itself, lets the other tests fail, and ends as it always does."""
        super().end_test(data, result)
        if self._own is not None and result.message == _INTERRUPTED:
            self._own.session.cut_off(KeyboardInterrupt())

    def close(self) -> None:
        """Listener hook: Robot is done."""
        self._stack.close()
        self._own = None


_INTERRUPTED = "Execution terminated by signal"
"""The message that Robot gives a test that a signal ended (robot/running/signalhandler.py)."""
_VARIABLES = ("CLOCK", "BACKEND", "ROUTER", "SEED", "WAIT", "BESIDE", "ANY_HOST")


def _cell(client: str, topology: str, transfer: Transfer, expectation: Expectation) -> Cell:
    with _usage("no such cell"):
        return Cell(client=parse_client(client), topology=load_topology(topology), transfer=transfer, expectation=expectation)


def _expected(text: str) -> Expectation:
    """`limit`; a kind with or without a bound: `burst`, `fill at least 0.5`."""
    kind, _, rest = text.partition(" ")
    bound = rest.rpartition(" ")[2]
    return Expectation.model_validate({"kind": kind, "bound": float(bound) if bound else None})


def _listed(text: str) -> tuple[str, ...]:
    """Names with commas between them; `none` for none."""
    return () if text == "none" else tuple(part.strip() for part in text.split(",") if part.strip())


@contextmanager
def _usage(what: str) -> Iterator[None]:
    """Turn a value that does not fit the others into a UsageProblem of one line."""
    try:
        yield
    except ValueError as problem:
        raise UsageProblem(f"{what}: {first_problem(problem)}") from None


@contextmanager
def _skipping() -> Iterator[None]:
    """Skip the test, with the reason, where the client cannot do it."""
    try:
        yield
    except NotSupported as reason:
        raise SkipExecution(str(reason)) from None
