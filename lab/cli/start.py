"""The entry point of the installed `lab`: Ctrl-C while commands are still being imported ends in one line, as later."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from lab.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("lab: interrupted\n")
        # As a shell says it: 128 and SIGINT. The module of signals may not be there yet.
        sys.exit(130)
    run()
