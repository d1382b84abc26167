"""Words and phrases that the project's texts avoid: `python -m tests.support.english` counts them per room.

    python -m tests.support.english                     counts per room; exit code 1 if a room of CLEAN has any
    python -m tests.support.english --show lab/judge    every finding of a room, with file and line
    python -m tests.support.english --draw 30 --seed 19 random docstrings and messages, for reading aloud

Texts are docstrings, comments, messages (strings of three words or more in production code), the names of tests, Robot suites,
and Markdown without its code. CONTRIBUTING.md has the style rules in words.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

CLEAN: tuple[str, ...] = (
    "benchmarks",
    "docs",
    "images",
    "suites",
    "reports",
    "tests",
    "tests/cells",
    "tests/compose",
    "tests/conformance",
    "tests/docs",
    "tests/engine",
    "tests/network",
    "tests/report",
    "tests/support",
    "tests/unit",
    "tests/vagrant",
    "tests/virtual",
    "top",
    "topologies",
    "lab",
    "lab/assets",
    "lab/cli",
    "lab/clients",
    "lab/hosts",
    "lab/judge",
    "lab/link",
    "lab/model",
    "lab/net",
    "lab/robot",
    "lab/run",
    "lab/servers",
    "lab/store",
    "lab/testing",
)
"""Rooms that have no findings and must keep it so."""

RULES: dict[str, str] = {
    "opens with Of": r"(?:^|[.:;!?] )Of (?!course)",
    "What ... is": r"(?:^|[.!?] )What [^.!?,;:]+ (?:is|are|has|have) [^.!?]+(?:\.|$)",
    "is none": r"(?<![Tt]here )\b(?:is|are|was|were) none\b",
    "is no X": r"(?<![Tt]here )\b(?:is|are) no (?!longer|more\b)\w",
    "no X but": r"\b[Nn](?:o \w+|othing|one) but\b",
    "told": r"\btold\b",
    "whole": r"\bwhole\b",
    "beside": r"(?<!-)\b[Bb]eside\b",
    "whoever, nobody": r"\b(?:[Ww]hoever|[Nn]obody|[Ss]omebody)\b",
    "one that": r"\bone that\b",
    "so many": r"\bso many\b",
    "likewise": r"\b[Ll]ikewise\b",
    "nothing of": r"\b[Nn]othing of\b",
    "meant": r"\bmeant\b",
    "said of": r"\b(?:said|says|say) of\b",
    "mend, anew": r"\b(?:mend(?:s|ed|ing)?|anew)\b",
    "issue number": r"\b[Ii]ssues? [0-9]",
    "outside the repository": r"(?<![\w/])(?:\.\./)?(?:shared|facts)/\w",
}
"""A name for each tell-tale and its regular expression."""

PAGE_RULES: dict[str, str] = {
    "here": r"\b[Hh]ere\b",
    "this machine": r"\b[Tt]his (?:machine|workplace|sandbox)\b",
}
"""Rules for documentation only, whose readers sit at another machine than its writers."""

ALLOWED: set[tuple[str, str]] = {
    ("tests/engine/sftp_servers.py", "with nss-systemd"),  # the account nobody
    ("docs/studies/requests.md", "arrives whole"),  # the output of `lab matrix`, unedited
    ("docs/how-to/windows.md", "that works here"),  # messages of the lab
    ("docs/how-to/windows.md", "this machine's clock"),
    ("images/base/finish", "*"),  # in the digest of every image: another comment makes all of them stale
    ("images/lab/Dockerfile", "*"),
    ("lab/model/units.py", "not a whole number of"),  # an integer
    ("lab/store/history/index.py", "started_at, whole, ended, command"),  # a column
}
"""Findings that are right as they are: a path and a piece of the text, or "*" for the complete file."""

_PRODUCTION = ("lab", "reports", "benchmarks", "images")
_COMMENTED = {".yaml", ".yml", ".sh", ".toml", ".ps1", ".rb", ".j2", ""}
_SKIPPED = re.compile(
    r"^engine/|^tests/data/|^docs/decisions/000|^docs/decisions/001[0-2]|\.schema\.json$|^LICENSE$|^tests/support/english\.py$"
    r"|^docs/reference/cli\.md$|^images/kernel/(?!.*\.(?:py|md)$)"
)


class Text(NamedTuple):
    """A piece of text that a person reads, and where it is."""

    path: str
    line: int
    kind: str
    text: str


class Finding(NamedTuple):
    """A tell-tale in a text."""

    text: Text
    rule: str
    words: str


def room_of(path: str) -> str:
    """The part of the repository by which findings are counted: `lab/judge`, `tests/unit`, `docs`, `top`."""
    parts = Path(path).parts
    if len(parts) == 1 or parts[0].startswith("."):
        return "top"
    return "/".join(parts[:2]) if parts[0] in {"lab", "tests"} and len(parts) > 2 else parts[0]


def tracked() -> list[str]:
    """The files that git has or would have, in order."""
    done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(name for name in done.stdout.splitlines() if (ROOT / name).is_file() and not _SKIPPED.search(name))


def texts() -> Iterator[Text]:
    """Every text of the repository that a person reads."""
    for name in tracked():
        path = Path(name)
        if path.suffix == ".py":
            yield from python_texts(name)
        elif path.suffix == ".md":
            yield from markdown_texts(name)
        elif path.suffix == ".robot":
            yield from (Text(name, line, "suite", text) for line, text in _lines(name))
        elif path.suffix in _COMMENTED and path.name != "COPYING":
            yield from comment_texts(name)


def python_texts(name: str) -> Iterator[Text]:
    """Docstrings, comments, messages and names of tests of a Python file."""
    source = (ROOT / name).read_text(encoding="utf-8")
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            docstrings.add(id(node.body[0].value))  # type: ignore[attr-defined]
            yield Text(name, node.body[0].lineno, "docstring", _without_code(text))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield Text(name, node.lineno, "test name", node.name.removeprefix("test_").replace("_", " "))
    if name.startswith(_PRODUCTION):
        yield from (Text(name, line, "message", text) for line, text in _strings(tree, docstrings))
    run: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#(?:!|\s*(?:noqa|type:))", token.string):
            line, text = token.start[0], token.string.lstrip("# ")
            if run and run[-1][0] != line - 1:
                yield _comment(name, run)
                run = []
            run.append((line, text))
    if run:
        yield _comment(name, run)


def _comment(name: str, run: list[tuple[int, str]]) -> Text:
    return Text(name, run[0][0], "comment", " ".join(re.sub(r"\s*(?:noqa|type: ignore).*", "", text) for _, text in run))


def _strings(tree: ast.Module, docstrings: set[int]) -> Iterator[tuple[int, str]]:
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(id(each) for each in ast.walk(node) if each is not node)
            parts = [str(each.value) if isinstance(each, ast.Constant) else "X" for each in node.values]
            text = "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | inside:
            text = node.value
        else:
            continue
        if "\n" not in text.strip() and re.search(r"[A-Za-z]{2,} \S+ [A-Za-z]", text):
            yield node.lineno, text


def markdown_texts(name: str) -> Iterator[Text]:
    """Paragraphs, items, table cells and headings of a page, without code."""
    source = re.sub(r"^( *)```.*?^\1```", lambda code: "\n" * code[0].count("\n"), _source(name), flags=re.DOTALL | re.MULTILINE)
    source = re.sub(r"<!-- generated .*?<!-- end -->", lambda code: "\n" * code[0].count("\n"), source, flags=re.DOTALL)
    source = re.sub(r"<!--.*?-->", lambda code: "\n" * code[0].count("\n"), source, flags=re.DOTALL)
    held: list[str] = []
    begun = 1
    for number, line in enumerate([*source.splitlines(), ""], 1):
        block = re.match(r"\s*(?:[-*|#]|\d+\.)\s*", line)
        if held and (not line.strip() or block or line.startswith("    ")):
            yield Text(name, begun, "page", _without_code(" ".join(held)))
            held = []
        if line.strip() and not (line.startswith("    ") and not held):
            if not held:
                begun = number
            held.append(line[block.end() :] if block else line.strip())


def comment_texts(name: str) -> Iterator[Text]:
    """Comments of a file whose comments begin with #."""
    yield from (Text(name, line, "comment", text.lstrip("#; ")) for line, text in _lines(name) if text.lstrip().startswith("#"))
    if name == "Makefile":
        yield from (Text(name, line, "help", text.split("## ", 1)[1]) for line, text in _lines(name) if "## " in text)


