"""Remedies that install a package next to the lab."""

from __future__ import annotations

import sys

import pytest

from lab.model import extras


def test_an_extra_is_installed_by_what_it_brings_into_the_labs_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/home/a user/bin/python")
    assert extras.install_extra("s3") == "'/home/a user/bin/python' -m pip install 's3fs>=2024.6'"


def test_an_environment_without_pip_is_named_to_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/lib/roughwater/bin/python3")
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    assert extras.install_command("FILE") == "pip --python /usr/lib/roughwater/bin/python3 install FILE"
