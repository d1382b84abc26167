"""A cell in a file and back: intact, or refused in one line; and the command that repeats a cell names the same cell."""

from __future__ import annotations

import json
import os
import shlex
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from lab.cli import bundle as command
from lab.judge.decide import VIRTUAL_PLAN
from lab.judge.tolerance import LookPlan, with_invalid
from lab.model.cell import Cell
from lab.model.cell_name import format_cell_name
from lab.model.comparison import Comparison
from lab.model.diagnosis import Diagnosis
from lab.model.errors import EXIT_FAIL, EXIT_INVALID, EXIT_PASS, UsageProblem
from lab.model.load import load_topology
from lab.model.obeyed import EVERYWHERE
from lab.model.results import SCHEMA_VERSION, CellResult, Verdict
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import Ratio
from lab.run.named_cells import named_cells
from lab.run.session import Options, Session
from lab.servers.sshd import SshdOptions
from lab.store.bundle import CELL, MANIFEST, SshdSettings, again, plan_of, read_bundle, write_bundle
from lab.store.run_dir import RunDir, read_cell
from tests.support.virtual import GUEST, in_virtual_time
from tests.unit.obeyed.fields import Leaf, topology_leaves, topology_pair

MakeCell = Callable[..., CellResult]
SSHD = SshdSettings(max_sessions=7, ciphers="aes256-ctr")
OPEN = (0.06, 0.03, 0.055, 0.04, 0.05)


def changed(cell: CellResult, **update: object) -> CellResult:
    return CellResult.model_validate_json(cell.model_copy(update=update).model_dump_json())


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    return RunDir.create("cells")


@pytest.fixture
def pack(run: RunDir, tmp_path: Path) -> Callable[..., Path]:
    def make(cell: CellResult, **pcaps: bytes) -> Path:
        run.write_cell(cell)
        for name, content in pcaps.items():
            (run.evidence(cell.id) / f"{name}.pcap").write_bytes(content)
        write_bundle(tmp_path / "a.zip", run, cell.id, SSHD)
        return tmp_path / "a.zip"

    return make


