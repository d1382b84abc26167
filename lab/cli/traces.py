"""`lab traces`: recorded traces that can be downloaded."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.assets.traces import PUBLISHED, download
from lab.model.errors import UsageProblem, did_you_mean


def register(app: typer.Typer) -> None:
    app.command("traces")(traces)


def traces(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="The traces to download; `all` for all.")] = None,
) -> None:
    """List recorded traces that others have published, or download some; a topology then names them in `schedule`.

    They belong to their publishers and are not part of Roughwater.
    """
    known = {trace.name: trace for trace in PUBLISHED}
    if not names:
        for trace in PUBLISHED:
            typer.echo(f"{trace.name:28} {'here' if trace.here else '-':5} {trace.about}")
        return
    wanted = list(known) if names == ["all"] else names
    if unknown := next((name for name in wanted if name not in known), ""):
        raise UsageProblem(f"no trace called {unknown!r}{did_you_mean(unknown, known)}", remedy="lab traces")
    for name in wanted:
        if not known[name].here:
            download(known[name])
        typer.echo(known[name].path)
