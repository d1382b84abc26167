"""A version of a Python client runs with what its own environment has, and not with the system's."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.assets import python_packages
from lab.clients import versions
from lab.model.transfer import ClientSpec
from tests.support.wheel import lock_wheel, make_wheel
from tests.virtual.boots import CLEAN, cell_of, run

SOURCE = """\
import sys
import urllib.request
if sys.argv[1:]:
    urllib.request.urlretrieve(*sys.argv[1:])
"""
CLIENT = """\
name: mine
package: getter
program: /usr/bin/python3
version: [-c, "import getter; print('getter', getter.__file__)"]
protocols: [http1]
get: /usr/bin/python3 -m getter {url} {output}
"""


def test_it_downloads_with_the_package_of_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_packages, "_LOCKS", tmp_path)
    monkeypatch.setenv("ROUGHWATER_CLIENTS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    lock_wheel(make_wheel(tmp_path, "getter", "1.5", SOURCE), tmp_path)
    (tmp_path / "mine.yaml").write_text(CLIENT)
    versions.build("mine@1.5", print)
    cell = cell_of("http1", CLEAN, limit=None).model_copy(update={"client": ClientSpec(name="mine@1.5")})
    result, _ = run(cell, 1, tmp_path)
    assert result.verdict.name == "PASS", result.verdict.reason
    assert str(python_packages.place("getter", "1.5")) in result.client.version
    assert "getter 1.5 of PyPI, and what it needs by digest: getter-1.5.lock of the lab" in result.client.notes
