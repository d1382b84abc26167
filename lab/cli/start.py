"""The entry point of the installed `lab`: Ctrl-C while commands are still being imported ends in one line, as later.

Nothing is collected meanwhile, because imports make no garbage; `lab.cli.main` goes back to collecting.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line."""
    gc.disable()
    try:
        from lab.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("lab: interrupted\n")
        # A shell's exit code for an interruption: 128 and SIGINT. The module of signals may not be there yet.
        sys.exit(130)
    run()
