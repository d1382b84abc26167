"""ferry against OpenSSH, ProFTPD, dropbear and AsyncSSH: what arrives is what was sent, whatever its size, both ways."""

from __future__ import annotations

import pytest

from tests.engine.conftest import Fleet
from tests.engine.harness import failed
from tests.engine.sftp_harness import MIB, ONCE, SftpBench, content, digests, done, left_over, sha256
from tests.engine.sftp_servers import KINDS, SftpServer, openssh, person, running
from tests.support.tcp_proxy import proxy_to

KIB = 1024
# Around a request, a packet, a window.
SIZES = (0, 1, 255 * KIB - 1, 255 * KIB, 255 * KIB + 1, 2 * MIB + 1)
# Names that a URL, a shell or a line of a listing could read as something else.
NAMES = (
    "with space",
    "50%",
    "a%20b",
    "a#b",
    "q?x=y",
    "ü",
    ".hidden",
    "-dash",
    "a+b",
    "'quote\"",
    "back\\slash",
    "[x]*",
)


@pytest.fixture(params=sorted(KINDS))
def server(fleet: Fleet, request: pytest.FixtureRequest) -> SftpServer:
    return fleet[request.param]


def small_files(desk: SftpBench) -> dict[str, str]:
    """Fifty files in a tree with an empty folder; their digests by path, as `digests` tells them."""
    for number in range(50):
        folder = ("", "sub/", "sub/deeper/")[number % 3]
        desk.write(f"tree/{folder}file-{number:02}", content(number * 997, version=number))
    return digests(desk.folder / "tree")


@pytest.mark.parametrize("size", [0, 2 * MIB + 1], ids=["empty", "2MiB+1"])
def test_a_file_goes_there_and_back(desk: SftpBench, server: SftpServer, size: int) -> None:
    there = desk.remote(server) / "file"
    told = desk.put(desk.source(size), server, there)
    done(told)
    assert (told.transfer["direction"], told.transfer["bytes"], told.transfer["offset"]) == ("put", size, 0)
    assert digests(there.parent) == {"file": sha256(size)}
    told = desk.get(server, there, "--checksum", "sha256")
    done(told)
    assert (told.transfer["direction"], told.transfer["bytes"], told.transfer["size"]) == ("get", size, size)
    assert told.transfer["checksum"] == f"sha256:{sha256(size)}"
    assert desk.files() == {"source": sha256(size), "file": sha256(size)}
    ssh = told.report["ssh"]
    assert ssh["connections"] == 1
    assert ssh["auth"] == "publickey"
    assert ssh["host_key"].startswith("ssh-ed25519 SHA256:")
    assert ssh["server"]
    assert len(told.attempts) == 1


def test_odd_sizes(desk: SftpBench, server: SftpServer) -> None:
    for size in SIZES:
        desk.source(size, name=f"tree/{size}")
    expected = {str(size): sha256(size) for size in SIZES}
    there = desk.remote(server) / "tree"
    there.mkdir()
    there.chmod(0o777)
    done(desk.put(desk.folder / "tree", server, f"{there}/"))
    assert digests(there) == expected
    told = desk.get(server, there, "--recursive", output="back")
    done(told)
    assert digests(desk.folder / "back") == expected
    assert {transfer["size"] for transfer in told.report["transfers"]} == set(SIZES)


@pytest.mark.parametrize("size", SIZES)
def test_odd_sizes_one_by_one(desk: SftpBench, openssh: SftpServer, size: int) -> None:
    there = desk.remote(openssh) / "file"
    done(desk.put(desk.source(size), openssh, there))
    assert digests(there.parent) == {"file": sha256(size)}
    done(desk.get(openssh, there))
    assert desk.files()["file"] == sha256(size)


def test_a_set_goes_there_and_back(desk: SftpBench, server: SftpServer) -> None:
    expected = small_files(desk)
    there = desk.remote(server) / "tree"
    told = desk.put(desk.folder / "tree", server, f"{there}/")
    done(told)
    assert digests(there) == expected
    size = sum(number * 997 for number in range(50))
    assert (told.report["set"]["files"], told.report["set"]["bytes"]) == (50, size)
    assert len(told.report["transfers"]) == 50
    assert told.report["ssh"]["connections"] == 1
    told = desk.run("get", "-r", server.url(f"{there}/"), "--output", "back", *desk.trust(server))
    done(told)
    assert digests(desk.folder / "back") == expected
    assert (told.report["set"]["files"], told.report["set"]["bytes"]) == (50, size)
    assert told.report["set"]["total_s"] > 0


