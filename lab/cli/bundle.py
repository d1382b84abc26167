"""`lab bundle` and `lab rerun`: a cell in one file, and whether it comes out the same here."""

from __future__ import annotations

import difflib
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

import typer
from rich.console import Console
from rich.text import Text

import lab
from lab.cli.compare import NOT_INTERLEAVED, Within
from lab.cli.options import WAIT, AnyBackend, AnyHost, AskedBackend, AskedClock, Beside, Clock, Json, Router, RunSeed, Wait
from lab.cli.place import Turn, place, session_options
from lab.client.registry import parse_client, resolve
from lab.errors import UsageProblem
from lab.judge.compare import compare_cells, differences
from lab.result.bundle import Bundle, SshdSettings, bundle_name, read_bundle, write_bundle
from lab.result.comparison import CellComparison, Comparison, RunSide
from lab.result.comparison_table import render_comparison
from lab.result.deterministic import first_difference, view
from lab.result.models import CellResult, Sample
from lab.result.store import LATEST, RunDir, exit_code
from lab.result.table import render_run, verdict_word
from lab.runner.progress import Lines
from lab.runner.session import Options, Session
from lab.server.sshd import SshdOptions
from lab.spec.models import Cell, ClientSpec
from lab.spec.units import Ratio

EXACT = "the two agree exactly: every sample, byte for byte"


def register(app: typer.Typer) -> None:
    app.command("bundle")(bundle)
    app.command("rerun")(rerun)


def bundle(
    cell: Annotated[str, typer.Argument(metavar="CELL", help="A cell of the run, by its name.")],
    run: Annotated[
        str, typer.Option(metavar="RUN", help="A run's folder, its name below results/, latest, or latest~1.")
    ] = LATEST,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="CELL.zip here, unless given.")] = None,
    json_output: Json = False,
) -> None:
    """Pack a cell into one file that `lab rerun` repeats elsewhere: scenario, seeds, client, certificate, samples, captures."""
    found = RunDir.find(run)
    names = [unquote(each.stem) for each in sorted(found.cells.glob("*.json"))]
    if cell not in names:
        raise UsageProblem(f"run {found.name} has no cell {cell[:120]!r}", remedy=_meant(cell, names))
    path = output or Path(bundle_name(cell))
    # Every session of `lab run` has the servers' defaults, and a result does not tell of others.
    manifest = write_bundle(path, found, cell, SshdSettings(**asdict(SshdOptions())))
    if json_output:
        typer.echo(manifest.model_dump_json(indent=2))
        return
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    captures = len(manifest.members) - 1
    typer.echo(f"{path}: {path.stat().st_size / 1e3:.0f} kB, {captures} capture{'' if captures == 1 else 's'}, sha256 {digest}")


def rerun(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `lab bundle` made.")],
    client: Annotated[
        str | None, typer.Option(metavar="NAME[=PATH]", help="Where the bundle's client is on this machine.")
    ] = None,
    clock: Clock = AskedClock.AUTO,
    seed: RunSeed = None,
    router: Router = "auto",
    backend: AnyBackend = AskedBackend.AUTO,
    within: Within = Ratio(0.01),
    wait: Wait = WAIT,
    beside: Beside = False,
    any_host: AnyHost = False,
    json_output: Json = False,
) -> None:
    """Run the cell of a bundle here, and say whether it agrees with what the bundle holds.

    PASS: the verdicts are the same and the interval of the ratio of the means lies inside the tolerance, as for `lab compare`.
    It runs by the bundle's clock; in virtual time with the bundle's seed, and says where the two first differ, if they do.
    """
    if not 0 < within.value < 1:
        raise UsageProblem(f"--within {within} is no tolerance", remedy="give one between 0 % and 100 %, exclusive")
    packed = read_bundle(file)
    cell = packed.asked(_client(packed, client))
    # Before a network is brought up for a client that nobody knows.
    resolve(cell.client)
    where = place(clock, backend, router, seed=seed)
    with Turn(wait, beside=beside, now=where.clock == "real") as turn:
        options = repeating(packed, session_options(where, turn, any_host=any_host), seed)
        here, run = _run_again(cell, options)
    found = _comparison(packed, file, here, run, within)
    if json_output:
        typer.echo(found.model_dump_json(indent=2))
    else:
        console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 110)
        render_run([here], console, run.path)
        console.print()
        render_comparison(found, console)
        for name, each in (("A, the bundle", packed.cell), ("B, here", here)):
            console.print(Text.assemble(f"{name}: ", verdict_word(each.verdict.name), f": {each.verdict.reason}"))
        console.print(Text.assemble("do they agree? ", verdict_word(found.cells[0].verdict.name)))
    raise typer.Exit(found.exit_code)


