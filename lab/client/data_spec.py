"""What a client's YAML file can say: closed, typed, and every placeholder checked when it is read. No I/O."""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, WithJsonSchema, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from lab.spec.load import meant
from lab.spec.models import Model, Slug
from lab.spec.units import ByteRate, Size

Protocol = Literal["http1", "https1", "h2", "sftp"]
Direction = Literal["get", "put"]
ReportName = Literal["none", "curl", "ferry", "rclone"]
Refusable = Literal[Protocol, Direction, "keep", "discard", "sets", "parallel", "chunked", "sink", "limit", "buffer"]
ANY = "any"
"""The protocol of a template that holds for each of `protocols`."""

PLACES = {
    "url": "the URL, with the user's name over SFTP",
    "source": "the file to upload; a folder for a set",
    "output": "where a download must end up; a folder for a set",
    "output_dir": "its folder",
    "output_name": "its name in there",
    "remote": "the server's end of an SFTP transfer",
    "host": "the server",
    "port": "its port for this protocol",
    "user": "SFTP: who to be",
    "key": "SFTP: the private key's file",
    "known_hosts": "SFTP: the file with the server's key",
    "ca": "TLS: the certificate to trust",
    "workdir": "the client's folder and HOME, where `files` are",
    "program": "the program, by the path the user gave",
    "files": "how many files a set has; of get_discard how often its one file is to be asked for",
    "parallel": "how many of them at once",
    "ssh": "options that make an ssh use the run's key and known hosts, and never ask",
    "curl_report": "what curl's -w must be for `report: curl`",
}
HOST_PLACES = ("host", "user", "key", "known_hosts", "ca", "workdir", "program")
"""Those that are the same for every transfer, which is all that an environment may use."""
ACTION, OPTIONS, LIMIT, BUFFER = "action", "options", "limit", "buffer"
SEVERAL = ("ssh", ACTION, OPTIONS)
"""Placeholders that become any number of words: in a command each is a word of its own."""
REPORT_GROUPS = ("bytes", "received", "total_s", "body_s", "first_byte_s")
"""`received` is `bytes` of a client that tells them of downloads only."""
FILES, PARALLEL = "files", "parallel"
# Half a step is then at most half a percent of the limit.
STEPS_IN_LIMIT = 100


def placeholders(template: str) -> set[str]:
    """The names in braces. Raises ValueError for a brace that is neither of a name nor doubled."""
    found = set()
    for _, name, spec, conversion in string.Formatter().parse(template):
        if name is None:
            continue
        if not name.isidentifier() or spec or conversion:
            raise ValueError("a placeholder is {name}; write {{ and }} for braces of the command's own")
        found.add(name)
    return found


def _known(template: str, known: Iterable[str]) -> set[str]:
    names = [*known]
    found = placeholders(template)
    for name in sorted(found - {*names}):
        hint = meant(name, names) or f"; known: {', '.join(names)}"
        raise ValueError(f"there is no placeholder {{{name}}} here{hint}")
    return found


def _text(*names: str) -> Callable[[str], str]:
    def check(template: str) -> str:
        _known(template, names)
        return template

    return check


def _words(*more: str) -> Callable[[str], str]:
    def check(template: str) -> str:
        _known(template, [*PLACES, *more])
        for word in shlex.split(template):
            for name in SEVERAL:
                if name in placeholders(word) and word != f"{{{name}}}":
                    raise ValueError(f"{{{name}}} is several words, and must stand alone, not in {word!r}")
        return template

    return check


def _split(value: object) -> object:
    return shlex.split(value) if isinstance(value, str) else value


def _for_any(value: object) -> object:
    return {ANY: value} if isinstance(value, str) else value


def _report(value: str) -> str:
    """A reader's name, or a pattern whose groups the lab knows."""
    if value in get_args(ReportName):
        return value
    try:
        groups = re.compile(value).groupindex
    except re.error as error:
        raise ValueError(f"{value[:60]!r} is no regular expression: {error}") from None
    if not groups:
        raise ValueError(f"no reader called {value[:60]!r}, and no pattern with groups: use {', '.join(get_args(ReportName))}")
    if unknown := sorted({*groups} - {*REPORT_GROUPS}):
        raise ValueError(f"no number is called {unknown[0]!r}: use {', '.join(REPORT_GROUPS)}")
    return value


_PER_PROTOCOL = {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}]}
_WORDS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
Command = Annotated[str, Field(min_length=1), AfterValidator(_words(ACTION, OPTIONS))]
Action = Annotated[str, Field(min_length=1), AfterValidator(_words(OPTIONS))]
Actions = Annotated[dict[Literal["any", Protocol], Action], BeforeValidator(_for_any), WithJsonSchema(_PER_PROTOCOL)]
Words = Annotated[list[str], BeforeValidator(_split), WithJsonSchema(_WORDS)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$")]
FileText = Annotated[str, AfterValidator(_text(*PLACES, ACTION, LIMIT, BUFFER))]
Value = Annotated[str, AfterValidator(_text(*HOST_PLACES))]


class Setting(Model):
    """A limit or a buffer: how it is told, and what the client takes. A bare string is the option."""

    what: str = Field("", description="what its amount is to this client, for the message that tells its bounds")
    direction: Direction | None = Field(None, description="the only direction in which the client heeds it")

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: object) -> object:
        return {"option": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler.resolve_ref_schema(handler(core_schema))]}


