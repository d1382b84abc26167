"""The content of a client's YAML file. Placeholders are checked when it is read."""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, WithJsonSchema, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from lab.model.base import FieldFault, Model, Slug
from lab.model.endpoint import LAB_PROTOCOLS, PROTOCOL_WORDS, ProtocolName
from lab.model.errors import did_you_mean
from lab.model.libcurl import LibcurlSettings
from lab.model.units import ByteRate, Size

Direction = Literal["get", "put"]
ReportName = Literal["none", "curl", "ferry", "rclone"]
REFUSABLE = ("get", "put", "keep", "discard", "sets", "parallel", "chunked", "sink", "limit", "buffer")
"""Features that a client's file may refuse, besides protocols."""
ANY = "any"
"""The key of a template for every protocol in `protocols`."""

PLACES = {
    "url": "the URL; over SFTP with the user's name",
    "source": "the file to upload; a folder for a set",
    "output": "the file of the download; a folder for a set",
    "output_dir": "the folder of {output}",
    "output_name": "the name of {output} in {output_dir}",
    "remote": "SFTP: the path on the server; of another endpoint, the place in its service, e.g. files/5MiB",
    "service": "URL of an endpoint's service, where its file names one",
    "host": "the server's name or address",
    "port": "the server's port for this protocol",
    "user": "SFTP: the user's name",
    "key": "SFTP: the file of the private key",
    "known_hosts": "SFTP: the file with the server's host key",
    "ca": "TLS: the certificate to trust",
    "workdir": "the client's folder and HOME, which holds `files`",
    "program": "the client's program, as the user gave it",
    "files": "number of files in a set; for get_discard, number of requests",
    "parallel": "number of files or requests at the same time",
    "ssh": "options for ssh: the run's key and known hosts, and no prompts",
    "curl_report": "the argument of curl's -w for `report: curl`",
}
HOST_PLACES = ("host", "user", "key", "known_hosts", "ca", "workdir", "program")
"""The placeholders that are the same for every transfer. An environment may use only these."""
ACTION, OPTIONS, LIMIT, BUFFER = "action", "options", "limit", "buffer"
SEVERAL = ("ssh", ACTION, OPTIONS)
"""Placeholders that become any number of words. In a command each must be a separate word."""
REPORT_GROUPS = ("bytes", "received", "total_s", "body_s", "first_byte_s")
"""`received` is `bytes` for a client that reports them for downloads only."""
FILES, PARALLEL = "files", "parallel"
# Rounding to a step then changes the limit by at most half a percent.
STEPS_IN_LIMIT = 100


def placeholders(template: str) -> set[str]:
    """The names in braces. Raises ValueError for a single brace without a name."""
    found = set()
    for _, name, spec, conversion in string.Formatter().parse(template):
        if name is None:
            continue
        if not name.isidentifier() or spec or conversion:
            raise ValueError("a placeholder is {name}; write {{ and }} for literal braces")
        found.add(name)
    return found


def _known(template: str, known: Iterable[str]) -> set[str]:
    names = [*known]
    found = placeholders(template)
    for name in sorted(found - {*names}):
        hint = did_you_mean(name, names) or f"; known: {', '.join(names)}"
        raise ValueError(f"unknown placeholder {{{name}}}{hint}")
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
                    raise ValueError(f"{{{name}}} becomes several words and must be a separate word, not part of {word!r}")
        return template

    return check


def _split(value: object) -> object:
    return shlex.split(value) if isinstance(value, str) else value


def _for_any(value: object) -> object:
    return {ANY: value} if isinstance(value, str) else value


def _report(value: str) -> str:
    """Check that a report is a known reader or a regular expression with known groups."""
    if value in get_args(ReportName):
        return value
    try:
        groups = re.compile(value).groupindex
    except re.error as error:
        raise ValueError(f"{value[:60]!r} is not a regular expression: {error}") from None
    if not groups:
        raise ValueError(f"{value[:60]!r} is neither a reader ({', '.join(get_args(ReportName))}) nor a pattern with groups")
    if unknown := sorted({*groups} - {*REPORT_GROUPS}):
        raise ValueError(f"unknown group {unknown[0]!r}: use {', '.join(REPORT_GROUPS)}")
    return value


