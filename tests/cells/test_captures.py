"""A capture of a transfer over TLS can be read: the keys of its connections lie next to it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from lab.store.run_dir import RunDir
from tests.support.command import lab
from tests.support.tls_capture import answers

CELLS = {"https1": b"HTTP/1.1 200 OK\r\n", "h2": b"\0\0"}
"""What a server's first bytes are: a status line, the length of a SETTINGS frame."""


@pytest.mark.parametrize("client", ["ferry", "curl"])
def test_the_bodies_of_a_capture_can_be_decrypted(client: str, tmp_path: Path) -> None:
    names = {protocol: f"{client}--dsl-50--{protocol}-get-200kB-at-1MBps" for protocol in CELLS}
    done = lab(
        "run", *names.values(), "--clock", "virtual", "--pcap", "--max-samples", "5", env={"ROUGHWATER_RESULTS": str(tmp_path)}
    )
    assert done.returncode in (0, 1), done.stderr
    run = RunDir.find("latest", results=tmp_path)
    for protocol, name in names.items():
        folder = run.evidence(name)
        keys = sorted(folder.glob("*.keys"))
        assert [path.stem for path in keys] == [path.stem for path in sorted(folder.glob("*.pcap"))]
        plain = answers(folder / "sample-000.pcap", keys[0])
        assert plain.startswith(CELLS[protocol])
        assert len(plain) > 200_000, "the body, too"
        assert keys[0].stat().st_mode & 0o077 == 0
        assert not _told(run, keys[0].read_text().split()[2], done.stdout + done.stderr), "keys are in no other file"
    packed = tmp_path / "cell.zip"
    assert lab("bundle", names["h2"], "--run", str(run.path), "-o", str(packed)).returncode == 0
    assert "pcap/sample-000.keys" in zipfile.ZipFile(packed).namelist()


def _told(run: RunDir, secret: str, said: str) -> list[str]:
    texts = {
        str(path): path.read_bytes() for path in run.path.rglob("*") if path.is_file() and path.suffix not in {".keys", ".pcap"}
    }
    return [name for name, text in {"the terminal": said.encode(), **texts}.items() if secret.encode() in text]
