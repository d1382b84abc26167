"""Channels over a link whose round trip makes their windows the limit: as many as are allowed, and the report says how many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.hosts.namespaces.network import NamespaceNetwork, open_network
from lab.model.link import Link
from lab.model.units import BitRate, Duration
from lab.net.pins import pin
from lab.net.shape import shape
from lab.servers import sshd
from lab.servers.process import wait_ready
from tests.engine import under_wine
from tests.engine.harness import Told
from tests.engine.sftp_harness import MIB, content, done, sha256

LONG = Link(rate=BitRate.parse("500 Mbit/s"), rtt=Duration.parse("60 ms"))
SIZE = 16 * MIB

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def network() -> Iterator[NamespaceNetwork]:
    made = open_network()
    try:
        pin(made, "cubic")
        shape(made, LONG)
        under_wine.adapter().identify(made.client)
        made.client.write(f"{made.client.workdir}/source", content(SIZE))
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(("sessions", "asked"), [(10, 8), (10, 1), (3, 8), (1, 8)])
def test_channels(network: NamespaceNetwork, monkeypatch: pytest.MonkeyPatch, sessions: int, asked: int) -> None:
    made = sshd.render_config

    def fewer(workdir: object, **more: object) -> str:
        return made(workdir, **more).replace("MaxSessions 100\n", f"MaxSessions {sessions}\n")  # type: ignore[arg-type]

    monkeypatch.setattr(sshd, "render_config", fewer)
    client, host = network.client, network.server
    server = sshd.launch(host)
    wait_ready([server])
    try:
        client.write(f"{client.workdir}/hosts", server.known_hosts.encode())
        client.write(f"{client.workdir}/key", server.user_key.private, mode=0o600)
        user = host.run(["id", "-un"]).text.strip()
        target = f"{host.workdir}/uploaded-{sessions}-{asked}"
        words = ["put", "source", f"sftp://{user}@server{target}", "--known-hosts", "hosts", "--identity", "key", "--no-agent"]
        command = [f"{client.workdir}/bin/ferry/ferry", *words, "--channels", str(asked), "--json=-"]
        told = Told.of(client.run(command, cwd=str(client.workdir), timeout_s=60.0, check=False))
        done(told)
        ssh = told.report["ssh"]
        expected = min(sessions, asked)
        assert 1 <= ssh["channels"] <= expected
        assert (ssh["channels"] > 1) is (expected > 1)
        assert (ssh["channels_refused"] > 0) is (sessions < 8 and asked > sessions)
        assert host.run(["sha256sum", target]).text.split()[0] == sha256(SIZE)
    finally:
        server.stop()
