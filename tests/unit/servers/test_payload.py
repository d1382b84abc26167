"""Payloads are determined by size and seed alone."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import pytest

from lab.hosts.payload_script import BLOCK_BYTES, blocks
from lab.model.errors import LabFault
from lab.servers.payload import payload_name, payload_sha256, write_payload
from tests.support.local_host import LocalHost


@pytest.mark.parametrize(
    ("size", "name"),
    [(5 << 20, "5MiB"), (100 << 10, "100KiB"), (1_999_999, "1999999B"), (1 << 30, "1GiB"), (0, "0B"), (1536 << 10, "1536KiB")],
)
def test_name_is_the_size(size: int, name: str) -> None:
    assert payload_name(size) == name


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1])
def test_size_is_exact_and_a_shorter_payload_is_a_prefix(size: int) -> None:
    made = b"".join(blocks(size, 1))
    assert len(made) == size
    assert b"".join(blocks(size + 10, 1))[:size] == made


def test_content_does_not_compress_and_follows_the_seed() -> None:
    made = b"".join(blocks(100_000, 1))
    assert len(zlib.compress(made)) > 99_000
    assert payload_sha256(100_000, 1) != payload_sha256(100_000, 2)


def test_host_writes_what_the_lab_expects(tmp_path: Path) -> None:
    payload = write_payload(LocalHost("server", tmp_path), 70_000)
    content = Path(payload.path).read_bytes()
    assert (payload.size, payload.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert payload.sha256 == payload_sha256(70_000)


def test_no_room_is_the_labs_fault(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("in the way")
    with pytest.raises(LabFault, match="could not be written"):
        write_payload(LocalHost("server", tmp_path), 10)
