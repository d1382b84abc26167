"""Each target that runs code of `tests` installs what tests need: on a fresh machine nothing has done so before."""

from __future__ import annotations

import re
from pathlib import Path

_MAKEFILE = Path(__file__).parents[3] / "Makefile"
_TARGET = re.compile(r"^([a-z][a-z -]*):(?! export)", re.MULTILINE)


def recipes() -> dict[str, str]:
    text = _MAKEFILE.read_text(encoding="utf-8")
    heads = list(_TARGET.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return {head[1]: text[head.end() : end] for head, end in zip(heads, ends, strict=True)}


def test_targets_that_run_tests_have_their_packages() -> None:
    text = _MAKEFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    tested = set(re.findall(r"^TESTED := (.*)$", text, re.MULTILINE)[0].split())
    running = {name for name, recipe in recipes().items() if re.search(r"tests[./](?!/)\w", recipe)}
    assert len(running) > 15
    assert running - {"clean"} <= tested
