"""Every cause of a slow transfer is planted by real programs, and the diagnosis names it; mixed ones are not known (ADR 0034)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.clients.curl import Curl
from lab.model.transfer import Transfer
from lab.model.units import Size
from lab.net.watch import Watch
from lab.run.pauses import chosen
from lab.run.sample import take_sample
from tests.virtual.planted_causes import PORT, Planted, planted
from tests.virtual.planted_draws import CAUSES, FILE, MIXED, Raw, plan

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def lab() -> Iterator[Planted]:
    with planted() as made:
        yield made


_LONG, _FAR = {"rtt": "100 ms"}, {"rtt": "200 ms"}
UPWARD = {
    "send-buffer": Raw((), ("put", "size=24000000", "sndbuf=65536", "chunk=8192"), _LONG),
    "slow-server": Raw(("chunk=65536", "pause=40"), ("put", "size=10000000")),
    "line": Raw((), ("put", "size=12000000"), {"rate": "20 Mbit/s"}),
}
MISTAKEN = {
    "a pause of one round trip": ("slow-server", Raw(("chunk=65536", "pause=40"), ("get", "size=4000000"))),
    "small writes in large pauses": (
        "slow-server",
        Raw(("chunk=262144", "pause=1000"), ("get", "size=4000000"), {"rtt": "200 ms"}),
    ),
    "an overshot buffer": ("send-buffer", Raw(("sndbuf=65536", "chunk=8192"), ("get", "size=24000000"), _LONG)),
    "exact segments": ("send-buffer", Raw(("sndbuf=65536", "chunk=1448"), ("get", "size=4000000"), _LONG)),
    "over between two looks": ("short-file", Raw((), ("get", "size=6065"), {"rtt": "10 ms"})),
    "large reads": ("slow-reader", Raw((), ("get", "size=4000000", "chunk=222545", "pause=117"), {"rate": "50 Mbit/s"})),
}
"""What took one cause for another: a program that pauses for a full buffer or the network, and the other way round."""


@pytest.mark.parametrize("cause", CAUSES)
def test_a_planted_cause_is_named(lab: Planted, cause: str) -> None:
    found = plan(cause, 0, seed=1).diagnosis(lab)
    assert found.cause == cause, found.sentence


@pytest.mark.parametrize("mixed", MIXED)
def test_two_causes_are_not_known(lab: Planted, mixed: str) -> None:
    found = plan(mixed, 0, seed=1).diagnosis(lab)
    assert found.cause == "not-known", found.sentence


@pytest.mark.parametrize("cause", UPWARD)
def test_so_it_is_for_uploads(lab: Planted, cause: str) -> None:
    found = UPWARD[cause].diagnosis(lab)
    assert found.cause == cause, found.sentence


@pytest.mark.parametrize("name", MISTAKEN)
def test_what_looks_like_another_cause(lab: Planted, name: str) -> None:
    cause, asked = MISTAKEN[name]
    found = asked.diagnosis(lab)
    assert found.cause == cause, found.sentence


def _asked_of_ssh(lab: Planted) -> tuple[str, str]:
    """The path of a file on the server, and of the key to get it with."""
    known = lab.servers.environment
    name = lab.servers.payload(lab.network.server, FILE).name
    return f"{known['LAB_SERVER_FILES']}/{name}", known["LAB_SSH_KEY"]


def test_few_requests_of_sftp_look_the_same(lab: Planted) -> None:
    path, key = _asked_of_ssh(lab)
    hosts = lab.servers.environment["LAB_KNOWN_HOSTS"]
    options = f"-q -b - -B 32768 -R 2 -i {key} -o UserKnownHostsFile={hosts} -o IdentitiesOnly=yes"
    line = f"echo get {path} /dev/shm/got | sftp {options} lab@server >/dev/null; rm /dev/shm/got"
    found = lab.diagnosis(["/bin/sh", "-ec", line], lab.link(rtt="100 ms"))
    assert found.cause == "ssh-window", found.sentence


def test_a_sample_says_it_and_measures_the_same(lab: Planted) -> None:
    link = lab.link(rate="20 Mbit/s")
    transfer = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": Size(FILE)})
    found = []
    for watched in (None, link):
        lab.network.vary(1)
        found.append(take_sample(lab.network, lab.servers, Curl(), transfer, 0, watched=watched))
    plain, watched_one = found
    assert plain.why is None
    assert watched_one.why is not None
    assert watched_one.why.cause == "line"
    assert plain.body_s
    assert watched_one.body_s == pytest.approx(plain.body_s, rel=1e-4)


def test_a_sample_that_failed_says_what_the_router_dropped(lab: Planted) -> None:
    transfer = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": Size(FILE)})
    found = take_sample(lab.network, lab.servers, Curl("curl", "false"), transfer, 0, watched=lab.link())
    assert not found.ok
    assert found.why is not None
    assert found.why.sentence == "the transfer failed; the router dropped no packet"


def test_the_kernel_chooses_sizes_that_are_known(lab: Planted) -> None:
    """Otherwise its buffers would be taken for SO_SNDBUF's."""
    lab.link()
    with lab.server(), Watch(lab.network) as watch:
        done = lab.network.client.run(lab.script("get", "server", PORT, "size=4000000"))
        looks = watch.of(lab.network.server, done.started_ns, done.ended_ns).looks
    sizes = {look.send_buffer for look in looks if look.acked}
    assert len(sizes) > 1
    assert all(chosen(size, 1448) for size in sizes)


def test_the_clients_own_pace_is_not_a_limit_without_one(lab: Planted) -> None:
    name = lab.servers.payload(lab.network.server, FILE).name
    transfer = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": Size(FILE)})
    command = ["curl", "-sS", "-o", "/dev/null", "--limit-rate", "1000000", f"http://server/files/{name}"]
    found = lab.diagnosis(command, lab.link(), transfer)
    assert found.cause == "slow-reader", found.sentence
