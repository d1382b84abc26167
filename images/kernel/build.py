"""Builds the kernel of virtual time from Debian's source package, bit for bit as it is shipped.

python images/kernel/build.py                   build, ship it as linux-virtual.xz and record its digest
python images/kernel/build.py --compare         build, compare with the digest of this compiler, say what differs
python images/kernel/build.py --record          build, add the digest of this compiler to the others
python images/kernel/build.py --check-recipe    whether what is shipped was built from this recipe (no build)

Standard library only. Needs Debian packages: gcc libc6-dev make flex bison bc patch xz-utils dpkg apt.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DIGESTS = HERE / "digests.json"
PACKED = HERE / "linux-virtual.xz"

PACKAGE = "linux-source-7.2"
VERSION = "7.2.12-1~bpo13+1"
SHA256 = "73ca6c22599ba411ab3179642d33501ca2c90174e13c3c8d86e996ea1cbf2a8f"
SUITE = "trixie-backports"
RELEASE = "7.2.12"
MOST_BYTES = 4_000_000

# Everything that would otherwise come from the machine: who builds, where, when, how often. A build in the source folder itself
# names every file by a relative path.
VARIABLES = {
    "ARCH": "um",
    "KBUILD_BUILD_TIMESTAMP": "Sun Nov 22 00:00:00 UTC 2026",
    "KBUILD_BUILD_VERSION": "1",
    "KBUILD_BUILD_USER": "roughwater",
    "KBUILD_BUILD_HOST": "roughwater",
    "LOCALVERSION": "",
    # A machine's Rust compiler would be named in the configuration that the kernel has inside.
    "RUSTC": "false",
}
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "SOURCE_DATE_EPOCH": "1795305600", "HOME": "/nonexistent"}
UMASK = 0o022

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_NEEDED = ("gcc", "ld", "make", "flex", "bison", "bc", "patch", "xz", "strip", "dpkg-deb")


class BuildError(Exception):
    """One line: what went wrong, and what to do."""


def recipe() -> str:
    """A digest of all that decides what is built, the compiler left out."""
    parts = [PACKAGE, VERSION, SHA256, json.dumps(VARIABLES), json.dumps(ENVIRONMENT), (HERE / "fragment").read_text()]
    for path in patches():
        parts += [path.name, path.read_text()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def patches() -> list[Path]:
    return sorted((HERE / "patches").glob("*.patch"))


def digests() -> dict[str, Any]:
    try:
        loaded: dict[str, Any] = json.loads(DIGESTS.read_text())
    except (OSError, ValueError) as error:
        raise BuildError(f"cannot read {DIGESTS}: {error}") from error
    return loaded


def check_recipe() -> str:
    """The first fault of the shipped kernel, in one line; empty if there is none."""
    shipped = digests().get("shipped", {})
    if shipped.get("recipe") != recipe():
        return "the recipe of the kernel changed (images/kernel): run `make kernel-ship`, and commit what it writes"
    try:
        if file_digest(PACKED) != shipped.get("packed_sha256"):
            return f"{PACKED.name} is not the file that digests.json names: restore it from git"
    except OSError as error:
        return f"cannot read {PACKED}: {error.strerror}"
    return ""


def file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def run(argv: Sequence[str | Path], *, cwd: Path | None = None, log: Path | None = None) -> str:
    """Output of a program; a failure is an error with the last line that says why. `log` gets all of the output."""
    environment = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), **ENVIRONMENT}
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        if name in os.environ:
            environment[name] = os.environ[name]
    words = [str(word) for word in argv]
    done = subprocess.run(words, check=False, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    output = (done.stdout + done.stderr).decode(errors="replace")
    if log:
        with log.open("a") as stream:
            stream.write(f"+ {' '.join(words)}\n{output}")
    if done.returncode:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("E:") or "error:" in line or "FAILED" in line or "***" in line]
        raise BuildError(f"{words[0]} {words[1] if len(words) > 1 else ''} failed: {(errors or lines or ['no output'])[0]}")
    return done.stdout.decode(errors="replace")


def first_line(*argv: str) -> str:
    return run(argv).splitlines()[0].strip()


def toolchain() -> dict[str, str]:
    """Whatever of this machine ends up in the binary: compiler, linker and the static C library."""
    lacking = [name for name in _NEEDED if shutil.which(name) is None]
    if lacking:
        raise BuildError(f"missing: {', '.join(lacking)} (apt-get install gcc libc6-dev make flex bison bc patch xz-utils)")
    libc = run(["dpkg-query", "-W", "-f", "${Version}", "libc6-dev"]).strip()
    return {"compiler": first_line("gcc", "--version"), "linker": first_line("ld", "--version"), "libc": f"libc6-dev {libc}"}


def fetch(into: Path, mirror: str) -> Path:
    """The pinned source package, by apt and a list of sources of our own; the machine's are left alone."""
    name = f"{PACKAGE}_{VERSION.replace(':', '%3a')}_all.deb"
    kept = cache() / name
    if kept.exists() and file_digest(kept) == SHA256:
        return kept
    state = into / "apt"
    for folder in ("lists/partial", "cache/archives/partial", "empty"):
        (state / folder).mkdir(parents=True)
    signed = f"signed-by={_KEYRING}" if Path(_KEYRING).exists() else "trusted=yes"  # the digest below is what is trusted
    (state / "sources.list").write_text(f"deb [{signed}] {mirror} {SUITE} main\n")
    options = {
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": state / "empty",
        "Dir::State::lists": state / "lists",
        "Dir::Cache": state / "cache",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::http::Timeout": "20",
    }
    switches = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    print(f"downloading {PACKAGE} {VERSION} (165 MB)", flush=True)
    run(["apt-get", "-q", *switches, "update"])
    there = re.findall(r"^\s*\S+ \| (\S+) \|", run(["apt-cache", *switches, "madison", PACKAGE]), flags=re.MULTILINE)
    if VERSION not in there:
        raise BuildError(
            f"{mirror} {SUITE} has {PACKAGE} {', '.join(dict.fromkeys(there)) or 'no more'}, not {VERSION}: get {name} from "
            "snapshot.debian.org and name it by --source"
        )
    run(["apt-get", "-q", *switches, "download", f"{PACKAGE}={VERSION}"], cwd=into)
    return keep(into / name, kept)


