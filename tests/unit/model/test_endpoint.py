"""Descriptions of servers: what a file may say, and the one line about what it may not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.cell import Cell
from lab.model.endpoint import LAB_PROTOCOLS, PROTOCOL_WORDS, WORDS, EndpointFile
from lab.model.endpoints import Endpoints, Service
from lab.model.errors import UsageProblem
from lab.model.load import load_endpoint, load_topology, parse_endpoint, with_endpoint
from lab.model.templates import fill
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer

PLAIN: dict[str, Any] = {
    "name": "mine",
    "description": "A test.",
    "start": "serve {workdir} {port.ftp}",
    "ports": {"ftp": 2121},
    "urls": {"ftp": {"get": "ftp://{server}:{port.ftp}/files/{payload}", "put": "ftp://{server}/up/{upload}"}},
    "stored": "{root}/up/{upload}",
}


def endpoint(**more: Any) -> EndpointFile:
    return parse_endpoint(json.dumps({**PLAIN, **more}), "mine.yaml")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"start": "serve {prt.ftp}"}, "start: {prt.ftp} is not a word of this field; did you mean 'port'"),
        ({"start": "serve {port.http}"}, "start: ports has no http"),
        ({"start": "serve {secret}"}, "start: a secret needs a name"),
        ({"urls": {"ftp": {"get": "ftp://{secret.x}@server/{payload}"}}, "stored": ""}, "{secret.x} is not a word of this field"),
        ({"urls": {"ftp": {"get": "ftp://server/x"}}, "stored": ""}, "urls.ftp.get: has no {payload}"),
        ({"urls": {"ftp": {}}}, "neither get nor put"),
        ({"urls": {"http": {"get": "http://server/{payload}"}}}, "did you mean 'http1'"),
        ({"stored": ""}, "urls.ftp.put: an upload needs either `stored` or `read_back`"),
        ({"read_back": "cat {upload}"}, "an upload needs either `stored` or `read_back`"),
        ({"stored": "{root}/up/it"}, "stored: has no {upload}"),
        ({"packages": ["rsync"]}, "packages: packages need a userland"),
        ({"program": "./it", "userland": "debian:13"}, "program: a program of this machine is not seen in a userland"),
        ({"ports": {"ftp": 0}}, "ports.ftp"),
        ({"ready": {"port": "fpt"}}, "ready.port: ports has no fpt; did you mean 'ftp'"),
        ({"ready": {"banner": "220", "http": "/"}}, "ready: is either a banner or an answer over http"),
        ({"files": {"../x": ""}}, "files"),
        ({"prot": {}}, "prot: unknown field; did you mean 'ports'"),
    ],
)
def test_a_wrong_field_is_one_line_that_names_it(more: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        endpoint(**more)
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


@given(st.text(alphabet="{}portwkdi.ab ", max_size=40))
def test_only_known_words_are_replaced(text: str) -> None:
    filled = fill(text, {"port.a": "1", "workdir": "/w"})
    assert filled == text.replace("{port.a}", "1").replace("{workdir}", "/w")


def test_braces_of_a_configuration_stay() -> None:
    served = endpoint(files={"it.conf": "server { root {root}; map {x} }"})
    assert fill(served.files["it.conf"], {"root": "/r"}) == "server { root /r; map {x} }"


def test_the_digest_follows_from_all_that_runs() -> None:
    assert endpoint().digest == endpoint(description="Others.", notes=["a note"]).digest
    assert endpoint().digest != endpoint(start="serve {workdir} {port.ftp} -v").digest


def test_secrets_are_found_in_every_text() -> None:
    served = endpoint(files={"a": "{secret.one}"}, credentials={"K": "{secret.two}"}, environment={"E": "{secret.one}"})
    assert served.secrets == ["one", "two"]


# --- a network's server ---------------------------------------------------------------------------------------------------


def cell(protocol: str, direction: str = "get", served: EndpointFile | None = None, **more: Any) -> Cell:
    topology = Topology(name="net", description="A test.", endpoint=served)
    transfer = Transfer.model_validate({"protocol": protocol, "direction": direction, "size": "1 MB", **more})
    return Cell(client=ClientSpec(name="curl"), topology=topology, transfer=transfer, expectation=Expectation.of(transfer))


@pytest.mark.parametrize("protocol", LAB_PROTOCOLS)
def test_the_labs_own_servers_serve_its_protocols(protocol: str) -> None:
    assert cell(protocol).unserved == ""


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (cell("ftp"), "no server of the lab serves FTP; an endpoint that does is named by net@ENDPOINT"),
        (cell("mine"), "no server of the lab serves mine"),
        (cell("sftp", served=endpoint()), "endpoint mine does not serve SFTP (it serves ftp)"),
        (cell("ftp", "put", served=endpoint(urls={"ftp": {"get": "ftp://s/{payload}"}}, stored="")), "takes no put over FTP"),
        (cell("ftp", served=endpoint(), files=2, discard=True), "one file of announced size"),
        (cell("ftp", "get", served=endpoint()), ""),
        (cell("ftp", "put", served=endpoint()), ""),
    ],
)
def test_a_cell_says_why_its_server_cannot_take_part(asked: Cell, said: str) -> None:
    assert said in asked.unserved
    assert bool(said) == bool(asked.unserved)


def test_a_network_is_named_with_its_endpoint() -> None:
    found = load_topology("dsl-20@rsyncd")
    assert found.name == "dsl-20@rsyncd"
    assert found.served_by == load_endpoint("rsyncd")
    assert found.link == load_topology("dsl-20").link
    assert with_endpoint(found, "vsftpd").name == "dsl-20@vsftpd"


@pytest.mark.parametrize("name", ["dsl-20@", "dsl-20@nosuch", "@rsyncd", "dsl-20@rsyncd@vsftpd"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(UsageProblem):
        load_topology(name)


# --- URLs and places for clients ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("urls", "remote", "port"),
    [
        ({"get": "ftp://h/files/{payload}"}, "files/1MB", 21),
        ({"get": "ftp://h:2121/files/{payload}", "service": "ftp://h:2121"}, "files/1MB", 2121),
        ({"get": "s3://files/{payload}", "service": "http://h:9000"}, "files/1MB", 9000),
        ({"get": "http://h/dav/files/{payload}", "service": "http://h/dav"}, "files/1MB", 80),
    ],
)
def test_the_place_in_a_service(urls: dict[str, str], remote: str, port: int) -> None:
    served = endpoint(urls={"other": urls}, stored="")
    ends = Endpoints("h", "/srv", "/w", "/w/ca", "/w/known", "/w/key", payload="1MB", service=Service(served, {}))
    transfer = Transfer.model_validate({"protocol": "other", "direction": "get", "size": "1 MB"})
    assert (ends.remote_path(transfer), ends.port(transfer)) == (remote, port)


def test_a_service_shows_no_secret() -> None:
    shown = repr(Service(endpoint(), {"secret.a": "abcdef"}, {"KEY": "abcdef"}))
    assert "abcdef" not in shown


def test_every_word_is_explained() -> None:
    assert all(WORDS.values())
    assert {*LAB_PROTOCOLS} <= {*PROTOCOL_WORDS}
