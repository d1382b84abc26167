"""Paths of the lab's files. No function creates a folder.

`THROUGHLINE_RESULTS` moves the results, `THROUGHLINE_CACHE` the cache, `THROUGHLINE_CLIENTS` is a folder with your own clients,
`THROUGHLINE_LOCK` is the file that lets one measurement run at a time.
An empty value counts as unset.
"""

from __future__ import annotations

import os
from pathlib import Path

from lab.model.errors import UsageProblem


def project_root() -> Path:
    """The checkout that holds `lab/`, `topologies/` and `suites/`."""
    return Path(__file__).resolve().parents[2]


def topologies_dir() -> Path:
    """The project's networks, one YAML file each."""
    return project_root() / "topologies"


def suites_dir() -> Path:
    """The project's Robot suites."""
    return project_root() / "suites"


def shipped_clients_dir() -> Path:
    """The clients that ship with the lab, one YAML file each."""
    return project_root() / "lab" / "clients" / "descriptions"


def clients_dirs() -> list[Path]:
    """Folders with YAML files of clients, in order: `$THROUGHLINE_CLIENTS`, `clients/` in the working directory, the lab's.

    Raises UsageProblem if the variable does not name a folder.
    """
    named = _from_environment("THROUGHLINE_CLIENTS")
    if named and not named.is_dir():
        raise UsageProblem(f"THROUGHLINE_CLIENTS names {named}, which is not a folder", remedy="unset THROUGHLINE_CLIENTS")
    own = [named] if named else []
    return [*own, *(folder for folder in (Path.cwd() / "clients",) if folder.is_dir()), shipped_clients_dir()]


def lock_path() -> Path:
    """`$THROUGHLINE_LOCK`, else a file in /run/lock if all users may write there (Debian, Ubuntu), else one in /tmp.

    It is the same for every user of a machine. Labs in containers that share a machine should name a file that all of them see.
    """
    shared = Path("/run/lock")
    open_to_all = shared.is_dir() and shared.stat().st_mode & 0o1002 == 0o1002
    return _from_environment("THROUGHLINE_LOCK") or (shared if open_to_all else Path("/tmp")) / "throughline"  # noqa: S108


def results_dir() -> Path:
    """`$THROUGHLINE_RESULTS`, else `results/` in the project; absolute."""
    return _from_environment("THROUGHLINE_RESULTS") or project_root() / "results"


def cache_dir() -> Path:
    """`$THROUGHLINE_CACHE`, else `throughline` in `$XDG_CACHE_HOME` or in `~/.cache`; absolute.

    A relative XDG_CACHE_HOME is ignored, as the XDG Base Directory Specification asks. Raises UsageProblem when there is no home.
    """
    if found := _from_environment("THROUGHLINE_CACHE"):
        return found
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if xdg.is_absolute():
        return xdg / "throughline"
    try:
        return Path.home() / ".cache" / "throughline"
    except RuntimeError:
        raise UsageProblem("this user has no home folder for the cache", remedy="set THROUGHLINE_CACHE to a folder") from None


def _from_environment(variable: str) -> Path | None:
    value = os.environ.get(variable, "")
    return Path(value).expanduser().absolute() if value else None
