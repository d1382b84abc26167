"""OpenSSH's sshd with keys of one run: SFTP only, as an ordinary user."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lab.hosts.cached import inside, outside
from lab.hosts.host import Host
from lab.model.errors import UsageProblem
from lab.servers.process import ServerProcess, wait_ready

PORT = 22
_OLD_CLIENTS = """\
# libssh2 before 1.9 knows no other keys, signatures and key exchange.
HostKeyAlgorithms +ssh-rsa
PubkeyAcceptedAlgorithms +ssh-rsa
KexAlgorithms +diffie-hellman-group14-sha1
"""
_PARTS = {"SshdSessionPath": "sshd-session", "SshdAuthPath": "sshd-auth"}
_RSA_BITS = 2048
_RSA_EXPONENT = 65537
_WITNESSES = 20
# Divisors that most candidates have are found before the slow test.
_SMALL = math.prod(range(3, 2000, 2))


@dataclass(frozen=True)
class SshdOptions:
    """Settings of the server that a test or a study changes.

    A connection may have 100 sessions instead of OpenSSH's 10, because the lab tests clients that open many; 0 refuses
    all. `ciphers` is sshd_config's list, empty for its default. `old_clients` adds what libssh2 before 1.9 needs: keys of
    RSA, their signatures and key exchange with SHA-1.
    """

    max_sessions: int = 100
    ciphers: str = ""
    old_clients: bool = False

    def __post_init__(self) -> None:
        if self.max_sessions < 0:
            raise ValueError(f"sshd cannot have {self.max_sessions} sessions")
        if any(not each.isprintable() or each.isspace() for each in self.ciphers):
            raise ValueError(f"{self.ciphers!r} is not a list of ciphers")


@dataclass(frozen=True)
class KeyPair:
    """OpenSSH formats, made without ssh-keygen, which saves two processes and a dependency."""

    public: str
    private: bytes = field(repr=False)


def make_key(random_bytes: Callable[[int], bytes] = os.urandom) -> KeyPair:
    key = Ed25519PrivateKey.from_private_bytes(random_bytes(32))
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(public.decode(), private)


def make_old_key(random_bytes: Callable[[int], bytes] = os.urandom) -> KeyPair:
    """RSA in the format that libssh2 read in 2011. The primes come from `random_bytes`, because virtual time repeats its runs."""
    p, q = _prime(random_bytes), _prime(random_bytes)
    d = rsa.rsa_recover_private_exponent(_RSA_EXPONENT, p, q)
    public = rsa.RSAPublicNumbers(_RSA_EXPONENT, p * q)
    rest = (rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q))
    key = rsa.RSAPrivateNumbers(p, q, d, *rest, public).private_key()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    shown = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(shown.decode(), private)


def _prime(random_bytes: Callable[[int], bytes]) -> int:
    """A prime of half the key's bits, by the test of Miller and Rabin; its two highest bits are set."""
    half = _RSA_BITS // 2
    while True:
        drawn = int.from_bytes(random_bytes(half // 8)) | 0b11 << (half - 2) | 1
        if (
            math.gcd(drawn, _SMALL) == 1
            and (drawn - 1) % _RSA_EXPONENT
            and pow(2, drawn - 1, drawn) == 1
            and _is_prime(drawn, random_bytes)
        ):
            return drawn


def _is_prime(number: int, random_bytes: Callable[[int], bytes]) -> bool:
    twos = ((number - 1) & -(number - 1)).bit_length() - 1
    for _ in range(_WITNESSES):
        power = pow(2 + int.from_bytes(random_bytes(16)), (number - 1) >> twos, number)
        squares = [power]
        for _ in range(twos - 1):
            squares.append(squares[-1] * squares[-1] % number)
        if power != 1 and number - 1 not in squares:
            return False
    return True


def known_hosts(names: list[str], port: int, host_key: KeyPair) -> str:
    """One line per name; OpenSSH and libssh2 want `[name]:port` for every port but 22."""
    places = [name if port == PORT else f"[{name}]:{port}" for name in dict.fromkeys(names) if name]
    return "".join(f"{place} {host_key.public}\n" for place in places)


def render_config(workdir: PurePath, *, port: int, bind: str, bind_6: str = "", options: SshdOptions = SshdOptions()) -> str:
    """sshd_config. `internal-sftp` needs no sftp-server binary and starts no shell."""
    ciphers = f"Ciphers {options.ciphers}\n" if options.ciphers else ""
    old = _OLD_CLIENTS if options.old_clients else ""
    more = f"ListenAddress {bind_6}\n" if bind_6 else ""
    return f"""\
Port {port}
ListenAddress {bind}
{more}HostKey {workdir}/host_key
AuthorizedKeysFile {workdir}/authorized_keys
PidFile none
# The workdir is on a tmpfs whose parents belong to the lab, not to the user who logs in.
StrictModes no
# PAM and passwords need root; the lab's user has neither.
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PubkeyAuthentication yes
# There is no resolver inside the lab: a look-up would stall every login.
UseDNS no
PrintMotd no
PrintLastLog no
AllowTcpForwarding no
AllowAgentForwarding no
X11Forwarding no
# Several clients at once, and clients that open many connections, are what the lab is for.
MaxStartups 200
MaxSessions {options.max_sessions}
{ciphers}{old}Subsystem sftp internal-sftp
"""


def _parts(sshd: str) -> str:
    """The options for an extracted sshd's other programs: since OpenSSH 9.8 there are several, each known by its absolute path.

    A machine in virtual time has the cache at a path of its own.
    """
    here = outside(sshd)
    shown = str if here == sshd else inside
    folders = [tree / "usr/lib/openssh" for tree in Path(here).parents if tree != Path("/")]
    places = {word: next((path for each in folders if (path := each / name).is_file()), None) for word, name in _PARTS.items()}
    return "".join(f"{word} {shown(str(place))}\n" for word, place in places.items() if place)


def of_host(host: Host) -> tuple[Host, str]:
    """The host that starts sshd, and the program: the userland's where it has one, else the machine's. Raises UsageProblem."""
    if host.under_test is not host:
        with suppress(UsageProblem):
            return host.under_test, host.under_test.program("sshd")
    return host, host.program("sshd")


@dataclass
class Sshd(ServerProcess):
    port: int = PORT
    known_hosts: str = ""
    user_key: KeyPair = field(default_factory=make_key)


def launch(
    host: Host,
    *,
    sshd: str | PurePath | None = None,
    port: int = PORT,
    bind: str = "0.0.0.0",  # noqa: S104 - the lab's own network namespace
    bind_6: str = "",
    names: tuple[str, ...] = ("server",),
    options: SshdOptions = SshdOptions(),
    random_bytes: Callable[[int], bytes] = os.urandom,
    begin: bool = True,
) -> Sshd:
    """Start sshd without waiting until it listens; without `begin`, only prepare.

    Its files are in `workdir/sshd`, with its log, the only place where sshd says why it refuses a key.
    """
    folder = host.workdir / "sshd"
    new_key = make_old_key if options.old_clients else make_key
    host_key, user_key = new_key(random_bytes), new_key(random_bytes)
    host.write(folder / "host_key", host_key.private, mode=0o600)
    host.write(folder / "authorized_keys", f"{user_key.public}\n".encode(), mode=0o600)
    log = folder / "sshd.log"
    # sshd insists on an absolute path because it executes itself again for every connection.
    within, own = (host, str(sshd)) if sshd else of_host(host)
    parts = _parts(own) if within is host else ""
    config = render_config(folder, port=port, bind=bind, bind_6=bind_6, options=options) + parts
    host.write(folder / "sshd_config", config.encode())
    argv = [own, "-D", "-E", str(log), "-f", str(folder / "sshd_config")]
    probe = host.address or "127.0.0.1"
    hosts = known_hosts([*names, host.address], port, host_key)
    if not begin:
        return Sshd("sshd", host, (), (), log, port, hosts, user_key)
    return Sshd("sshd", host, (within.start(argv),), (f"banner,{probe},{port},SSH-2.0-",), log, port, hosts, user_key)


def start(
    host: Host,
    *,
    sshd: str | PurePath | None = None,
    port: int = PORT,
    bind: str = "0.0.0.0",  # noqa: S104
    names: tuple[str, ...] = ("server",),
    options: SshdOptions = SshdOptions(),
) -> Sshd:
    server = launch(host, sshd=sshd, port=port, bind=bind, names=names, options=options)
    wait_ready([server])
    return server
