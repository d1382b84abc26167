"""Peak memory of a client on a Linux host, by GNU time.

The kernel's ru_maxrss of a child that Python forked counts Python's own pages: fork (or vfork) shares them, and exec keeps the
larger of old and new image as the high-water mark. GNU time is a parent of one megabyte, so what it reports is the client's own.
CPU seconds have no such trouble and come from `Completed`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.hosts.host import Completed, Host
from lab.model.errors import UsageProblem


def find_time(host: Host) -> str | None:
    """GNU time on that host; without it a sample has no memory figure, and nothing else changes."""
    if host.reports_peak_memory:
        return None
    try:
        return host.program("time")
    except UsageProblem:
        return None


def wrap(command: Sequence[str], time_program: str | None, report_path: str) -> list[str]:
    """`command` under GNU time, its report in a file of the host; -q: no remark on a client's failure."""
    if time_program is None:
        return list(command)
    return [time_program, "-q", "-f", "%M", "-o", report_path, "--", *command]


def max_rss_bytes(report: str) -> int | None:
    """GNU time's %M is KiB of the largest single process. None where there is no report (a client that was killed)."""
    lines = report.split()
    return int(lines[-1]) * 1024 if lines and lines[-1].isdigit() else None


def peak_bytes(host: Host, report: str, done: Completed) -> int | None:
    """Peak memory of a client that ran on `host`: by GNU time's report, or by the host if it measures memory itself."""
    return done.max_rss_bytes if host.reports_peak_memory else max_rss_bytes(report)
