"""The virtual machine: its command line, and which accelerator it gets. QEMU itself is a shell script here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from images.guest import guest, job, machine
from images.guest.image import Image
from lab.model.errors import LabFault
from tests.support.python_script import heading

STATUS_TAR = "import io, json, sys, tarfile; m = tarfile.TarInfo('status.json'); d = json.dumps(dict(returncode=0, timed_out=False, seconds=1.0)).encode(); m.size = len(d); tarfile.open(sys.argv[1], 'w').addfile(m, io.BytesIO(d))"  # noqa: E501


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path / "guest,1", "6.12", "6.15.0", True, "bookworm")


@pytest.fixture
def qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in found instead of QEMU; tests write what it does. Packing and the need for KVM are out of the way."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path))
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(job, "pack", lambda *_: None)
    monkeypatch.setattr(machine, "_candidates", lambda *_: iter(("kvm", "tcg")))
    return folder / "qemu-system-x86_64"


def write(path: Path, body: str) -> None:
    path.write_text(
        f"{heading()}"
        "import os, re, sys\n"
        "line = ' '.join(sys.argv)\n"
        "kvm = '-accel kvm' in line\n"
        "out = lambda name, data: os.write(int(re.search(rf'id={name},fd=(\\d+)', line)[1]), data)\n"
        "disk = re.search(r'id=results,file=(\\S+?),', line)[1]\n" + body
    )
    path.chmod(0o755)


WELL = (
    "import subprocess\n"
    "out('serial', b'guest-init: alive\\r\\nguest-init: job begins\\r\\n')\n"
    "out('stdout', b'to stdout\\n'); out('stderr', b'to stderr\\n')\n"
    f'subprocess.run([sys.executable, "-c", """{STATUS_TAR}""", disk], close_fds=False, check=True)\n'
)


def run(image: Image, said: list[str], accel: machine.Accel = "auto") -> int:
    return machine.run(image, job.Job(("true",)), machine.Options(accel), said.append)


def test_output_is_passed_on_and_the_exit_code_returned(
    image: Image, qemu: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(qemu, WELL)
    assert run(image, []) == 0
    found = capfdbinary.readouterr()
    assert (found.out, found.err) == (b"to stdout\n", b"to stderr\n")


def test_a_kvm_that_runs_nothing_is_followed_by_tcg(image: Image, qemu: Path) -> None:
    write(qemu, "import time\nif kvm:\n    os.write(2, b'KVM internal error. Suberror: 1\\n')\n    time.sleep(60)\n" + WELL)
    said: list[str] = []
    assert run(image, said) == 0
    assert any("KVM is there but does not work" in line for line in said)


def test_a_kernel_that_dies_while_booting_is_booted_again(image: Image, qemu: Path, tmp_path: Path) -> None:
    died = tmp_path / "died"
    again = f"import pathlib\nif not os.path.exists('{died}'):\n    pathlib.Path('{died}').touch()\n"
    write(qemu, again + "    out('serial', b'Oops: int3: 0000\\r\\n')\n    sys.exit()\n" + WELL)
    said: list[str] = []
    assert run(image, said) == 0
    assert any("Oops: int3: 0000" in line for line in said)


def test_a_guest_that_dies_in_its_job_is_a_fault_and_not_tried_again(image: Image, qemu: Path, tmp_path: Path) -> None:
    count = tmp_path / "count"
    write(qemu, f"open('{count}', 'a').write('x')\nout('serial', b'guest-init: alive\\nguest-init: job begins\\nOops: bad\\n')\n")
    with pytest.raises(LabFault, match="Oops: bad"):
        run(image, [])
    assert count.read_text() == "x"


def test_no_guest_at_all_says_what_qemu_said(image: Image, qemu: Path) -> None:
    write(qemu, "os.write(2, b'qemu: no such machine\\n')\nsys.exit(1)\n")
    with pytest.raises(LabFault, match="no such machine"):
        run(image, [])


def test_command_line_has_no_network_and_survives_commas(image: Image) -> None:
    words = machine.command(
        image, machine.Options("tcg"), dict.fromkeys(("serial", "stdout", "stderr"), 5), {"job": 6, "results": 7}
    )
    assert words[words.index("-nic") + 1] == "none"
    assert not any("net" in word for word in words if word.startswith("virtio"))
    assert any("guest,,1/root.ext4,readonly=on" in word for word in words)


def test_everything_after_the_dashes_is_the_commands() -> None:
    assert guest._split(["run", "--user", "--", "lab", "--", "-n"]) == (["run", "--user"], ["lab", "--", "-n"])
