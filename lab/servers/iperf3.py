"""iperf3 as the calibration's other end. The calibration runs the client itself (`lab.net.calibrate`)."""

from __future__ import annotations

from pathlib import PurePath

from lab.hosts.host import Host
from lab.servers.process import ServerProcess, program, wait_ready

PORT = 5201


def launch(
    host: Host, *, iperf3: str | PurePath | None = None, port: int = PORT, bind: str = "", begin: bool = True
) -> ServerProcess:
    """Start without waiting; or, without `begin`, only prepare. It serves one test after another until stopped.

    The check looks at the kernel's table of listeners: a connection would be taken for a client and leave iperf3 waiting for its
    parameters (seen with 3.12: the next real client hangs).
    """
    log = host.workdir / "iperf3.log"
    argv = [program(host, "iperf3", iperf3), "-s", "-4", "-p", str(port), "--forceflush", "--logfile", str(log)]
    if bind:
        argv += ["-B", bind]
    if not begin:
        return ServerProcess("iperf3", host, (), (), log)
    return ServerProcess("iperf3", host, (host.start(argv),), (f"listen,{bind},{port}",), log)


def start(host: Host, *, iperf3: str | PurePath | None = None, port: int = PORT, bind: str = "") -> ServerProcess:
    server = launch(host, iperf3=iperf3, port=port, bind=bind)
    wait_ready([server])
    return server
