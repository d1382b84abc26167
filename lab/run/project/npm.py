"""`npm test`: the scripts of package.json, as npm runs them: nothing is compiled, and npm itself stays outside."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.model.errors import UsageProblem
from lab.run.project.plan import Outside, Plan, Step, parted, refused, search_path

_SCRIPTS = ("pretest", "test", "posttest")


def plan(npm: str, words: Sequence[str], outside: Outside) -> Plan:
    flags, after = parted(words)
    if flag := next((word for word in flags if word.startswith("-")), ""):
        raise refused("npm test", flag, "flags of the tests go after --")
    package = read(outside.folder / "package.json")
    scripts = package.get("scripts") or {}
    if "test" not in scripts:
        raise UsageProblem(f"{outside.folder}/package.json has no script called test", remedy="add one, or name the command")
    found = []
    for name in (name for name in _SCRIPTS if name in scripts):
        line = " ".join([scripts[name], *map(shlex.quote, [*flags, *after])]) if name == "test" else scripts[name]
        found.append(Step(f"npm {name}", ("/bin/sh", "-c", line), outside.folder, _variables(npm, name, package, outside)))
    return Plan(tuple(found), stops=True)


def read(path: Path) -> dict[str, Any]:
    """A package.json. Raises UsageProblem."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageProblem(f"{path} cannot be read: {error}", remedy="run it in the folder of a package") from None
    if not isinstance(found, dict):
        raise UsageProblem(f"{path} is not an object")
    return found


def _variables(npm: str, event: str, package: dict[str, Any], outside: Outside) -> dict[str, str]:
    places = [folder / "node_modules" / ".bin" for folder in (outside.folder, *outside.folder.parents)]
    node = shutil.which("node", path=outside.environment.get("PATH", ""))
    programs = [Path(program).parent for program in (node, npm) if program and "/" in program]
    return {
        "PATH": search_path([*(place for place in places if place.is_dir()), *programs]),
        "INIT_CWD": str(outside.folder),
        "npm_command": "test",
        "npm_lifecycle_event": event,
        "npm_package_json": str(outside.folder / "package.json"),
        **{f"npm_package_{name}": str(package[name]) for name in ("name", "version") if name in package},
        **({"NODE": node} if node else {}),
    }
