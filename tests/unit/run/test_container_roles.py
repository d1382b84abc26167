"""What each container does by itself: the order of its steps, the facts that it notes, and the lines that it prints."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.hosts.host import Ports, RouterFacts
from lab.hosts.wiring import Addresses
from lab.model.errors import EXIT_USAGE, LabFault
from lab.model.units import Duration
from lab.run import container, container_health
from lab.run.container import ContainerSetup


def test_an_empty_variable_counts_as_unset() -> None:
    own = Addresses()
    for environment in ({}, dict.fromkeys(("LINK", "CLIENT_NET", "SERVER_NET", "ROUGHWATER_ROUTER"), "")):
        setup = ContainerSetup.of(environment)
        assert (setup.link, setup.addresses, setup.router) == ("link-local", own, "auto")
    given = {"LINK": "dsl-20", "CLIENT_NET": "10.1.1.0/24", "SERVER_NET": "10.2.2.0/24", "ROUGHWATER_ROUTER": "uml"}
    setup = ContainerSetup.of(given)
    assert (setup.link, setup.addresses, setup.router) == ("dsl-20", Addresses("10.1.1.0/24", "10.2.2.0/24"), "uml")


def test_a_role_has_its_own_address_and_the_router_none() -> None:
    setup = ContainerSetup()
    hosts = [setup.host(role) for role in ("client", "server", "router")]
    assert [host.address for host in hosts] == [setup.addresses.client, setup.addresses.server, ""]
    assert [host.name for host in hosts] == ["client", "server", "router"]


class World:
    """Notes what a role does, in its order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, kind: str = "uml") -> None:
        self.told: list[Any] = []
        self.facts = RouterFacts(kind, "6.9", "6.1", supports_seed=kind == "uml")  # type: ignore[arg-type]
        self.setup = ContainerSetup(run_dir=folder / "run", client_home=folder / "home", passwd_home=folder / "passwd")
        for role in container.ROLES:
            (folder / "run" / role).mkdir(parents=True)
        (folder / "passwd").mkdir()
        plan = SimpleNamespace(seed=7)
        profile = SimpleNamespace(
            name="dsl", plans={"up": plan, "down": None}, congestion_control="reno", mtu=1400, rtt=Duration.parse("1.5 s")
        )
        host = SimpleNamespace(run=lambda argv, root: self.told.append(("run", argv, root)))
        middle = SimpleNamespace(
            ports_of=lambda *_: Ports("eth1", "eth0"),
            begin=lambda site, choice: self.told.append(("begin", site, choice)) or self.finish,  # type: ignore[func-returns-value]
            leave_to_guest=lambda _, ports: self.told.append(("leave", ports)),
        )
        monkeypatch.setattr(ContainerSetup, "profile", lambda _: profile)
        monkeypatch.setattr(ContainerSetup, "host", lambda *_: host)
        monkeypatch.setattr(ContainerSetup, "site", lambda _, ports: ("site", ports))
        monkeypatch.setattr(container, "middle", middle)
        monkeypatch.setattr(container, "pin_ports", lambda _, ports: self.told.append(("pin ports", ports)))
        monkeypatch.setattr(container, "pin_host", lambda _, control, mtu: self.told.append(("pin", control, mtu)))
        monkeypatch.setattr(
            container, "check_seed", lambda seed, *, supports_seed: self.told.append(("seed", seed, supports_seed))
        )
        monkeypatch.setattr("lab.hosts.compose.inside.links.put", lambda host, ports, _: self.told.append(("put", host, ports)))

    def finish(self) -> tuple[str, Ports, RouterFacts]:
        self.told.append("finish")
        return "router", Ports("rc", "rs"), self.facts

    def noted(self, role: str) -> Any:
        return self.setup.noted(role, 0)


def test_a_router_is_begun_pinned_and_shaped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(monkeypatch, tmp_path)
    container.router(world.setup)
    seen = Ports("eth1", "eth0")
    assert world.told == [
        ("begin", ("site", seen), "auto"),
        ("pin ports", seen),
        "finish",
        ("leave", seen),
        ("seed", 7, True),
        ("seed", None, True),
        ("put", "router", Ports("rc", "rs")),
    ]
    assert world.noted("router") == {"kind": "uml", "ports": ["rc", "rs"], "wire": ["eth1", "eth0"]}
    assert capsys.readouterr().out == "router: dsl, uml router, Linux 6.9, iproute2 6.1\n"


def test_a_router_of_this_kernel_keeps_its_own_ports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, "kernel")
    container.router(world.setup)
    assert [each[0] for each in world.told] == ["begin", "pin ports", "f", "seed", "seed", "put"]


@pytest.mark.parametrize("role", ["client", "server"])
def test_a_leaf_knows_its_own_gateway_and_has_its_pins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, role: str) -> None:
    world = World(monkeypatch, tmp_path)
    container.pin_leaf(world.setup, role)
    (_, argv, root), pin = world.told
    addresses = world.setup.addresses
    gateways = {"client": addresses.client_gateway, "server": addresses.server_gateway}
    assert gateways.pop(role) in argv[2]
    assert not any(other in argv[2] for other in gateways.values())
    assert (argv[:2], root, pin) == (["/bin/sh", "-ec"], True, ("pin", "reno", 1400))


