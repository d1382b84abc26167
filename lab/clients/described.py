"""A client that a YAML file describes (`lab.model.client.ClientFile`): its templates filled in for one transfer."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import TypeVar

from lab.clients.adapter import clean_environment, identify_program
from lab.clients.curl import write_out
from lab.clients.described_report import Reader, reader
from lab.hosts.host import Completed, Host
from lab.model.base import YAML_SUFFIXES
from lab.model.client import (
    ACTION,
    BUFFER,
    FILES,
    LIMIT,
    OPTIONS,
    PARALLEL,
    STEPS_IN_LIMIT,
    ClientFile,
    placeholders,
)
from lab.model.endpoint import protocol_words
from lab.model.endpoints import CA_FILE, KNOWN_HOSTS_FILE, SSH_KEY_FILE, Endpoints
from lab.model.load import check_name, files_by_name, parse_model, read_text
from lab.model.paths import clients_dirs
from lab.model.results import ClientIdentity, ClientNumbers
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size

Q = TypeVar("Q", ByteRate, Size)
# Readers that know the rate of each of several files.
_TELL_STREAMS = ("curl", "ferry")


def load_client(path: Path) -> ClientFile:
    """The client that the file describes. Raises UsageProblem if it cannot be read or is invalid."""
    found = _parse(read_text("client", path), str(path))
    check_name(found.name, path)
    return found


@lru_cache(maxsize=256)
def _parse(text: str, origin: str) -> ClientFile:
    """The same text is read once: the clock, the adapter and the userland of each cell ask for its client, 20 to 30 ms a file."""
    return parse_model(ClientFile, text, origin)


def described_files() -> dict[str, Path]:
    """Files by client; a user's own come before the lab's."""
    return files_by_name(clients_dirs(), YAML_SUFFIXES)


def program_of(spec: ClientFile, folder: Path) -> str:
    """The program's path, relative to the `folder` of the file; a bare name stays a name on the host's PATH."""
    return str(folder.absolute() / Path(spec.program).expanduser()) if "/" in spec.program else spec.program


def ssh_options(endpoints: Endpoints) -> list[str]:
    """Options that use the run's key and known hosts only, and never ask a question."""
    options = {
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": endpoints.known_hosts_path,
        "GlobalKnownHostsFile": "none",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "BatchMode": "yes",
    }
    words = ["-F", "none", "-i", endpoints.ssh_key_path]
    for name, value in options.items():
        words += ["-o", f"{name}={value}"]
    return words


