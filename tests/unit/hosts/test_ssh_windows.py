"""A Windows machine as a Host: the scripts by a grammar of PowerShell, the rest against a stand-in for `ssh`. No Windows here."""

from __future__ import annotations

import base64
import json
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_powershell
from hypothesis import given
from hypothesis import strategies as st

from lab.hosts.ssh.config import Target
from lab.hosts.ssh.connection import Connection
from lab.hosts.windows import powershell
from lab.hosts.windows.host import WORK_FOLDER, WindowsHost, open_windows
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import project_root
from tests.support.fake_windows import take_apart
from tests.support.waiting import until

FOLDERS = ("images/vagrant/windows", "lab/hosts/windows", ".ci")
SCRIPTS = sorted(script for folder in FOLDERS for script in project_root().glob(f"{folder}/*.ps1"))
FAKE = Path(__file__).parents[2] / "support" / "fake_windows.py"


def syntax_errors(text: str) -> list[str]:
    """Where the grammar does not follow, with what stands there."""
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    data = text.encode()

    def bad(node: tree_sitter.Node) -> list[str]:
        if node.type == "ERROR" or node.is_missing:
            return [f"{node.start_point}: {data[node.start_byte : node.end_byte][:60]!r}"]
        return [problem for child in node.children for problem in bad(child)]

    return bad(parser.parse(data).root_node)


def commands(text: str) -> set[str]:
    """Names of the commands that a script calls."""
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    found: set[str] = set()
    nodes = [parser.parse(text.encode()).root_node]
    while nodes:
        node = nodes.pop()
        if node.type == "command_name" and node.text:
            found.add(node.text.decode())
        nodes += node.children
    return found


class TestScripts:
    @pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
    def test_each_is_powershell(self, path: Path) -> None:
        assert syntax_errors(path.read_text()) == []

    @pytest.mark.parametrize("text", ["if ($x { y }", "Get-X | | Get-Y", "$x = 'abc"])
    def test_the_grammar_sees_errors(self, text: str) -> None:
        assert syntax_errors(text)

    @pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
    def test_each_is_ascii_and_stops_at_an_error(self, path: Path) -> None:
        # Windows PowerShell reads a file without a byte order mark in the machine's own code page.
        text = path.read_bytes().decode("ascii")
        assert "$ErrorActionPreference = 'Stop'" in text

    def test_routes_are_made_as_decided(self) -> None:
        text = (project_root() / "images/vagrant/windows/route.ps1").read_text()
        assert {"Get-NetAdapter", "New-NetRoute", "New-NetIPAddress", "Set-NetConnectionProfile"} <= commands(text)
        assert "'PersistentStore', 'ActiveStore'" in text
        assert "-NetworkCategory Private" in text

    def test_whatever_changes_something_was_asked_about_first(self) -> None:
        for name, asked in (("route.ps1", 8), ("provision.ps1", 7)):
            text = (project_root() / "images/vagrant/windows" / name).read_text()
            changing = [
                line for line in text.splitlines() if line.strip().startswith(("New-", "Set-N", "Set-Se", "Add-", "Start-"))
            ]
            assert text.count("$changed +=") >= asked
            assert all(line.startswith(" ") for line in changing), "a change that no condition guards"


# What a shell on the way, or PowerShell, could take for something else.
NASTY = st.text(st.sampled_from("ab '\"$`%^&|<>;(){}[]\\/\u2018\u2019\u201a\u201b\n-é"), max_size=20)


