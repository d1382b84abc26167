"""Machines compared by their digests, what a worker offers, and the words for a scheduler that is not there."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.assets import wine
from lab.model.errors import LabFault
from lab.model.transfer import ClientSpec
from lab.run.doctor import Check
from lab.run.workers import facts as module
from lab.run.workers import preload, serve
from lab.run.workers.cluster import Cluster, Listed, SchedulerLost, no_scheduler, quieten
from lab.run.workers.facts import Facts, against_this_machine, facts, first_difference
from lab.run.workers.serve import offers, threads

A, B = "a" * 64, "b" * 64
HERE = facts()


def machine(**more: Any) -> Facts:
    known = {"programs": {"nginx": A, "sshd": A}, "clients": {"curl": A}, "lab": A, "kernel": A}
    return HERE.model_copy(update={**known, **more})


# --- machines ---------------------------------------------------------------------------------------------------------


def test_machines_that_have_the_same_do_not_differ() -> None:
    assert first_difference({}) == first_difference({"a": machine()}) == ""
    other = machine(host="other", arch="riscv64", cores=99, instance="x", lab_version="0", lab=B, kernel=B)
    assert first_difference({"a": machine(), "b": other}) == "", "only programs and clients are compared here"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"programs": {"nginx": A, "sshd": B}}, f"b has another sshd than a: {'b' * 12}, not {'a' * 12}"),
        ({"programs": {"nginx": A}}, f"b has another sshd than a: none, not {'a' * 12}"),
        ({"programs": {"nginx": A, "sshd": A, "tc": A}}, f"b has another tc than a: {'a' * 12}, not none"),
        ({"clients": {"curl": "missing: no curl"}}, f"b has another client curl than a: missing: no curl, not {'a' * 12}"),
        ({"clients": {"curl": B}, "programs": {}}, f"b has another nginx than a: none, not {'a' * 12}"),
    ],
)
def test_the_first_difference_is_a_line_with_both_digests(change: dict[str, Any], line: str) -> None:
    assert first_difference({"b": machine(**change), "a": machine(), "c": machine()}) == line


def test_every_machine_is_compared_with_the_first_by_name() -> None:
    machines = {"c": machine(clients={"curl": B}), "a": machine(), "b": machine()}
    assert first_difference(machines).startswith("c has another client curl than a")
    machines["b"] = machine(programs={"nginx": B, "sshd": A})
    assert first_difference(machines).startswith("b has another nginx than a"), "programs come before clients"


def test_a_worker_has_this_machines_lab_and_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_sources", lambda: A)
    monkeypatch.setattr(module, "_kernel", lambda: A)
    assert against_this_machine("w", machine()) == ""
    assert (
        against_this_machine("w", machine(lab=B, kernel=B)) == f"w has another lab than this machine: {'b' * 12}, not {'a' * 12}"
    )
    words = f"w has another kernel of virtual time than this machine: none, not {'a' * 12}"
    assert against_this_machine("w", machine(kernel="")) == words


def test_a_worker_has_this_machines_description_of_a_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_sources", lambda: A)
    monkeypatch.setattr(module, "_kernel", lambda: A)
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nprogram: true\nprotocols: [http1]\nget: true {url}\n")
    mine, curl = ClientSpec.parse(str(file)), ClientSpec(name="curl")
    same = facts([mine, curl]).described
    assert same == {"mine": hashlib.sha256(file.read_bytes()).hexdigest(), "curl": ""}
    assert against_this_machine("w", machine(described=same), [mine, curl]) == ""
    words = f"w has another description of client mine than this machine: {'b' * 12}, not {same['mine'][:12]}"
    assert against_this_machine("w", machine(described={"mine": B}), [mine]) == words
    assert "none, not" in against_this_machine("w", machine(described={}), [mine])
    file.unlink()
    assert against_this_machine("w", machine(described={"mine": B}), [mine]) == "", "this machine runs nothing"


def test_facts_of_this_machine_are_of_its_programs_and_its_lab() -> None:
    assert (HERE.arch, HERE.clients, HERE.instance) == (platform.machine(), {}, module.INSTANCE)
    assert len(module.INSTANCE) == 32
    assert set(HERE.programs) == {
        "ethtool", "ip", "iperf3", "nginx", "ping", "python3", "sh", "ssh-keygen", "sshd", "tc",
    }  # fmt: skip
    assert HERE.lab == module._sources() != hashlib.sha256().hexdigest()
    assert HERE.cores == len(os.sched_getaffinity(0))


def test_what_a_machine_lacks_is_missing_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object) -> str:
        raise LabFault("no kernel")

    monkeypatch.setattr("lab.assets.kernel.facts", broken)
    assert module._kernel() == ""
    monkeypatch.setattr(module, "host_program", broken)
    assert module._program("nginx") == "missing: no kernel"
    monkeypatch.setattr(module, "host_program", lambda _: str(tmp_path / "gone"))
    assert module._program("nginx").startswith("missing: [Errno 2]")


def test_the_digest_of_a_program_is_of_its_bytes_and_its_libraries(tmp_path: Path) -> None:
    script, other = tmp_path / "script", tmp_path / "other"
    script.write_text("#!/bin/sh\n")
    other.write_text("#!/bin/sh\n# other\n")
    link = tmp_path / "link"
    link.symlink_to(script)
    plain = hashlib.sha256(script.read_bytes()).hexdigest()
    assert module._with_libraries([script]) == module._with_libraries([link]) == module._joined([plain])
    assert module._with_libraries([other]) != module._with_libraries([script])
    both = [plain, hashlib.sha256(other.read_bytes()).hexdigest()]
    assert module._with_libraries([script, other]) == module._joined(both)


def test_a_client_that_is_described_by_a_file_has_its_digest_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, described = tmp_path / "it", tmp_path / "it.yaml"
    program.write_text("#!/bin/sh\n")
    identity = SimpleNamespace(version="1", notes=["n"], sha256=A, path=str(program))
    monkeypatch.setattr(module, "resolve", lambda _: SimpleNamespace(identify=lambda _: identity))
    monkeypatch.setattr(module, "userland_of", lambda _: "")
    found = set()
    for text in ("one", "two"):
        described.write_text(text)
        found.add(module._client(ClientSpec(name="it", program=str(described))))
    found.add(module._client(ClientSpec(name="it", program=str(program))))
    identity.notes = []
    found.add(module._client(ClientSpec(name="it", program=str(program))))
    assert len(found) == 4
    identity.path = str(tmp_path / "gone")
    assert module._client(ClientSpec(name="it", program=str(program))).startswith("missing: ")


def test_a_windows_program_is_known_by_its_bytes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ferry.exe"
    program.write_bytes(b"MZ")
    digest = module._joined([hashlib.sha256(b"MZ").hexdigest()])
    assert module._client(ClientSpec(name="mine", program=str(program))) == digest
    monkeypatch.setattr("lab.clients.windows.find_ferry", lambda: program)
    assert module._client(ClientSpec(name="mine", program="ferry.exe")) == digest


# --- what a worker offers ---------------------------------------------------------------------------------------------


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> list[Check]:
    """The answer of the doctor about virtual time."""
    found = [Check("ok", "virtual", "boots")]
    monkeypatch.setattr(serve, "virtual", lambda: iter(found))
    monkeypatch.setattr(wine, "find_program", lambda: None)
    return found


ARCH = f"arch:{platform.machine()}"


def test_a_worker_offers_its_cores_one_turn_in_real_time_and_its_kind(
    virtual: list[Check], monkeypatch: pytest.MonkeyPatch
) -> None:
    del virtual
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 4, 6})
    assert offers() == ({"virtual": 3, "real": 1, ARCH: 4}, [])
    assert offers(cores=5, real=False, more=["gpu"]) == ({"virtual": 5, ARCH: 5, "gpu": 5}, [])
    assert offers(0) == ({"real": 1, ARCH: 1}, [])
    assert offers(0, real=False) == ({ARCH: 1}, [])
    monkeypatch.setattr(wine, "find_program", lambda: "wine")
    assert offers(0) == ({"real": 1, "windows": 1, ARCH: 1}, [])
    assert "windows" not in offers(0, real=False)[0]


def test_what_cannot_be_offered_is_a_line(virtual: list[Check]) -> None:
    virtual[:] = [Check("note", "virtual", "it does not boot", "another kernel")]
    assert offers(2) == ({"real": 1, ARCH: 1}, ["no virtual: it does not boot (another kernel)"])
    virtual[:] = [Check("note", "virtual", "it does not boot")]
    assert offers(2)[1] == ["no virtual: it does not boot"]


@pytest.mark.parametrize(
    ("offered", "count"), [({}, 1), ({"virtual": 3.0}, 3), ({"real": 1.0}, 1), ({"virtual": 2.0, "real": 1.0}, 3)]
)
def test_a_worker_has_a_thread_for_every_question_that_may_be_there(offered: dict[str, float], count: int) -> None:
    assert threads(offered) == count


def test_a_worker_of_dasks_own_offers_the_same(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(preload, "offers", lambda: ({"real": 1.0}, ["no virtual: it does not boot"]))
    state = SimpleNamespace(total_resources={"GPU": 2.0}, available_resources={"GPU": 1.0})
    with pytest.raises(StopIteration):
        preload.dask_setup(SimpleNamespace(state=state)).send(None)
    assert (state.total_resources, state.available_resources) == ({"GPU": 2.0, "real": 1.0}, {"GPU": 1.0, "real": 1.0})
    assert capsys.readouterr().err == "lab: no virtual: it does not boot\n"


# --- the scheduler ----------------------------------------------------------------------------------------------------


class Client:
    """Answers as Dask's."""

    def __init__(self, identity: Any, status: str = "running") -> None:
        self.identity, self.status = identity, status
        self.scheduler = SimpleNamespace(identity="identity")
        self.asked: list[Any] = []

    def sync(self, what: str, **_: object) -> Any:
        assert what == "identity"
        if isinstance(self.identity, Exception):
            raise self.identity
        return self.identity

    def run(self, *words: Any, **how: Any) -> Any:
        self.asked.append((words[1:], how))
        return {"tcp://a": HERE.model_dump(mode="json"), "tcp://b": {"lab": 1}, "tcp://c": ValueError("one\n two " + "x" * 200)}


