"""Looks at what a command left. Each check gives a line per problem."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.clients.ferry import find_ferry


@dataclass(frozen=True)
class Done:
    """A command that has ended: in which checkout, with which results, which folder of its own, and what it printed."""

    checkout: Path
    results: Path
    work: Path
    output: str


def nothing(_: Done) -> list[str]:
    return []


def run_with_page(done: Done) -> list[str]:
    """The latest run is complete: a record, documents that validate, a page that names each of its cells."""
    run = done.results / "latest"
    if not (run / "run.json").is_file():
        return ["there is no record of a run"]
    record = json.loads((run / "run.json").read_text())
    problems = [] if record["cells"] or record.get("answers") else ["the run has no cell and no answer"]
    validated = _lab(done, "results", "validate", str(run.resolve()))
    problems += [] if validated.returncode == 0 else [f"its documents do not validate: {_last(validated)}"]
    page = run / "report.html"
    text = page.read_text() if page.is_file() else ""
    return problems + [f"the page does not name {cell}" for cell in record["cells"] if cell not in text]


def captures(done: Done) -> list[str]:
    """tcpdump reads packets from every capture, and there is one per sample."""
    found = sorted((done.results / "latest").resolve().rglob("*.pcap*"))
    problems = run_with_page(done) + ([] if len(found) >= 5 else [f"{len(found)} captures for five samples"])
    for each in found:
        read = _run("tcpdump", "-nr", str(each), "tcp")
        if read.returncode or len(read.stdout.splitlines()) < 100:
            problems.append(f"{each.name}: {len(read.stdout.splitlines())} packets: {read.stderr.strip()[-100:]}")
    return problems


def flame_graph(done: Done) -> list[str]:
    found = list((done.results / "latest").resolve().rglob("*.svg"))
    return run_with_page(done) + ([] if found else ["there is no flame graph"])


def page(done: Done) -> list[str]:
    made = done.work / "page.html"
    return [] if made.is_file() and "</html>" in made.read_text() else ["there is no page"]


def containers(done: Done) -> list[str]:
    """The client's container fetches a file over the shaped link from the server's."""
    listed = _run("docker", "compose", "--profile", "real", "ps", "--format", "json", cwd=done.checkout)
    states = {each["Service"]: each["State"] for each in map(json.loads, listed.stdout.splitlines())}
    return [
        f"{name} is {states.get(name, 'not there')}" for name in ("client", "router", "server") if states.get(name) != "running"
    ]


_KEEPS = 'exec {ferry} "$@"\n'
_DROPS = """\
for word; do
    shift
    case $word in
    --limit-rate) skip=yes ;;
    *) if [ -n "$skip" ]; then skip=; else set -- "$@" "$word"; fi ;;
    esac
done
exec {ferry} "$@"
"""


def planted_history(work: Path) -> None:
    """Five commits, tagged one to five, of a ferry that no longer hears of a limit from the fourth on."""
    repo = work / "repo"
    repo.mkdir()
    _git(repo, "init", "--quiet")
    for number, name in enumerate(("one", "two", "three", "four", "five")):
        script = (_DROPS if number >= 3 else _KEEPS).format(ferry=find_ferry())
        (repo / "ferry.in").write_text(f"#!/bin/sh\n# {name}\n{script}")
        (repo / "build.sh").write_text("cp ferry.in ferry && chmod +x ferry\n")
        _git(repo, "add", "--all")
        _git(repo, "-c", "user.name=T", "-c", "user.email=t@invalid", "commit", "--quiet", "-m", f"say {name}")
        _git(repo, "tag", name)


def planted_commit(done: Done) -> list[str]:
    return [] if "say four" in done.output else ["the commit 'say four' is not named"]


def _git(repo: Path, *words: str) -> None:
    done = _run("git", "-C", str(repo), *words)
    assert done.returncode == 0, done.stderr


def _lab(done: Done, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ROUGHWATER_RESULTS": str(done.results)}
    return _run(str(done.checkout / ".venv/bin/lab"), *words, cwd=done.checkout, env=env)


def _run(*words: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def _last(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stdout + done.stderr).strip().splitlines()[-1][-200:]
