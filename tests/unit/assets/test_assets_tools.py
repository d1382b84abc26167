"""Finding programs, and the messages for missing ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.assets import extracted as extracted_programs
from lab.assets import store, tools
from lab.model import files
from lab.model.errors import UsageProblem


@pytest.fixture
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No PATH, no usual folders, an empty cache."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tools, "_FOLDERS", ())
    monkeypatch.delenv(tools.SERVERS_VARIABLE, raising=False)
    return tmp_path


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def extracted(cache: Path, name: str) -> Path:
    place = cache / "extracted-test"
    program = executable(place / "usr/sbin" / name)
    store.write_manifest(place, {"programs": {name: f"usr/sbin/{name}"}, "packages": {}}, store.digests(place))
    return program


def test_names_are_unique() -> None:
    assert len({tool.name for tool in tools.TOOLS}) == len(tools.TOOLS)


def test_no_server_is_ever_installed() -> None:
    installed = tools.packages(tool for tool in tools.TOOLS if not tool.daemon)
    assert {"nginx", "sshd", "sftp-server"} == {tool.name for tool in tools.TOOLS if tool.daemon}
    assert not {"nginx", "openssh-server", "openssh-sftp-server"} & set(installed)


@pytest.mark.parametrize(
    ("variable", "packages", "remedy"),
    [
        (
            tools.PEERS_VARIABLE,
            {"lftp", "rclone", "rsync", "wget", "wget2", "aria2", "python3-requests", "python3-httpx"},
            "lftp, or make peers",
        ),
        (tools.BUILDERS_VARIABLE, {"cmake", "make", "ccache", "libssl-dev", "zlib1g-dev"}, "cmake, or make clients"),
        (tools.VMS_VARIABLE, {"qemu-system-x86", "e2fsprogs", "fakeroot", "uidmap"}, "qemu-system-x86, or make vm-proof"),
        (tools.RELEASE_VARIABLE, {"lintian"}, "lintian, or make release"),
        (tools.STANDARDS_VARIABLE, {"nftables"}, "nftables, or make bench-standards"),
        (
            tools.TESTERS_VARIABLE,
            {"chromium", "vagrant", "vagrant-libvirt", "rubocop", "shellcheck", "faketime", "g++"},
            "chromium, or make test",
        ),
    ],
)
def test_a_group_is_installed_only_on_request(
    empty_machine: Path, monkeypatch: pytest.MonkeyPatch, variable: str, packages: set[str], remedy: str
) -> None:
    for each in tools.EXTRAS.values():
        monkeypatch.delenv(each, raising=False)
    usual = set(tools.packages(tools.installable()))
    assert {"curl", "openssh-client", "mmdebstrap"} <= usual
    assert not ({"git", "nginx"} | packages) & usual
    monkeypatch.setenv(variable, "yes")
    assert set(tools.packages(tools.installable())) == usual | packages
    assert f"sudo apt-get install {remedy}" in map(tools.remedy, tools.TOOLS)


def test_a_missing_program_is_one_line_with_its_package(empty_machine: Path) -> None:
    with pytest.raises(UsageProblem) as caught:
        tools.require("iperf3")
    assert str(caught.value) == "iperf3 is not installed (lab doctor --fix, or sudo apt-get install iperf3)"
    assert caught.value.exit_code == 2


def test_missing_server_is_not_to_be_installed(empty_machine: Path) -> None:
    with pytest.raises(UsageProblem) as caught:
        tools.require("nginx")
    assert "apt-get install" not in str(caught.value)


def test_unknown_program_is_refused(empty_machine: Path) -> None:
    with pytest.raises(UsageProblem, match="no-such-client is not installed"):
        tools.require("no-such-client")


def test_path_comes_first_then_the_usual_folders(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = executable(empty_machine / "sbin" / "tc")
    monkeypatch.setattr(tools, "_FOLDERS", (str(empty_machine / "sbin"),))
    assert tools.find("tc") == system
    own = executable(empty_machine / "bin" / "tc")
    assert tools.find("tc") == own


def test_a_server_comes_from_the_cache_last_by_default(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = extracted(empty_machine / "cache", "nginx")
    assert tools.find("nginx") == cached
    machine = executable(empty_machine / "bin" / "nginx")
    assert tools.find("nginx") == machine
    monkeypatch.setenv(tools.SERVERS_VARIABLE, "cache")
    assert tools.find("nginx") == cached


def test_damaged_server_is_not_found(empty_machine: Path) -> None:
    extracted(empty_machine / "cache", "sshd").write_text("changed")
    assert tools.find("sshd") is None


def test_wrapper_sets_the_library_path_and_keeps_the_absolute_name(tmp_path: Path) -> None:
    binary = executable(tmp_path / "usr/sbin/sshd")
    binary.write_text('#!/bin/sh\necho "$0 $LD_LIBRARY_PATH $*"\n')
    extracted_programs._show(tmp_path, "sshd", binary, wrapped=True)
    wrapper = tmp_path / "shown" / "sshd"
    code, output = store.run([wrapper, "-t", "a b"])
    assert code == 0
    assert output.split("\n")[0] == f"{binary} {tmp_path}/lib-extra -t a b"
    # Results have the checksum of what was run: the script's differs where the program's does.
    assert files.digest(binary) in wrapper.read_text()


def test_ldd_reports_no_missing_library_of_a_sound_program(tmp_path: Path) -> None:
    assert extracted_programs.missing_libraries([Path("/bin/sh")], tmp_path) == []
