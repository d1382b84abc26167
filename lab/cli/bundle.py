"""`lab bundle` and `lab rerun`: pack a cell into one file, and repeat it elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

import typer
from rich.text import Text

import lab
from lab.cli.compare import NOT_INTERLEAVED, Within
from lab.cli.options import AnyBackend, AnyHost, Beside, Clock, Env, Json, Router, RunSeed, Wait, variables
from lab.cli.output import stdout_console
from lab.clients.registry import parse_client, resolve
from lab.judge.compare import compare_cells, differences
from lab.model.answer import Answer
from lab.model.cell import Cell
from lab.model.comparison import Comparison, RunSide
from lab.model.errors import UsageProblem, did_you_mean
from lab.model.results import CellResult, Sample, exit_code
from lab.model.transfer import ClientSpec
from lab.model.units import Ratio
from lab.run.counts import other_parts
from lab.run.measured import measured_run
from lab.run.options import Options
from lab.run.progress import Lines
from lab.run.settings import WAIT, choose
from lab.servers.sshd import SshdOptions
from lab.store.bundle import Bundle, SshdSettings, asked_userlands, bundle_name, read_bundle, write_bundle
from lab.store.deterministic import first_difference, view
from lab.store.run_dir import LATEST, RunDir
from reports.answer_text import render_comparison, verdict_word
from reports.files import make_reports
from reports.text import render_run

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
        listed = f"it has {', '.join(names[:5]) or 'no cells'}{', ...' if len(names) > 5 else ''}"
        raise UsageProblem(f"run {found.name} has no cell {cell[:120]!r}{did_you_mean(cell, names)}", remedy=listed)
    path = output or Path(bundle_name(cell))
    # `lab run` always uses the servers' defaults, and a result does not record other settings.
    manifest = write_bundle(path, found, cell, SshdSettings(**asdict(SshdOptions())))
    if json_output:
        typer.echo(manifest.model_dump_json(indent=2))
        return
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    captures = len(manifest.members) - 1
    typer.echo(f"{path}: {path.stat().st_size / 1e3:.0f} kB, {captures} capture{'' if captures == 1 else 's'}, sha256 {digest}")


def rerun(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file made by `lab bundle`.")],
    client: Annotated[
        str | None, typer.Option(metavar="NAME[=PATH]", help="Where the bundle's client is on this machine.")
    ] = None,
    clock: Clock = "auto",
    seed: RunSeed = None,
    router: Router = "auto",
    backend: AnyBackend = "auto",
    within: Within = Ratio(0.01),
    wait: Wait = WAIT,
    beside: Beside = False,
    any_host: AnyHost = False,
    env: Env = None,
    json_output: Json = False,
) -> None:
    """Repeat the cell of a bundle on this machine, and compare the result with the bundle's.

    PASS: the verdicts are the same and the interval of the ratio of the means lies inside the tolerance, as for `lab compare`.
    It runs by the bundle's clock; in virtual time with the bundle's seed, and says where the two first differ, if they do.
    """
    if not 0 < within.value < 1:
        raise UsageProblem(f"--within {within} is not a tolerance", remedy="give one between 0 % and 100 %, exclusive")
    given = variables(env)
    packed = read_bundle(file)
    cell = packed.asked(_client(packed, client))
    # Fail for an unknown client before a network is brought up.
    resolve(cell.client)
    where = choose(clock, backend, router, seed=seed, wait=wait, beside=beside, any_host=any_host)
    with where.options() as options:
        here, run = _run_again(cell, repeating(packed, replace(options, variables=given), seed))
    found = _comparison(packed, file, here, run, within)
    if json_output:
        typer.echo(found.model_dump_json(indent=2))
    else:
        console = stdout_console()
        render_run([here], console, run.path)
        console.print()
        render_comparison(found, console)
        for name, each in (("A, the bundle", packed.cell), ("B, here", here)):
            console.print(Text.assemble(f"{name}: ", verdict_word(each.verdict.name), f": {each.verdict.reason}"))
        console.print(Text.assemble("do they agree? ", verdict_word(found.answers[0].judged.name)))
    raise typer.Exit(found.exit_code)


def agreement(there: CellResult, here: CellResult, within: float) -> Answer:
    """Like `compare_cells`, but transfers that fail with the same exit code on both sides agree, although there is no rate.

    Only exit codes are compared, because messages about a failure contain numbers that differ every time. In virtual time two
    results that are equal byte for byte always agree.
    """
    row = compare_cells(there, here, within)
    if both_virtual(there, here) and first_difference(view(there), view(here)) is None:
        return _with_verdict(row, name="PASS", reason=EXACT, warnings=[])
    one, other = _failed(there.samples), _failed(here.samples)
    if row.judged.name != "INCONCLUSIVE" or any(arm.verdict != "FAIL" for arm in row.arms) or not one or not other:
        return row
    words = [sample.problem or f"exit code {sample.exit_code}" for sample in (one, other)]
    if one.exit_code != other.exit_code:
        return _with_verdict(row, reason=f"a transfer failed on both sides, but not alike: A: {words[0]}; B: {words[1]}")
    reason = f"a transfer failed on both sides with exit code {one.exit_code}: A: {words[0]}; B: {words[1]}"
    return _with_verdict(row, name="PASS", reason=reason, warnings=[])


def _with_verdict(row: Answer, **changed: object) -> Answer:
    return row.model_copy(update={"verdict": row.judged.model_copy(update={**changed, "cause": "verdicts"})})


def _failed(samples: Sequence[Sample]) -> Sample | None:
    return next((sample for sample in samples if not sample.ok), None)


def _client(packed: Bundle, text: str | None) -> ClientSpec:
    """The bundle's client on this machine. Paths in a bundle are not used: they belong to another machine."""
    name = packed.cell.client.name
    given = parse_client(text or name)
    if given.name != name:
        raise UsageProblem(f"the bundle's client is {name}, not {given.name}", remedy=f"say where it is: --client {name}=PATH")
    return given


