"""The paths of a study's parts. A study is a folder of docs/studies with a template; its page stands next to the folder.

```
docs/studies/NAME.md                 the page, made
docs/studies/NAME/page.md.j2         its template, written by hand
docs/studies/NAME/data.tar.xz        the runs it is made from
docs/studies/NAME/PICTURE.svg        its pictures, made
docs/studies/README.md               the list of studies, made from README.md.j2 and the findings
```
NAME may have a folder in it: `upstream/NAME`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lab.model.errors import UsageProblem
from lab.model.paths import project_root

TEMPLATE = "page.md.j2"
DATA = "data.tar.xz"
INDEX = "README.md"
INDEX_TEMPLATE = "README.md.j2"
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*(?:/[a-z0-9][a-z0-9.-]*)?")


def studies_folder() -> Path:
    """docs/studies of the checkout."""
    return project_root() / "docs" / "studies"


@dataclass(frozen=True)
class Study:
    """One study's places, below `root` (docs/studies)."""

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.root / self.name

    @property
    def template(self) -> Path:
        return self.folder / TEMPLATE

    @property
    def data(self) -> Path:
        return self.folder / DATA

    @property
    def page(self) -> Path:
        return self.root / f"{self.name}.md"

    @property
    def word(self) -> str:
        """The last part of the name: how the page refers to its own folder."""
        return self.name.rpartition("/")[2]


def study(root: Path, name: str) -> Study:
    """The places of one study, whether its files exist or not. Raises UsageProblem for a name that is not one."""
    if not _NAME.fullmatch(name):
        raise UsageProblem(f"{name!r} is not the name of a study", remedy="use small letters, digits, `.`, `-`, one `/`")
    return Study(root, name)


def studies(root: Path) -> list[Study]:
    """Every study that has a template, by name."""
    return [study(root, path.parent.relative_to(root).as_posix()) for path in sorted(root.rglob(TEMPLATE))]
