"""Names and paths that both ends of an agent agree on. Imports nothing, because the start of a machine in virtual time counts."""

from __future__ import annotations

# The ordinary user that servers and clients run as, in a user namespace of their own. High, so that no other user has it.
LAB_UID = 7700
LAB_USER = "lab"
# The lab mounts a tmpfs here, in its own mount namespace: files on it end with the lab.
RUN_DIR = "/run"
HOME_DIR = f"{RUN_DIR}/lab/home"

CACHE_DIR = f"{RUN_DIR}/lab/cache"
"""In a machine in virtual time: the lab's cache, wherever its user has it."""
PROGRAMS_DIR = f"{RUN_DIR}/lab/program"
"""In a machine in virtual time: folders of clients that are files of the caller's, by number."""
STARTER = f"{RUN_DIR}/starter"
TICK_NS = 1_000_000_000
"""Clients of a machine in virtual time begin after a multiple of it, and its random numbers are seeded at one: what the lab did
before, and how long that took, is over then."""
SAMPLE_VARIABLE = "ROUGHWATER_SAMPLE"
"""An environment variable that identifies a client's processes, including those that left its process group."""

MARSHAL_VERSION = 2
"""For frames of a machine in virtual time. Later versions write an object differently when something else refers to it: the same
request would not be the same bytes, and would not take the same time to read."""


def next_tick(now_ns: int, tick_ns: int = TICK_NS) -> int:
    return -(-now_ns // tick_ns) * tick_ns
