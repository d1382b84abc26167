"""The functions of `lab` that can do nothing: each with a body that returns a value of its type which means nothing."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef

_NAMES = {
    "None": "None",
    "bool": "False",
    "int": "0",
    "float": "0.0",
    "str": '""',
    "bytes": 'b""',
    "object": "None",
    "list": "[]",
    "dict": "{}",
    "set": "set()",
    "frozenset": "frozenset()",
    "tuple": "()",
    "Sequence": "()",
    "Collection": "()",
    "Iterable": "()",
    "Mapping": "{}",
    "Iterator": "iter(())",
    "Generator": "iter(())",
}
_NO_BODY = {"abstractmethod", "overload"}


@dataclass(frozen=True)
class Place:
    """A function by its file and name, the body that does nothing, and where it belongs: first and last line and column."""

    path: str
    name: str
    body: str
    lines: tuple[int, int]
    columns: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.name} ({self.path}): {self.body}"

    def planted(self, source: str) -> str:
        """The file's text with the body that does nothing."""
        (first, last), (begin, end) = self.lines, self.columns
        lines = source.splitlines(keepends=True)
        head: str = lines[first - 1].encode()[:begin].decode()
        tail: str = lines[last - 1].encode()[end:].decode()
        return "".join(lines[: first - 1]) + head + self.body + tail + "".join(lines[last:])


def in_source(source: str, path: str) -> Iterator[Place]:
    """Functions and methods at the top of a module, in order. Those that already do nothing are left out."""
    tree = ast.parse(source)
    owners: list[tuple[str | None, list[ast.stmt]]] = [(None, tree.body)]
    owners += [(node.name, node.body) for node in tree.body if isinstance(node, ast.ClassDef)]
    for owner, body in owners:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (statement := without_work(node, owner)):
                name = node.name if owner is None else f"{owner}.{node.name}"
                yield Place(path, name, statement, *_extent(node))


def draw(root: Path, count: int, seed: int) -> tuple[list[Place], int]:
    """`count` functions of `lab`, and how many there are to draw from."""
    files = sorted(path for path in (root / "lab").rglob("*.py") if "shipped" not in path.parts)
    places = [each for file in files for each in in_source(file.read_text(encoding="utf-8"), str(file.relative_to(root)))]
    return random.Random(seed).sample(places, min(count, len(places))), len(places)


def without_work(node: Function, owner: str | None) -> str | None:
    """A body that does nothing. None where no such body fits, or where the function does nothing already."""
    decorators = {ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in node.decorator_list}
    body = _work(node)
    if not body or decorators & _NO_BODY or node.returns is None:
        return None
    if all(
        isinstance(each, ast.Pass | ast.Raise) or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in body
    ):
        return None
    if "contextmanager" in decorators:
        inner = node.returns.slice if isinstance(node.returns, ast.Subscript) else None
        value = neutral(inner) if inner is not None else None
        statement = None if value is None else f"yield {value}"
    else:
        value = neutral(node.returns) or _same_type(node, owner, decorators)
        statement = None if value is None else f"return {value}"
    return None if statement in {ast.unparse(each) for each in body[:1]} else statement


def neutral(annotation: ast.expr) -> str | None:
    """A value of the type that means nothing, as an expression; None where the type has no such value."""
    match annotation:
        case ast.Constant(value=None):
            return "None"
        case ast.Constant(value=str(text)):
            return neutral(ast.parse(text, mode="eval").body)
        case ast.Name(id=name):
            return _NAMES.get(name)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=chosen):
            first = chosen.elts[0] if isinstance(chosen, ast.Tuple) else chosen
            return ast.unparse(first)
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=parts)) if not _open_ended(parts):
            values = [neutral(part) for part in parts]
            known = [value for value in values if value is not None]
            return f"({', '.join(known)})" if len(known) == len(values) else None
        case ast.Subscript(value=ast.Name(id=name)):
            return _NAMES.get(name)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            values = [neutral(right), neutral(left)]
            return "None" if "None" in values else next((value for value in values if value is not None), None)
    return None


def _open_ended(parts: list[ast.expr]) -> bool:
    return len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is Ellipsis


def _same_type(node: Function, owner: str | None, decorators: set[str]) -> str | None:
    assert node.returns is not None
    wanted = ast.unparse(node.returns).strip("'\"")
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    if owner is not None and wanted in {"Self", owner} and not decorators & {"classmethod", "staticmethod"}:
        return str(arguments[0].arg)
    return next(
        (str(each.arg) for each in arguments if each.annotation and ast.unparse(each.annotation).strip("'\"") == wanted), None
    )


def _work(node: Function) -> list[ast.stmt]:
    """The body without its docstring."""
    has_text = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
    return node.body[1:] if has_text else node.body


def _extent(node: Function) -> tuple[tuple[int, int], tuple[int, int]]:
    body = _work(node)
    first, last = body[0], body[-1]
    # A decorated function or class begins at its decorator.
    begin = min([first.lineno, *(each.lineno for each in getattr(first, "decorator_list", []))])
    return (begin, last.end_lineno or last.lineno), (first.col_offset, last.end_col_offset or 0)
