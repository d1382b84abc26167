"""The compiled templates of pages, kept in the user's cache: to compile them takes half of a page's processor time."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping

import jinja2
from jinja2.bccache import Bucket

from lab.model.errors import UsageProblem
from lab.model.paths import cache_dir


class KeptBytecode(jinja2.FileSystemBytecodeCache):
    """A template is compiled again where its file, Jinja, Python or the environment's options differ.

    A cache that cannot be written to costs the time and nothing else.
    """

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def kept(options: Mapping[str, object]) -> KeptBytecode | None:
    """The cache for an environment of these options, which are not in Jinja's own key; None without a cache."""
    key = hashlib.sha256(repr((jinja2.__version__, sorted(options.items()))).encode()).hexdigest()
    try:
        folder = cache_dir() / f"templates-{key[:12]}"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, UsageProblem):
        return None
    return KeptBytecode(str(folder))
