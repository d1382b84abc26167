"""Keywords that judge one sample: which pass, which are the client's fault, which cannot be asked."""

from __future__ import annotations

from functools import partial

import pytest

from lab.model.errors import ClientFault, UsageProblem
from lab.model.sample import Sample
from lab.model.units import ByteRate, Duration, Ratio
from lab.robot.steps import StepKeywords
from tests.support.samples import sample as any_sample


class Keywords(StepKeywords):
    """Without a lab: a sample is all that they need."""

    @property
    def asking(self) -> None:  # type: ignore[override]
        raise AssertionError("no lab is asked")


sample = partial(any_sample, deviation=-0.04)


FAILED = sample(ok=False, exit_code=18, problem="cut")


def test_what_a_sample_keeps_passes() -> None:
    keywords, good = Keywords(), sample()
    keywords.transfer_should_have_completed(good)
    keywords.transfer_should_have_failed(FAILED)
    keywords.throughput_should_be_at_least(good, ByteRate.parse("1 MB/s"))
    keywords.throughput_should_be_at_most(good, ByteRate.parse("1 MB/s"))
    keywords.deviation_should_be_within(good, Ratio.parse("4 %"))
    keywords.duration_should_be_at_most(good, Duration.parse("1.5 s"))


@pytest.mark.parametrize("bad", [FAILED, sample(body_byte_s=0.999e6), sample(body_byte_s=None)])
def test_a_throughput_below_the_least_is_the_clients_fault(bad: Sample) -> None:
    with pytest.raises(ClientFault):
        Keywords().throughput_should_be_at_least(bad, ByteRate.parse("1 MB/s"))


@pytest.mark.parametrize("bad", [FAILED, sample(body_byte_s=1.001e6), sample(body_byte_s=None)])
def test_a_throughput_above_the_most_is_the_clients_fault(bad: Sample) -> None:
    with pytest.raises(ClientFault):
        Keywords().throughput_should_be_at_most(bad, ByteRate.parse("1 MB/s"))


@pytest.mark.parametrize("bad", [FAILED, sample(deviation=-0.041), sample(deviation=0.041)])
def test_a_deviation_on_either_side_is_the_clients_fault(bad: Sample) -> None:
    with pytest.raises(ClientFault):
        Keywords().deviation_should_be_within(bad, Ratio.parse("4 %"))


def test_a_transfer_without_a_limit_has_no_deviation() -> None:
    with pytest.raises(UsageProblem):
        Keywords().deviation_should_be_within(sample(deviation=None), Ratio.parse("4 %"))


def test_an_end_that_was_not_expected_is_the_clients_fault() -> None:
    with pytest.raises(ClientFault):
        Keywords().transfer_should_have_completed(FAILED)
    with pytest.raises(ClientFault):
        Keywords().transfer_should_have_failed(sample())
    with pytest.raises(ClientFault):
        Keywords().duration_should_be_at_most(sample(wall_s=1.501), Duration.parse("1.5 s"))
