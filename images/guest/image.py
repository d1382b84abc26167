"""The guest: Debian 12 as a disk image, with the cloud kernel and an initramfs that starts it.

mmdebstrap installs the packages (as root directly, otherwise in a user namespace) and hands over a tar, `mke2fs -d` makes
the file system from it: no loop device, no mount. The kernel is downloaded and unpacked rather than installed, because
its installation would build an initramfs the guest does not use. Kernel and iproute2 are those of bookworm-backports,
whose netem takes a seed; plain bookworm (6.1) is the fallback. The rest, Python 3.11 above all, is Debian 12's.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import platform
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lab.assets import cpio, store
from lab.assets.store import Progress
from lab.link.netem import supports_seed
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir

PACKAGES = (
    "busybox-static",
    "ca-certificates",
    "curl",
    "ethtool",
    "git",
    "iperf3",
    "iproute2",
    "iputils-ping",
    "kmod",
    "libstdc++6",  # what the wheels in the project's environment link to
    "nginx",
    "openssh-client",
    "openssh-server",
    "openssh-sftp-server",
    "procps",
    "python3",
    "python3-venv",
    "systemd",  # never started: its sysctl files are what makes a Debian a stock Debian
    "tcpdump",
    "time",
    "util-linux",
)
KERNEL_PACKAGE = "linux-image-cloud-amd64"
BACKPORTS = "bookworm-backports"
FROM_BACKPORTS = ("iproute2",)
MIRROR = "http://deb.debian.org/debian"
SECURITY = "http://deb.debian.org/debian-security"
GUEST_USER, GUEST_UID = "lab", 1000

KERNEL, INITRD, ROOT = "vmlinuz", "initrd.gz", "root.ext4"
_BOOT_MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "overlay")
_INIT = Path(__file__).with_name("initramfs-init")
_NOT_WANTED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/lintian/*")
_LAYOUT = 3  # raise when the image changes in a way that packages and init do not show

# program -> Debian package
_HOST_PROGRAMS = {"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "tar": "tar"}


@dataclass(frozen=True)
class Image:
    directory: Path
    kernel_release: str
    iproute2: str
    supports_seed: bool
    suite: str

    @property
    def kernel(self) -> Path:
        return self.directory / KERNEL

    @property
    def initrd(self) -> Path:
        return self.directory / INITRD

    @property
    def root(self) -> Path:
        return self.directory / ROOT


def need(programs: dict[str, str]) -> None:
    """One line for everything that is missing, with the command that installs it."""
    folders = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    missing = [name for name in programs if shutil.which(name, path=folders) is None]
    if missing:
        packages = " ".join(dict.fromkeys(programs[name] for name in missing))
        raise UsageProblem(
            f"missing on this machine: {', '.join(missing)}", remedy=f"sudo apt-get install --no-install-recommends {packages}"
        )


def place() -> Path:
    """Named by what it is made from."""
    recipe = (*PACKAGES, KERNEL_PACKAGE, *FROM_BACKPORTS, *_BOOT_MODULES, *_NOT_WANTED, _INIT.read_text(), str(_LAYOUT))
    key = hashlib.sha256("\n".join(recipe).encode()).hexdigest()
    return cache_dir() / f"guest-{key[:12]}"


def find() -> Image | None:
    """The guest in the cache, its checksums verified; None if it is missing or damaged."""
    directory = place()
    manifest = store.load(directory)
    if manifest is None:
        return None
    try:
        return Image(directory, **{name: manifest[name] for name in ("kernel_release", "iproute2", "supports_seed", "suite")})
    except KeyError:
        return None


def build(progress: Progress, *, force: bool = False) -> Image:
    """The guest, built if it is not in the cache (or if forced)."""
    if not force and (ready := find()):
        return ready
    if platform.machine() != "x86_64":
        raise LabFault(f"the guest needs an x86-64 machine, this is {platform.machine()}")
    as_root = os.geteuid() == 0
    need(_HOST_PROGRAMS if as_root else {**_HOST_PROGRAMS, "fakeroot": "fakeroot", "newuidmap": "uidmap"})
    with store.locked(progress, place().name) as cache:
        if not force and (ready := find()):  # another lab has built it while this one waited for the lock
            return ready
        failures = []
        for backports in (True, False):
            try:
                with store.staging(cache, place().name) as work:
                    result = _make(work, backports=backports, as_root=as_root, progress=progress)
                    store.publish(result, place())
                break
            except LabFault as fault:
                failures.append(fault.message)
                progress(f"no guest from {BACKPORTS if backports else 'plain bookworm'}: {fault.message}")
        else:
            raise LabFault(f"cannot build the guest: {failures[0]}", remedy="is the Debian mirror reachable?")
    image = find()
    if image is None:
        raise LabFault(f"{place()} does not read back as it was written", remedy="is the disk sound?")
    size = sum(path.stat().st_blocks * 512 for path in image.directory.iterdir())
    seed = "" if image.supports_seed else " (its netem takes no seed)"
    progress(f"ready: kernel {image.kernel_release}, iproute2 {image.iproute2}{seed}, {size / 1e6:.0f} MB")
    return image


def _make(work: Path, *, backports: bool, as_root: bool, progress: Progress) -> Path:
    archive, tree, result = work / "root.tar", work / "tree", work / "result"
    result.mkdir()
    progress("installing Debian 12 and its cloud kernel into a folder (about 250 MB to download)")
    _bootstrap(archive, backports=backports)
    progress("making the disk image")
    facts = _image(archive, tree, result, as_root=as_root)
    facts["suite"] = BACKPORTS if backports else "bookworm"
    progress("checksums")
    store.write_manifest(result, facts, store.digests(result))
    return result


def sources(*, backports: bool) -> list[str]:
    lines = [f"deb {MIRROR} bookworm main", f"deb {MIRROR} bookworm-updates main", f"deb {SECURITY} bookworm-security main"]
    return [*lines, f"deb {MIRROR} {BACKPORTS} main"] if backports else lines


def _bootstrap(archive: Path, *, backports: bool) -> None:
    packages = [f"{name}/{BACKPORTS}" if backports and name in FROM_BACKPORTS else name for name in PACKAGES]
    options = {"Acquire::Retries": "2", "Acquire::http::Timeout": "20", "APT::Install-Recommends": "false"}
    code, output = store.run(
        [
            "mmdebstrap",
            "--variant=apt",
            "--format=tar",
            "--skip=output/dev",
            *(f'--aptopt={name} "{value}"' for name, value in options.items()),
            *(f"--dpkgopt=path-exclude={pattern}" for pattern in _NOT_WANTED),
            f"--include={','.join(packages)}",
            f"--customize-hook={kernel_hook(backports=backports)}",
            f'--customize-hook=chroot "$1" useradd --create-home --shell /bin/bash --uid {GUEST_UID} {GUEST_USER}',
            # In place of a file capability, which fakeroot cannot carry: Debian's own second choice.
            '--customize-hook=chmod u+s "$1/usr/bin/ping"',
            '--customize-hook=echo guest >"$1/etc/hostname"; printf "127.0.0.1 localhost guest\\n" >"$1/etc/hosts"',
            "bookworm",
            archive,
            *sources(backports=backports),
        ],
        timeout_s=1800,
    )
    if code != 0:
        raise LabFault(store.reason(output))


def kernel_hook(*, backports: bool) -> str:
    """Unpacks the kernel that the metapackage means: modules to their place, the kernel itself to /vmlinuz."""
    release = f"-o APT::Default-Release={BACKPORTS}" if backports else ""
    steps = (
        f"depends=$(apt-cache {release} depends --important {KERNEL_PACKAGE})",
        "name=$(echo \"$depends\" | sed -n 's/.*Depends: \\(linux-image-[0-9].*\\)/\\1/p')",
        "mkdir /lab-kernel",
        "cd /lab-kernel",
        f'apt-get {release} -o APT::Sandbox::User=root download "$name"',
        "dpkg-deb -x ./*.deb .",
        "rm ./*.deb",
        "mkdir -p /usr/lib/modules",
        "mv lib/modules/* /usr/lib/modules/",
        "depmod $(ls /usr/lib/modules)",
        "mv boot/vmlinuz-* /vmlinuz",
        "cd /",
        "rm -r /lab-kernel",
    )
    quoted = "; ".join(steps).replace("'", "'\\''")
    return f"chroot \"$1\" sh -ec '{quoted}'"


def _image(archive: Path, tree: Path, result: Path, *, as_root: bool) -> dict[str, Any]:
    """Unpacks the tar, takes kernel and modules out, and makes the file system with mke2fs.

    An ordinary user does the unpacking and mke2fs within fakeroot sessions that share their state, so that owners survive.
    """
    tree.mkdir()
    state = archive.with_name("fakeroot-state")
    state.touch()
    wrap = [] if as_root else ["fakeroot", "-i", str(state), "-s", str(state)]
    _step([*wrap, "tar", "-xpf", archive, "-C", tree, "--numeric-owner"])
    archive.unlink()
    shutil.copyfile(tree / KERNEL, result / KERNEL)
    modules = tree / "usr/lib/modules"
    release = next(modules.iterdir()).name
    (result / INITRD).write_bytes(_initramfs(tree, modules / release))
    used = sum(path.lstat().st_size // 4096 + 1 for path in tree.rglob("*")) * 4096
    image = result / ROOT
    size_mib = used * 115 // 100 // (1 << 20) + 64
    features = "^has_journal,^metadata_csum,^resize_inode"
    options = ["-q", "-t", "ext4", "-b", "4096", "-O", features, "-m", "0", "-L", "guest"]
    _step([*wrap, "/sbin/mke2fs", *options, "-d", tree, image, f"{size_mib}M"])
    versions = _versions(tree)
    iproute2 = versions.get("iproute2", "").partition("-")[0]
    return {
        "kernel_release": release,
        "iproute2": iproute2,
        "supports_seed": supports_seed(release, iproute2),
        "packages": {name: versions.get(name, "") for name in PACKAGES},
    }


def _step(argv: list[str | Path]) -> None:
    code, output = store.run(argv, timeout_s=600)
    if code != 0:
        raise LabFault(f"{shlex.join(map(str, argv))[:100]}: {store.reason(output)}")


def boot_modules(dependencies: str, wanted: tuple[str, ...] = _BOOT_MODULES) -> list[str]:
    """Paths from modules.dep of what is wanted and needed, in the order of loading; what is not a module is built in."""
    needs = {module: rest.split() for module, _, rest in (line.partition(":") for line in dependencies.splitlines())}
    by_name = {PurePosixPath(path).name.partition(".")[0].replace("-", "_"): path for path in needs}
    ordered: dict[str, None] = {}
    for name in wanted:
        if name in by_name:
            ordered.update(dict.fromkeys((*reversed(needs[by_name[name]]), by_name[name])))
    return list(ordered)


def _initramfs(tree: Path, modules: Path) -> bytes:
    return gzip.compress(cpio.archive(_entries(tree, modules)), compresslevel=6, mtime=0)


def _entries(tree: Path, modules: Path) -> Iterator[cpio.Entry]:
    yield from (cpio.directory(name) for name in ("bin", "dev", "image", "memory", "modules", "proc", "root", "sys"))
    yield cpio.file("bin/busybox", (tree / "usr/bin/busybox").read_bytes(), executable=True)
    yield cpio.file("init", _INIT.read_bytes(), executable=True)
    yield cpio.character_device("dev/console", 5, 1)
    for number, name in enumerate(boot_modules((modules / "modules.dep").read_text())):
        data = (modules / name).read_bytes()
        plain = lzma.decompress(data) if name.endswith(".xz") else data  # busybox's insmod does not decompress
        yield cpio.file(f"modules/{number:02}-{PurePosixPath(name).name.removesuffix('.xz')}", plain)


def _versions(tree: Path) -> dict[str, str]:
    versions, name = {}, ""
    for line in (tree / "var/lib/dpkg/status").read_text().splitlines():
        key, _, value = line.partition(": ")
        if key == "Package":
            name = value
        elif key == "Version":
            versions[name] = value
    return versions
