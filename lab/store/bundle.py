"""Bundles: one file with everything that repeats a cell elsewhere. Also the command that repeats a cell.

```
CELL.zip
  manifest.json       settings that the cell does not record, and the SHA-256 of every other member
  cell.json           the file of the run: topology and seeds, transfer, expectation, client, certificate, samples, verdict
  pcap/sample-000.pcap, ...  where the run kept captures, and sample-000.keys with the keys of its TLS connections
```
The digests find damage and edits by hand. They are not a signature: for that, compare the digest of the complete file.
"""

from __future__ import annotations

import hashlib
import shlex
import struct
import zipfile
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import IO, Annotated, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

import lab
from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.model.base import YAML_SUFFIXES, first_problem
from lab.model.cell import Cell
from lab.model.cell_name import parse_cell_name
from lab.model.clock import CHARGE_NS, Clock
from lab.model.errors import LabFault, UsageProblem
from lab.model.files import replacing, write_faults
from lab.model.load import load_topology
from lab.model.results import CellResult, ClientIdentity, Closed
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation
from lab.model.userland import H3_SERVER, HOSTS, TopologyUserlands, Userlands, release_of
from lab.store.migrate import checked_version, upgrade
from lab.store.run_dir import RunDir, parse_json, read_cell, validated

Model = TypeVar("Model", bound=BaseModel)

BUNDLE_VERSION = "1.2"
MANIFEST = "manifest.json"
CELL = "cell.json"
# Limits far above what the lab writes, because a zip may claim any size.
_MOST_BYTES = {MANIFEST: 2**20, CELL: 2**28}
# The earliest time of a zip, so that the same cell gives the same bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_CHUNK = 2**20
# Fields of a topology without an effect on its network.
_FOR_PEOPLE = ("name", "description")
_NOT_ONE = "name a file that `lab bundle` made"
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, OverflowError, RuntimeError, ValueError)


class Looks(Closed):
    """A LookPlan with at most 100 samples a look, because bundles come from strangers and each sample takes time."""

    looks: tuple[Annotated[int, Field(le=100)], ...]
    alpha_per_look: float


class SshdSettings(Closed):
    """SshdOptions; ciphers without blanks, because they become a line of sshd's configuration."""

    max_sessions: int = Field(ge=0)
    ciphers: str = Field(pattern=r"^[!-~]*$")
    old_clients: bool = False


class Member(Closed):
    """A file of the bundle."""

    name: str = Field(pattern=r"^(cell\.json|pcap/[A-Za-z0-9_-]+\.(pcap|keys))$")
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(Closed):
    """The contents of a bundle, and settings of the run that the cell does not record."""

    kind: Literal["roughwater-bundle", "throughline-bundle"] = "roughwater-bundle"  # the second: bundles of 1.1 and before
    schema_version: str = BUNDLE_VERSION
    lab_version: str = Field(description="of the lab that packed it")
    cell: str
    run: str
    clock: Clock = Field("real", description="what the cell ran by; a bundle of 1.0 does not say, there was no other")
    looks: Looks
    sshd: SshdSettings
    members: list[Member] = Field(min_length=1, max_length=200)


@dataclass(frozen=True)
class Bundle:
    """A bundle whose members were all checked."""

    manifest: Manifest
    cell: CellResult

    @property
    def looks(self) -> LookPlan:
        return LookPlan(**self.manifest.looks.model_dump())

    def asked(self, client: ClientSpec) -> Cell:
        """The cell to run again, with that client. Raises ValueError where the bundle does not describe a valid cell."""
        cell = self.cell
        return Cell(client=client, topology=cell.topology, transfer=cell.transfer, expectation=cell.expectation)


def whole_plan(cell: CellResult) -> LookPlan:
    """The default plan of the cell's clock."""
    return VIRTUAL_PLAN if cell.clock == "virtual" else LookPlan()


def plan_of(cell: CellResult) -> LookPlan:
    """The looks of the run, as far as the cell records them.

    A result of schema 1.0 keeps only the looks that were taken. There an INCONCLUSIVE verdict shows where the plan ended. With
    any other verdict the plan does not matter: the default plan gives the same verdict.
    """
    taken, alpha = tuple(cell.verdict.looks), cell.verdict.alpha_per_look
    if cell.plan:
        return LookPlan(looks=tuple(cell.plan), alpha_per_look=whole_plan(cell).alpha_per_look if alpha is None else alpha)
    if cell.verdict.name == "INCONCLUSIVE" and taken and alpha is not None:
        return LookPlan(looks=taken, alpha_per_look=alpha)
    return LookPlan()


