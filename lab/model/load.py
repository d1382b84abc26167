"""Read models from YAML files. A fault is one line that names the file, the line and the field."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionStartEvent, ScalarEvent

from lab.model.base import OF_FORM, YAML_SUFFIXES, FieldFault, plain_words
from lab.model.endpoint import EndpointFile
from lab.model.errors import UsageProblem, did_you_mean
from lab.model.paths import endpoints_dirs, shipped_presets_dir, topologies_dirs
from lab.model.presets import Publisher
from lab.model.topology import Topology
from lab.model.trace_file import with_trace

M = TypeVar("M", bound=BaseModel)
Place = tuple[int | str, ...]
ENDPOINT_MARK = "@"


def files_by_name(folders: Iterable[Path], suffixes: Sequence[str]) -> dict[str, Path]:
    """Files by their stem, sorted; of two with one name that of the first folder."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.suffix in suffixes and path.is_file():
                found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def list_topologies() -> list[str]:
    """Names of the topologies that a command can ask for: a user's own and the lab's."""
    return list(files_by_name(topologies_dirs(), YAML_SUFFIXES))


def load_topology(name_or_path: str) -> Topology:
    """The topology with that name, a user's own before the lab's and its presets; or that of a file. Raises UsageProblem.

    `NETWORK@ENDPOINT` is the network with that endpoint, by name or path, as its server.
    """
    network, mark, endpoint = name_or_path.partition(ENDPOINT_MARK)
    if mark and "/" not in network:
        return with_endpoint(load_topology(network), endpoint)
    path = Path(name_or_path)
    if path.suffix not in YAML_SUFFIXES:
        known = files_by_name(topologies_dirs(), YAML_SUFFIXES)
        if name_or_path not in known:
            return _preset(name_or_path, known)
        path = known[name_or_path]
    topology = parse_topology(read_text("topology", path), str(path))
    check_name(topology.name, path)
    if ENDPOINT_MARK in topology.name:
        raise UsageProblem(f"{path}: {ENDPOINT_MARK} in a name separates network and endpoint", remedy="rename the file")
    if isinstance(topology.endpoint, str):
        topology = topology.model_copy(update={"endpoint": load_endpoint(topology.endpoint, path.parent)})
    return with_trace(topology, path.parent)


def with_endpoint(topology: Topology, endpoint: str) -> Topology:
    """The topology with that endpoint, by name or path, in the place of its own; its name says so. Raises UsageProblem."""
    found = load_endpoint(endpoint)
    network = topology.name.partition(ENDPOINT_MARK)[0]
    return topology.model_copy(update={"name": f"{network}{ENDPOINT_MARK}{found.name}", "endpoint": found})


def list_endpoints() -> list[str]:
    """Names of the endpoints that a command can ask for: a user's own and the lab's."""
    return list(files_by_name(endpoints_dirs(), YAML_SUFFIXES))


def load_endpoint(name_or_path: str, folder: Path = Path()) -> EndpointFile:
    """The endpoint with that name, or that of a file, relative to `folder`. Raises UsageProblem.

    Paths of a program, a userland and an image are relative to the endpoint's file, and absolute in what is returned.
    """
    path = folder / Path(name_or_path).expanduser()
    if path.suffix not in YAML_SUFFIXES:
        known = files_by_name(endpoints_dirs(), YAML_SUFFIXES)
        if name_or_path not in known:
            here = next((each for suffix in YAML_SUFFIXES if (each := Path(f"{name_or_path}{suffix}")).is_file()), None)
            raise UsageProblem(
                f"no endpoint called {name_or_path!r}{did_you_mean(name_or_path, known)}",
                remedy=f"--endpoint ./{here}" if here else f"known: {', '.join(known)}; or give the path of a YAML file",
            )
        path = known[name_or_path]
    found = parse_endpoint(read_text("endpoint", path), str(path))
    check_name(found.name, path)
    named = {name: getattr(found, name) for name in ("program", "userland", "image")}
    paths = {name: text for name, text in named.items() if "/" in text or (name == "image" and text)}
    absolute = os.path.abspath  # keeps symlinks, as typed
    own = {name: absolute(path.parent / Path(text).expanduser()) for name, text in paths.items()}
    for name, place in own.items():
        if not Path(place).exists():
            raise UsageProblem(f"{path}: {name}: there is no {place}", remedy="a path is relative to this file")
    return found.model_copy(update=own)


@lru_cache(maxsize=64)
def parse_endpoint(text: str, origin: str) -> EndpointFile:
    """The endpoint in `text`; `origin` names it in messages. Raises UsageProblem."""
    return parse_model(EndpointFile, text, origin)


def publishers() -> tuple[Publisher, ...]:
    """The publishers of networks by name, with their presets; sorted by file."""
    return tuple(_read_publisher(path) for path in files_by_name([shipped_presets_dir()], YAML_SUFFIXES).values())


@lru_cache(maxsize=32)
def _read_publisher(path: Path) -> Publisher:
    return parse_model(Publisher, read_text("presets", path), str(path))


def _preset(name: str, files: Iterable[str]) -> Topology:
    """The published network with that name. `files` are the names of topologies, for the error. Raises UsageProblem."""
    found = publishers()
    for publisher in found:
        if name in publisher.presets:
            return publisher.topology(name)
    published = [each for publisher in found for each in publisher.presets]
    raise UsageProblem(
        f"no topology called {name!r}{did_you_mean(name, [*files, *published])}",
        remedy=f"known: {', '.join(files)}; those of `lab topologies --presets`; or give the path of a YAML file",
    )


