"""What users type, which exit codes are right, and what must be there afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.commands import evidence
from tests.commands.evidence import Done

DONE, VERDICT = (0,), (0, 1, 3)
CELL = "curl--dsl-20--http1-get-5MiB-at-1MBps"
FEW = ("--max-samples", "5")
_SUITES = (
    "faults",
    "file-sets",
    "mail",
    "platform",
    "requests",
    "round-trips",
    "rtt-curve",
    "sftp-buffers",
    "throttle",
    "throttle-extended",
    "upload-buffers",
)
_CURLS = ("8.4.0", "8.22.0", "8.8.0", "7.86.0", "7.88.1", "7.83.1", "8.17.0")


@dataclass(frozen=True)
class Row:
    """`words` as typed in the checkout, with `{work}` for a folder of the row's own. `check` gives a line per problem."""

    name: str
    words: tuple[str, ...]
    codes: tuple[int, ...] = DONE
    longest_s: float = 900
    check: Callable[[Done], list[str]] = evidence.nothing
    prepare: Callable[[Path], None] | None = None
    needs: str = ""
    """A program without which the row is skipped, with that reason."""


def _lab(name: str, *words: str, **more: object) -> Row:
    return Row(name, (".venv/bin/lab", *words), **more)  # type: ignore[arg-type]


ROWS = (
    Row("set-up", ("make", "setup"), longest_s=1800),
    Row("demo", ("make", "demo"), VERDICT, check=evidence.run_with_page),
    _lab("doctor", "doctor"),
    *(_lab(f"suite {name}", "run", name, *FEW, codes=VERDICT, longest_s=3600, check=evidence.run_with_page) for name in _SUITES),
    _lab("qualify", "qualify", "ferry", "--quick", "--baseline", "curl", codes=VERDICT, check=evidence.run_with_page),
    _lab("packets", "run", CELL, "--pcap", *FEW, codes=VERDICT, check=evidence.captures),
    _lab(
        "flame graph",
        "run",
        CELL,
        "--clock",
        "real",
        "--flamegraph",
        *FEW,
        codes=VERDICT,
        check=evidence.flame_graph,
        needs="perf",
    ),
    _lab("report again", "report", "latest", "-o", "{work}/page.html", check=evidence.page),
    _lab("shell", "shell", "--topology", "4g-bad", "--", "curl", "-sS", "-o", "/dev/null", "http://server/files/1MiB"),
    _lab("search", "search", "limit", "curl", "--topology", "dsl-20", codes=VERDICT, check=evidence.run_with_page),
    _lab(
        "bisect a git history",
        *("bisect", "ferry--dsl-20--http1-get-1MiB-at-500kBps", "--good", "one", "--bad", "five", "--repo", "{work}/repo"),
        *("--build-command", "sh build.sh", "--program", "ferry"),
        check=evidence.planted_commit,
        prepare=evidence.planted_history,
    ),
    _lab("build a curl", "client", "build", "curl@8.17.0", longest_s=1800),
    _lab("build the repros' curls", "client", "build", *(f"curl@{version}" for version in _CURLS), longest_s=7200),
    _lab("repros", "repro", "burst", "busy-wait", "chunked-limit", "h1-limit", "h2-limit", "upload-limit", longest_s=3600),
    _lab("repros without a build", "repro", "sftp-upload-window", "sftp-download-window", longest_s=3600),
    Row(
        "containers by hand",
        ("docker", "compose", "--profile", "real", "up", "-d", "--wait", "client"),
        check=evidence.containers,
        needs="docker",
    ),
    Row("containers away", ("docker", "compose", "--profile", "real", "down", "--volumes"), needs="docker"),
)
