"""Container images: layers laid over each other, owners, users, and what no image may do to this machine's files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from lab.assets import oci, userlands
from lab.model.errors import UsageProblem
from lab.model.image import ImageConfig, Owner
from tests.support.made_image import Entry, laid_out, saved

PASSWD = Entry("etc/passwd", b"root:x:0:0::/:/bin/sh\nweb:x:33:34::/:/bin/sh\n")
GROUP = Entry("etc/group", b"root:x:0:\nextra:x:50:\n")
Made = tuple[Path, ImageConfig]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))


@pytest.fixture(name="unpacked", params=[saved, laid_out], ids=["saved", "layout"])
def unpacker(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Made]:
    def unpack(*layers: Iterable[Entry], **config: Any) -> Made:
        return oci.unpack(request.param(tmp_path / "image", layers, config), lambda _: None)

    return unpack


def files(root: Path) -> dict[str, str]:
    """Contents by path; `-> TARGET` of a link."""
    paths = [path for path in sorted(root.rglob("*")) if path.is_symlink() or path.is_file()]
    return {str(path.relative_to(root)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text() for path in paths}


def test_a_layer_replaces_removes_and_empties(unpacked: Callable[..., Made]) -> None:
    root, _ = unpacked(
        [Entry("a/"), Entry("a/one", b"1"), Entry("a/two", b"2"), Entry("b/"), Entry("b/old", b"x"), Entry("c", b"c")],
        [
            Entry("a/.wh.one"),
            Entry("b/new", b"y"),
            Entry("b/.wh..wh..opq"),
            Entry("a/two", b"22"),
            Entry("c/"),
            Entry("c/d", b"d"),
        ],
    )
    assert files(root) == {"a/two": "22", "b/new": "y", "c/d": "d"}


def test_a_path_goes_through_links_of_the_root_and_never_leaves_it(unpacked: Callable[..., Made], tmp_path: Path) -> None:
    """`/var/run` is a link to `/run` in many images, and an absolute one."""
    outside = tmp_path / "outside"
    outside.mkdir()
    root, _ = unpacked(
        [
            Entry("run/"),
            Entry("var/"),
            Entry("var/run", link="/run"),
            Entry("out", link=str(outside)),
            Entry("up", link="../../.."),
        ],
        [Entry("var/run/it.pid", b"1"), Entry("out/x", b"2"), Entry("up/y", b"3"), Entry("same", hard="var/run/it.pid")],
    )
    assert not [*outside.iterdir()]
    found = files(root)
    assert found["run/it.pid"] == found["same"] == "1"
    assert found[str(outside / "x").lstrip("/")] == "2"
    assert found["y"] == "3"


@pytest.mark.parametrize("name", ["../x", "a/../../x"])
def test_a_name_that_leaves_the_image_is_refused(unpacked: Callable[..., Made], name: str) -> None:
    with pytest.raises(UsageProblem, match="leaves the image"):
        unpacked([Entry(name, b"x")])


def test_a_circle_of_links_is_refused(unpacked: Callable[..., Made]) -> None:
    with pytest.raises(UsageProblem, match="too many links"):
        unpacked([Entry("a", link="b"), Entry("b", link="a"), Entry("a/x", b"")])


def test_its_configuration_says_how_it_runs(unpacked: Callable[..., Made]) -> None:
    config = {
        "Entrypoint": ["/serve"],
        "Cmd": ["80"],
        "Env": ["PATH=/opt/bin", "EMPTY="],
        "WorkingDir": "/srv",
        "User": "web",
        "ExposedPorts": {"80/tcp": {}, "53/udp": {}, "8080/tcp": {}},
    }
    _, found = unpacked([PASSWD, Entry("srv/", uid=33, gid=34), Entry("srv/x", b"", uid=33, gid=34), Entry("own", b"")], **config)
    assert (found.argv, found.folder, found.ports) == (("/serve", "80"), "/srv", (80, 8080))
    assert found.environment == {"PATH": "/opt/bin", "EMPTY": ""}
    assert (found.uid, found.gid) == (33, 34)
    assert found.owners == (Owner("srv", 33, 34), Owner("srv/x", 33, 34))


@pytest.mark.parametrize(
    ("user", "ids"),
    [("", (0, 0)), ("root", (0, 0)), ("web:extra", (33, 50)), ("33", (33, 34)), ("1000", (1000, 0)), ("1000:1001", (1000, 1001))],
)
def test_the_user_is_the_images_own(unpacked: Callable[..., Made], user: str, ids: tuple[int, int]) -> None:
    _, found = unpacked([PASSWD, GROUP], User=user)
    assert (found.uid, found.gid) == ids


def test_a_user_that_the_image_does_not_have_is_refused(unpacked: Callable[..., Made]) -> None:
    with pytest.raises(UsageProblem, match="its user nosuch is not in its /etc/passwd"):
        unpacked([PASSWD], User="nosuch")


@pytest.mark.parametrize("made", ["nothing", "text", "tar"])
def test_a_file_that_is_not_an_image_is_one_line(tmp_path: Path, made: str) -> None:
    path = tmp_path / "it"
    if made == "text":
        path.write_text("no tar")
    if made == "tar":
        saved(path, [])
        path.write_bytes(path.read_bytes().replace(b"manifest.json", b"manifest.jsox"))
    with pytest.raises(UsageProblem) as problem:
        oci.unpack(path, lambda _: None)
    assert "docker save" in str(problem.value)
    assert "\n" not in str(problem.value)
    assert not [*(tmp_path / "cache").glob("image-*/root")]


def test_the_digest_covers_files_and_how_the_image_runs(tmp_path: Path) -> None:
    def digest(name: str, content: bytes, **config: Any) -> str:
        path = saved(tmp_path / name, [[Entry("bin/"), Entry("bin/it", content)]], config)
        return userlands.get(f"{oci.PREFIX}{path}", lambda _: None).facts.digest

    one = digest("one.tar", b"1", Cmd=["/bin/it"])
    assert one == digest("same.tar", b"1", Cmd=["/bin/it"])
    assert len({one, digest("a.tar", b"2", Cmd=["/bin/it"]), digest("b.tar", b"1", Cmd=["/bin/it", "-v"])}) == 3