def write_bundle(path: Path, run: RunDir, cell_id: str, sshd: SshdSettings) -> Manifest:
    """Pack a cell of `run` with its captures, read the bundle back, and rename it into place.

    Raises UsageProblem for a cell that is missing or cannot be read and for a place that cannot be written to.
    """
    if path.is_dir():
        raise UsageProblem(f"{path} is a folder", remedy="give the name of a file with -o")
    file = run.cell_path(cell_id)
    cell = read_cell(file)
    evidence = run.path / "evidence" / file.stem
    pcaps = [each for kind in ("*.pcap", "*.keys") for each in sorted(evidence.glob(kind)) if each.is_file()]
    writing = write_faults(path, "the bundle", remedy="give another place with -o", fault=UsageProblem)
    try:
        with writing, replacing(path) as temporary:
            with zipfile.ZipFile(temporary, "x", zipfile.ZIP_DEFLATED) as archive:
                members = [_add(archive, CELL, file), *(_add(archive, f"pcap/{each.name}", each) for each in pcaps)]
                manifest = Manifest(
                    lab_version=lab.__version__,
                    cell=cell.id,
                    run=cell.run,
                    clock=cell.clock,
                    looks=Looks(**asdict(plan_of(cell))),
                    sshd=sshd,
                    members=members,
                )
                archive.writestr(_info(MANIFEST), manifest.model_dump_json(indent=1))
            _check_cell(Bundle(manifest, cell), str(file))
            if not _reads_back(temporary, Bundle(manifest, cell)):
                raise LabFault(f"{path}: the bundle read back from disk differs", remedy="check the disk, else report it: a bug")
    except ValidationError as error:
        raise UsageProblem(f"{path}: the cell cannot be packed, {first_problem(error)}") from None
    return manifest


def read_bundle(path: Path) -> Bundle:
    """Read a bundle; every member is checked against the manifest, and the cell for whether it can run here.

    Raises UsageProblem, one line.
    """
    try:
        if path.exists() and not path.is_file():
            raise UsageProblem(f"{path}: not a file", remedy=_NOT_ONE)
        with zipfile.ZipFile(path) as archive:
            return _read(archive, str(path))
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror or _one_line(error)}", remedy=_NOT_ONE) from None
    except _BROKEN as error:
        raise UsageProblem(f"{path}: damaged, or no bundle: {_one_line(error)}", remedy=_NOT_ONE) from None


def again(cell: CellResult) -> str:
    """The shell command that repeats the cell as it was run."""
    client = _client_words(cell.client)
    place = _place_words(cell)
    variables = [word for name, value in cell.client.variables.items() for word in ("--env", f"{name}={value}")]
    if _named(cell):
        capture = ["--pcap"] if any(sample.pcap for sample in cell.samples) else []
        capture += ["--why"] if any(sample.why for sample in cell.samples) else []
        cap = plan_of(cell).cap
        fewer = ["--max-samples", str(cap)] if cap != whole_plan(cell).cap else []
        return shlex.join(["lab", "run", *client, cell.id, *place, *variables, *capture, *fewer])
    pack = ["lab", "bundle", cell.id, "--run", cell.run]
    # In virtual time `lab rerun` takes the bundle's own.
    given = [] if cell.clock == "virtual" else variables
    return f"{shlex.join(pack)} && {shlex.join(['lab', 'rerun', bundle_name(cell.id), *client, *place, *given])}"


def _place_words(cell: CellResult) -> list[str]:
    """Options for clock and backend; in virtual time also the guest's seed and price."""
    if cell.clock == "virtual":
        guest = cell.virtual
        seed = ["--seed", str(guest.session_seed)] if guest and guest.session_seed is not None else []
        price = ["--price", f"{guest.charge_ns}ns"] if guest and guest.charge_ns != CHARGE_NS else []
        asked = asked_userlands(cell)._asdict()
        userlands = [word for host, name in asked.items() if name for word in ("--userland", f"{host}={name}")]
        return ["--clock", "virtual", *seed, *price, *userlands]
    if cell.topology.same_host:
        return ["--clock", "real"]
    place = ["--router", str(cell.router.get("kind", "auto"))]
    return [*place, "--backend", cell.backend] if cell.backend != "namespaces" else place


def asked_userlands(cell: CellResult) -> Userlands:
    """The userlands that a command line has to name again: neither client, topology nor HTTP/3 implies them."""
    named = cell.topology.userlands or TopologyUserlands()
    implied: dict[str, tuple[str, ...]] = {
        "client": (named.client, release_of(cell.client.name.partition("@")[2])),
        "server": (named.server, H3_SERVER if cell.transfer.protocol == "h3" else ""),
    }
    if cell.topology.served_by:
        implied["server"] = tuple(facts.name for host, facts in cell.userlands.items() if host == "server")
    # Nodes of a path have userlands of the lab's choice.
    named_hosts = ((host, facts.name) for host, facts in cell.userlands.items() if host in HOSTS)
    return Userlands(**{host: name for host, name in named_hosts if name not in implied[host]})


def _client_words(client: ClientIdentity) -> list[str]:
    """Options for the same client. An older result does not record what the user gave: then the path."""
    if client.program == client.name:
        return []
    if PurePath(client.program).suffix in YAML_SUFFIXES:
        return ["--client", client.program]
    return ["--client", f"{client.name}={client.program or client.path}"]


