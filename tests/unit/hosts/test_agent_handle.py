"""What the lab makes of an agent's answers, and of an agent that gives none."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.hosts.agent.handle import AgentHandle
from lab.hosts.agent.protocol import Message, UnixChannel
from lab.hosts.host import Ports, RouterFacts
from lab.hosts.namespaces.launch import NamespaceLab
from lab.hosts.namespaces.network import NamespaceNetwork, agent_host
from lab.model.errors import LabFault

Answer = Callable[[UnixChannel, Message], None]


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as found:
        found.bind(str(tmp_path / "agent"))
        found.listen()
        found.settimeout(30)
        yield found


def asked(listener: socket.socket, answer: Answer, ask: Callable[[NamespaceLab], object]) -> tuple[object, Message]:
    """What came of one request, and the request as the agent saw it."""

    def serve() -> Message:
        connection, _ = listener.accept()
        with connection:
            message = UnixChannel(connection).receive(60)
            assert message
            answer(UnixChannel(connection), message)
            return message

    handle = NamespaceLab("mine")
    handle.address = listener.getsockname()
    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        try:
            return ask(handle), served.result(60)
        finally:
            served.result(60)


def test_an_answer_is_the_agents_own(listener: socket.socket) -> None:
    found, message = asked(
        listener, lambda channel, _: channel.send({"note": {"pid": 7}}), lambda handle: handle.ask({"op": "note"})
    )
    assert (found, message) == ({"note": {"pid": 7}}, {"op": "note"})


def test_an_error_of_the_agent_is_a_fault_of_the_lab(listener: socket.socket) -> None:
    with pytest.raises(LabFault, match="no such namespace"):
        asked(listener, lambda channel, _: channel.send({"error": "no such namespace"}), lambda handle: handle.ask({"op": "x"}))


def test_an_agent_that_ends_meanwhile_is_a_fault_of_the_lab(listener: socket.socket) -> None:
    with pytest.raises(LabFault, match="ended while it was asked for 'x'"):
        asked(listener, lambda *_: None, lambda handle: handle.ask({"op": "x"}))


def test_an_agent_that_is_gone_is_a_fault_of_the_lab(tmp_path: Path) -> None:
    with pytest.raises(LabFault, match="'mine' is not running any more"):
        AgentHandle("mine", str(tmp_path / "nothing")).ask({"op": "x"})


def network(agent: NamespaceLab) -> NamespaceNetwork:
    client, router, server, wire = (agent_host(agent, name, "") for name in ("client", "router", "server", "wire"))
    ports, facts = Ports("r-client", "r-server"), RouterFacts("kernel", "6.12", "6.15", supports_seed=True)
    return NamespaceNetwork(agent, client, router, server, wire, ports, ports, facts)


def test_a_network_is_detached_by_its_agent(listener: socket.socket) -> None:
    _, message = asked(listener, lambda channel, _: channel.send({}), lambda agent: network(agent).detach())
    assert message == {"op": "detach"}


def test_what_another_process_needs_is_left_with_the_agent(listener: socket.socket) -> None:
    _, message = asked(listener, lambda channel, _: channel.send({}), lambda agent: network(agent).remember({"topology": "lte"}))
    assert message["op"] == "note"
    assert message["note"]["topology"] == "lte"
    assert Ports(**message["note"]["router_ports"]) == Ports("r-client", "r-server")
    assert message["note"]["router_facts"]["kernel"] == "6.12"
