"""What must hold of the target at every moment, and what the end of a run promises (README.md has the list)."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.engine.sftp_servers import descendants
from tests.engine.versions.source import Snapshot, Source, Version
from tests.engine.versions.stage import Run, Stage

EXIT_CODES = {0, 10, 11, 12, 13}


@dataclass(frozen=True)
class Found:
    """A file of the target: its version, if it is one, and its attributes."""

    facts: tuple[int, int, int, int]
    version: Version | None
    mtime: int
    mode: int
    words: str


def _is_temporary(path: Path) -> bool:
    return path.name.startswith(".") and ".ferry-" in path.name


@dataclass
class Judge:
    """Looks at the target after every step. `problems` has what was violated, each with its kind before a colon."""

    stage: Stage
    source: Source
    found: dict[str, Found] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def way(self) -> str:
        assert self.stage.plan is not None
        return self.stage.plan.way

    def say(self, kind: str, words: str) -> None:
        self.problems.append(f"{kind}: {words}")

    def _window(self, runs: list[Run]) -> list[Snapshot]:
        """The source as it was while any of these runs went on."""
        return self.source.history[min((run.began for run in runs), default=len(self.source.history) - 1) :]

    def look(self, runs: list[Run]) -> set[str]:
        """`runs` were alive since the last look. Returns the paths that have another file or content now."""
        window = self._window(runs)
        before, now = self.found, dict(self._walk())
        changed = {path for path, found in now.items() if path not in before or before[path].facts != found.facts}
        for path in sorted(changed):
            self._is_a_version(path, now[path], window)
        for path in sorted(before.keys() - now.keys()):
            if not self.way.endswith("mirror"):
                self.say("removed", f"{path} is gone, and nothing asked for that")
            elif all(snapshot.names(path) for snapshot in window):
                self.say("removed", f"{path} is gone, and the source has named it all the time")
        self.found = now
        self._one_writer(runs)
        return changed

    def _walk(self) -> Iterator[tuple[str, Found]]:
        for path in self.stage.target.rglob("*"):
            if path.is_symlink() or not path.is_file() or _is_temporary(path):
                continue
            name = str(path.relative_to(self.stage.target))
            facts = path.stat()
            known = (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            old = self.found.get(name)
            yield name, old if old is not None and old.facts == known else self._read(name, path, facts, known)

    def _read(self, name: str, path: Path, facts: os.stat_result, known: tuple[int, int, int, int]) -> Found:
        data = path.read_bytes()
        versions = self.source.versions.get(name, [])
        version = next((each for each in reversed(versions) if each.size == len(data) and each.data() == data), None)
        words = str(version) if version else _describe(data, versions)
        return Found(known, version, int(facts.st_mtime), stat.S_IMODE(facts.st_mode), words)

    def _is_a_version(self, path: str, found: Found, window: list[Snapshot]) -> None:
        had = {version.number for each in window if (version := each.followed.get(path))}
        if found.version is None or found.version.number not in had:
            self.say("version", f"{path} is {found.words}, and the source had {sorted(had)}")
            return
        self._attributes(path, found, [each for each in self.source.versions[path] if each.data() == found.version.data()])

    def _attributes(self, path: str, found: Found, same: list[Version]) -> None:
        """`same` are the versions with these bytes: a file that was cut to what it was has two times."""
        assert self.stage.plan is not None
        keeps_time = "put" not in self.way if not self.way.startswith("sftp") else True
        if keeps_time and self.stage.plan.manners.validators != "none" and found.mtime not in {each.mtime for each in same}:
            self.say("time", f"{path} is {found.words} with the time {found.mtime}, not {[each.mtime for each in same]}")
        if self.way.startswith("sftp") and found.mode not in {each.mode for each in same}:
            self.say("mode", f"{path} is {found.words} with the mode {found.mode:o}")

    def _one_writer(self, runs: list[Run]) -> None:
        alive = [run for run in runs if run.alive() and not run.is_over()]
        if len(alive) < 2 or any(run.resume for run in alive) or self.way.startswith(("http1-put", "h2-put")):
            return
        writers: dict[tuple[int, int], set[str]] = {}
        for run, pid in self._processes(alive):
            for opened in _open_for_writing(pid, self.stage.target):
                writers.setdefault(opened, set()).add(run.name)
        for names in writers.values():
            if len(names) > 1:
                self.say("writers", f"{sorted(names)} write to one file")

    def _processes(self, alive: list[Run]) -> Iterator[tuple[Run, int]]:
        """Those that write for a run."""
        if not self.way.startswith("sftp-put"):
            yield from ((run, run.process.pid) for run in alive)
            return
        assert self.stage.sshd.process is not None
        for pid in descendants(self.stage.sshd.process.pid):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                ports = {int(word.split(b" ")[1]) for word in words if word.startswith(b"SSH_CONNECTION=")}
                yield from ((run, pid) for run in alive if ports & run.proxy.outgoing())

    # The end of a run

    def ended(self, run: Run) -> None:
        if run.killed:
            return
        if run.code not in EXIT_CODES or "panicked" in run.stderr:
            self.say("exit code", f"{run.name} ended with {run.code}: {run.stderr[-300:]}")
            return
        rows = run.report.get("transfers") or []
        error = run.report.get("error") or {}
        if self.way.endswith("list") and len(rows) != len(self.source.versions) and not error:
            self.say("queue", f"{run.name} reports {len(rows)} of {len(self.source.versions)} URLs")
        failed = [each["message"] for each in (*(row.get("error") for row in rows), error) if each]
        if (run.code == 0) != (not failed):
            self.say("exit code", f"{run.name} ended with {run.code}, and its report has the errors {failed}")
        window = self._window([run])
        alone = not run.disturbed and not run.others and len(window) == 1
        if run.code == 0 or (alone and self.way.endswith("list")):
            self._is_complete(run, window)
        if alone and run.code != 0 and self._can_succeed(window[0]):
            self.say("undisturbed", f"{run.name} ended with {run.code}: {failed} {run.stderr[-300:]}")
        if run.code != 0 and run.published and not run.others and not run.disturbed and len(self.source.versions) == 1:
            self.say("unreported", f"{run.name} ended with {run.code}, and has published {sorted(run.published)}: {failed}")

    def _can_succeed(self, snapshot: Snapshot) -> bool:
        asked = self.source.versions if self._by_name() else []
        return all(path in snapshot.followed for path in asked) and not self.stage.origin.manners.rest_as_all

    def _by_name(self) -> bool:
        """True for a run whose words name each file, false for a folder."""
        return not self.way.endswith(("tree", "mirror"))

    def _is_complete(self, run: Run, window: list[Snapshot]) -> None:
        """Files that the source had all the time are there, and if nothing else wrote, in a version of that time."""
        first = window[0].followed if self._by_name() else window[0].named
        for path in sorted(first):
            rest = [each.followed if self._by_name() else each.named for each in window]
            versions = [each.get(path) for each in rest]
            found = self.found.get(path)
            if None in versions:
                continue
            numbers = {each.number for each in versions if each}
            data = found.version if found else None
            same = data is not None and any(each is not None and each.data() == data.data() for each in versions)
            if found is None or (not same and not run.others):
                self.say("incomplete", f"{run.name} ended with 0, {path} is {found.words if found else 'absent'}, not {numbers}")
        if self.way.endswith("mirror") and run.code == 0 and not run.others:
            for path in sorted(self.found):
                if not any(each.names(path) for each in window):
                    self.say("incomplete", f"{run.name} ended with 0 and has not removed {path}")


def _describe(data: bytes, versions: list[Version]) -> str:
    """The versions whose bytes a file has, with these bytes."""
    runs: list[tuple[str, int]] = []
    contents = [(str(each.number), each.data()) for each in versions]
    for at in range(0, len(data), 4096):
        piece = data[at : at + 4096]
        of = next((number for number, all_ in contents if all_[at : at + len(piece)] == piece), "?" if any(piece) else "zeros")
        if runs and runs[-1][0] == of:
            runs[-1] = of, runs[-1][1] + len(piece)
        else:
            runs.append((of, len(piece)))
    return f"{len(data)} bytes: " + " + ".join(f"{size} of {of}" for of, size in runs[:6])


def _open_for_writing(pid: int, below: Path) -> Iterator[tuple[int, int]]:
    """Device and inode of files in the target that a process may write to."""
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if not str(entry.readlink()).startswith(str(below)):
                    continue
                flags = Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text(encoding="ascii")
                access = next(int(line.split()[1], 8) for line in flags.splitlines() if line.startswith("flags:"))
                facts = entry.stat()
                if access & os.O_ACCMODE != os.O_RDONLY and stat.S_ISREG(facts.st_mode):
                    yield facts.st_dev, facts.st_ino
