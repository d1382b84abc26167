"""A driver for libcurl with the options of curl's command line that the lab uses, for versions without a source package.

It is not the curl tool. Copied into the cache next to its `lib` folder, so it uses only the standard library. libcurl reads and
writes C's FILE with its own callbacks, so no Python runs during a transfer. It sets the same options as the tool.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# From curl.h: the base of an option's number gives its type.
_LONG, _POINTER, _OFF_T = 0, 10_000, 30_000
_WRITEDATA, _URL, _USERPWD, _READDATA, _ERRORBUFFER = (_POINTER + number for number in (1, 2, 5, 9, 10))
_HTTPHEADER, _CAINFO, _SSH_PUBLIC_KEYFILE, _SSH_PRIVATE_KEYFILE, _SSH_KNOWNHOSTS = (
    _POINTER + number for number in (23, 65, 152, 153, 183)
)
_FAILONERROR, _UPLOAD, _HTTP_VERSION, _BUFFERSIZE, _TCP_NODELAY, _TCP_KEEPALIVE = 45, 46, 84, 98, 121, 213
_INFILESIZE, _MAX_SEND_SPEED, _MAX_RECV_SPEED = (_OFF_T + number for number in (115, 145, 146))
_HTTP_1_1, _HTTP_2 = 2, 3

# The variables of -w with their numbers for curl_easy_getinfo; the base gives the type.
_TEXT, _INTEGER, _SECONDS, _SIZE = 0x100000, 0x200000, 0x300000, 0x600000
_TYPES: dict[int, type[ctypes._SimpleCData[Any]]] = {
    _TEXT: ctypes.c_char_p,
    _INTEGER: ctypes.c_long,
    _SECONDS: ctypes.c_double,
    _SIZE: ctypes.c_int64,
}
_INFO = {
    "http_code": _INTEGER + 2,
    "time_total": _SECONDS + 3,
    "time_namelookup": _SECONDS + 4,
    "time_connect": _SECONDS + 5,
    "time_pretransfer": _SECONDS + 6,
    "size_upload": _SIZE + 7,
    "size_download": _SIZE + 8,
    "speed_download": _SIZE + 9,
    "speed_upload": _SIZE + 10,
    "time_starttransfer": _SECONDS + 17,
    "num_connects": _INTEGER + 26,
    "time_appconnect": _SECONDS + 33,
    "http_version": _INTEGER + 46,
    "scheme": _TEXT + 49,
}
_VERSIONS = {1: "1.0", 2: "1.1", 3: "2", 30: "3"}
# The tool's receive buffer, which shrinks to a lower limit.
_TOOL_BUFFER = 102_400
_READ_ERROR, _WRITE_ERROR = 26, 23
_RANGE = re.compile(r"\[(\d+)-(\d+)\]")

_libc = ctypes.CDLL(None)
_libc.fopen.restype = ctypes.c_void_p
_libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
_libc.fclose.argtypes = [ctypes.c_void_p]
_libc.fflush.argtypes = [ctypes.c_void_p]


class Libcurl:
    """One easy handle for all transfers in sequence, like the tool, so that the connection stays open."""

    def __init__(self, library: Path) -> None:
        self._lib = ctypes.CDLL(str(library))
        self._lib.curl_version.restype = ctypes.c_char_p
        self._lib.curl_easy_init.restype = ctypes.c_void_p
        self._lib.curl_easy_strerror.restype = ctypes.c_char_p
        self._lib.curl_slist_append.restype = ctypes.c_void_p
        self._lib.curl_slist_append.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        self._handle = ctypes.c_void_p(self._lib.curl_easy_init())
        self._error = ctypes.create_string_buffer(256)
        self.set(_ERRORBUFFER, ctypes.cast(self._error, ctypes.c_void_p).value)

    @property
    def version(self) -> str:
        return str(self._lib.curl_version().decode())

    def set(self, option: int, value: str | int | None) -> None:
        """Set an option. Exits if this libcurl does not have it, like curl with an unknown flag."""
        argument: ctypes.c_char_p | ctypes.c_void_p | ctypes.c_int64
        if isinstance(value, str):
            argument = ctypes.c_char_p(os.fsencode(value))
        elif option >= _OFF_T or option < _POINTER:
            argument = ctypes.c_int64(value or 0)
        else:
            argument = ctypes.c_void_p(value)
        if code := self._lib.curl_easy_setopt(self._handle, option, argument):
            sys.exit(f"curl: libcurl refuses option {option}: {self.strerror(code)}")

    def headers(self, lines: Sequence[str]) -> None:
        """Set the headers. The list is never freed, because the handle needs it."""
        first: int | None = None
        for line in lines:
            first = self._lib.curl_slist_append(first, line.encode())
        self.set(_HTTPHEADER, first)

    def perform(self) -> int:
        self._error[0] = b"\0"
        return int(self._lib.curl_easy_perform(self._handle))

    def strerror(self, code: int) -> str:
        return self._error.value.decode(errors="replace") or str(self._lib.curl_easy_strerror(code).decode())

    def info(self, name: str) -> str:
        number = _INFO[name]
        place = _TYPES[number & 0xF00000]()
        self._lib.curl_easy_getinfo(self._handle, number, ctypes.byref(place))
        found = place.value
        if isinstance(found, bytes):
            return found.decode()
        if isinstance(found, float):
            return f"{found:.6f}"
        if name == "http_version":
            return _VERSIONS.get(int(found or 0), "0")
        return f"{found:03}" if name == "http_code" else str(found or 0)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="curl", allow_abbrev=False, description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("-q", action="store_true", help="no effect: there is no configuration file")
    options.add_argument("-s", "--silent", action="store_true", help="no effect: there is no progress meter")
    options.add_argument("-S", "--show-error", action="store_true", help="no effect: errors are always shown")
    options.add_argument("-V", "--version", action="store_true")
    options.add_argument("-f", "--fail", action="store_true")
    options.add_argument("-w", "--write-out", default="")
    options.add_argument("-o", "--output")
    options.add_argument("-T", "--upload-file")
    options.add_argument("-H", "--header", action="append", default=[])
    options.add_argument("-u", "--user")
    options.add_argument("--key")
    options.add_argument("--pubkey")
    options.add_argument("--cacert")
    options.add_argument("--limit-rate", type=int, default=0, metavar="BYTES")
    options.add_argument("--http1.1", dest="http", action="store_const", const=_HTTP_1_1)
    options.add_argument("--http2", dest="http", action="store_const", const=_HTTP_2)
    options.add_argument("url", nargs="?")
    return options


def expand(text: str) -> list[tuple[str, str]]:
    """The texts that a range such as `[00-99]` expands to, each with its number; without a range, the text alone."""
    found = _RANGE.search(text)
    if not found:
        return [(text, "")]
    first, last = found.groups()
    numbers = [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
    return [(f"{text[: found.start()]}{number}{text[found.end() :]}", number) for number in numbers]


def formatted(template: str, value: Callable[[str], str]) -> str:
    """The text of -w with its variables replaced; unknown ones stay as they are."""
    known = re.sub(r"%\{(\w+)\}", lambda found: value(found[1]) if found[1] in _INFO else found[0], template)
    return known.replace("\\n", "\n").replace("\\t", "\t")


def configure(curl: Libcurl, options: argparse.Namespace) -> None:
    limit = options.limit_rate
    curl.set(_TCP_NODELAY, 1)
    curl.set(_TCP_KEEPALIVE, 1)
    curl.set(_BUFFERSIZE, min(limit or _TOOL_BUFFER, _TOOL_BUFFER))
    curl.set(_FAILONERROR, int(options.fail))
    if limit:
        curl.set(_MAX_SEND_SPEED, limit)
        curl.set(_MAX_RECV_SPEED, limit)
    if options.http:
        curl.set(_HTTP_VERSION, options.http)
    for option, text in ((_CAINFO, options.cacert), (_USERPWD, options.user)):
        if text is not None:
            curl.set(option, text)
    if options.header:
        curl.headers(options.header)
    if options.key:
        curl.set(_SSH_PRIVATE_KEYFILE, options.key)
        curl.set(_SSH_PUBLIC_KEYFILE, options.pubkey)
        curl.set(_SSH_KNOWNHOSTS, str(Path("~/.ssh/known_hosts").expanduser()))


def transfer(curl: Libcurl, url: str, source: str | None, output: str | None) -> int:
    """One file; curl's exit code."""
    files = []
    try:
        if source is not None:
            files.append(_open(source, b"rb"))
            curl.set(_UPLOAD, 1)
            curl.set(_READDATA, files[-1])
            curl.set(_INFILESIZE, Path(source).stat().st_size)
        if output is not None:
            files.append(_open(output, b"wb"))
            curl.set(_WRITEDATA, files[-1])
        curl.set(_URL, url)
        code = curl.perform()
    except OSError as error:
        print(f"curl: {error.filename}: {error.strerror}", file=sys.stderr)
        code = _READ_ERROR if error.filename == source else _WRITE_ERROR
    else:
        if code:
            print(f"curl: ({code}) {curl.strerror(code)}", file=sys.stderr)
    finally:
        _libc.fflush(None)
        # A full disk may show only here.
        closed = [_libc.fclose(file) for file in files]
    return code or (_WRITE_ERROR if any(closed) else 0)


