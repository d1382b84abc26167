"""The content of a server's YAML file. Its templates are checked when the file is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from lab.model.base import FieldFault, Model, Slug
from lab.model.errors import did_you_mean
from lab.model.templates import WORD
from lab.model.units import Duration

LAB_PROTOCOLS = ("http1", "https1", "h2", "h3", "sftp")
"""The protocols of the lab's own servers."""
PROTOCOL_WORDS: Mapping[str, str] = {
    "http1": "HTTP/1.1",
    "https1": "HTTP/1.1 over TLS",
    "h2": "HTTP/2",
    "h3": "HTTP/3",
    "sftp": "SFTP",
    "ftp": "FTP",
    "ftps": "FTP over TLS",
    "webdav": "WebDAV",
    "rsync": "rsync",
    "s3": "S3",
    "tus": "tus",
    "form": "multipart forms",
    "oci": "an OCI registry's API",
}
"""Printed names; a protocol without one is printed as it is written."""


def protocol_words(name: str) -> str:
    """The printed name of a protocol."""
    return PROTOCOL_WORDS.get(name, name)


PROTOCOL_PATTERN = r"[a-z][a-z0-9]{0,15}"
_MEANT = {"http": "http1", "https": "https1", "http2": "h2", "http3": "h3", "scp": "sftp", "dav": "webdav"}
_LIKE = 0.7


def _no_near_miss(name: str) -> str:
    """Refuse a name that is almost a known one: `http` would be a protocol that nothing else speaks."""
    meant = _MEANT.get(name) or next(iter(get_close_matches(name, PROTOCOL_WORDS, n=1, cutoff=_LIKE)), "")
    if name not in PROTOCOL_WORDS and meant:
        raise ValueError(f"unknown protocol {name!r}; did you mean {meant!r}?")
    return name


ProtocolName = Annotated[str, Field(pattern=rf"^{PROTOCOL_PATTERN}$"), AfterValidator(_no_near_miss)]
"""A name by which an endpoint's URLs and a client's commands meet."""
WORDS: Mapping[str, str] = {
    "program": "the endpoint's program",
    "root": "the server's folder: payloads in {root}/files, uploads in {root}/upload",
    "workdir": "the endpoint's own folder in {root}, with its `files`",
    "address": "the server's address",
    "server": "the name by which clients reach the server",
    "user": "the user that servers run as, unless `user: root`",
    "port": "{port.NAME}: a port of `ports`",
    "secret": "{secret.NAME}: drawn for each machine; not in urls, read_back or stored",
    "cert": "file of the server's certificate, PEM",
    "key": "file of its private key, PEM",
    "ca": "file of the certificate that clients trust, PEM, on the client's host",
    "payload": "name of the file that is moved: in urls, seed",
    "upload": "name that an upload has on the server: in urls, stored, read_back",
    "sha256": "SHA-256 of an upload's content, hexadecimal: in read_back",
    "sha256_2": "the first two digits of {sha256}",
    "host_key": "file of the SSH server's key, OpenSSH's format",
    "authorized_keys": "file of the SSH keys that may log in",
}
_PLACED = ("program", "root", "workdir", "address", "server", "user", "port", "cert", "key", "host_key", "authorized_keys")
_LEAST_PORT, _MOST_PORT = 1, 65535


def _of(*words: str) -> Callable[[str], str]:
    """A check that a template has no other words."""

    def check(template: str) -> str:
        for match in WORD.finditer(template):
            if match[1] not in words:
                hint = did_you_mean(match[1], words) or f"; known here: {', '.join(words)}"
                raise ValueError(f"{match[0]} is not a word of this field{hint}")
        return template

    return check


def _below(path: str) -> str:
    if {".", ".."} & {*path.split("/")}:
        raise ValueError(f"{path!r} is not a path below {{workdir}}")
    return path


Command = Annotated[str, AfterValidator(_of(*_PLACED, "secret"))]
Url = Annotated[str, AfterValidator(_of("server", "address", "port", "root", "payload", "upload"))]
StoredPath = Annotated[str, AfterValidator(_of("root", "workdir", "upload"))]
PackageName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]+$")]
UserName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,30}$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$"), AfterValidator(_below)]
Port = Annotated[int, Field(ge=_LEAST_PORT, le=_MOST_PORT, strict=True)]


class Ready(Model):
    """How the lab sees that the endpoint serves. Without `banner` and `http` a socket that listens is enough."""

    port: str = Field("", description="a name of `ports`; default: the first")
    banner: str = Field("", description="a connection is greeted with this text")
    http: str = Field("", description="GET of this path is answered, with a status below 500")
    udp: bool = Field(False, description="the port is one of UDP")
    within: Duration = Field(
        Duration.parse("10 s"), description="virtual time after which the endpoint counts as failed; default: 10 s"
    )


class Urls(Model):
    """Where a protocol's content is. The endpoint does not serve a direction without a URL."""

    get: Url = Field("", description="URL of {payload}")
    put: Url = Field("", description="URL to which {upload} goes")
    service: Url = Field("", description="URL of the service itself, for clients that ask for it apart from the file")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.get and not self.put:
            raise ValueError("neither get nor put has a URL")
        return self


