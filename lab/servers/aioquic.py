"""aioquic: a second server of HTTP/3, to separate nginx's limits from a client's. It is a library of the userland."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lab.hosts.host import Host
from lab.servers.process import ServerProcess

if TYPE_CHECKING:
    from lab.servers.certificates import Certificates

PACKAGE = "python3-aioquic"
"""Debian's name for it."""
_SCRIPT = Path(__file__).with_name("aioquic_script.py")


def launch(host: Host, certificates: Certificates, *, port: int, bind: str, begin: bool = True) -> ServerProcess:
    """Start without waiting; or, without `begin`, only prepare. It serves the same folders as nginx, over HTTP/3 alone."""
    own = host.workdir / "aioquic"
    if not begin:
        return ServerProcess("aioquic", host, (), ())
    host.write(own / "server.pem", certificates.server_pem)
    host.write(own / "server.key", certificates.server_key_pem, mode=0o600)
    host.write(host.workdir / "upload" / ".keep", b"")
    # With site-packages, where the library is: not as `script_command`.
    argv = [host.under_test.program("python3"), "-I", "-c", _SCRIPT.read_text(encoding="utf-8")]
    process = host.under_test.start([*argv, bind, str(port), str(host.workdir), str(own / "server.pem"), str(own / "server.key")])
    return ServerProcess("aioquic", host, (process,), (f"udp,{bind},{port}",))
