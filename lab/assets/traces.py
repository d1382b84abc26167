"""Recorded traces that others have published. They are not part of the lab: a user's machine downloads them, by digest."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from lab.model import files
from lab.model.errors import LabFault
from lab.model.paths import downloaded_traces_dir

_MAHIMAHI = "https://raw.githubusercontent.com/ravinet/mahimahi/ae477d437615b972217498ba52be07db17a15618/traces"
_HSDPA = (
    "https://raw.githubusercontent.com/confiwent/Real-world-bandwidth-traces/d28c4fd48d0e358db024cc0217b111c070815fa7/cooked_3gp"
)
MIRROR = "ROUGHWATER_TRACE_MIRROR"
"""Environment variable: an address that has the files by their names, in place of the publishers'."""
_PATIENCE_S = 60.0
_LARGEST_BYTES = 8 << 20


@dataclass(frozen=True)
class Published:
    """A file of someone's, and what it holds."""

    name: str
    folder: str
    sha256: str
    about: str

    @property
    def url(self) -> str:
        """The URL of the download."""
        return f"{(os.environ.get(MIRROR) or self.folder).rstrip('/')}/{self.name}"

    @property
    def path(self) -> Path:
        """The path of the downloaded trace."""
        return downloaded_traces_dir() / self.name

    @property
    def here(self) -> bool:
        """True if the trace has been downloaded, intact."""
        return self.path.is_file() and files.digest(self.path) == self.sha256


PUBLISHED = (
    Published(
        "TMobile-LTE-short.down",
        _MAHIMAHI,
        "4f33dce8dd811b5702272af64aaf64d3913719919abd776edf1e0f7c0965da43",
        "T-Mobile LTE, 140 s, down, 16.9 Mbit/s in the mean",
    ),
    Published(
        "TMobile-LTE-short.up",
        _MAHIMAHI,
        "1c0d1bf5417b07597724fd64afe676af3c1f337a4ccdde90106bf96b1bcf18b2",
        "T-Mobile LTE, 140 s, up, 13.4 Mbit/s in the mean",
    ),
    Published(
        "TMobile-UMTS-driving.down",
        _MAHIMAHI,
        "c97a74e7e6cf593d93b59f73db614bc6186bef510531636ad9961a3b9fc18024",
        "T-Mobile UMTS in a car, 15 min, gaps of up to 5.8 s, down, 2.0 Mbit/s in the mean",
    ),
    Published(
        "TMobile-UMTS-driving.up",
        _MAHIMAHI,
        "f2dc7c8e57f4cf525fefaff2d68c18a9118fd1382ce9c240b1d324a2a60f8a65",
        "T-Mobile UMTS in a car, 15 min, gaps of up to 5.8 s, up, 1.0 Mbit/s in the mean",
    ),
    Published(
        "Verizon-LTE-short.down",
        _MAHIMAHI,
        "c918436fbd6246af134c76585d9395881fdd27203c59a8902b9a7c675b8a8e3e",
        "Verizon LTE, 140 s, down, 5.1 Mbit/s in the mean",
    ),
    Published(
        "Verizon-LTE-short.up",
        _MAHIMAHI,
        "f6cd9049f58d70f12545772a3482ded085b6d50f06a2f4ff4afcfb6fe7976dcc",
        "Verizon LTE, 140 s, up, 6.0 Mbit/s in the mean",
    ),
    Published(
        "ATT-LTE-driving-2016.down",
        _MAHIMAHI,
        "24a40538340de991e0a6595aefc381b11a3da0446176e69b51750707a57b0344",
        "AT&T LTE in a car, 120 s, gaps of up to 4.1 s, down, 4.6 Mbit/s in the mean",
    ),
    Published(
        "ATT-LTE-driving-2016.up",
        _MAHIMAHI,
        "ebb3d53674b77be4ed920ad91c4513a496e04e30da839e2ca8a627cb7269071e",
        "AT&T LTE in a car, 120 s, gaps of up to 4.1 s, up, 1.9 Mbit/s in the mean",
    ),
    Published(
        "norway_bus_1",
        _HSDPA,
        "a1e3ee6a1dfc35a391c5ecae933be0286b812d75896d6e28485d2e90ebcd5407",
        "HSDPA in a bus in Norway, 155 s, 2.9 Mbit/s in the mean (Pensieve's form)",
    ),
)


def download(trace: Published) -> None:
    """Put it in the cache. Raises LabFault where it cannot be had, or where it differs from the known file."""
    try:
        with urllib.request.urlopen(trace.url, timeout=_PATIENCE_S) as answer:  # noqa: S310 - https, or what the user named
            data = answer.read(_LARGEST_BYTES + 1)
    except (urllib.error.URLError, HTTPException, OSError, ValueError) as problem:
        raise LabFault(f"{trace.url} cannot be downloaded: {problem}") from None
    if (found := hashlib.sha256(data).hexdigest()) != trace.sha256:
        raise LabFault(f"{trace.url} has changed: its SHA-256 is {found}, not {trace.sha256}", remedy="nothing was kept")
    trace.path.parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(trace.path) as part:
        part.write_bytes(data)
