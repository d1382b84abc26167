"""The guest's image: what needs no download."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from images.guest import image
from lab.assets import store
from lab.model.errors import LabFault, UsageProblem

DEPENDENCIES = """\
kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/lib/crc16.ko.xz kernel/fs/mbcache.ko.xz
kernel/fs/jbd2/jbd2.ko.xz:
kernel/fs/mbcache.ko.xz:
kernel/lib/crc16.ko.xz:
kernel/drivers/block/virtio-blk.ko.xz:
kernel/net/sched/sch_netem.ko.xz:
"""


def test_modules_come_after_what_they_need_and_once() -> None:
    found = [Path(name).name for name in image.boot_modules(DEPENDENCIES, ("virtio_blk", "ext4", "jbd2", "built_in"))]
    assert found == ["virtio-blk.ko.xz", "mbcache.ko.xz", "crc16.ko.xz", "jbd2.ko.xz", "ext4.ko.xz"]


@pytest.mark.parametrize("backports", [True, False])
def test_kernel_hook_is_shell(backports: bool) -> None:
    subprocess.run(["sh", "-nc", image.kernel_hook(backports=backports)], check=True)


def test_backports_are_a_source_only_where_wanted() -> None:
    assert any(image.BACKPORTS in line for line in image.sources(backports=True))
    assert not any(image.BACKPORTS in line for line in image.sources(backports=False))


def test_another_init_is_another_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = image.place()
    init = tmp_path / "init"
    init.write_text("#!/bin/sh\n")
    monkeypatch.setattr(image, "_INIT", init)
    assert image.place() != before


def test_missing_programs_are_one_line_with_the_remedy() -> None:
    with pytest.raises(UsageProblem, match=r"no-such-a, no-such-b \(sudo apt-get install .* pack\)$"):
        image.need({"no-such-a": "pack", "sh": "dash", "no-such-b": "pack"})


def test_build_falls_back_to_plain_debian_and_names_the_first_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr(image, "need", lambda _: None)
    tried: list[bool] = []

    def refuse(work: Path, *, backports: bool, as_root: bool, progress: object) -> Path:
        tried.append(backports)
        raise LabFault(f"no mirror {len(tried)}")

    monkeypatch.setattr(image, "_make", refuse)
    with pytest.raises(LabFault, match="no mirror 1"):
        image.build(lambda _: None)
    assert tried == [True, False]
    assert not [path for path in tmp_path.glob("guest-*") if path.is_dir()]


def test_a_damaged_image_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path))
    place = image.place()
    place.mkdir()
    (place / image.ROOT).write_bytes(b"file system")
    facts = {"kernel_release": "6.12", "iproute2": "6.15.0", "supports_seed": True, "suite": "bookworm"}
    store.write_manifest(place, facts, store.digests(place))
    found = image.find()
    assert found is not None
    assert found.supports_seed
    (place / image.ROOT).write_bytes(b"another one")
    assert image.find() is None
