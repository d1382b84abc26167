"""The first lines of an executable script of Python, wherever the interpreter is."""

from __future__ import annotations

import sys

# The kernel takes no more, and ends the interpreter's path at a space (binfmt_script, execve(2)).
_MOST = 120


def heading(options: str = "") -> str:
    """`#!` and this interpreter; where the kernel cannot take its path, lines that a shell runs and Python takes for a string."""
    line = f"#!{sys.executable} {options}".rstrip()
    if " " not in sys.executable and len(line) < _MOST:
        return f"{line}\n"
    return f"#!/bin/sh\n''':'\nexec \"{sys.executable}\" {options} \"$0\" \"$@\"\n'''\n"
