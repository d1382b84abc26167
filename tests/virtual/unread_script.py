"""Runs in a machine: how one of the lab's scripts reads a table of the kernel.

usage: unread_script.py TAP_SCRIPT             bytes unread; lines of the table and bytes unread with sixty connections of 7 bytes
       unread_script.py SAMPLER TABLE PORT     numbers that it finds of a port
"""

from __future__ import annotations

import os
import runpy
import socket
import sys


def of_sockets(script: str) -> list[int]:
    tap = runpy.run_path(script)
    table, text = os.open("/proc/self/net/tcp", os.O_RDONLY), bytearray(1 << 20)
    before = tap["unread"]([table], text)
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    kept = []
    for _ in range(60):
        sender = socket.create_connection(listener.getsockname())
        receiver, _address = listener.accept()
        sender.sendall(b"content")
        kept += [sender, receiver]
    size = tap["read_table"](table, text)
    return [before, len(text[:size].splitlines()), tap["unread"]([table], text)]


def of_ports(script: str, path: str, port: str) -> list[int]:
    found = runpy.run_path(script)
    table = os.open(path, os.O_RDONLY)
    return [len(found["counters"](found["read_table"](table, bytearray(1 << 16)), port.encode()))]


print(*(of_ports(*sys.argv[1:]) if len(sys.argv) > 2 else of_sockets(sys.argv[1])))