class TestQuoting:
    @given(NASTY)
    def test_a_literal_is_one_string_of_that_text(self, text: str) -> None:
        quoted = powershell.literal(text)
        assert syntax_errors(f"$x = {quoted}\n") == []
        inside = quoted[1:-1]
        for quote in "'\u2018\u2019\u201a\u201b":
            assert inside.count(quote) == 2 * text.count(quote)
            inside = inside.replace(quote * 2, quote)
        assert inside == text

    def test_a_nul_is_refused(self) -> None:
        with pytest.raises(ValueError, match="NUL"):
            powershell.literal("a\0b")
        with pytest.raises(ValueError, match="NUL"):
            powershell.arguments(["a\0b"])

    @given(st.text(max_size=40).filter(lambda text: "\0" not in text))
    def test_a_command_line_has_nothing_a_shell_would_read(self, value: str) -> None:
        words = powershell.boot_command({"Mac": value}).split(" ")
        assert words[0] == "powershell.exe"
        assert words[:-1] == powershell.encoded_command("").split(" ")[:-1]
        assert base64.b64decode(words[-1], validate=True).decode("utf-16-le", "surrogatepass").startswith("$s=")

    def test_it_is_short_enough_for_cmd(self) -> None:
        assert len(powershell.boot_command({"Mac": "02:54:4c:01:00:04", "WorkFolder": WORK_FOLDER})) < 2000

    def test_arguments_are_quoted_as_the_c_runtime_takes_them_apart(self) -> None:
        # Microsoft, "Parsing C++ command-line arguments".
        assert powershell.arguments(["a b", 'c"d', "e\\", "f g\\", ""]) == '"a b" c\\"d e\\ "f g\\\\" ""'

    def test_the_boot_script_is_powershell(self) -> None:
        text = base64.b64decode(powershell.boot_command({"Mac": "a'b"}).split(" ")[-1]).decode("utf-16-le")
        assert syntax_errors(text) == []
        assert text.endswith(" -Mac 'a''b'")