def bundle_name(cell_id: str) -> str:
    """The default name of a cell's bundle."""
    return f"{cell_id}.zip"


def _named(cell: CellResult) -> bool:
    """True if `lab run ID` makes the same cell: network, transfer, expectation and looks."""
    try:
        _, name, transfer, kind = parse_cell_name(cell.id)
        known = load_topology(name).in_virtual_time() if cell.clock == "virtual" else load_topology(name)
    except UsageProblem:
        return False
    plan, whole = plan_of(cell), whole_plan(cell)
    looks = plan == replace(whole, looks=whole.looks[: len(plan.looks)])
    network = all(
        getattr(known, part) == getattr(cell.topology, part) for part in Topology.model_fields if part not in _FOR_PEOPLE
    )
    return looks and network and transfer == cell.transfer and cell.expectation == Expectation.of(transfer, kind=kind)


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _NO_TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system, info.external_attr = 3, 0o644 << 16
    return info


def _add(archive: zipfile.ZipFile, name: str, file: Path) -> Member:
    """Add a file; the digest is of the bytes that were packed."""
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as source, archive.open(_info(name), "w", force_zip64=True) as member:
        while chunk := source.read(_CHUNK):
            member.write(chunk)
            digest.update(chunk)
            size += len(chunk)
    return Member(name=name, bytes=size, sha256=digest.hexdigest())


def _read(archive: zipfile.ZipFile, origin: str) -> Bundle:
    infos = {info.filename: info for info in archive.infolist()}
    if MANIFEST not in infos:
        raise UsageProblem(f"{origin}: no bundle, it holds no {MANIFEST}", remedy=_NOT_ONE)
    where = f"{origin}: {MANIFEST}"
    document = parse_json(_content(archive, infos[MANIFEST], origin), where, remedy=_NOT_ONE)
    manifest = _valid(checked_version(document, BUNDLE_VERSION, where, remedy=_NOT_ONE), Manifest, where)
    names = [MANIFEST, *(member.name for member in manifest.members)]
    if sorted(names) != sorted(info.filename for info in archive.infolist()) or CELL not in names:
        raise UsageProblem(f"{origin}: damaged or changed, its files are not those of its manifest", remedy="get it again")
    for member in manifest.members:
        _check(archive, infos[member.name], member, origin)
    where = f"{origin}: {CELL}"
    document = parse_json(_content(archive, infos[CELL], origin), where, remedy=_NOT_ONE)
    bundle = Bundle(manifest, _valid(upgrade(document, "cell", where), CellResult, where))
    _check_cell(bundle, origin)
    return bundle


def _check_cell(bundle: Bundle, origin: str) -> None:
    """Check that manifest and cell agree, and that the cell can run."""
    cell = bundle.cell
    try:
        described = bundle.asked(ClientSpec(name=cell.client.name)).id
        _ = bundle.looks
    except ValueError as error:
        raise UsageProblem(f"{origin}: its cell cannot be run: {first_problem(error)}", remedy=_NOT_ONE) from None
    if bundle.manifest.clock != cell.clock:
        raise UsageProblem(f"{origin}: its manifest says {bundle.manifest.clock} time, its cell {cell.clock}", remedy=_NOT_ONE)
    if not described == cell.id == bundle.manifest.cell:
        raise UsageProblem(f"{origin}: it is called {bundle.manifest.cell} and describes {described}", remedy=_NOT_ONE)


def _reads_back(path: Path, bundle: Bundle) -> bool:
    try:
        return read_bundle(path) == bundle
    except UsageProblem:
        return False


def _check(archive: zipfile.ZipFile, info: zipfile.ZipInfo, member: Member, origin: str) -> None:
    if info.file_size == member.bytes:
        digest = hashlib.sha256()
        with _open(archive, info, origin) as source:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
        if digest.hexdigest() == member.sha256:
            return
    raise UsageProblem(
        f"{origin}: {member.name} was changed: its SHA-256 is not the one in the manifest", remedy="get the bundle again"
    )


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, origin: str) -> bytes:
    if info.file_size > _MOST_BYTES[info.filename]:
        raise UsageProblem(f"{origin}: {info.filename} claims {info.file_size} bytes, more than a bundle has", remedy=_NOT_ONE)
    with _open(archive, info, origin) as source:
        return source.read()


def _open(archive: zipfile.ZipFile, info: zipfile.ZipInfo, origin: str) -> IO[bytes]:
    if info.compress_type not in _METHODS or info.flag_bits & 1:
        raise UsageProblem(f"{origin}: {info.filename} is packed or encrypted as no bundle is", remedy=_NOT_ONE)
    return archive.open(info)


def _valid(document: dict[str, object], kind: type[Model], origin: str) -> Model:
    try:
        return validated(document, kind)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise UsageProblem(f"{origin}: {place}: {first_problem(error)}", remedy=_NOT_ONE) from None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
