"""The work of the nets: commands by name. Each takes seconds; together they pass through every room of the lab."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["virtual", "real", "text"]


class Row(NamedTuple):
    """One command of the lab.

    `virtual` rows store runs that are equal, `real` ones runs of one form, `text` ones print and store nothing.
    """

    name: str
    kind: Kind
    words: tuple[str, ...]


_CELLS = (
    "curl--dsl-20--http1-get-500kB",
    "curl--dsl-20--http1-put-500kB",
    "curl--dsl-20--http1-get-1MB-at-500kBps",
    "curl--lte--https1-put-300kB",
    "curl--dsl-20--h2-get-500kB-at-300kBps",
    "curl--lossy-wifi--http1-get-500kB",
    "curl--4g-bad--http1-get-300kB",
    "curl--satellite--https1-get-300kB",
    "curl--dsl-20--http1-get-20x10kB",
    "curl--same-host--http1-get-5MB",
    "ferry--dsl-20--http1-get-1MB-at-500kBps",
    "ferry--dsl-20--http1-put-1MB-at-500kBps",
    "ferry--dsl-20--https1-get-500kB",
    "ferry--dsl-20--h2-get-500kB",
    "ferry--dsl-20--h2-put-500kB-at-300kBps",
    "ferry--dsl-20--h3-get-500kB",
    "ferry--dsl-20--h3-put-500kB",
    "ferry--dsl-20--sftp-get-500kB",
    "ferry--dsl-20--sftp-put-1MB-at-500kBps",
    "ferry--wifi-roaming--sftp-get-300kB",
    "ferry--reordering-20--h3-get-300kB",
    "ferry--dsl-20--http1-get-20x10kB",
    "ferry--dsl-20--sftp-put-20x10kB",
    "ferry--dsl-bloated--http1-get-1MB-at-500kBps--burst",
    "ferry--metro-200--http1-get-5MB--fill",
    "openssh--dsl-20--sftp-get-500kB",
    "openssh--dsl-20--sftp-put-500kB",
    "curl--ecn-20--http1-get-500kB",
    "curl--tunnel-1280--http1-put-300kB",
    "curl--3g--http1-get-100kB",
)
_REAL = ("curl--dsl-20--http1-get-500kB", "ferry--dsl-50--h2-put-1MB-at-500kBps", "openssh--dsl-20--sftp-get-500kB")

ROWS = (
    Row("cells", "virtual", ("run", *_CELLS, "--seed", "7")),
    Row("faults", "virtual", ("run", "faults", "--test", "Connection Reset, HTTP Down", "--seed", "7")),
    Row("events", "virtual", ("run", "windows-quirks", "--test", "The Link Flaps, HTTP Up", "--seed", "7")),
    Row("uploads", "virtual", ("run", "windows-uploads", "--test", "H1 Put, 20 ms", "--seed", "7")),
    Row("real", "real", ("run", *_REAL, "--clock", "real")),
    Row("suites", "text", ("suites",)),
    Row("topologies", "text", ("topologies", "--json")),
)
