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
    with store.locked(print, "final"):
        make(cache / "final")
        (cache / "final" / "initrd").write_bytes(b"damaged")
        with store.staging(cache, "final") as work:
            store.publish(make(work / "result"), cache / "final")
    assert store.load(cache / "final") is not None
    assert sorted(path.name for path in cache.iterdir()) == ["final", "final.lock"]


def test_orphans_of_killed_builds_go_and_folders_of_living_ones_stay(cache: Path) -> None:
    """An asset may never be asked for again: its orphan goes when anything else is built."""
    for part in ("curl-8.5", "curl-8.5-x", "wine"):
        (cache / f".building-{part}-abc_1234" / "tree").mkdir(parents=True)
    (cache / ".building-of-somebody-else").mkdir()
    with store.locked(print, "wine"), store.staging(cache, "wine") as living, store.locked(print, "curl-8.5"):
        assert sorted(path.name for path in cache.glob(".building-*")) == sorted([".building-of-somebody-else", living.name])


def test_nothing_is_staged_without_its_lock(cache: Path) -> None:
    """Another lab would take the folder for an orphan."""
    with store.locked(print, "curl-8.5"), pytest.raises(RuntimeError, match="wine"), store.staging(cache, "wine"):
        pass
    with pytest.raises(RuntimeError, match="wine"), store.installing(cache / "wine"):
        pass


def test_the_kernel_of_virtual_time_waits_for_no_other_build(cache: Path) -> None:
    """The first cell needs it, and images of containers take minutes."""
    with store.locked(print, "userland"):
        assert kernel.find().parent.parent == cache


def _hold(ready: Event, release: Event) -> None:
    with store.locked(print, "curl-8.5"):
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

    with store.locked(progress, "wine"):
        assert said == [], "another thing is waited for"
    with store.locked(progress, "curl-8.5"):
        other.join(20)
    assert other.exitcode == 0
    assert len(said) == 1
    assert "curl-8.5" in said[0]


def test_unwritable_cache_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(LabFault) as caught, store.locked(print, "asset"):
        pass
    assert "ROUGHWATER_CACHE" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_full_disk_while_building_is_one_line(cache: Path) -> None:
    cache.mkdir()
    with pytest.raises(LabFault, match="No space left"), store.locked(print, "asset"), store.staging(cache, "asset") as work:
        raise OSError(28, "No space left on device", str(work))
    assert [path.name for path in cache.iterdir()] == ["asset.lock"]


def test_a_helper_that_hangs_is_ended() -> None:
    code, output = store.run(["sleep", "60"], timeout_s=0.2)
    assert code == 124
    assert store.reason(output) == "no answer within 0 s"


def test_reason_prefers_the_first_error() -> None:
    assert store.reason("Err:1 http://deb.debian.org\n  Could not resolve it\nE: apt-get failed\n") == "Could not resolve it"
    assert store.reason("I: go\nE: no route\nE: giving up\nI: bye\n") == "E: no route"
    assert store.reason("one\ntwo\n") == "two"
    assert store.reason("") == "no output"
