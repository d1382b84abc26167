"""Paths of the machines on which a run and its page were made: a reader elsewhere has no use for them."""

from __future__ import annotations

import re
from pathlib import Path

_PRIVATE = "home|root|work|tmp|var/tmp|Users|mnt|media|srv"
"""Folders below the root in which people and their programs keep what is their own. A system's programs are elsewhere."""
_END = r"[^\s'\"<>&`,;:()]"
_PATH = re.compile(rf"(?<![\w.:/-])/(?:{_PRIVATE})/{_END}*?({_END.replace('[^', '[^/')}*)/?(?!{_END})")


def without_places(text: str) -> str:
    """The text of a page or a summary; of a private path only the last name stays, as FOLDER/NAME."""
    return _of_home(_PATH.sub(r"FOLDER/\1", text))


def _of_home(text: str) -> str:
    """A home of another place, as a service's account has it."""
    try:
        home = str(Path.home())
    except RuntimeError:
        return text
    return text.replace(f"{home}/", "~/") if home.count("/") > 1 else text
