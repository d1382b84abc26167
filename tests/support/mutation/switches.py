"""Mistakes of Rust that are all planted at once, each behind a switch: the engine is then built once, not once per mistake.

```text
    a * b + c    ->    (if on(7) { a * b - c } else { (if on(8) { a / b } else { a * b }) + c })
```

cargo-mutants says where a mistake is and what it puts there; tree-sitter says how far the expression goes. Constants, which
the compiler evaluates, have no switch (`edit` gives `None`). A mistake that does not compile is found by the compiler's messages.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.mutation.copies import ROOT, Copy

SWITCH = "ROUGHWATER_MISTAKE"
"""The variable whose value is the number of the mistake that is on."""
PACKAGES = ("tree-sitter==0.26.1", "tree-sitter-rust==0.24.2")
_FOLDER = ROOT / "build" / "tree-sitter"
_MODULE = f"""
#[allow(missing_docs)]
mod __mistake {{
    static ON: std::sync::LazyLock<u32> =
        std::sync::LazyLock::new(|| std::env::var("{SWITCH}").map_or(0, |on| on.parse().unwrap_or(0)));
    #[allow(dead_code)]
    pub fn is(number: u32) -> bool {{
        *ON == number
    }}
}}
"""
# What the compiler evaluates, and places where parentheses cannot be.
_CONSTANT = {"const_item", "static_item", "const_block", "enum_variant", "let_chain", "type_arguments"}


@dataclass(frozen=True)
class Mistake:
    """One of cargo-mutants' mistakes: `start` and `end` are line and column of what `by` replaces, and count from one."""

    number: int
    path: str
    crate: str
    function: str
    name: str
    genre: str
    by: str
    start: tuple[int, int]
    end: tuple[int, int]

    @classmethod
    def of(cls, number: int, listed: dict[str, Any]) -> Mistake:
        """As `cargo mutants --list --json` describes it."""
        start, end = ((listed["span"][side]["line"], listed["span"][side]["column"]) for side in ("start", "end"))
        function = (listed["function"] or {}).get("function_name", "")
        words = (listed["file"], listed["package"], function, listed["name"], listed["genre"], listed["replacement"])
        return cls(number, *words, start, end)

    def __str__(self) -> str:
        return self.name


@dataclass
class Choice:
    """What stands from byte `begin` to `end` of a file, and what each mistake puts in its place."""

    begin: int
    end: int
    instead: dict[Mistake, bytes] = field(default_factory=dict)
    inner: list[Choice] = field(default_factory=list)


@dataclass(frozen=True)
class Planted:
    """A file's text with switches, and the bytes that belong to each mistake."""

    text: bytes
    places: dict[Mistake, tuple[int, int]]

    def at(self, begin: int, end: int) -> set[Mistake]:
        """The mistakes whose own bytes these are, or else touch."""
        return {each for each, (first, last) in self.places.items() if begin < last and first < end}


def installed() -> bool:
    """Whether tree-sitter's packages are in build/."""
    return (_FOLDER / "tree_sitter_rust").is_dir()


def parser() -> Any:
    """tree-sitter's parser of Rust; its packages are installed in build/ once."""
    if not installed():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", _FOLDER, *PACKAGES], check=True)
    if str(_FOLDER) not in sys.path:
        sys.path.append(str(_FOLDER))
    import tree_sitter  # type: ignore[import-not-found, unused-ignore]
    import tree_sitter_rust  # type: ignore[import-not-found, unused-ignore]

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))


def edit(tree: Any, text: bytes, mistake: Mistake) -> tuple[int, int, bytes] | None:
    """From which byte to which the mistake changes an expression, and its text then; None where a switch cannot be."""
    begin, end = (_byte(text, *place) for place in (mistake.start, mistake.end))
    node = tree.root_node.descendant_for_byte_range(begin, end)
    if _is_constant(node):
        return None
    by = mistake.by.encode()
    match mistake.genre:
        case "FnValue" if not _is_opaque(node):
            return begin, begin, b"return " + by + b";"
        case "BinaryOperator" | "UnaryOperator" if node.parent is not None and node.parent.type in (
            "binary_expression",
            "compound_assignment_expr",
            "unary_expression",
        ):
            whole = node.parent
            return whole.start_byte, whole.end_byte, text[whole.start_byte : begin] + by + text[end : whole.end_byte]
        case "MatchArmGuard":
            return begin, end, by
        case "MatchArm" if node.type == "match_arm":
            pattern = node.child_by_field_name("pattern")
            guard = pattern.child_by_field_name("condition")
            return (guard.start_byte, guard.end_byte, b"false") if guard else (pattern.end_byte, pattern.end_byte, b"")
        case "StructField":
            return _without_field(tree.root_node.descendant_for_byte_range(begin, begin + 1))
    return None


def able(copy: Copy, mistakes: Sequence[Mistake]) -> list[Mistake]:
    """Those that can have a switch."""
    rust = parser()
    texts = {path: (copy.root / "engine" / path).read_bytes() for path in {each.path for each in mistakes}}
    trees = {path: rust.parse(text) for path, text in texts.items()}
    return [each for each in mistakes if edit(trees[each.path], texts[each.path], each) is not None]


