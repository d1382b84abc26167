"""Paths of the lab's files. No function creates a folder.

`ROUGHWATER_RESULTS` moves the results, `ROUGHWATER_CACHE` the cache. `ROUGHWATER_TOPOLOGIES`, `ROUGHWATER_SUITES`,
`ROUGHWATER_CLIENTS` and `ROUGHWATER_ENDPOINTS` are folders with files of your own, `ROUGHWATER_TRACES` one with traces;
`ROUGHWATER_LOCK` is the file that lets one measurement run at a time.
An empty value counts as unset. Where the lab's own files are: docs/decisions/0021-an-installed-lab.md.
"""

from __future__ import annotations

import os
from pathlib import Path

from lab.model.errors import UsageProblem


def package_root() -> Path:
    """The folder that holds the packages `lab` and `reports`: a checkout, or where Python installs packages."""
    return Path(__file__).resolve().parents[2]


def shipped_root() -> Path:
    """The folder that holds `topologies/`, `suites/`, `images/`, docker-compose.yml and the Vagrantfile."""
    installed = package_root() / "lab" / "shipped"
    return installed if installed.is_dir() else package_root()


def checkout() -> Path | None:
    """The checkout that this lab runs from; None for an installed lab."""
    root = package_root()
    return root if (root / "engine" / "Cargo.toml").is_file() else None


def project_root() -> Path:
    """The checkout, for the tools that develop the lab. Raises UsageProblem for an installed lab."""
    if found := checkout():
        return found
    raise UsageProblem("this needs a checkout of Roughwater, and this lab is installed", remedy="clone the repository")


def shipped_topologies_dir() -> Path:
    """The networks that ship with the lab, one YAML file each."""
    return shipped_root() / "topologies"


def shipped_presets_dir() -> Path:
    """Networks by the names that other tools publish, one YAML file for each publisher."""
    return shipped_topologies_dir() / "presets"


def shipped_suites_dir() -> Path:
    """The Robot suites that ship with the lab."""
    return shipped_root() / "suites"


def shipped_clients_dir() -> Path:
    """The clients that ship with the lab, one YAML file each."""
    return package_root() / "lab" / "clients" / "descriptions"


def shipped_endpoints_dir() -> Path:
    """The servers that ship with the lab as data, one YAML file each."""
    return package_root() / "lab" / "servers" / "descriptions"


def endpoints_dirs() -> list[Path]:
    """Folders with YAML files of servers: `$ROUGHWATER_ENDPOINTS`, `endpoints/` in the working directory, the lab's.

    Raises UsageProblem if the variable does not name a folder.
    """
    return _folders("ROUGHWATER_ENDPOINTS", "endpoints", shipped_endpoints_dir())


def topologies_dirs() -> list[Path]:
    """Folders with YAML files of networks: `$ROUGHWATER_TOPOLOGIES`, `topologies/` in the working directory, the lab's.

    Raises UsageProblem if the variable does not name a folder.
    """
    return _folders("ROUGHWATER_TOPOLOGIES", "topologies", shipped_topologies_dir())


def traces_dirs() -> list[Path]:
    """Folders with traces: `$ROUGHWATER_TRACES`, `traces/` in the working directory, what was downloaded, the lab's own.

    Raises as above.
    """
    own = _folders("ROUGHWATER_TRACES", "traces", shipped_topologies_dir() / "traces")
    return [*own[:-1], downloaded_traces_dir(), own[-1]]


def downloaded_traces_dir() -> Path:
    """The folder into which `lab traces NAME` puts a trace."""
    return cache_dir() / "traces"


def suites_dirs() -> list[Path]:
    """Folders with Robot suites: `$ROUGHWATER_SUITES`, `suites/` in the working directory, the lab's. Raises as above."""
    return _folders("ROUGHWATER_SUITES", "suites", shipped_suites_dir())


def clients_dirs() -> list[Path]:
    """Folders with YAML files of clients: `$ROUGHWATER_CLIENTS`, `clients/` in the working directory, the lab's.

    Raises as above.
    """
    return _folders("ROUGHWATER_CLIENTS", "clients", shipped_clients_dir())


def lock_path() -> Path:
    """`$ROUGHWATER_LOCK`, else a file in /run/lock if all users may write there (Debian, Ubuntu), else one in /tmp.

    It is the same for every user of a machine. Labs in containers that share a machine should name a file that all of them see.
    """
    shared = Path("/run/lock")
    open_to_all = shared.is_dir() and shared.stat().st_mode & 0o1002 == 0o1002
    return _from_environment("ROUGHWATER_LOCK") or (shared if open_to_all else Path("/tmp")) / "roughwater"  # noqa: S108


def results_dir() -> Path:
    """`$ROUGHWATER_RESULTS`, else `results/` in the working folder; absolute."""
    return _from_environment("ROUGHWATER_RESULTS") or Path.cwd() / "results"


def cache_dir() -> Path:
    """`$ROUGHWATER_CACHE`, else `roughwater` among the user's caches; absolute. Raises UsageProblem when there is no home."""
    return _from_environment("ROUGHWATER_CACHE") or user_caches() / "roughwater"


def user_caches() -> Path:
    """`$XDG_CACHE_HOME`, else `~/.cache`. Raises as above.

    A relative XDG_CACHE_HOME is ignored, as the XDG Base Directory Specification asks.
    """
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if xdg.is_absolute():
        return xdg
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        raise UsageProblem("this user has no home folder for the cache", remedy="set ROUGHWATER_CACHE to a folder") from None


def _from_environment(variable: str) -> Path | None:
    value = os.environ.get(variable, "")
    return Path(value).expanduser().absolute() if value else None


def _folders(variable: str, name: str, shipped: Path) -> list[Path]:
    """A user's own folders, then the lab's; each once."""
    named = _from_environment(variable)
    if named and not named.is_dir():
        raise UsageProblem(f"{variable} names {named}, which is not a folder", remedy=f"unset {variable}")
    here = Path.cwd() / name
    own = [*([named] if named else []), *([here] if here.is_dir() else [])]
    return [*(folder for folder in own if folder.resolve() != shipped.resolve()), shipped]
