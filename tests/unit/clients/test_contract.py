"""What every client adapter promises (`lab.clients.adapter.ClientAdapter`), as the same tests for each client that has a name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.clients.adapter import ClientAdapter, UnreadableReportError
from lab.clients.registry import adapter_for, list_clients
from lab.hosts.host import Completed
from lab.model.endpoint import LAB_PROTOCOLS, PROTOCOL_WORDS
from lab.model.endpoints import Endpoints
from lab.model.errors import UsageProblem
from lab.model.results import ClientNumbers
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size

CLIENTS = list_clients()
ENDS = Endpoints("192.0.2.7", "/s", "/c", "/c/ca.pem", "/c/.ssh/known_hosts", "/c/.ssh/key", ssh_port=2022)
ENDS = ENDS.for_sample("5MiB-of-it", "7-5MiB")
# Each alone and in pairs; what no transfer can have together is left out by the model itself.
OPTIONS: list[dict[str, Any]] = [
    {},
    {"limit": ByteRate(2_000_000)},
    {"chunked": True},
    {"sink": True},
    {"discard": True},
    {"buffer_size": Size(65536)},
    {"files": 3},
    {"files": 3, "parallel": 2},
    {"files": 3, "discard": True},
    {"files": 3, "repeat": True},
    {"discard": True, "no_file": True},
]


def transfers() -> Iterator[Transfer]:
    drawn = itertools.product(LAB_PROTOCOLS, ("get", "put"), OPTIONS, OPTIONS)
    for protocol, direction, one, other in drawn:
        try:
            yield Transfer.model_validate({"protocol": protocol, "direction": direction, "size": Size(5 << 20), **one, **other})
        except ValueError:
            continue
    for protocol, direction in itertools.product({*PROTOCOL_WORDS} - {*LAB_PROTOCOLS}, ("get", "put")):
        yield Transfer.model_validate({"protocol": protocol, "direction": direction, "size": Size(5 << 20)})


TRANSFERS = [each for each, _ in itertools.groupby(sorted(transfers(), key=repr))]
EACH_KIND = [
    each
    for each in TRANSFERS
    if each.protocol in ("http1", "h2", "sftp") and each.limit is None and not (each.sink or each.chunked or each.buffer_size)
]


@pytest.fixture(params=CLIENTS)
def adapter(request: pytest.FixtureRequest) -> ClientAdapter:
    return adapter_for(request.param)


def supported(adapter: ClientAdapter) -> list[Transfer]:
    return [each for each in TRANSFERS if not adapter.supports(each)]


class _Without:
    """A Linux host that has no such program, and takes what it is given."""

    name = "client"
    platform = "linux"
    workdir = Path("/c")

    def identify(self, program: str, *_: object, **__: object) -> Completed:
        return Completed((program,), 127, b"", b"", 1, 2, 0.0, 0.0)

    def copy(self, source: Path, path: str, mode: int = 0o644) -> None:
        pass


@pytest.fixture(scope="module", autouse=True)
def _all_built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No program is built for these tests: they ask which words a program would be given, and run none."""
    program = tmp_path_factory.mktemp("built") / "program"
    program.touch(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lab.clients.versions.program", lambda name: f"/built/{name}")
        patch.setattr("lab.clients.versions.lacks", lambda _: frozenset())
        patch.setattr("lab.clients.ferry.Ferry.source", lambda _: program)
        patch.setattr("lab.clients.ferry._speaks_http3", lambda _: True)
        yield


def test_there_are_many_transfers() -> None:
    assert len(TRANSFERS) > 100
    assert {each.protocol for each in TRANSFERS} == {*LAB_PROTOCOLS, *PROTOCOL_WORDS}


def test_it_has_the_name_that_it_was_asked_for_by(adapter: ClientAdapter, request: pytest.FixtureRequest) -> None:
    assert adapter.name == request.node.callspec.params["adapter"]


def test_it_does_something(adapter: ClientAdapter) -> None:
    assert supported(adapter)


def test_what_it_cannot_do_has_a_reason_of_one_line(adapter: ClientAdapter) -> None:
    for each in TRANSFERS:
        reason = adapter.supports(each)
        assert reason == reason.strip()
        assert "\n" not in reason
        assert not reason.endswith("."), "it is the end of a sentence of the lab's"


def test_its_command_is_words_and_the_same_each_time(adapter: ClientAdapter) -> None:
    for each in supported(adapter):
        words = adapter.command(each, ENDS)
        assert words
        assert all(isinstance(word, str) and "\0" not in word for word in words), words
        assert words[0]
        assert words == adapter.command(each, ENDS)


def test_no_placeholder_is_left(adapter: ClientAdapter) -> None:
    for each in supported(adapter):
        words = given_words(adapter, each).replace("%{", "")  # curl's own variables
        for name in ("url", "output", "source", "limit", "buffer", "parallel", "remote", "workdir"):
            assert f"{{{name}}}" not in words


def test_it_gets_the_places_of_the_server_and_the_content(adapter: ClientAdapter) -> None:
    """The lab's own servers only: an endpoint may give its place by variables."""
    for each in [wanted for wanted in supported(adapter) if wanted.protocol in LAB_PROTOCOLS]:
        words = given_words(adapter, each)
        assert ENDS.server in words, each
        assert (ENDS.upload_name if each.direction == "put" else ENDS.payload) in words, each
        if each.direction == "put":
            assert ENDS.source_path in words, each
        elif not each.discard:
            assert f"{ENDS.client_workdir}/out" in words, each


def test_a_limit_is_what_changes_its_command(adapter: ClientAdapter) -> None:
    for each in supported(adapter):
        if each.limit:
            free = given_words(adapter, each.model_copy(update={"limit": None}))
            slower = given_words(adapter, each.model_copy(update={"limit": ByteRate(1_000_000)}))
            assert len({given_words(adapter, each), free, slower}) == 3, each


def test_its_files_are_in_its_own_folder(adapter: ClientAdapter) -> None:
    for each in supported(adapter):
        for path, content in adapter.inputs(each, ENDS).items():
            assert path.startswith(f"{ENDS.client_workdir}/"), path
            assert isinstance(content, bytes)


def test_it_does_not_read_the_users_own_configuration(adapter: ClientAdapter) -> None:
    found = adapter.environment(ENDS)
    assert found["HOME"] == ENDS.client_workdir
    assert found["NO_PROXY"] == "*"
    assert not found["https_proxy"]


def test_a_host_without_the_program_is_the_users_problem(adapter: ClientAdapter) -> None:
    with pytest.raises(UsageProblem) as caught:
        adapter.identify(_Without())  # type: ignore[arg-type]
    assert caught.value.message.startswith(f"client {adapter.name}: ")
    assert caught.value.remedy


@pytest.mark.parametrize("name", CLIENTS)
@settings(max_examples=20)
@given(
    out=st.binary(max_size=200) | st.text(alphabet='0123456789.e-{}[]":, \n', max_size=200).map(str.encode),
    err=st.binary(max_size=200),
    code=st.integers(0, 255),
)
def test_a_report_is_read_or_refused_in_one_line(name: str, out: bytes, err: bytes, code: int) -> None:
    adapter = adapter_for(name)
    done = Completed(("client",), code, out, err, 1_000_000_000, 3_500_000_000, 0.0, 0.0)
    for each in EACH_KIND:
        if adapter.supports(each):
            continue
        numbers = read(adapter, each, done)
        if numbers is not None:
            assert adapter.body_start_s(each, numbers) >= 0
            seconds = adapter.body_seconds(each, numbers)
            assert seconds is None or seconds >= 0


def read(adapter: ClientAdapter, transfer: Transfer, done: Completed) -> ClientNumbers | None:
    """None where the report is refused in one line."""
    try:
        return adapter.parse(transfer, done)
    except UnreadableReportError as error:
        if "\n" in str(error):
            raise
        return None


def given_words(adapter: ClientAdapter, transfer: Transfer) -> str:
    """All that the program is given: its words, its files and its environment."""
    files = b"\n".join(adapter.inputs(transfer, ENDS).values()).decode()
    return "\n".join([*adapter.command(transfer, ENDS), files, *map(str, adapter.environment(ENDS).values())])
