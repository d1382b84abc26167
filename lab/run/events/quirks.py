"""Run events: what a client does when something happens to its network, or to its send buffer.

Each has the session's network shaped, puts everything back, and leaves an `Answer`. A fault of the lab is INVALID, as in a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from lab import __version__
from lab.clients.last_words import last_words
from lab.clients.registry import assert_speaks
from lab.hosts.host import Completed, Host
from lab.judge.quirks import (
    ENDS_WITHIN_S,
    fallback_problem,
    interruption_problem,
    names_problem,
    refusal_problem,
    silence_problem,
    verdict_on,
)
from lab.model.answer import Answer, Event, Observation, Question
from lab.model.cell_name import format_cell_name
from lab.model.errors import ClientFault, LabFault
from lab.model.results import Verdict
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.run.clocks import is_windows_name
from lab.run.events.client_run import Bench, said
from lab.run.events.flap import Interrupted, measure_address_change, measure_flap
from lab.run.events.lookups import measure_names
from lab.run.events.no_answer import (
    ASKED_S,
    BOTH,
    ONE_OF_TWO,
    Attempt,
    measure_fallback,
    measure_silence,
)
from lab.run.events.refusal import measure_refusal
from lab.run.session import Session
from lab.store.provenance import machine_facts

DOWN_S = 1.0
INTERRUPTIONS: tuple[Event, ...] = ("flap", "address")
"""The events that can happen to any transfer."""
_TRIES = 3


@dataclass(frozen=True)
class Request:
    """One client on one link, the transfer, and what happens to it."""

    client: ClientSpec
    topology: Topology
    transfer: Transfer
    kind: Question
    # Tells this answer from others to the same question about the same transfer.
    variant: str = ""

    @property
    def id(self) -> str:
        name = f"{format_cell_name(self.client.name, self.topology.name, self.transfer)}--{self.kind}"
        return f"{name}-{self.variant}" if self.variant else name


def run_quirk(session: Session, client: ClientSpec, topology: Topology, transfer: Transfer, kind: Event) -> Answer:
    """Run one event to its verdict and write the answer. Raises as `Session.run_cell`."""
    take, fine = _QUIRKS[kind]
    return investigate(
        session,
        Request(client, topology, transfer, kind),
        lambda bench: take(bench, transfer, topology),
        lambda rows: verdict_on(rows, fine(rows)),
    )


def investigate(
    session: Session,
    request: Request,
    take: Callable[[Bench], Iterator[Observation]],
    judge: Callable[[list[Observation]], Verdict],
) -> Answer:
    """Write the answer made of the observations from `take`, on a shaped network, and the verdict of `judge`.

    A LabFault meanwhile makes it INVALID; that of a lab which was abandoned is raised.
    """
    started_at, rows, faults = datetime.now(UTC), list[Observation](), list[str]()
    bench_of = session.bench(
        request.id,
        request.topology,
        real=is_windows_name(request.client),
        client=request.client,
        transfer=request.transfer,
    )
    with bench_of as (network, servers):
        adapter = session.lab.adapter_on(network.client.under_test, request.client, request.transfer, request.id)
        identity = adapter.identify(network.client.under_test)
        assert_speaks(identity, request.transfer, request.id)
        bench = Bench(network, servers, adapter)
        session.progress.step(request.id)
        try:
            for row in take(bench):
                rows.append(row)
                session.progress.step(f"{request.id}: {row.name}")
        except LabFault as fault:
            if session.lab.abandoned:
                raise
            faults.append(fault.message)
        verdict = verdict_on(rows, "", faults) if faults else judge(rows)
        command = bench.started[0] if bench.started else []
        answer = Answer(
            id=request.id,
            question=request.kind,
            run=session.run.name,
            lab_version=__version__,
            backend=network.backend,
            clocks=[network.clock.kind],
            router=network.router_facts.recorded,
            machine={**machine_facts(), **_client_system(network.client)},
            client=identity.model_copy(update={"command": command, "program": request.client.program}),
            topology=request.topology,
            transfer=request.transfer,
            observations=rows,
            userlands=dict(session.lab.userlands),
            ratio=verdict.interval,
            verdict=verdict,
            started_at=started_at,
            ended_at=datetime.now(UTC),
        )
    return session.keep(answer)


def _client_system(client: Host) -> dict[str, object]:
    """The version of a client's system that is not the lab's machine's own."""
    if client.platform == "linux":
        return {}
    facts = client.facts()
    return {"client_version": f"10.0.{facts['build']}" if facts.get("build") else str(facts.get("version") or "Windows")}


