"""ferry's configuration file: what it changes, what it must not break, and that the lab never reads one."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.clients.ferry import CONFIG_VARIABLE, Ferry, find_ferry
from lab.hosts.host import Completed
from lab.model.endpoints import Endpoints
from lab.model.transfer import Transfer
from lab.model.units import Size
from tests.engine.harness import ONCE, Told, is_one_clear_line
from tests.engine.sftp_harness import SftpBench, done, sha256
from tests.engine.sftp_servers import SftpServer
from tests.support.hostile_http import HostileServer, Talk, head, serve
from tests.support.local_host import LocalHost

BODY = bytes(range(256)) * 100


def config(folder: Path, text: str, mode: int = 0o644) -> Path:
    """The user's file, for `environment`."""
    path = folder / "own/ferry/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def environment(folder: Path) -> dict[str, str]:
    """A user's, who has a file."""
    without = {name: value for name, value in os.environ.items() if name != CONFIG_VARIABLE}
    return {**without, "XDG_CONFIG_HOME": str(folder / "own"), "APPDATA": str(folder / "own"), "HOME": str(folder)}


def run(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(find_ferry()), *words]
    env = {**environment(folder), **(env or {})}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


def get(folder: Path, server: HostileServer, *words: str) -> Told:
    ended = run(folder, "get", server.url(), "-o", "file", *server.trust(), "--json=-", *words)
    return Told.of(Completed((), ended.returncode, ended.stdout.encode(), ended.stderr.encode(), 0, 0, 0.0, 0.0))


def answering(talk: Talk, server: HostileServer) -> None:
    server.requests.append(talk.request())
    talk.send(head("200 OK", len(BODY), "Connection: close") + BODY)


def refused(folder: Path, *telling: str, words: tuple[str, ...] = (), env: Mapping[str, str] | None = None) -> None:
    ended = run(folder, "get", "http://127.0.0.1:1/x", "-o", "file", *words, env=env)
    assert ended.returncode == 2, ended
    is_one_clear_line(ended.stderr, *telling)


def values(folder: Path, *words: str) -> dict[str, dict[str, Any]]:
    """What `ferry config` says."""
    ended = run(folder, "config", "--json", *words)
    assert ended.returncode == 0, ended.stderr
    return {row["key"]: row for row in json.loads(ended.stdout)["values"]}


def test_a_limit_of_the_hosts_table_is_kept_and_a_typed_one_comes_first(tmp_path: Path) -> None:
    host = "[host.\"127.*\"]\nlimit-rate = '3 MB/s'\nheader = ['X-From: file']\n"
    config(tmp_path, f"limit-rate = '4 MB/s'\noverwrite = true\n{host}")
    with serve(answering) as server:
        options: list[tuple[str, ...]] = [(), ("--limit-rate", "5MB/s"), ("--no-config", "--overwrite")]
        found = [get(tmp_path, server, *words) for words in options]
    assert [told.transfer["limit_byte_s"] for told in found] == [3_000_000, 5_000_000, None]
    assert ["x-from: file" in asked.lower() for asked in server.requests] == [True, True, False]
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_login_goes_to_its_host_and_to_no_other(tmp_path: Path) -> None:
    config(tmp_path, "[host.\"127.0.0.1\"]\ntoken-file = 'token'\n")
    (tmp_path / "own/ferry/token").write_text("t0ken\n", encoding="utf-8")
    (tmp_path / "own/ferry/token").chmod(0o600)
    with serve(answering) as server:
        assert get(tmp_path, server).code == 0
        elsewhere = server.url().replace("127.0.0.1", "localhost")
        assert run(tmp_path, "get", elsewhere, "--discard", "--resolve", f"localhost:{server.port}:127.0.0.1").returncode == 0
    assert ["authorization: bearer t0ken" in asked.lower() for asked in server.requests] == [True, False]


