"""`ferry get --input`: what a list of URLs brings, and that a bad line of it brings nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from lab.clients.ferry import find_ferry
from tests.engine.harness import is_one_clear_line
from tests.engine.test_hostile_http import ferry
from tests.support.hostile_http import HostileServer, Talk, head, serve

MILLION = 1_000_000
MEMORY = 700 << 20


def answers(talk: Talk, server: HostileServer) -> None:
    """Each request with its own path, for as long as there are some."""
    while request := talk.request():
        path = request.split()[1]
        server.requests.append(path)
        talk.send(head("200 OK", len(path)) + path.encode())


def test_files_of_a_list_on_standard_input(tmp_path: Path) -> None:
    with serve(answers) as server:
        text = f"# a list\n\n{server.url('/a')}\r\n  {server.url('/b')}\n"
        words = ["get", server.url("/first"), "--input", "-", "-O", "--parallel", "1", "--json=-"]
        done = subprocess.run([str(find_ferry()), *words], cwd=tmp_path, input=text.encode(), capture_output=True, check=False)
        assert (done.returncode, server.requests) == (0, ["/first", "/a", "/b"])
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"first": "/first", "a": "/a", "b": "/b"}
    report = json.loads(done.stdout)
    assert [transfer["bytes"] for transfer in report["transfers"]] == [6, 2, 2]
    assert (report["set"]["files"], report["set"]["protocols"], report["set"]["connections"]) == (3, ["http/1.1"], 1)


def test_totals_have_rows_of_failures_only(tmp_path: Path) -> None:
    def script(talk: Talk, _: HostileServer) -> None:
        while request := talk.request():
            talk.send(head("404 Not Found", 0) if "/bad" in request else head("200 OK", 4) + b"real")

    with serve(script) as server:
        (tmp_path / "urls").write_text("".join(f"{server.url(path)}\n" for path in ("/1", "/bad", "/2")))
        told = ferry(tmp_path, "get", "--input", "urls", "--discard", "--totals")
    assert (told.code, [transfer["status"] for transfer in told.report["transfers"]]) == (11, [404])
    assert (told.report["set"]["files"], told.report["set"]["failed"], told.report["set"]["bytes"]) == (3, 1, 8)
    assert told.report["set"]["latency_us"]["min"] > 0


def test_a_bad_line_transfers_nothing(tmp_path: Path) -> None:
    with serve(answers) as server:
        (tmp_path / "urls").write_text(f"{server.url('/a')}\n\nnonsense\n")
        told = ferry(tmp_path, "get", "--input", "urls", "-O")
        assert (told.code, server.connections) == (2, [])
    is_one_clear_line(told.stderr, "urls:3: ", "nonsense")
    assert [path.name for path in tmp_path.iterdir()] == ["urls"]


def test_a_million_lines_are_read_before_the_first_request(tmp_path: Path) -> None:
    with serve(answers) as server, (tmp_path / "urls").open("w") as file:
        file.writelines(f"{server.url()}?{index}\n" for index in range(MILLION - 1))
        file.write("ftp://server/last\n")
        file.flush()
        told = ferry(tmp_path, "get", "--input", "urls", "--discard", memory=MEMORY)
        assert (told.code, server.connections) == (2, [])
    is_one_clear_line(told.stderr, f"urls:{MILLION}: ftp://server/last: expected http")
