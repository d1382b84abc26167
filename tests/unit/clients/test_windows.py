"""Windows programs as clients: how they are recognised, what runs them, their labels, and the messages where they cannot run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.assets import windows as build
from lab.assets import wine
from lab.clients import windows
from lab.clients.ferry import Ferry
from lab.clients.registry import adapter_for, parse_client, resolve
from lab.model.errors import UsageProblem
from lab.model.results import ClientIdentity
from tests.support.local_host import LocalHost

MISSING_WINE = "is a Windows program: Wine is not installed"


def windows_program(offset: int = 0x80) -> bytes:
    """The smallest Windows program: a DOS header that points to a PE header."""
    header = b"MZ" + bytes(0x3A) + offset.to_bytes(4, "little")
    return header + bytes(offset - len(header)) + b"PE\0\0" + bytes(20)


FAKE_LOADER = """\
#!/bin/sh
# Instead of Wine: says what it was given.
if [ "$1" = --version ]; then echo "wine-8.0 (Debian 8.0~repack-4)"; exit; fi
echo "ferry 0.9.0 by $(basename "$1") in $(basename "$WINEPREFIX") with $(cat "$WINEPREFIX/system.reg") and $2"
"""
FAKE_SERVER = """\
#!/bin/sh
echo "$1" >>"$WINEPREFIX/../../../../asked"
"""


@pytest.fixture
def fake_wine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> wine.WineFacts:
    loader, server, template = tmp_path / "wine64", tmp_path / "wineserver", tmp_path / "template"
    for path, text in ((loader, FAKE_LOADER), (server, FAKE_SERVER)):
        path.write_text(text)
        path.chmod(0o755)
    template.mkdir()
    (template / "system.reg").write_text("registry")
    facts = wine.WineFacts(loader, server, "8.0", template)
    monkeypatch.setattr(wine, "ensure", lambda _: facts)
    return facts


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "ferry.exe"
    path.write_bytes(windows_program())
    return path


class Namespace(LocalHost):
    """Its files are this machine's, and its network ends what it started."""

    ends_orphans = True


class Container(LocalHost):
    shares_files = False


@pytest.mark.parametrize(
    ("image", "is_one"),
    [
        (windows_program(), True),
        (windows_program(0x200), True),
        (b"", False),
        (b"MZ", False),
        (b"MZ" + bytes(200), False),
        (windows_program()[:0x80], False),
        (b"\x7fELF" + bytes(200), False),
        (b"#!/bin/sh\nexec MZ\n", False),
        (b"MZ" + bytes(0x3A) + b"\xff\xff\xff\xff", False),
    ],
    ids=["least", "far", "empty", "mark", "dos", "cut", "elf", "script", "points-nowhere"],
)
def test_a_windows_program_is_known_by_its_first_bytes(tmp_path: Path, image: bytes, is_one: bool) -> None:
    assert windows.is_windows_program(image) is is_one
    path = tmp_path / "program"
    path.write_bytes(image)
    assert windows.is_windows_file(path) is is_one


def test_an_unreadable_file_is_not_one(tmp_path: Path) -> None:
    assert not windows.is_windows_file(tmp_path)
    assert not windows.is_windows_file(tmp_path / "missing")


def test_the_stand_in_runs_it_in_a_prefix_of_its_own(fake_wine: wine.WineFacts, program: Path, tmp_path: Path) -> None:
    host = Namespace("client", tmp_path / "client")
    found = Ferry("ferry", str(program)).identify(host)
    place = tmp_path / "client" / "bin" / "ferry"
    assert found.path == str(place / "ferry.exe")
    assert (place / "ferry.exe").read_bytes() == program.read_bytes()
    prefix = next(place.glob("prefix-*"))
    assert found.version == f"ferry 0.9.0 by ferry.exe in {prefix.name} with registry and --version under Wine 8.0, not Windows"
    assert found.notes == [windows.note(fake_wine.label)]
    assert (tmp_path / "asked").read_text().split() == ["-p"], "started before the first sample, and kept"
    assert windows.system_of(found) == "Wine 8.0, not Windows"
    done = subprocess.run([place / "ferry", "get"], capture_output=True, text=True, check=True)
    assert f"in {prefix.name} with registry and get" in done.stdout
    assert "DISPLAY" not in (place / "ferry").read_text().replace("unset DISPLAY WAYLAND_DISPLAY", "")


def test_on_this_machine_itself_the_server_is_ended(fake_wine: wine.WineFacts, program: Path, tmp_path: Path) -> None:
    del fake_wine
    Ferry("ferry", str(program)).identify(LocalHost("client", tmp_path / "client"))
    assert (tmp_path / "asked").read_text().split() == ["-k"]


def test_a_program_of_linux_is_run_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "ferry"
    path.write_text("#!/bin/sh\necho ferry 1\n")
    path.chmod(0o755)
    found = Ferry("ferry", str(path)).identify(LocalHost("client", tmp_path / "client"))
    assert (found.version, found.notes, windows.system_of(found)) == ("ferry 1", [], None)


@pytest.mark.parametrize(
    ("version", "system"),
    [
        ("ferry 0.1.0 under Wine 8.0, not Windows", "Wine 8.0, not Windows"),
        ("ferry 0.1.0 under Wine 10.0, not Windows", "Wine 10.0, not Windows"),
        ("ferry 0.1.0", None),
        ("Wine 8.0, not Windows", None),
    ],
)
def test_the_version_names_the_system(version: str, system: str | None) -> None:
    identity = ClientIdentity(name="x", version=version, path="/x", sha256="0" * 64, command=[])
    assert windows.system_of(identity) == system


def test_hosts_with_files_of_their_own_cannot(program: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="only where hosts are namespaces of this machine") as caught:
        Ferry("ferry", str(program)).identify(Container("client", tmp_path / "client"))
    assert "--backend namespaces" in caught.value.remedy


def test_without_wine_one_line_says_what_to_install(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wine, "find_program", lambda: None)
    with pytest.raises(UsageProblem, match=MISSING_WINE) as caught:
        Ferry("ferry", str(program)).identify(Namespace("client", tmp_path / "client"))
    assert caught.value.remedy == wine.remedy()


@pytest.mark.parametrize("text", ["ferry.exe", "ferry=ferry.exe", "ferry=./target/windows/ferry.exe"])
def test_without_ferry_exe_one_line_says_how_to_build_it(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(build, "find", lambda: None)
    with pytest.raises(UsageProblem, match=r"ferry\.exe") as caught:
        resolve(parse_client(text)).identify(LocalHost("client", tmp_path / "client"))
    assert caught.value.remedy == "make ferry-windows"


def test_the_bare_name_is_the_checkouts_build(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "find", lambda: program)
    monkeypatch.setattr(wine, "find_program", lambda: None)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(UsageProblem, match=MISSING_WINE):
        resolve(parse_client("ferry.exe")).identify(Namespace("client", tmp_path / "client"))


def test_ferry_is_the_only_windows_program_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "curl.exe"
    path.write_bytes(windows_program())
    with pytest.raises(UsageProblem, match="of those only ferry runs here"):
        adapter_for("curl", str(path))
    assert adapter_for("ferry", str(path)).name == "ferry"
