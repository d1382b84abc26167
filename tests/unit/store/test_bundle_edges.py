"""What a bundle may hold at its limits, what its plan and its command are in every case, and what is refused in which words."""

from __future__ import annotations

import json
import shlex
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.model.diagnosis import Diagnosis
from lab.model.errors import LabFault, UsageProblem
from lab.model.results import CellResult
from lab.model.transfer import Expectation, Transfer
from lab.model.userland import TopologyUserlands, UserlandFacts, Userlands
from lab.store import bundle
from lab.store.bundle import (
    CELL,
    MANIFEST,
    Looks,
    Manifest,
    Member,
    SshdSettings,
    again,
    asked_userlands,
    bundle_name,
    plan_of,
    read_bundle,
    whole_plan,
    write_bundle,
)
from lab.store.run_dir import RunDir
from tests.support.virtual import GUEST, in_virtual_time
from tests.unit.store.conftest import make_cell

SSHD = SshdSettings(max_sessions=7, ciphers="aes256-ctr")
MEMBER: dict[str, Any] = {"name": "cell.json", "bytes": 0, "sha256": "0" * 64}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create("x", results=tmp_path / "results")


@pytest.fixture
def packed(run: RunDir, tmp_path: Path) -> Path:
    """A bundle with two captures; a folder of such a name is not packed."""
    cell = make_cell()
    run.write_cell(cell)
    for name in ("b.pcap", "a.pcap"):
        (run.evidence(cell.id) / name).write_bytes(name.encode())
    (run.evidence(cell.id) / "0.pcap").mkdir()
    write_bundle(tmp_path / "a.zip", run, cell.id, SSHD)
    return tmp_path / "a.zip"


def refusal(path: Path) -> str:
    with pytest.raises(UsageProblem) as caught:
        read_bundle(path)
    return str(caught.value).removeprefix(f"{path}: ")


def repacked(path: Path, change: Callable[[dict[str, bytes]], object], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def with_manifest(path: Path, **update: object) -> Path:
    def change(members: dict[str, bytes]) -> None:
        members[MANIFEST] = json.dumps({**json.loads(members[MANIFEST]), **update}).encode()

    return repacked(path, change)


# --- its form -----------------------------------------------------------------------------------------------------------------


def test_every_member_is_packed_the_same_way_whenever_and_wherever(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        infos = archive.infolist()
        text = archive.read(MANIFEST).decode()
    assert [info.filename for info in infos] == [CELL, "pcap/a.pcap", "pcap/b.pcap", MANIFEST]
    for info in infos:
        assert info.date_time == (1980, 1, 1, 0, 0, 0)
        assert (info.create_system, info.external_attr, info.compress_type) == (3, 0o644 << 16, 8)
    assert text.startswith('{\n "kind": "roughwater-bundle",\n "schema_version": "1.2",\n')


@pytest.mark.parametrize(
    ("kind", "words", "right", "wrong"),
    [
        (Member, MEMBER, {"bytes": 0}, {"bytes": -1}),
        (SshdSettings, {"max_sessions": 1, "ciphers": ""}, {"max_sessions": 0}, {"max_sessions": -1}),
        (Looks, {"looks": (5,), "alpha_per_look": 0.05}, {"looks": (5, 100)}, {"looks": (5, 101)}),
    ],
)
def test_a_figure_of_a_manifest_has_an_end(
    kind: Any, words: dict[str, Any], right: dict[str, Any], wrong: dict[str, Any]
) -> None:
    kind(**{**words, **right})
    with pytest.raises(ValidationError):
        kind(**{**words, **wrong})


def test_a_bundle_has_one_to_two_hundred_members() -> None:
    def make(count: int) -> Manifest:
        looks, members = Looks(looks=(5,), alpha_per_look=0.05), [Member(**MEMBER)] * count
        return Manifest(lab_version="1", cell="c", run="r", looks=looks, sshd=SSHD, members=members)

    assert (make(1).clock, len(make(200).members)) == ("real", 200)
    for count in (0, 201):
        with pytest.raises(ValidationError):
            make(count)


def test_old_clients_are_an_exception() -> None:
    assert not SSHD.old_clients


# --- what is refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "more"), [(2**20, ""), (2**20 + 1, "manifest.json claims 1048577 bytes, more than a bundle has")]
)
def test_a_manifest_has_at_most_a_mebibyte(packed: Path, size: int, more: str) -> None:
    path = repacked(packed, lambda members: members.update({MANIFEST: members[MANIFEST].ljust(size)}))
    assert refusal(path).startswith(more) if more else read_bundle(path)


@pytest.mark.parametrize(("size", "refused"), [(2**28, False), (2**28 + 1, True)])
def test_a_cell_claims_at_most_a_quarter_of_a_gibibyte(packed: Path, size: int, refused: bool) -> None:
    said = ""
    with zipfile.ZipFile(packed) as archive:
        info = archive.getinfo(CELL)
        info.file_size = size
        try:
            with suppress(zipfile.BadZipFile):
                bundle._content(archive, info, "x")
        except UsageProblem as problem:
            said = problem.message
    assert said == (f"x: cell.json claims {size} bytes, more than a bundle has" if refused else "")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_two_common_methods_are_read(packed: Path, method: int) -> None:
    assert read_bundle(repacked(packed, lambda _: None, method)).cell.id == make_cell().id


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_another_method_is_refused(packed: Path, method: int) -> None:
    assert refusal(repacked(packed, lambda _: None, method)).startswith("manifest.json is packed or encrypted as no bundle is")


def flagged(path: Path, bit: int) -> Path:
    """The bundle with this flag on every member, in its own header and in the list at the end."""
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := data.find(mark, at + 1)) >= 0:
            (flags,) = struct.unpack_from("<H", data, at + offset)
            struct.pack_into("<H", data, at + offset, flags | bit)
    path.write_bytes(data)
    return path


