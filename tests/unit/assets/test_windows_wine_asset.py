"""Wine's prefix and the script that stands for a Windows program. Wine is a script here, its template a folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab.assets import wine
from lab.model.errors import UsageProblem


def facts(tmp_path: Path) -> wine.WineFacts:
    """A Wine that prints its arguments, and a server that records them."""
    tmp_path.mkdir(exist_ok=True)
    loader, server = tmp_path / "wine64", tmp_path / "wineserver"
    loader.write_text('#!/bin/sh\necho "$WINEPREFIX|$WINEDEBUG|$WINEDLLOVERRIDES|${DISPLAY:-none}|$*"\n')
    server.write_text(f'#!/bin/sh\necho "$1 $WINEPREFIX" >>{tmp_path}/ended\n')
    for path in (loader, server):
        path.chmod(0o755)
    template = tmp_path / "made" / "prefix"
    (template / "drive_c").mkdir(parents=True)
    (template / "system.reg").write_text("registry")
    (template / "drive_c" / "kernel32.dll").symlink_to("/nonexistent/kernel32.dll")
    return wine.WineFacts(loader, server, "8.0", template)


def test_no_wine_is_one_line_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wine, "find_program", lambda: None)
    with pytest.raises(UsageProblem, match=r"Wine is not installed .*wine64"):
        wine.ensure(print)


def test_what_runs_in_a_prefix_sees_no_other_wine_and_no_screen(tmp_path: Path) -> None:
    made = wine.environment(tmp_path, {"WINEPREFIX": "/home/me/.wine", "WINEPATH": "x", "DISPLAY": ":0", "LANG": "C"})
    assert made["WINEPREFIX"] == str(tmp_path)
    assert not {"DISPLAY", "WINEPATH"} & set(made)
    assert made["LANG"] == "C"
    assert "winemenubuilder.exe=d" in made["WINEDLLOVERRIDES"]


def test_results_never_call_it_windows(tmp_path: Path) -> None:
    assert facts(tmp_path).label == "Wine 8.0, not Windows"


def test_a_prefix_is_a_copy_that_is_ended_and_gone(tmp_path: Path) -> None:
    made = facts(tmp_path)
    with wine.prefix(made, tmp_path / "run", owner=(os.geteuid(), os.getegid())) as place:
        assert (place / "system.reg").read_text() == "registry"
        assert (place / "drive_c" / "kernel32.dll").is_symlink()
        (place / "system.reg").write_text("changed")
    assert not (tmp_path / "run").exists()
    assert (made.template / "system.reg").read_text() == "registry"
    assert (tmp_path / "ended").read_text().splitlines() == [f"-k {tmp_path}/run", f"-w {tmp_path}/run"]


def test_what_a_server_leaves_in_tmp_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("wine-aB3dE6", "wine-other1", "precious"):
        (tmp_path / name).mkdir()
    for noted in ("wine-aB3dE6", "../precious"):
        with wine.prefix(facts(tmp_path / noted[-3:]), tmp_path / "run") as place:
            (place / "wineserver").write_text(noted)
    assert not (tmp_path / "wine-aB3dE6").exists()
    assert (tmp_path / "wine-other1").exists()
    assert (tmp_path / "precious").exists()


def test_a_prefix_is_ended_when_the_run_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), wine.prefix(facts(tmp_path), tmp_path / "run"):
        _ = 1 // 0
    assert (tmp_path / "ended").exists()


def test_the_script_runs_the_program_in_a_prefix_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "tool.exe"
    program.write_bytes(b"MZ")
    with wine.launcher(facts(tmp_path), program, tmp_path / "a folder") as script:
        assert script.name == "tool"
        environment = {**os.environ, "DISPLAY": ":0"}
        outs = [
            subprocess.run([script, "get", "two words"], capture_output=True, text=True, check=True, env=environment).stdout
            for _ in range(2)
        ]
        prefix, debug, overrides, display, words = outs[0].strip().split("|")
        assert outs[0] == outs[1]
        assert Path(prefix).parent == tmp_path / "a folder"
        assert (Path(prefix) / "system.reg").read_text() == "registry"
        assert (Path(prefix) / "drive_c" / "kernel32.dll").is_symlink()
        assert (debug, display, words) == ("-all", "none", f"{tmp_path}/a folder/tool.exe get two words")
        assert "winemenubuilder.exe=d" in overrides
    assert [path.name for path in (tmp_path / "a folder").glob("prefix-*.*")] == []
    assert (tmp_path / "ended").read_text().splitlines() == [f"-k {prefix}", f"-w {prefix}"]


def test_another_namespace_has_another_prefix(tmp_path: Path) -> None:
    probe = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*probe, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make namespaces")
    program = tmp_path / "tool.exe"
    program.write_bytes(b"MZ")
    with wine.launcher(facts(tmp_path), program, tmp_path / "folder") as script:
        here, there = (subprocess.run([*more, script], capture_output=True, text=True, check=True).stdout for more in ([], probe))
        assert here.split("|")[0] != there.split("|")[0]
