"""The size and shape of the code in figures: `python -m tests.support.counts [--rev REV]...`.

It counts this checkout, and for comparison any older revision (`--rev 6fcfc55`).
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import shlex
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CELL = "ferry--dsl-20--http1-get-1MB-at-1MBps"
PRODUCTION = ("lab", "reports", "benchmarks", "images")
# Figures of a sample by the names that tables of figures use. Two of them as keys of one table make it a home of figures.
_FIGURES = {"rate", "speed", "deviation", "burst", "silence", "cpu", "memory", "rss", "startup", "requests"}
_HOSTS = re.compile(r"^(?:\w+_)?(?:host|network|client_host|prober|machine)$")
_HOST_CLASSES = re.compile(r"(?:Host|Network)$")


_TRANSFER = re.compile(r"(?:[\w@.]+--)?(?:[\w.-]+--)?(?:http1|https1|h2|sftp)-(?:get|put)-[\w.-]+")


class Tree:
    """The source files of a revision, parsed once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def modules(self) -> dict[str, ast.Module]:
        """Production modules by their path."""
        paths = sorted(path for top in PRODUCTION for path in (self.root / top).rglob("*.py"))
        return {str(path.relative_to(self.root)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}

    def rows(self) -> Iterator[tuple[str, str]]:
        """The counts: what is counted, and the count with the names behind it where they are few."""
        for top in PRODUCTION:
            yield f"lines of Python, {top}", "{:,} ({:,} of code)".format(*self.lines(top))
        yield "lines of Python, all four", "{:,} ({:,} of code)".format(*map(sum, zip(*map(self.lines, PRODUCTION), strict=True)))
        yield "files of Python, all four", f"{len(self.modules):,}"
        for name, found in (
            ("kinds of results", self.results()),
            ("homes of a figure", self.homes()),
            ("dialects that declare cells", self.dialects()),
            ("agents", self.agents()),
            ("branches on hosts", self.branches()),
        ):
            yield name, f"{len(found)}: {', '.join(found)}" if found else "0"

    def lines(self, top: str) -> tuple[int, int]:
        """All lines, and those that are neither blank nor comment nor docstring."""
        every = code = 0
        for name, module in self.modules.items():
            if name.split("/")[0] == top:
                source = (self.root / name).read_text(encoding="utf-8")
                every += source.count("\n")
                code += len(_code_lines(source) - _docstring_lines(module))
        return every, code

    def results(self) -> list[str]:
        """Kinds of result with a schema of their own; run.json, the record of a run, does not count."""
        folders = [folder for folder in (self.root / "lab/store", self.root / "lab/result") if folder.is_dir()]
        kinds = {path.name.removesuffix(".schema.json") for folder in folders for path in folder.glob("*.schema.json")}
        return sorted(kinds - {"run"})

    def homes(self) -> list[str]:
        """Modules with a table that defines two or more figures by name."""
        return [name for name, module in self.modules.items() if name.startswith(("lab", "reports")) and _is_home(module)]

    def dialects(self) -> list[str]:
        """Forms in which cells are written down: suites, YAML, and Python modules that name transfers in their source."""
        found = []
        if any(self.root.glob("suites/*.robot")):
            found.append("Robot suites")
        if any(
            re.search(r"^transfer:", path.read_text(encoding="utf-8"), re.MULTILINE)
            for path in self.root.glob("suites/**/*.yaml")
        ):
            found.append("YAML scenarios")
        declaring = {name.split("/")[0] for name, module in self.modules.items() if _declares_transfers(module)}
        found += [
            {"lab": "Python tables in lab", "benchmarks": "Python in benchmarks"}[top]
            for top in sorted(declaring & {"lab", "benchmarks"})
        ]
        return found

    def agents(self) -> list[str]:
        """Modules with a class that starts commands inside a host when it is asked to."""
        return [
            name
            for name, module in self.modules.items()
            if name.startswith(("lab/hosts", "lab/backend"))
            and {"spawn", "fork_into"} & _imported(module)
            and _serves_commands(module)
        ]

    def branches(self) -> list[str]:
        """Places that ask what kind of host or network they hold: getattr, isinstance, calls of functions that do."""
        found: list[str] = []
        asking: set[str] = set()
        for name, module in self.modules.items():
            for function in ast.walk(module):
                if isinstance(function, ast.FunctionDef) and any(_asks(node) for node in ast.walk(function)):
                    lookups = [node for node in ast.walk(function) if _asks(node) and node.func.id != "isinstance"]  # type: ignore[attr-defined]
                    if lookups:
                        asking.add(function.name)
            found += [f"{name}:{node.lineno}" for node in ast.walk(module) if _asks(node)]  # type: ignore[attr-defined]
        for name, module in self.modules.items():
            found += [
                f"{name}:{node.lineno}"
                for node in ast.walk(module)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in asking
            ]
        return sorted(set(found))


def _code_lines(source: str) -> set[int]:
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
        tokenize.ENCODING,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def _docstring_lines(module: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(module):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                lines.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return lines


def _is_home(module: ast.Module) -> bool:
    for node in ast.walk(module):
        if isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            if len(_FIGURES.intersection(keys)) >= 2:
                return True
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            named = {_first_word(each) for each in node.elts if isinstance(each, ast.Call)}
            if len(_FIGURES & named) >= 2:
                return True
    return False


def _first_word(call: ast.Call) -> str:
    words = [each.value for each in call.args[:1] if isinstance(each, ast.Constant)]
    words += [each.value.value for each in call.keywords if each.arg == "name" and isinstance(each.value, ast.Constant)]
    return str(words[0]) if words else ""


def _declares_transfers(module: ast.Module) -> bool:
    """Whether the module writes down cells: names of two transfers or more, or a Transfer with a fixed protocol and size."""
    named = 0
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _TRANSFER.fullmatch(node.value):
            named += 1
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Transfer":
            said = {each.arg for each in node.keywords if not isinstance(each.value, ast.Name | ast.Attribute)}
            if {"protocol", "size"} <= said:
                return True
    return named > 1


def _imported(module: ast.Module) -> set[str]:
    return {
        alias.asname or alias.name.rsplit(".", 1)[-1]
        for node in ast.walk(module)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def _serves_commands(module: ast.Module) -> bool:
    runs = {
        node.name.removeprefix("_")
        for kind in ast.walk(module)
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.FunctionDef)
    }
    program = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in module.body)
    return "op_run" in runs or ("run" in runs and (program or "serve" in runs))


def _asks(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= 2):
        return False
    subject = node.args[0]
    name = subject.id if isinstance(subject, ast.Name) else subject.attr if isinstance(subject, ast.Attribute) else ""
    if node.func.id in {"getattr", "hasattr"}:
        return bool(_HOSTS.match(name)) and isinstance(node.args[1], ast.Constant)
    if node.func.id == "isinstance":
        return any(
            _HOST_CLASSES.search(each.id if isinstance(each, ast.Name) else each.attr)
            for each in ast.walk(node.args[1])
            if isinstance(each, ast.Name | ast.Attribute)
        )
    return False


def hops() -> list[tuple[str, str]]:
    """Stages and returns of one cell's path through the rooms, counted on a run, by name and by suite."""
    counted = []
    for words in ([CELL], ["throttle", "--test", "DSL 20, H1 Get, 8*"]):
        argv = [sys.executable, "-m", "tests.support.hops", "run", *words]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
        said = (done.stdout.splitlines() or [""])[-1]
        text = said if done.returncode == 0 else f"not counted: exit code {done.returncode}"
        counted.append((f"path of `lab run {shlex.join(words)}`", text))
    return counted


def tree_of(revision: str, folder: Path) -> Tree:
    """The files of a git revision, unpacked into a folder."""
    archive = subprocess.run(["git", "archive", revision, *PRODUCTION, "suites"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
    return Tree(folder)


def main() -> None:
    """Print the counts, a column per revision and the checkout last."""
    parser = argparse.ArgumentParser(
        description="Count lines, kinds of results, homes of a figure, dialects, agents and branches."
    )
    parser.add_argument("--rev", action="append", default=[], help="a git revision to count as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as held:
        columns = []
        for revision in options.rev:
            folder = Path(held) / revision
            folder.mkdir()
            columns.append((revision, dict(tree_of(revision, folder).rows())))
        columns.append(("checkout", dict(Tree(ROOT).rows())))
    for name in columns[-1][1]:
        print(name)
        for heading, rows in columns:
            print(f"    {heading:10} {rows[name]}")
    for name, text in hops():
        print(f"{name}\n    checkout   {text}")


if __name__ == "__main__":
    main()
