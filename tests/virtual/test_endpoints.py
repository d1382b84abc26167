"""Servers that files describe, in virtual time: served, checked, repeated, and refused in one line."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.model.base import YAML_SUFFIXES
from lab.model.errors import LabFault
from lab.model.load import files_by_name, load_endpoint
from lab.model.paths import shipped_endpoints_dir
from lab.model.userland import NO_USERLANDS, Userlands
from lab.run.named_cells import named_cells, run_cells
from lab.run.options import Options
from lab.run.progress import Silent
from lab.store.deterministic import digest, view
from tests.support.made_image import Entry, saved

SERVER = """\
import http.server, os, shutil, sys
TOKEN = os.environ.get("TOKEN")
class Files(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_PUT(self):
        with open(self.translate_path(self.path), "wb") as file:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            file.write(data[:LENGTH])
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()
os.chdir(sys.argv[2])
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Files).serve_forever()
"""
PLAIN: dict[str, Any] = {
    "name": "mine",
    "description": "A test.",
    "program": "python3",
    "files": {"server.py": SERVER.replace("LENGTH", "None")},
    "start": "{program} {workdir}/server.py {port.http} {root}",
    "ports": {"http": 8080},
    "ready": {"http": "/files/"},
    "urls": {
        "http1": {"get": "http://{server}:{port.http}/files/{payload}", "put": "http://{server}:{port.http}/upload/{upload}"}
    },
    "stored": "{root}/upload/{upload}",
}
Run = Callable[..., Any]


@pytest.fixture(name="run")
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs cells of a client of one's own behind `mine`, and returns what is stored."""
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))

    def run(*names: str, seed: int = 1, **more: Any) -> Any:
        file = tmp_path / "mine.yaml"
        file.write_text(json.dumps({**PLAIN, **more}))
        cells = named_cells(names, endpoint=str(file))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            return run_cells(cells, Options(clock="virtual", seed=seed), Silent()).results

    return run


@pytest.mark.parametrize("transfer", ["http1-get-200kB", "http1-put-200kB"])
def test_a_server_of_ones_own_is_judged_and_repeats(run: Run, transfer: str) -> None:
    (one,), (other,) = run(f"curl--dsl-20--{transfer}"), run(f"curl--dsl-20--{transfer}")
    assert (one.id, one.verdict.name) == (f"curl--dsl-20@mine--{transfer}", "PASS")
    assert digest(view(one)) == digest(view(other))
    assert one.virtual.counts["endpoint"]
    assert one.virtual.counts["server"]


def test_an_upload_that_is_short_on_the_server_fails_the_client(run: Run) -> None:
    (found,) = run("curl--dsl-20--http1-put-200kB", files={"server.py": SERVER.replace("LENGTH", "1000")})
    assert found.verdict.name == "FAIL"
    assert "1000 of 200000 bytes arrived" in found.samples[0].problem


def test_an_upload_is_read_back_by_a_command(run: Run) -> None:
    (found,) = run("curl--dsl-20--http1-put-200kB", stored="", read_back="cat {root}/upload/{upload}")
    assert found.verdict.name == "PASS"
    (wrong,) = run("curl--dsl-20--http1-put-200kB", stored="", read_back="echo {upload}")
    assert wrong.verdict.name == "FAIL"


def test_a_server_that_ends_or_never_serves_is_the_labs_fault_in_one_line(run: Run) -> None:
    with pytest.raises(LabFault, match=r"endpoint mine ended \(1\): no port for me"):
        run("curl--dsl-20--http1-get-200kB", start="{program} -c 'raise SystemExit(\"no port for me\")'")
    with pytest.raises(LabFault, match="nothing listens on port 8080 after 1 s; its last words: wait"):
        run("curl--dsl-20--http1-get-200kB", start="/bin/sh -c 'echo wait; exec sleep 1000'", ready={"within": "1 s"})
    dies = SERVER.replace("data = self", "os._exit(3); data = self").replace("LENGTH", "None")
    (found,) = run("curl--dsl-20--http1-put-200kB", files={"server.py": dies})
    assert found.verdict.name == "INVALID"
    assert "endpoint mine ended (3)" in found.verdict.reason
    with pytest.raises(LabFault, match=r"prepare failed \(3\): no"):
        run("curl--dsl-20--http1-get-200kB", prepare="echo no >&2; exit 3")


