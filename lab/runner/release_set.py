"""What a release is put through: cells without their client, each with the reason why it is there, and how long they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from lab.judge.tolerance import LookPlan
from lab.link.theory import ideal_goodput_bit_s
from lab.runner.clocks import ClockChoice, needs_real_time
from lab.spec.cell import parse_cell_name
from lab.spec.clock import Clock
from lab.spec.load import load_topology
from lab.spec.models import BoundKind, Cell, ClientSpec, Expectation, Topology, Transfer
from lab.spec.study import BufferStudy
from lab.spec.units import ByteRate, Size

_LIGHT_BYTE_S = ByteRate.parse("2 MB/s").byte_s
# What `Asked.seconds` is made of; seconds, measured on two cores with the User-Mode Linux router.
_BRING_UP_S = 5.0
_CALIBRATION_S = 3.0
_SAMPLE_S = 0.3
_UNSHAPED_BYTE_S = 150e6
# In virtual time, of one core: a machine with its servers, what a sample costs beside its bytes, and how fast those go.
_MACHINE_S = 1.0
_VIRTUAL_SAMPLE_S = 0.1
_VIRTUAL_BYTE_S = 20e6
# Handshakes and slow start; and, of a set, what a client needs that asks for one file after the other.
_ROUND_TRIPS_TO_SPEED = 10
_ROUND_TRIPS_PER_FILE = 3
_ANYBODY = ClientSpec(name="any")


@dataclass(frozen=True)
class Asked:
    """One line of the set. `name` is TOPOLOGY--TRANSFER[--KIND]; with `buffers` it is a study of the candidate alone."""

    name: str
    why: str
    buffers: tuple[str, ...] = ()

    @cached_property
    def _parts(self) -> tuple[Topology, Transfer, BoundKind | None]:
        _, topology, transfer, kind = parse_cell_name(f"any--{self.name}")
        return load_topology(topology), transfer, kind

    @property
    def transfer(self) -> Transfer:
        return self._parts[1]

    def cell(self, client: ClientSpec) -> Cell:
        topology, transfer, kind = self._parts
        return Cell(client=client, topology=topology, transfer=transfer, expectation=Expectation.of(transfer, kind=kind))

    def study(self, client: ClientSpec) -> BufferStudy:
        """Of a line with buffers."""
        return BufferStudy(
            client=client, topology=self._parts[0], transfer=self.transfer, buffers=tuple(map(Size.parse, self.buffers))
        )

    @property
    def light(self) -> bool:
        """Whether another may run beside it: a slow transfer over a link that is calibrated without filling the machine."""
        topology, transfer, _ = self._parts
        rates = [topology.link.direction(side).rate for side in ("up", "down")]
        slow_link = all(rate is not None and rate.bit_s <= 100e6 for rate in rates)
        return slow_link and not self.buffers and (transfer.limit_byte_s or _LIGHT_BYTE_S + 1) <= _LIGHT_BYTE_S

    def clock(self, choice: ClockChoice) -> Clock:
        """By which a client of Linux runs it; where virtual time was asked for, `real` is one that is skipped."""
        return "real" if choice == "real" or needs_real_time(self.cell(_ANYBODY)) else "virtual"

    def seconds(self, clients: int, looks: LookPlan, clock: Clock = "real") -> float:
        """Estimated, of one core, for as many transfers as the first look needs; in real time with one calibration."""
        runs = len(self.buffers) or clients
        if clock == "virtual":
            transfers = looks.looks[0] * runs
            return _MACHINE_S + transfers * (_VIRTUAL_SAMPLE_S + self.transfer.total_bytes / _VIRTUAL_BYTE_S)
        return _CALIBRATION_S + looks.looks[0] * runs * (self.transfer_s + _SAMPLE_S)

    @property
    def transfer_s(self) -> float:
        """One whole transfer by a client that keeps to its limit, or fills the link, and of a set asks for one file at a time."""
        topology, transfer, _ = self._parts
        ideal = ideal_goodput_bit_s(topology.link.direction("down" if transfer.direction == "get" else "up"))
        rate = min(ideal / 8 if ideal else _UNSHAPED_BYTE_S, transfer.limit_byte_s or _UNSHAPED_BYTE_S)
        turns = transfer.files / transfer.parallel if transfer.kept_set else 0
        round_trips = _ROUND_TRIPS_TO_SPEED + _ROUND_TRIPS_PER_FILE * turns
        return transfer.total_bytes / rate + round_trips * topology.link.rtt.s


def set_seconds(items: Sequence[Asked], clients: int, looks: LookPlan, *, choice: ClockChoice = "real", cores: int = 1) -> float:
    """Estimated: those in virtual time side by side; then, one by one, the network, a calibration per link, and the others."""
    real = [item for item in items if item.clock(choice) == "real"]
    virtual_s = sum(item.seconds(clients, looks, "virtual") for item in items if item not in real) / cores
    if not real:
        return virtual_s
    links = sum(one.name.partition("--")[0] != other for one, other in zip(real, ["", *map(_link, real)], strict=False))
    return virtual_s + _BRING_UP_S + links * _CALIBRATION_S + sum(item.seconds(clients, looks) for item in real)


def _link(item: Asked) -> str:
    return item.name.partition("--")[0]


def _throttled() -> Iterator[Asked]:
    """Link by link, so that a calibration serves two cells."""
    ways = [
        *(f"{protocol}-{direction}" for protocol in ("http1", "h2", "sftp") for direction in ("get", "put")),
        "http1-get-chunked",
        "h2-get-chunked",
    ]
    for link, why in (
        ("dsl-50", "the limit is kept on a line of 20 ms"),
        ("dsl-20", "the limit is kept on a line that carries hardly more"),
        ("link-local", "the limit is kept where nothing else slows the client down"),
    ):
        for way in ways:
            protocol, direction, *chunked = way.split("-")
            name = "-".join([protocol, direction, "5MiB-at-2MBps", *chunked])
            yield Asked(f"{link}--{name}", f"{why}{', and the size is not known beforehand' if chunked else ''}")


_ODD = "a size that is no multiple of the limit: curl 8.19 and later are done in half the time"
_FILL_NEAR = "fills a line of 20 ms"
_FILL_FAR = "fills a line of 100 ms: what waits for answers does not"

FULL: tuple[Asked, ...] = (
    *_throttled(),
    *(Asked(f"dsl-50--{protocol}-put-1999999B-at-1MBps", _ODD) for protocol in ("http1", "h2", "sftp")),
    Asked("dsl-50--http1-get-1999999B-at-1MBps", _ODD),
    *(
        Asked(f"dsl-50--{way}-5MiB-at-2MBps--burst", "a limit is no mean alone: the fastest 100 ms on the wire")
        for way in ("http1-get", "h2-get", "http1-put", "sftp-get")
    ),
    Asked("dsl-50--http1-get-5MiB-at-2MBps--cpu", "a limited transfer waits, it does not spin"),
    Asked("dsl-50--h2-get-4x2MB-at-500kBps-p4", "four limited streams on one connection: each keeps to its own limit"),
    *(
        Asked(f"metro-200--{protocol}-{direction}-50MB--fill", _FILL_NEAR)
        for protocol in ("http1", "h2", "sftp")
        for direction in ("get", "put")
    ),
    Asked(
        "metro-200--sftp-put-20MB",
        "the caller's buffer makes no difference",
        buffers=("16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB"),
    ),
    Asked("metro-200--sftp-put-1000x20kB", "many small files: the last hundred as fast as the first"),
    Asked("metro-200--sftp-get-200x20kB", "the same downwards"),
    Asked("metro-200--sftp-put-100x1MB", "a set of middling files arrives whole"),
    Asked("metro-200--sftp-get-100x1MB", "the same downwards"),
    *(
        Asked(f"far-50--{protocol}-{direction}-40MB--fill", _FILL_FAR)
        for protocol in ("http1", "h2", "sftp")
        for direction in ("get", "put")
    ),
    *(
        Asked(f"link-local--{protocol}-{direction}-100MB", "as fast as the machine can, and every byte right")
        for protocol in ("http1", "h2", "sftp")
        for direction in ("get", "put")
    ),
    Asked("link-local--h2-get-20x20MB-p20--memory", "twenty streams at once do not pile up in memory"),
)
"""With a baseline under an hour."""

QUICK: tuple[Asked, ...] = (
    Asked("dsl-50--http1-get-3MiB-at-2MBps", "the limit is kept"),
    Asked("dsl-50--h2-get-3MiB-at-2MBps-chunked", "the limit is kept where the size is not known beforehand"),
    Asked("dsl-50--http1-put-1999999B-at-1MBps", _ODD),
    Asked("dsl-50--sftp-put-3MiB-at-2MBps", "the limit is kept by what goes over SSH"),
    Asked("dsl-50--http1-get-3MiB-at-2MBps--burst", "a limit is no mean alone: the fastest 100 ms on the wire"),
    Asked("metro-200--sftp-put-15MB--fill", _FILL_NEAR),
    Asked("far-50--h2-put-15MB--fill", _FILL_FAR),
    Asked("link-local--h2-get-20x20MB-p20--memory", "twenty streams at once do not pile up in memory"),
)
"""With a baseline under five minutes, curl over SFTP included, which fills a ninth of a line of 20 ms."""

QUICK_LOOKS = LookPlan(looks=LookPlan().looks[:2])
"""No more than ten transfers of each: what stays open stays UNDECIDED. Fewer looks at the same alpha err less often."""
