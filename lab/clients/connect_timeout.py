"""The options with which clients limit how long a connection may take to come about."""

from __future__ import annotations

# By the client's name without a version. Every one of these takes options behind its URLs.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "aria2": ("--connect-timeout={}",),
    "curl": ("--connect-timeout", "{}"),
    "ferry": ("--timeout-connect", "{}s"),
    "rclone": ("--contimeout", "{}s"),
    "wget": ("--connect-timeout={}",),
}


def connect_within(client: str, seconds: int) -> list[str]:
    """Words for the end of the client's command line; empty for a client whose option is not known."""
    return [word.format(seconds) for word in _OPTIONS.get(client.partition("@")[0], ())]
