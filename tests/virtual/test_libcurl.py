"""The application on libcurl in virtual time, on this system's library, which every machine with curl has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.assets import libcurl_build
from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.cell_name import parse_transfer
from lab.model.link import Link
from lab.model.results import CellResult
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation
from lab.model.units import BitRate, Duration
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir

pytestmark = pytest.mark.timeout(300)

SLOW = """\
name: slow-app
libcurl: {interface: multi, wait: sleep, every: 50 ms, buffer: 16 KiB}
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    libcurl_build.build(libcurl_build.SYSTEM, lambda _: None)
    clients = tmp_path_factory.mktemp("clients")
    (clients / "slow-app.yaml").write_text(SLOW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROUGHWATER_CLIENTS", str(clients))
        options = Options(clock="virtual", virtual_looks=LookPlan(looks=(2, 3)))
        with Session(RunDir.create("libcurl", results=tmp_path_factory.mktemp("results")), options) as made:
            yield made


def run(session: Session, client: str, name: str) -> CellResult:
    transfer = parse_transfer(name)
    link = Link(rate=BitRate.parse("50 Mbit/s"), rtt=Duration.parse("10 ms"))
    topology = Topology(name="line", description="-", link=link)
    cell = Cell(client=ClientSpec(name=client), topology=topology, transfer=transfer, expectation=Expectation.of(transfer))
    return session.run_cell(cell)


@pytest.mark.parametrize(
    ("name", "http"),
    [("h2-get-4x200kB-p4", "2"), ("https1-put-200kB", "1.1"), ("sftp-put-3x100kB", None), ("sftp-get-200kB-buf64KiB", None)],
)
def test_every_protocol_arrives(session: Session, name: str, http: str | None) -> None:
    result = run(session, "libcurl@debian", name)
    assert result.verdict.name == "PASS", result.verdict.reason
    assert {sample.client.http_version for sample in result.samples if sample.client} == {http}


def test_an_application_that_sleeps_between_turns_is_slower(session: Session) -> None:
    """Two turns before the first byte, a turn for what one call takes in, and none of it with the easy interface."""
    quick = run(session, "libcurl@debian", "http1-get-200kB").samples[0]
    slow = run(session, "slow-app@debian", "http1-get-200kB").samples[0]
    assert quick.client
    assert slow.client
    assert quick.client.total_s < 0.1
    assert slow.client.total_s > 0.15
    assert slow.client.raw["turns"] == pytest.approx(slow.client.total_s / 0.05, abs=1.5)
