"""The UML router: choice of suite without it, damage and boot with it (skipped until `make setup` has built it)."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.assets import cpio, initrd, uml
from lab.hosts.agent.router import BOOT_ARGUMENTS
from lab.link.netem import supports_seed
from lab.model.errors import LabFault, UsageProblem

BOOT = Path(__file__).with_name("boot_uml.py")
NEVER = "a build was started"


@pytest.fixture
def asset() -> uml.UmlAsset:
    found = uml.find()
    if found is None:
        pytest.skip("the UML router is not built; make setup builds it")
    return found


@pytest.fixture
def copy(asset: uml.UmlAsset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own that holds a copy of the router, to be damaged."""
    cache = tmp_path / "cache"
    shutil.copytree(asset.directory, cache / asset.directory.name)
    monkeypatch.setenv("ROUGHWATER_CACHE", str(cache))
    return cache / asset.directory.name


@pytest.mark.parametrize(
    ("kernel", "iproute2", "expected"),
    [
        ("6.12.101", "6.15.0", True),
        ("6.6", "6.6.0", True),
        ("6.1.176", "6.15.0", False),
        ("6.12.1", "6.1.0", False),
        ("", "", False),
    ],
)
def test_seed_needs_both_kernel_and_iproute2(kernel: str, iproute2: str, expected: bool) -> None:
    assert supports_seed(kernel, iproute2) is expected


def test_newest_suite_first_unless_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(uml.SUITE_VARIABLE, raising=False)
    assert uml.wanted_suites() == ("trixie", "bookworm")
    monkeypatch.setenv(uml.SUITE_VARIABLE, "bookworm")
    assert uml.wanted_suites() == ("bookworm",)
    monkeypatch.setenv(uml.SUITE_VARIABLE, "potato")
    with pytest.raises(UsageProblem, match="potato"):
        uml.wanted_suites()


def test_unreachable_mirror_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "mmdebstrap"
    script.write_text("#!/bin/sh\necho 'I: running apt-get update...'\necho 'E: cannot resolve deb.debian.org' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(uml.SUITE_VARIABLE, raising=False)
    said: list[str] = []
    with pytest.raises(LabFault) as caught:
        uml.build(said.append)
    assert str(caught.value).count("cannot resolve deb.debian.org") == 2
    assert "\n" not in str(caught.value)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["uml.lock"]


def test_initrd_holds_what_init_uses_and_is_reproducible(tmp_path: Path) -> None:
    """A tree with the layout of trixie, made of this machine's own binaries."""
    folder = tmp_path / "usr/lib/x86_64-linux-gnu"
    modules = tmp_path / "usr/lib/uml/modules/6.12.1"
    for directory in (folder / "tc", tmp_path / "usr/bin", modules / "kernel"):
        directory.mkdir(parents=True)
    shutil.copy("/lib64/ld-linux-x86-64.so.2", folder)
    shutil.copy("/lib/x86_64-linux-gnu/libc.so.6", folder)
    for name in ("busybox", "tc", "ip"):
        shutil.copy("/bin/true", tmp_path / "usr/bin" / name)
    (folder / "tc/normal.dist").write_text("1 2 3\n")
    (modules / "kernel/sch_netem.ko").write_bytes(b"netem")
    (modules / "kernel/lib.ko").write_bytes(b"lib")
    (modules / "modules.dep").write_text("kernel/lib.ko:\nkernel/sch_netem.ko: kernel/lib.ko\n")

    names = [entry.name for entry in initrd._entries(tmp_path)]
    for name in ("init", "bin/busybox", "sbin/tc", "sbin/ip", initrd.LOADER, f"{initrd.LIBRARIES}/libc.so.6", "dev/console"):
        assert name in names
    assert [name for name in sorted(names) if name.startswith("modules/")] == ["modules/00-lib.ko", "modules/01-sch_netem.ko"]
    assert initrd.build(tmp_path) == initrd.build(tmp_path)
    assert gzip.decompress(initrd.build(tmp_path)) == cpio.archive(initrd._entries(tmp_path))

    (folder / "libc.so.6").unlink()
    with pytest.raises(LabFault, match=r"libc\.so\.6"):
        initrd.build(tmp_path)


def test_an_intact_copy_is_found_without_a_build(copy: Path) -> None:
    found = uml.build(lambda _: pytest.fail(NEVER))
    assert found.directory == copy
    assert found.kernel.is_file()
    assert found.initrd.is_file()


@pytest.mark.parametrize("name", [uml.KERNEL, uml.INITRD, initrd.LOADER, f"{initrd.LIBRARIES}/libc.so.6"])
def test_one_flipped_bit_is_noticed(copy: Path, name: str) -> None:
    damaged = copy / "root" / name
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    assert uml.find() is None


def test_missing_mount_point_is_noticed(copy: Path) -> None:
    (copy / "root/proc").rmdir()
    assert uml.find() is None


@pytest.mark.network
def test_boots_shapes_and_powers_off_when_the_console_closes(asset: uml.UmlAsset) -> None:
    """The asset as the agent uses it: READY line, tc and ip by plain name, netem with its jitter tables, end at EOF."""
    # Root needs no user namespace, and in a chroot may not make one.
    namespaces = "-mpn" if os.geteuid() == 0 else "-Urmpn"
    argv = ["unshare", namespaces, "--fork", "--kill-child", sys.executable, BOOT, asset.root, *BOOT_ARGUMENTS]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as router:
        assert router.stdin is not None
        assert router.stdout is not None
        try:
            ready = next((line for line in router.stdout if line.startswith("READY ")), "no READY line")
            assert ready.startswith(f"READY {asset.kernel_release} tc utility, iproute2-{asset.iproute2}")
            seed = " seed 42" if asset.supports_seed else ""
            netem = f"netem delay 10ms 2ms distribution normal loss 1%{seed} rate 20mbit limit 100"
            assert _answers(router, f"tc qdisc add dev lo root {netem}") == ["0"]
            shown = _answers(router, "tc qdisc show dev lo")
            assert shown[0].startswith("qdisc netem")
            assert shown[0].rstrip().endswith("rate 20Mbit" + seed)
            assert _answers(router, "ip -o link show lo")[-1] == "0"
            router.stdin.close()
            assert router.wait(timeout=5) == 0
        finally:
            if router.poll() is None:
                os.killpg(router.pid, signal.SIGKILL)


def _answers(router: subprocess.Popen[str], command: str) -> list[str]:
    """The lines a console command printed, and its exit code last."""
    assert router.stdin is not None
    assert router.stdout is not None
    router.stdin.write(f'{{ {command}; }} 2>&1; echo "TOKEN $?"\n')
    router.stdin.flush()
    lines: list[str] = []
    for line in router.stdout:
        if line.startswith("TOKEN "):
            return [*lines, line.split()[1]]
        lines.append(line.rstrip("\n"))
    raise AssertionError(f"the console closed after {lines}")
