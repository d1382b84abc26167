"""Rows of a suite as a release is put through them: without their client, with the reason, and with the time that they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from lab.judge.tolerance import LookPlan
from lab.link.path import as_one_link
from lab.link.theory import ideal_goodput_bit_s
from lab.model.cell import Cell
from lab.model.cell_name import parse_cell_name
from lab.model.clock import Clock, ClockChoice
from lab.model.link import carrier
from lab.model.load import load_topology
from lab.model.study import BufferStudy
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import ByteRate, Size
from lab.run.clocks import needs_real_time, needs_virtual_time
from lab.run.questions import BufferQuestion, CellQuestion, FaultQuestion

_LIGHT_BYTE_S = ByteRate.parse("2 MB/s").byte_s
# Parts of `ReleaseRow.seconds`, measured on two cores with the User-Mode Linux router.
_BRING_UP_S = 5.0
_CALIBRATION_S = 3.0
_SAMPLE_S = 0.3
_UNSHAPED_BYTE_S = 150e6
# In virtual time, of one core: a machine with its servers, what a sample costs besides its bytes, and how fast those go.
_MACHINE_S = 1.0
_VIRTUAL_SAMPLE_S = 0.1
_VIRTUAL_BYTE_S = 20e6
# Handshakes and slow start; and, of a set, what a client needs that asks for one file after the other.
_ROUND_TRIPS_TO_SPEED = 10
_ROUND_TRIPS_PER_FILE = 3
ANY = ClientSpec(name="any")
"""In place of the client, where a row is looked at for itself."""
QUICK_LOOKS = LookPlan(looks=LookPlan().looks[:2])
"""No more than ten transfers of each: what stays open stays UNDECIDED. Fewer looks at the same alpha err less often."""


@dataclass(frozen=True)
class ReleaseRow:
    """A row of a suite as a part of a release: a cell, buffer sizes of one client or a fault, and why it is in the set."""

    question: CellQuestion | BufferQuestion | FaultQuestion
    why: str

    @classmethod
    def named(cls, name: str, why: str = "", buffers: Sequence[str] = ()) -> Self:
        """The row of TOPOLOGY--TRANSFER[--KIND]."""
        _, topology_name, transfer, kind = parse_cell_name(f"{ANY.name}--{name}")
        topology = load_topology(topology_name)
        if buffers:
            sizes = tuple(map(Size.parse, buffers))
            return cls(BufferQuestion(BufferStudy(client=ANY, topology=topology, transfer=transfer, buffers=sizes)), why)
        expectation = Expectation.of(transfer, kind=kind)
        return cls(CellQuestion(Cell(client=ANY, topology=topology, transfer=transfer, expectation=expectation)), why)

    @property
    def name(self) -> str:
        """TOPOLOGY--TRANSFER[--KIND]."""
        return self.question.id.partition("--")[2].removesuffix("--buffers")

    @property
    def buffers(self) -> tuple[Size, ...]:
        return self.question.study.buffers if isinstance(self.question, BufferQuestion) else ()

    @property
    def _asked(self) -> Cell | BufferStudy:
        if isinstance(self.question, FaultQuestion):
            return self.question.cells[0]
        return self.question.cell if isinstance(self.question, CellQuestion) else self.question.study

    @property
    def topology(self) -> Topology:
        return self._asked.topology

    @property
    def transfer(self) -> Transfer:
        return self._asked.transfer

    def cell(self, client: ClientSpec) -> Cell:
        """The row's cell on that client; of one with buffers without any, of one with a fault without it."""
        if isinstance(self.question, CellQuestion):
            return self.question.cell.model_copy(update={"client": client})
        return Cell(client=client, topology=self.topology, transfer=self.transfer, expectation=Expectation.of(self.transfer))

    def study(self, client: ClientSpec) -> BufferStudy:
        """The sizes of a row with buffers on that client."""
        assert isinstance(self.question, BufferQuestion)
        return self.question.study.model_copy(update={"client": client})

    def id_of(self, client: ClientSpec) -> str:
        """The id of the row's result of that client."""
        return f"{client.name}--{self.question.id.partition('--')[2]}"

    def fault(self, client: ClientSpec) -> FaultQuestion:
        """The question of a row with a fault, on that client."""
        assert isinstance(self.question, FaultQuestion)
        return replace(self.question, client=client)

    @property
    def light(self) -> bool:
        """True if another row may run at the same time: a slow transfer, and a link whose calibration leaves the machine room."""
        topology, transfer = self.topology, self.transfer
        rates = [topology.link.direction(side).rate for side in ("up", "down")]
        slow_link = all(rate is not None and rate.bit_s <= 100e6 for rate in rates)
        return (
            slow_link
            and isinstance(self.question, CellQuestion)
            and (transfer.limit_byte_s or _LIGHT_BYTE_S + 1) <= _LIGHT_BYTE_S
        )

    def clock(self, choice: ClockChoice) -> Clock:
        """The clock by which a Linux client runs this row. A row that needs the other one than was asked for is skipped."""
        cell = self.cell(ANY)
        if needs_virtual_time(cell):
            return "virtual"
        return "real" if choice == "real" or needs_real_time(cell) else "virtual"

    def seconds(self, clients: int, looks: LookPlan, clock: Clock = "real") -> float:
        """Estimated, of one core, for as many transfers as the first look needs; in real time with one calibration."""
        runs = len(self.buffers) or clients
        if clock == "virtual":
            transfers = looks.looks[0] * runs
            return _MACHINE_S + transfers * (_VIRTUAL_SAMPLE_S + self.transfer.total_bytes / _VIRTUAL_BYTE_S)
        return _CALIBRATION_S + looks.looks[0] * runs * (self.transfer_s + _SAMPLE_S)

    @property
    def transfer_s(self) -> float:
        """Seconds of one transfer by a client that keeps its limit or fills the link, and asks for the files of a set in turn."""
        topology, transfer = self.topology, self.transfer
        ideal = ideal_goodput_bit_s(as_one_link(topology).direction(carrier(transfer.direction)))
        rate = min(ideal / 8 if ideal else _UNSHAPED_BYTE_S, transfer.limit_byte_s or _UNSHAPED_BYTE_S)
        turns = transfer.files / transfer.parallel if transfer.kept_set else 0
        round_trips = _ROUND_TRIPS_TO_SPEED + _ROUND_TRIPS_PER_FILE * turns
        return transfer.total_bytes / rate + round_trips * as_one_link(topology).rtt.s