def keep(downloaded: Path, kept: Path) -> Path:
    """Into the cache where that can be written, so that the next build downloads nothing."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        staged = kept.with_suffix(f".{os.getpid()}")
        shutil.copyfile(downloaded, staged)
        staged.rename(kept)
    except OSError:
        return downloaded
    return kept


def cache() -> Path:
    """As lab.model.paths.cache_dir, which this script does without."""
    if named := os.environ.get("ROUGHWATER_CACHE"):
        return Path(named).absolute()
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path(os.environ.get("HOME", "/tmp")) / ".cache") / "roughwater"  # noqa: S108


def unpack(deb: Path, work: Path) -> Path:
    found = file_digest(deb)
    if found != SHA256:
        raise BuildError(f"{deb} has the SHA-256 {found}, not {SHA256} of {PACKAGE} {VERSION}")
    print("unpacking", flush=True)
    run(["dpkg-deb", "-x", deb, work / "package"])
    run(["tar", "-xJf", work / "package/usr/src" / f"{PACKAGE}.tar.xz", "--no-same-owner"], cwd=work)
    shutil.rmtree(work / "package")
    tree = work / PACKAGE
    for path in patches():
        run(["patch", "-p1", "--fuzz=0", "--batch", "--no-backup-if-mismatch", "-i", path], cwd=tree)
    return tree


def build(tree: Path, jobs: int) -> Path:
    """The stripped kernel."""
    log = tree.parent / "build.log"
    make: list[str | Path] = ["make", *(f"{name}={value}" for name, value in VARIABLES.items())]
    fragment = HERE / "fragment"
    run([*make, "allnoconfig", f"KCONFIG_ALLCONFIG={fragment}"], cwd=tree, log=log)
    not_taken(fragment.read_text(), (tree / ".config").read_text())
    print(f"building (some 8 minutes of processor time; {log})", flush=True)
    run([*make, f"-j{jobs}", "linux"], cwd=tree, log=log)
    program = tree.parent / "linux"
    run(["strip", "-o", program, tree / "linux"])
    return program


def not_taken(fragment: str, config: str) -> None:
    """Kconfig drops what it does not know, or whose dependencies are not met, without a word."""
    lines = set(config.splitlines())
    dropped = [line for line in fragment.splitlines() if line.startswith("CONFIG_") and line not in lines]
    off = re.findall(r"^# (CONFIG_\w+) is not set$", fragment, flags=re.MULTILINE)
    dropped += [f"{name} off" for name in off if any(line.startswith(f"{name}=") for line in lines)]
    if dropped:
        raise BuildError(f"Kconfig did not take over from the fragment: {', '.join(dropped)}")


def config_of(program: bytes) -> list[str]:
    """The configuration inside the kernel (CONFIG_IKCONFIG)."""
    start, end = program.find(b"IKCFG_ST"), program.find(b"IKCFG_ED")
    return gzip.decompress(program[start + 8 : end]).decode().splitlines() if 0 <= start < end else []


def differences(shipped: bytes, built: bytes) -> Iterator[str]:
    """What differs, as far as it can be said in a few lines."""
    yield f"size {len(shipped)} and {len(built)}"
    banner = re.compile(rb"Linux version [^\n\0]{10,300}")
    banners = [found[-1].decode() if (found := banner.findall(program)) else "none" for program in (shipped, built)]
    if banners[0] != banners[1]:
        yield f"banner {banners[0]!r} and {banners[1]!r}"
    before, after = config_of(shipped), config_of(built)
    yield from (f"configuration: - {line}" for line in before if line not in set(after))
    yield from (f"configuration: + {line}" for line in after if line not in set(before))
    place = next((index for index, pair in enumerate(zip(shipped, built, strict=False)) if pair[0] != pair[1]), None)
    if place is not None:
        count = sum(a != b for a, b in zip(shipped, built, strict=False))
        yield f"first different byte at {place:#x}, {count} in all"


def compare(program: Path, tools: Mapping[str, str]) -> int:
    """0 where this compiler's recorded digest came out; 1 where another did; 3 where none is recorded for this compiler."""
    built = file_digest(program)
    known = digests()
    if any(built == entry["sha256"] for entry in known["builds"]):
        same = "as shipped" if built == known["shipped"]["sha256"] else "as recorded for this compiler"
        print(f"kernel {built}: {same} ({tools['compiler']})")
        return 0
    recorded = [entry for entry in known["builds"] if all(entry[key] == value for key, value in tools.items())]
    if recorded:
        print(f"kernel {built} differs from {recorded[0]['sha256']}, which the same tools built")
    else:
        print(f"kernel {built}: no digest is recorded for {'; '.join(tools.values())} (--record adds it). The shipped one had:")
        print("; ".join(str(known["shipped"][key]) for key in tools))
    for line in differences(lzma.decompress(PACKED.read_bytes()), program.read_bytes()):
        print(f"  {line}")
    return 1 if recorded else 3


