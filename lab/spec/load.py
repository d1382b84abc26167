"""Models from YAML files, topologies first. Reads a file and does no other I/O; a problem is one line: file, line, field."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from lab.errors import UsageProblem
from lab.paths import topologies_dir
from lab.spec.models import YAML_SUFFIXES, Topology

M = TypeVar("M", bound=BaseModel)
Place = tuple[int | str, ...]


def list_topologies(folder: Path | None = None) -> list[str]:
    """Names of the topologies in `folder` (the project's own by default), sorted."""
    return sorted(path.stem for path in (folder or topologies_dir()).glob("*.yaml"))


def load_topology(name_or_path: str, folder: Path | None = None) -> Topology:
    """The topology of that name in `folder`, or in that file. Raises UsageProblem."""
    path = Path(name_or_path)
    if path.suffix not in YAML_SUFFIXES:
        path = (folder or topologies_dir()) / f"{name_or_path}.yaml"
        if not path.is_file():
            names = list_topologies(folder)
            raise UsageProblem(
                f"no topology called {name_or_path!r}{meant(name_or_path, names)}",
                remedy="there are: " + ", ".join(names) if names else "give the path of a YAML file",
            )
    topology = parse_topology(read_text("topology", path), str(path))
    check_name(topology.name, path)
    return topology


def parse_topology(text: str, origin: str) -> Topology:
    """The topology in `text`; `origin` names it in messages. Raises UsageProblem."""
    return parse_model(Topology, text, origin)


def read_text(what: str, path: Path) -> str:
    """The file's text; `what` it is names it in messages. Raises UsageProblem."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageProblem(f"{what} {path} cannot be read: {why}") from None


def check_name(name: str, path: Path) -> None:
    """A thing is found by its file's name, and results bear the one inside. Raises UsageProblem where they differ."""
    if name != path.stem:
        raise UsageProblem(f"{path}: name: it says {name!r} but the file is called {path.name}", remedy="make them agree")


def parse_model(model: type[M], text: str, origin: str) -> M:
    """The `model` in `text`; `origin` names it in messages. Raises UsageProblem."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = _plain(root, origin, set())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageProblem(f"{origin}:{line}: this is not YAML: {error.problem or error.context}") from None
    except RecursionError:
        raise UsageProblem(f"{origin}: it is nested too deeply") from None
    except yaml.YAMLError as error:
        raise UsageProblem(f"{origin}: this is not YAML: {str(error).splitlines()[0]}") from None
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _explain(error, model, root, origin) from None


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


def _explain(error: ValidationError, model: type[BaseModel], root: yaml.Node | None, origin: str) -> UsageProblem:
    """The first fault, where it is and what was perhaps meant. A misspelt field comes first: it is why another is missing."""
    faults = error.errors(include_url=False)
    fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    place: Place = tuple(fault["loc"])
    line = _line(root, place)
    field = ".".join(str(part) for part in place) or "the file"
    if fault["type"] == "extra_forbidden":
        allowed = _fields(model, place[:-1])
        unknown = str(place[-1])
        return UsageProblem(
            f"{origin}:{line}: {field}: there is no such field{meant(unknown, allowed)}", remedy="known: " + ", ".join(allowed)
        )
    if fault["type"] == "missing":
        return UsageProblem(f"{origin}:{line}: {field}: it is missing")
    return UsageProblem(f"{origin}:{line}: {field}: {fault['msg'].removeprefix('Value error, ')}")


def _fields(model: type[BaseModel], place: Place) -> list[str]:
    """Of the model at `place`, which is below fields that are models, or a model or nothing."""
    for part in place:
        field = model.model_fields.get(str(part))
        kinds = (field.annotation, *get_args(field.annotation)) if field else ()
        inner = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        if inner is None:
            return []
        model = inner
    return sorted(model.model_fields)


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


def meant(word: str, known: Iterable[str]) -> str:
    """What was perhaps meant, as the end of a message; empty where nothing comes close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
