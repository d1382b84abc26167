"""Which userlands a cell's hosts have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.assets.userlands import Userland
from lab.clients.registry import adapter_for, assert_speaks, assert_speaks_here, parse_client, userland_of
from lab.model.cell import Cell
from lab.model.cell_name import parse_cell_name
from lab.model.errors import NotSupported, UsageProblem
from lab.model.load import load_topology
from lab.model.results import ClientIdentity
from lab.model.topology import Topology
from lab.model.transfer import Expectation
from lab.model.userland import NO_USERLANDS, TopologyUserlands, UserlandFacts, Userlands
from lab.run.clocks import clock_for
from lab.run.options import Options
from lab.run.settings import choose
from lab.run.userlands import check_http3, http3_server, one_cell, userlands_for


def cell(name: str, topology: Topology | None = None) -> Cell:
    client, network, transfer, _ = parse_cell_name(name)
    expectation = Expectation.of(transfer)
    return Cell(
        client=parse_client(client), topology=topology or load_topology(network), transfer=transfer, expectation=expectation
    )


def of(cells: Sequence[str], asked: Userlands = NO_USERLANDS) -> Userlands:
    return userlands_for([cell(name) for name in cells], asked)


H1, H3 = "curl@debian13--dsl-20--http1-get-1MiB", "curl@debian13--dsl-20--h3-get-1MiB"


def test_a_cell_has_the_machines_programs_unless_it_says_otherwise() -> None:
    assert of(["curl--dsl-20--http1-get-1MiB"]) == NO_USERLANDS
    assert Options().userlands == NO_USERLANDS


def test_a_client_brings_its_userland_and_http3_a_servers() -> None:
    assert of([H1]) == Userlands(client="debian:13")
    assert of([H3]) == Userlands("debian:13", "debian:13")
    assert of([H3], Userlands(server="/srv/root")) == Userlands("debian:13", "/srv/root")
    assert of(["curl@debian12--dsl-20--http1-get-1MiB"]) == Userlands(client="debian:12")


def test_the_command_line_comes_before_the_topology() -> None:
    named = load_topology("dsl-20").model_copy(update={"userlands": TopologyUserlands(client="debian:12", server="/a")})
    client = parse_client("curl")
    assert one_cell(client, named, NO_USERLANDS, http3=False) == Userlands("debian:12", "/a")
    assert one_cell(client, named, Userlands(client="debian:13"), http3=True) == Userlands("debian:13", "/a")
    assert one_cell(None, named, NO_USERLANDS, http3=False) == Userlands("debian:12", "/a")


def test_a_client_whose_name_says_another_userland_is_refused() -> None:
    with pytest.raises(UsageProblem, match="curl@debian13 is of the userland debian:13"):
        of([H1], Userlands(client="debian:12"))


def test_cells_of_different_userlands_do_not_share_a_machine() -> None:
    with pytest.raises(NotSupported, match="share one machine"):
        of([H1, "curl@debian12--dsl-20--http1-get-1MiB"])


def test_a_clients_file_may_name_its_userland(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nprogram: wget\nuserland: debian:13\nprotocols: [http1]\nget: wget -O {output} {url}\n")
    assert userland_of(parse_client(str(file))) == "debian:13"
    assert userland_of(parse_client("wget")) == ""


def test_a_build_of_a_described_client_has_its_userland(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nprogram: wget\nuserland: debian:13\nprotocols: [http1]\nget: wget -O {output} {url}\n")
    monkeypatch.setenv("ROUGHWATER_CLIENTS", str(tmp_path))
    assert [userland_of(parse_client(text)) for text in ("mine", "mine=/opt/wget", "mine-2=/opt/wget")] == ["debian:13"] * 3


@pytest.mark.parametrize("name", ["curl@debian13", "wget@debian12", "ferry@debian13"])
def test_clients_of_a_userland_are_known(name: str) -> None:
    assert adapter_for(name).name == name


@pytest.mark.parametrize("name", ["curl@debian99", "libcurl@debian13", "nobody@debian13"])
def test_clients_that_no_userland_has_are_refused(name: str) -> None:
    with pytest.raises(UsageProblem, match="userland"):
        adapter_for(name)


@pytest.mark.parametrize("name", [H1, H3, "ferry--dsl-20--h3-get-1MiB"])
def test_real_time_has_neither_userlands_nor_http3(name: str) -> None:
    assert clock_for([cell(name)], "auto") == "virtual"
    with pytest.raises(NotSupported, match="virtual time only"):
        clock_for([cell(name)], "real")


def test_requests_over_http3_have_no_clock() -> None:
    with pytest.raises(NotSupported, match="processor"):
        clock_for([cell("curl@debian13--link-local--h3-get-100x10kB-discard")], "auto")


def test_a_userland_and_real_time_contradict_each_other() -> None:
    assert choose("auto", "auto", "auto", userlands=["debian:13"]).userlands == Userlands("debian:13", "debian:13")
    with pytest.raises(UsageProblem, match="--userland debian:13"):
        choose("real", "auto", "auto", userlands=["debian:13"])


def userland(nginx: str) -> Userland:
    return Userland(
        Path("/srv"), UserlandFacts(name="mine", distribution="", digest="0" * 64, packages={"nginx": nginx} if nginx else {})
    )


def test_a_server_too_old_for_http3_is_refused() -> None:
    for fine in (userland("1.26.3-3"), userland("1.25.1"), userland("2.0"), userland(""), None):
        check_http3(fine, "nginx")
    with pytest.raises(UsageProblem, match=r"nginx 1\.22\.1-9"):
        check_http3(userland("1.22.1-9"), "nginx")


def test_a_topology_names_the_program_that_serves_http3_and_its_userland_must_have_it() -> None:
    other = "ferry--aioquic-20--h3-get-1MiB"
    assert [http3_server([cell(name)]) for name in (H1, H3, other)] == [None, "nginx", "aioquic"]
    assert of([other]) == Userlands(server="debian:13")
    check_http3(userland(""), "aioquic")
    with pytest.raises(UsageProblem, match="has no python3-aioquic"):
        check_http3(userland("1.26.3-3"), "aioquic")


def identity(version: str) -> ClientIdentity:
    return ClientIdentity(name="curl", version=version, path="/usr/bin/curl", sha256="0" * 64, command=[])


@pytest.mark.parametrize(("library", "able"), [("nghttp2/1.52.0", False), ("nghttp3/1.8.0", True)])
def test_a_curl_of_this_machine_is_asked_before_a_userland_is_built(tmp_path: Path, library: str, able: bool) -> None:
    program = tmp_path / "curl"
    program.write_text(f"#!/bin/sh\necho 'curl 8.9.9 (x86_64) {library}'\necho 'Release-Date: quiche/1 does not count here'\n")
    program.chmod(0o755)
    adapter = adapter_for("curl", str(program))
    assert_speaks_here(adapter, cell(H1).transfer, H1)
    if able:
        assert_speaks_here(adapter, cell(H3).transfer, H3)
    else:
        with pytest.raises(NotSupported, match=r"curl 8\.9\.9 was built without HTTP/3"):
            assert_speaks_here(adapter, cell(H3).transfer, H3)


def test_a_curl_without_http3_is_refused_for_http3_only() -> None:
    old, new = (
        identity("curl 7.88.1 (x86_64) libcurl/7.88.1 nghttp2/1.52.0"),
        identity("curl 8.14.1 (x86_64) ngtcp2/1.11.0 nghttp3/1.8.0"),
    )
    assert_speaks(new, cell(H3).transfer, H3)
    assert_speaks(old, cell(H1).transfer, H1)
    with pytest.raises(NotSupported, match=r"curl 7\.88\.1 was built without HTTP/3"):
        assert_speaks(old, cell(H3).transfer, H3)
