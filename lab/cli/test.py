"""`lab test`: a user's own test suite in virtual time, on a writable copy of its project."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.asked_files import put_asked_files
from lab.cli.options import Env, bare, quantity, variables
from lab.cli.output import put_output, say
from lab.hosts.virtual.network import memory_for
from lab.hosts.virtual.project import hidden
from lab.model.errors import UsageProblem
from lab.model.files import replacing
from lab.model.load import load_topology
from lab.model.obeyed import refuse
from lab.model.scratch import scratch_folder
from lab.model.topology import Topology
from lab.model.units import Duration, Size
from lab.run.project.plan import BuildFailed, Outside
from lab.run.project.reports import own_junit
from lab.run.project.suite import Asked, SuiteOutcome, as_json, run_suite
from lab.run.project.tools import plan_for
from lab.run.settings import DEFAULT_SEED

_PASS_THROUGH = {"ignore_unknown_options": False, "allow_interspersed_args": False}
_BINARY = {"K": "KiB", "M": "MiB", "G": "GiB"}


def register(app: typer.Typer) -> None:
    app.command("test", context_settings=_PASS_THROUGH)(own_tests)


def memory(text: str) -> Size:
    """A size of memory: `1G` is 1 GiB, as other programs have it."""
    text = text.strip()
    return Size.parse(text[:-1] + _BINARY[text[-1]] if text[-1:] in _BINARY else text)


def own_tests(
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND...", help="The command, e.g. pytest tests.")] = None,
    project: Annotated[
        Path | None, typer.Option("--project", metavar="FOLDER", help="What is writable inside. Default: the current folder.")
    ] = None,
    topology: Annotated[
        str, typer.Option("--topology", metavar="NETWORK", help="Run behind this network's link, by name or YAML file.")
    ] = "",
    servers: Annotated[
        bool, typer.Option("--servers", help="Start the lab's servers, as `localhost`; a topology has them.")
    ] = False,
    memory_size: Annotated[
        Size, typer.Option("--memory", parser=quantity(memory), metavar="SIZE", help="The machine's memory; 2G for a JVM.")
    ] = Size(1 << 30),  # noqa: B008 - a frozen value
    env: Env = None,
    out: Annotated[
        list[str] | None,
        typer.Option("--out", metavar="PATTERN", help="Copy these new files out too, by their paths in the project: 'cov/*'."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Where the lab ends the suite: JUnit with that one error.")
    ] = None,
    time_limit: Annotated[
        Duration, typer.Option(parser=quantity(Duration.parse), metavar="TIME", help="Virtual time that the suite may take.")
    ] = Duration(600 * 10**9),
    cpu_limit: Annotated[
        Duration, typer.Option(parser=quantity(Duration.parse), metavar="TIME", help="CPU time of this machine that it may take.")
    ] = Duration(600 * 10**9),
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="The same seed repeats the run.")] = DEFAULT_SEED,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the outcome to this file.")] = None,
) -> None:
    """Run your own tests in virtual time: what sleeps costs nothing, and a busy machine changes nothing.

    lab test -- pytest --junitxml junit.xml

    The folder is writable inside and stays as it is outside, but for new reports: *junit*.xml, TEST-*.xml, surefire's, and --out.
    go test, cargo test and mvn test compile outside first. Exit codes: the suite's; 124 when a limit ended it; 2 for wrong usage.
    """
    words = bare(command)
    if not words:
        raise UsageProblem("no command is given", remedy="lab test -- pytest")
    given = variables(env)
    root, folder = folders(project)
    for file in filter(None, (junit, json_file)):
        if not file.absolute().parent.is_dir():
            raise UsageProblem(f"{file}: there is no such folder", remedy="make it first")
    wanted = network(topology, servers=servers)
    if memory_size.bytes < (least := memory_for(0)):
        raise UsageProblem(f"--memory {memory_size} is too little for the machine", remedy=f"at least {least >> 20}M")
    program = found_program(words[0], folder)
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder("lab-test-"))
        try:
            plan = plan_for([program, *words[1:]], Outside(folder, scratch, os.environ))
        except BuildFailed as failed:
            raise typer.Exit(failed.code) from None
        for note in plan.notes:
            say(note)
        asked = Asked(
            project=root,
            plan=plan,
            variables=given,
            patterns=tuple(out or ()),
            memory_bytes=memory_size.bytes,
            limit_s=time_limit.s,
            cpu_limit_s=cpu_limit.s,
            seed=seed,
            topology=wanted,
            servers=servers,
        )
        outcome = run_suite(asked, put_output, say, put_asked_files)
    _close(words, asked, outcome, junit, json_file)
    raise typer.Exit(outcome.exit_code)


def folders(project: Path | None) -> tuple[Path, Path]:
    """The project, and the folder that the command runs in: the current one where it is in the project."""
    here = Path.cwd()
    root = (project or here).resolve()
    if not root.is_dir():
        raise UsageProblem(f"there is no folder {root}", remedy="--project names the folder of the project")
    if hidden(root):
        raise UsageProblem(f"{root} is the machine's own inside, and cannot be a project", remedy="copy the project elsewhere")
    return root, here if here.is_relative_to(root) else root


def network(name: str, *, servers: bool) -> Topology | None:
    """The topology of that name, if one is asked for. Raises UsageProblem."""
    if not name:
        return None
    if servers:
        raise UsageProblem("--topology has servers anyway", remedy="leave --servers out")
    found = load_topology(name)
    refuse("test", found, "virtual")
    return found


def found_program(name: str, folder: Path) -> str:
    """The path of a command's program, on the caller's PATH if it is a name. Raises UsageProblem."""
    if "/" in name:
        if not os.access(folder / name, os.X_OK):
            raise UsageProblem(f"{name}: no such command", remedy="name a program of this machine")
        return name
    if found := shutil.which(name):
        return found
    raise UsageProblem(f"{name}: no such command", remedy="give a path, or install it")


def summary(outcome: SuiteOutcome) -> str:
    """The closing line."""
    return (
        f"{outcome.virtual_s:.3f} s of virtual time, {outcome.real_s:.1f} s of this machine's, {outcome.cpu_s:.1f} s of CPU time"
    )


def limit_line(outcome: SuiteOutcome, asked: Asked) -> str:
    """The limit that ended the suite, in one line."""
    option, limit_s = ("--time-limit", asked.limit_s) if outcome.limit == "virtual time" else ("--cpu-limit", asked.cpu_limit_s)
    return f"the lab ended the suite at its limit of {limit_s:g} s of {outcome.limit} ({option})"


def _close(words: Sequence[str], asked: Asked, outcome: SuiteOutcome, junit: Path | None, json_file: Path | None) -> None:
    """Say how it ended, and write the files that were asked for."""
    if outcome.ended == "lab":
        reason = limit_line(outcome, asked)
        say(reason)
        if junit:
            _write(junit, own_junit(shlex.join(words), reason, outcome.last_line, outcome.virtual_s))
    if outcome.interruptions:
        say(f"a program computed for long and was interrupted ({outcome.interruptions} times): the run may not repeat")
    for name in outcome.reports:
        say(f"report: {name}")
    if json_file:
        _write(json_file, as_json(list(words), asked, outcome).encode())
    say(summary(outcome))


def _write(path: Path, data: bytes) -> None:
    with replacing(path) as part:
        part.write_bytes(data)
