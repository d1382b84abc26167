"""`lab new`: a commented file to begin with, which the lab accepts as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from lab.model.base import SLUG_PATTERN
from lab.model.errors import UsageProblem
from lab.model.files import write_faults, write_text


@dataclass(frozen=True)
class Start:
    """A kind of file: where it goes below the working folder, its text, and a command that uses it."""

    path: str
    text: str
    use: str


_CLIENT = """\
# A client under test. Every field: docs/reference/client.md, `lab schema client`.
name: NAME
# A name on the PATH, or a path relative to this file. This start runs curl, until you put your own program here.
program: curl
version: [--version]
# What it speaks of http1, https1, h2, h3 and sftp. One command for all of them, or a mapping: `get: {http1: ..., sftp: ...}`.
protocols: [http1, https1]
# Words, as a shell splits them; no shell runs. The lab fills in {url}, {output}, {source}, {ca} and others.
get: curl -sS --fail --cacert {ca} -o {output} {url}
put: curl -sS --fail --cacert {ca} -T {source} {url}
# Its own rate limit, in bytes per second. Leave this out if it has none.
limit: --limit-rate {limit}
# How the lab reads what it prints: none, or a regular expression with groups bytes, total_s, body_s. The lab's own clock judges.
report: none
# What it cannot do, with the reason that a skipped cell shows.
cannot:
  parallel: it moves one file
"""
_TOPOLOGY = """\
# A network. Every field: docs/reference/topology.md, `lab schema topology`.
name: NAME
# Whose line this is, and where its figures come from.
description: A home behind DSL, as measured on a weekday evening.
link:
  # Bits per second on the wire, in both directions unless `up` or `down` says otherwise.
  rate: 50 Mbit/s
  # Of the idle link, there and back.
  rtt: 30 ms
  # The buffer in front of the slow hop: a time, packets, or `1 bdp`. Long buffers delay, short ones lose.
  queue: 100 ms
  # Shares of packets, each way.
  loss: 0.1 %
  up:
    rate: 10 Mbit/s
"""
_SUITE = """\
*** Settings ***
Documentation       What does this suite ask, and why?
...
...                 Every row is one question. Keywords: docs/reference/keywords.html. One row: lab run NAME --test "A Download*".
Library             lab.robot.library.LabLibrary
Test Template       Uses Its Line


*** Variables ***
# `lab run NAME --client ./mine.yaml` replaces it.
${CLIENT}       curl


*** Test Cases ***                  topology    protocol    direction    size     share
A Download Over A Home Line         dsl-50      http1       get          10 MB    0.6
    [Tags]    quick
An Upload Over A Home Line          dsl-50      http1       put          10 MB    0.6


*** Keywords ***
Uses Its Line
    [Documentation]    The body rate is at least this share of what the line carries, proven by as many transfers as that takes.
    ...    Judge Limited Transfer asks whether a client keeps its rate limit, Judge Cell takes a cell by its name.
    [Arguments]    ${topology}    ${protocol}    ${direction}    ${size}    ${share}
    Judge Bound
    ...    client=${CLIENT}
    ...    topology=${topology}
    ...    kind=fill
    ...    size=${size}
    ...    bound=${share}
    ...    protocol=${protocol}
    ...    direction=${direction}
"""
_PROFILE = """\
# Several suites as one run: `lab run @NAME`. Parts: suites, clients, include, exclude, tests, variables.
name: NAME
description: When is it run, and what does it cover?
# Runs of this profile that are kept; without this line all are.
keep: 30
# virtual skips rows about the machine, with the reason; auto runs them in real time.
clock: virtual
# In junit.xml: usual (INVALID is an error, INCONCLUSIVE is skipped), error, or skip.
junit_no_verdict: usual
parts:
  - suites: [round-trips]
    tests: ["H1 Get, 20 ms", "H1 Put, 20 ms"]
    clients: [curl]
"""
STARTS: dict[str, Start] = {
    "client": Start("clients/NAME.yaml", _CLIENT, "lab run NAME--dsl-50--http1-put-2MB-at-1MBps"),
    "topology": Start("topologies/NAME.yaml", _TOPOLOGY, "lab run curl--NAME--http1-get-2MB"),
    "suite": Start("suites/NAME.robot", _SUITE, "lab run NAME"),
    "profile": Start("suites/profiles/NAME.yaml", _PROFILE, "lab run @NAME"),
}
"""By the word that asks for it."""


def register(app: typer.Typer) -> None:
    app.command("new")(new)


def new(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="client, topology, suite or profile.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits, and single - . _ between them.")],
) -> None:
    """Write a commented file to begin with, in ./clients, ./topologies or ./suites, where commands find it by its name.

    It works as it is: the command that is printed runs it, and passes.
    """
    start = STARTS.get(kind)
    if start is None:
        raise UsageProblem(f"{kind!r} is nothing that can be begun", remedy=f"one of {', '.join(STARTS)}")
    if not re.fullmatch(SLUG_PATTERN, name) or len(name) > 64:
        raise UsageProblem(f"{name!r} is not a name", remedy="use small letters, digits, and single - . _ between them")
    path = Path(start.path.replace("NAME", name))
    if path.exists():
        raise UsageProblem(f"{path} is there already", remedy="take another name, or remove it")
    with write_faults(path, remedy="work in a folder of your own", fault=UsageProblem):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, start.text.replace("NAME", name))
    typer.echo(f"{path}: try it with {start.use.replace('NAME', name)}")