def one_by_one(rows: Sequence[ReleaseRow]) -> list[ReleaseRow]:
    """The rows with a cell for each size of a buffer: next to a baseline every size is a row of its own."""
    found: list[ReleaseRow] = []
    for row in rows:
        if not isinstance(row.question, BufferQuestion):
            found.append(row)
            continue
        for size in row.buffers:
            found.append(ReleaseRow(CellQuestion(row.question.study.cell(size)), f"{row.why}: {size}"))
    return list(dict.fromkeys(found))


def set_seconds(
    items: Sequence[ReleaseRow], clients: int, looks: LookPlan, *, choice: ClockChoice = "real", cores: int = 1
) -> float:
    """Estimated: those in virtual time side by side; then, one by one, the network, a calibration per link, and the others."""
    real = [item for item in items if item.clock(choice) == "real"]
    virtual_s = sum(item.seconds(clients, looks, "virtual") for item in items if item not in real) / cores
    if not real:
        return virtual_s
    links = sum(one.name.partition("--")[0] != other for one, other in zip(real, ["", *map(_link, real)], strict=False))
    return virtual_s + _BRING_UP_S + links * _CALIBRATION_S + sum(item.seconds(clients, looks) for item in real)


def _link(item: ReleaseRow) -> str:
    return item.name.partition("--")[0]
