"""One run from its folder to its reports: what every command that runs cells has around its session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from lab.run.options import Options
from lab.run.progress import Progress, Silent
from lab.run.resume import Resumed
from lab.run.session import Session
from lab.store.run_dir import RunDir


@contextmanager
def measured_run(
    name: str,
    options: Options,
    progress: Progress | None = None,
    *,
    reports: Callable[[RunDir], None] | None = None,
    resume: Resumed | None = None,
    planned: Sequence[str] = (),
) -> Iterator[Session]:
    """A session that writes into a new run called by its time and `name`, or goes on with the run `resume`.

    `planned` are the ids of what will be asked. They are in run.json from the start: a killed run differs from a complete one.
    However the block ends, a run with results gets its record and its `reports`; so does one without any that was
    stopped from outside. Any other without results leaves nothing behind.
    Raises what the block raises.
    """
    progress = progress or Silent()
    record = resume.run if resume else RunDir.create(name)
    session = Session(record, options, progress=progress)
    if resume:
        resume.take_up(session)
    try:
        with session:
            session.begin(planned)
            yield session
    finally:
        progress.clear()
        if not session.found_something and not session.was_stopped:
            record.discard()
        elif reports is not None:
            reports(record)
