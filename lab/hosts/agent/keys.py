"""Keys of the kernel's network that last as long as a machine. Standard library only."""

from __future__ import annotations

from contextlib import suppress

_DISCARD = ("127.0.0.1", 9)
_IP_MTU_DISCOVER, _IP_PMTUDISC_DONT = 10, 0  # linux/in.h


def draw() -> None:
    """Open a connection, which is refused, and send a datagram, both over the loopback of this process's namespace.

    Linux takes the keys of ephemeral ports, sequence numbers, timestamps and identifications from its random numbers when it
    first needs them (net_get_random_once, ip_id_key): drawn by the first program that connects, they follow from the number of
    programs before it, and so from the tools of the root.
    """
    import socket  # costs tens of milliseconds, which only a machine that is wired has to pay

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection, suppress(ConnectionRefusedError):
        connection.connect(_DISCARD)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, suppress(ConnectionRefusedError):
        # Identifications are drawn for packets that may be cut up.
        datagrams.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DONT)
        datagrams.sendto(b"", _DISCARD)
