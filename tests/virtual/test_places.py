"""One seed gives the same packets and results wherever the same clients run: what lies where, and who asks, does not count."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.clients.ferry import find_ferry
from lab.hosts.virtual.network import open_network
from lab.model.errors import EXIT_FAIL
from lab.model.paths import cache_dir
from lab.model.scratch import scratch_folder
from lab.store.deterministic import first_difference, view
from lab.store.run_dir import RunDir, read_cell

pytestmark = pytest.mark.timeout(600)

_LOCALES = Path("/usr/lib/locale")

PROJECT = Path(os.environ.get("ROUGHWATER_TEST_CHECKOUT") or Path(__file__).parents[2])
CELLS = (
    "ferry--lossy-wifi--https1-get-128KiB-at-300kBps",
    "curl--lossy-wifi--h2-get-128KiB-at-300kBps",
    "curl--dsl-20--sftp-put-128KiB-at-1600kBps",
    "mine--lossy-wifi--http1-get-128KiB",
)
"""They draw random numbers, by which a machine that differs in the least is known."""
SCRIPT = """\
#!/usr/bin/python3
import sys
import urllib.request
import helper
urllib.request.urlretrieve(*helper.same(sys.argv[1:]))
"""
DESCRIPTION = "name: mine\nprogram: ./get.py\nprotocols: [http1]\nget: '{program} {url} {output}'\n"


class Came(NamedTuple):
    """The deterministic part of a cell's result, and the digests of its captures."""

    view: dict[str, object]
    captures: tuple[str, ...]


def client_folder(folder: Path, *, beside: int = 0) -> Path:
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(DESCRIPTION)
    (folder / "get.py").write_text(SCRIPT)
    (folder / "get.py").chmod(0o755)
    (folder / "helper.py").write_text("def same(words):\n    return words\n")
    for number in range(beside):
        (folder / f"a file that was not there before, number {number}").touch()
    return folder


def ran(
    clients: Path, results: Path, cells: tuple[str, ...] = CELLS, *, more: Mapping[str, str] = {}, by: Sequence[str] = ()
) -> dict[str, Came]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [*by, sys.executable, "-m", "lab.cli.main", "run", *cells, "--clock", "virtual", "--max-samples", "5", "--pcap"],
        env={
            **environment,
            "PYTHONPATH": str(PROJECT),
            "ROUGHWATER_CLIENTS": str(clients),
            "ROUGHWATER_RESULTS": str(results),
            **more,
        },
        cwd=clients,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, EXIT_FAIL), done.stdout + done.stderr
    found = RunDir.find("latest", results=results)
    came = {}
    for path in found.cells.glob("*.json"):
        cell = read_cell(path)
        captures = sorted(found.evidence(cell.id).glob("*.pcap"))
        came[cell.id] = Came(view(cell), tuple(hashlib.sha256(each.read_bytes()).hexdigest() for each in captures))
    assert len(came) == len(cells), done.stderr
    return came


def differences(here: dict[str, Came], there: dict[str, Came]) -> dict[str, object]:
    found = {name: first_difference(here[name].view, there[name].view) for name in here}
    return {name: found[name] or "captures" for name in here if found[name] or here[name].captures != there[name].captures}


def small_cache(folder: Path) -> None:
    """A copy of what these cells need of the cache: kernel, servers, certificates of links."""
    for pattern in ("kernel-*", "extracted-*", "certificates"):
        for path in cache_dir().glob(pattern):
            shutil.copytree(path, folder / path.name, symlinks=True)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Came]:
    folder = tmp_path_factory.mktemp("r")
    return ran(client_folder(folder / "c"), folder / "results")


def test_neither_a_long_path_nor_other_files_nor_the_environment_count(reference: dict[str, Came], tmp_path: Path) -> None:
    clients = client_folder(tmp_path / ("a longer name " * 9) / "and" / "deeper" / "still", beside=40)
    more = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}:{tmp_path}/another",
        "LANG": "tr_TR.UTF-8",
        "TZ": "Asia/Tokyo",
        "HOME": str(tmp_path),
        "SOMETHING": "x" * 5000,
        "ROUGHWATER_CACHE": str(cache_dir()),
        "http_proxy": "http://nowhere:1",
    }
    assert differences(reference, ran(clients, tmp_path / "results", more=more)) == {}


OTHER = 54321
BY_ANOTHER = {
    True: (
        "setpriv",
        f"--reuid={OTHER}",
        f"--regid={OTHER}",
        "--clear-groups",
        "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search",
    ),
    False: ("unshare", "--map-root-user"),
}
"""By whether the tests are root's. The other user may execute the tests' Python, which can lie in root's home."""


def test_nor_do_the_user_and_the_place_of_the_cache(reference: dict[str, Came]) -> None:
    with scratch_folder("roughwater-") as folder:
        folder.chmod(0o755)
        clients = client_folder(folder / "clients of another user")
        cache, results, ferry = folder / "a cache with a longer path than most", folder / "results", folder / "ferry"
        small_cache(cache)
        results.mkdir()
        shutil.copy(find_ferry(), ferry)
        if os.getuid() == 0:
            for path in (cache, *cache.rglob("*"), results):
                os.chown(path, OTHER, OTHER, follow_symlinks=False)
        more = {"ROUGHWATER_CACHE": str(cache), "ROUGHWATER_FERRY": str(ferry), "HOME": str(folder)}
        there = ran(clients, results, more=more, by=BY_ANOTHER[os.getuid() == 0])
    assert differences(reference, there) == {}


def test_the_machines_locales_do_not_count_but_for_a_suite_of_a_users_own() -> None:
    network = open_network(seed=1)
    try:
        shown = ["sh", "-c", "stat -f -c %T /usr/lib/locale; ls -A /usr/lib/locale"]
        assert network.client.run(shown).text.split() == ["tmpfs", "C.utf8"]
        network.machine.ask({"op": "project", "uid": 0, "gid": 0, "bytes": 1 << 20, "cover_tmp": False, "folders": []})
        assert sorted(network.client.run(["ls", "-A", str(_LOCALES)]).text.split()) == sorted(
            each.name for each in _LOCALES.iterdir()
        )
    finally:
        network.close()