def _lines(name: str) -> Iterator[tuple[int, str]]:
    return ((number, line.strip()) for number, line in enumerate(_source(name).splitlines(), 1))


def _source(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def _without_code(text: str) -> str:
    return " ".join(re.sub(r"`+[^`]*`+", "X", text).split())


def findings() -> Iterator[Finding]:
    """Every tell-tale in every text."""
    for text in texts():
        for rule, pattern in {**RULES, **(PAGE_RULES if text.kind == "page" else {})}.items():
            for found in re.finditer(pattern, text.text):
                around = text.text[max(0, found.start() - 30) : found.end() + 30]
                if not any(text.path == path and (piece == "*" or piece in text.text) for path, piece in ALLOWED):
                    yield Finding(text, rule, around)


def report() -> int:
    """Print the counts per room and rule; 1 if a clean room has findings."""
    by_room: dict[str, Counter[str]] = defaultdict(Counter)
    all_rooms = {room_of(name) for name in tracked()}
    spoilt = []
    for each in findings():
        room = room_of(each.text.path)
        by_room[room][each.rule] += 1
        if room in CLEAN:
            spoilt.append(each)
    for room in sorted(all_rooms, key=lambda room: (-by_room[room].total(), room)):
        often = ", ".join(f"{rule} {count}" for rule, count in by_room[room].most_common(4))
        print(f"{room:20} {by_room[room].total():5}  {'clean' if room in CLEAN else ''} {often}")
    print(f"{'all':20} {sum(each.total() for each in by_room.values()):5}")
    for each in spoilt:
        print(_line(each), file=sys.stderr)
    return 1 if spoilt else 0


def _line(each: Finding) -> str:
    return f"{each.text.path}:{each.text.line}: {each.rule}: ...{each.words}..."


def draw(count: int, seed: int) -> None:
    """Print random docstrings and messages of the production code and the tests."""
    drawn = [text for text in texts() if text.path.endswith(".py")]
    chance = random.Random(seed)
    for kind in ("docstring", "message"):
        of_kind = [text for text in drawn if text.kind == kind]
        print(f"== {count} of {len(of_kind)} {kind}s, seed {seed}")
        for text in chance.sample(of_kind, count):
            print(f"{text.path}:{text.line}: {text.text}")


def main() -> int:
    """The command; its modes are in the module's docstring."""
    parser = argparse.ArgumentParser(description="Count words and phrases that the project's texts avoid.")
    parser.add_argument("--show", metavar="ROOM")
    parser.add_argument("--draw", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=19)
    options = parser.parse_args()
    if options.draw:
        draw(options.draw, options.seed)
        return 0
    if options.show:
        for each in findings():
            if room_of(each.text.path) == options.show or each.text.path == options.show:
                print(_line(each))
        return 0
    return report()


if __name__ == "__main__":
    sys.exit(main())
