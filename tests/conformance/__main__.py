"""`python -m tests.conformance` runs every collection and writes docs/reference/conformance.md.

`--check` only compares, `--download` only downloads what they are made of.
"""

from __future__ import annotations

import sys

from tests.conformance.page import PAGE, page
from tests.conformance.program import download_all


def main(words: list[str]) -> int:
    if words == ["--download"]:
        download_all()
        return 0
    made = page()
    if words == ["--check"]:
        return 0 if PAGE.read_text(encoding="utf-8") == made else 1
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
