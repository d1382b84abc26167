"""`go test`: a program for each package, which runs in the package's folder as `go test` would run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.model.errors import UsageProblem
from lab.run.project.plan import PROGRAMS, Outside, Plan, Step, name_of, names, refused

_BUILD_SWITCHES = names("a race msan asan x work trimpath linkshared modcacherw cover")
_BUILD_VALUES = names(
    "asmflags buildmode buildvcs compiler covermode coverpkg gccgoflags gcflags installsuffix ldflags mod modfile overlay p pgo "
    "pkgdir tags toolexec vet"
)
_TEST_SWITCHES = names("v short failfast benchmem fullpath")
_PROFILES = names("blockprofile coverprofile cpuprofile memprofile mutexprofile trace")
_TEST_VALUES = _PROFILES | names(
    "run skip bench benchtime count cpu fuzz fuzztime list memprofilerate mutexprofilefraction blockprofilerate outputdir "
    "parallel shuffle timeout"
)
# The default that `go test` gives to the program.
_TIMEOUT = "10m0s"
_OUTPUTDIR = "outputdir"
_LISTED = "{{.ImportPath}}\t{{.Dir}}\t{{len .TestGoFiles}}\t{{len .XTestGoFiles}}"


@dataclass
class _Words:
    build: list[str] = field(default_factory=list)
    test: dict[str, str] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)
    program: list[str] = field(default_factory=list)
    """For the program itself, after `-args`."""


def plan(go: str, words: Sequence[str], outside: Outside) -> Plan:
    found = split(words)
    listing = outside.ask(go, "list", *_for_list(found.build), "-f", _LISTED, *(found.packages or ["."]))
    steps, tested, notes = list[Step](), list[tuple[str, str]](), list[str]()
    for line in filter(str.strip, listing.splitlines()):
        package, folder, inner, outer = line.split("\t")
        if int(inner) + int(outer):
            tested.append((package, folder))
        else:
            notes.append(f"{package}: no test files")
    if len(tested) > 1 and (profile := next(iter(_PROFILES & found.test.keys()), "")):
        raise UsageProblem(f"go test -{profile} with {len(tested)} packages", remedy="name one package")
    flags = test_flags(found, outside.folder)
    for number, (package, folder) in enumerate(tested):
        name = f"{number}-{package.rpartition('/')[2]}.test"
        outside.build(go, "test", "-c", *found.build, "-o", str(outside.scratch / name), package)
        steps.append(Step(package, (f"{PROGRAMS}/{name}", *flags), Path(folder)))
    return Plan(tuple(steps), programs=outside.scratch, notes=tuple(notes))


def split(words: Sequence[str]) -> _Words:
    """The words of `go test` by where they belong. Raises UsageProblem."""
    found = _Words()
    left = list(words)
    while left:
        word = left.pop(0)
        name = name_of(word).removeprefix("test.")
        if word in ("-args", "--args"):
            found.program = left
            break
        if not word.startswith("-"):
            found.packages.append(word)
        elif name in _BUILD_SWITCHES:
            found.build.append(word)
        elif name in _TEST_SWITCHES:
            found.test[name] = _given(word) or "true"
        elif name in _BUILD_VALUES | _TEST_VALUES:
            if "=" not in word and not left:
                raise UsageProblem(f"go test {word}: it needs a value", remedy=f"{word}=VALUE")
            value = _given(word) if "=" in word else left.pop(0)
            if name in _BUILD_VALUES:
                found.build.append(f"-{name}={value}")
            else:
                found.test[name] = value
        else:
            raise refused("go test", word, "flags of your own tests go after -args")
    if "coverprofile" in found.test and "-cover" not in found.build:
        found.build.append("-cover")
    return found


def test_flags(found: _Words, folder: Path) -> list[str]:
    """The flags of the program that `go test` makes of its own."""
    flags = {"paniconexit0": "true", "timeout": _TIMEOUT, **found.test}
    if _PROFILES & flags.keys():
        flags.setdefault(_OUTPUTDIR, str(folder))
    return [*(f"-test.{name}={value}" for name, value in flags.items()), *found.program]


def _given(word: str) -> str:
    return word.partition("=")[2]


def _for_list(build: Sequence[str]) -> list[str]:
    """The flags by which packages are found. `go list` has no -vet, and -cover makes it compile."""
    return [word for word in build if name_of(word) in ("tags", "mod", "modfile", "overlay", "compiler", "installsuffix")]
