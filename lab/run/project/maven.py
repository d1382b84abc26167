"""`mvn test`: compiled by Maven outside, and run by Maven inside, which finds everything compiled.

Maven alone knows which tests surefire would run, with which options. So it runs inside too, offline.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.run.project.plan import Outside, Plan, Step

_OFFLINE = ("-o", "-B")
_REPOSITORY = "-Dmaven.repo.local="
_SETTINGS = ("-s", "--settings")


def plan(maven: str, words: Sequence[str], outside: Outside) -> Plan:
    home = Path(outside.environment.get("HOME", "/nonexistent")) / ".m2"
    outside.build(maven, *_OFFLINE, "-q", "test-compile", *words)
    named = next((word.removeprefix(_REPOSITORY) for word in words if word.startswith(_REPOSITORY)), "")
    repository = Path(named) if named else home / "repository"
    more: list[str] = []
    writable: tuple[Path, ...] = ()
    if repository.is_dir():
        # It notes there which repository a file came from, even offline.
        writable = (repository,)
        more += [] if named else [f"{_REPOSITORY}{repository}"]
    settings = home / "settings.xml"
    if settings.is_file() and not any(word in _SETTINGS for word in words):
        more += ["-s", str(settings)]
    variables = {name: outside.environment[name] for name in ("JAVA_HOME", "MAVEN_OPTS") if name in outside.environment}
    if java := variables.get("JAVA_HOME"):
        variables["PATH"] = f"{java}/bin"
    return Plan((Step("mvn test", (maven, *_OFFLINE, "test", *words, *more), outside.folder, variables),), writable=writable)
