"""Runs the studies that are no cells: what a client does when something happens to its network, or to its send buffer.

Each has the session's network shaped, puts everything back, and leaves a `Finding`. A fault of the lab is INVALID, as in a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from lab import __version__
from lab.backend.host import Completed
from lab.client.registry import resolve_for
from lab.errors import ClientFault, LabFault
from lab.judge.quirks import ENDS_WITHIN_S, interruption_problem, names_problem, refusal_problem, verdict_on
from lab.measure.attempt import Bench, last_words, prepare, said
from lab.measure.flap import Interrupted, measure_address_change, measure_flap
from lab.measure.names import measure_names
from lab.measure.refusal import measure_refusal
from lab.result.finding import Finding, FindingKind, FindingRow
from lab.result.models import Verdict
from lab.result.provenance import machine_facts
from lab.runner.clocks import is_windows_name
from lab.runner.session import Session
from lab.spec.cell import format_cell_name
from lab.spec.models import ClientSpec, Topology, Transfer

Quirk = Literal["refused", "localhost", "flap", "address"]
DOWN_S = 1.0
_TRIES = 3


@dataclass(frozen=True)
class Question:
    """One client on one link, and the transfer that something happens to."""

    client: ClientSpec
    topology: Topology
    transfer: Transfer
    kind: FindingKind
    # Of several findings of one kind about one transfer, what tells this one from the others.
    variant: str = ""

    @property
    def id(self) -> str:
        name = f"{format_cell_name(self.client.name, self.topology.name, self.transfer)}--{self.kind}"
        return f"{name}-{self.variant}" if self.variant else name


def run_quirk(session: Session, client: ClientSpec, topology: Topology, transfer: Transfer, kind: Quirk) -> Finding:
    """Run one quirk to its verdict and write it. Raises as `Session.run_cell`."""
    take, fine = _QUIRKS[kind]
    return investigate(
        session,
        Question(client, topology, transfer, kind),
        lambda bench: take(bench, transfer, topology),
        lambda rows: verdict_on(rows, fine(rows)),
    )


def investigate(
    session: Session,
    question: Question,
    take: Callable[[Bench], Iterator[FindingRow]],
    judge: Callable[[list[FindingRow]], Verdict],
) -> Finding:
    """Rows from `take` while the network is up and shaped, the verdict of `judge`; a LabFault meanwhile is INVALID. Written."""
    started_at, rows, faults = datetime.now(UTC), list[FindingRow](), list[str]()
    with session.bench(question.id, question.topology, real=is_windows_name(question.client)) as (network, servers):
        adapter = resolve_for(question.client, question.transfer, question.id)
        identity = adapter.identify(network.client)
        bench = Bench(network, servers, adapter)
        command = prepare(bench, question.transfer).command
        session.progress.step(question.id)
        try:
            for row in take(bench):
                rows.append(row)
                session.progress.step(f"{question.id}: {row.name}")
        except LabFault as fault:
            faults.append(fault.message)
        finding = Finding(
            id=question.id,
            kind=question.kind,
            run=session.run.name,
            lab_version=__version__,
            backend=network.backend,
            clock=network.clock.kind,
            router={**vars(network.router_facts), "notes": list(network.router_facts.notes)},
            machine=machine_facts(),
            client=identity.model_copy(update={"command": command, "program": question.client.program}),
            topology=question.topology,
            transfer=question.transfer,
            rows=rows,
            verdict=verdict_on(rows, "", faults) if faults else judge(rows),
            started_at=started_at,
            ended_at=datetime.now(UTC),
        )
    session.keep(finding)
    return finding


def _refused(bench: Bench, transfer: Transfer, topology: Topology) -> Iterator[FindingRow]:
    del topology
    for server in (bench.servers.endpoints.server, "localhost"):
        for _ in range(_TRIES):
            found = measure_refusal(bench, transfer, server)
            done = found.done
            problem = refusal_problem(
                exit_code=done.returncode,
                timed_out=done.timed_out,
                wall_s=done.wall_s,
                control_s=found.control_s,
                said=said(done),
            )
            figures = {"wall_s": done.wall_s, "control_s": found.control_s, "exit_code": float(done.returncode)}
            yield FindingRow(name=server, problem=problem, figures=figures, facts={"said": last_words(done)})


def _localhost(bench: Bench, transfer: Transfer, topology: Topology) -> Iterator[FindingRow]:
    del topology
    for _ in range(_TRIES):
        found = measure_names(bench, transfer)
        done = found.done
        problem = names_problem(exit_code=done.returncode, timed_out=done.timed_out, queries=found.queries, content=found.content)
        figures = {
            "queries": float(len(found.queries)),
            "control_queries": float(len(found.control)),
            "wall_s": done.wall_s,
            "exit_code": float(done.returncode),
        }
        facts = {name: text for name, text in (("asked", ", ".join(found.queries)), ("said", _why(found.done))) if text}
        yield FindingRow(name="localhost", problem=problem, figures=figures, facts=facts)


def _flap(bench: Bench, transfer: Transfer, topology: Topology) -> Iterator[FindingRow]:
    for _ in range(_TRIES):
        yield _interrupted(
            "link down",
            lambda: measure_flap(bench, transfer, topology, down_s=DOWN_S, patience_s=ENDS_WITHIN_S),
        )


def _address(bench: Bench, transfer: Transfer, topology: Topology) -> Iterator[FindingRow]:
    yield _interrupted("other address", lambda: measure_address_change(bench, transfer, topology, patience_s=ENDS_WITHIN_S))


def _interrupted(name: str, measure: Callable[[], Interrupted]) -> FindingRow:
    try:
        found = measure()
    except ClientFault as fault:
        return FindingRow(name=name, problem=fault.message)
    done = found.done
    problem = interruption_problem(
        exit_code=done.returncode,
        timed_out=done.timed_out,
        waited_s=found.waited_s,
        content=found.content,
        said=said(done),
    )
    figures = {
        "begun_s": found.at_s,
        "moved_bytes": float(found.moved_bytes),
        "lasted_s": found.lasted_s,
        "ended_after_s": found.waited_s,
        "exit_code": float(done.returncode),
    }
    if found.silent_bytes is not None:
        figures["wire_bytes_meanwhile"] = float(found.silent_bytes)
    facts = {"content": found.content or "whole", "said": _why(done)}
    return FindingRow(name=name, problem=problem, figures=figures, facts={key: text for key, text in facts.items() if text})


def _why(done: Completed) -> str:
    """Only a failure is quoted: what a client prints of a success is its report."""
    return last_words(done) if done.returncode else ""


def _slowest(rows: list[FindingRow], figure: str) -> float:
    return max(row.figures.get(figure, 0.0) for row in rows)


def _outcome(rows: list[FindingRow]) -> str:
    whole = sum(row.figures.get("exit_code") == 0 for row in rows)
    after = f"at most {_slowest(rows, 'ended_after_s'):.1f} s after it began"
    others = ", the others ended with an error" if whole < len(rows) else ""
    return f"{whole} of {len(rows)} finished whole{others}, {after}"


_Take = Callable[[Bench, Transfer, Topology], Iterator[FindingRow]]
_QUIRKS: dict[Quirk, tuple[_Take, Callable[[list[FindingRow]], str]]] = {
    "refused": (_refused, lambda rows: f"refused connections were reported within {_slowest(rows, 'wall_s'):.2f} s"),
    "localhost": (_localhost, lambda rows: f"no query for localhost in {len(rows)} runs, and the control was counted"),
    "flap": (_flap, _outcome),
    "address": (_address, _outcome),
}
