"""The machines of the Vagrantfile: brought up where they are down, and where SSH finds them.

`ROUGHWATER_SSH_CONFIG` names a file with what `vagrant ssh-config` would print, for machines that something else has made: then
Vagrant is not asked at all.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.hosts.ssh.config import Target, parse
from lab.model.errors import LabFault, RoughwaterError, UsageProblem
from lab.model.paths import cache_dir, checkout, shipped_root

CONFIG_VARIABLE = "ROUGHWATER_SSH_CONFIG"
CLIENT_VARIABLE = "ROUGHWATER_CLIENT_MACHINE"
PATIENCE_VARIABLE = "ROUGHWATER_VM_PATIENCE"
# A first boot downloads a box of gigabytes.
_UP_S = 3 * 3600.0
_ASK_S = 300.0

# Words of Vagrant, message and remedy; the first that is found. {what} is the line it was found in.
_REFUSALS: tuple[tuple[str, str, str], ...] = (
    (r"roughwater: .*", "{what}", ""),
    (
        r"No usable default provider|provider '[^']*' could not be found|virConnectOpen failed|VirtualBox is complaining|"
        r"could not detect VirtualBox|Error while connecting to [Ll]ibvirt|is not (?:currently )?usable|requires (?:KVM|Hyper-V)",
        "Vagrant has no provider that works here: {what}",
        "install VirtualBox, or libvirt with vagrant-libvirt; `vagrant up --provider NAME` names one",
    ),
    (
        r"[Bb]ox '?[^']*'? could not be found|could not be accessed|box you're attempting to add doesn't|"
        r"[Cc]ouldn't resolve host|error occurred while downloading|doesn't support the provider",
        "a box of the Vagrantfile cannot be had: {what}",
        "vagrant box add it while there is a network, or set ROUGHWATER_WINDOWS_BOX to a version that exists",
    ),
    (
        r"Timed out while waiting for the machine to boot|machine is not yet ready|guest machine entered an invalid state",
        "a machine does not come up: {what}",
        "look at its screen (the provider's console); vagrant reload NAME",
    ),
    (r"machine with the name '[^']*' was not found", "the Vagrantfile has no such machine: {what}", "vagrant status lists them"),
    (r"another process is already|locked", "another process is working with these machines: {what}", "wait until that has ended"),
)


def given_machine(name: str) -> Target | None:
    """A machine that `ROUGHWATER_SSH_CONFIG` names; None where that is not set. Brings nothing up. Raises UsageProblem."""
    given = os.environ.get(CONFIG_VARIABLE, "")
    return _from_file(Path(given)).get(name) if given else None


def refusal(command: str, said: str) -> RoughwaterError:
    """The error for a failed `vagrant`, in one line. UsageProblem if the caller can fix it."""
    lines = _plain_lines(said)
    for pattern, message, remedy in _REFUSALS:
        for index, line in enumerate(lines):
            if re.search(pattern, line):
                # A line that ends so promises the next one.
                what = " ".join(lines[index : index + 2]) if line.endswith(":") else line
                return UsageProblem(message.format(what=re.sub(r"^==> \S+ ", "", what)[:300]), remedy=remedy)
    return LabFault(f"`vagrant {command}` failed: {lines[-1][:300] if lines else 'it says nothing'}", remedy="run it by hand")


def _plain_lines(said: str) -> list[str]:
    """Without colours, and with the lines of a machine-readable error (`TIME,MACHINE,ui,error,TEXT`)."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", said)
    text = re.sub(r"^\d+,[^,]*,error-exit,.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^\d+,[^,]*,ui,\w+,(.*)$", lambda found: found[1].replace("\\n", "\n"), text, flags=re.MULTILINE)
    return [line.strip() for line in text.replace("%!(VAGRANT_COMMA)", ",").splitlines() if line.strip()]


def bring_up(names: Sequence[str]) -> tuple[dict[str, Target], dict[str, str]]:
    """The SSH targets of `names`, and facts about the origin of these machines; machines that are down are brought up.

    Raises UsageProblem for what is missing here (Vagrant, a provider, a box), LabFault for a machine that does not come up.
    """
    given = os.environ.get(CONFIG_VARIABLE, "")
    if given:
        found, facts = _from_file(Path(given)), {"machines": f"given by {CONFIG_VARIABLE}"}
    else:
        found, facts = _from_vagrant(names)
    missing = [name for name in names if name not in found]
    if missing:
        raise UsageProblem(
            f"there is no machine called {', '.join(missing)} (there are: {', '.join(found) or 'none'})",
            remedy=f"{CLIENT_VARIABLE} names the client's; vagrant status",
        )
    return {name: found[name] for name in names}, facts


