"""A cell from shaping to verdict in real time: its calibrations prove the link, or the cell is INVALID.

Tests of clients and of the lab's logic are in `tests/cells`, in virtual time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.hosts.host import Network
from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.cell_name import parse_transfer
from lab.model.link import Link
from lab.model.results import Calibration, Certificate
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation
from lab.net import shape as shaping
from lab.net.calibrate import calibrate
from lab.run.lab import CALIBRATION_ATTEMPTS
from lab.run.sample import take_sample
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir, read_cell
from tests.support.sessions import FAST, LENIENT, cell, change_link_after_samples, give

TWO_LOOKS = LookPlan(looks=(2, 3))


@pytest.fixture(scope="module")
def lenient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """One network for all of them. After the last of them, in whatever order, the link is as it was and a good client passes."""
    with Session(RunDir.create("test", results=tmp_path_factory.mktemp("lenient")), LENIENT) as made:
        yield made
        result = made.run_cell(cell())
        assert result.verdict.name == "PASS", result.verdict.reason
        assert result.certificate
        assert result.certificate.after[-1].ok


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """For links that are sabotaged. Each has a name of its own, so that it is shaped again."""
    with Session(RunDir.create("test", results=tmp_path_factory.mktemp("strict")), Options(looks=TWO_LOOKS)) as made:
        yield made


@pytest.fixture(scope="module")
def good_looks() -> dict[str, Calibration]:
    """The good calibrations of this module's links."""
    return {}


