"""The contents of an image: its files by their place, and the recipe, a digest over everything that goes in.

    python3 -m lab.hosts.compose.content ROLE FOLDER

writes the files into a folder, as a stage of the role's Dockerfile does; `lab images build` hands them over ready-made. For ferry
and the router's kernel a recipe covers the sources and not the programs that a machine compiles from them, so that images of
another machine match the same checkout.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from lab.assets import engine, initrd, uml
from lab.hosts.compose import lab_image
from lab.model.errors import EXIT_PASS, LabFault, RoughwaterError, UsageProblem
from lab.model.paths import package_root, shipped_root, shipped_topologies_dir

ROLES = ("client", "router", "server")
# The roles of Compose, and the lab itself.
EVERY = (*ROLES, lab_image.ROLE)
WITH_FERRY = ("client", lab_image.ROLE)

# The modules of `lab/` that run inside a container. They import only the standard library and, for the servers, cryptography.
SHIPPED = (
    "__init__.py",
    "model/__init__.py",
    "model/clock.py",
    "model/endpoints.py",
    "model/templates.py",
    "model/errors.py",
    "model/files.py",
    "model/image.py",
    "model/paths.py",
    "model/units.py",
    "link/__init__.py",
    "link/layers.py",
    "link/netem.py",
    "link/plan.py",
    "link/readback.py",
    "link/theory.py",
    "hosts/__init__.py",
    "hosts/cached.py",
    "hosts/clocks.py",
    "hosts/command_host.py",
    "hosts/host.py",
    "hosts/cpu_score_script.py",
    "hosts/linux_facts.py",
    "hosts/linux_settings.py",
    "hosts/local.py",
    "hosts/loopback.py",
    "hosts/payload_script.py",
    "hosts/posix.py",
    "hosts/scripts.py",
    "hosts/tcp_counters.py",
    "hosts/wiring.py",
    "hosts/agent/*.py",
    "hosts/compose/__init__.py",
    "hosts/compose/inside/*.py",
    "servers/*.py",
    "net/__init__.py",
    "net/pins.py",
    "run/__init__.py",
    "run/container.py",
    "run/container_health.py",
)
# Runs in virtual time only, in a userland that has its library.
_LEFT_OUT = "servers/aioquic_script.py"
# The sources of ferry, without its tests.
_ENGINE = ("Cargo.toml", "Cargo.lock", "crates/*/Cargo.toml", "crates/*/build.rs", "crates/*/src/**/*")

_OWN = "usr/lib/roughwater"
RECIPE = f"{_OWN}/recipe"
"""The file with an image's recipe, for images that Compose has built and that have no label with it."""
READY = "images/ready"
"""The folder of the build context for what a build need not make: `ca/`, `site/` and `tree/`."""
# Folders that a Dockerfile copies from. The classic builder fails after a COPY that copies nothing, so
# each of them holds something.
FOLDERS = (
    *("engine", "lab", "reports", "suites", "topologies", "images/kernel"),
    *(f"{READY}/{name}" for name in ("ca", "site", "tree")),
)
_SCRIPTS = ("excludes", "install", "finish", "stage")
_TABLES: dict[str, dict[str, bytes]] = {}
"""Tables of links by a digest of the files they come from: every role has the same, and reading all topologies takes a second."""


def scripts(role: str) -> dict[str, bytes]:
    """Place in the build context -> content: the Dockerfile and what it runs."""
    root = shipped_root()
    places = (f"images/{role}/Dockerfile", f"images/{role}/packages", *(f"images/base/{name}" for name in _SCRIPTS))
    return {place: (root / place).read_bytes() for place in places} | {lab_image.LOCK: (root / lab_image.LOCK).read_bytes()}


def tree(role: str) -> dict[str, bytes]:
    """Place in the image -> content, without packages and compiled programs."""
    return {**_files(role), RECIPE: f"{recipe(role)}\n".encode()}


def recipe(role: str) -> str:
    """The recipe of this checkout, from some hundred small files and without a build."""
    made = scripts(role)
    if role != lab_image.ROLE:
        # Their build uses Python packages only to read topologies.
        del made[lab_image.LOCK]
    return digest({**made, **{f"/{place}": content for place, content in _files(role).items()}, **_compiled(role)})


def digest(parts: Mapping[str, bytes]) -> str:
    lines = (f"{place} {hashlib.sha256(content).hexdigest()}\n" for place, content in sorted(parts.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def write(folder: Path, parts: Mapping[str, bytes]) -> None:
    """With modes that do not depend on the umask: what is in a `bin` may be executed."""
    for place, content in parts.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)


def shipped_files() -> list[Path]:
    """SHIPPED, resolved. Raises LabFault for a pattern without a file, which would be missing in the container."""
    files: list[Path] = []
    left_out = package_root() / "lab" / _LEFT_OUT
    for pattern in SHIPPED:
        found = sorted((package_root() / "lab").glob(pattern))
        if not found:
            raise LabFault(f"no lab/{pattern}, which the images need", remedy="is the checkout complete?")
        files += [path for path in found if path != left_out]
    return files


def _files(role: str) -> dict[str, bytes]:
    if role == lab_image.ROLE:
        return lab_image.parts()
    lab = package_root() / "lab"
    return {
        "usr/lib/python3/dist-packages/roughwater.pth": b"/usr/lib/roughwater\n",
        **{f"{_OWN}/lab/{path.relative_to(lab)}": path.read_bytes() for path in shipped_files()},
        **{f"{_OWN}/links/{name}.json": table for name, table in _link_tables().items()},
    }


def _link_tables() -> dict[str, bytes]:
    """Topologies as JSON, because a container has neither YAML nor models."""
    from lab.hosts.compose.inside import links
    from lab.model.load import load_topology

    folder = shipped_topologies_dir()
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    made = digest(files)
    if made not in _TABLES:
        known = (load_topology(str(path)) for path in sorted(folder.glob("*.yaml")))
        tables = {topology.name: links.table(topology) for topology in known}
        _TABLES[made] = {name: json.dumps(table, indent=1, sort_keys=True).encode() + b"\n" for name, table in tables.items()}
    return _TABLES[made]


def _compiled(role: str) -> dict[str, bytes]:
    """The sources of an image's compiled programs."""
    if role in WITH_FERRY:
        root = engine.engine_dir()
        return {str(path.relative_to(root)): path.read_bytes() for path in _matching(root, _ENGINE)}
    if role == "router":
        return {"uml": "\n".join((initrd.INIT, *uml.PACKAGES, *uml.wanted_suites())).encode()}
    return {}


def _matching(root: Path, patterns: Iterable[str]) -> list[Path]:
    return sorted(path for pattern in patterns for path in root.glob(pattern) if path.is_file())


def main() -> int:
    role, folder = sys.argv[1:]
    try:
        if role not in EVERY:
            raise UsageProblem(f"no image is called {role!r}", remedy=f"one of {', '.join(EVERY)}")
        write(Path(folder), tree(role))
    except RoughwaterError as problem:
        print(f"images: {problem}", file=sys.stderr)
        return problem.exit_code
    return EXIT_PASS


if __name__ == "__main__":
    sys.exit(main())