def at(client: Client) -> Cluster:
    return Cluster(client, "tcp://10.0.0.1:8786")  # type: ignore[arg-type]


def test_workers_are_listed_with_what_they_do() -> None:
    worker = {"name": 7, "resources": {"real": 1}, "metrics": {"executing": 2}, "last_seen": "5.5"}
    idle = {"name": "b", "resources": {}, "metrics": {}, "last_seen": 1}
    found = at(Client({"workers": {"tcp://a": worker, "tcp://b": idle}, "services": {}})).look()
    assert found == {
        "tcp://a": Listed("tcp://a", "7", {"real": 1}, 2, 5.5),
        "tcp://b": Listed("tcp://b", "b", {}, 0, 1.0),
    }


def test_the_page_of_a_cluster_is_at_the_schedulers_host() -> None:
    assert at(Client({"workers": {}, "services": {"dashboard": 8787}})).dashboard == "http://10.0.0.1:8787/status"
    assert at(Client({"workers": {}, "services": {}})).dashboard == ""


@pytest.mark.parametrize("client", [Client({}, "closed"), Client(OSError("reset")), Client(TimeoutError())])
def test_a_scheduler_that_does_not_answer_is_lost(client: Client) -> None:
    with pytest.raises(SchedulerLost, match=r"^the scheduler at tcp://10\.0\.0\.1:8786 is gone"):
        at(client).look()


