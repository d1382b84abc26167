"""Which Python files use which: by their imports, and by the modules and files that their text names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOTS = ("lab", "reports", "benchmarks", "images", "tests")
UNIT = "tests/unit"
_ANY = "|".join(ROOTS)
# Plugins of pytest, commands of `python -m`, patches of mock and scripts are named in strings.
_NAMED = re.compile(rf"\b(?:{_ANY})(?:[./]\w+)+")
# `import_module(f"lab.cli.{name}")` of a program may load any module of the package.
_ANY_OF = re.compile(rf"\b((?:{_ANY})(?:\.\w+)*)\.\{{")


@dataclass(frozen=True)
class Users:
    """For every Python file of the checkout, the files that import it or run it, and the tests and helpers that only name it."""

    by_path: Mapping[str, frozenset[str]]
    naming: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def tests(self, path: str, *, most_steps: int = 4) -> frozenset[str]:
        """The unit tests that use the file, directly or through a helper of the tests; if none imports it, its users' too.

        After that many steps it gives up: then nearly every test would be one. Empty if no unit test was found.
        """
        # A helper that changed says much about the tests of its folder; a conftest that imports a module of the lab says little.
        whole = path.startswith("tests/")
        seen = frontier = self._through_helpers({path}, whole=whole)
        for _ in range(most_steps):
            if any(is_unit_test(each) for each in seen):
                break
            frontier = self._through_helpers(self._of(frontier), whole=whole) - seen
            seen |= frontier
        # Some start a command of the lab as a person does, and so only name its module.
        names = {user for each in seen if not each.startswith("tests/") or whole for user in self.naming.get(each, ())}
        return frozenset(each for each in seen | self._through_helpers(names, whole=whole) if is_unit_test(each))

    def nearest(self, tests: Iterable[str], most: int) -> frozenset[str]:
        """The tests that use the fewest files: they test most closely."""
        used: dict[str, int] = {}
        for users in self.by_path.values():
            for user in users:
                used[user] = used.get(user, 0) + 1
        return frozenset(sorted(tests, key=lambda test: (used.get(test, 0), test))[:most])

    def _of(self, paths: Iterable[str]) -> frozenset[str]:
        return frozenset(user for path in paths for user in self.by_path.get(path, ()))

    def _through_helpers(self, paths: Iterable[str], *, whole: bool) -> frozenset[str]:
        """The paths, and the tests and their helpers that import them; with `whole`, all tests that a conftest serves."""
        seen, todo = set(paths), list(paths)
        while todo:
            path = todo.pop()
            users = self._of([path]) | (self._served(path) if whole else frozenset())
            for user in users - seen:
                if user.startswith("tests/"):
                    seen.add(user)
                    todo.append(user)
        return frozenset(seen)

    def _served(self, path: str) -> frozenset[str]:
        folder, _, name = path.rpartition("/")
        if name != "conftest.py":
            return frozenset()
        return frozenset(each for each in self.by_path if each.startswith(f"{folder}/") and is_test(each))


def is_test(path: str) -> bool:
    return path.startswith("tests/") and path.rpartition("/")[2].startswith("test_") and path.endswith(".py")


def is_unit_test(path: str) -> bool:
    return path.startswith(f"{UNIT}/") and is_test(path)


def build(root: Path) -> Users:
    """Reads the checkout. grimp follows the imports, those inside functions too, without importing anything."""
    import grimp

    sys.path.insert(0, str(root))
    try:
        graph = grimp.build_graph(*(name for name in ROOTS if (root / name).is_dir()), cache_dir=None)
    finally:
        sys.path.remove(str(root))
    files = {module(path): path for path in sources(root)}
    users: dict[str, set[str]] = {path: set() for path in files.values()}
    naming: dict[str, set[str]] = {path: set() for path in files.values()}
    for name, path in files.items():
        if name in graph.modules:
            users[path].update(files[user] for user in graph.find_modules_that_directly_import(name) if user in files)
    for path in files.values():
        text = (root / path).read_text(encoding="utf-8")
        for used in named(text, files) - {path}:
            if not path.startswith("tests/"):
                users[used].add(path)
            elif path not in users[used]:
                naming[used].add(path)
        # A test that does so looks at all of them and closely at none.
        for used in set() if path.startswith("tests/") else any_of(text, files) - {path}:
            users[used].add(path)
    return Users(*({path: frozenset(found) for path, found in each.items()} for each in (users, naming)))


def sources(root: Path) -> Iterator[str]:
    for name in ROOTS:
        for file in sorted((root / name).rglob("*.py")):
            yield file.relative_to(root).as_posix()


def module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def named(text: str, files: Mapping[str, str]) -> set[str]:
    """The files that the text names: as a module, as something in a module, or as a path; `lab` names none."""
    found = set()
    for name in set(_NAMED.findall(text)):
        dotted = name.replace("/", ".").removesuffix(".py")
        while dotted.count(".") and dotted not in files:
            dotted = dotted.rpartition(".")[0]
        if dotted.count("."):
            found.add(files[dotted])
    return found


def any_of(text: str, files: Mapping[str, str]) -> set[str]:
    """All files of the packages in which the text looks a module up by a name that only a run knows."""
    packages = set(_ANY_OF.findall(text))
    return {path for name, path in files.items() if name.rpartition(".")[0] in packages}
