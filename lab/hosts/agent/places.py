"""Names and paths that both ends of an agent agree on. Imports nothing, because the start of a machine in virtual time counts."""

from __future__ import annotations

# The ordinary user that servers and clients run as, in a user namespace of their own. High, so that no other user has it.
LAB_UID = 7700
LAB_USER = "lab"
# The lab mounts a tmpfs here, in its own mount namespace: files on it end with the lab.
RUN_DIR = "/run"
HOME_DIR = f"{RUN_DIR}/lab/home"

MARSHAL_VERSION = 2
"""For frames of a machine in virtual time. Later versions write an object differently when something else refers to it: the same
request would not be the same bytes, and would not take the same time to read."""