def test_a_probe_has_facts_or_a_line_for_every_worker() -> None:
    client = Client({})
    found = at(client).probe(["tcp://a", "tcp://b"], [ClientSpec(name="curl", program="/c")])
    assert client.asked == [(([("curl", "/c")],), {"workers": ["tcp://a", "tcp://b"], "on_error": "return"})]
    assert found == {
        "tcp://a": HERE,
        "tcp://b": "it has another version of the lab",
        "tcp://c": f"it has no lab that can be asked: ValueError: one two {'x' * 112}",
    }


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError("refused\nmore"), "refused"),
        (TimeoutError(), "TimeoutError"),
        (caused(RuntimeError("outer"), caused(RuntimeError("middle"), OSError("inner"))), "inner"),
        (caused(OSError("outer"), ValueError("inner")), "outer"),
        (RuntimeError("alone"), "alone"),
    ],
)
def test_an_address_that_cannot_be_used_has_dasks_first_reason(error: BaseException, why: str) -> None:
    found = no_scheduler("tcp://there", error)
    assert found.message == f"no Dask scheduler answers at tcp://there: {why}"
    assert found.remedy.startswith("start one: dask scheduler")


def test_dask_says_nothing_that_the_lab_says_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("distributed.test", "tornado.test", "other.test")
    for name in names:
        logging.getLogger(name).setLevel("INFO")
    monkeypatch.delenv("ROUGHWATER_DASK_LOG", raising=False)
    quieten()
    assert [logging.getLogger(name).level for name in names] == [logging.CRITICAL, logging.CRITICAL, logging.INFO]
    monkeypatch.setenv("ROUGHWATER_DASK_LOG", "DEBUG")
    quieten()
    assert logging.getLogger("distributed.test").level == logging.DEBUG