class EndpointFile(Model):
    """A server described as data: the programs and files of the server's host, and the URLs and variables that clients get."""

    name: Slug = Field(description="name of the endpoint and of its file")
    description: str = Field(min_length=1, description="the server that it is, and for whom")
    program: str = Field(
        "", description="{program}: on the server's PATH, or the path of an executable file, relative to this file"
    )
    userland: str = Field("", description="root folder whose programs it runs: `debian:13`, or a path")
    image: str = Field("", description="path of a container image: what docker save writes, or an OCI layout; writable inside")
    packages: list[PackageName] = Field([], description="packages added to a userland of Debian, extracted without their scripts")
    users: list[UserName] = Field([], description="users that the server's host has besides root and {user}")
    files: dict[FileName, str] = Field({}, description="written to {workdir}; unknown words in braces stay as they are")
    prepare: Command = Field("", description="commands for /bin/sh before the start")
    start: Command = Field(
        "",
        description="the server in the foreground; words as a shell splits them, no shell runs; default: an image's own command",
    )
    user: Literal["lab", "root"] = Field("lab", description="the user that it starts as; with an image, `lab` is the image's own")
    environment: dict[str, Command] = Field({}, description="variables of prepare, start and seed")
    ports: dict[Slug, Port] = Field(min_length=1, description="number of a port by name, for {port.NAME}")
    ready: Ready = Field(Ready(), description="how the lab sees that it serves; default: its first port listens")
    seed: Annotated[str, AfterValidator(_of(*_PLACED, "secret", "payload"))] = Field(
        "", description="commands for /bin/sh, before a download, that put {payload} of {root}/files where clients get it"
    )
    urls: dict[ProtocolName, Urls] = Field(min_length=1, description="by protocol: the name that clients have for it too")
    credentials: dict[str, Annotated[str, AfterValidator(_of("server", "address", "port", "secret", "ca"))]] = Field(
        {}, description="variables of the client's process; results do not have their values"
    )
    stored: StoredPath = Field("", description="file of a complete upload on the server; with an image, a path in it")
    read_back: Annotated[str, AfterValidator(_of(*_PLACED, "upload", "sha256", "sha256_2"))] = Field(
        "", description="commands for /bin/sh, with the client's credentials, that print the content of an upload"
    )
    log: StoredPath = Field("", description="file whose end is shown when the endpoint fails")
    notes: list[str] = Field([], description="the server's defaults that matter")

    @property
    def digest(self) -> str:
        """SHA-256 of the description without the words that nothing runs by, and without paths of its program and userland."""
        return self.digest_without({"description", "notes", "program", "userland", "image"})

    def __hash__(self) -> int:
        """Mappings have no hash of their own."""
        return hash(self.digest)

    @property
    def userland_name(self) -> str:
        """The userland with its packages, `debian:13+rsync`, or `image:PATH`; empty for the machine's programs."""
        if self.image:
            return f"image:{self.image}"
        return "+".join((self.userland, *sorted({*self.packages})))

    def serves(self, protocol: str, direction: str) -> bool:
        """True if a client can move a file that way."""
        urls = self.urls.get(protocol)
        return urls is not None and bool(urls.get if direction == "get" else urls.put)

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.packages and not self.userland:
            raise FieldFault(("packages",), "packages need a userland (userland: debian:13)")
        if self.program and (self.userland or self.image):
            raise FieldFault(("program",), "a program of this machine is not seen in a userland or an image: give one of them")
        if self.image and (self.userland or self.users):
            raise FieldFault(("image",), "an image has a root and users of its own: leave out userland and users")
        if not self.start and not self.image:
            raise FieldFault(("start",), "is missing: only an image has a command of its own")
        self._check_ports()
        puts = [protocol for protocol, urls in self.urls.items() if urls.put]
        if puts and bool(self.stored) == bool(self.read_back):
            raise FieldFault(("urls", puts[0], "put"), "an upload needs either `stored` or `read_back`, to be checked")
        if not puts and (self.stored or self.read_back):
            raise FieldFault(("stored" if self.stored else "read_back",), "no protocol has a put")
        for protocol, urls in self.urls.items():
            if self.stored and urls.put and "{upload}" not in self.stored:
                raise FieldFault(("stored",), "has no {upload}: an earlier upload would count as this one")
            if urls.get and "{payload}" not in urls.get:
                raise FieldFault(("urls", protocol, "get"), "has no {payload}")
        return self

    def _check_ports(self) -> None:
        if self.ready.port and self.ready.port not in self.ports:
            raise FieldFault(("ready", "port"), f"ports has no {self.ready.port}{did_you_mean(self.ready.port, self.ports)}")
        if self.ready.banner and self.ready.http:
            raise FieldFault(("ready",), "is either a banner or an answer over http")
        for at, template in self._templates():
            for match in WORD.finditer(template):
                if match[1] == "port" and match[2] not in self.ports:
                    raise FieldFault(
                        at, f"ports has no {match[2] or 'port without a name'}{did_you_mean(match[2] or '', self.ports)}"
                    )
                if match[1] == "secret" and not match[2]:
                    raise FieldFault(at, "a secret needs a name: {secret.NAME}")

    def _templates(self) -> Iterable[tuple[tuple[str, ...], str]]:
        """Every text with words, by its place in the file."""
        yield from (((name,), getattr(self, name)) for name in ("prepare", "start", "seed", "stored", "read_back", "log"))
        for name in ("files", "environment", "credentials"):
            yield from (((name, key), text) for key, text in getattr(self, name).items())
        for protocol, urls in self.urls.items():
            yield from ((("urls", protocol, name), getattr(urls, name)) for name in ("get", "put", "service"))

    @property
    def secrets(self) -> list[str]:
        """Names of its secrets, sorted."""
        texts = (text for _, text in self._templates())
        return sorted({match[2] for text in texts for match in WORD.finditer(text) if match[1] == "secret"})