def _open(path: str, mode: bytes) -> int:
    file = _libc.fopen(os.fsencode(path), mode)
    if not file:
        # Repeat the failure in Python for its message.
        with Path(path).open(mode.decode()):
            raise OSError(0, "cannot be opened", path)
    return int(file)


def main(arguments: Sequence[str] | None = None, library: Path | None = None) -> int:
    # Python's handler would run only after the transfer.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    options = parser().parse_args(arguments)
    curl = Libcurl(library or next((Path(__file__).parent / "lib").glob("libcurl*.so*")))
    if options.version:
        number = curl.version.split()[0].partition("/")[2]
        print(f"curl {number} (Throughline's libcurl driver, not the curl tool) {curl.version}")
        return 0
    if not options.url:
        parser().error("no URL")
    configure(curl, options)
    first_failure = 0
    for source, _ in expand(options.upload_file or ""):
        for url, part in expand(options.url):
            target = url + Path(source).name if source and url.endswith("/") else url
            output = options.output.replace("#1", part) if options.output and part else options.output
            code = transfer(curl, target, source or None, output)
            first_failure = first_failure or code
            sys.stdout.write(formatted(options.write_out, curl.info))
            sys.stdout.flush()
    return first_failure


if __name__ == "__main__":
    sys.exit(main())
