"""Userlands: root folders of systems, whose programs a host runs in place of the machine's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lab.model.base import Model
from lab.model.errors import UsageProblem

HOSTS = ("client", "server")
H3_SERVER = "debian:13"
"""The userland whose nginx serves HTTP/3 where no other is named."""
Http3Server = Literal["nginx", "aioquic"]
_RELEASE = re.compile(r"([a-z]+)(\d+(?:\.\d+)*)")


class Userlands(NamedTuple):
    """The userland of each host by its name or path; empty for the machine's own programs."""

    client: str = ""
    server: str = ""

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """From `debian:13` for both hosts, `client=debian:13` or `server=PATH` for one. Raises UsageProblem."""
        found: dict[str, str] = {}
        for text in texts:
            host, equals, value = text.partition("=")
            hosts = (host,) if equals else HOSTS
            value = value if equals else text
            if (equals and host not in HOSTS) or not value:
                raise UsageProblem(
                    f"--userland {text} names no host and userland", remedy="write debian:13, client=PATH or server=PATH"
                )
            for each in hosts:
                if found.setdefault(each, value) != value:
                    raise UsageProblem(
                        f"--userland gives the {each} two userlands: {found[each]} and {value}", remedy="give it one"
                    )
        return cls(**found)


NO_USERLANDS = Userlands()


class TopologyUserlands(Model):
    """The userlands of a network's hosts."""

    client: str = Field("", description="userland of the client's host: `debian:13`, or the path of a root folder")
    server: str = Field("", description="userland of the server's host")
    http3: Http3Server = Field(
        "nginx", description="the program of the server's userland that serves HTTP/3; `aioquic` has other limits than nginx"
    )

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.http3 != "nginx" and not self.server:
            raise ValueError(f"http3: {self.http3} is a program of the server's userland (set server: {H3_SERVER})")
        return self


class UserlandFacts(BaseModel):
    """A userland as a cell ran with it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="as it was asked for, e.g. debian:13, or the path of a folder")
    distribution: str = Field(description="the system's own name for itself (PRETTY_NAME in os-release); empty where it has none")
    digest: str = Field(description="SHA-256 over the paths and contents of all its files, 64 hexadecimal digits")
    packages: dict[str, str] = Field(description="versions of its packages by name; empty where its list has an unknown form")

    @property
    def words(self) -> str:
        """One line: `debian:13: Debian GNU/Linux 13 (trixie), 175 packages, digest 8c1f05d3a2b4`."""
        told = [self.distribution, f"{len(self.packages)} packages" if self.packages else "", f"digest {self.digest[:12]}"]
        return f"{self.name}: {', '.join(part for part in told if part)}"


def release_of(version: str) -> str:
    """`debian:13` for the `debian13` of `curl@debian13`; empty for anything else."""
    match = _RELEASE.fullmatch(version)
    return f"{match[1]}:{match[2]}" if match else ""
