"""The table of mishaps (tests/unit/cli/mishaps.yaml), and what each of them has to come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ruamel.yaml import YAML

from lab.store.run_dir import run_folders
from lab.store.stored_run import read_run_folder

_FILE = Path(__file__).parents[1] / "unit" / "cli" / "mishaps.yaml"
_LATIN_1 = "<latin-1>"


@dataclass(frozen=True)
class Mishap:
    """A row: a command in a folder with `files`, or the name of a test that plants it."""

    mishap: str
    run: str = ""
    test: str = ""
    files: dict[str, str] = field(default_factory=dict)
    code: int = 2
    says: tuple[str, ...] = ()
    prints: str = ""
    """What is on standard output all the same; empty where that stays empty."""
    boots: bool = False


def _rows() -> list[Mishap]:
    return [Mishap(**{**row, "says": tuple(row.get("says", ()))}) for row in YAML(typ="safe").load(_FILE)]


ROWS = _rows()


def furnish(row: Mishap, folder: Path) -> None:
    """Write the files of a row."""
    for name, text in row.files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.removeprefix(_LATIN_1), encoding="latin-1" if text.startswith(_LATIN_1) else "utf-8")
        if text.startswith("#!"):
            path.chmod(0o755)


def check(row: Mishap, folder: Path, code: int, out: str, err: str) -> None:
    """Assert that a command ended as it must: one line that names the fault, nothing green, nothing left."""
    lines = [line for line in err.splitlines() if line.startswith("lab: ")]
    assert code == row.code, err
    assert len(lines) == 1, err
    assert "Traceback" not in err
    for words in row.says:
        assert words in lines[0]
    assert row.prints in out if row.prints else not out
    results = folder / "results"
    for run in run_folders(results) if results.is_dir() else ():
        assert not read_run_folder(run).whole
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and results not in path.parents}
    assert left == {*row.files}