_PER_PROTOCOL = {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}]}
_WORDS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
Command = Annotated[str, Field(min_length=1), AfterValidator(_words(ACTION, OPTIONS))]
Action = Annotated[str, Field(min_length=1), AfterValidator(_words(OPTIONS))]
Actions = Annotated[dict[ProtocolName, Action], BeforeValidator(_for_any), WithJsonSchema(_PER_PROTOCOL)]
Words = Annotated[list[str], BeforeValidator(_split), WithJsonSchema(_WORDS)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$")]
FileText = Annotated[str, AfterValidator(_text(*PLACES, ACTION, LIMIT, BUFFER))]
Value = Annotated[str, AfterValidator(_text(*HOST_PLACES))]


class Setting(Model):
    """A limit or a buffer: the client's option for it and the values it accepts. A string alone is the option."""

    what: str = Field("", description="what the amount means to this client, for messages about its bounds")
    direction: Direction | None = Field(None, description="the only direction in which the client applies it")

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: object) -> object:
        return {"option": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler.resolve_ref_schema(handler(core_schema))]}


class LimitSetting(Setting):
    option: Annotated[str, AfterValidator(_words(LIMIT))] = Field("", description="the option, with {limit}")
    unit: ByteRate = Field(ByteRate(1), description="the unit of {limit}")
    least: ByteRate | None = None
    most: ByteRate | None = None


class BufferSetting(Setting):
    option: Annotated[str, AfterValidator(_words(BUFFER))] = Field("", description="the option, with {buffer}")
    unit: Size = Field(Size(1), description="the unit of {buffer}")
    least: Size | None = None
    most: Size | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.unit.bytes == 0:
            raise ValueError("the unit must be more than 0 bytes")
        return self


