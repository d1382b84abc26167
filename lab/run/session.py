"""A Session runs cells on one lab and writes what came of them: one alone, the settings of a study, or a pair of clients.

A Session takes no lock: a program may have several at once. That a machine measures one thing at a time is up to the front ends
(`lab.run.lock`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self

from lab.clients.registry import assert_speaks_here, resolve
from lab.hosts.host import Network
from lab.judge.tolerance import LookPlan
from lab.judge.worse import Accepted, Gate
from lab.model.answer import Answer
from lab.model.cell import Cell
from lab.model.errors import EXIT_INVALID, NotSupported
from lab.model.obeyed import refusal
from lab.model.results import CellResult
from lab.model.study import BufferStudy
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import Ratio
from lab.run.clocks import clock_for
from lab.run.collected import Collected, keep
from lab.run.interleaving import Interleaving
from lab.run.lab import Lab
from lab.run.no_worse import Row, no_worse
from lab.run.options import Options
from lab.run.pair import MARGIN, check_pair, no_slower, pair_id, why_not_judged
from lab.run.progress import Progress, Silent
from lab.run.schedule import Schedule, beside_baseline, compared, fixed_rounds, round_robin, until_decided
from lab.run.study import arms_of, buffer_sizes
from lab.run.userlands import http3_server_of, one_cell, refuse_in_real_time
from lab.servers.bundle import Servers
from lab.store.run_dir import RunDir

__all__ = ["Options", "Session"]


class Session(Collected):
    """Use as a context manager: leaving it closes the network and writes run.json."""

    def __init__(self, run: RunDir, options: Options | None = None, *, progress: Progress | None = None) -> None:
        super().__init__(run)
        self.options = options or Options()
        self.progress = progress or Silent()
        self.lab = Lab(self.options, run.name, self.progress)
        self.remarks: tuple[str, ...] = ()
        """Warnings that every verdict gets until further notice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.note_end(value)
        self.close()
        if self.recorded and isinstance(value, Exception):
            # The command ends by the code that is stored.
            value.exit_code = self.recorded.exit_code  # type: ignore[attr-defined]

    def begin(self, planned: Sequence[str]) -> None:
        """Write the record of the start: `killed`, and what is asked for. It stays where nothing can write another."""
        self.planned = planned
        self.ended, self.ended_code = "killed", EXIT_INVALID
        self.run.write_run(self.record())
        self.ended, self.ended_code = "complete", 0

    def close(self) -> None:
        """Take the network down and write run.json; idempotent."""
        self.lab.close()
        if self.found_something or self.was_stopped:
            self.recorded = self.record()
            self.run.write_run(self.recorded)

    def lane(self, number: int, progress: Progress) -> Session:
        """Another session of the same run, with a network and results of its own; they become this one's by `absorb`."""
        options = replace(self.options, name=f"{self.lab.name}-lane{number}")
        made = Session(self.run, options, progress=progress)
        made.lab.client_facts = self.lab.client_facts
        return made

    def bring_up(self) -> None:
        """The network, before the first cell needs it. Raises as `run_cell`."""
        self.lab.bring_up()

    def run_cell(self, cell: Cell) -> CellResult:
        """Run one cell to its verdict and write it.

        A fault of the lab during the cell ends in INVALID. Raises UsageProblem for bad input and LabFault where there is no
        network.
        """
        with self.noting_skip(cell.id):
            _, results = self._interleave([cell], until_decided(cell, self.looks_for([cell])))
            return results[0]

    def run_study(self, study: BufferStudy) -> Answer:
        """Run the cells of a study interleaved to its verdict; write them and it. Raises as `run_cell`."""
        with self.noting_skip(study.id):
            cells, left_out = arms_of(study, resolve(study.client))
            looks = self.looks_for([*cells.values()])
            together, results = self._interleave([*cells.values()], round_robin([*cells], study.floor.value, looks))
            answer = buffer_sizes(
                study,
                dict(zip(cells, results, strict=True)),
                order=together.order,
                left_out=left_out,
                problems=together.problems,
                looks=looks,
            )
            return self.keep(answer)

    def run_pair(self, candidate: Cell, baseline: Cell, *, margin: Ratio = MARGIN) -> Answer:
        """Run two clients' cells of one transfer interleaved; write both and their comparison.

        Raises as `run_cell`, NotSupported where either client cannot do it, and as `check_pair`.
        """
        with self.noting_skip(pair_id(candidate, baseline)):
            check_pair(candidate, baseline)
            looks = self.looks_for([candidate, baseline])
            schedule = beside_baseline(candidate, None if why_not_judged(candidate) else margin.value, looks)
            together, results = self._interleave([candidate, baseline], schedule)
            answer = no_slower(
                candidate,
                pair_id(candidate, baseline),
                results,
                margin=margin,
                order=together.order,
                problems=together.problems,
                looks=looks,
            )
            return self.keep(answer)

    def looks_for(self, cells: Sequence[Cell]) -> LookPlan:
        """The plan of looks of these cells, by their clock."""
        virtual = clock_for(cells, self.options.clock) == "virtual"
        return self.options.virtual_looks if virtual else self.options.looks

    def run_compared(
        self, candidate: Cell, baseline: Cell, *, gate: Gate, accepted: Accepted | None = None
    ) -> tuple[Answer, list[CellResult]]:
        """Run two clients' cells of one transfer interleaved, and compare them by every figure of the row; write all three.

        The answer is that of this row alone. Returns it and the two results. Raises as `run_pair`.
        """
        pair = pair_id(candidate, baseline)
        with self.noting_skip(pair):
            check_pair(candidate, baseline)
            looks = self.looks_for([candidate, baseline])
            row = Row.of(candidate, clock_for([candidate, baseline], self.options.clock), looks, gate, accepted)
            together, results = self._interleave([candidate, baseline], compared(row.wanted))
            answer = no_worse(candidate, pair, results, row, order=together.order, problems=together.problems)
            return self.keep(answer), results

    def run_together(self, what: str, cells: Sequence[Cell], rounds: int) -> tuple[list[int], list[CellResult]]:
        """Run the cells that many times each, interleaved, and write them; `what` is the id of the answer that they are for.

        Returns the index of a cell per transfer, and the results. Raises as `run_cell`.
        """
        with self.noting_skip(what):
            together, results = self._interleave(cells, fixed_rounds(rounds))
            return together.order, results

    @contextmanager
    def bench(
        self,
        what: str,
        topology: Topology,
        *,
        real: bool = False,
        client: ClientSpec | None = None,
        transfer: Transfer | None = None,
    ) -> Iterator[tuple[Network, Servers]]:
        """The network, shaped, for a question without a cell; `what` is its id, `real` that it asks about the machine.

        `client` and `transfer` decide about userlands.

        Raises as `run_cell`. Afterwards the next cell shapes and calibrates the link again.
        """
        with self.noting_skip(what):
            virtual = self.options.clock != "real" and not real
            if problem := refusal("event", topology, "virtual" if virtual else "real"):
                raise NotSupported(f"{what}: {problem.message}", remedy=problem.remedy)
            self.lab.begin()
            if virtual:
                program = http3_server_of(topology) if transfer is not None and transfer.protocol == "h3" else None
                named = one_cell(client, topology, self.options.userlands, http3=program is not None)
                if client and transfer and not named.client:
                    assert_speaks_here(resolve(client), transfer, what)
                self.lab.boot([what], 0, wiring=topology.wiring, userlands=named, http3=program)
            else:
                http3 = transfer is not None and transfer.protocol == "h3"
                refuse_in_real_time(what, self.options.userlands, client, http3=http3)
                self.lab.bring_up(same_host=topology.same_host)
            try:
                self.lab.shape(topology.in_virtual_time() if self.lab.clock == "virtual" else topology)
                yield self.lab.up
            finally:
                self.lab.forget_link()

    def keep(self, answer: Answer) -> Answer:
        """Write an answer, in place of one of its id, and count its verdict. Raises LabFault if the lab was abandoned."""
        self.lab.raise_if_abandoned()
        self.run.write_answer(answer)
        keep(self.answers, answer)
        if answer.verdict and answer.counts:
            self.progress.verdict(answer.id, answer.verdict)
        return answer

    # ---------------------------------------------------------------------------------------------------------------

    @contextmanager
    def noting_skip(self, what: str) -> Iterator[None]:
        """Note the reason of a NotSupported inside the block once, and let it pass."""
        try:
            yield
        except NotSupported as reason:
            if what not in self.skipped:
                self.progress.skipped(reason.message)
            self.skipped[what] = reason.message.rpartition(f"{what}: ")[2]
            raise

    def _interleave(self, cells: Sequence[Cell], schedule: Schedule) -> tuple[Interleaving, list[CellResult]]:
        """Run cells between one pair of calibrations, and write each."""
        interleaving = Interleaving(self.lab, cells, schedule, captures=self.run.evidence if self.options.pcap else None)
        results = interleaving.run(self.run.name, self.looks_for(cells), self.remarks)
        self.lab.raise_if_abandoned()
        for result in results:
            self.run.write_cell(result)
            keep(self.results, result)
            self.progress.verdict(result.id, result.verdict)
        return interleaving, results
