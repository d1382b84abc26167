"""Removes old runs of one name, where a profile says how many are kept."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lab.model.errors import LabFault
from lab.store.run_dir import run_folders


def keep_newest(word: str, most: int, results: Path) -> list[str]:
    """Remove all but the newest `most` runs called `TIME-word-HEX`, and return the names of those removed.

    Raises LabFault where one cannot be removed.
    """
    mine = [each for each in run_folders(results) if re.fullmatch(rf"\d{{8}}T\d{{6}}-{re.escape(word)}-[0-9a-f]{{4}}", each.name)]
    old = sorted(mine)[:-most]
    for each in old:
        try:
            shutil.rmtree(each)
        except OSError as error:
            raise LabFault(
                f"{each}: an old run cannot be removed, {error.strerror or error}", remedy="remove it, or give the right to"
            ) from error
    return [each.name for each in old]