class ClientFile(Model):
    """A client described as data. It supports only what its file describes; `cannot` explains the rest."""

    name: Slug = Field(description="name of the client and of its file")
    program: str = Field(
        "", min_length=1, validate_default=False, description="on the host's PATH, or a path relative to this file"
    )
    package: str = Field(
        "", description="the package of PyPI whose versions NAME@VERSION runs, with the program of that name in its environment"
    )
    userland: str = Field("", description="the userland whose program it is, e.g. `debian:13`, or the path of a root folder")
    version: Words = Field(
        ["--version"],
        description="arguments that print the version; its first line is recorded. Without this field --version is tried, and a "
        "program that does not know it has its checksum recorded; [] asks for none",
    )
    teller: str = Field("", description="another program, in the same folder, that prints the version")
    protocols: list[ProtocolName] = Field([], description="protocols of every get and put that is not given per protocol")
    command: Command | None = Field(None, description="with an {action} from get or put; default: get and put are complete")
    get: Actions = Field({}, description="download one file")
    put: Actions = Field({}, description="upload one file")
    get_set: Actions = Field({}, description="download a folder of files")
    put_set: Actions = Field({}, description="upload a folder of files")
    get_discard: Actions = Field(
        {}, description="download and discard: one file, or {files} requests for it, {parallel} at a time"
    )
    limit: LimitSetting | None = Field(None, description="the rate limit; its option replaces {options} or follows the program")
    buffer: BufferSetting | None = Field(None, description="the I/O buffer; its option replaces {options} or follows the program")
    files: dict[FileName, FileText] = Field(
        {},
        description="written to {workdir} before the client starts; lines with an unused {limit} are left out",
    )
    environment: dict[str, Value] = Field({}, description="variables in addition to HOME={workdir}, LC_ALL=C.UTF-8 and no proxy")
    report: Annotated[str, AfterValidator(_report)] = Field(
        "none", description=f"{', '.join(get_args(ReportName))}, or a regular expression with groups {', '.join(REPORT_GROUPS)}"
    )
    cannot: dict[str, str] = Field(
        {}, description=f"unsupported features, each with the reason in one line: {', '.join(REFUSABLE)}, or a protocol"
    )
    libcurl: LibcurlSettings | None = Field(
        None, description="the lab's application on libcurl with these settings; with name and notes alone"
    )
    notes: list[str] = Field([], description="the client's defaults that matter; recorded in results")

    @property
    def digest(self) -> str:
        """SHA-256 of the description without the words that nothing runs by, and without paths of its program and userland."""
        return self.digest_without({"notes", "cannot", "program", "userland", "package", "version", "teller"})

    def template(self, direction: Direction, protocol: str, *, several: bool, discard: bool = False) -> str | None:
        """The template of an action; None if the file does not describe it. `several`: a set of files."""
        actions = self._actions(direction, several, discard)
        return actions.get(protocol) or (actions.get(ANY) if protocol in self.protocols else None)

    def speaks(self) -> list[str]:
        """The protocols that some action supports: those of the lab's own servers first."""
        named = [each for actions in self._all().values() for each in actions if each != ANY]
        return [
            each
            for each in dict.fromkeys((*LAB_PROTOCOLS, *self.protocols, *named))
            if any(each in actions or (ANY in actions and each in self.protocols) for actions in self._all().values())
        ]

    def _actions(self, direction: Direction, several: bool, discard: bool) -> dict[Any, str]:
        if discard:
            return self.get_discard
        if direction == "get":
            return self.get_set if several else self.get
        return self.put_set if several else self.put

    def _all(self) -> dict[str, dict[Any, str]]:
        """Every kind of action by its field, which has a template for each protocol."""
        return {name: getattr(self, name) for name in ("get", "put", "get_set", "put_set", "get_discard")}

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if not self.program:
            object.__setattr__(self, "program", self.name)
        if self.libcurl:
            if more := sorted(self.model_fields_set - {"name", "libcurl", "notes"}):
                raise ValueError(f"an application on libcurl has name, libcurl and notes, and no {more[0]}")
            return self
        if not any(self._all().values()):
            raise ValueError("no action: give get, put, get_set, put_set or get_discard")
        if any(ANY in actions for actions in self._all().values()) and not self.protocols:
            raise ValueError(f"no protocols: give protocols: [{', '.join(LAB_PROTOCOLS)}], or those it supports")
        if self.command and not any(ACTION in placeholders(text) for text in (self.command, *self.files.values())):
            raise ValueError("neither command nor files have an {action} for get and put")
        for name, setting in ((LIMIT, self.limit), (BUFFER, self.buffer)):
            in_texts = any(name in placeholders(text) for text in self.files.values())
            if setting and not in_texts and name not in placeholders(setting.option):
                raise ValueError(f"{name}: neither its option nor files have a {{{name}}}")
            if setting is None and in_texts:
                raise ValueError(f"{{{name}}} is used but not described: give {name}: {{}} with the accepted values")
        self._check_cannot()
        self._check_starts()
        return self

    def _check_cannot(self) -> None:
        known = [*REFUSABLE, *PROTOCOL_WORDS, *self.speaks()]
        for name in self.cannot:
            if name not in known:
                hint = did_you_mean(name, known) or f"; known: {', '.join(REFUSABLE)}, or a protocol"
                raise FieldFault(("cannot", name), f"{name!r} is not a feature{hint}")

    def _check_starts(self) -> None:
        """Check that the lab can put the program's path and options into every command."""
        actions = {(name, protocol): text for name, texts in self._all().items() for protocol, text in texts.items()}
        for at, template in {("command",): self.command}.items() if self.command else actions.items():
            begins = shlex.split(template)[:1] in ([self.program], ["{program}"])
            names = placeholders(template)
            if not begins and "program" not in names:
                raise FieldFault(at, f"{template[:60]!r} neither begins with the program, {self.program}, nor has {{program}}")
            options = any(setting and setting.option for setting in (self.limit, self.buffer))
            if not begins and options and OPTIONS not in names:
                raise FieldFault(at, f"{template[:60]!r} does not begin with the program and needs {{options}}")
