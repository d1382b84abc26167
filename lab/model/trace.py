"""A trace: how many full-sized frames a link carries in each millisecond, recorded somewhere or made."""

from __future__ import annotations

import base64
import binascii
import zlib
from array import array
from collections.abc import Iterable
from functools import lru_cache
from sys import byteorder
from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator

from lab.model.base import Model
from lab.model.units import Duration

MOST_FRAMES = 2**16 - 1
"""Per millisecond."""
LONGEST_MS = 3_600_000
_WIDTH = 2


def packed(frames: Iterable[int]) -> str:
    """Numbers per millisecond as a trace keeps them: 16 bits each, little-endian, zlib, base64."""
    numbers = array("H", frames)
    if byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(zlib.compress(numbers.tobytes(), 9)).decode()


@lru_cache(maxsize=8)
def unpacked(text: str) -> tuple[int, ...]:
    """The numbers that `packed` was given. Raises ValueError for anything else."""
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(base64.b64decode(text, validate=True), LONGEST_MS * _WIDTH + 1)
    except (binascii.Error, zlib.error, ValueError) as problem:
        raise ValueError(f"a trace is damaged: {problem}") from None
    if not inflate.eof or not data or len(data) % _WIDTH or len(data) > LONGEST_MS * _WIDTH:
        raise ValueError("a trace is damaged: it has no milliseconds, half of one, or too many")
    numbers = array("H", data)
    if byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)


class TraceDirection(Model):
    """One direction of a trace, as it was read."""

    file: str = Field(description="the file as the topology names it")
    sha256: str = Field(description="SHA-256 of the file")
    frames: str = Field(description="full-sized frames per millisecond: 16 bits each, little-endian, zlib, base64")

    @property
    def counts(self) -> tuple[int, ...]:
        """Frames per millisecond."""
        return unpacked(self.frames)

    def per_second(self) -> float:
        """Frames per second in the mean."""
        return sum(self.counts) * 1000 / len(self.counts)

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if not any(self.counts):
            raise ValueError(f"trace {self.file} carries nothing")
        return self


class TraceRtt(Model):
    """The round trip from an instant of a trace on."""

    at: Duration = Field(description="time since the trace's beginning")
    rtt: Duration = Field(description="round-trip time of the idle link")


def _form(value: Any) -> str:
    return "<text>" if isinstance(value, str) else "<mapping>"


_File = Annotated[
    str, Field(min_length=1, description="a file, by its path from the topology's or its name in a folder of traces")
]
_Side = Annotated[Annotated[_File, Tag("<text>")] | Annotated[TraceDirection, Tag("<mapping>")], Discriminator(_form)]


class Trace(Model):
    """Both directions, each of which begins again at its end."""

    down: _Side = Field(description="file of the direction from server to client")
    up: _Side = Field(description="file of the direction from client to server")
    rtts: tuple[TraceRtt, ...] = Field((), description="written by the lab: round trips of a CSV file that has them")

    def direction(self, name: str) -> TraceDirection:
        """One direction. Raises ValueError where the file has not been read."""
        found = self.up if name == "up" else self.down
        if isinstance(found, str):
            raise ValueError(f"trace {found} has not been read")  # noqa: TRY004 - a text is one of the two forms
        return found

    @property
    def read(self) -> bool:
        """True once both files have been read."""
        return not isinstance(self.down, str) and not isinstance(self.up, str)


AnyTrace = Annotated[Annotated[_File, Tag("<text>")] | Annotated[Trace, Tag("<mapping>")], Discriminator(_form)]
"""A file for both directions, or a mapping with one for each."""