def record(program: Path, tools: Mapping[str, str], *, ship: bool) -> None:
    """Writes digests.json; with `ship` the packed kernel, too. Builds of another recipe are forgotten."""
    known: dict[str, Any] = digests() if DIGESTS.exists() else {}
    entry = {"sha256": file_digest(program), "recipe": recipe(), **tools}
    builds = [other for other in known.get("builds", []) if other["recipe"] == entry["recipe"]]
    others = [other for other in builds if any(other[key] != value for key, value in tools.items())]
    known["source"] = {"package": PACKAGE, "version": VERSION, "sha256": SHA256, "suite": SUITE}
    known["builds"] = sorted([*others, entry], key=lambda other: str(other["compiler"]))
    if ship:
        pack(program)
        known["shipped"] = {"release": RELEASE, **entry, "packed_sha256": file_digest(PACKED)}
    DIGESTS.write_text(json.dumps(known, indent=1) + "\n")
    print(f"kernel {entry['sha256']}, {program.stat().st_size} bytes" + (f", packed {PACKED.stat().st_size}" if ship else ""))


def pack(program: Path) -> None:
    """`xz -9e`, one thread: the same bytes from every xz of 5.x."""
    staged = PACKED.with_suffix(".new")
    with program.open("rb") as source, staged.open("wb") as target:
        subprocess.run(["xz", "-9e", "-T1", "-c"], stdin=source, stdout=target, check=True, env={"PATH": os.environ["PATH"]})
    if staged.stat().st_size > MOST_BYTES:
        raise BuildError(f"{staged} has {staged.stat().st_size} bytes, at most {MOST_BYTES} are allowed: trim the fragment")
    staged.rename(PACKED)


@contextlib.contextmanager
def folder(named: Path | None) -> Iterator[Path]:
    if named is None:
        with tempfile.TemporaryDirectory(prefix="roughwater-kernel-", ignore_cleanup_errors=True) as name:
            yield Path(name)
    else:
        named.mkdir(parents=True)
        yield named.absolute()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--compare", action="store_true", help="ship nothing; exit 1 where the recorded digest does not come out")
    action.add_argument("--record", action="store_true", help="ship nothing; record this compiler's digest")
    action.add_argument("--check-recipe", action="store_true", help="exit 1 where the shipped kernel is of another recipe")
    parser.add_argument("--source", type=Path, metavar="DEB", help="the source package, instead of downloading it")
    parser.add_argument(
        "--work", type=Path, help="a folder to build in, which must not exist, and is left (3 GB); else a temporary one"
    )
    parser.add_argument("--mirror", default="http://deb.debian.org/debian")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    try:
        if arguments.check_recipe:
            wrong = check_recipe()
            print(wrong or "the shipped kernel is of this recipe")
            return 1 if wrong else 0
        os.umask(UMASK)
        tools = toolchain()
        with folder(arguments.work) as work:
            deb = arguments.source or fetch(work, arguments.mirror)
            program = build(unpack(deb, work), arguments.jobs)
            if arguments.compare:
                return compare(program, tools)
            record(program, tools, ship=not arguments.record)
    except (BuildError, OSError, subprocess.SubprocessError) as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