def test_flags_of_one_kind_of_server_do_not_break_a_transfer_with_the_other(
    tmp_path: Path, desk: SftpBench, openssh: SftpServer
) -> None:
    http = "http2 = true\nheader = ['X-A: b']\ncompressed = true\nmax-redirects = 2\nnetrc = true\n"
    path = config(tmp_path, f"{http}perms = true\nchannels = 3\nno-sync = true\n")
    with serve(answering) as server:
        (tmp_path / ".netrc").write_text("machine elsewhere login a password b\n", encoding="utf-8")
        (tmp_path / ".netrc").chmod(0o600)
        assert get(tmp_path, server).code == 0
    there = desk.give(openssh, 30_000)
    named = desk.write("ferry.toml", path.read_bytes())
    done(desk.get(openssh, there, "--config", str(named)))
    assert desk.files()["file"] == sha256(30_000)
    # Typed, it is refused as ever.
    assert desk.run(*desk.get_words(openssh, there, "--compressed", output="other")).code == 2


def test_a_mistake_is_one_line_with_file_line_and_key(tmp_path: Path) -> None:
    path = config(tmp_path, "retry = 1\n\n[host.elsewhere]\nlimit-rate = 'fast'\n")
    refused(tmp_path, f"{path}:4: limit-rate", "fast")
    refused(tmp_path, "missing.toml", words=("--config", "missing.toml"))
    refused(tmp_path, "missing.toml", env={CONFIG_VARIABLE: "missing.toml"})
    path.write_text("output = 'x'\n", encoding="utf-8")
    refused(tmp_path, f"{path}:1: output")
    path.write_text("header = 'Authorization: Bearer s3cret'\n", encoding="utf-8")
    refused(tmp_path, f"{path}:1: header", "token-file")
    assert "s3cret" not in run(tmp_path, "get", "http://h/", "--discard").stderr
    path.write_bytes(b"\xff\xfe")
    refused(tmp_path, "UTF-8")
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize(("mode", "fine"), [(0o600, True), (0o644, True), (0o664, False), (0o666, False)])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, mode: int, fine: bool) -> None:
    config(tmp_path, "quiet = true\n", mode)
    if fine:
        assert run(tmp_path, "get", "http://127.0.0.1:1/x", "--discard", *ONCE).returncode == 10
    else:
        refused(tmp_path, "chmod go-w")


def test_a_folder_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    with serve(answering) as server:
        assert get(tmp_path, server).code == 0
    (tmp_path / "own/ferry").write_text("not a folder", encoding="utf-8")
    assert run(tmp_path, "config").returncode == 0
    (tmp_path / "own/ferry").unlink()
    (tmp_path / "own/ferry/config.toml").mkdir(parents=True)
    refused(tmp_path, "config.toml", "--no-config")


def test_what_counts_is_printed_with_its_source(tmp_path: Path) -> None:
    config(tmp_path, "limit-rate = '1M'\n[host.h]\nlimit-rate = '2M'\n")
    found = values(tmp_path, "get", "http://h/x", "--stall", "4s")
    assert (found["limit-rate"]["value"], found["limit-rate"]["from"], found["limit-rate"]["line"]) == ("2M", "file", 3)
    assert (found["stall"]["from"], found["timeout-tls"]["from"]) == ("typed", "default")
    assert values(tmp_path)["limit-rate"]["value"] == "1M"
    plain = run(tmp_path, "config", "http://h/x").stdout.splitlines()
    line = next(line for line in plain if line.startswith("limit-rate"))
    assert line.split()[1:3] == ['"2M"', f"{tmp_path}/own/ferry/config.toml:3"]


def test_a_run_of_the_lab_reads_nobodys_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config(tmp_path, "this is no TOML\n")
    refused(tmp_path, "not TOML")
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    # As pytest_configure left it, a test's own runs would be safe; here only the adapter is.
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    with serve(answering) as server:
        client = tmp_path / "client"
        (client / "out").mkdir(parents=True)
        adapter = Ferry()
        adapter.identify(LocalHost("client", client))
        ends = Endpoints(f"127.0.0.1:{server.port}", "/s", str(client), "/ca.pem", "/k", "/key").for_sample("file", "file")
        transfer = Transfer(protocol="http1", direction="get", size=Size(len(BODY)))
        command, own = adapter.command(transfer, ends), adapter.environment(ends)
        ended = subprocess.run(command, env={**os.environ, **own}, capture_output=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr
        # The same without the variable reads the file: the test can fail.
        without = {name: value for name, value in own.items() if name != CONFIG_VARIABLE}
        ended = subprocess.run(command, env={**os.environ, **without}, capture_output=True, timeout=60, check=False)
        assert ended.returncode == 2
