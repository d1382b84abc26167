"""The program of the machine's first process, as bytes that are the same wherever the lab lies.

Python that imports from a folder lists it and looks for compiled files. The machine's clock counts those system calls and page
faults, so a new file in the checkout would change every figure. The modules are compiled here, and handed over on the channel.
"""

from __future__ import annotations

import marshal
from functools import cache
from pathlib import Path
from types import CodeType

from lab.hosts.agent.places import MARSHAL_VERSION
from lab.hosts.virtual.guest import CHANNEL

_ROOT = Path(__file__).resolve().parents[3]
_PACKAGES = ("lab", "lab.hosts", "lab.hosts.agent")
# What `lab.hosts.virtual.guest` imports of the lab, in the order in which they need each other.
_MODULES = (
    "lab.hosts.agent.places",
    "lab.hosts.agent.frames",
    "lab.hosts.agent.syscalls",
    "lab.hosts.agent.spawn",
    "lab.hosts.agent.roots",
    "lab.hosts.agent.chores",
)
_PROGRAM = "lab.hosts.virtual.guest"
_LOADER = """
import sys
for name, code in MODULES:
    module = sys.modules[name] = type(sys)(name)
    module.__path__ = []
    exec(code, module.__dict__)
exec(PROGRAM, {"__name__": "__main__"})
"""


@cache
def first_program() -> bytes:
    """Three values in `marshal`: the loader, the modules (name and code), the program."""
    modules = [(name, _compiled("", name)) for name in _PACKAGES] + [(name, _module(name)) for name in _MODULES]
    return marshal.dumps((_compiled(_LOADER, "loader"), modules, _module(_PROGRAM)), MARSHAL_VERSION)


def bootstrap() -> str:
    """Python that reads `first_program` and runs it; without `"` and `=`, which a word of a kernel's command line cannot have."""
    read = f"__import__('marshal').loads(open('{CHANNEL}','rb',0).read({len(first_program())}))"
    return f"(lambda loader,modules,program:exec(loader,{{'MODULES':modules,'PROGRAM':program}}))(*{read})"


def _module(name: str) -> CodeType:
    return _compiled(_ROOT.joinpath(*name.split(".")).with_suffix(".py").read_text(encoding="utf-8"), name)


def _compiled(source: str, name: str) -> CodeType:
    """Named after its module, because its path would be another one elsewhere. Without docstrings, to be read sooner."""
    return compile(source, name, "exec", dont_inherit=True, optimize=2)