def _refused(bench: Bench, transfer: Transfer, topology: Topology) -> Iterator[Observation]:
    del topology
    for server in dict.fromkeys((bench.servers.endpoints.server, "localhost")):
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
            yield Observation(name=server, problem=problem, figures=figures, facts={"said": last_words(done)})


def _silent(bench: Bench, transfer: Transfer, topology: Topology) -> Iterator[Observation]:
    """Once with the client's own time-out, if it has one, and once without, which takes two minutes."""
    del topology
    for own in (True, False):
        if found := measure_silence(bench, transfer, own=own):
            done = found.done
            problem = silence_problem(
                exit_code=done.returncode,
                timed_out=done.timed_out,
                wall_s=done.wall_s,
                asked_s=ASKED_S if own else None,
                said=said(done),
            )
            yield _ended(f"time-out of {ASKED_S} s" if own else "no time-out", found, problem)


def _fallback(bench: Bench, transfer: Transfer, topology: Topology) -> Iterator[Observation]:
    """With both addresses first, for comparison."""
    del topology
    both_s = 0.0
    for both in (BOTH, *ONE_OF_TWO):
        found = measure_fallback(bench, transfer, both)
        done = found.done
        both_s = both_s or done.wall_s
        problem = fallback_problem(
            exit_code=done.returncode, timed_out=done.timed_out, wall_s=done.wall_s, both_s=both_s, content=found.content
        )
        yield _ended(both.name, found, problem)


def _ended(name: str, found: Attempt, problem: str) -> Observation:
    done = found.done
    figures = {"wall_s": done.wall_s, "control_s": found.control.seconds, "exit_code": float(done.returncode)}
    return Observation(name=name, problem=problem, figures=figures, facts={"said": why} if (why := _why(done)) else {})


def _localhost(bench: Bench, transfer: Transfer, topology: Topology) -> Iterator[Observation]:
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
        yield Observation(name="localhost", problem=problem, figures=figures, facts=facts)


def _flap(bench: Bench, transfer: Transfer, topology: Topology) -> Iterator[Observation]:
    for _ in range(_TRIES):
        yield _interrupted(
            "link down",
            lambda: measure_flap(bench, transfer, topology, down_s=DOWN_S, patience_s=ENDS_WITHIN_S),
        )


def _address(bench: Bench, transfer: Transfer, topology: Topology) -> Iterator[Observation]:
    yield _interrupted("other address", lambda: measure_address_change(bench, transfer, topology, patience_s=ENDS_WITHIN_S))


def _interrupted(name: str, measure: Callable[[], Interrupted]) -> Observation:
    try:
        found = measure()
    except ClientFault as fault:
        return Observation(name=name, problem=fault.message)
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
    return Observation(name=name, problem=problem, figures=figures, facts={key: text for key, text in facts.items() if text})


def _why(done: Completed) -> str:
    """The last words of a client that failed; a successful one prints its report."""
    return last_words(done) if done.returncode else ""


def _slowest(rows: list[Observation], figure: str) -> float:
    return max(row.figures.get(figure, 0.0) for row in rows)


def _wall(row: Observation) -> float:
    return row.figures["wall_s"]


def _outcome(rows: list[Observation]) -> str:
    whole = sum(row.figures.get("exit_code") == 0 for row in rows)
    after = f"at most {_slowest(rows, 'ended_after_s'):.1f} s after it began"
    others = ", the others ended with an error" if whole < len(rows) else ""
    return f"{whole} of {len(rows)} finished whole{others}, {after}"


_Take = Callable[[Bench, Transfer, Topology], Iterator[Observation]]
_QUIRKS: dict[Event, tuple[_Take, Callable[[list[Observation]], str]]] = {
    "refused": (_refused, lambda rows: f"refused connections were reported within {_slowest(rows, 'wall_s'):.2f} s"),
    "silent": (_silent, lambda rows: f"it gave up after {', '.join(f'{_wall(row):.1f} s ({row.name})' for row in rows)}"),
    "fallback": (_fallback, lambda rows: f"the other address was used within {_slowest(rows, 'wall_s') - _wall(rows[0]):.2f} s"),
    "localhost": (_localhost, lambda rows: f"no query for localhost in {len(rows)} runs, and the control was counted"),
    "flap": (_flap, _outcome),
    "address": (_address, _outcome),
}
