"""The program of the machine's first process, as bytes that are the same wherever the lab lies and whichever Python it runs in.

Python that imports from a folder lists it and looks for compiled files. The machine's clock counts those system calls and page
faults, so a new file in the checkout would change every figure. The modules are compiled by the Python that runs them, and handed
over on the channel.
"""

from __future__ import annotations

import errno
import marshal
import subprocess
import sys
from functools import cache
from pathlib import Path

from lab.hosts.agent.places import MARSHAL_VERSION
from lab.hosts.virtual.guest import CHANNEL
from lab.model.errors import LabFault

_ROOT = Path(__file__).resolve().parents[3]
_PACKAGES = ("lab", "lab.hosts", "lab.hosts.agent")
# The lab's modules that `lab.hosts.virtual.guest` imports, in the order in which they need each other.
_MODULES = (
    "lab.hosts.agent.places",
    "lab.hosts.agent.frames",
    "lab.hosts.agent.syscalls",
    "lab.hosts.agent.spawn",
    "lab.hosts.agent.hostchan",
    "lab.hosts.agent.starter",
    "lab.hosts.agent.job",
    "lab.hosts.agent.keys",
    "lab.hosts.agent.mounts",
    "lab.hosts.agent.roots",
    "lab.hosts.agent.chores",
    "lab.hosts.agent.placing",
    "lab.hosts.agent.project",
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


# Compiled code is named after its module, because its path would be another one elsewhere. Without docstrings, to be read sooner.
_PACKER = """
import marshal, sys
loader, modules, program, version = marshal.loads(sys.stdin.buffer.read())
def compiled(name, source):
    return compile(source, name, "exec", dont_inherit=True, optimize=2)
packed = compiled(*loader), [(name, compiled(name, source)) for name, source in modules], compiled(*program)
sys.stdout.buffer.write(marshal.dumps(packed, version))
"""
_SYSTEM = Path("/usr/bin/python3")
_LONGEST_S = 60.0
_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 11))"


@cache
def interpreter() -> str:
    """The Python of machines in virtual time, links resolved: the system's if it is 3.11 or newer, else the lab's own.

    Labs in environments of different Pythons then have the same machines. None of an environment's packages is needed.
    """
    if _SYSTEM.exists() and _run(str(_SYSTEM), _NEW_ENOUGH).returncode == 0:
        return str(_SYSTEM.resolve())
    return str(Path(sys.executable).resolve())


@cache
def first_program() -> bytes:
    """Three values in `marshal`: the loader, the modules (name and code), the program."""
    modules = [(name, "") for name in _PACKAGES] + [(name, _source(name)) for name in _MODULES]
    asked = marshal.dumps((("loader", _LOADER), modules, (_PROGRAM, _source(_PROGRAM)), MARSHAL_VERSION), MARSHAL_VERSION)
    done = _run(interpreter(), _PACKER, asked)
    if done.returncode:
        raise LabFault(f"{interpreter()} cannot compile the first program: {done.stderr.decode(errors='replace')[-200:]}")
    return done.stdout


def bootstrap() -> str:
    """Python that reads `first_program` and runs it; without `"` and `=`, which a word of a kernel's command line cannot have."""
    read = f"__import__('marshal').loads(open('{CHANNEL}','rb',0).read({len(first_program())}))"
    return f"(lambda loader,modules,program:exec(loader,{{'MODULES':modules,'PROGRAM':program}}))(*{read})"


def _source(name: str) -> str:
    return _ROOT.joinpath(*name.split(".")).with_suffix(".py").read_text(encoding="utf-8")


def _run(python: str, code: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [python, "-I", "-S", "-c", code]
    try:
        return subprocess.run(command, input=stdin, capture_output=True, timeout=_LONGEST_S, check=False, env={})
    except OSError as error:
        remedy = "ulimit -n: it has to be able to open 64 files" if error.errno == errno.EMFILE else ""
        raise LabFault(f"{python} cannot be run: {error.strerror}", remedy=remedy) from None