def patience() -> float:
    """Factor for the time limits of commands: more than 1 where machines are emulated."""
    text = os.environ.get(PATIENCE_VARIABLE, "") or "1"
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 1 <= found <= 100:
        raise UsageProblem(f"{PATIENCE_VARIABLE} is {text!r}", remedy="give a number from 1 to 100")
    return found


def _from_file(path: Path) -> dict[str, Target]:
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageProblem(f"{CONFIG_VARIABLE} names {path}: {error.strerror}", remedy=f"unset {CONFIG_VARIABLE}") from None


def _from_vagrant(names: Sequence[str]) -> tuple[dict[str, Target], dict[str, str]]:
    program = shutil.which("vagrant")
    if program is None:
        raise UsageProblem(
            "vagrant is not installed",
            remedy="sudo apt-get install --no-install-recommends vagrant vagrant-libvirt; docs/how-to/windows.md",
        )
    states = parse_status(_vagrant(program, ["status", "--machine-readable"], _ASK_S))
    unknown = [name for name in names if name not in states]
    if unknown:
        raise UsageProblem(
            f"the Vagrantfile has no machine called {', '.join(unknown)}", remedy="there are: " + ", ".join(states)
        )
    down = [name for name in names if states[name][1] != "running"]
    if down:
        _vagrant(program, ["up", *down], _UP_S)
    text = "".join(_vagrant(program, ["ssh-config", name], _ASK_S) for name in names)
    providers = sorted({states[name][0] for name in names})
    version = _vagrant(program, ["--version"], _ASK_S).strip().removeprefix("Vagrant ")
    return parse(text, "vagrant ssh-config"), {"vagrant": version, "provider": ", ".join(providers)}


def parse_status(text: str) -> dict[str, tuple[str, str]]:
    """Provider and state by machine, from `vagrant status --machine-readable`. Lines are `TIME,MACHINE,KIND,DATA...`."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        words = line.split(",")
        if len(words) >= 4 and words[1] and words[2] in ("provider-name", "state"):
            found.setdefault(words[1], {})[words[2]] = words[3]
    return {name: (facts.get("provider-name", ""), facts.get("state", "")) for name, facts in found.items()}


def machine_id(name: str, root: Path | None = None) -> str:
    """The provider's id of this machine; empty where Vagrant has not made it."""
    dotfile = Path(os.environ.get("VAGRANT_DOTFILE_PATH", "") or (root or _machines_root()) / ".vagrant")
    ids = sorted(dotfile.glob(f"machines/{name}/*/id"))
    return ids[0].read_text().strip() if ids else ""


def _machines_root() -> Path:
    """The folder of `.vagrant`: the checkout, as for `vagrant up`, else the working folder."""
    # An installed lab's Vagrantfile is where nothing may be written.
    return checkout() or Path.cwd()


def _vagrant(program: str, words: Sequence[str], timeout_s: float) -> str:
    log = cache_dir() / "vagrant" / f"{words[0].strip('-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [program, *words],
            cwd=shipped_root(),
            env=_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LabFault(
            f"`vagrant {' '.join(words)}` took longer than {timeout_s / 60:.0f} minutes", remedy="run it by hand"
        ) from None
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    log.write_text(f"$ vagrant {' '.join(words)}\n{out}{err}")
    if done.returncode:
        raise refusal(" ".join(words), out + err)
    return out


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    dotfile = own.get("VAGRANT_DOTFILE_PATH") or str(_machines_root() / ".vagrant")
    quiet = {"VAGRANT_NO_COLOR": "1", "VAGRANT_CHECKPOINT_DISABLE": "1"}
    # This lab shapes the link itself; the Vagrantfile would have another one do it, which waits for this one.
    return {**own, **quiet, "VAGRANT_DOTFILE_PATH": dotfile, "ROUGHWATER_LINK": "no"}
