"""A table of /proc longer than a page, as many transfers one after the other leave it (TIME_WAIT)."""

from __future__ import annotations

from pathlib import Path

from lab.hosts.scripts import script_command
from lab.hosts.virtual.network import VirtualNetwork
from lab.net import sampler, tap_script

_UNREAD = Path(__file__).with_name("unread_script.py")


def test_what_lies_unread_is_seen_behind_a_page_of_other_sockets(network: VirtualNetwork) -> None:
    done = network.client.run(script_command(network.client, _UNREAD, tap_script.__file__), cwd="/")
    before, lines, unread = map(int, done.text.split())
    assert before == 0
    assert lines > 100
    assert unread == 60 * 7


def test_the_counters_of_a_port_are_found_among_many(network: VirtualNetwork) -> None:
    wire, port = network.wire, network.wire_ports.client
    for number in range(60):
        wire.run(["ip", "link", "add", f"many{number}", "type", "dummy"], root=True)
    text = wire.run(script_command(wire, _UNREAD, sampler.__file__, "/proc/self/net/dev", port), cwd="/", root=True).text
    assert int(text) == 4
    for number in range(60):
        wire.run(["ip", "link", "del", f"many{number}"], root=True)
