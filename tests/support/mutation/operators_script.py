"""Runs in cosmic-ray's own environment: `operators_script.py SEED COUNT FILE...` draws places and a mistake for each.

Prints JSON: how many places exist, and for each drawn one the path, line, operator and the file's text with the mistake. A place
is drawn first and one of its operators after that, because cosmic-ray has ten for a `+` and one for a `break`. Mistakes that
Python never evaluates are left out: annotations of functions and of local variables, and those of dataclasses.
"""

from __future__ import annotations

import ast
import json
import random
import sys
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

# Both need to know which variables they are about.
_WITHOUT = {"core/VariableReplacer", "core/VariableInserter"}


class _Evaluated(ast.NodeTransformer):
    """Takes away annotations that nothing evaluates."""

    def __init__(self) -> None:
        self._evaluated = [True]

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._evaluated.append(not any("dataclass" in ast.unparse(each) for each in node.decorator_list))
        self.generic_visit(node)
        self._evaluated.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        self._evaluated.append(False)
        self.generic_visit(node)
        self._evaluated.pop()
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if not self._evaluated[-1]:
            node.annotation = ast.Name("object")
        return node


def evaluated(source: str) -> str | None:
    """What Python evaluates of a module, to compare; None where the text is not Python."""
    try:
        return ast.dump(_Evaluated().visit(ast.parse(source)))
    except SyntaxError:
        return None


def places(path: Path) -> dict[tuple[str, int, int], list[tuple[str, int]]]:
    """Operators and their occurrences, by the position of what they change."""
    found: dict[tuple[str, int, int], list[tuple[str, int]]] = {}
    tree = get_ast(path.read_text(encoding="utf-8"))
    for name in sorted(set(operator_names()) - _WITHOUT):
        operator, occurrence = get_operator(name)(), 0
        for node in ast_nodes(tree):
            for (line, column), _ in operator.mutation_positions(node):
                found.setdefault((str(path), line, column), []).append((name, occurrence))
                occurrence += 1
    return found


def main(seed: int, count: int, files: list[str]) -> None:
    found = {place: which for file in sorted(files) for place, which in places(Path(file)).items()}
    draw = random.Random(seed)
    order = sorted(found)
    draw.shuffle(order)
    drawn: list[dict[str, object]] = []
    same = 0
    for place in order:
        if len(drawn) == count:
            break
        path, line, _ = place
        name, occurrence = draw.choice(found[place])
        source = Path(path).read_text(encoding="utf-8")
        try:
            text = mutate_code(source, get_operator(name)(), occurrence)
        except AttributeError:
            text = None  # cosmic-ray's ExceptionReplacer knows no exception with a dot in its name
        if text is None or evaluated(text) in (None, evaluated(source)):
            same += 1
            continue
        drawn.append({"path": path, "line": line, "operator": name.removeprefix("core/"), "planted": text})
    # An estimate where only a sample was looked at: some places have nothing that Python evaluates.
    existing = round(len(found) * len(drawn) / (len(drawn) + same)) if drawn else 0
    json.dump({"existing": existing, "drawn": drawn}, sys.stdout)


main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