@pytest.fixture
def calibrated_once(lenient: Session, good_looks: dict[str, Calibration], monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of clients: their link is calibrated for the first of them and not again by each.

    The module's session looks at the link again after its last test, without this.
    """

    def look(network: Network, link: Link, *args: object, **more: object) -> Calibration:
        key = link.model_dump_json()
        found = good_looks.get(key) or calibrate(network, link, *args, **more)  # type: ignore[arg-type]
        if found.ok:
            good_looks[key] = found
        return found

    give(lenient, monkeypatch, calibrate=look)


def called(name: str) -> Topology:
    return FAST.model_copy(update={"name": name})


@pytest.fixture
def changing_link(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    change_link_after_samples(session, monkeypatch)


def assert_seen_by_calibration(certificate: Certificate | None) -> None:
    """The calibration measured the error; the router's own settings are not the only witness."""
    assert certificate
    assert certificate.before[-1].ok
    error = certificate.after[-1].down.goodput_error
    assert error
    assert error > 0.3


def test_a_good_client_on_a_good_link_passes_and_its_result_is_complete(lenient: Session) -> None:
    result = lenient.run_cell(cell())
    assert result.verdict.name == "PASS", result.verdict.reason
    stored = read_cell(lenient.run.cell_path(result.id))
    assert stored == result
    certificate = stored.certificate
    assert certificate
    assert certificate.before[-1].ok
    assert certificate.after[-1].ok
    assert [sample.client.bytes for sample in stored.samples if sample.client] == [1_000_000] * 2
    sample = stored.samples[0]
    assert sample.wire
    assert 1_000_000 <= sample.wire.payload_bytes < 1_100_000
    assert sample.max_rss_bytes
    assert 2 << 20 < sample.max_rss_bytes < 64 << 20
    assert "offload.eth0.tcp-segmentation-offload" in stored.before.hosts["client"]
    assert stored.after.hosts["router"]["qdiscs"]


def test_a_wrong_rate_on_the_router_is_invalid_not_fail(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The router changes behind the lab's back, so that it differs from its settings as reported.

    The next cell does not use the failed link: it shapes its link again, and that link is right.
    """
    fresh: list[shaping.Shaped] = []

    def sabotaged(network: Network, link: Link) -> shaping.Shaped:
        shaped = shaping.shape(network, link)
        fresh.append(shaped)
        if len(fresh) > 1:
            return shaped
        port = network.router_ports.client
        limit = shaped.plans["down"].limit_packets if shaped.plans["down"] else 0
        network.router.run(
            ["tc", "qdisc", "change", "dev", port, "root", "netem", "limit", str(limit), "delay", "2ms", "rate", "80mbit"],
            root=True,
        )
        return shaped

    give(session, monkeypatch, shape=sabotaged)
    result = session.run_cell(cell(topology=called("wrong"), limit="2 MB/s"))
    assert result.verdict.name == "INVALID"
    assert "down: goodput" in result.verdict.reason
    assert result.samples == []
    assert result.certificate
    assert len(result.certificate.before) == CALIBRATION_ATTEMPTS
    monkeypatch.setattr(session.lab, "options", replace(LENIENT, instruments=session.lab.options.instruments))
    again = session.run_cell(cell(topology=called("wrong")))
    assert len(fresh) == 2
    assert again.certificate
    assert again.certificate.before[-1].ok
    assert again.certificate.before[-1].down.goodput_bit_s > 1.1 * result.certificate.before[-1].down.goodput_bit_s


@pytest.mark.usefixtures("changing_link")
def test_a_link_that_changes_during_the_samples_is_invalid(session: Session) -> None:
    result = session.run_cell(cell(topology=called("samples")))
    assert result.verdict.name == "INVALID"
    assert "after:" in result.verdict.reason
    assert_seen_by_calibration(result.certificate)


# Protocols and clients that `test_a_good_client` has not.
@pytest.mark.parametrize(("client", "name"), [("ferry", "h2-put-1MB"), ("openssh", "sftp-put-4MB"), ("ferry", "sftp-get-1MB")])
def test_every_protocol_on_a_real_link(lenient: Session, client: str, name: str) -> None:
    transfer = parse_transfer(name)
    asked = Cell(client=ClientSpec(name=client), topology=FAST, transfer=transfer, expectation=Expectation(kind="none"))
    result = lenient.run_cell(asked)
    assert result.verdict.name == "PASS", result.verdict.reason
    assert {sample.body_clock for sample in result.samples} == {"wire"}
    assert all(sample.wire and sample.wire.payload_bytes > 1_000_000 for sample in result.samples)


# In the argv of what a bad client leaves running, so that it can be looked for.
LEFT = 31_536_000


@pytest.mark.usefixtures("calibrated_once")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"trap '' TERM INT; sleep {LEFT} & wait; sleep {LEFT}", "was still running after 3 s and was killed"),
        (f"setsid sleep {LEFT} </dev/null >/dev/null 2>&1 & sleep 0.2; exit 0", "printed no report"),
    ],
)
def test_what_a_client_leaves_running_is_ended(
    lenient: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    """By the agent of the namespaces; `tests/cells/test_bad_clients.py` has the machine's, and more such clients."""
    give(lenient, monkeypatch, take_sample=lambda *args, **more: take_sample(*args, **{**more, "timeout_s": 3.0}))
    path = tmp_path / "curl"
    path.write_text(f'#!/bin/sh\ncase "$*" in *--version*) exec /usr/bin/curl --version;; esac\n{text}\n')
    path.chmod(0o755)
    result = lenient.run_cell(cell(str(path)))
    assert result.verdict.name == "FAIL"
    assert problem in result.verdict.reason
    network = lenient.lab.network
    assert network
    assert network.client.run(["pgrep", "-f", f"^sleep {LEFT}"], check=False).text == ""


@pytest.mark.parametrize("client", ["ferry", "curl"])
def test_five_hundred_requests(lenient: Session, client: str) -> None:
    result = lenient.run_cell(
        Cell(
            client=ClientSpec(name=client),
            topology=FAST,
            transfer=parse_transfer("h2-get-500x10kB-p20-discard"),
            expectation=Expectation(kind="none"),
        )
    )
    assert result.verdict.name == "PASS", result.verdict.reason
    for sample in result.samples:
        assert sample.expected_bytes == 5_000_000
        assert sample.requests_per_s
        # 100 Mbit/s carry 1,190 of 10 kB.
        assert 100 < sample.requests_per_s < 1300
