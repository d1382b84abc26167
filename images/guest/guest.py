"""`python3 images/guest/guest.py build | run -- CMD…`: the project on a kernel that has sch_netem, in a virtual machine."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import Never

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from images.guest import image, job, machine
from lab.model.errors import EXIT_PASS, RoughwaterError, UsageProblem


def progress(message: str) -> None:
    """Print to stderr, because standard output belongs to the command."""
    print(f"guest: {message}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    own, command = _split(words)
    arguments = _parser().parse_args(own)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        if arguments.action == "build":
            found = image.build(progress, force=arguments.force)
            progress(f"{found.directory}")
            return EXIT_PASS
        if not command:
            raise UsageProblem("no command to run in the guest", remedy="guest.py run -- lab run throttle --router kernel")
        wanted = job.Job(
            tuple(command),
            user=arguments.user,
            timeout_s=arguments.timeout,
            environment=dict(_assignment(text) for text in arguments.env),
        )
        options = machine.Options(arguments.accel, arguments.cpus, arguments.memory, arguments.console)
        return machine.run(image.build(progress), wanted, options, progress)
    except RoughwaterError as error:
        progress(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        progress("interrupted; the guest is gone and its results with it")
        return 128 + signal.SIGINT


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageProblem(f"--env {text!r} is not an assignment", remedy="write --env NAME=VALUE")
    return name, value


def _stop(number: int, _: object) -> Never:
    progress(f"stopped by {signal.Signals(number).name}; the guest is gone and its results with it")
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="guest.py",
        description="A Debian 12 virtual machine whose kernel has sch_netem, and the project inside it. It has no network.",
    )
    actions = parser.add_subparsers(dest="action", required=True)
    build = actions.add_parser("build", help="make the guest, unless the cache has it")
    build.add_argument("--force", action="store_true", help="build it again")
    run = actions.add_parser(
        "run",
        usage="guest.py run [options] -- CMD…",
        help="run a command in the guest, with this working tree; its results come back",
        epilog="The exit code is the command's, or 4 if the guest failed or time ran out.",
    )
    run.add_argument("--user", action="store_true", help="run as an ordinary user of the guest, not as its root")
    run.add_argument("--timeout", type=float, default=3600.0, metavar="SECONDS", help="for the command (default: %(default).0f)")
    run.add_argument("--accel", choices=machine.ACCELS, default="auto", help="auto tries KVM, then TCG (emulation: slow)")
    run.add_argument("--cpus", type=int, default=2, help="default: %(default)s")
    run.add_argument("--memory", type=int, default=4096, metavar="MIB", help="files written in the guest included; %(default)s")
    run.add_argument("--console", action="store_true", help="show the guest's serial console too")
    run.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for the command; may be repeated")
    return parser


if __name__ == "__main__":
    sys.exit(main())
