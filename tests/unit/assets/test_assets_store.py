"""Directories of the cache are complete or absent."""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from lab.assets import kernel, store
from lab.model.errors import LabFault


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make(directory: Path) -> Path:
    (directory / "sub").mkdir(parents=True)
    (directory / "sub" / "kernel").write_bytes(b"kernel")
    (directory / "initrd").write_bytes(b"initrd")
    store.write_manifest(directory, {"suite": "trixie"}, store.digests(directory))
    return directory


def test_an_intact_directory_is_loaded(tmp_path: Path) -> None:
    manifest = store.load(make(tmp_path / "asset"))
    assert manifest is not None
    assert manifest["suite"] == "trixie"
    assert sorted(manifest["files"]) == ["initrd", "sub/kernel"]


def test_damage_of_the_same_size_is_seen(tmp_path: Path) -> None:
    asset = make(tmp_path / "asset")
    (asset / "sub" / "kernel").write_bytes(b"kernEl")
    assert store.load(asset) is None


def test_missing_file_is_seen(tmp_path: Path) -> None:
    asset = make(tmp_path / "asset")
    (asset / "initrd").unlink()
    assert store.load(asset) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": {}}', '{"files": null}'])
def test_broken_manifest_means_absent(tmp_path: Path, text: str) -> None:
    asset = make(tmp_path / "asset")
    (asset / store.MANIFEST).write_text(text)
    assert store.load(asset) is None


def test_publish_replaces_and_staging_leaves_nothing(cache: Path) -> None:
    with store.locked(print):
        make(cache / "final")
        (cache / "final" / "initrd").write_bytes(b"damaged")
        with store.staging(cache) as work:
            store.publish(make(work / "result"), cache / "final")
    assert store.load(cache / "final") is not None
    assert sorted(path.name for path in cache.iterdir()) == ["assets.lock", "final"]


def test_a_build_of_one_part_outlives_the_lock_of_another(cache: Path) -> None:
    with (
        store.locked(print, "ferry"),
        store.installing(cache / "ferry-1", "ferry") as (tree, _),
        store.locked(print) as other,
        store.locked(print, "libcurl"),
    ):
        assert other == cache
        (tree / "program").write_text("built")
    assert (cache / "ferry-1" / "program").read_text() == "built"


def test_leftover_of_a_killed_build_is_swept(cache: Path) -> None:
    (cache / ".building-assets-abc" / "tree").mkdir(parents=True)
    (cache / ".building-kernel-abc" / "tree").mkdir(parents=True)
    with store.locked(print):
        # Under another lock something may still be building.
        assert [path.name for path in cache.glob(".building-*")] == [".building-kernel-abc"]


def test_the_kernel_of_virtual_time_waits_for_no_other_build(cache: Path) -> None:
    """The first cell needs it, and images of containers take minutes."""
    with store.locked(print):
        assert kernel.find().parent.parent == cache


def _hold(ready: Event, release: Event) -> None:
    with store.locked(print):
        ready.set()
        release.wait(20)


def test_second_builder_waits_and_says_so() -> None:
    context = multiprocessing.get_context("fork")
    ready, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(ready, release))
    other.start()
    assert ready.wait(20)
    said: list[str] = []

    def progress(message: str) -> None:
        said.append(message)
        release.set()

    with store.locked(progress):
        other.join(20)
    assert other.exitcode == 0
    assert len(said) == 1


def test_unwritable_cache_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(LabFault) as caught, store.locked(print):
        pass
    assert "ROUGHWATER_CACHE" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_full_disk_while_building_is_one_line(cache: Path) -> None:
    cache.mkdir()
    with pytest.raises(LabFault, match="No space left"), store.staging(cache) as work:
        raise OSError(28, "No space left on device", str(work))
    assert not list(cache.iterdir())


def test_a_helper_that_hangs_is_ended() -> None:
    code, output = store.run(["sleep", "60"], timeout_s=0.2)
    assert code == 124
    assert store.reason(output) == "no answer within 0 s"


def test_reason_prefers_the_first_error() -> None:
    assert store.reason("Err:1 http://deb.debian.org\n  Could not resolve it\nE: apt-get failed\n") == "Could not resolve it"
    assert store.reason("I: go\nE: no route\nE: giving up\nI: bye\n") == "E: no route"
    assert store.reason("one\ntwo\n") == "two"
    assert store.reason("") == "no output"
