"""The shipped page of keywords matches the library."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from robot.libdoc import libdoc_cli

from lab.model.paths import project_root
from lab.robot.declared import LIBRARY

PAGE = project_root() / "docs" / "reference" / "keywords.html"


def content(path: Path) -> dict[str, Any]:
    """The page's data without what differs from one run to the next and between versions of Robot."""
    found = re.search(r"libdoc = (\{.*?\})\s*</script>", path.read_text(encoding="utf-8"), re.S)
    assert found
    data: dict[str, Any] = json.loads(found[1].replace("\\x3c", "<"))
    kept = {key: data[key] for key in ("name", "doc", "version")}
    words = [{key: each[key] for key in ("name", "doc", "tags")} for each in data["keywords"]]
    arguments = [[argument["repr"] for argument in each["args"]] for each in data["keywords"]]
    return kept | {"keywords": words, "arguments": arguments}


def test_the_shipped_page_is_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "keywords.html"
    libdoc_cli([LIBRARY, str(made)], exit=False)
    capsys.readouterr()
    assert content(PAGE) == content(made), "make libdoc writes it"
