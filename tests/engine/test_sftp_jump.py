"""ferry through jump hosts, all of them OpenSSH's sshd."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.servers.sshd import known_hosts, make_key
from tests.engine.harness import failed, is_one_clear_line
from tests.engine.sftp_harness import MIB, ONCE, SftpBench, content, digests, done, sha256, until_gone
from tests.engine.sftp_servers import Keys, SftpServer, openssh, running
from tests.engine.test_sftp_trust import fingerprint
from tests.support.ports import free_port
from tests.support.tcp_proxy import proxy_to

SIZE = 30_000
LARGE = 16 * MIB
WAYS = pytest.mark.parametrize("way", ["get", "put"])


@pytest.fixture(scope="module")
def gates(sftp_root: Path, ssh_keys: Keys) -> Iterator[tuple[SftpServer, SftpServer]]:
    """Two that forward. `openssh` does not."""
    one, two = (openssh(sftp_root, ssh_keys, name=name, forwards=True) for name in ("gate-1", "gate-2"))
    with running(one), running(two):
        yield one, two


@pytest.fixture
def gate(gates: tuple[SftpServer, SftpServer]) -> SftpServer:
    return gates[0]


def place(server: SftpServer, port: int | None = None) -> str:
    return f"{server.login}@127.0.0.1:{port or server.port}"


def known(desk: SftpBench, *servers: SftpServer, more: str = "") -> tuple[str, ...]:
    hosts = desk.hosts(*(server.known_hosts for server in servers), more)
    return ("--known-hosts", str(hosts), "--identity", str(desk.key()), "--no-agent", "-F", "none")


@WAYS
@pytest.mark.parametrize("count", [1, 2])
def test_files_go_through_jump_hosts(
    desk: SftpBench, openssh: SftpServer, gates: tuple[SftpServer, SftpServer], way: str, count: int
) -> None:
    used = gates[:count]
    words = (*known(desk, openssh, *used), "-J", ",".join(place(gate) for gate in used), "--checksum", "sha256")
    if way == "get":
        there = desk.give(openssh, LARGE)
        told = desk.run("get", openssh.url(there), "-o", "file", *words)
    else:
        there = desk.remote(openssh) / "file"
        told = desk.run("put", desk.source(LARGE), openssh.url(there), *words)
    done(told)
    assert digests(there.parent) == {"file": sha256(LARGE)}
    assert set(desk.files().values()) == {sha256(LARGE)}
    jumps = told.report["ssh"]["jumps"]
    assert [(jump["host"], jump["auth"]) for jump in jumps] == [(f"127.0.0.1:{gate.port}", "publickey") for gate in used]
    for jump, gate in zip(jumps, used, strict=True):
        assert jump["server"].startswith("OpenSSH")
        assert gate.host_key.public.split()[0] in jump["host_key"]


def test_several_connections_each_go_through_it(desk: SftpBench, openssh: SftpServer, gate: SftpServer) -> None:
    there = desk.remote(openssh) / "file"
    words = (*known(desk, openssh, gate), "-J", place(gate), "--connections", "3")
    told = desk.run("put", desk.source(LARGE), openssh.url(there), *words)
    done(told)
    assert digests(there.parent) == {"file": sha256(LARGE)}


def test_proxy_jump_of_ssh_config_with_blocks_of_its_own(
    desk: SftpBench, openssh: SftpServer, gates: tuple[SftpServer, SftpServer]
) -> None:
    """Each host has its name, port, login, key, alias and known hosts from its block."""
    one, two = gates
    path = desk.give(openssh, SIZE)
    blocks = ""
    for name, server, jump in (("there", openssh, "behind"), ("behind", two, "ssh://front"), ("front", one, "none")):
        hosts = desk.write(f"{name}.hosts", f"the-{name} {server.host_key.public}\n".encode())
        blocks += f"""
Host {name}
  HostName 127.0.0.1
  Port {server.port}
  User {server.login}
  HostKeyAlias the-{name}
  UserKnownHostsFile {hosts}
  IdentityFile {desk.key()}
  ProxyJump {jump}
