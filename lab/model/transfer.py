"""The transfer of a cell, its expectation, and the client under test."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from lab.model.base import CLIENT_PATTERN, YAML_SUFFIXES, Model
from lab.model.endpoint import ProtocolName
from lab.model.figures import BOUNDED, BOUNDS, FIGURES, Bound, Figure, FigureName
from lab.model.units import ByteRate, Ratio, Size

BoundKind = FigureName
"""An expectation that a cell's name ends with: the figure that it bounds."""
_TOLERANCE_KINDS: dict[str, str] = {"limit": "deviation", "steady": "slowdown", "none": "rate"}
"""The other kinds of expectation, and the figure that each is about."""
_NONE = Ratio(0)
LEAST_FILES_TO_COMPARE = 200
"""With fewer, the first and the last hundred of a set overlap."""
MOST_FILES_KEPT = 10_000
"""Each file of a set is made, stored and checked, which costs more than a request whose content is discarded."""


class Transfer(Model):
    """One transfer: protocol, direction, files and limit."""

    protocol: ProtocolName = Field(
        description="http1: HTTP/1.1; https1: the same over TLS; h2: HTTP/2 over TLS; h3: HTTP/3 over QUIC; sftp: over SSH; "
        "or a name of an endpoint's `urls`"
    )
    direction: Literal["get", "put"] = Field(description="get: from server to client; put: to the server")
    size: Size = Field(description="body bytes of each file")
    limit: ByteRate | None = Field(
        None,
        description="the client's own rate limit, in body bytes; over HTTP for each file, over SFTP for all together",
    )
    chunked: bool = Field(False, description="download without an announced size (chunked encoding)")
    sink: bool = Field(False, description="upload that the server reads and discards")
    buffer_size: Size | None = Field(None, description="the client's I/O buffer, if the client has such a setting")
    files: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(
        1, description="number of files in a set, each of this size; with discard or repeat, number of requests for one file"
    )
    parallel: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        1, description="number of files at the same time; over h2 and h3 on one connection"
    )
    discard: bool = Field(False, description="download that the client discards")
    no_file: bool = Field(
        False, description="with discard: the client opens no file, not even the null device, e.g. by curl's --out-null"
    )
    repeat: bool = Field(False, description="requests for one file, each answer kept in a file of its own")

    @property
    def total_bytes(self) -> int:
        """Body bytes of all files together."""
        return self.size.bytes * self.files

    @property
    def over_tls(self) -> bool:
        """True where TLS encrypts its bytes, with keys that a client may write down."""
        return self.protocol in {"https1", "h2", "h3"}

    @property
    def plain(self) -> bool:
        """True for one file of announced size, which any endpoint serves."""
        return self.files == 1 and not (self.chunked or self.sink or self.repeat or self.no_file)

    @property
    def kept_set(self) -> bool:
        """True if the transfer has several files with different content."""
        return self.files > 1 and not (self.discard or self.repeat)

    @property
    def requests(self) -> bool:
        """True if the transfer requests one file several times."""
        return self.files > 1 and (self.discard or self.repeat)

    @property
    def each_limited(self) -> bool:
        """True if the limit applies to each of several files."""
        return self.limit is not None and self.files > 1 and self.protocol != "sftp"

    @property
    def limit_byte_s(self) -> int | None:
        """The limit of all parallel transfers together, in bytes per second."""
        if self.limit is None:
            return None
        return self.limit.byte_s * (min(self.parallel, self.files) if self.each_limited else 1)

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.files > 1 and self.protocol != "sftp" and self.direction == "put":
            raise ValueError("over HTTP only a get can have more than one file")
        if self.parallel > 1 and self.files == 1:
            raise ValueError("parallel needs more than one file")
        if self.discard and self.direction != "get":
            raise ValueError("discard needs a get (use sink for a put)")
        if self.no_file and not self.discard:
            raise ValueError("no_file needs discard")
        if self.repeat and (self.discard or self.direction != "get" or self.files == 1):
            raise ValueError("repeat needs a get of several files without discard")
        if self.requests and self.protocol == "sftp":
            raise ValueError("requests for one file need HTTP")
        if self.kept_set and self.files > MOST_FILES_KEPT:
            raise ValueError(f"a set has at most {MOST_FILES_KEPT} files")
        if self.chunked and (self.protocol == "sftp" or self.direction != "get"):
            raise ValueError("chunked needs an HTTP get")
        if self.sink and (self.protocol == "sftp" or self.direction != "put"):
            raise ValueError("sink needs an HTTP put")
        if self.buffer_size is not None and self.buffer_size.bytes == 0:
            raise ValueError("buffer_size must be more than 0")
        return self


def _known_kind(kind: str) -> str:
    if kind not in _TOLERANCE_KINDS and kind not in BOUNDED:
        raise ValueError(f"{kind!r} is not one of {', '.join((*_TOLERANCE_KINDS, *BOUNDED))}")
    return kind


