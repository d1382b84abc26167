"""The few system calls that Python 3.11 lacks, over ctypes: stdlib only, because the agent (PID 1) imports it.

Numbers are from <linux/sched.h>, <linux/mount.h>, <linux/prctl.h>, <linux/seccomp.h> and hold on every Linux
architecture, except the seccomp filter's system call number, which is x86-64's (User-Mode Linux exists only there).
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct

from lab.hosts.agent.places import RUN_DIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 2
MS_NODEV = 4
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_SYS_SECCOMP_X86_64 = 317
_SYS_PTRACE_X86_64 = 101
_PTRACE_GETREGSET = 0x4204

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, kind: int) -> None:
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    result = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode() or None)
    _check(result, f"mount {source} on {target}")


def bind(source: str, target: str, *, recursive: bool = False) -> None:
    mount(source, target, "", MS_BIND | (MS_REC if recursive else 0))


def show_namespace(name: str) -> None:
    """Show the network namespace of this process as /run/netns/NAME, for `ip -n`."""
    place = f"{RUN_DIR}/netns/{name}"
    os.close(os.open(place, os.O_CREAT | os.O_RDONLY))
    bind("/proc/self/ns/net", place)


def sethostname(name: str) -> None:
    _check(_libc.sethostname(name.encode(), ctypes.c_size_t(len(name))), "sethostname")


def die_with_parent(*, enabled: bool = True, number: int = signal.SIGKILL) -> None:
    """Send this process a signal when the thread that made it ends.

    A change of credentials clears it (kernel/cred.c, commit_creds), so it must be asked for again after
    unshare(CLONE_NEWUSER).
    """
    _check(_libc.prctl(_PR_SET_PDEATHSIG, number if enabled else 0, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def new_user_namespace(inside: int, *, extra_flags: int = 0) -> None:
    """Enter a user namespace (user_namespaces(7)) as user `inside`, with every capability until something is executed.

    Raises OSError where the kernel or its administrator forbids user namespaces.
    """
    from pathlib import Path

    # Read first: once inside, the kernel reports the overflow id.
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | extra_flags)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{inside} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{inside} {gid} 1")


_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def make_capabilities_ambient() -> None:
    """Pass this process's capabilities on to the programs that it executes (capabilities(7), ambient set)."""
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    data = (_CapabilityData * 2)()
    _check(_libc.capget(ctypes.byref(header), ctypes.byref(data)), "capget")
    for word in data:
        word.inheritable = word.permitted
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")
    for number in range(64):
        if data[number // 32].permitted >> number % 32 & 1:
            _check(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number, 0, 0), f"prctl(PR_CAP_AMBIENT, {number})")


CAP_DAC_READ_SEARCH = 2


def keep_ambient(number: int) -> None:
    """From now on the programs that real root executes as another user have this capability."""
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    data = (_CapabilityData * 2)()
    _check(_libc.capget(ctypes.byref(header), ctypes.byref(data)), "capget")
    data[number // 32].inheritable |= 1 << number % 32
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")
    _check(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number, 0, 0), f"prctl(PR_CAP_AMBIENT, {number})")


def use_only(number: int) -> None:
    """Use this capability alone for now; real root's next change of user gives the rest back."""
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    data = (_CapabilityData * 2)()
    _check(_libc.capget(ctypes.byref(header), ctypes.byref(data)), "capget")
    for index, word in enumerate(data):
        word.effective = 1 << number % 32 if index == number // 32 else 0
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")


def drop_ambient() -> None:
    """The next program executed has no capability left, unless it is root's."""
    _check(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl(PR_CAP_AMBIENT)")


def hide_extended_registers() -> None:
    """Make ptrace(PTRACE_GETREGSET) fail with EINVAL for this process and all it starts.

    User-Mode Linux 6.12 and older read the extended floating-point state into a buffer of 2696 bytes and write that
    much back; a processor with AMX has 11008 bytes and the kernel refuses the short write, so the guest's init dies at once
    ("ptrace set fp regs failed, errno = 14"). Where the first read fails UML falls back to the classic FXSAVE registers,
    which is enough for a router: every guest process has a host process of its own to keep the rest in.
    """

    def instruction(code: int, jump_true: int, jump_false: int, k: int) -> bytes:
        return struct.pack("HBBI", code, jump_true, jump_false, k)

    load, jump_equal, give = 0x20, 0x15, 0x06
    program = b"".join(
        (
            instruction(load, 0, 0, 0),
            instruction(jump_equal, 0, 3, _SYS_PTRACE_X86_64),
            instruction(load, 0, 0, 16),
            instruction(jump_equal, 0, 1, _PTRACE_GETREGSET),
            instruction(give, 0, 0, 0x00050000 | 22),
            instruction(give, 0, 0, 0x7FFF0000),
        )
    )
    buffer = ctypes.create_string_buffer(program, len(program))

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    whole = Filter(len(program) // 8, ctypes.addressof(buffer))
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")
    set_mode_filter, speculation_allowed = 1, 4
    _check(_libc.syscall(_SYS_SECCOMP_X86_64, set_mode_filter, speculation_allowed, ctypes.byref(whole)), "seccomp")


# <linux/if_packet.h>, <asm-generic/socket.h>
_SOL_PACKET = 263
_PACKET_QDISC_BYPASS = 20
_PACKET_IGNORE_OUTGOING = 23
_SO_RCVBUFFORCE = 33
_SO_SNDBUFFORCE = 32
_ETH_P_ALL = 3


def packet_socket(interface: str, buffer_bytes: int) -> tuple[socket.socket, int]:
    """A raw socket on `interface` for User-Mode Linux's fd transport, and the receive buffer it really has (bytes).

    With the default buffer (208 KiB, some 92 frames) bursts of slow start are lost before they reach the link. Real root
    may exceed net.core.rmem_max; others get as much as it allows.
    """
    import socket

    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    port.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    port.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)
    for forced, plain in ((_SO_RCVBUFFORCE, socket.SO_RCVBUF), (_SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        try:
            port.setsockopt(socket.SOL_SOCKET, forced, buffer_bytes)
        except PermissionError:
            port.setsockopt(socket.SOL_SOCKET, plain, buffer_bytes)
    port.bind((interface, _ETH_P_ALL))
    # socket(7): the kernel doubles the value to leave room for its own bookkeeping, and reports it doubled.
    return port, port.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
