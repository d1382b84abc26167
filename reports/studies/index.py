"""All studies: every file that is made, the list of studies, and what is out of date."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jinja2

from lab.model.errors import UsageProblem
from reports.studies.page import GROUPS, Page, make_page
from reports.studies.places import INDEX, INDEX_TEMPLATE, studies, study


def make_all(root: Path, names: Sequence[str] = ()) -> dict[Path, str]:
    """The text of every made file by its path; of these studies and the list, where names are given."""
    pages = [make_page(each) for each in studies(root)]
    if unknown := [name for name in names if study(root, name) not in [page.study for page in pages]]:
        raise UsageProblem(f"there is no study {unknown[0]}", remedy=f"studies: {', '.join(page.study.name for page in pages)}")
    made = {path: text for page in pages if not names or page.study.name in names for path, text in page.files.items()}
    if (root / INDEX_TEMPLATE).is_file():
        made[root / INDEX] = _index(root, pages)
    return made


def out_of_date(root: Path) -> list[str]:
    """One line for each file that differs from what is made of the data, is missing, or is not made any more."""
    made = make_all(root)
    wrong = []
    for path, text in made.items():
        if not path.is_file():
            wrong.append(f"{path}: missing; run `make studies`")
        elif path.read_text(encoding="utf-8") != text:
            wrong.append(f"{path}: not what its data and template make; run `make studies`, or restore the data")
    left = {picture for each in studies(root) for picture in each.folder.glob("*.svg")} - made.keys()
    return wrong + [f"{path}: no page shows it; remove it" for path in sorted(left)]


def _index(root: Path, pages: Sequence[Page]) -> str:
    template = jinja2.Template((root / INDEX_TEMPLATE).read_text(encoding="utf-8"), undefined=jinja2.StrictUndefined)
    return str(template.render({group: _list(pages, group) for group in GROUPS})) + "\n"


def _list(pages: Sequence[Page], group: str) -> str:
    """A row per study: its question and the first sentence of its finding."""
    found = sorted((page for page in pages if page.group == group), key=lambda page: (page.place, page.study.name))
    rows = [f"| [{page.study.name}]({page.study.name}.md) | {page.question} | {page.sentence} |" for page in found]
    return "\n".join(["| study | question | what it shows |", "|---|---|---|", *rows])
