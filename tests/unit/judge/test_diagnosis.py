"""The rules of the diagnosis, one slice at a time, and what holds for any mixture of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.judge.diagnosis import LEAST_SHARE, Flows, Slice, diagnose
from lab.model.diagnosis import CAUSES

PLAIN = Flows("get", (), content=1 << 20, seconds=1.0, idle_rtt_s=0.1, loaded_rtt_s=0.1)
SLICE = Slice(0.01, 1000)
WINDOW = replace(SLICE, no_window_s=0.01, window=2 << 20)
NETWORK = replace(SLICE, waits_for_network=True)

RULES = {
    "receive-window": (PLAIN, WINDOW),
    "slow-reader": (PLAIN, replace(WINDOW, reader_idle=True)),
    "send-buffer": (PLAIN, replace(SLICE, answer="room")),
    "short-file": (PLAIN, replace(NETWORK, slow_start=True)),
    "congestion-window": (PLAIN, NETWORK),
    "loss": (replace(PLAIN, retransmits=5, dropped=5), NETWORK),
    "policer": (replace(PLAIN, retransmits=5, dropped=5, policed=4), NETWORK),
    "line": (PLAIN, replace(WINDOW, line_full=True)),
    "slow-server": (PLAIN, SLICE),
    "slow-writer": (replace(PLAIN, direction="put"), SLICE),
    "ssh-window": (replace(PLAIN, layer="sftp"), replace(SLICE, answer="at once")),
    "h2-window": (replace(PLAIN, layer="h2"), replace(SLICE, answer="at once")),
    "requests": (replace(PLAIN, layer="h2", request=1 << 20), replace(SLICE, answer="at once")),
    "peer-messages": (PLAIN, replace(SLICE, answer="at once")),
    "limit": (replace(PLAIN, limit_byte_s=1_000_000), SLICE),
}


@pytest.mark.parametrize("cause", RULES)
def test_a_rule(cause: str) -> None:
    flows, piece = RULES[cause]
    assert diagnose(replace(flows, slices=[piece] * 3)).cause == cause


def test_a_limit_is_kept_by_the_pace_whatever_the_opening_took() -> None:
    kept = replace(PLAIN, limit_byte_s=2e6, pace_byte_s=1.99e6, slices=[SLICE])
    assert diagnose(kept).cause == "limit"
    assert diagnose(replace(kept, pace_byte_s=1.8e6)).cause == "slow-server"


def test_every_cause_has_a_rule() -> None:
    assert set(CAUSES) == {*RULES, "not-known"}


def test_the_sentence_has_the_figures() -> None:
    found = diagnose(replace(PLAIN, slices=[WINDOW] * 93 + [SLICE] * 7))
    assert found.sentence == "limited by the receiver: window 2.0 MiB each RTT of 100 ms = 21 MB/s for 93 % of the time"


def test_a_piece_waits_for_the_window_first_then_for_the_buffer_and_the_rest_has_a_cause_of_its_own() -> None:
    found = diagnose(replace(PLAIN, slices=[replace(SLICE, no_window_s=0.005, no_buffer_s=0.003)] * 3))
    assert found.shares == pytest.approx({"receive-window": 0.5, "send-buffer": 0.3, "slow-server": 0.2})
    longer = diagnose(replace(PLAIN, slices=[replace(SLICE, no_window_s=0.006, no_buffer_s=0.009)] * 3))
    assert longer.shares == pytest.approx({"receive-window": 0.6, "send-buffer": 0.4})


def test_nothing_moved() -> None:
    assert diagnose(replace(PLAIN, content=0, seconds=0.0)).cause == "not-known"


@given(st.lists(st.sampled_from([piece for _, piece in RULES.values()]), min_size=1, max_size=40))
def test_a_named_cause_held_for_long_enough(slices: list[Slice]) -> None:
    found = diagnose(replace(PLAIN, slices=slices))
    assert sum(found.shares.values()) == pytest.approx(1, abs=0.2)
    if found.cause == "not-known":
        assert found.share is None
        assert max(found.shares.values()) < LEAST_SHARE + 0.001
    else:
        assert found.share is not None
        assert found.share >= LEAST_SHARE
