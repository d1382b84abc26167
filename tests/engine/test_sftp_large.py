"""Trees of many files: little memory for each, no line for each, and a report that has all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.sftp_harness import SftpBench
from tests.engine.sftp_servers import SftpServer, person

FEW, MANY = 1_500, 6_000
# The maximum of a process begins with the memory of its parent (getrusage(2)): that of a shell, not of the tests.
SMALL = ("sh", "-c", '"$@"; exit $?', "sh")
# A file more cost 4 kB until November 2026.
MOST_BYTES_A_FILE = 1_000


def tree(folder: Path, count: int) -> Path:
    for number in range(count):
        inside = folder / f"{number // 1000:03}"
        if number % 1000 == 0:
            inside.mkdir(parents=True)
            inside.chmod(0o777)
            person().owns(inside)
        (inside / f"file-{number:06}").write_bytes(b"8 bytes.")
    folder.chmod(0o777)
    person().owns(folder)
    return folder


def words(desk: SftpBench, server: SftpServer, way: str, count: int) -> list[str]:
    there = desk.remote(server) / f"tree-{way}-{count}"
    if way == "get":
        return ["get", "-r", server.url(f"{tree(there, count)}/"), "-o", f"back-{count}", "--no-sync", *desk.trust(server)]
    return ["put", str(tree(desk.folder / f"tree-{count}", count)), server.url(f"{there}/"), "--no-sync", *desk.trust(server)]


@pytest.mark.parametrize("way", ["get", "put"])
def test_a_file_more_costs_little_memory(desk: SftpBench, openssh: SftpServer, way: str) -> None:
    reports = []
    for count in (FEW, MANY):
        told = desk.start(*words(desk, openssh, way, count), before=SMALL).told()
        assert told.code == 0, told.stderr
        assert len(told.report["transfers"]) == told.report["set"]["files"] == count
        reports.append(told.report)
    few, many = (report["process"]["max_rss_bytes"] for report in reports)
    assert many - few < MOST_BYTES_A_FILE * (MANY - FEW)


@pytest.mark.parametrize("way", ["get", "put"])
def test_a_tree_has_one_line_and_each_file_one_with_v(desk: SftpBench, openssh: SftpServer, way: str) -> None:
    command = words(desk, openssh, way, 100)
    code, _, stderr = desk.start(*command, json=False).ended()
    assert code == 0, stderr
    (line,) = stderr.decode().splitlines()
    assert line.startswith("100 files, 800 bytes in ")
    again = ("--overwrite",) if way == "get" else ()
    code, _, stderr = desk.start(*command, *again, "-v", json=False).ended()
    assert code == 0, stderr
    verb = "received" if way == "get" else "sent"
    assert sum(f"file-000{number:03}: {verb} 8 bytes" in stderr.decode() for number in range(100)) == 100


def test_what_fails_has_its_line(desk: SftpBench, openssh: SftpServer) -> None:
    command = words(desk, openssh, "get", 10)
    back = desk.folder / "back-10" / "000"
    back.mkdir(parents=True)
    (back / "file-000003").write_bytes(b"mine")
    for folder in (back, back.parent):
        person().owns(folder)
    code, _, stderr = desk.start(*command, "--json=report", json=False).ended()
    assert code == 13
    (line,) = stderr.decode().splitlines()
    assert "file-000003 exists" in line
    report = json.loads((desk.folder / "report").read_text())
    assert (report["exit_code"], report["ok"], report["set"]["failed"]) == (13, False, 1)
    assert len(report["transfers"]) == 10
    assert not [path.name for path in desk.folder.iterdir() if path.name.endswith(".tmp")]
