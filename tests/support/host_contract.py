"""What every Linux `Host` promises (`lab.hosts.host`), as one set of tests. A backend's tests subclass it and give `contracted`.

A stand-in that passes the same tests may take a host's place in other tests.
"""

from __future__ import annotations

import hashlib
import signal
from pathlib import Path, PurePath

import pytest

from lab.hosts.host import Host, Process
from lab.model.errors import LabFault, UsageProblem
from tests.support.waiting import until

WORDS = ["a b", "$HOME", "'", '"', "\\", "*", ";", "\n", "é", "", "-n"]
BINARY = bytes(range(256)) * 10_000


class HostContract:
    """`contracted`: the host, which these tests leave as they find it but for files in its working folder."""

    root_is_root = True
    """Whether `root` gives user id 0: this process's own machine has only this process's user."""

    @pytest.fixture
    def contracted(self) -> Host:
        raise NotImplementedError

    # Commands ----------------------------------------------------------------------------------------------------------

    def test_input_environment_folder_output_and_end(self, contracted: Host) -> None:
        done = contracted.run(
            ["sh", "-c", 'cat; echo "$NAME" >&2; pwd >&2; exit 3'], stdin=BINARY, env={"NAME": "a b"}, cwd="/", check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (3, BINARY, b"a b\n/\n")
        assert 0 < done.started_ns <= done.ended_ns
        assert not done.timed_out

    def test_words_arrive_as_they_are(self, contracted: Host) -> None:
        assert contracted.run(["printf", "[%s]", *WORDS]).text == "".join(f"[{word}]" for word in WORDS)

    def test_no_such_command(self, contracted: Host) -> None:
        done = contracted.run(["no-such-program"], check=False)
        assert done.returncode == 127
        assert "no-such-program" in done.error_text
        with pytest.raises(LabFault, match="no-such-program"):
            contracted.run(["no-such-program"])

    def test_a_failure_is_the_labs_fault_in_the_commands_words(self, contracted: Host) -> None:
        with pytest.raises(LabFault, match=rf"{contracted.name}: .*sh.* failed \(7\): why") as caught:
            contracted.run(["sh", "-c", "echo why >&2; exit 7"])
        assert "\n" not in caught.value.message

    def test_a_command_ends_with_its_time_and_takes_its_children_along(self, contracted: Host) -> None:
        done = contracted.run(["sh", "-c", "trap '' TERM; sleep 61 & echo $!; wait"], timeout_s=2.0, check=False)
        assert done.timed_out
        assert done.returncode == -signal.SIGKILL
        # A zombie has ended.
        child = ["grep", "-q", "^State:.[^Z]", f"/proc/{done.text.strip()}/status"]
        assert contracted.run(child, check=False).returncode != 0

    def test_one_in_the_background(self, contracted: Host, tmp_path: Path) -> None:
        out, err = tmp_path / "out", tmp_path / "err"
        script = "trap 'echo bye; exit 7' TERM; echo one; echo two >&2; while :; do sleep 0.05; done"
        process: Process = contracted.start(["sh", "-c", script], stdout=out, stderr=err)
        self._begun(process, err)
        assert process.running()
        assert (out.read_text(), err.read_text()) == ("one\n", "two\n")
        done = process.stop(10.0)
        assert (done.returncode, done.stdout, out.read_text()) == (7, b"", "one\nbye\n")
        assert not process.running()
        assert process.wait(5.0).returncode == 7, "its end is known from then on"

    def test_a_command_that_ignores_the_signal_is_killed(self, contracted: Host, tmp_path: Path) -> None:
        out = tmp_path / "out"
        script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        process = contracted.start(["sh", "-c", script], stdout=out, stderr=tmp_path / "err")
        self._begun(process, out)
        done = process.stop(2.0)
        assert (done.returncode, done.timed_out) == (-signal.SIGKILL, True)

    def test_many_at_once_keep_their_output_apart(self, contracted: Host) -> None:
        running = [contracted.start(["sh", "-c", f"yes {number} | head -n 20000"]) for number in range(4)]
        for number, process in enumerate(running):
            assert process.wait(60).stdout == f"{number}\n".encode() * 20000

    def test_the_administrator(self, contracted: Host) -> None:
        if self.root_is_root:
            assert contracted.run(["id", "-u"], root=True).text == "0\n"
            assert contracted.run(["id", "-u"]).text != "0\n"

    def test_a_program_of_the_labs(self, contracted: Host) -> None:
        assert contracted.run([contracted.program("sh"), "-c", "echo works"]).text == "works\n"
        with pytest.raises(UsageProblem, match="no-such-program"):
            contracted.program("no-such-program")

    def test_what_has_a_mark_in_its_environment_is_ended(self, contracted: Host, tmp_path: Path) -> None:
        out = tmp_path / "out"
        words = ["sh", "-c", "echo ready; exec sleep 600"]
        marked = contracted.start(words, env={"CONTRACT": "marked"}, stdout=out, stderr=tmp_path / "err")
        other = contracted.start(words, env={"CONTRACT": "other"}, stdout=tmp_path / "other", stderr=tmp_path / "err2")
        self._begun(marked, out)
        self._begun(other, tmp_path / "other")
        contracted.end_processes("CONTRACT=marked")
        assert marked.wait(30.0).returncode in (-signal.SIGTERM, -signal.SIGKILL)
        assert other.running()
        other.stop()

    def test_a_program_is_identified(self, contracted: Host) -> None:
        path = contracted.program("sh")
        done = contracted.identify(path, ["-c", "echo its version"])
        sha256 = contracted.run(["sha256sum", path]).text.split()[0]
        assert done.returncode == 0
        assert sha256 in done.text
        assert "its version" in done.text
        assert contracted.identify("/nowhere/program", ["--version"]).returncode == 127

    def test_its_counters_and_facts(self, contracted: Host) -> None:
        assert contracted.retransmits() >= 0
        assert contracted.facts()["sysctl.net.ipv4.tcp_congestion_control"]

    # Files -------------------------------------------------------------------------------------------------------------

    def test_a_file_is_written_intact_with_its_parents_and_mode(self, contracted: Host) -> None:
        path = contracted.workdir / "contract/written" / "file"
        contracted.write(path, BINARY, mode=0o750)
        assert contracted.read(path) == BINARY
        assert contracted.run(["stat", "-c", "%a", str(path)]).text == "750\n"
        contracted.write(path, b"")
        assert contracted.read(path) == b""

    def test_a_file_that_is_not_there_is_one_line(self, contracted: Host) -> None:
        with pytest.raises(LabFault, match=r"/no/such/file") as caught:
            contracted.read("/no/such/file")
        assert "No such file" in caught.value.message
        assert "\n" not in caught.value.message

    def test_files_of_the_labs_machine_are_copied(self, contracted: Host, tmp_path: Path) -> None:
        source, other = tmp_path / "source", tmp_path / "other"
        source.write_bytes(BINARY)
        other.write_bytes(b"other")
        folder = contracted.workdir / "contract/copied"
        contracted.copy(source, folder / "one", mode=0o600)
        contracted.put({folder / "two": other, PurePath(folder) / "deep/three": source})
        assert [contracted.read(folder / name) for name in ("one", "two", "deep/three")] == [BINARY, b"other", BINARY]
        assert contracted.run(["stat", "-c", "%a", str(folder / "one")]).text == "600\n"

    def test_a_program_of_the_labs_machine_runs_there(self, contracted: Host, tmp_path: Path) -> None:
        program = tmp_path / "program"
        program.write_text("#!/bin/sh\necho runs $1\n")
        path = contracted.workdir / "contract/bin/program"
        contracted.copy(program, path, mode=0o755)
        assert contracted.run([str(path), "well"]).text == "runs well\n"

    def test_a_folder_is_emptied(self, contracted: Host) -> None:
        folder = contracted.workdir / "contract/folder"
        contracted.write(folder / "deep/old", b"old")
        contracted.prepare_folder(str(folder))
        assert contracted.run(["find", str(folder)]).text == f"{folder}\n"

    def test_a_payload_follows_from_its_seed(self, contracted: Host) -> None:
        folder = contracted.workdir / "contract/payload"
        contracted.prepare_folder(str(folder))
        one, again, other = (
            contracted.make_payload(folder / f"{number}", 100_001, seed) for number, seed in enumerate((5, 5, 6))
        )
        content = contracted.read(folder / "0")
        assert len(content) == 100_001
        assert one == again == [hashlib.sha256(content).hexdigest()]
        assert one != other
        many = contracted.make_payload(folder / "many", 1000, 5, count=3, name="part-%d")
        assert many == [hashlib.sha256(contracted.read(folder / "many" / f"part-{index}")).hexdigest() for index in range(3)]
        assert len(set(many)) == 3

    def test_a_file_is_collected_and_removed(self, contracted: Host) -> None:
        path, note = (contracted.workdir / "contract/collected" / name for name in ("file", "note"))
        contracted.write(path, BINARY)
        contracted.write(note, b"a note")
        assert contracted.collect(str(path), str(note)) == (len(BINARY), hashlib.sha256(BINARY).hexdigest(), "a note")
        assert contracted.run(["ls", str(path.parent)]).text == ""
        missing = contracted.collect(str(path))
        assert (missing.size, missing.sha256) == (0, "")

    def _begun(self, process: Process, out: Path) -> None:
        """Its first words have come. `sync`: where the host keeps them until it is asked."""

        def said() -> bool:
            process.sync()
            return out.exists() and out.stat().st_size > 0

        until(said, "the command has begun", 30)
