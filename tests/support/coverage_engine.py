"""`python -m tests.support.coverage_engine [WORD...]`: which lines of the engine its tests run, per crate.

The words choose tests as for `cargo nextest run`; without any all of the workspace run. Lines of tests do not count. It needs
llvm-profdata and llvm-cov of the LLVM that rustc has: `rustup component add llvm-tools`, or Debian's package, or `$LLVM_BIN`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.mutation.copies import ROOT, jobs

ENGINE = ROOT / "engine"
FOLDER = ROOT / "build" / "coverage-engine"
# Only the crates of the workspace are instrumented: what they depend on stays as it was built for all else.
_WRAPPER = '#!/bin/sh\nexec "$@" -C instrument-coverage\n'
_TEST_FILE = re.compile(r"/tests/|(?:^|/|_)tests?\.rs$")
_TEST_MODULE = re.compile(r"^#\[cfg\(test\)\]\n(?:#\[[^\n]*\]\n)*mod \w+ \{$", re.MULTILINE)


def tools() -> Path:
    """The folder of llvm-profdata and llvm-cov."""
    about = subprocess.run(["rustc", "-vV"], cwd=ENGINE, check=True, capture_output=True, text=True).stdout
    facts = dict(line.split(": ", 1) for line in about.splitlines() if ": " in line)
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], cwd=ENGINE, check=True, capture_output=True, text=True)
    major = facts["LLVM version"].partition(".")[0]
    places = [
        os.environ.get("LLVM_BIN"),
        f"{sysroot.stdout.strip()}/lib/rustlib/{facts['host']}/bin",
        f"/usr/lib/llvm-{major}/bin",
    ]
    for place in filter(None, places):
        if shutil.which("llvm-cov", path=place) and shutil.which("llvm-profdata", path=place):
            return Path(place)
    raise SystemExit(f"no llvm-cov of LLVM {major}: rustup component add llvm-tools, or apt-get install llvm-{major}")


def run(words: Sequence[str]) -> int:
    """Build and run the tests; what each ran is in the folder. Returns nextest's exit code."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.prof*"):
        old.unlink()
    wrapper = FOLDER / "rustc"
    wrapper.write_text(_WRAPPER)
    wrapper.chmod(0o755)
    command = ["cargo", "nextest", "run", "--locked", "--no-fail-fast", "--cargo-quiet", "--status-level", "fail", "-j", jobs()]
    return subprocess.run([*command, *words], cwd=ENGINE, env=_env(), check=False, timeout=7200).returncode


def lines(words: Sequence[str]) -> str:
    """Per file the lines and how often each ran, in lcov's format."""
    place, merged = tools(), FOLDER / "all.profdata"
    raw = [str(each) for each in FOLDER.glob("*.profraw")]
    subprocess.run([place / "llvm-profdata", "merge", "-sparse", *raw, "-o", merged], check=True)
    listed = ["cargo", "nextest", "list", "--locked", "--cargo-quiet", "--list-type", "binaries-only", "--message-format", "json"]
    found = subprocess.run([*listed, *words], cwd=ENGINE, env=_env(), check=True, stdout=subprocess.PIPE, text=True)
    programs = [each["binary-path"] for each in json.loads(found.stdout)["rust-binaries"].values()]
    # Tests start ferry itself, too.
    ferry = FOLDER / "target" / "debug" / "ferry"
    programs += [str(ferry)] if ferry.exists() else []
    objects = [word for program in programs for word in ("-object", program)][1:]
    export = [place / "llvm-cov", "export", "--format=lcov", f"--instr-profile={merged}", *objects]
    return subprocess.run(export, check=True, stdout=subprocess.PIPE, text=True).stdout


def by_crate(report: str, texts: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Lines and those that ran by crate, of lcov's report and the files' texts by path from the engine's folder."""
    counted: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    path, last = "", 0
    for line in report.splitlines():
        kind, _, rest = line.partition(":")
        if kind == "SF":
            path = rest.removeprefix(f"{ENGINE}/")
            wanted = path in texts and "/src/" in path and not _TEST_FILE.search(path)
            last = _without_tests(texts[path]) if wanted else 0
        elif kind == "DA":
            number, times = (int(each) for each in rest.split(",")[:2])
            if number <= last:
                counted[path.split("/")[1]][0] += 1
                counted[path.split("/")[1]][1] += times > 0
    return {crate: (each[0], each[1]) for crate, each in sorted(counted.items())}


def _without_tests(text: str) -> int:
    """The last line before a module of tests at the file's end."""
    found = _TEST_MODULE.search(text)
    return text[: found.start()].count("\n") if found else text.count("\n") + 1


def _env() -> dict[str, str]:
    return {
        **os.environ,
        "RUSTC_WORKSPACE_WRAPPER": str(FOLDER / "rustc"),
        "CARGO_TARGET_DIR": str(FOLDER / "target"),
        # One file per program, into which each of its processes adds.
        "LLVM_PROFILE_FILE": str(FOLDER / "%m.profraw"),
        "PROPTEST_RNG_SEED": "2026",
    }


def main(words: Sequence[str]) -> int:
    tools()
    chosen = list(words) or ["--workspace"]
    code = run(chosen)
    texts = {str(path.relative_to(ENGINE)): path.read_text(encoding="utf-8") for path in (ENGINE / "crates").rglob("*.rs")}
    print("| crate | lines | ran |\n|---|---|---|")
    for crate, (existing, ran) in by_crate(lines(chosen), texts).items():
        print(f"| {crate} | {existing:,} | {ran / existing:.1%} |")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
