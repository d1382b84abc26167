"""The other end, as a client adapter needs it: names, ports, credentials and the file of this sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.model.transfer import Transfer

# Credentials, below the client's workdir. That is its HOME, because libssh2 in curl reads only $HOME/.ssh/known_hosts.
CA_FILE = "ca.pem"
KNOWN_HOSTS_FILE = ".ssh/known_hosts"
SSH_KEY_FILE = ".ssh/id_ed25519"

# The files of a set by index. Names of equal length sort in the order in which every client takes them.
SET_NAME = "f%05d"


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
        """The content on the server, for SFTP; a folder for a set."""
        return self.stored_path if transfer.direction == "put" else f"{self.server_workdir}/files/{self.payload}"

    def url(self, transfer: Transfer, *, user: bool = False) -> str:
        """An absolute URL, without a default port. That of a stored set ends with a slash. `user` adds the SFTP user's name."""
        slash = "/" if transfer.kept_set else ""
        if transfer.protocol == "sftp":
            name = f"{self.ssh_user}@" if user else ""
            return f"sftp://{name}{_place(self.server, self.ssh_port, 22)}{self.remote_path(transfer)}{slash}"
        if transfer.protocol == "http1":
            return f"http://{_place(self.server, self.http_port, 80)}{self.http_path(transfer)}{slash}"
        return f"https://{_place(self.server, self.https_port, 443)}{self.http_path(transfer)}{slash}"

    def sink_uri(self, transfer: Transfer) -> str:
        """The URI that the sink logs for this upload; empty for an upload that is stored."""
        return self.http_path(transfer) if transfer.sink and transfer.direction == "put" else ""


def is_windows_path(path: str) -> bool:
    """True for a path that begins with a drive."""
    return path[1:2] == ":"


def _place(host: str, port: int, default: int) -> str:
    return host if port == default else f"{host}:{port}"