def repacked(path: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """The same bundle with other members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(UsageProblem) as caught:
        read_bundle(path)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert len(text) < 500
    return text


def test_what_goes_in_comes_out(make_cell: MakeCell, pack: Callable[..., Path], tmp_path: Path) -> None:
    # As it is read: JSON has no tuples.
    cell = changed(make_cell())
    path = pack(cell, **{"sample-000": b"first", "sample-001": b"x" * 3_000_000})
    found = read_bundle(path)
    assert found.cell == cell
    assert (found.manifest.sshd, found.looks) == (SSHD, LookPlan())
    assert [member.name for member in found.manifest.members] == [CELL, "pcap/sample-000.pcap", "pcap/sample-001.pcap"]
    with zipfile.ZipFile(path) as archive:
        assert archive.read("pcap/sample-000.pcap") == b"first"
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_the_same_cell_gives_the_same_bytes(make_cell: MakeCell, pack: Callable[..., Path], run: RunDir) -> None:
    path = pack(make_cell(), **{"sample-000": b"first"})
    before = path.read_bytes()
    os.utime(run.cell_path(make_cell().id), (1, 1))
    write_bundle(path, run, make_cell().id, SSHD)
    assert path.read_bytes() == before


def edited(name: str, change: Callable[[Any], object]) -> Callable[[dict[str, bytes]], object]:
    def edit(members: dict[str, bytes]) -> None:
        document = json.loads(members[name])
        change(document)
        members[name] = json.dumps(document).encode()

    return edit


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (edited(CELL, lambda cell: cell["samples"][0].update(deviation=0.5)), "cell.json was changed"),
        (lambda members: members.update({"pcap/s.pcap": b"other"}), "pcap/s.pcap was changed"),
        (lambda members: members.update({"more": b""}), "its files are not those of its manifest"),
        (lambda members: members.pop("pcap/s.pcap"), "its files are not those of its manifest"),
        (lambda members: members.pop(MANIFEST), "holds no manifest.json"),
        (lambda members: members.update({MANIFEST: b"[" * 100_000}), "not JSON"),
        (lambda members: members.update({MANIFEST: b" " * 2_000_000}), "claims 2000000 bytes"),
        (edited(MANIFEST, lambda it: it.update(schema_version="2.0", news=1)), "schema 2.0 is newer than 1.2"),
        (edited(MANIFEST, lambda it: it.update(schema_version=[])), "it has no schema_version"),
        (edited(MANIFEST, lambda it: it.update(news=1)), "news: Extra inputs"),
        (edited(MANIFEST, lambda it: it["members"][0].update(name="../x")), "members.0.name"),
        (edited(MANIFEST, lambda it: it["sshd"].update(ciphers="a\nPermitRootLogin yes")), "sshd.ciphers"),
        (edited(MANIFEST, lambda it: it["looks"].update(looks=[5, 5])), "looks must rise"),
        (edited(MANIFEST, lambda it: it["looks"].update(looks=[5, 10**9])), "looks.looks.1"),
        (
            edited(MANIFEST, lambda it: it.update(cell="curl--dsl-50--http1-get-1MiB")),
            "and describes curl--dsl-50--http1-get-5MiB",
        ),
    ],
)
def test_a_changed_bundle_is_refused(make_cell: MakeCell, pack: Callable[..., Path], change: Any, said: str) -> None:
    path = pack(make_cell(), s=b"capture")
    assert read_bundle(repacked(path, lambda _: None))
    assert said in refusal(repacked(path, change))


def test_a_bundle_of_the_labs_former_name_opens_and_no_other_kind_does(make_cell: MakeCell, pack: Callable[..., Path]) -> None:
    path = pack(make_cell(), s=b"capture")
    today = read_bundle(path)
    former = read_bundle(repacked(path, edited(MANIFEST, lambda it: it.update(kind="throughline-bundle"))))
    assert former.manifest.kind == "throughline-bundle"
    assert (former.cell, former.manifest.members) == (today.cell, today.manifest.members)
    assert today.manifest.kind == "roughwater-bundle", "which is what the lab writes"
    for kind in ("throughline-study-data", "bundle", "", None):
        assert "kind: " in refusal(repacked(path, edited(MANIFEST, lambda it, kind=kind: it.update(kind=kind))))  # type: ignore[misc]


def test_a_newer_cell_is_reported_as_newer(
    make_cell: MakeCell, pack: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pack(make_cell())
    monkeypatch.setattr("lab.store.migrate.SCHEMA_VERSION", "0.9")
    assert f"cell.json: schema {SCHEMA_VERSION} is newer than 0.9" in refusal(path)


def test_a_cell_of_an_older_schema_is_read(stored_1_0: Path, tmp_path: Path) -> None:
    """A bundle holds the run's own file, so that one made by an older lab, or of an older result, stays a bundle."""
    run = RunDir.open(next(stored_1_0.glob("*-throttle-*")))
    file = next(iter(sorted(run.cells.iterdir())))
    write_bundle(tmp_path / "a.zip", run, read_cell(file).id, SSHD)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.read(CELL) == file.read_bytes()
    assert read_bundle(tmp_path / "a.zip").cell == read_cell(file)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip at all", b"{}"])
def test_a_file_that_is_not_a_bundle_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(content)
    assert "damaged, or no bundle" in refusal(path)
    assert "not a file" in refusal(tmp_path)
    assert "No such file" in refusal(tmp_path / "none.zip")
    assert "not a file" in refusal(Path("/dev/zero"))


@pytest.fixture
def whole(make_cell: MakeCell, pack: Callable[..., Path]) -> Path:
    return pack(make_cell(), s=b"capture")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_noticed_or_harmless(whole: Path, data: st.DataObject) -> None:
    content, known = whole.read_bytes(), read_bundle(whole)
    at = data.draw(st.integers(0, len(content) - 1))
    changed = content[:at] + bytes([data.draw(st.integers(0, 255))]) + content[at + 1 :]
    path = whole.with_name("damaged.zip")
    path.write_bytes(data.draw(st.sampled_from([content[:at], changed])))
    try:
        found = read_bundle(path)
    except UsageProblem as problem:
        found = None
        said = str(problem)
    assert found == known if found else len(said.splitlines()) == 1


def test_a_place_that_cannot_be_is_one_line_and_leaves_nothing(make_cell: MakeCell, run: RunDir, tmp_path: Path) -> None:
    cell = make_cell()
    run.write_cell(cell)
    for place, said in ((tmp_path, "is a folder"), (tmp_path / "none" / "a.zip", "No such file")):
        with pytest.raises(UsageProblem, match=said):
            write_bundle(place, run, cell.id, SSHD)
    wrong = make_cell(cell_id="curl--dsl-50--http1-get-9MiB")
    run.write_cell(wrong)
    with pytest.raises(UsageProblem, match="and describes"):
        write_bundle(tmp_path / "a.zip", run, wrong.id, SSHD)
    assert [each.name for each in tmp_path.iterdir()] == ["results"]


def test_the_plan_is_that_of_the_look_that_left_it_open(make_cell: MakeCell) -> None:
    assert plan_of(make_cell()) == LookPlan()
    left = make_cell(OPEN)
    assert left.verdict.name == "INCONCLUSIVE"
    assert plan_of(left) == LookPlan(looks=(5,))
    assert plan_of(make_cell(())) == LookPlan(), "no look was taken at all"


def test_a_plan_that_was_written_down_is_the_plan(make_cell: MakeCell) -> None:
    reached = make_cell().model_copy(update={"plan": [5, 10]})
    assert reached.verdict.name == "PASS"
    assert plan_of(reached) == LookPlan(looks=(5, 10))
    spoilt = make_cell((), verdict=Verdict(name="INVALID", reason="-")).model_copy(update={"plan": [5]})
    assert plan_of(spoilt) == LookPlan(looks=(5,))


def described(make_cell: MakeCell, text: dict[str, object], *, topology: str = "dsl-20", **more: object) -> CellResult:
    """A cell of the project's own network, promised what `lab run` promises it."""
    transfer = Transfer.model_validate(text)
    kind = "limit" if transfer.limit else "steady" if transfer.files >= 200 else "none"
    cell = make_cell(OPEN).model_copy(
        update={
            "id": format_cell_name("curl", topology, transfer),
            "topology": load_topology(topology),
            "transfer": transfer,
            "expectation": Expectation(kind=kind),
        }
    )
    return changed(cell, **more)


def options(words: list[str]) -> dict[str, str]:
    return {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--")}


@pytest.mark.parametrize(
    "text",
    [
        {"protocol": "http1", "direction": "get", "size": "5 MiB", "limit": "8 Mbit/s"},
        {"protocol": "h2", "direction": "put", "size": "1999999 B", "limit": "1 MB/s", "sink": True},
        {"protocol": "https1", "direction": "get", "size": "7 MiB", "limit": "3 KiB/s", "chunked": True},
        {"protocol": "sftp", "direction": "put", "size": "100 MB"},
        {"protocol": "sftp", "direction": "get", "size": "20 kB", "files": 1000},
        {"protocol": "sftp", "direction": "get", "size": "20 kB", "files": 3},
    ],
)
def test_the_command_makes_the_same_cell(make_cell: MakeCell, run: RunDir, text: dict[str, object]) -> None:
    cell = described(make_cell, text)
    words = shlex.split(again(cell))
    assert words[:2] == ["lab", "run"]
    assert options(words) == {"--client": "curl=/usr/bin/curl", "--router": "uml", "--max-samples": "5"}
    (made,) = named_cells([words[4]], [words[3]])
    assert (made.id, made.transfer, made.expectation) == (cell.id, cell.transfer, cell.expectation)
    assert made.topology == cell.topology
    assert made.client == ClientSpec(name="curl", program="/usr/bin/curl")


def test_the_place_and_the_captures_are_repeated(make_cell: MakeCell) -> None:
    text = {"protocol": "http1", "direction": "get", "size": "5 MiB", "limit": "8 Mbit/s"}
    cell = described(make_cell, text, backend="compose", router={"kind": "kernel"})
    assert again(cell).endswith("--router kernel --backend compose --max-samples 5")
    samples = [each.model_copy(update={"pcap": "sample-000.pcap"}) for each in cell.samples]
    assert "--pcap" in again(changed(cell, samples=samples))
    failed = described(make_cell, text, verdict=make_cell(problem="gone").verdict)
    assert "--max-samples" not in again(failed)


@pytest.mark.parametrize(
    ("name", "program", "words"),
    [
        ("ferry", "ferry", ""),
        ("ferry-2", "/opt/ferry", "--client ferry-2=/opt/ferry "),
        ("curl@8.4.0", "curl@8.4.0", ""),
        ("curl-8.4", "/opt/my curl/curl", "--client 'curl-8.4=/opt/my curl/curl' "),
        ("axel", "/home/me/axel.yaml", "--client /home/me/axel.yaml "),
        ("old", "", "--client old=/usr/bin/curl "),
    ],
)
def test_where_the_client_was(make_cell: MakeCell, name: str, program: str, words: str) -> None:
    cell = described(make_cell, {"protocol": "http1", "direction": "get", "size": "5 MiB"})
    cell_id = cell.id.replace("curl", name, 1)
    cell = changed(cell, id=cell_id, client=cell.client.model_copy(update={"name": name, "program": program}))
    assert again(cell) == f"lab run {words}{cell_id} --router uml --max-samples 5"


def test_one_host_has_no_router_to_name(make_cell: MakeCell) -> None:
    cell = described(make_cell, {"protocol": "http1", "direction": "get", "size": "5 MiB"})
    name = cell.id.replace("dsl-20", "same-host")
    alone = changed(cell, id=name, topology=load_topology("same-host"), router={"kind": "none"})
    assert again(alone) == f"lab run --client curl=/usr/bin/curl {name} --clock real --max-samples 5"


def test_an_unshaped_link_and_another_price_in_virtual_time_are_named(make_cell: MakeCell) -> None:
    cell = described(make_cell, {"protocol": "http1", "direction": "get", "size": "5 MiB", "limit": "8 Mbit/s"})
    name = cell.id.replace("dsl-20", "link-local")
    judged = cell.verdict.model_copy(update={"alpha_per_look": VIRTUAL_PLAN.alpha_per_look})
    wire, looks = load_topology("link-local").in_virtual_time(), list(VIRTUAL_PLAN.looks)
    wired = in_virtual_time(changed(cell, id=name, topology=wire, plan=looks, verdict=judged))
    assert again(wired).startswith(f"lab run --client curl=/usr/bin/curl {name} --clock virtual")
    dear = changed(wired, virtual=GUEST.model_copy(update={"session_seed": 4, "charge_ns": 10_000}))
    assert "--seed 4 --price 10000ns" in again(dear)


@pytest.mark.parametrize("what", ["link", "schedule", "network", "tolerance", "promise", "looks"])
def test_a_cell_whose_name_does_not_say_everything_is_repeated_from_a_bundle(make_cell: MakeCell, what: str) -> None:
    cell = described(make_cell, {"protocol": "http1", "direction": "get", "size": "5 MiB", "limit": "8 Mbit/s"})
    other = load_topology("dsl-50")
    update: dict[str, dict[str, object]] = {
        "link": {"topology": cell.topology.model_copy(update={"link": other.link})},
        "schedule": {"topology": cell.topology.model_copy(update={"schedule": load_topology("4g-good").schedule})},
        "network": {"topology": cell.topology.model_copy(update={"name": "mine"}), "id": cell.id.replace("dsl-20", "mine")},
        "tolerance": {"expectation": Expectation(kind="limit", tolerance=Ratio(0.02))},
        "promise": {"expectation": Expectation(kind="none")},
        "looks": {"verdict": cell.verdict.model_copy(update={"alpha_per_look": 0.05})},
    }
    cell = changed(cell, **update[what])
    place = "--client curl=/usr/bin/curl --router uml"
    assert again(cell) == f"lab bundle {cell.id} --run {cell.run} && lab rerun {cell.id}.zip {place}"


LEAVES = [leaf for leaf in topology_leaves() if leaf.path not in EVERYWHERE["Topology"]]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: f"{leaf.path}-{leaf.model}")
def test_a_network_that_is_another_today_in_any_field_is_repeated_from_a_bundle(
    make_cell: MakeCell, leaf: Leaf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lab run` would take today's file of that name."""
    monkeypatch.setenv("ROUGHWATER_TOPOLOGIES", str(tmp_path))
    pair = topology_pair(leaf)
    (tmp_path / "net.yaml").write_text(json.dumps(pair.without))
    cell = described(make_cell, {"protocol": "http1", "direction": "get", "size": "5 MiB"}, topology="net")
    assert again(cell).startswith("lab run")
    then = Topology.model_validate({**pair.given, "name": "net"})
    assert again(changed(cell, topology=then)).startswith("lab run" if leaf.path in ("name", "description") else "lab bundle")


@pytest.mark.parametrize("clock", ["virtual", "real"])
@pytest.mark.parametrize("named", [True, False])
def test_the_variables_of_the_client_are_given_again(make_cell: MakeCell, clock: str, named: bool) -> None:
    cell = described(make_cell, {"protocol": "http1", "direction": "get", "size": "5 MiB", "limit": "8 Mbit/s"})
    cell = changed(cell, client=cell.client.model_copy(update={"variables": {"MINE": "a b"}}))
    if clock == "virtual":
        judged = cell.verdict.model_copy(update={"alpha_per_look": VIRTUAL_PLAN.alpha_per_look})
        cell = in_virtual_time(changed(cell, plan=list(VIRTUAL_PLAN.looks), verdict=judged))
    words = shlex.split(again(cell if named else changed(cell, expectation=Expectation(kind="none"))))
    assert words[:2] == ["lab", "run" if named else "bundle"]
    # `lab rerun` takes them from the bundle in virtual time.
    assert ("--env" in words and "MINE=a b" in words) == (named or clock == "real")


def test_a_bundle_brings_its_variables_in_virtual_time_alone(make_cell: MakeCell, pack: Callable[..., Path]) -> None:
    """A variable may name a program to run, and a bundle may come from a stranger."""
    cell = make_cell()
    cell = changed(cell, client=cell.client.model_copy(update={"variables": {"RSYNC_RSH": "theirs", "MINE": "1"}}))
    auto = Options(clock="auto")
    virtual = read_bundle(pack(in_virtual_time(cell)))
    assert command.repeating(virtual, auto, None).variables == {"RSYNC_RSH": "theirs", "MINE": "1"}
    given = replace(auto, variables={"RSYNC_RSH": "mine"})
    assert command.repeating(virtual, given, None).variables == {"RSYNC_RSH": "mine", "MINE": "1"}
    real = read_bundle(pack(cell))
    with pytest.raises(UsageProblem, match="no variable comes from a bundle") as caught:
        command.repeating(real, given, None)
    assert caught.value.remedy == "give it again: --env MINE=VALUE"
    both = replace(auto, variables={"RSYNC_RSH": "mine", "MINE": "2"})
    assert command.repeating(real, both, None).variables == both.variables


def lab(*words: str | Path) -> Result:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, [str(word) for word in words])


def one_line(done: Result) -> str:
    assert isinstance(done.exception, UsageProblem), done.exception
    assert done.stdout == ""
    assert len(str(done.exception).splitlines()) == 1
    return str(done.exception)


def test_bundle_packs_a_cell_of_a_run(make_cell: MakeCell, run: RunDir, tmp_path: Path) -> None:
    cell = changed(make_cell())
    run.write_cell(cell)
    done = lab("bundle", cell.id)
    assert done.exit_code == 0, done.exception
    found = read_bundle(tmp_path / f"{cell.id}.zip")
    assert found.cell == cell
    assert found.manifest.sshd.max_sessions == SshdOptions().max_sessions
    assert "sha256" in done.stdout
    assert json.loads(lab("bundle", cell.id, "--run", run.name, "-o", "b.zip", "--json").stdout)["cell"] == cell.id
    assert "did you mean 'curl--dsl-50" in one_line(lab("bundle", cell.id + "0"))
    assert "it has curl--dsl-50" in one_line(lab("bundle", "x" * 5000))
    assert "is not the folder of a run" in one_line(lab("bundle", cell.id, "--run", "none"))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Callable[[CellResult], list[Cell]]:
    """What the network here would make of any cell."""

    def give(result: CellResult) -> list[Cell]:
        asked: list[Cell] = []

        def run_again(cell: Cell, _: Options) -> tuple[CellResult, RunDir]:
            asked.append(cell)
            return result, RunDir.create("rerun")

        monkeypatch.setattr(command, "_run_again", run_again)
        return asked

    return give


def test_rerun_says_whether_they_agree(
    make_cell: MakeCell, pack: Callable[..., Path], here: Callable[[CellResult], list[Cell]]
) -> None:
    cell = make_cell()
    path = pack(cell)
    asked = here(changed(cell, client=cell.client.model_copy(update={"version": "8.4.0"}), backend="compose"))
    done = lab("rerun", path, "--client", "curl=/opt/curl")
    assert done.exit_code == EXIT_PASS, done.exception
    assert asked == [read_bundle(path).asked(ClientSpec(name="curl", program="/opt/curl"))]
    last = done.stdout.splitlines()
    assert last[-1] == "do they agree? PASS"
    assert any(line.split() == ["curl:", "version", "7.88.1", "8.4.0"] for line in last)
    assert any(line.split() == ["backend", "namespaces", "compose"] for line in last)
    assert sum(line.startswith(("A, the bundle: PASS: mean", "B, here: PASS: mean")) for line in last) == 2
    here(make_cell((0.08, 0.081, 0.079, 0.08, 0.08)))
    done = lab("rerun", path, "--json")
    found = Comparison.model_validate_json(done.stdout)
    assert done.exit_code == found.exit_code == EXIT_FAIL
    assert (found.a.path, *(arm.verdict for arm in found.answers[0].arms)) == (str(path), "PASS", "FAIL")
    here(changed(cell, verdict=with_invalid(cell.verdict, ["no link"])))
    assert lab("rerun", path).exit_code == EXIT_INVALID


def test_a_transfer_that_fails_here_as_there_agrees(make_cell: MakeCell) -> None:
    one, other = make_cell((), problem="exit code 18: 5 bytes short"), make_cell((0.001,), problem="exit code 18: 7 bytes short")
    row = command.agreement(one, other, 0.01)
    assert row.verdict.name == "PASS"
    assert "5 bytes short" in row.verdict.reason
    assert "7 bytes short" in row.verdict.reason
    samples = [each.model_copy(update={"exit_code": 28}) if not each.ok else each for each in other.samples]
    row = command.agreement(one, changed(other, samples=samples), 0.01)
    assert row.verdict.name == "INCONCLUSIVE"
    assert "not alike" in row.verdict.reason
    assert command.agreement(one, make_cell(), 0.01).verdict.name == "FAIL"
    spoilt = changed(other, verdict=with_invalid(other.verdict, ["no link"]))
    assert command.agreement(one, spoilt, 0.01).verdict.name == "INVALID"


def test_rerun_refuses_in_one_line(make_cell: MakeCell, pack: Callable[..., Path], here: Callable[..., list[Cell]]) -> None:
    path = pack(make_cell())
    asked = here(make_cell())
    assert "the bundle's client is curl, not ferry" in one_line(lab("rerun", path, "--client", "ferry"))
    assert "needs both" in one_line(lab("rerun", path, "--client", "curl="))
    assert "is not a tolerance" in one_line(lab("rerun", path, "--within", "100%"))
    odd = make_cell(cell_id="curlew--dsl-50--http1-get-5MiB-at-1MBps")
    odd = changed(odd, client=odd.client.model_copy(update={"name": "curlew"}))
    assert "unknown client 'curlew'" in one_line(lab("rerun", pack(odd)))
    repacked(path, edited(CELL, lambda cell: cell["samples"].pop()))
    assert "cell.json was changed" in one_line(lab("rerun", path))
    assert asked == []


def test_a_rerun_that_cannot_start_leaves_no_run(
    make_cell: MakeCell, pack: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_client(session: Any, cell: Cell) -> None:
        assert (session.options.looks, session.options.sshd.max_sessions) == (LookPlan(), 7)
        raise UsageProblem("client curl: there is none")

    monkeypatch.setattr(Session, "run_cell", no_client)
    assert "there is none" in one_line(lab("rerun", pack(make_cell())))
    assert [each.name for each in (tmp_path / "results").iterdir() if "rerun" in each.name] == []


def test_a_bundle_is_repeated_by_its_own_clock_and_seed(make_cell: MakeCell, pack: Callable[..., Path]) -> None:
    auto = Options(clock="auto")
    real = read_bundle(pack(make_cell()))
    assert command.repeating(real, auto, None).clock == "real"
    guest = GUEST.model_copy(update={"session_seed": 9})
    virtual = read_bundle(pack(in_virtual_time(make_cell(), virtual=guest)))
    repeated = command.repeating(virtual, auto, None)
    assert (repeated.clock, repeated.seed, repeated.machine_seed) == ("virtual", 9, None)
    assert repeated.virtual_looks == virtual.looks
    assert command.repeating(virtual, replace(auto, seed=3), 3).seed == 3, "another seed was asked for"
    assert command.repeating(virtual, replace(auto, clock="real"), None).clock == "real"
    dear = read_bundle(pack(in_virtual_time(make_cell(), virtual=guest.model_copy(update={"charge_ns": 10_000}))))
    assert (repeated.charge_ns, command.repeating(dear, auto, 3).charge_ns) == (200, 10_000)
    assert (repeated.pcap, repeated.why) == (False, False)
    cell = in_virtual_time(make_cell(), virtual=guest)
    cause = Diagnosis(cause="line", share=0.9, sentence="limited by the line")
    seen = [sample.model_copy(update={"pcap": f"sample-{sample.index:03d}.pcap", "why": cause}) for sample in cell.samples]
    captures = {f"sample-{sample.index:03d}": b"x" for sample in seen}
    watched = command.repeating(read_bundle(pack(cell.model_copy(update={"samples": seen}), **captures)), auto, None)
    assert (watched.pcap, watched.why) == (True, True)
    unknown = GUEST.model_copy(update={"session_seed": None})
    older = read_bundle(pack(in_virtual_time(make_cell(), virtual=unknown)))
    assert command.repeating(older, auto, None).machine_seed == GUEST.seed


def test_the_same_result_in_virtual_time_is_agreement_whatever_it_says(make_cell: MakeCell) -> None:
    there = in_virtual_time(make_cell((0.049, 0.02, 0.09, 0.07, 0.01)))
    row = command.agreement(there, changed(there, run="another"), 0.01)
    assert (row.verdict.name, row.verdict.reason) == ("PASS", command.EXACT)
    samples = [there.samples[0].model_copy(update={"wall_s": 1.0}), *there.samples[1:]]
    assert "$.samples[0].wall_s" in command.exactness(there, changed(there, samples=samples))


def test_where_two_results_differ_the_parts_that_count_and_differ_are_named(make_cell: MakeCell) -> None:
    guest = GUEST.model_copy(update={"counts": {"seed": "1"}})
    there = in_virtual_time(make_cell((0.049, 0.02, 0.09, 0.07, 0.01)), virtual=guest)
    samples = [there.samples[0].model_copy(update={"wall_s": 1.0}), *there.samples[1:]]
    other = GUEST.model_copy(update={"counts": {"seed": "1", "client's libraries": "x", "Python": "y"}})
    said = command.exactness(there, changed(there, samples=samples, virtual=other))
    assert said.endswith("; of what counts, B has another client's libraries, another Python")
    assert command.exactness(there, changed(there, virtual=other)) == command.EXACT, "nothing follows from them here"
