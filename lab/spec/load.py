"""Topologies from YAML files. Reads a file and does no other I/O; every problem is one line with file, line and field."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml
from pydantic import BaseModel, ValidationError

from lab.errors import UsageProblem
from lab.paths import topologies_dir
from lab.spec.models import Link, LinkOverride, Topology

Place = tuple[int | str, ...]
_SUFFIXES = (".yaml", ".yml")


def list_topologies(folder: Path | None = None) -> list[str]:
    """Names of the topologies in `folder` (the project's own by default), sorted."""
    return sorted(path.stem for path in (folder or topologies_dir()).glob("*.yaml"))


def load_topology(name_or_path: str, folder: Path | None = None) -> Topology:
    """The topology of that name in `folder`, or in that file. Raises UsageProblem."""
    path = Path(name_or_path)
    if path.suffix not in _SUFFIXES:
        path = (folder or topologies_dir()) / f"{name_or_path}.yaml"
        if not path.is_file():
            names = list_topologies(folder)
            raise UsageProblem(
                f"no topology called {name_or_path!r}{_meant(name_or_path, names)}",
                remedy="there are: " + ", ".join(names) if names else "give the path of a YAML file",
            )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageProblem(f"topology {path} cannot be read: {why}") from None
    topology = parse_topology(text, str(path))
    if topology.name != path.stem:
        raise UsageProblem(
            f"{path}: name: it says {topology.name!r} but the file is called {path.name}", remedy="make them agree"
        )
    return topology


def parse_topology(text: str, origin: str) -> Topology:
    """The topology in `text`; `origin` names it in messages. Raises UsageProblem."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = _plain(root, origin, set())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageProblem(f"{origin}:{line}: this is not YAML: {error.problem or error.context}") from None
    except RecursionError:
        raise UsageProblem(f"{origin}: it is nested too deeply for a topology") from None
    except yaml.YAMLError as error:
        raise UsageProblem(f"{origin}: this is not YAML: {str(error).splitlines()[0]}") from None
    try:
        return Topology.model_validate(data)
    except ValidationError as error:
        raise _explain(error, root, origin) from None


def _plain(node: yaml.Node | None, origin: str, seen: set[int], line: int = 1) -> object:
    """The node as plain data; a key given twice is refused, where YAML would silently take the last.

    So is an alias (a node met again): it could contain itself, and says nothing that a network needs. `line` is where the
    node is used, which for an alias is not where it is written.
    """
    if node is None:
        return None
    if id(node) in seen:
        raise UsageProblem(f"{origin}:{line}: a YAML alias; write the value out")
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        found: dict[str, object] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise UsageProblem(f"{origin}:{line}: a key must be a word")
            if key.value in found:
                raise UsageProblem(f"{origin}:{line}: {key.value} is given twice")
            found[key.value] = _plain(value, origin, seen, line)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, origin, seen, node.start_mark.line + 1) for item in node.value]
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node)
    except ValueError as error:
        raise UsageProblem(f"{origin}:{line}: {node.value[:60]!r}: {error}") from None
    finally:
        loader.dispose()


def _explain(error: ValidationError, root: yaml.Node | None, origin: str) -> UsageProblem:
    """The first fault, where it is and what was perhaps meant. A misspelt field comes first: it is why another is missing."""
    faults = error.errors(include_url=False)
    fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    place: Place = tuple(fault["loc"])
    line = _line(root, place)
    field = ".".join(str(part) for part in place) or "the file"
    if fault["type"] == "extra_forbidden":
        allowed = _fields(place[:-1])
        unknown = str(place[-1])
        return UsageProblem(
            f"{origin}:{line}: {field}: there is no such field{_meant(unknown, allowed)}", remedy="known: " + ", ".join(allowed)
        )
    if fault["type"] == "missing":
        return UsageProblem(f"{origin}:{line}: {field}: it is missing")
    return UsageProblem(f"{origin}:{line}: {field}: {fault['msg'].removeprefix('Value error, ')}")


_MODELS: dict[Place, type[BaseModel]] = {
    (): Topology,
    ("link",): Link,
    ("link", "up"): LinkOverride,
    ("link", "down"): LinkOverride,
}


def _fields(place: Place) -> list[str]:
    model = _MODELS.get(place)
    return sorted(model.model_fields) if model else []


def _line(root: yaml.Node | None, place: Sequence[int | str]) -> int:
    """The line of the deepest part of `place` that the file has; 1 where it has nothing."""
    node, line = root, 1
    for part in place:
        if not isinstance(node, yaml.MappingNode):
            break
        found = next(((key, value) for key, value in node.value if key.value == part), None)
        if found is None:
            break
        key, node = found
        line = key.start_mark.line + 1
    return line


def _meant(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
