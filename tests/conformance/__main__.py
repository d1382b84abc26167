"""`python -m tests.conformance` runs every collection and writes docs/reference/conformance.md; `--check` only compares."""

from __future__ import annotations

import sys

from tests.conformance.page import PAGE, page


def main(words: list[str]) -> int:
    made = page()
    if words == ["--check"]:
        return 0 if PAGE.read_text(encoding="utf-8") == made else 1
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