@lru_cache(maxsize=256)
def parse_topology(text: str, origin: str) -> Topology:
    """The topology in `text`; `origin` names it in messages. Raises UsageProblem.

    The rows of a suite name the same few topologies, each of which takes some 15 ms to read and cannot change.
    """
    return parse_model(Topology, text, origin)


def read_text(what: str, path: Path) -> str:
    """The text of a file; `what` ("topology") describes it in messages. Raises UsageProblem."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageProblem(f"{what} {path} cannot be read: {why}") from None


def check_name(name: str, path: Path) -> None:
    """Raise UsageProblem unless the name in a file is the file's: users write the one, results have the other."""
    if name != path.stem:
        raise UsageProblem(f"{path}: name: {name!r} is not the name of the file", remedy="rename one of them")


def parse_model(model: type[M], text: str, origin: str) -> M:
    """The `model` in `text`; `origin` names it in messages. Raises UsageProblem."""
    data = _parse(text, origin)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _explain(error, model, data, origin) from None


def _parse(text: str, origin: str) -> object:
    """The YAML document in `text`; its mappings and lists know their lines. Raises UsageProblem."""
    yaml = YAML(typ="rt", pure=True)
    try:
        data: object = yaml.load(text)
        # An alias can contain itself, and neither it nor a tag says anything that a network or a client needs. To read the text a
        # second time takes as long as the first: there is an alias or a tag only where these characters are.
        for event in yaml.parse(text) if "*" in text or "!" in text else ():
            place = f"{origin}:{event.start_mark.line + 1}"
            if isinstance(event, AliasEvent):
                raise UsageProblem(f"{place}: YAML aliases (*{event.anchor}) are not supported", remedy="write the value out")
            if isinstance(event, ScalarEvent | CollectionStartEvent) and event.tag:
                raise UsageProblem(f"{place}: YAML tags ({event.tag}) are not supported", remedy="write the plain value")
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageProblem(f"{origin}:{line}: this is not YAML: {error.problem or error.context}") from None
    except RecursionError:
        raise UsageProblem(f"{origin}: the YAML is nested too deeply") from None
    except (YAMLError, ValueError) as error:
        raise UsageProblem(f"{origin}: this is not YAML: {str(error).splitlines()[0]}") from None
    return data


def _explain(error: ValidationError, model: type[BaseModel], data: object, origin: str) -> UsageProblem:
    """The first fault as one line. An unknown field comes first: misspelling a field also makes one missing."""
    faults = error.errors(include_url=False)
    fault = next((fault for fault in faults if fault["type"] in ("extra_forbidden", "invalid_key")), faults[0])
    between = fault.get("ctx", {}).get("error")
    place = between.at if isinstance(between, FieldFault) else _place(fault["loc"])
    line = _line(data, place)
    field = ".".join(str(part) for part in place) or "the file"
    if fault["type"] == "extra_forbidden":
        allowed = _fields(model, place[:-1])
        unknown = str(place[-1])
        return UsageProblem(
            f"{origin}:{line}: {field}: unknown field{did_you_mean(unknown, allowed)}",
            remedy="known: " + ", ".join(allowed),
        )
    if fault["type"] == "missing":
        return UsageProblem(f"{origin}:{line}: {field} is missing")
    if fault.get("input") is None and not place:
        return UsageProblem(f"{origin}:1: the file is empty", remedy=f"known fields: {', '.join(_fields(model, ()))}")
    if fault.get("input", 0) is None:
        known = model.model_fields.get(field)
        required = known is not None and known.is_required()
        return UsageProblem(
            f"{origin}:{line}: {field} has no value", remedy="give it one" + ("" if required else ", or leave it out")
        )
    # A field with several forms has a fault for each.
    forms = [each for each in faults if each["type"] in OF_FORM and _place(each["loc"]) == place]
    told = [plain_words(each["type"], each["msg"], each.get("ctx", {})) for each in (forms if fault in forms else [fault])]
    return UsageProblem(f"{origin}:{line}: {field}: {'; or '.join(dict.fromkeys(told))}")


def _place(location: Place) -> Place:
    """The place of a fault in the file. A field with several forms adds the form, as <mapping>, which is not in the file."""
    return tuple(part for part in location if not str(part).startswith("<"))


def _fields(model: type[BaseModel], place: Place) -> list[str]:
    """The fields of the model at `place`; empty where a part of `place` is neither a model nor an item of a list."""
    names = set(model.model_fields)
    for part in place:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(str(part))
        found = _models(field.annotation) if field else []
        if not found:
            return []
        model = found[0]
        names = {name for each in found for name in each.model_fields}
    return sorted(names)


def _models(annotation: object) -> list[type[BaseModel]]:
    """The models that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _line(data: object, place: Place) -> int:
    """The line of the deepest part of `place` that is in the file; 1 if no part is."""
    line = 1
    for part in place:
        if isinstance(data, CommentedMap) and part in data:
            line = data.lc.key(part)[0] + 1
        elif isinstance(data, CommentedSeq) and isinstance(part, int) and part < len(data):
            line = data.lc.item(part)[0] + 1
        else:
            break
        data = data[part]
    return line
