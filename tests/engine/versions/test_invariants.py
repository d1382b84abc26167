"""The judge itself: each thing that a wrong ferry could do is seen, and what is right is not. No server and no ferry."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.engine.versions.invariants import Judge
from tests.engine.versions.origin import HONEST
from tests.engine.versions.source import Source
from tests.engine.versions.stage import Run, Stage

SIZE = 50_000


class Scene:
    """A source with two versions of `sub/file`, and a target that a test fills by hand."""

    def __init__(self, folder: Path, way: str) -> None:
        self.target = folder / "target"
        for name in ("source", "aside", "target"):
            (folder / name).mkdir()
        self.source = Source(folder / "source", folder / "aside")
        self.source.give("sub/file", SIZE, 0o640)
        self.source.note()
        self.run = SimpleNamespace(
            name="one", began=0, code=0, killed=False, disturbed=False, others=False, resume=True, published=set(), stderr="",
            report={"transfers": [{"error": None}]}, alive=lambda: False, is_over=lambda: True,
        )  # fmt: skip
        plan = SimpleNamespace(way=way, manners=HONEST, sizes={"sub/file": SIZE})
        stage = SimpleNamespace(target=self.target, plan=plan, origin=SimpleNamespace(manners=HONEST), sshd=None)
        self.judge = Judge(cast(Stage, stage), self.source)

    def replace(self) -> None:
        self.source.change("replace", "sub/file", 0.5, same_size=True)

    def put(self, data: bytes, version: int, mode: int = 0o640) -> None:
        """Into the target, with the time of that version."""
        path = self.target / "sub" / "file"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)
        mtime = self.source.versions["sub/file"][version].mtime
        os.utime(path, (mtime, mtime))

    def data(self, version: int) -> bytes:
        return self.source.versions["sub/file"][version].data()

    def looked(self) -> list[str]:
        self.judge.look([cast(Run, self.run)])
        return [problem.split(":")[0] for problem in self.judge.problems]

    def ended(self, **facts: Any) -> list[str]:
        vars(self.run).update(facts)
        self.judge.ended(cast(Run, self.run))
        return [problem.split(":")[0] for problem in self.judge.problems]


@pytest.fixture
def scene(tmp_path: Path) -> Callable[[str], Scene]:
    return lambda way: Scene(tmp_path, way)


def test_either_version_of_a_run_is_right(scene: Callable[[str], Scene]) -> None:
    made = scene("sftp-put-mirror")
    made.replace()
    for version in (0, 1):
        made.put(made.data(version), version)
        assert made.looked() == []
        assert made.ended() == []


def test_a_mixture_and_a_hole_are_seen(scene: Callable[[str], Scene]) -> None:
    made = scene("sftp-get")
    made.replace()
    made.put(made.data(0)[:20_480] + made.data(1)[20_480:], 1)
    assert made.looked() == ["version"]
    assert "20480 of 1 + 29520 of 2" in made.judge.problems[0]
    made.put(made.data(1)[:20_480] + bytes(8192) + made.data(1)[28_672:], 1)
    assert made.looked() == ["version", "version"]
    assert "8192 of zeros" in made.judge.problems[1]


def test_a_version_from_before_the_run_is_seen(scene: Callable[[str], Scene]) -> None:
    made = scene("http1-get")
    made.replace()
    made.run.began = 1
    made.put(made.data(0), 0)
    assert made.looked() == ["version"]


def test_the_time_and_mode_of_another_version_are_seen(scene: Callable[[str], Scene]) -> None:
    made = scene("sftp-put-mirror")
    made.replace()
    made.put(made.data(0), 1)
    assert made.looked() == ["time"]
    made.put(made.data(1), 1, 0o666)
    assert made.looked() == ["time", "mode"]


@pytest.mark.parametrize(("kind", "seen"), [("link-folder", ["removed"]), ("link", ["removed"]), ("remove-folder", [])])
def test_a_removal_is_seen_where_the_source_still_has_the_name(scene: Callable[[str], Scene], kind: str, seen: list[str]) -> None:
    made = scene("sftp-put-mirror")
    made.put(made.data(0), 0)
    assert made.looked() == []
    made.source.change(kind, "sub/file", 0.5, same_size=True)
    made.run.began = 1
    (made.target / "sub" / "file").unlink()
    assert made.looked() == seen


def test_a_success_without_a_file_is_seen(scene: Callable[[str], Scene]) -> None:
    made = scene("sftp-put-tree")
    assert made.looked() == []
    assert made.ended() == ["incomplete"]


def test_a_mirror_that_leaves_what_the_source_lacks_is_seen(scene: Callable[[str], Scene]) -> None:
    made = scene("sftp-get-mirror")
    made.put(made.data(0), 0)
    assert made.looked() == []
    made.source.change("remove-folder", "sub/file", 0.5, same_size=True)
    made.run.began = 1
    assert made.ended() == ["incomplete"]


def test_a_failure_that_nothing_explains_is_seen(scene: Callable[[str], Scene]) -> None:
    made = scene("sftp-put")
    failed = {"transfers": [{"error": {"message": "cannot remove the file that was replaced"}}]}
    assert made.ended(code=11, report=failed, published={"sub/file"}) == ["undisturbed", "unreported"]


def test_a_url_without_a_row_is_seen(scene: Callable[[str], Scene]) -> None:
    made = scene("http1-list")
    made.put(made.data(0), 0)
    made.judge.look([])
    assert made.ended(report={"transfers": []}) == ["queue"]
