"""Keywords for tests that are written in steps: start a lab, change its link, run transfers, and say what is expected of them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

from robot.api import SkipExecution
from robot.api.deco import keyword
from robot.libraries.BuiltIn import BuiltIn

from lab.clients.registry import parse_client
from lab.model.base import first_problem
from lab.model.endpoint import ProtocolName
from lab.model.errors import ClientFault, NotSupported, UsageProblem
from lab.model.link import Link
from lab.model.load import load_topology
from lab.model.obeyed import refuse
from lab.model.results import Calibration, Sample, VerdictName
from lab.model.transfer import Transfer
from lab.model.units import BitRate, ByteRate, Duration, Ratio, Size
from lab.run.questions import Asking
from lab.run.steps import Steps
from lab.run.userlands import refuse_in_real_time

_VERDICTS: dict[str, VerdictName] = {"PASS": "PASS", "FAIL": "FAIL", "SKIP": "INCONCLUSIVE"}


_LARGEST = Size(64 << 20)


class StepKeywords:
    """They share the session of the run, so that clock, seed, backend and reports are the run's."""

    _steps: Steps | None = None

    @property
    @abstractmethod
    def asking(self) -> Asking: ...

    @keyword(tags=("step",))
    def start_lab(self, topology: str, *, largest: Size = _LARGEST) -> None:
        """Brings up the ``topology``'s network and servers, and shapes its link. ``largest`` is the largest file to come.

        | Start Lab    dsl-20 |
        """
        session, wanted = self.asking.session, load_topology(topology)
        try:
            refuse("robot steps", wanted, "real" if session.options.clock == "real" else "virtual")
        except NotSupported as reason:
            raise SkipExecution(str(reason)) from None
        self._steps = Steps(session, str(BuiltIn().get_variable_value("${TEST NAME}")))
        self._steps.start(wanted, largest.bytes)

    @keyword(tags=("step",))
    def stop_lab(self) -> None:
        """Ends the lab of this test. The end of a test does it too.

        | Stop Lab |
        """
        if self._steps is not None:
            self._steps.stop()

    @keyword(tags=("step",))
    def change_link(
        self,
        *,
        rate: BitRate | None = None,
        rtt: Duration | None = None,
        loss: Ratio | None = None,
        jitter: Duration | None = None,
        after: Duration | None = None,
    ) -> Link:
        """Gives the link other settings; what is left out stays. With ``after``, that long after the next transfer begins.

        Not on a link with a schedule, whose next step would undo it.

        | Change Link    rate=2 Mbit/s |
        | Change Link    loss=5 %    after=1 s |
        """
        given = {"rate": rate, "rtt": rtt, "loss": loss, "jitter": jitter}
        changes: dict[str, object] = {name: value for name, value in given.items() if value is not None}
        try:
            return self._now().change(changes, after.s if after else None)
        except ValueError as problem:
            raise UsageProblem(f"no such link: {first_problem(problem)}") from None

    @keyword(tags=("step",))
    def interrupt_link(self, lasting: Duration, *, after: Duration | None = None) -> None:
        """Lets the link lose everything for ``lasting``. With ``after``, that long after the next transfer begins.

        | Interrupt Link    1 s    after=2 s |
        """
        self._now().interrupt(lasting.s, after.s if after else None)

    @keyword(tags=("step",))
    def calibrate_link(self) -> Calibration:
        """Measures goodput and RTT of the link as it is now. Fails with a LabFault where it is not what it claims to be.

        | Calibrate Link |
        """
        return self._now().calibrate()

    @keyword(tags=("step",))
    def run_transfer(
        self,
        *,
        client: str,
        size: Size,
        protocol: ProtocolName = "http1",
        direction: Literal["get", "put"] = "get",
        limit: ByteRate | None = None,
        files: int = 1,
        parallel: int = 1,
    ) -> Sample:
        """Runs one transfer and returns it as a sample. A transfer that fails does not fail the test: say what is expected.

        | ${sample} =    Run Transfer    client=ferry    size=5 MiB    limit=1 MB/s |
        """
        try:
            transfer = Transfer(protocol=protocol, direction=direction, size=size, limit=limit, files=files, parallel=parallel)
        except ValueError as problem:
            raise UsageProblem(f"no such transfer: {first_problem(problem)}") from None
        steps, spec, session = self._now(), parse_client(client), self.asking.session
        try:
            if session.options.clock == "real":
                refuse_in_real_time("this test", session.options.userlands, spec, http3=protocol == "h3")
            return steps.transfer(spec, transfer)
        except NotSupported as reason:
            raise SkipExecution(str(reason)) from None

    @keyword(tags=("step",))
    def transfer_should_have_completed(self, sample: Sample) -> None:
        """Passes when every byte of the ``sample`` arrived and the client reported success.

        | Transfer Should Have Completed    ${sample} |
        """
        if not sample.ok:
            raise ClientFault(f"the transfer did not complete: {sample.problem}")

    @keyword(tags=("step",))
    def transfer_should_have_failed(self, sample: Sample) -> None:
        """Passes when the client reported a failure by its exit code.

        | Transfer Should Have Failed    ${sample} |
        """
        if sample.exit_code == 0:
            raise ClientFault(f"the client reported success: {sample.problem or 'every byte arrived'}")

    @keyword(tags=("step",))
    def deviation_should_be_within(self, sample: Sample, tolerance: Ratio) -> None:
        """Passes when the body rate of the ``sample`` is at most ``tolerance`` off the transfer's own limit.

        | Deviation Should Be Within    ${sample}    5 % |
        """
        self.transfer_should_have_completed(sample)
        if sample.deviation is None:
            raise UsageProblem("the transfer has no limit to deviate from", remedy="give Run Transfer a limit")
        if abs(sample.deviation) > tolerance.value:
            raise ClientFault(f"the body rate is {sample.deviation:+.2%} off the limit, more than {tolerance}")

    @keyword(tags=("step",))
    def throughput_should_be_at_least(self, sample: Sample, rate: ByteRate) -> None:
        """Passes when the body of the ``sample`` arrived at ``rate`` or faster.

        | Throughput Should Be At Least    ${sample}    8 Mbit/s |
        """
        self._throughput(sample, rate, at_least=True)

    @keyword(tags=("step",))
    def throughput_should_be_at_most(self, sample: Sample, rate: ByteRate) -> None:
        """Passes when the body of the ``sample`` arrived at ``rate`` or slower.

        | Throughput Should Be At Most    ${sample}    2 Mbit/s |
        """
        self._throughput(sample, rate, at_least=False)

    @keyword(tags=("step",))
    def duration_should_be_at_most(self, sample: Sample, longest: Duration) -> None:
        """Passes when the client ended within ``longest`` of its start.

        | Duration Should Be At Most    ${sample}    10 s |
        """
        if sample.wall_s > longest.s:
            raise ClientFault(f"the transfer took {sample.wall_s:.2f} s, longer than {longest}")

    def _throughput(self, sample: Sample, rate: ByteRate, *, at_least: bool) -> None:
        self.transfer_should_have_completed(sample)
        if sample.body_byte_s is None:
            raise ClientFault("the client reported no times from which a rate could be computed")
        if (sample.body_byte_s >= rate.byte_s) != at_least and sample.body_byte_s != rate.byte_s:
            word = "less" if at_least else "more"
            raise ClientFault(f"the body rate was {sample.body_byte_s / 1e6:.3f} MB/s, {word} than {rate}")

    def _now(self) -> Steps:
        if self._steps is None:
            raise UsageProblem("no lab is up", remedy="begin with Start Lab")
        return self._steps

    def end_test(self, data: Any, result: Any) -> None:
        """Listener hook: a test in steps leaves an answer with Robot's own status."""
        del data
        if self._steps is None:
            return
        steps, self._steps = self._steps, None
        steps.stop()
        verdict = "INVALID" if result.message.startswith("LabFault") else _VERDICTS.get(result.status, "INVALID")
        steps.answer(verdict, result.message or "every step passed")
