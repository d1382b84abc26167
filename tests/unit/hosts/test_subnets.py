"""Which addresses a lab of containers takes."""

from __future__ import annotations

from itertools import islice

from lab.hosts.compose.subnets import PAIRS, free, pairs


def test_what_is_taken_is_left_alone() -> None:
    assert next(free([])).client_net == "10.77.1"
    one = next(free(["10.77.1.0/24", "172.17.0.0/16", "fd00::/8"]))
    assert (one.client_net, one.server_net) == ("10.77.3", "10.77.4")
    assert next(free(["10.77.0.0/21"])).client_net == "10.77.9"
    assert list(free(["10.0.0.0/8"])) == []


def test_pairs_never_share_a_network() -> None:
    found = [net for pair in pairs() for net in (pair.client_net, pair.server_net)]
    assert len(set(found)) == 2 * PAIRS
    assert all(0 < int(net.rpartition(".")[2]) < 255 for net in found)
    assert [pair.client for pair in islice(pairs(), 2)] == ["10.77.1.2", "10.77.3.2"]