def test_a_client_is_ready_with_the_keys_that_openssh_looks_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(monkeypatch, tmp_path)
    waited: list[Path] = []
    monkeypatch.setattr(container, "await_credentials", waited.append)
    for _ in range(2):  # a container may be started again
        container.client(world.setup)
    keys = world.setup.passwd_home / ".ssh"
    assert keys.readlink() == world.setup.client_home / ".ssh"
    assert (waited, world.noted("client")) == ([world.setup.client_home] * 2, {})
    assert capsys.readouterr().out == "client: ready, over link-local\n" * 2


def test_facts_are_there_at_once_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    setup = ContainerSetup(run_dir=tmp_path)
    with pytest.raises(LabFault, match="it is not set up yet"):
        setup.noted("client", 0)
    setup.note("client", {"a": [1]})
    assert setup.noted("client", 0) == {"a": [1]}
    assert [path.name for path in (tmp_path / "client").iterdir()] == ["ready.json"]


def test_missing_credentials_are_named_in_their_order(tmp_path: Path) -> None:
    for name in ("ca.pem", ".ssh/known_hosts"):
        with pytest.raises(LabFault, match=rf"^the server has left no {name} within 0 s"):
            container.await_credentials(tmp_path, 0)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["router"], 0, ""),
        (["server"], 3, "server: broken (mend it)\n"),
        ([], EXIT_USAGE, "usage: container client|router|server\n"),
        (["other"], EXIT_USAGE, "usage: container client|router|server\n"),
        (["router", "server"], EXIT_USAGE, "usage: container client|router|server\n"),
    ],
)
def test_a_container_ends_with_the_code_of_its_role(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], code: int, error: str
) -> None:
    def broken(_: object) -> None:
        raise LabFault("broken", remedy="mend it")

    monkeypatch.setattr(sys, "argv", ["container", *words])
    monkeypatch.setitem(container.ROLES, "router", lambda _: None)
    monkeypatch.setitem(container.ROLES, "server", broken)
    found = container.main()
    assert bool(found) == bool(code)
    assert found == (LabFault("").exit_code if words == ["server"] else code)
    assert capsys.readouterr().err == error


# --- health -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "environment", "code", "said"),
    [
        (["client"], {}, 0, ""),
        ([], {"ROUGHWATER_ROLE": "client"}, 0, ""),
        (["server"], {"ROUGHWATER_ROLE": "client"}, 1, "server: silent\n"),
        ([], {}, 1, ": there is no role ''\n"),
        (["nobody"], {}, 1, "nobody: there is no role 'nobody'\n"),
        (["server"], {"ROUGHWATER_DRIVER": "lab"}, 0, "driven server\n"),
        (["nobody"], {"ROUGHWATER_DRIVER": "lab"}, 1, "nobody: there is no role 'nobody'\n"),
    ],
)
def test_a_check_is_that_of_the_role_or_of_its_agent_alone(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    environment: dict[str, str],
    code: int,
    said: str,
) -> None:
    def silent(_: object) -> None:
        raise LabFault("silent")

    for name in ("ROUGHWATER_ROLE", "ROUGHWATER_DRIVER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["health", *argv])
    monkeypatch.setitem(container_health.CHECKS, "client", lambda _: None)
    monkeypatch.setitem(container_health.CHECKS, "server", silent)
    monkeypatch.setattr(container_health, "driven", lambda role: print(f"driven {role}"))
    assert container_health.main() == code
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (True, ""),
        (False, "the server's answer through the router is not 2xx"),
        (OSError("timed out"), "the server does not answer through the router: timed out"),
    ],
)
def test_a_client_is_healthy_where_the_server_answers_through_the_router(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: Any, problem: str
) -> None:
    world = World(monkeypatch, tmp_path)
    world.setup.note("client", {})
    asked: list[Any] = []

    def answers(kind: str, address: str, port: int, path: str, patience_s: float) -> bool:
        asked.append((kind, address, port, path, patience_s))
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    monkeypatch.setattr(container_health, "answers", answers)
    monkeypatch.setattr(container_health, "check_hop", lambda _, address, patience_s: asked.append((address, patience_s)))
    if problem:
        with pytest.raises(LabFault) as caught:
            container_health.client(world.setup)
        assert caught.value.message == problem
    else:
        container_health.client(world.setup)
    server = world.setup.addresses.server
    # A second, and a round trip of the link.
    assert asked == [(server, 2.5), ("http", server, 80, "/ready", 2.5)]


def test_one_packet_is_sent_one_hop_and_waited_for_by_full_seconds() -> None:
    asked: list[Any] = []

    def run(argv: list[str], *, check: bool) -> Any:
        asked.append((argv, check))
        return SimpleNamespace(text="From 10.0.0.1: Time to live exceeded")

    host: Any = SimpleNamespace(run=run)
    container_health.check_hop(host, "10.0.0.9", 1.2)
    assert asked == [(["ping", "-n", "-c", "1", "-W", "2", "-t", "1", "10.0.0.9"], False)]