def agreement(there: CellResult, here: CellResult, within: float) -> CellComparison:
    """As `compare_cells`; but a client that fails its transfer here as there is the same finding, though nothing is left to time.

    Alike is the same exit code: what a client says of its failure has numbers that differ every time. In virtual time the same
    result, byte for byte, is agreement whatever it says.
    """
    row = compare_cells(there, here, within)
    if both_virtual(there, here) and first_difference(view(there), view(here)) is None:
        return row.model_copy(
            update={"verdict": row.verdict.model_copy(update={"name": "PASS", "reason": EXACT, "warnings": []})}
        )
    one, other = _failed(there.samples), _failed(here.samples)
    if row.verdict.name != "INCONCLUSIVE" or row.a.verdict != "FAIL" or row.b.verdict != "FAIL" or not one or not other:
        return row
    words = [sample.problem or f"exit code {sample.exit_code}" for sample in (one, other)]
    if one.exit_code != other.exit_code:
        reason = f"a transfer failed on both sides, but not alike: A: {words[0]}; B: {words[1]}"
        return row.model_copy(update={"verdict": row.verdict.model_copy(update={"reason": reason})})
    reason = f"a transfer failed on both sides with exit code {one.exit_code}: A: {words[0]}; B: {words[1]}"
    return row.model_copy(update={"verdict": row.verdict.model_copy(update={"name": "PASS", "reason": reason, "warnings": []})})


def _failed(samples: Sequence[Sample]) -> Sample | None:
    return next((sample for sample in samples if not sample.ok), None)


def _client(packed: Bundle, text: str | None) -> ClientSpec:
    """The bundle's client, where it is on this machine. A path in a bundle is somebody else's, and nothing is run from there."""
    name = packed.cell.client.name
    given = parse_client(text or name)
    if given.name != name:
        raise UsageProblem(f"the bundle's client is {name}, not {given.name}", remedy=f"say where it is: --client {name}=PATH")
    return given


def repeating(packed: Bundle, options: Options, seed: int | None) -> Options:
    """By the bundle's clock unless another is asked for; in virtual time at its price and by its seed, or by `seed`."""
    guest = packed.cell.virtual
    clock = packed.cell.clock if options.clock == "auto" else options.clock
    repeated = replace(
        options,
        clock=clock,
        looks=packed.looks,
        virtual_looks=packed.looks,
        sshd=SshdOptions(**packed.manifest.sshd.model_dump()),
    )
    if guest is None or clock != "virtual":
        return repeated
    repeated = replace(repeated, charge_ns=guest.charge_ns)
    if seed is not None:
        return repeated
    if guest.session_seed is None:
        return replace(repeated, machine_seed=guest.seed)
    return replace(repeated, seed=guest.session_seed)


def both_virtual(there: CellResult, here: CellResult) -> bool:
    return there.clock == here.clock == "virtual"


def exactness(there: CellResult, here: CellResult) -> str:
    """Of two results in virtual time: that they are the same, or where they first differ."""
    where = first_difference(view(there), view(here))
    return EXACT if where is None else f"the two first differ, A then B, at {where}"


def _run_again(cell: Cell, options: Options) -> tuple[CellResult, RunDir]:
    record = RunDir.create("rerun")
    progress = Lines()
    session = Session(record, options, progress=progress)
    try:
        with session:
            return session.run_cell(cell), record
    finally:
        progress.clear()
        if not session.results:
            record.discard()


def _comparison(packed: Bundle, file: Path, here: CellResult, run: RunDir, within: Ratio) -> Comparison:
    row = agreement(packed.cell, here, within.value)
    return Comparison(
        lab_version=lab.__version__,
        a=_side(packed.cell, file),
        b=_side(here, run.path),
        within=within,
        cells=[row],
        studies=[],
        only_in_a=[],
        only_in_b=[],
        differences=differences([packed.cell], [here]),
        notes=[exactness(packed.cell, here) if both_virtual(packed.cell, here) else NOT_INTERLEAVED],
        exit_code=exit_code([row.verdict.name]),
    )


def _side(cell: CellResult, place: Path) -> RunSide:
    return RunSide(run=cell.run, path=str(place), started_at=cell.started_at, ended_at=cell.ended_at, whole=True)


def _meant(cell: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(cell[:120], names, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"it has {', '.join(names[:5]) or 'none'}{', ...' if len(names) > 5 else ''}"