def test_64_mib_there_and_back(desk: SftpBench, server: SftpServer) -> None:
    size = 64 * MIB
    there = desk.remote(server) / "file"
    told = desk.put(desk.source(size), server, there, "--checksum", "sha256")
    done(told)
    assert told.transfer["checksum"] == f"sha256:{sha256(size)}"
    assert digests(there.parent) == {"file": sha256(size)}
    done(desk.get(server, there, "--checksum", f"sha256:{sha256(size)}"))
    assert desk.files()["file"] == sha256(size)


def test_a_download_is_resumed(desk: SftpBench, server: SftpServer) -> None:
    size = 8 * MIB
    there = desk.give(server, size)
    with proxy_to(server.port) as proxy:
        proxy.hold_after("down", size // 2)
        ferry = desk.start(*desk.get_words(server, there, *ONCE, port=proxy.port))
        proxy.wait_held()
        proxy.cut()
        told = ferry.told()
        failed(told, "transient", "--resume")
        assert told.attempts[-1]["bytes"] > 0
        assert "file" not in desk.files()
        told = desk.get(server, there, "--resume", "--checksum", "sha256", port=proxy.port)
    done(told)
    assert told.transfer["offset"] > 0
    assert told.transfer["checksum"] == f"sha256:{sha256(size)}"
    assert desk.files() == {"file": sha256(size)}


def test_an_upload_is_resumed(desk: SftpBench, server: SftpServer) -> None:
    """The last 32 MiB and a piece of what is there are sent again, and 32 MiB more may never have arrived."""
    size, held = 72 * MIB, 68 * MIB
    there = desk.remote(server) / "file"
    source = desk.source(size)
    with proxy_to(server.port) as proxy:
        proxy.hold_after("up", held)
        ferry = desk.start(*desk.put_words(source, server, there, *ONCE, port=proxy.port))
        proxy.wait_held()
        proxy.cut()
        failed(ferry.told(), "transient")
        assert not there.exists()
        told = desk.put(source, server, there, "--resume", port=proxy.port)
    done(told)
    assert held - 65 * MIB <= told.transfer["offset"] <= held - 32 * MIB
    assert told.transfer["offset"] + told.transfer["bytes"] == size
    assert digests(there.parent) == {"file": sha256(size)}


def test_a_server_that_says_goodbye_and_reads_no_more(desk: SftpBench, server: SftpServer) -> None:
    """If the server's window is large, ferry's write blocks for ever, and russh reads nothing while it does."""
    source = desk.source(48 * MIB)
    with proxy_to(server.port) as proxy:
        proxy.hold_after("up", MIB)
        ferry = desk.start(
            *desk.put_words(source, server, desk.remote(server) / "file", *ONCE, "--stall", "60s", port=proxy.port)
        )
        proxy.wait_held()
        proxy.say_goodbye()
        failed(ferry.told(), "transient")


def test_what_exists_is_replaced_when_that_is_asked_for(desk: SftpBench, server: SftpServer) -> None:
    there = desk.give(server, 3000, version=2)
    there.chmod(0o666)
    done(desk.put(desk.source(1000), server, there))
    assert digests(there.parent) == {"file": sha256(1000)}
    desk.write("file", b"mine")
    failed(desk.get(server, there), "local", "exists", "--overwrite")
    assert (desk.folder / "file").read_bytes() == b"mine"
    done(desk.get(server, there, "--overwrite"))
    assert desk.files()["file"] == sha256(1000)


def test_a_wrong_checksum(desk: SftpBench, server: SftpServer) -> None:
    there = desk.give(server, 300_000)
    failed(desk.get(server, there, "--checksum", f"sha256:{sha256(1)}"), "integrity", "checksum")
    assert desk.files() == {}


def test_what_is_not_there(desk: SftpBench, server: SftpServer) -> None:
    nothing = desk.remote(server) / "nothing"
    failed(desk.get(server, nothing), "permanent", "nothing")
    failed(desk.put(desk.source(1000), server, nothing / "file"), "permanent", "nothing")
    failed(desk.put(desk.source(300_000), server, nothing / "file"), "permanent", "nothing")
    assert "file" not in desk.files()


def test_odd_names(desk: SftpBench, server: SftpServer) -> None:
    for number, name in enumerate(NAMES):
        desk.write(f"tree/{name}", content(100 + number, version=number))
    expected = digests(desk.folder / "tree")
    there = desk.remote(server) / "tree"
    done(desk.put(desk.folder / "tree", server, f"{there}/"))
    assert digests(there) == expected
    done(desk.get(server, there, "-r", output="back"))
    assert digests(desk.folder / "back") == expected


def test_a_file_keeps_its_name_in_a_directory(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.remote(openssh)
    done(desk.put(desk.source(1000, name="with space"), openssh, f"{there}/"))
    assert digests(there) == {"with space": sha256(1000)}
    done(desk.run("get", openssh.url(f"{there}/with%20space"), "-o", "back", *desk.trust(openssh)))
    assert desk.files()["back"] == sha256(1000)


def test_ranges_and_buffers(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.give(openssh, 3 * MIB)
    done(desk.get(openssh, there, "--range", "1000000-1999999"))
    assert (desk.folder / "file").read_bytes() == content(3 * MIB)[1_000_000:2_000_000]
    for buffer in ("4KiB", "16MiB"):
        done(desk.get(openssh, there, "--buffer-size", buffer, "--overwrite"))
        assert desk.files()["file"] == sha256(3 * MIB)


def test_a_limit_brings_everything(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.give(openssh, 2 * MIB)
    told = desk.get(openssh, there, "--limit-rate", "8MB")
    done(told)
    assert desk.files() == {"file": sha256(2 * MIB)}
    assert told.transfer["limit_byte_s"] == 8_000_000
    done(desk.put(desk.source(2 * MIB), openssh, there, "--limit-rate", "8MB", "--no-sync"))
    assert digests(there.parent) == {"file": sha256(2 * MIB)}


@pytest.mark.parametrize("channels", ["1", "3"])
def test_a_late_answer_costs_only_time(desk: SftpBench, openssh: SftpServer, channels: str) -> None:
    """A server behind a relay: the round trip of TCP is short, that of SSH is long."""
    size = 8 * MIB
    there = desk.remote(openssh) / "file"
    with proxy_to(openssh.port, delay_s=0.025) as proxy:
        done(desk.put(desk.source(size), openssh, there, "--channels", channels, port=proxy.port))
        told = desk.get(openssh, there, port=proxy.port)
    done(told)
    assert digests(there.parent) == {"file": sha256(size)}
    assert desk.files()["file"] == sha256(size)


def test_a_server_that_allows_one_session(desk: SftpBench) -> None:
    server = openssh(desk.folder.parents[1], desk.keys, name="openssh-1-session", sessions=1)
    with running(server):
        small = small_files(desk)
        there = desk.remote(server) / "tree"
        told = desk.put(desk.folder / "tree", server, f"{there}/")
        done(told)
        assert told.report["ssh"]["channels"] == 1
        assert digests(there) == small
        done(desk.get(server, there, "-r", output="back"))
        assert digests(desk.folder / "back") == small


def test_a_server_that_may_open_few_files(desk: SftpBench) -> None:
    server = openssh(desk.folder.parents[1], desk.keys, name="openssh-48-files", open_files=48)
    with running(server):
        for number in range(200):
            desk.write(f"tree/{number:03}", content(500 + number))
        small = digests(desk.folder / "tree")
        there = desk.remote(server) / "tree"
        done(desk.put(desk.folder / "tree", server, f"{there}/"))
        assert digests(there) == small
        done(desk.get(server, there, "-r", output="back"))
        assert digests(desk.folder / "back") == small


def test_several_connections(desk: SftpBench, openssh: SftpServer) -> None:
    expected = small_files(desk)
    there = desk.remote(openssh) / "tree"
    told = desk.put(desk.folder / "tree", openssh, f"{there}/", "--connections", "3")
    done(told)
    assert 1 <= told.report["ssh"]["connections"] <= 3
    assert digests(there) == expected
    assert left_over(there) == []


def test_an_upload_has_the_access_of_any_new_file(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.remote(openssh) / "file"
    done(desk.put(desk.source(1000), openssh, there))
    assert there.stat().st_uid == person().uid
    assert there.stat().st_mode & 0o400