@dataclass(frozen=True)
class DescribedClient:
    """`name` is its name in results; `program` a path, or a name on the host's PATH."""

    name: str
    program: str
    spec: ClientFile

    def identify(self, host: Host) -> ClientIdentity:
        """The program that prints the version (`teller`) is looked up next to the client, because the two were built together."""
        path = PurePath(self.program)
        teller = str(path.with_name(self.spec.teller)) if self.spec.teller and len(path.parts) > 1 else self.spec.teller
        return identify_program(
            host,
            self.name,
            self.program,
            self.spec.version,
            known=self.spec.name,
            teller=teller,
            notes=self.spec.notes,
            environment=self._variables(_before_servers(host)) if self.spec.environment else {},
            optional="version" not in self.spec.model_fields_set,
        )

    def supports(self, transfer: Transfer) -> str:
        checks = (
            self._refusal,
            self._indescribable,
            self._undescribed,
            self._numbers_problem,
            self._limit_problem,
            self._buffer_problem,
        )
        return next((reason for check in checks if (reason := check(transfer))), "")

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        filled = _Filled(self, transfer, endpoints)
        words = filled.words(self.spec.command or filled.action)
        if words[0] == self.spec.program:
            words[0] = self.program
        if OPTIONS not in placeholders(self.spec.command or "") | placeholders(filled.action):
            words[1:1] = filled.options
        return words

    def inputs(self, transfer: Transfer, endpoints: Endpoints) -> dict[str, bytes]:
        filled = _Filled(self, transfer, endpoints)
        return {f"{endpoints.client_workdir}/{name}": filled.lines(text).encode() for name, text in self.spec.files.items()}

    def environment(self, endpoints: Endpoints) -> dict[str, str]:
        return {**clean_environment(endpoints), **self._variables(endpoints)}

    def _variables(self, endpoints: Endpoints) -> dict[str, str]:
        places = _places(self, endpoints)
        return {name: text.format_map(places) for name, text in self.spec.environment.items()}

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        return self._reader.parse(transfer, completed)

    def body_start_s(self, transfer: Transfer, numbers: ClientNumbers) -> float:
        return self._reader.body_start_s(transfer, numbers)

    def body_seconds(self, transfer: Transfer, numbers: ClientNumbers) -> float | None:
        return self._reader.body_seconds(transfer, numbers)

    @property
    def _reader(self) -> Reader:
        return reader(self.name, self.spec.report)

    def _refusal(self, transfer: Transfer) -> str:
        """The reason that the description gives under `cannot`; empty if it supports the transfer."""
        asked: dict[str, object] = {
            transfer.protocol: True,
            transfer.direction: True,
            "keep": transfer.direction == "get" and not transfer.discard,
            "discard": transfer.discard,
            "sets": transfer.kept_set,
            "parallel": transfer.parallel > 1,
            "chunked": transfer.chunked,
            "sink": transfer.sink,
            "limit": transfer.limit,
            "buffer": transfer.buffer_size,
        }
        return next((self.spec.cannot[each] for each, wanted in asked.items() if wanted and each in self.spec.cannot), "")

    def _indescribable(self, transfer: Transfer) -> str:
        """The reason that a description cannot have such a transfer; empty if it can."""
        if transfer.repeat:
            return "a description has no action for requests whose answers are kept"
        return f"its description does not say whether {self.spec.name} discards without a file" if transfer.no_file else ""

    def _undescribed(self, transfer: Transfer) -> str:
        spec, several = self.spec, transfer.kept_set
        if self._template(transfer) is not None:
            return ""
        spoken = spec.speaks()
        if transfer.protocol not in spoken:
            return f"{spec.name} speaks {', '.join(protocol_words(each) for each in spoken)} only"
        if transfer.discard:
            return f"{spec.name} does not download and throw away (get_discard)"
        if not any(spec.template(transfer.direction, each, several=several) for each in spoken):
            verb = "upload" if transfer.direction == "put" else "download"
            return f"{spec.name} does not {verb}{' sets of files' if several else ''}"
        return f"{spec.name} does not {transfer.direction} over {protocol_words(transfer.protocol)}"

    def _template(self, transfer: Transfer) -> str | None:
        return self.spec.template(transfer.direction, transfer.protocol, several=transfer.kept_set, discard=transfer.discard)

    def _numbers_problem(self, transfer: Transfer) -> str:
        """The command must pass on the number of requests, and how many at once, where these are not 1."""
        spec = self.spec
        used = set().union(*map(placeholders, (self._template(transfer) or "", spec.command or "", *spec.files.values())))
        if transfer.requests and FILES not in used:
            return f"{spec.name} asks for one file only once (get_discard has no {{{FILES}}})"
        if transfer.parallel > 1 and PARALLEL not in used:
            return f"{spec.name} has no option for the number of files at once"
        return ""

    def _limit_problem(self, transfer: Transfer) -> str:
        limit, setting, name = transfer.limit, self.spec.limit, self.spec.name
        if limit is None:
            return ""
        if setting is None:
            return f"{name} has no limit of its own"
        if transfer.each_limited and self.spec.report not in _TELL_STREAMS:
            return f"{name} does not report the rate of each of several limited files"
        if setting.direction and setting.direction != transfer.direction:
            return f"{name} limits {'downloads' if setting.direction == 'get' else 'uploads'} only"
        if setting.unit.byte_s > 1 and limit.byte_s < setting.unit.byte_s * STEPS_IN_LIMIT:
            least = ByteRate(setting.unit.byte_s * STEPS_IN_LIMIT)
            return f"{name} counts its limit in steps of {setting.unit}: at least {least}"
        outside = _outside(limit, setting.least, setting.most, setting.what)
        return f"{name}'s limit {outside}" if outside else ""

    def _buffer_problem(self, transfer: Transfer) -> str:
        size, setting, name = transfer.buffer_size, self.spec.buffer, self.spec.name
        if size is None:
            return ""
        if setting is None:
            return f"{name} has no option for its buffer size"
        if setting.direction and setting.direction != transfer.direction:
            return f"{name} has a buffer size for {'downloads' if setting.direction == 'get' else 'uploads'} only"
        if size.bytes % setting.unit.bytes:
            return f"{name} counts its buffer in steps of {setting.unit}"
        outside = _outside(size, setting.least, setting.most, setting.what)
        return f"{name}'s buffer {outside}" if outside else ""


