"""Names and paths of clients, and what GNU time says."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from lab.clients import described as descriptions
from lab.clients import usage
from lab.clients.adapter import ClientAdapter
from lab.clients.curl import Curl
from lab.clients.described import DescribedClient, described_files, load_client
from lab.clients.ferry import Ferry
from lab.clients.registry import list_clients, resolve, userland_of
from lab.model.client import ClientFile
from lab.model.errors import UsageProblem
from lab.model.load import parse_model
from lab.model.paths import shipped_clients_dir
from lab.model.transfer import ClientSpec


def described(name: str, program: str, client: str) -> DescribedClient:
    return DescribedClient(name, program, load_client(shipped_clients_dir() / f"{client}.yaml"))


@pytest.mark.parametrize(
    ("text", "adapter"),
    [
        ("curl", Curl("curl", "curl")),
        ("/opt/curl-8/bin/curl", Curl("curl", "/opt/curl-8/bin/curl")),
        ("curl-8.5=/opt/x/curl", Curl("curl-8.5", "/opt/x/curl")),
        ("new=/opt/x/curl", Curl("new", "/opt/x/curl")),
        ("/opt/curl-8.5.0", Curl("curl-8.5.0", "/opt/curl-8.5.0")),
        ("ferry", Ferry("ferry", "ferry")),
        ("ferry-next=/opt/x/ferry", Ferry("ferry-next", "/opt/x/ferry")),
        ("/opt/x/ferry", Ferry("ferry", "/opt/x/ferry")),
        ("openssh", described("openssh", "sftp", "openssh")),
        ("/opt/hpn/bin/sftp", described("sftp", "/opt/hpn/bin/sftp", "openssh")),
        ("openssh-hpn=/opt/hpn/bin/hpnsftp", described("openssh-hpn", "/opt/hpn/bin/hpnsftp", "openssh")),
        ("lftp", described("lftp", "lftp", "lftp")),
        ("rclone-1.70=/opt/rclone", described("rclone-1.70", "/opt/rclone", "rclone")),
    ],
)
def test_known_clients(text: str, adapter: ClientAdapter) -> None:
    assert resolve(ClientSpec.parse(text)) == adapter


def test_relative_path_is_where_the_user_typed_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve(ClientSpec.parse("./curl")) == Curl("curl", str(tmp_path / "curl"))


@pytest.mark.parametrize("text", ["wgot", "/usr/bin/curlew", "curl=", "=/usr/bin/curl", "wgot=/usr/bin/true", "none.yaml"])
def test_unknown_clients_are_the_users_problem(text: str) -> None:
    with pytest.raises((UsageProblem, ValueError)):
        resolve(ClientSpec.parse(text))


def test_spec_of_a_cell() -> None:
    assert resolve(ClientSpec.parse("/opt/c/curl")) == Curl("curl", "/opt/c/curl")
    assert resolve(ClientSpec(name="curl")) == Curl("curl", "curl")


def test_memory_report_and_its_absence() -> None:
    assert usage.max_rss_bytes("11668\n") == 11668 * 1024
    assert usage.max_rss_bytes("") is None
    assert usage.max_rss_bytes("time: cannot run nothing") is None


def test_wrap_is_nothing_without_gnu_time() -> None:
    assert usage.wrap(["curl", "-V"], None, "/r") == ["curl", "-V"]
    assert usage.wrap(["curl"], "/usr/bin/time", "/r")[-2:] == ["--", "curl"]


def test_a_version_is_what_the_lab_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.clients.versions.program", {"curl@8.4.0": "/cache/curl-8.4.0/bin/curl"}.__getitem__)
    assert resolve(ClientSpec.parse("curl@8.4.0")) == Curl("curl@8.4.0", "/cache/curl-8.4.0/bin/curl")
    assert resolve(ClientSpec.parse("curl@mine=/opt/curl")) == Curl("curl@mine", "/opt/curl")


def test_each_file_of_a_client_is_read_as_yaml_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell asks for its client's userland and adapter, and a program that no client is called after for all files."""
    read: list[str] = []

    def counted(model: type[ClientFile], text: str, origin: str) -> ClientFile:
        read.append(origin)
        return parse_model(model, text, origin)

    monkeypatch.setattr(descriptions, "parse_model", counted)
    monkeypatch.setattr(descriptions, "_parse", lru_cache(descriptions._parse.__wrapped__))
    for _ in range(3):
        for name in (*list_clients(), "another-program"):
            userland_of(ClientSpec(name=name, program=name))
            if file := described_files().get(name):
                load_client(file)
    assert sorted(read) == sorted(str(path) for path in described_files().values())


def test_a_changed_file_of_a_client_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = (shipped_clients_dir() / "wget.yaml").read_text(encoding="utf-8").replace("wget", "mine")
    path.write_text(text)
    assert "-nv" in str(load_client(path).command)
    path.write_text(text.replace("-nv", "-q", 1))
    assert "-nv" not in str(load_client(path).command)