class Expectation(Model):
    """The claim that a PASS confirms."""

    kind: Annotated[str, AfterValidator(_known_kind)] = Field(
        "limit",
        json_schema_extra={"enum": [*_TOLERANCE_KINDS, *BOUNDED]},
        description="limit: the mean body rate lies within tolerance of transfer.limit (of several files over HTTP: the file "
        "furthest from it); steady: the last hundred files of a set take at most tolerance longer, each, than the first hundred; "
        "none: every transfer arrives intact; else the name of a figure: its mean is at most bound, or at least bound where "
        "more is better",
    )
    tolerance: Ratio = Field(Ratio(0.05), description="for limit and steady")
    bound: float | None = Field(None, gt=0, allow_inf_nan=False, description="for a figure, in the unit of the result's field")

    @property
    def named(self) -> BoundKind | None:
        """The figure that the cell's name ends with; None where the transfer implies the expectation."""
        return None if self.kind in _TOLERANCE_KINDS else self.kind

    @property
    def figure(self) -> Figure:
        """The figure that the expectation is about; for `none` the body rate."""
        return FIGURES[_TOLERANCE_KINDS.get(self.kind, self.kind)]

    @property
    def bounded(self) -> Bound | None:
        """The figure with its bound; None for an expectation without a bound."""
        return None if self.bound is None else Bound(self.figure, self.bound)

    def text(self, judged: float) -> str:
        """A value of the verdict's interval, printed as the figure: `+99.41 %`, `190.2 MB`."""
        return self.bounded.text(judged) if self.bounded else FIGURES["deviation"].text(judged)

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if not 0 < self.tolerance.value < 1:
            raise ValueError(f"a tolerance of {self.tolerance} is out of range (more than 0 %, less than 100 %)")
        if self.bound is not None and self.named is None:
            raise ValueError(f"{self.kind} has no bound (figures have one: {', '.join(BOUNDED)})")
        if self.bound is None and self.named is not None:
            if self.kind not in BOUNDS:
                raise ValueError(f"{self.kind} needs a bound ({', '.join(BOUNDS)} have a default)")
            object.__setattr__(self, "bound", BOUNDS[self.kind])
        return self

    @classmethod
    def of(cls, transfer: Transfer, tolerance: Ratio = Ratio(0.05), kind: BoundKind | None = None) -> Self:
        """The expectation that the transfer implies, or the one named by `kind`."""
        if kind is not None:
            return cls(kind=kind, tolerance=tolerance)
        if transfer.limit is not None:
            return cls(kind="limit", tolerance=tolerance)
        compared = transfer.kept_set and transfer.files >= LEAST_FILES_TO_COMPARE
        return cls(kind="steady" if compared else "none", tolerance=tolerance)

    def problem(self, transfer: Transfer) -> str:
        """The reason that this expectation does not fit the transfer; empty if it fits."""
        if self.kind == "limit" and transfer.limit is None:
            return "the transfer has no limit to keep (use expectation kind: none)"
        if self.kind == "burst" and transfer.limit is None:
            return "a burst needs a transfer with a limit (-at-1MBps)"
        if self.kind == "overall" and (transfer.limit is None or transfer.each_limited):
            return "overall needs one limit for the complete transfer (-at-1MBps, and one file over HTTP)"
        if self.kind == "steady" and transfer.discard:
            return "discarded files have no times to compare"
        if self.kind == "steady" and transfer.files < LEAST_FILES_TO_COMPARE:
            return f"a first and a last hundred need {LEAST_FILES_TO_COMPARE} files, this set has {transfer.files}"
        return ""


class ClientSpec(Model):
    """The program under test."""

    name: Annotated[str, Field(pattern=rf"^{CLIENT_PATTERN}$", max_length=64)]
    program: str = Field("", min_length=1, description="path or name; defaults to the client's name", validate_default=False)

    @model_validator(mode="after")
    def _default_program(self) -> Self:
        if not self.program:
            object.__setattr__(self, "program", self.name)
        return self

    @classmethod
    def parse(cls, text: str) -> ClientSpec:
        """A client by name ("curl"), by path ("/opt/curl-8/bin/curl", named "curl") or by both ("curl-8=/opt/curl-8/bin/curl").

        The path may be a client's YAML file ("./axel.yaml", named "axel"). A name may have a version ("curl@8.4.0").
        Raises ValueError if the text gives no name.
        """
        label, equals, path = text.strip().partition("=")
        if equals and (not label or not path):
            raise ValueError(f"{text!r}: NAME=PATH needs both")
        if not equals and (file := re.fullmatch(r"(.*?([^/]*)\.ya?ml)@(.+)", label)):
            raise ValueError(f"{text!r}: a file has no versions (a build of its client is {file[2]}-{file[3]}=PATH)")
        base = label if equals else PurePath(label).name.lower()
        if not equals and base.endswith(YAML_SUFFIXES):
            base = base.rpartition(".")[0]
        name = (
            base if equals or re.fullmatch(CLIENT_PATTERN, base) else "-".join(re.findall(r"[a-z0-9]+(?:[._][a-z0-9]+)*", base))
        )
        if not re.fullmatch(CLIENT_PATTERN, name):
            raise ValueError(f"{text!r} gives no name for a client (use small letters, digits, and single - . _ between them)")
        return cls(name=name[:64].rstrip("-._"), program=path or label)