def repeating(packed: Bundle, options: Options, seed: int | None) -> Options:
    """Options that repeat the bundle: its clock unless another is given; in virtual time its price and its seed, or `seed`.

    What watched its samples watches these, because that takes virtual time. In virtual time its client's variables are set,
    unless others are given. In real time a program of this machine obeys them: UsageProblem for a variable that is not given.
    """
    guest = packed.cell.virtual
    clock = packed.cell.clock if options.clock == "auto" else options.clock
    repeated = replace(
        options,
        clock=clock,
        looks=packed.looks,
        virtual_looks=packed.looks,
        sshd=SshdOptions(**packed.manifest.sshd.model_dump()),
    )
    stored = packed.cell.client.variables
    if clock != "virtual" and (unasked := [name for name in stored if name not in options.variables]):
        raise UsageProblem(
            f"the bundle's client had {', '.join(unasked)}, and in real time no variable comes from a bundle",
            remedy="give it again: " + " ".join(f"--env {name}=VALUE" for name in unasked),
        )
    if clock == "virtual":
        repeated = replace(repeated, variables={**stored, **options.variables})
    if guest is None or clock != "virtual":
        return repeated
    repeated = replace(
        repeated,
        charge_ns=guest.charge_ns,
        userlands=asked_userlands(packed.cell),
        pcap=any(sample.pcap for sample in packed.cell.samples),
        why=any(sample.why for sample in packed.cell.samples),
    )
    if seed is not None:
        return repeated
    if guest.session_seed is None:
        return replace(repeated, machine_seed=guest.seed)
    return replace(repeated, seed=guest.session_seed)


def both_virtual(there: CellResult, here: CellResult) -> bool:
    return there.clock == here.clock == "virtual"


def exactness(there: CellResult, here: CellResult) -> str:
    """The outcome of comparing two results in virtual time: the same, or their first difference."""
    where = first_difference(view(there), view(here))
    if where is None:
        return EXACT
    other = other_parts(there.virtual, here.virtual)
    because = f"; of what counts, B has another {', another '.join(other)}" if other else ""
    return f"the two first differ, A then B, at {where}{because}"


def _run_again(cell: Cell, options: Options) -> tuple[CellResult, RunDir]:
    with measured_run("rerun", options, Lines(), reports=make_reports, planned=[cell.id]) as session:
        return session.run_cell(cell), session.run


def _comparison(packed: Bundle, file: Path, here: CellResult, run: RunDir, within: Ratio) -> Comparison:
    row = agreement(packed.cell, here, within.value)
    return Comparison(
        lab_version=lab.__version__,
        a=_side(packed.cell, file),
        b=_side(here, run.path),
        within=within,
        answers=[row],
        only_in_a=[],
        only_in_b=[],
        differences=differences([packed.cell], [here]),
        notes=[exactness(packed.cell, here) if both_virtual(packed.cell, here) else NOT_INTERLEAVED],
        exit_code=exit_code([row.judged.name]),
    )


def _side(cell: CellResult, place: Path) -> RunSide:
    return RunSide(run=cell.run, path=str(place), started_at=cell.started_at, ended_at=cell.ended_at, whole=True)
