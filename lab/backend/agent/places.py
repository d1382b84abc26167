"""Names and places that both ends of an agent agree on. Imports nothing: the first process of a machine in virtual time does."""

from __future__ import annotations

# The ordinary user that servers and clients run as, in a user namespace of their own. High, so that it is nobody else's.
LAB_UID = 7700
LAB_USER = "lab"
# A tmpfs of the lab's own is mounted here, in its own mount namespace: what is written there dies with the lab.
RUN_DIR = "/run"
HOME_DIR = f"{RUN_DIR}/lab/home"

MARSHAL_VERSION = 2
"""Of the frames of a machine in virtual time. Later versions write an object in another way when something else refers to it, so
that the same request would not be the same bytes, and would not take the same time to read."""
