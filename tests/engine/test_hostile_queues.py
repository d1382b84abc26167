"""Several URLs in one run, of which some have partial files with holes: each of them ends as it would alone."""

from __future__ import annotations

import json
import random
import re
import threading
from pathlib import Path

import pytest

from tests.engine.harness import Told
from tests.engine.test_hostile_http import ferry
from tests.support.hostile_http import HostileServer, Talk, head, serve

SIZE = 300_000
HOLES = ((100_000, 150_000), (200_000, SIZE))
BRIEFLY = ("--retry-max-wait", "50ms", "--retry", "2")
# The server's treatment of a file: True where the file arrives.
FATES = {
    "honest": True,
    "changed": True,
    "changed-in-a-206": True,
    "no-ranges": True,
    "elsewhere": True,
    "once-closed": True,
    "once-503": True,
    "404": False,
    "403": False,
    "207": False,
    "416": False,
    "503": False,
    "closed": False,
    "loop": False,
    "fewer-chunks": False,
}


def content(name: str, version: int = 1) -> bytes:
    return random.Random(f"{name} {version}").randbytes(SIZE)


class Server:
    """Every file has its fate."""

    def __init__(self, fates: dict[str, str]) -> None:
        self.fates = fates
        self.asked: set[str] = set()
        self.lock = threading.Lock()
        # When set: files of which two must be asked for at once.
        self.together: threading.Barrier | None = None

    def __call__(self, talk: Talk, _: HostileServer) -> None:
        while self.answer(talk, talk.request()):
            pass

    def expected(self, name: str) -> bytes:
        return content(name, 2 if self.fates[name].startswith("changed") else 1)

    def answer(self, talk: Talk, text: str) -> bool:
        """Whether the connection goes on."""
        name = text.split()[1].lstrip("/")
        fate = self.fates[name.removeprefix("there-")]
        with self.lock:
            first = name not in self.asked
            self.asked.add(name)
        if fate.startswith("once-"):
            fate = fate.removeprefix("once-") if first else "honest"
        if fate == "closed":
            return False
        if fate == "loop" or (fate == "elsewhere" and not name.startswith("there-")):
            talk.send(head("302 Found", 0, f"Location: /{name if fate == 'loop' else 'there-' + name}"))
        elif fate.isdigit():
            talk.send(head(f"{fate} Said", 0))
        else:
            self.file(talk, text, name.removeprefix("there-"), fate)
        return True

    def file(self, talk: Talk, text: str, name: str, fate: str) -> None:
        wanted = re.search(r"(?im)^range: bytes=(\d+)-(\d*)\r?$", text)
        validator = re.search(r"(?im)^if-range: (.+?)\r?$", text)
        body, etag = self.expected(name), '"two"' if fate.startswith("changed") else '"one"'
        if self.together is not None and fate == "honest" and not wanted:
            self.together.wait(20.0)
        current = validator is None or validator[1] == etag or fate == "changed-in-a-206"
        if not wanted or fate == "no-ranges" or not current:
            return talk.send(head("200 OK", SIZE, f"ETag: {etag}"), body)
        start, end = int(wanted[1]), min(int(wanted[2] or SIZE), SIZE - 1) + 1
        fields = (f"ETag: {etag}", f"Content-Range: bytes {start}-{end - 1}/{SIZE}")
        if fate == "fewer-chunks":
            return talk.send(head("206 Partial Content", None, "Transfer-Encoding: chunked", *fields), b"0\r\n\r\n")
        return talk.send(head("206 Partial Content", end - start, *fields), body[start:end])


def left_with_holes(folder: Path, server: HostileServer, name: str) -> None:
    """As a run with `--connections` leaves it."""
    body = bytearray(content(name))
    for start, end in HOLES:
        body[start:end] = bytes(end - start)
    missing = [{"start": start, "end": end} for start, end in HOLES]
    said = {"schema": "ferry-partial-2", "url": server.url(f"/{name}"), "size": SIZE, "etag": '"one"', "missing": missing}
    (folder / f".{name}.ferry-partial").write_bytes(body)
    (folder / f".{name}.ferry-partial.json").write_text(json.dumps(said))


def left_cut(folder: Path, server: HostileServer, name: str) -> None:
    said = {"schema": "ferry-partial-1", "url": server.url(f"/{name}"), "size": SIZE, "etag": '"one"'}
    (folder / f".{name}.ferry-partial").write_bytes(content(name)[: SIZE // 2])
    (folder / f".{name}.ferry-partial.json").write_text(json.dumps(said))


def get(folder: Path, server: HostileServer, names: list[str], *words: str) -> Told:
    urls = [server.url(f"/{name}") for name in names]
    return ferry(folder, "get", "--resume", "-O", *urls, *BRIEFLY, *words, timeout_s=50.0)


def all_have_ended(folder: Path, told: Told, served: Server, names: list[str], left: set[str]) -> None:
    for name, transfer in zip(names, told.report["transfers"], strict=True):
        fate = served.fates[name]
        # Who asks for no range is given the file.
        arrives = FATES[fate] or (fate == "fewer-chunks" and name not in left)
        assert ("error" not in transfer or transfer["error"] is None) is arrives, (name, fate, transfer.get("error"))
        if arrives:
            assert (folder / name).read_bytes() == served.expected(name), (name, fate)
        else:
            assert not (folder / name).exists(), (name, fate)


@pytest.mark.parametrize("parallel", ["1", "3"])
@pytest.mark.parametrize("fate", FATES)
def test_a_file_with_holes_among_others_ends_as_it_must_and_so_do_they(tmp_path: Path, fate: str, parallel: str) -> None:
    names = [f"f{index}" for index in range(10)]
    served = Server(dict.fromkeys(names, "honest") | {"f0": fate})
    with serve(served) as server:
        left_with_holes(tmp_path, server, "f0")
        told = get(tmp_path, server, names, "--parallel", parallel)
    all_have_ended(tmp_path, told, served, names, {"f0"})


@pytest.mark.parametrize("seed", range(8))
def test_every_entry_of_a_queue_ends(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    names = [f"f{index}" for index in range(8)]
    served = Server({name: chance.choice(list(FATES)) for name in names})
    left = {name: chance.choice([left_with_holes, left_with_holes, left_cut, None]) for name in names}
    with serve(served) as server:
        for name, leave in left.items():
            if leave is not None:
                leave(tmp_path, server, name)
        told = get(tmp_path, server, names, "--parallel", str(chance.randint(1, 4)))
    all_have_ended(tmp_path, told, served, names, {name for name, leave in left.items() if leave is not None})


def test_a_file_with_holes_holds_no_other_back(tmp_path: Path) -> None:
    """Two others are on their way at once, before and after it."""
    names = ["f0", "f1", "f2", "f3", "f4"]
    served = Server(dict.fromkeys(names, "honest"))
    served.together = threading.Barrier(2)
    with serve(served) as server:
        left_with_holes(tmp_path, server, "f0")
        told = get(tmp_path, server, names, "--parallel", "2")
    all_have_ended(tmp_path, told, served, names, {"f0"})
