"""`lab new`: a commented file to begin with, which the lab accepts as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from lab.link.tc_line import read_line
from lab.model.base import SLUG_PATTERN
from lab.model.errors import UsageProblem
from lab.model.files import write_faults, write_text
from lab.model.link import LinkDirection, LinkOverride
from lab.model.load import parse_topology
from lab.model.units import Duration


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
_ENDPOINT = """\
# A server. Every field: docs/reference/endpoint.md, `lab schema endpoint`. `lab endpoints NAME` checks this file.
name: NAME
description: A server of ours, described so that the lab can start it.
# A name on the PATH, or a path relative to this file. This start runs a server of Python's library, which takes PUT.
program: python3
files:
  server.py: |
    import http.server, os, sys
    class Files(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def do_PUT(self):
            with open(self.translate_path(self.path), "wb") as file:
                left = int(self.headers["Content-Length"])
                while left:
                    data = self.rfile.read(min(left, 65536))
                    if not data:
                        return
                    file.write(data)
                    left -= len(data)
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()
    os.chdir(sys.argv[2])
    http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Files).serve_forever()
# Words, as a shell splits them; no shell runs. {root} has the files to serve in {root}/files, and a folder {root}/upload.
start: "{program} {workdir}/server.py {port.http} {root}"
ports: {http: 8080}
# How the lab sees that it serves: an answer to this path.
ready: {http: /files/}
# By protocol, as clients call it; a name of your own is a protocol too.
urls:
  http1: {get: "http://{server}:{port.http}/files/{payload}", put: "http://{server}:{port.http}/upload/{upload}"}
# The file of a complete upload. Or `read_back`, a command that prints its content.
stored: "{root}/upload/{upload}"
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
    "endpoint": Start("endpoints/NAME.yaml", _ENDPOINT, "lab run curl--dsl-50@NAME--http1-put-2MB"),
    "suite": Start("suites/NAME.robot", _SUITE, "lab run NAME"),
    "profile": Start("suites/profiles/NAME.yaml", _PROFILE, "lab run @NAME"),
}
"""By the word that asks for it."""


def register(app: typer.Typer) -> None:
    app.command("new")(new)


def new(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="client, topology, endpoint, suite or profile.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits, and single - . _ between them.")],
    from_tc: Annotated[
        str | None,
        typer.Option("--from-tc", metavar="LINE", help="A topology from a line of tc or tcset on the client's device."),
    ] = None,
    from_tc_server: Annotated[
        str | None, typer.Option("--from-tc-server", metavar="LINE", help="The same on the server's device.")
    ] = None,
) -> None:
    """Write a commented file to begin with, in ./clients, ./topologies, ./endpoints or ./suites, where commands find it.

    It works as it is: the command that is printed runs it, and passes. tc shapes what leaves a device, so that one line is one
    direction: `up` on the client's device, `down` on the server's. An option that no link has is refused.
    """
    start = STARTS.get(kind)
    if start is None:
        raise UsageProblem(f"{kind!r} is nothing that can be begun", remedy=f"one of {', '.join(STARTS)}")
    if not re.fullmatch(SLUG_PATTERN, name) or len(name) > 64:
        raise UsageProblem(f"{name!r} is not a name", remedy="use small letters, digits, and single - . _ between them")
    lines = {side: line for side, line in (("client", from_tc), ("server", from_tc_server)) if line is not None}
    if lines and kind != "topology":
        raise UsageProblem("--from-tc is for topologies", remedy=f"lab new topology {name} --from-tc ...")
    text = _from_lines(name, lines) if lines else start.text.replace("NAME", name)
    path = Path(start.path.replace("NAME", name))
    if path.exists():
        raise UsageProblem(f"{path} is there already", remedy="take another name, or remove it")
    with write_faults(path, remedy="work in a folder of your own", fault=UsageProblem):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    use = _use(text) if lines else start.use
    typer.echo(f"{path}: try it with {use.replace('NAME', name)}")


def _from_lines(name: str, lines: Mapping[str, str]) -> str:
    """The file of a topology with those lines on the devices of client and server. Raises UsageProblem, one line."""
    sides: dict[str, LinkDirection] = {}
    for host, line in lines.items():
        read = read_line(line)
        side = "up" if (host == "client") != read.incoming else "down"
        if side in sides:
            raise UsageProblem(f"both lines shape {side}", remedy="give one line for each direction")
        sides[side] = read.settings
    rtt = Duration(sum(side.delay.ns for side in sides.values()))
    told = ["# tc's delay is one way, and a line shapes one direction: up is client to server. rtt is there and back."]
    told += [f"# {host}: {' '.join(line.split())}" for host, line in lines.items()]
    found = [f"name: {name}", f"description: {json.dumps(' and '.join(f'{line} ({host})' for host, line in lines.items()))}"]
    found += ["link:", f"  rtt: {rtt}"]
    for side, settings in sides.items():
        found += [f"  {side}:", *(f"    {field}: {text}" for field, text in _fields(settings))]
    text = "\n".join([*told, *found]) + "\n"
    parse_topology(text, "the network of this line")
    return text


def _use(text: str) -> str:
    """A command with a transfer that the network limits: without a rate on its way it would ask about this machine."""
    link = parse_topology(text, "the network of this line").link
    limited = next((way for way, side in (("get", link.direction("down")), ("put", link.direction("up"))) if side.rate), "")
    return f"lab run curl--NAME--http1-{limited}-2MB" if limited else "lab run curl--NAME--http1-get-2MB-at-1MBps"


def _override(settings: LinkDirection) -> LinkOverride:
    """The settings of the line; a delay of nothing, too, because the other direction would get half of the round trip."""
    return LinkOverride.model_validate({name: getattr(settings, name) for name in {*settings.model_fields_set, "delay"}})


def _fields(settings: LinkDirection) -> Iterator[tuple[str, str]]:
    """Names and values in YAML, in the order of the model."""
    made = _override(settings)
    for name in LinkOverride.model_fields:
        value = getattr(made, name)
        if value is None:
            continue
        plain = made.model_dump(mode="json", exclude_none=True)[name]
        yield name, json.dumps(plain) if isinstance(plain, dict) else str(plain)