class LimitSetting(Setting):
    option: Annotated[str, AfterValidator(_words(LIMIT))] = Field("", description="words with {limit}")
    unit: ByteRate = Field(ByteRate(1), description="what {limit} counts")
    least: ByteRate | None = None
    most: ByteRate | None = None


class BufferSetting(Setting):
    option: Annotated[str, AfterValidator(_words(BUFFER))] = Field("", description="words with {buffer}")
    unit: Size = Field(Size(1), description="what {buffer} counts")
    least: Size | None = None
    most: Size | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.unit.bytes == 0:
            raise ValueError("a unit of 0 bytes counts nothing")
        return self


class ClientFile(Model):
    """A client as data. What is not described is not supported; `cannot` says why in better words."""

    name: Slug = Field(description="as the file is called")
    program: str = Field("", min_length=1, validate_default=False, description="on the host's PATH, or a path from this file")
    version: Words = Field(["--version"], description="what makes it print its version; the first line is taken")
    teller: str = Field("", description="another program, beside this one, that prints the version")
    protocols: list[Protocol] = Field([], description="those of every get and put that is not given per protocol")
    command: Command | None = Field(None, description="with an {action}, which get and put say; left out, they say it all")
    get: Actions = Field({}, description="download one file")
    put: Actions = Field({}, description="upload one file")
    get_set: Actions = Field({}, description="download a folder of files")
    put_set: Actions = Field({}, description="upload a folder of files")
    get_discard: Actions = Field(
        {}, description="download and throw away: one file, or with {files} so many requests for it, {parallel} at once"
    )
    limit: LimitSetting | None = Field(None, description="stands for {options}, or behind the program's name")
    buffer: BufferSetting | None = Field(None, description="likewise")
    files: dict[FileName, FileText] = Field(
        {}, description="written to {workdir} before the client starts; a line with a {limit} that was not asked for is left out"
    )
    environment: dict[str, Value] = Field({}, description="besides HOME={workdir}, LC_ALL=C.UTF-8 and no proxy")
    report: Annotated[str, AfterValidator(_report)] = Field(
        "none", description=f"{', '.join(get_args(ReportName))}, or a regular expression with groups {', '.join(REPORT_GROUPS)}"
    )
    cannot: dict[Refusable, str] = Field({}, description="what it does not do, and why, in one line")
    notes: list[str] = Field([], description="defaults of its own that matter; they go into results")

    def template(self, direction: Direction, protocol: Protocol, *, several: bool, discard: bool = False) -> str | None:
        """What it is told to do; None where that is not described. `several` is of sets that are kept."""
        actions = self._actions(direction, several, discard)
        return actions.get(protocol) or (actions.get(ANY) if protocol in self.protocols else None)

    def speaks(self) -> list[Protocol]:
        """In any direction."""
        told: list[Protocol] = list(get_args(Protocol))
        return [
            each
            for each in told
            if any(each in actions or (ANY in actions and each in self.protocols) for actions in self._all())
        ]

    def _actions(self, direction: Direction, several: bool, discard: bool) -> dict[Any, str]:
        if discard:
            return self.get_discard
        if direction == "get":
            return self.get_set if several else self.get
        return self.put_set if several else self.put

    def _all(self) -> list[dict[Any, str]]:
        return [self.get, self.put, self.get_set, self.put_set, self.get_discard]

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if not self.program:
            object.__setattr__(self, "program", self.name)
        if not any(self._all()):
            raise ValueError("it does nothing: give get, put, get_set, put_set or get_discard")
        if any(ANY in actions for actions in self._all()) and not self.protocols:
            raise ValueError(f"say which protocols it speaks: protocols: [{', '.join(get_args(Protocol))}], as far as they hold")
        if self.command and not any(ACTION in placeholders(text) for text in (self.command, *self.files.values())):
            raise ValueError("neither command nor files have an {action}: what get and put say would be lost")
        for name, setting in ((LIMIT, self.limit), (BUFFER, self.buffer)):
            in_texts = any(name in placeholders(text) for text in self.files.values())
            if setting and not in_texts and name not in placeholders(setting.option):
                raise ValueError(f"{name}: there is no {{{name}}}, neither in its option nor in files")
            if setting is None and in_texts:
                raise ValueError(f"{{{name}}} is used and not described: give {name}: {{}} and what the client takes")
        self._check_starts()
        return self

    def _check_starts(self) -> None:
        """The program must be where its path and its options can be put."""
        for template in [self.command] if self.command else [text for actions in self._all() for text in actions.values()]:
            begins = shlex.split(template)[:1] in ([self.program], ["{program}"])
            names = placeholders(template)
            if not begins and "program" not in names:
                raise ValueError(f"{template[:60]!r} does not begin with the program, {self.program}, nor has {{program}}")
            options = any(setting and setting.option for setting in (self.limit, self.buffer))
            if not begins and options and OPTIONS not in names:
                raise ValueError(f"{template[:60]!r} does not begin with the program: say where {{options}} go")
