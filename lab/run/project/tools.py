"""Test commands that compile first: a function per tool compiles outside and returns what runs inside.

The machine has one processor and no way to a registry, so `go test` and the like cannot run there as they are. Every flag is
passed on to the compiler or to the tests, or refused; none is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.run.project import cargo, go, maven, npm
from lab.run.project.plan import Outside, Plan, Step

Tool = Callable[[str, Sequence[str], Outside], Plan]
"""A plan from the tool's program, the words after `test`, and the caller's machine."""
TOOLS: Mapping[tuple[str, str], Tool] = {
    ("go", "test"): go.plan,
    ("cargo", "test"): cargo.plan,
    ("cargo", "t"): cargo.plan,
    ("mvn", "test"): maven.plan,
    ("npm", "test"): npm.plan,
    ("npm", "t"): npm.plan,
}


def plan_for(words: Sequence[str], outside: Outside) -> Plan:
    """The plan for a command. Raises UsageProblem for a flag that a tool's function does not know, and BuildFailed."""
    if tool := TOOLS.get((Path(words[0]).name, words[1] if len(words) > 1 else "")):
        return tool(words[0], words[2:], outside)
    return Plan((Step(words[0], tuple(words), outside.folder),))
