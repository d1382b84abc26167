"""Address, user and key of a machine, from `vagrant ssh-config` or any ssh_config(5) as simple."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from lab.model.errors import UsageProblem

_NOWHERE = ("/dev/null", "NUL", "none")


@dataclass(frozen=True)
class Target:
    """A machine as the OpenSSH client must know it. `known_hosts` is empty where the machine's maker gave no host key."""

    name: str
    host: str
    user: str
    port: int = 22
    identities: tuple[str, ...] = ()
    known_hosts: str = ""
    jump: str = field(default="", repr=False)

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.user}@{self.host}:{self.port}"


def parse(text: str, origin: str = "ssh-config") -> dict[str, Target]:
    """The machines of an `ssh-config`, by name, in its order.

    Other settings (forwardings, log level, weaker host key checking) are ignored. Raises UsageProblem with the line.
    """
    blocks: dict[str, dict[str, list[str]]] = {}
    current: dict[str, list[str]] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        words = _words(line, f"{origin}:{number}")
        if not words:
            continue
        key, values = words[0].lower(), words[1:]
        if not values:
            raise UsageProblem(f"{origin}:{number}: {words[0]} has no value")
        if key == "host":
            current = blocks.setdefault(values[0], {})
        elif current is None:
            raise UsageProblem(f"{origin}:{number}: {words[0]} comes before the first Host")
        else:
            current.setdefault(key, []).append(values[0])
    return {name: _target(name, settings, origin) for name, settings in blocks.items()}


def render(target: Target) -> str:
    """The target as `vagrant ssh-config` would print it; `parse` gives the same target back."""
    lines = [f"Host {target.name}", f"  HostName {target.host}", f"  User {target.user}", f"  Port {target.port}"]
    lines.append(f"  UserKnownHostsFile {_quoted(target.known_hosts or '/dev/null')}")
    lines.append(f"  StrictHostKeyChecking {'yes' if target.known_hosts else 'no'}")
    lines += ["  PasswordAuthentication no", *(f"  IdentityFile {_quoted(path)}" for path in target.identities)]
    lines += ["  IdentitiesOnly yes", *([f"  ProxyCommand {target.jump}"] if target.jump else [])]
    return "\n".join(lines) + "\n"


def _words(line: str, where: str) -> list[str]:
    stripped = line.strip()
    if not stripped or stripped.startswith("#"):
        return []
    key, _, rest = stripped.replace("=", " ", 1).partition(" ") if "=" in stripped.split()[0] else stripped.partition(" ")
    if key.lower() == "proxycommand":
        return [key, rest.strip()]
    try:
        # Not posix=True, which would take a Windows path's backslashes for escapes.
        return [key, *(word.strip('"') for word in shlex.split(rest, posix=False))]
    except ValueError:
        raise UsageProblem(f"{where}: a quote is not closed") from None


def _target(name: str, settings: dict[str, list[str]], origin: str) -> Target:
    def first(key: str, default: str = "") -> str:
        return settings.get(key, [default])[0]

    port, known_hosts = first("port", "22"), first("userknownhostsfile")
    if not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise UsageProblem(f"{origin}: Host {name}: {port!r} is not a port")
    if not first("user"):
        raise UsageProblem(f"{origin}: Host {name} has no User")
    return Target(
        name=name,
        host=first("hostname", name),
        user=first("user"),
        port=int(port),
        identities=tuple(settings.get("identityfile", ())),
        known_hosts="" if known_hosts in _NOWHERE else known_hosts,
        jump=first("proxycommand"),
    )


def _quoted(text: str) -> str:
    return f'"{text}"' if any(letter.isspace() for letter in text) else text