def _before_servers(host: Host) -> Endpoints:
    """The endpoints as far as a program that prints its version needs them: paths and names, which do not depend on a server."""
    workdir = host.workdir
    return Endpoints(
        server="server",
        server_workdir=str(workdir),
        client_workdir=str(workdir),
        ca_path=str(workdir / CA_FILE),
        known_hosts_path=str(workdir / KNOWN_HOSTS_FILE),
        ssh_key_path=str(workdir / SSH_KEY_FILE),
    )


def _outside(amount: Q, least: Q | None, most: Q | None, what: str) -> str:
    """Empty, or the range of the amount: "is one request: 1 KiB to 255 KiB"."""
    if (least is None or least <= amount) and (most is None or amount <= most):
        return ""
    if least is None or most is None:
        bounds = f"at most {most}" if least is None else f"at least {least}"
    else:
        bounds = f"{least} to {most}"
    return f"is {what}: {bounds}" if what else f"is {bounds}"


def _places(client: DescribedClient, endpoints: Endpoints) -> dict[str, str]:
    """The placeholders of `HOST_PLACES`: the same for every transfer."""
    return {
        "host": endpoints.server,
        "user": endpoints.ssh_user,
        "key": endpoints.ssh_key_path,
        "known_hosts": endpoints.known_hosts_path,
        "ca": endpoints.ca_path,
        "workdir": endpoints.client_workdir,
        "program": client.program,
    }


class _Filled:
    """One client's templates with one transfer's values."""

    def __init__(self, client: DescribedClient, transfer: Transfer, endpoints: Endpoints) -> None:
        spec, output = client.spec, PurePath(endpoints.output_path)
        self.values = _places(client, endpoints) | {
            "url": endpoints.url(transfer, user=True),
            "source": endpoints.source_path,
            "output": str(output),
            "output_dir": str(output.parent),
            "output_name": output.name,
            "remote": endpoints.remote_path(transfer),
            "service": endpoints.service_url(transfer),
            "port": str(endpoints.port(transfer)),
            "curl_report": write_out(transfer),
            FILES: str(transfer.files),
            PARALLEL: str(min(transfer.parallel, transfer.files)),
        }
        self.options: list[str] = []
        self.several: dict[str, list[str]] = {"ssh": ssh_options(endpoints)}
        if transfer.limit is not None and spec.limit:
            self.values[LIMIT] = str(round(transfer.limit.byte_s / spec.limit.unit.byte_s))
            self.options += self.words(spec.limit.option)
        if transfer.buffer_size is not None and spec.buffer:
            self.values[BUFFER] = str(transfer.buffer_size.bytes // spec.buffer.unit.bytes)
            self.options += self.words(spec.buffer.option)
        self.several[OPTIONS] = self.options
        several, discard = transfer.kept_set, transfer.discard
        self.action = spec.template(transfer.direction, transfer.protocol, several=several, discard=discard) or ""
        self.several[ACTION] = self.words(self.action)

    def words(self, template: str) -> list[str]:
        """The template's words, filled in. A value with a space in it stays one word."""
        words: list[str] = []
        for word in shlex.split(template):
            alone = next((name for name in self.several if word == f"{{{name}}}"), None)
            words += self.several[alone] if alone else [word.format_map(self.values)]
        return words

    def lines(self, template: str) -> str:
        """The template's lines, filled in, without those for a limit or a buffer that the transfer does not have."""
        joined = {name: shlex.join(words) for name, words in self.several.items()}
        texts = self.values | joined | {ACTION: self.action.format_map(self.values | joined)}
        kept = [line for line in template.splitlines() if placeholders(line) <= {*texts}]
        return "".join(f"{line.format_map(texts)}\n" for line in kept)
