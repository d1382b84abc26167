"""What the benchmarks over SFTP share: their clients and options, a line's samples in figures, and how one is kept."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from benchmarks.common import present_clients
from lab.clients.adapter import ClientAdapter
from lab.clients.ferry import Ferry
from lab.hosts.agent.router import ROUTER_CHOICES
from lab.hosts.host import Completed, Host
from lab.model.cell_name import format_transfer
from lab.model.results import ClientNumbers, Sample
from lab.model.transfer import Transfer
from lab.model.units import Size

Direction = Literal["get", "put"]

# Claims are about the first.
CLIENTS = ("ferry", "openssh", "curl", "lftp", "rclone")
DIRECTIONS: tuple[Direction, ...] = ("get", "put")
MB = 1_000_000


class TellingFerry(Ferry):
    """ferry, with what its report tells of the SSH connection (round trips, channels, cipher) kept in the sample."""

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        numbers = super().parse(transfer, completed)
        told = json.loads(completed.stdout).get("ssh")
        return numbers.model_copy(update={"raw": {**numbers.raw, "ssh": told}})


def clients_here(names: Sequence[str], host: Host) -> dict[str, ClientAdapter]:
    """The clients that the host has, in the order of `names`."""
    found = present_clients(names, host)
    return {name: TellingFerry(each.name, each.program) if isinstance(each, Ferry) else each for name, each in found.items()}


def parser(doc: str | None, *, samples: int, shaped: bool = True) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("-n", "--samples", type=int, help=f"of each line (default: {samples}, and 1 with --quick)")
    made.add_argument("--quick", action="store_true", help="one small sample of each: does it run at all?")
    made.add_argument("--client", action="append", help="the first is what claims are of, the others are its peers")
    made.add_argument("--direction", action="append", choices=DIRECTIONS)
    if shaped:
        made.add_argument("--router", choices=ROUTER_CHOICES, default="auto")
    return made


@dataclass(frozen=True)
class Choice:
    """The values of the options that all SFTP benchmarks have."""

    n: int
    quick: bool
    clients: Sequence[str]
    directions: Sequence[Direction]

    @classmethod
    def of(cls, options: argparse.Namespace, samples: int, *, least: int = 1, clients: Sequence[str] = CLIENTS) -> Choice:
        return cls(
            n=max(least, options.samples or (least if options.quick else samples)),
            quick=options.quick,
            clients=options.client or clients,
            directions=cast("Sequence[Direction]", options.direction or DIRECTIONS),
        )

    def size(self, megabytes: float) -> Size:
        """The size of a transfer; a tenth of `megabytes` with `--quick`."""
        return Size(round(megabytes * MB / (10 if self.quick else 1)))


@dataclass(frozen=True)
class Line:
    """The samples of one job, and the figures that claims are made of."""

    name: str
    transfer: Transfer
    samples: Sequence[Sample]

    @property
    def good(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.ok]

    @property
    def failed(self) -> int:
        return len(self.samples) - len(self.good)

    @property
    def rates(self) -> list[float]:
        """Body bytes per second, by the clock that `clock` names."""
        return [sample.body_byte_s for sample in self.good if sample.body_byte_s]

    @property
    def clock(self) -> str:
        return "/".join(sorted({sample.body_clock for sample in self.good if sample.body_clock})) or "-"

    @property
    def walls(self) -> list[float]:
        """Seconds of the process, handshake included."""
        return [sample.wall_s for sample in self.good]

    @property
    def cpu(self) -> list[float]:
        """Seconds per 10^9 bytes."""
        return [(sample.cpu_user_s + sample.cpu_system_s) / sample.expected_bytes * 1e9 for sample in self.good]

    @property
    def counted(self) -> str:
        return str(len(self.good)) + (f" ({self.failed} failed)" if self.failed else "")

    @property
    def what(self) -> str:
        return format_transfer(self.transfer)

    def kept(self, **more: object) -> dict[str, object]:
        dumped = [sample.model_dump(mode="json") for sample in self.samples]
        return {"client": self.name, **more, "transfer": self.transfer.model_dump(mode="json"), "samples": dumped}


def lines_of(samples: Mapping[str, Sequence[Sample]], transfers: Mapping[str, Transfer]) -> dict[str, Line]:
    return {name: Line(name, transfers[name], taken) for name, taken in samples.items()}


def rates_of(line: Line | None) -> list[float]:
    return line.rates if line else []


def better(lines: Sequence[Line], by: Callable[[Line], Sequence[float]] = rates_of) -> Line | None:
    """The line with the greatest median; None where none has any figure."""
    able = [line for line in lines if by(line)]
    return max(able, key=lambda line: statistics.median(by(line))) if able else None


def handshake(line: Line, rtt_s: float) -> list[tuple[str, list[float]]]:
    """ferry's start up to the first request: number of answers that it waited for, and phases in round trips."""
    found: dict[str, list[float]] = {
        "round_trips": [],
        "connect_s": [],
        "kex_s": [],
        "auth_s": [],
        "channel_s": [],
        "body_start_s": [],
    }
    for sample in line.good:
        raw = sample.client.raw if sample.client else {}
        ssh, phases = raw.get("ssh"), raw.get("phases")
        for name, values in found.items():
            told = ssh if name == "round_trips" else phases
            value = told.get(name) if isinstance(told, dict) else None
            if isinstance(value, int | float):
                values.append(float(value) / (1 if name == "round_trips" else rtt_s))
    return [(f"{name.removesuffix('_s')} / RTT" if name.endswith("_s") else "round trips", each) for name, each in found.items()]