def test_a_secret_is_given_to_both_ends_and_stored_nowhere(run: Run, tmp_path: Path) -> None:
    """The server prints its variable into a file that an upload's check reads; the client has the same."""
    told = {"environment": {"TOKEN": "{secret.token}"}, "credentials": {"TOKEN": "{secret.token}"}}
    show = 'test "$TOKEN" && printf %s "$TOKEN"'
    (found,) = run("curl--dsl-20--http1-put-200kB", stored="", read_back=show, **told)
    assert "32 of 200000 bytes" in found.samples[0].problem
    for command in ('echo "it is $TOKEN" >&2; exit 3', 'echo "it is $TOKEN" >&2; sleep 9; exit 3'):
        with pytest.raises(LabFault) as fault:
            run("curl--dsl-20--http1-put-200kB", start=f"/bin/sh -c '{command}'", **told)
        assert "it is {secret.token}" in str(fault.value)
    texts = [path.read_text(errors="replace") for path in (tmp_path / "results").rglob("*") if path.is_file()]
    assert texts
    assert not [found for text in texts for found in re.findall(r"\bit is [0-9a-f]{32}|TOKEN[^{]{1,4}[0-9a-f]{32}", text)]


CLIENTS = {"s3": "boto3", "oci": "skopeo", "rsync": "rsync", "h3": "curl@debian13"}
"""By protocol; curl speaks the others."""
SHIPPED = [
    (name, protocol, way)
    for name in files_by_name([shipped_endpoints_dir()], YAML_SUFFIXES)
    for protocol in load_endpoint(name).urls
    for way in ("get", "put")
    if load_endpoint(name).serves(protocol, way)
]


def test_endpoints_ship_for_many_protocols() -> None:
    assert len(SHIPPED) > 30
    assert {protocol for _, protocol, _ in SHIPPED} >= {"ftp", "ftps", "webdav", "s3", "oci", "rsync", "sftp", "h2", "h3"}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("name", "protocol", "way"), SHIPPED)
def test_a_shipped_endpoint_serves_what_it_names(
    name: str, protocol: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their packages are downloaded: by day the servers above stand for them."""
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path))
    userlands = Userlands(client="debian:13+rsync") if protocol == "rsync" else NO_USERLANDS
    options = Options(clock="virtual", seed=1, userlands=userlands)
    cell = f"{CLIENTS.get(protocol, 'curl')}--dsl-20@{name}--{protocol}-{way}-1MB"
    (found,) = run_cells(named_cells([cell]), options, Silent()).results
    assert found.verdict.name == "PASS", found.verdict.reason


@pytest.fixture(name="image", scope="module")
def small_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of one static program, with a user, a folder and a command of its own."""
    folder = tmp_path_factory.mktemp("image")
    source = Path(__file__).parents[1] / "support" / "image_server.c"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-static", "-O1", "-o", folder / "serve", source], check=True, timeout=60)
    entries = [
        Entry("etc/passwd", b"root:x:0:0::/:/\nweb:x:1234:1234::/:/\n"),
        Entry("serve", (folder / "serve").read_bytes(), mode=0o755),
        Entry("data/", uid=1234, gid=1234),
    ]
    config = {
        "Entrypoint": ["/serve"],
        "Cmd": ["8080"],
        "User": "web",
        "Env": ["FILES=/run/lab/server/files"],
        "WorkingDir": "/data",
    }
    return saved(folder / "image.tar", [entries], config)


@pytest.mark.parametrize("transfer", ["http1-get-200kB", "http1-put-200kB"])
def test_a_container_image_serves_as_its_own_user_from_its_own_folder(run: Run, image: Path, transfer: str) -> None:
    told = {
        "program": "",
        "image": str(image),
        "start": "",
        "files": {},
        "ready": {},
        "urls": {"http1": {"get": "http://{server}:{port.http}/{payload}", "put": "http://{server}:{port.http}/{upload}"}},
        "stored": "/data/{upload}",
    }
    (one,), (other,) = run(f"curl--dsl-20--{transfer}", **told), run(f"curl--dsl-20--{transfer}", **told)
    assert one.verdict.name == "PASS"
    assert digest(view(one)) == digest(view(other))
    assert one.userlands["server"].name == "image:image.tar"
