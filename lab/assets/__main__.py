"""`python -m lab.assets`: the commands of setup.sh. Standard library only; runs with any Python from 3.11 on."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

from lab.assets import engine, tools, uml, windows, wine
from lab.model.errors import EXIT_INVALID, EXIT_PASS, RoughwaterError

# Set by `make ferry-windows`: install the packages that build and run ferry.exe, too. `build` by `make release`: without Wine.
WINDOWS_VARIABLE = "ROUGHWATER_WINDOWS"


def progress(message: str) -> None:
    print(f"setup: {message}", flush=True)


def packages() -> int:
    """The Debian packages this machine lacks, one per line."""
    lacking = tools.packages(tools.missing(tools.installable()))
    if wanted := os.environ.get(WINDOWS_VARIABLE):
        lacking += windows.missing_packages()
        lacking += [] if wanted == "build" or wine.find_program() else [wine.PACKAGE]
    for package in dict.fromkeys(lacking):
        print(package)
    return EXIT_PASS


def check() -> int:
    """Exit code 0 if everything is installed and intact; one line for each thing that is not."""
    faults = [f"{tool.name} is missing ({tools.remedy(tool)})" for tool in tools.missing() if not tool.optional]
    if wants_router() and uml.find() is None:
        faults.append("the UML router is missing or damaged (make setup builds it)")
    if not engine.up_to_date():
        faults.append("ferry is older than its sources in engine/ (make setup builds it)")
    for fault in faults:
        progress(fault)
    return EXIT_INVALID if faults else EXIT_PASS


def build(*, force: bool) -> int:
    """Download while cargo compiles."""
    with ThreadPoolExecutor(1) as pool:
        downloads = pool.submit(download, force=force)
        engine.build(progress)
        downloads.result()
    return EXIT_PASS


def download(*, force: bool) -> None:
    tools.provide(progress, ["server"])
    if force or (wants_router() and uml.find() is None):
        asset = uml.build(progress, force=force)
        progress(f"UML router of Debian {asset.suite} in {asset.directory}")


def wants_router() -> bool:
    """Only for tests. Virtual time needs no User-Mode Linux router, and the namespaces backend downloads it on first use."""
    return bool(os.environ.get(tools.TESTERS_VARIABLE))


def cargo() -> int:
    """The cargo that builds the engine, for scripts that test it; its folder goes first on PATH."""
    print(tools.require("cargo"))
    return EXIT_PASS


def crates() -> int:
    """Download the crates of the engine, of its tests and of its fuzz targets, so that cargo needs no network afterwards."""
    for folder in (engine.engine_dir(), engine.engine_dir() / "fuzz"):
        engine.fetch(folder)
    return EXIT_PASS


def ferry_exe() -> int:
    print(windows.build(progress))
    return EXIT_PASS


def wine_prefix() -> int:
    facts = wine.ensure(progress)
    print(f"{facts.program} ({facts.label}), {facts.template}")
    return EXIT_PASS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.assets", description="Programs that the lab runs and does not install.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("packages", help="print the Debian packages that are missing")
    commands.add_parser("check", help="exit 0 if everything is installed and intact")
    commands.add_parser("build", help="download what is missing").add_argument("--force", action="store_true", help="build again")
    commands.add_parser("cargo", help="print the cargo that is recent enough")
    commands.add_parser("crates", help="download the crates of the engine and of its tests")
    commands.add_parser("windows", help="cross-build ferry.exe, and print where it is")
    commands.add_parser("wine", help="make a Wine prefix to run it in, and print where both are")
    arguments = parser.parse_args()
    # setup.sh runs this in the background, where Ctrl-C is ignored otherwise, by cargo too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    simple = {"packages": packages, "check": check, "cargo": cargo, "crates": crates, "windows": ferry_exe, "wine": wine_prefix}
    try:
        if arguments.command == "build":
            return build(force=arguments.force)
        return simple[arguments.command]()
    except RoughwaterError as error:
        print(f"setup: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