"""
    desk.write("config", f"{blocks}\nHost *\n  IdentityAgent none\n  GlobalKnownHostsFile none\n".encode(), 0o600)
    told = desk.run("get", f"sftp://there{path}", "-o", "file", "-F", "config")
    done(told)
    assert [jump["host"] for jump in told.report["ssh"]["jumps"]] == [f"127.0.0.1:{gate.port}" for gate in (one, two)]
    # A flag comes before the file.
    done(desk.run("get", f"sftp://there{path}", "-o", "direct", "-F", "config", "--jump", "none"))
    own = desk.run("get", f"sftp://there{path}", "-o", "one", "-F", "config", "--jump", "front")
    done(own)
    assert len(own.report["ssh"]["jumps"]) == 1
    assert {name: sha for name, sha in desk.files().items() if name in ("file", "direct", "one")} == dict.fromkeys(
        ("file", "direct", "one"), sha256(SIZE)
    )


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_every_host_key_is_checked(
    desk: SftpBench, openssh: SftpServer, gates: tuple[SftpServer, SftpServer], wrong: int
) -> None:
    way = [*gates, openssh]
    right = [server for number, server in enumerate(way) if number != wrong]
    words = known(desk, *right, more=known_hosts(["127.0.0.1"], way[wrong].port, make_key()))
    told = desk.run("get", openssh.url(desk.give(openssh, SIZE)), "-o", "file", *words, "-J", ",".join(map(place, gates)))
    name = f"sftp://127.0.0.1:{openssh.port}: " if wrong == 2 else f"jump host 127.0.0.1:{way[wrong].port}: "
    failed(told, "permanent", name)
    assert told.error is not None
    assert told.error["message"].startswith(name)
    assert len(told.attempts) == 1
    assert desk.files().keys() == set()


def test_an_alias_or_a_fingerprint_of_the_server_is_not_the_jump_host_s(
    desk: SftpBench, openssh: SftpServer, gate: SftpServer
) -> None:
    path = desk.give(openssh, SIZE)
    words = (*known(desk), "-J", place(gate))
    pinned = desk.run("get", openssh.url(path), "-o", "file", *words, "--pin", fingerprint(openssh.host_key))
    failed(pinned, "permanent", f"jump host 127.0.0.1:{gate.port}: ")
    hosts = known(desk, gate)
    done(desk.run("get", openssh.url(path), "-o", "file", *hosts, "-J", place(gate), "--pin", fingerprint(openssh.host_key)))


def test_a_jump_host_that_refuses_the_login(desk: SftpBench, openssh: SftpServer, gate: SftpServer) -> None:
    told = desk.run(
        "get", openssh.url("/x"), "-o", "file", *known(desk, openssh, gate), "-J", f"nobody-here@127.0.0.1:{gate.port}"
    )
    failed(told, "permanent", f"jump host 127.0.0.1:{gate.port}: the server refused user nobody-here")


def test_a_jump_host_that_does_not_forward(desk: SftpBench, openssh: SftpServer, gate: SftpServer) -> None:
    told = desk.run("get", gate.url("/x"), "-o", "file", *known(desk, openssh, gate), "-J", place(openssh))
    failed(told, "permanent", f"jump host 127.0.0.1:{openssh.port}: ", "AllowTcpForwarding", f"127.0.0.1:{gate.port}")
    assert len(told.attempts) == 1


def test_a_closed_port_at_the_first_hop_or_behind_it(desk: SftpBench, openssh: SftpServer, gate: SftpServer) -> None:
    closed = free_port()
    words = known(desk, openssh, gate)
    first = desk.run("get", openssh.url("/x"), "-o", "file", *words, "-J", f"me@127.0.0.1:{closed}")
    failed(first, "transient", "jump host", f"127.0.0.1:{closed}")
    second = desk.run("get", openssh.url("/x"), "-o", "file", *words, "-J", f"{place(gate)},me@127.0.0.1:{closed}")
    failed(second, "transient", f"jump host 127.0.0.1:{gate.port}: it cannot connect to 127.0.0.1:{closed}")
    third = desk.run("get", f"sftp://me@127.0.0.1:{closed}/x", "-o", "file", *words, "-J", place(gate))
    failed(third, "transient", f"jump host 127.0.0.1:{gate.port}: it cannot connect to 127.0.0.1:{closed}")
    # No connection was ever made, so ferry waits for one only where that is asked for.
    assert len(first.attempts) == len(second.attempts) == len(third.attempts) == 1
    patient = desk.run("get", f"sftp://me@127.0.0.1:{closed}/x", "-o", "file", *words, "-J", place(gate), "--retry", "1")
    assert len(patient.attempts) == 2


@WAYS
@pytest.mark.parametrize("hop", [0, 1])
@pytest.mark.parametrize("how", ["reset", "cut"])
def test_a_hop_that_is_lost_in_the_middle(
    desk: SftpBench, openssh: SftpServer, gates: tuple[SftpServer, SftpServer], way: str, hop: int, how: str
) -> None:
    """Another attempt goes on where this one ended."""
    there = desk.give(openssh, LARGE) if way == "get" else desk.remote(openssh) / "file"
    source = desk.source(LARGE) if way == "put" else None
    with proxy_to(gates[hop].port) as proxy:
        ports = [gate.port for gate in gates]
        ports[hop] = proxy.port
        keys = [known_hosts(["127.0.0.1"], port, gate.host_key) for port, gate in zip(ports, gates, strict=True)]
        words = (*known(desk, openssh, more="".join(keys)), "--retry", "20", "--retry-max-wait", "100ms")
        words += ("-J", ",".join(place(gate, port) for gate, port in zip(gates, ports, strict=True)))
        proxy.hold_after("down" if way == "get" else "up", LARGE // 2)
        if source is None:
            ferry = desk.start("get", openssh.url(there), "-o", "file", *words)
        else:
            ferry = desk.start("put", source, openssh.url(there), *words)
        proxy.wait_held()
        proxy.reset() if how == "reset" else proxy.cut()
        told = ferry.told()
    done(told)
    assert told.attempts[0]["error"]["class"] == "transient"
    if way == "get":
        assert told.attempts[-1]["offset"] > 0
    assert digests(there.parent) == {"file": sha256(LARGE)}
    assert set(desk.files().values()) == {sha256(LARGE)}
    assert until_gone(there.parent) == []


def test_a_hop_that_goes_silent(desk: SftpBench, openssh: SftpServer, gate: SftpServer) -> None:
    there = desk.give(openssh, LARGE)
    with proxy_to(gate.port) as proxy:
        keys = known_hosts(["127.0.0.1"], proxy.port, gate.host_key)
        words = (*known(desk, openssh, more=keys), "-J", place(gate, proxy.port), *ONCE)
        proxy.hold_after("down", 200)
        early = desk.run("get", openssh.url(there), "-o", "file", *words, "--timeout-tls", "2s")
        failed(early, "transient", f"jump host 127.0.0.1:{proxy.port}: ", "within 2 s")
        proxy.cut()
        proxy.hold_after("down", LARGE // 2)
        late = desk.run("get", openssh.url(there), "-o", "file", *words, "--stall", "2s")
        failed(late, "transient", "--stall")


def test_ctrl_c(desk: SftpBench, openssh: SftpServer, gate: SftpServer) -> None:
    there = desk.give(openssh, LARGE)
    with proxy_to(gate.port) as proxy:
        keys = known_hosts(["127.0.0.1"], proxy.port, gate.host_key)
        words = (*known(desk, openssh, more=keys), "-J", place(gate, proxy.port))
        # In the log-in at the hop, and in the file.
        for at in (1500, LARGE // 2):
            proxy.hold_after("down", at)
            ferry = desk.start("get", openssh.url(there), "-o", "file", *words)
            proxy.wait_held()
            ferry.process.send_signal(signal.SIGINT)
            told = ferry.told()
            assert told.code == 130, told.report
            proxy.cut()


def test_a_limit_holds_through_it(desk: SftpBench, openssh: SftpServer, gate: SftpServer) -> None:
    """By ferry's own clock: how long it really took depends on the machine."""
    there = desk.give(openssh, MIB)
    told = desk.run(
        "get", openssh.url(there), "-o", "file", *known(desk, openssh, gate), "-J", place(gate), "--limit-rate", "500kB/s"
    )
    done(told)
    assert told.transfer["body_byte_s"] <= 1.05 * 500_000
    assert (desk.folder / "file").read_bytes() == content(MIB)


def test_loops_and_wrong_names_are_refused(desk: SftpBench, openssh: SftpServer) -> None:
    desk.write("config", b"Host *\n  ProxyJump gate\n", 0o600)
    for words, telling in (
        (("-F", "config"), "its own jump host"),
        (("-F", "none", "-J", "a,b,a"), "its own jump host"),
        (("-F", "none", "-J", "a b"), "is no jump host"),
        (("-F", "none", "--jump=-oProxyCommand=x"), "is no jump host"),
    ):
        code, _, stderr = desk.start("get", openssh.url("/x"), "-o", "file", *words, json=False).ended()
        assert code == 2, (words, stderr)
        is_one_clear_line(stderr.decode(), telling)
    code, _, stderr = desk.start("get", "http://127.0.0.1/x", "-o", "file", "-J", "a", json=False).ended()
    assert code == 2
    is_one_clear_line(stderr.decode(), "--jump")
