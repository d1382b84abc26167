"""The archive must be what the kernel reads, and the same bytes each time. The machine's own cpio is the judge if present."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from lab.assets import cpio

ENTRIES = [
    cpio.file("bin/hello", b"#!/bin/sh\n", executable=True),
    cpio.directory("bin"),
    cpio.file("odd-length", b"12345"),
    cpio.character_device("console", 5, 1),
]


def test_order_of_entries_does_not_show() -> None:
    assert cpio.archive(ENTRIES) == cpio.archive(reversed(ENTRIES))


def test_everything_is_aligned_to_four_bytes() -> None:
    assert len(cpio.archive(ENTRIES)) % 4 == 0
    assert cpio.archive(ENTRIES).startswith(b"070701")


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        cpio.archive([cpio.directory("bin"), cpio.file("bin", b"")])


@pytest.mark.skipif(shutil.which("cpio") is None, reason="no cpio on this machine to read the archive with")
def test_cpio_reads_it() -> None:
    listing = subprocess.run(["cpio", "-tvn"], input=cpio.archive(ENTRIES), capture_output=True, check=True).stdout.decode()
    rows = {line.split()[-1]: line.split() for line in listing.splitlines()}
    assert list(rows) == ["bin", "bin/hello", "console", "odd-length"]
    assert rows["bin/hello"][0] == "-rwxr-xr-x"
    assert rows["odd-length"][4] == "5"
    assert rows["console"][0].startswith("c")
    assert rows["console"][4:6] == ["5,", "1"]
