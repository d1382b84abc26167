"""The last words of a client: for a failed transfer, the reason that the client's user would read."""

from __future__ import annotations

import json

from lab.hosts.host import Completed

_MOST = 200


def last_words(done: Completed) -> str:
    """Its last line with a word, and of a report in JSON its `message`, at most 200 characters, none of which moves a cursor.

    Empty for none. In a report only its message counts.
    """
    lines = (done.stdout + b"\n" + done.stderr).decode(errors="replace").splitlines()
    if not done.stderr.strip():
        text = reported(done.stdout)
        if text is not None:
            return _plain(text)
    return _plain(next((line for line in reversed(lines) if any(map(str.isalpha, line))), ""))


def reported(report: bytes) -> str | None:
    """The text of the last `message` in a JSON object; empty if it has none, and None for anything else."""
    try:
        document: object = json.loads(report)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    left = [document]
    while left:
        each: object = left.pop()
        if isinstance(each, dict):
            if isinstance(each.get("message"), str):
                return str(each["message"])
            left += each.values()
        elif isinstance(each, list):
            left += each
    return ""


def _plain(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text.strip()[:_MOST])
