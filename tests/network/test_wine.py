"""ferry.exe under Wine in a namespace of the lab: complete both ways, labelled, and Wine leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.assets import windows, wine
from lab.clients.ferry import Ferry
from lab.hosts.namespaces.network import open_network
from lab.judge.matching import os_of
from lab.model.cell import Cell
from lab.model.cell_name import parse_transfer
from lab.model.transfer import ClientSpec, Expectation
from lab.run.events.send_buffers import compare_send_buffers
from lab.run.session import Session
from lab.store.run_dir import RunDir, read_cell
from tests.support.processes import adopting, command, descendants
from tests.support.sessions import FAST, LENIENT
from tests.support.waiting import until

FERRY = ClientSpec(name="ferry", program="ferry.exe")


@pytest.fixture(scope="module", autouse=True)
def _wine_and_ferry() -> None:
    if windows.find() is None:
        pytest.skip("no ferry.exe: make ferry-windows builds it")
    if wine.find_program() is None:
        pytest.skip(f"no Wine: {wine.remedy()}")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Session(RunDir.create("test", results=tmp_path_factory.mktemp("results")), LENIENT) as made:
        yield made


@pytest.mark.parametrize("name", ["http1-get-2MiB", "sftp-put-2MiB"])
def test_its_transfers_are_intact_and_labelled(session: Session, name: str) -> None:
    transfer = parse_transfer(name)
    result = session.run_cell(Cell(client=FERRY, topology=FAST, transfer=transfer, expectation=Expectation.of(transfer)))
    assert result.verdict.name == "PASS", result.verdict.reason
    assert result.client.version.endswith(" not Windows")
    assert os_of(read_cell(session.run.cell_path(result.id))) == "Wine"
    for sample in result.samples:
        assert sample.problem == ""
        assert sample.max_rss_bytes
        assert sample.cpu_user_s + sample.cpu_system_s > 0
        assert sample.client
        if transfer.direction == "put":
            told = sample.client.raw["sndbuf"]
            assert isinstance(told, dict)
            assert (told["ideal_bytes"] is None) is (told["refused"] is not None), "an answer, or why there is none"


def test_the_send_buffer_off_and_automatic(session: Session) -> None:
    upload = parse_transfer("http1-put-1MiB")
    found = compare_send_buffers(session, FERRY, FAST, upload, fixed="off", rounds=2)
    assert found.verdict.name == "PASS", found.verdict.reason
    assert found.id.endswith("--send-buffers-off")
    assert sorted(row.name for row in found.observations) == ["automatic", "automatic", "fixed", "fixed"]
    for row in found.observations:
        assert f'"mode": "{"off" if row.name == "fixed" else "auto"}"' in row.facts["sndbuf"]


def _left(folder: Path) -> list[str]:
    """What still runs of the test's, and what lies where the machine keeps temporary files."""
    running = [command(pid) for pid in descendants(os.getpid())]
    return [line for line in running if "wineserver" in line and " -p" in line] + [path.name for path in folder.iterdir()]


KILLED = """\
import sys, time
from pathlib import Path
from lab.hosts.namespaces.network import open_network
from lab.clients.ferry import Ferry
network = open_network()
print(Ferry("ferry", "ferry.exe").identify(network.client).version, flush=True)
time.sleep(60)
"""


def test_a_killed_lab_takes_wine_along(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    before = _left(folder)
    environment = {**os.environ, "TMPDIR": str(folder)}
    argv = [sys.executable, "-c", KILLED]
    with adopting(), subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        assert "not Windows" in process.stdout.readline()
        assert len(_left(folder)) > len(before), "its wineserver runs"
        process.send_signal(signal.SIGKILL)
        process.wait()
        until(lambda: _left(folder) == before, "Wine and its files have gone")


def test_the_boot_of_wine_is_not_in_a_sample() -> None:
    network = open_network()
    try:
        adapter = Ferry("ferry", "ferry.exe")
        adapter.identify(network.client)
        argv = ["/bin/sh", "-c", 'ps -eo pid,args | grep "[w]ineserver.* -p"']
        server = network.client.run(argv).text
        network.client.run([f"{network.client.workdir}/bin/ferry/ferry", "--version"])
        adapter.identify(network.client)
        assert network.client.run(argv).text == server, "one server from the first identification on"
        assert len(server.splitlines()) == 1
    finally:
        network.close()
