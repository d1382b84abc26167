"""Transfers over the loopback, on any system: `python .ci/loopback.py ferry=target/release/ferry.exe curl=curl.exe`.

Standard library only. Each client downloads 4 MiB from a server in this process, without a limit and limited to 2 MB/s; the exit
code must be 0 and the file identical. Times are printed and not judged: a shared runner has no quiet processor.
"""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CONTENT = random.Random(1).randbytes(4 << 20)  # noqa: S311 - nothing is secret
SHA256 = hashlib.sha256(CONTENT).hexdigest()
LIMIT_S = 60

COMMANDS = {
    "ferry": (["get", "-o", "{output}", "{url}"], ["--limit-rate", "2MB/s"]),
    "curl": (["-sS", "-f", "-o", "{output}", "{url}"], ["--limit-rate", "2000000"]),
}
"""Words after the program, and those that limit it, which may follow."""


class Handler(BaseHTTPRequestHandler):
    """Serves the content at every path."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


def transfer(program: str, words: list[str], url: str, output: Path) -> tuple[str, float]:
    """What went wrong, empty for nothing, and the seconds that it took."""
    filled = [word.format(output=output, url=url) for word in words]
    started = time.monotonic()
    try:
        done = subprocess.run([program, *filled], capture_output=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error), time.monotonic() - started
    seconds = time.monotonic() - started
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr.decode(errors='replace').strip()}", seconds
    right = output.is_file() and hashlib.sha256(output.read_bytes()).hexdigest() == SHA256
    return "" if right else "exit code 0, and the file is not the server's", seconds


def main(clients: list[str]) -> int:
    """1 if a transfer went wrong, 2 for a client that is not known."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/content"
    code = 0
    for text in clients:
        name, _, program = text.partition("=")
        if name not in COMMANDS:
            print(f"{name!r} is not one of {', '.join(COMMANDS)}", file=sys.stderr)
            return 2
        words, limit = COMMANDS[name]
        for what, more in (("no limit", []), ("2 MB/s", limit)):
            with tempfile.TemporaryDirectory() as folder:
                wrong, seconds = transfer(program or name, [*words, *more], url, Path(folder, "got"))
            print(f"{name}, {what}: {wrong or f'{len(CONTENT) / 1e6 / seconds:.3f} MB/s in {seconds:.3f} s'}")
            code = 1 if wrong else code
    server.shutdown()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
