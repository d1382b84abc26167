"""Clients that call themselves ferry and are not honest: a script that runs ferry with another limit and rewrites its report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.clients.ferry import find_ferry
from lab.model.cell import Cell
from lab.model.link import Link
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import BitRate, ByteRate, Duration, Size
from tests.support.python_script import heading

NEAR = Topology(name="near", description="-", link=Link(rate=BitRate.parse("50 Mbit/s"), rtt=Duration.parse("8 ms")))
PROTOCOLS = ("http1", "h2", "sftp")
DIRECTIONS = ("get", "put")

_SCRIPT = """\
{heading}import json, os, subprocess, sys, time
words = sys.argv[1:]
if "--limit-rate" not in words:
    os.execv({ferry!r}, [{ferry!r}, *words])
at = words.index("--limit-rate")
limit = int(words[at + 1])
factor = {factor!r}
words[at:at + 2] = ["--limit-rate", str(round(limit * factor))] if factor else []
begun = time.monotonic()
done = subprocess.run([{ferry!r}, *words], stdout=subprocess.PIPE)
report = json.loads(done.stdout)
first = report["transfers"][0]
phases = first["phases"]
size = first["bytes"]
if {says_limit!r}:
    late = size / limit - phases["body_s"]
    phases["body_s"] += late
    phases["total_s"] += late
    report["process"]["wall_s"] += late
if {waits!r}:
    time.sleep(max(0.0, size / limit - (time.monotonic() - begun)))
first["bytes"] += {more_bytes!r}
target = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-o", "--output")), "")
if {spoils!r} and target:
    with open(target, "r+b") as file:
        file.seek(size // 2)
        byte = file.read(1)
        file.seek(size // 2)
        file.write(bytes([byte[0] ^ 1]))
print(json.dumps(report))
sys.exit({exit_code!r} if {exit_code!r} is not None else done.returncode)
"""


@dataclass(frozen=True)
class Liar:
    """`factor`: what it asks ferry for, as a multiple of the limit; 0 drops the limit. The other fields are its lies."""

    name: str
    factor: float = 1.0
    says_limit: bool = False
    waits: bool = False
    more_bytes: int = 0
    spoils: bool = False
    exit_code: int | None = None

    def write(self, folder: Path) -> ClientSpec:
        """The client as a program in the folder."""
        path = folder / f"ferry-{self.name}"
        fields = {key: value for key, value in vars(self).items() if key != "name"}
        path.write_text(_SCRIPT.format(heading=heading("-IS"), ferry=str(find_ferry()), **fields))
        path.chmod(0o755)
        return ClientSpec(name=f"ferry-{self.name}", program=str(path))


HONEST = Liar("honest")
# Drops the limit, and reports the time that the limit would have taken.
LIMITLESS = Liar("limitless", factor=0, says_limit=True)
SIX_FAST = Liar("six-fast", factor=1.06, says_limit=True)
OTHERS = (
    # Drops the limit too, and its process lives as long as the limit would have taken.
    Liar("sleeper", factor=0, says_limit=True, waits=True),
    Liar("six-slow", factor=0.94, says_limit=True),
    Liar("bytes", more_bytes=1),
    Liar("exits", exit_code=3),
)
SPOILER = Liar("spoiler", spoils=True)
"""Changes a byte of the file that it downloaded."""


def limited(client: ClientSpec, protocol: str, direction: str, size: str = "2 MiB", limit: str = "2 MB/s") -> Cell:
    """A cell that asks whether the client keeps its limit."""
    transfer = Transfer.model_validate({
        "protocol": protocol, "direction": direction, "size": Size.parse(size), "limit": ByteRate.parse(limit)
    })  # fmt: skip
    return Cell(client=client, topology=NEAR, transfer=transfer, expectation=Expectation.of(transfer))