def test_a_member_that_says_it_is_encrypted_is_refused(packed: Path) -> None:
    assert refusal(flagged(packed, 1)).startswith("manifest.json is packed or encrypted as no bundle is")


def test_a_member_that_says_how_well_it_is_packed_is_read(packed: Path) -> None:
    assert read_bundle(flagged(packed, 2)).cell.id == make_cell().id


def test_a_bundle_without_a_cell_is_refused(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        members = json.loads(archive.read(MANIFEST))["members"]
    path = with_manifest(packed, members=[each for each in members if each["name"] != CELL])
    path = repacked(path, lambda held: held.pop(CELL))
    assert refusal(path) == "damaged or changed, its files are not those of its manifest (get it again)"


def test_manifest_and_cell_are_of_one_clock(packed: Path) -> None:
    said = refusal(with_manifest(packed, clock="virtual"))
    assert said.startswith("its manifest says virtual time, its cell real")


def test_of_several_faults_the_first_is_named(packed: Path) -> None:
    said = refusal(with_manifest(packed, cell=1, run=2, lab_version=3))
    assert said.startswith("manifest.json: lab_version: ")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (EOFError(), "damaged, or no bundle: EOFError "),
        (EOFError("x" * 201), f"damaged, or no bundle: {'x' * 200} "),
        (RuntimeError("a\n b"), "damaged, or no bundle: a b "),
        (OSError("the wind"), "the wind "),
        (OSError(5, "Input/output error"), "Input/output error "),
    ],
)
def test_whatever_reading_raises_is_one_line(packed: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(bundle, "_read", refuse)
    assert refusal(packed) == f"{said}(name a file that `lab bundle` made)"


# --- writing ------------------------------------------------------------------------------------------------------------------


def test_a_plan_that_no_bundle_may_have_is_not_packed(run: RunDir, tmp_path: Path) -> None:
    cell = make_cell().model_copy(update={"plan": [5, 101]})
    run.write_cell(cell)
    with pytest.raises(UsageProblem, match=r"a.zip: the cell cannot be packed, .*less than or equal to 100"):
        write_bundle(tmp_path / "a.zip", run, cell.id, SSHD)
    assert not (tmp_path / "a.zip").exists()


@pytest.mark.parametrize("back", [None, "another"])
def test_a_bundle_that_reads_back_as_another_is_not_kept(
    run: RunDir, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: str | None
) -> None:
    other = read_bundle(with_manifest(packed, lab_version="another"))

    def read(_: Path) -> bundle.Bundle:
        if back is None:
            raise UsageProblem("damaged")
        return other

    monkeypatch.setattr(bundle, "read_bundle", read)
    with pytest.raises(LabFault, match=r"b.zip: the bundle read back from disk differs"):
        write_bundle(tmp_path / "b.zip", run, make_cell().id, SSHD)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.zip", "results"]


# --- the plan -----------------------------------------------------------------------------------------------------------------


def planned(name: str, *, plan: list[int], looks: list[int], alpha: float | None, virtual: bool = False) -> LookPlan:
    cell = make_cell()
    verdict = cell.verdict.model_copy(update={"name": name, "looks": looks, "alpha_per_look": alpha})
    cell = cell.model_copy(update={"plan": plan, "verdict": verdict})
    return plan_of(in_virtual_time(cell) if virtual else cell)


def test_the_plan_of_a_cell_is_what_it_recorded() -> None:
    assert planned("PASS", plan=[3, 6], looks=[3], alpha=0.03) == LookPlan((3, 6), 0.03)
    assert planned("PASS", plan=[3, 6], looks=[3], alpha=None) == LookPlan((3, 6), LookPlan().alpha_per_look)
    assert planned("PASS", plan=[3], looks=[], alpha=None, virtual=True) == LookPlan((3,), VIRTUAL_PLAN.alpha_per_look)
    assert planned("INCONCLUSIVE", plan=[], looks=[3, 6], alpha=0.03) == LookPlan((3, 6), 0.03)
    assert planned("INCONCLUSIVE", plan=[], looks=[3, 6], alpha=None) == LookPlan()
    assert planned("INCONCLUSIVE", plan=[], looks=[], alpha=0.03) == LookPlan()
    assert planned("PASS", plan=[], looks=[3, 6], alpha=0.03) == LookPlan()


def test_each_clock_has_its_own_plan() -> None:
    assert whole_plan(make_cell()) == LookPlan()
    assert whole_plan(in_virtual_time(make_cell())) == VIRTUAL_PLAN


# --- the command --------------------------------------------------------------------------------------------------------------


def place(cell: CellResult) -> str:
    return shlex.join(bundle._place_words(cell))


def test_in_virtual_time_the_seed_and_another_price_are_named() -> None:
    cell = in_virtual_time(make_cell())
    assert place(cell) == "--clock virtual --seed 7"

    def of(**guest: object) -> str:
        return place(cell.model_copy(update={"virtual": GUEST.model_copy(update=guest)}))

    assert of(session_seed=0) == "--clock virtual --seed 0"
    assert of(session_seed=None) == "--clock virtual"
    assert of(session_seed=None, charge_ns=199) == "--clock virtual --price 199ns"
    assert place(cell.model_copy(update={"virtual": None})) == "--clock virtual"


def test_in_real_time_the_router_and_another_backend_are_named() -> None:
    cell = make_cell()
    assert place(cell) == "--router uml"
    assert place(cell.model_copy(update={"router": {}})) == "--router auto"
    assert place(cell.model_copy(update={"backend": "compose"})) == "--router uml --backend compose"


def userland(name: str) -> UserlandFacts:
    return UserlandFacts(name=name, distribution="", digest="0" * 64, packages={})


def test_a_userland_is_named_where_nothing_implies_it() -> None:
    def asked(own_client: str, own_server: str, *, name: str = "curl", protocol: str = "http1", **topology: str) -> Userlands:
        cell = make_cell()
        own = TopologyUserlands.model_validate(topology) if topology else None
        return asked_userlands(
            cell.model_copy(
                update={
                    "client": cell.client.model_copy(update={"name": name}),
                    "transfer": Transfer.model_validate({"protocol": protocol, "direction": "get", "size": "5 MiB"}),
                    "topology": cell.topology.model_copy(update={"userlands": own}),
                    "userlands": {"client": userland(own_client), "server": userland(own_server)},
                }
            )
        )

    assert asked("debian:12", "debian:13") == Userlands("debian:12", "debian:13")
    assert asked("debian:12", "debian:13", client="debian:12") == Userlands("", "debian:13")
    assert asked("debian:12", "debian:13", server="debian:13") == Userlands("debian:12", "")
    assert asked("debian:12", "debian:13", name="curl@debian12") == Userlands("", "debian:13")
    assert asked("debian:12", "debian:13", name="curl@debian11") == Userlands("debian:12", "debian:13")
    assert asked("debian:12", "debian:13", protocol="h3") == Userlands("debian:12", "")
    assert asked("debian:12", "debian:12", protocol="h3") == Userlands("debian:12", "debian:12")
    assert asked_userlands(make_cell()) == Userlands()


def test_asked_userlands_are_in_the_command() -> None:
    cell = in_virtual_time(make_cell()).model_copy(update={"userlands": {"server": userland("debian:12")}})
    assert place(cell) == "--clock virtual --seed 7 --userland server=debian:12"


def test_a_bundle_is_called_by_its_cell_and_packed_from_its_run() -> None:
    cell = make_cell().model_copy(update={"expectation": Expectation(kind="none")})
    words = "--client curl=/usr/bin/curl --router uml"
    assert again(cell) == f"lab bundle {cell.id} --run {cell.run} && lab rerun {bundle_name(cell.id)} {words}"
    assert bundle_name("a--b") == "a--b.zip"


def test_what_any_transfer_had_is_asked_for_again() -> None:
    cell = make_cell()
    words = f"lab run --client curl=/usr/bin/curl {cell.id} --router uml"
    assert again(cell) == words

    def with_one(**update: object) -> str:
        samples = [*cell.samples[:-1], cell.samples[-1].model_copy(update=update)]
        return again(cell.model_copy(update={"samples": samples}))

    assert with_one(pcap="sample-004.pcap") == f"{words} --pcap"
    assert with_one(why=Diagnosis.model_construct()) == f"{words} --why"
    assert again(cell.model_copy(update={"plan": [5, 10]})) == f"{words} --max-samples 10"
    whole = [*LookPlan().looks]
    assert again(cell.model_copy(update={"plan": whole})) == words