FACTS = {
    "caption": "Microsoft Windows 11 Enterprise Evaluation",
    "build": "26100.4349",
    "architecture": "AMD64",
    "nic": "Red Hat VirtIO Ethernet Adapter",
    "licence_status": 1,
    "licence_minutes_left": 129600,
}


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], WindowsHost]:
    """Makes a host whose `ssh` and `sftp` are the stand-in's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("ssh", "sftp"):
        (folder / name).write_text(f'#!/bin/sh\nFAKE_NAME={name} exec "{sys.executable}" "{FAKE}" "$@"\n')
        (folder / name).chmod(0o755)
    (tmp_path / "drive").mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("FAKE_DRIVE", str(tmp_path / "drive"))
    monkeypatch.setenv("FAKE_FACTS", json.dumps({**FACTS, "utc_ms": round(time.time() * 1000)}))
    known = tmp_path / "known_hosts"
    known.touch()
    target = Target("windows-11", "127.0.0.1", "vagrant", 2200, (), str(known))
    return lambda: WindowsHost(Connection(target), "client", "10.77.1.4", "02:54:4c:01:00:04")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the stand-in says that it is AMD64")
class TestHost:
    def test_a_command_runs_with_its_input_and_its_environment(self, windows: Callable[[], WindowsHost]) -> None:
        done = windows().run(["sh", "-c", 'cat; echo "$NAME" >&2; exit 3'], stdin=b"in\n", env={"NAME": "a b"}, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (3, b"in\n", b"a b\n")
        assert (done.user_s, done.system_s, done.max_rss_bytes) == (0.25, 0.125, 1 << 20)

    def test_its_times_are_the_labs(self, windows: Callable[[], WindowsHost], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAKE_CLOCK_NS", str(-(10**15)))
        before = time.monotonic_ns()
        done = windows().run(["true"])
        assert before < done.started_ns <= done.ended_ns <= time.monotonic_ns()

    def test_a_command_that_is_not_there(self, windows: Callable[[], WindowsHost]) -> None:
        assert windows().run(["no-such-program"], check=False).returncode == 127

    def test_a_failure_is_a_fault_with_its_words(self, windows: Callable[[], WindowsHost]) -> None:
        with pytest.raises(LabFault, match=r"client: `sh -c .* failed \(7\): why"):
            windows().run(["sh", "-c", "echo why >&2; exit 7"])

    def test_a_command_that_takes_too_long(self, windows: Callable[[], WindowsHost]) -> None:
        assert windows().run(["sleep", "60"], timeout_s=0.2, check=False).timed_out

    def test_one_in_the_background_is_stopped(self, windows: Callable[[], WindowsHost], tmp_path: Path) -> None:
        process = windows().start(["sh", "-c", "echo begun; exec sleep 60"], stdout=tmp_path / "out")
        until(lambda: process._pid is not None, "it has a process id", 20)
        assert process.running()
        assert process.stop().returncode != 0
        assert (tmp_path / "out").read_text() == "begun\n"

    def test_files_are_copied_both_ways(self, windows: Callable[[], WindowsHost], tmp_path: Path) -> None:
        host = windows()
        for data in (b"first", bytes(range(256)) * 100):
            host.write(host.workdir / "out" / "a file", data)
            assert host.read(host.workdir / "out" / "a file") == data
        assert [path.name for path in (tmp_path / "drive").rglob("*") if path.is_file()] == ["a file"]

    def test_a_file_that_is_not_there(self, windows: Callable[[], WindowsHost]) -> None:
        with pytest.raises(LabFault, match=r"windows-11: a file cannot be copied: .*No such file"):
            windows().read("C:\\roughwater\\none")

    def test_facts_and_what_they_are_asked_with(self, windows: Callable[[], WindowsHost], tmp_path: Path) -> None:
        assert windows().machine_facts()["build"] == "26100.4349"
        asked = json.loads((tmp_path / "log").read_text().splitlines()[-1])
        assert asked["boot"].endswith(f" -Mac '02:54:4c:01:00:04' -WorkFolder '{WORK_FOLDER}'")

    @pytest.mark.parametrize(
        ("change", "kind", "told"),
        [
            ({"architecture": "ARM64"}, UsageProblem, "is ARM64, and the lab's programs are built for x86_64"),
            ({"utc_ms": 1_000_000_000_000}, LabFault, "behind of the lab's"),
            ({"licence_status": 5, "licence_minutes_left": 0}, LabFault, "evaluation licence .* has expired"),
        ],
    )
    def test_a_machine_that_is_not_fit_is_refused(
        self,
        windows: Callable[[], WindowsHost],
        monkeypatch: pytest.MonkeyPatch,
        change: dict[str, object],
        kind: type[Exception],
        told: str,
    ) -> None:
        monkeypatch.setenv("FAKE_FACTS", json.dumps({**FACTS, "utc_ms": round(time.time() * 1000), **change}))
        with pytest.raises(kind, match=told):
            windows().assert_fit()

    def test_a_fit_machine_is_opened(self, windows: Callable[[], WindowsHost]) -> None:
        host, facts = open_windows(windows().connection, name="client", address="10.77.1.4")
        assert facts["nic"] == "Red Hat VirtIO Ethernet Adapter"
        host.close()

    def test_facts_that_are_not_json(self, windows: Callable[[], WindowsHost], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAKE_FACTS", "At line:1 char:1")
        with pytest.raises(LabFault, match=r"answer of facts\.ps1 is not JSON: 'At line:1 char:1"):
            windows().machine_facts()

    def test_a_machine_that_refuses_says_so_in_one_line(
        self, windows: Callable[[], WindowsHost], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FAKE_REFUSES", "vagrant@127.0.0.1: Permission denied (publickey).")
        for ask in (lambda: windows().run(["true"]), lambda: windows().machine_facts()):
            with pytest.raises(LabFault, match=r"windows-11: vagrant@127.0.0.1:2200 refuses the login"):
                ask()

    def test_a_program_that_is_not_there(self, windows: Callable[[], WindowsHost]) -> None:
        with pytest.raises(UsageProblem, match=r"ferry\.exe is not on machine client"):
            windows().program("ferry.exe")


@given(st.lists(st.text(st.sampled_from('ab \\"\t'), max_size=8), min_size=1, max_size=4))
def test_arguments_survive_the_c_runtimes_rules(words: list[str]) -> None:
    assert take_apart(powershell.arguments(words)) == words


def test_subprocess_is_the_real_one() -> None:
    """The quoting is the standard library's for Windows; on Linux it is there all the same."""
    assert subprocess.list2cmdline(["a b"]) == '"a b"'
    assert shlex.split(powershell.arguments(["a b"])) == ["a b"]
