"""What a host of the tests starts ends with the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lab.assets import tools
from tests.support.processes import adopting, birth, descendants
from tests.support.waiting import until

_SERVER = """\
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tests.support.local_host import LocalHost

host = LocalHost("server", Path(sys.argv[1]))
with ThreadPoolExecutor(1) as pool:
    pool.submit(host.start, [sys.argv[2], "-p", sys.argv[1], "-e", "stderr", "-c", "nginx.conf"]).result()
print("started", flush=True)
sys.stdin.read()
"""
_TEMPORARY = " ".join(f"{kind}_temp_path temporary;" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
_NGINX = f"""\
daemon off;
pid nginx.pid;
events {{}}
http {{ access_log off; {_TEMPORARY} server {{ listen unix:socket; }} }}
"""


def test_a_server_and_its_workers_end_with_tests_that_are_killed(tmp_path: Path) -> None:
    """It was started by a thread that has ended since; that does not end it."""
    (tmp_path / "nginx.conf").write_text(_NGINX)
    nginx = str(tools.require("nginx"))
    with adopting():
        tests = subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(tmp_path), nginx], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert tests.stdout is not None
        assert tests.stdin is not None
        assert tests.stdout.readline() == b"started\n"
        until(lambda: len(descendants(tests.pid)) >= 2, "nginx has a worker")
        servers = descendants(tests.pid)
        tests.kill()
        tests.wait()
        tests.stdin.close()
        tests.stdout.close()
        until(lambda: not any(birth(pid) for pid in servers), "nginx and its worker have ended")