def planted(tree: Any, text: bytes, mistakes: Sequence[Mistake]) -> Planted:
    """A file's text with a switch for each of the mistakes that can have one."""
    found: dict[tuple[int, int], Choice] = {}
    for mistake in mistakes:
        if change := edit(tree, text, mistake):
            begin, end, instead = change
            found.setdefault((begin, end), Choice(begin, end)).instead[mistake] = instead
    outer = Choice(0, len(text))
    stack = [outer]
    for choice in sorted(found.values(), key=lambda each: (each.begin, -each.end)):
        while choice.end > stack[-1].end or (choice.begin >= stack[-1].end and stack[-1] is not outer):
            stack.pop()
        stack[-1].inner.append(choice)
        if choice.end > choice.begin:
            stack.append(choice)
    places: dict[Mistake, tuple[int, int]] = {}
    out = bytearray()
    _write(outer, text, out, places)
    return Planted(bytes(out), places)


def _write(choice: Choice, text: bytes, out: bytearray, places: dict[Mistake, tuple[int, int]]) -> None:
    statement = choice.begin == choice.end
    for mistake, instead in choice.instead.items():
        if statement and mistake.genre == "MatchArm":
            places[mistake] = len(out), len(out) + 1
            out += f" if !crate::__mistake::is({mistake.number})".encode()
            continue
        out += b"" if statement else b"(" if mistake is next(iter(choice.instead)) else b" else "
        out += f"if crate::__mistake::is({mistake.number}) {{ ".encode()
        places[mistake] = len(out), len(out) + len(instead)
        out += instead + (b" } " if statement else b" }")
    if choice.instead and not statement:
        out += b" else { "
    done = choice.begin
    for inner in choice.inner:
        out += text[done : inner.begin]
        _write(inner, text, out, places)
        done = inner.end
    out += text[done : choice.end]
    if choice.instead and not statement:
        out += b" })"


def _without_field(node: Any) -> tuple[int, int, bytes] | None:
    """What the expression that the others come from, after `..`, has in this field."""
    while node is not None and not node.type.endswith("field_initializer"):
        node = node.parent
    base = node and next((each for each in node.parent.children if each.type == "base_field_initializer"), None)
    value = node and node.child_by_field_name("value")
    if not base or not value:
        return None
    return value.start_byte, value.end_byte, b"(" + base.children[-1].text + b")." + node.child_by_field_name("field").text


@contextmanager
def built(copy: Copy, mistakes: Sequence[Mistake], *words: str, **variables: str) -> Iterator[tuple[list[Mistake], str]]:
    """Builds what the arguments of `cargo build` say, with all mistakes behind their switch while the block lasts.

    Gives those that compile and can have a switch, in the same order, and cargo's messages.
    """
    rust, wrong = parser(), set[Mistake]()
    engine = copy.root / "engine"
    roots = {f"crates/{each.crate}/src/{name}" for each in mistakes for name in ("lib.rs", "main.rs")}
    paths = sorted({each.path for each in mistakes} | {root for root in roots if (engine / root).exists()})
    texts = {path: (engine / path).read_bytes() for path in paths}
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(copy.planted(f"engine/{path}", texts[path].decode()))
        while True:
            files: dict[str, Planted] = {}
            for path, text in texts.items():
                chosen = [each for each in mistakes if each.path == path and each not in wrong]
                files[path] = planted(rust.parse(text), text, chosen)
                (engine / path).write_bytes(files[path].text + (_MODULE.encode() if path in roots else b""))
            command = ["cargo", "build", *words, "--keep-going", "--message-format", "json"]
            done = copy.run(command, 3600, folder="engine", **variables)
            if done.code == 0:
                compiled = {each for file in files.values() for each in file.places}
                yield [each for each in mistakes if each in compiled], done.text
                return
            if not (found := refused(done.text, files)):
                raise SystemExit(f"the engine does not build: {done.text[-3000:]}")
            wrong |= found


def refused(messages: str, files: dict[str, Planted]) -> set[Mistake]:
    """The mistakes in whose bytes the compiler's messages, in JSON, find an error."""
    found: set[Mistake] = set()
    for line in messages.splitlines():
        if line.startswith("{") and (message := json.loads(line).get("message")) and message["level"] == "error":
            for span in message["spans"]:
                if file := files.get(span["file_name"]):
                    found |= file.at(span["byte_start"], span["byte_end"])
    return found


def _byte(text: bytes, line: int, column: int) -> int:
    lines = text.split(b"\n")
    before = sum(len(each) + 1 for each in lines[: line - 1])
    return before + len(lines[line - 1].decode()[: column - 1].encode())


def _is_constant(node: Any) -> bool:
    """Whether the compiler evaluates it, or it belongs to a pattern or a chain of `let`."""
    inner = None
    while node is not None:
        if node.type in _CONSTANT:
            return True
        if node.type == "match_pattern" and inner != node.child_by_field_name("condition"):
            return True
        if node.type in ("array_expression", "array_type") and inner == node.child_by_field_name("length"):
            return True
        if node.type == "function_item":
            return any(b"const" in each.text for each in node.children if each.type == "function_modifiers")
        node, inner = node.parent, node
    return False


def _is_opaque(node: Any) -> bool:
    """Whether the function returns `impl Trait`: all its values have one type, and that of the mistake is another."""
    while node is not None and node.type != "function_item":
        node = node.parent
    returned = node and node.child_by_field_name("return_type")
    return returned is not None and b"impl " in returned.text
