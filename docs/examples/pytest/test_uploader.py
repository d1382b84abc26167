"""My uploader resumes on a bad 4G link."""

import sys
from pathlib import Path

import pytest

UPLOADER = Path(__file__).with_name("uploader.py")
FILM = bytes(range(256)) * 8192  # 2 MiB


@pytest.mark.lab_link("lte", loss="1 %")
def test_my_uploader_resumes(lab_link, lab_server, lab_transfer):
    film = lab_transfer.put("film.bin", FILM)
    lab_link.cut("20 s", after="1 s")
    done = lab_transfer([sys.executable, UPLOADER, film, lab_server.upload_url("film.bin")])
    assert done.exit_code == 0, done.stderr
    assert b"".join(lab_server.uploaded(f"film.bin.{number:04}") for number in range(8)) == FILM
    assert done.seconds > 20, "the link was not cut"
    assert done.up.payload_bytes < 1.3 * len(FILM), "it began again instead of going on"


@pytest.mark.lab_link(rate="50 Mbit/s", rtt="20 ms")
def test_curl_keeps_its_limit(assert_limit_kept):
    assert_limit_kept("curl", limit="1 MB/s", size="2 MB", direction="put")


@pytest.mark.parametrize("lab_link", ["dsl-20", "lte", {"rate": "2 Mbit/s", "rtt": "600 ms"}], indirect=True)
def test_a_download_is_complete_on_every_link(lab_server, lab_transfer):
    offered = lab_server.offer("300 kB")
    done = lab_transfer(f"curl -sS -f -o got {offered.https}")
    assert done.exit_code == 0, done.stderr
    assert len(lab_transfer.read("got")) == offered.size
