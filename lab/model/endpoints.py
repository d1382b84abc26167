"""The other end, as a client adapter needs it: names, ports, credentials and the file of this sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lab.model.templates import fill

if TYPE_CHECKING:
    from lab.model.endpoint import EndpointFile
    from lab.model.transfer import Transfer
    from lab.model.wiring import Ip

# Credentials, below the client's workdir. That is its HOME, because libssh2 in curl reads only $HOME/.ssh/known_hosts.
CA_FILE = "ca.pem"
KNOWN_HOSTS_FILE = ".ssh/known_hosts"
SSH_KEY_FILE = ".ssh/id_ed25519"

# The files of a set by index. Names of equal length sort in the order in which every client takes them.
SET_NAME = "f%05d"


_DRAWN = "secret."
_PORTS = {"http": 80, "https": 443, "sftp": 22, "ftp": 21, "ftps": 990, "rsync": 873}
"""Default ports by a URL's scheme (IANA's registry)."""


@dataclass(frozen=True)
class Service:
    """A running endpoint that a file describes. `values` are its words; they and `environment` hold secrets."""

    file: EndpointFile
    values: Mapping[str, str] = field(repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    inside: str = ""
    """Where the server's host has the root of the endpoint's image."""

    def hide(self, text: str) -> str:
        """The text with each secret's word in the place of its value: what an endpoint prints may be stored."""
        for word, value in self.values.items():
            if word.startswith(_DRAWN):
                text = text.replace(value, f"{{{word}}}")
        return text

    def fill(self, template: str, **more: str) -> str:
        """The template with the words of this endpoint, and `more`."""
        return fill(template, {**self.values, **more})


@dataclass(frozen=True)
class Endpoints:
    """The server's address and the paths on both hosts. `payload` and `upload_name` change with every sample."""

    server: str
    server_workdir: str
    client_workdir: str
    ca_path: str
    known_hosts_path: str
    ssh_key_path: str
    ssh_user: str = "lab"
    http_port: int = 80
    https_port: int = 443
    ssh_port: int = 22
    payload: str = "PAYLOAD"
    upload_name: str = "UPLOAD"
    ip: Ip = 4
    """The families under which the server's name is known."""
    service: Service | None = None
    """The endpoint that stands in the place of the lab's own servers."""

    def for_sample(self, payload: str, upload_name: str) -> Endpoints:
        return replace(self, payload=payload, upload_name=upload_name)

    @property
    def nowhere(self) -> str:
        """The null device of the client's host."""
        return "NUL" if is_windows_path(self.client_workdir) else "/dev/null"

    @property
    def output_path(self) -> str:
        """The file of a download; for an upload, the file of the server's answer."""
        return f"{self.client_workdir}/out/{self.payload}"

    @property
    def source_path(self) -> str:
        """The file the client uploads."""
        return f"{self.client_workdir}/files/{self.payload}"

    @property
    def stored_path(self) -> str:
        """The file of an upload on the server, unless it goes to the sink."""
        if self.service:
            told = self.service.file
            if told.stored:
                path = self.service.fill(told.stored, upload=self.upload_name)
                return path if path.startswith(f"{self.server_workdir}/") else self.service.inside + path
            return f"{self.server_workdir}/{told.name}/{self.upload_name}.read-back"
        return f"{self.server_workdir}/upload/{self.upload_name}"

    def arrival_path(self, transfer: Transfer) -> str:
        """The received content, on the receiving host; a folder for a set."""
        return self.stored_path if transfer.direction == "put" else self.output_path

    def http_path(self, transfer: Transfer) -> str:
        if transfer.direction == "put":
            return f"/{'sink' if transfer.sink else 'upload'}/{self.upload_name}"
        return f"/{'chunked' if transfer.chunked else 'files'}/{self.payload}"

    def local_path(self, transfer: Transfer) -> str:
        """The content on the client's host; a folder for a set."""
        return self.source_path if transfer.direction == "put" else self.output_path

    def remote_path(self, transfer: Transfer) -> str:
        """The content on the server, for SFTP; a folder for a set. With an endpoint: its place in the service, `files/5MiB`."""
        if self.service:
            return self._place_in_service(transfer)
        return self.stored_path if transfer.direction == "put" else f"{self.server_workdir}/files/{self.payload}"

    def url(self, transfer: Transfer, *, user: bool = False) -> str:
        """An absolute URL, without a default port. That of a stored set ends with a slash. `user` adds the SFTP user's name."""
        slash = "/" if transfer.kept_set else ""
        if self.service:
            return self._service_url(transfer, user=user)
        if transfer.protocol == "sftp":
            name = f"{self.ssh_user}@" if user else ""
            return f"sftp://{name}{_place(self.server, self.ssh_port, 22)}{self.remote_path(transfer)}{slash}"
        if transfer.protocol == "http1":
            return f"http://{_place(self.server, self.http_port, 80)}{self.http_path(transfer)}{slash}"
        return f"https://{_place(self.server, self.https_port, 443)}{self.http_path(transfer)}{slash}"

    def service_url(self, transfer: Transfer) -> str:
        """The URL of the service, for clients that ask for it apart from the content's; empty for the lab's own servers."""
        urls = self.service and self.service.file.urls.get(transfer.protocol)
        return self.service.fill(urls.service) if self.service and urls else ""

    def port(self, transfer: Transfer) -> int:
        """The server's port for this transfer."""
        if self.service:
            parts = urlsplit(self.service_url(transfer) or self.url(transfer))
            return parts.port or _PORTS.get(parts.scheme, 0)
        own = {"http1": self.http_port, "sftp": self.ssh_port}
        return own.get(transfer.protocol, self.https_port)

    def _service_url(self, transfer: Transfer, *, user: bool = False) -> str:
        assert self.service is not None
        urls = self.service.file.urls[transfer.protocol]
        template = urls.get if transfer.direction == "get" else urls.put
        found = self.service.fill(template, payload=self.payload, upload=self.upload_name)
        return found.replace("sftp://", f"sftp://{self.ssh_user}@", 1) if user else found

    def _place_in_service(self, transfer: Transfer) -> str:
        """The URL behind the service's, or behind its host; of SFTP an absolute path."""
        found, service = self._service_url(transfer), self.service_url(transfer)
        if transfer.protocol == "sftp":
            return urlsplit(found).path
        if service and found.startswith(service):
            return found.removeprefix(service).lstrip("/")
        scheme, _, rest = found.partition("://")
        return rest if service and scheme != urlsplit(service).scheme else rest.partition("/")[2]

    def sink_uri(self, transfer: Transfer) -> str:
        """The URI that the sink logs for this upload; empty for an upload that is stored."""
        return self.http_path(transfer) if transfer.sink and transfer.direction == "put" else ""


def is_windows_path(path: str) -> bool:
    """True for a path that begins with a drive."""
    return path[1:2] == ":"


def _place(host: str, port: int, default: int) -> str:
    return host if port == default else f"{host}:{port}"
