"""Fix the size of a host's send buffer, and restore the automatic one.

On Linux a TCP send buffer grows up to tcp_wmem's third number; where the second equals the third, it is fixed. On Windows the
same question is asked of dynamic send buffering (the ideal send backlog): there "fixed" is a setting of the registry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.hosts.host import Host
from lab.hosts.linux_settings import SYSCTLS
from lab.model.errors import LabFault
from lab.model.units import Size

_NAME = "net.ipv4.tcp_wmem"
_FILE = "/proc/sys/" + _NAME.replace(".", "/")
_LEAST = 4096


@contextmanager
def fixed_send_buffer(host: Host, size: Size) -> Iterator[None]:
    """New connections inside the block have a send buffer of `size`, the kernel's own overhead included; then as pinned again."""
    least = min(_LEAST, size.bytes)
    try:
        _set(host, f"{least} {size.bytes} {size.bytes}")
        yield
    finally:
        _set(host, SYSCTLS[_NAME])


def _set(host: Host, value: str) -> None:
    done = host.run(["/bin/sh", "-c", f'echo "$1" >{_FILE}; cat {_FILE}', "set", value], root=True, check=False)
    if done.text.split() != value.split():
        remedy = "use --backend namespaces"
        raise LabFault(f"{host.name}: {_NAME} cannot be set to {value!r}: {done.error_text}", remedy=remedy)
