"""Programs that compute, yield, or read the processor's counter: virtual time goes on for them, and repeats."""

from __future__ import annotations

import sys
from contextlib import closing

import pytest

from lab.hosts.agent.places import SAMPLE_VARIABLE
from lab.hosts.host import Completed
from lab.hosts.virtual.network import VirtualNetwork, open_network
from tests.support.spins import WAITS_FOR_A_THREAD, WAITS_FOR_A_TIMER

pytestmark = pytest.mark.timeout(300)

# rdtsc (0f 31) or rdtscp (0f 01 f9); shl rdx, 32; or rax, rdx; ret
READS_THE_COUNTER = """
import ctypes, mmap, sys, time
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex(sys.argv[1] + "48c1e2204809d0c3"))
read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
for _ in range(100):
    before, between, after = time.monotonic_ns(), read(), time.monotonic_ns()
    assert before <= between <= after, (before, between, after)
    print(between)
"""
YIELDS = "import os\nfor _ in range(1500): os.sched_yield()"
POLLS_BESIDE_A_THREAD = """
import threading, time
thread = threading.Thread(target=lambda: time.sleep(0.001))
thread.start()
while thread.is_alive():
    time.monotonic()
"""


def ran(network: VirtualNetwork, script: str, *words: str) -> Completed:
    """A Python script, begun as a client is."""
    command = [sys.executable, "-I", "-S", "-c", script, *words]
    return network.client.run(command, env={SAMPLE_VARIABLE: "1"}, timeout_s=60)


@pytest.mark.parametrize(("script", "least_s"), [(WAITS_FOR_A_THREAD, 0.01), (WAITS_FOR_A_TIMER, 0.25)], ids=["thread", "timer"])
def test_what_a_program_waits_for_in_a_loop_comes_and_the_run_says_so(own: VirtualNetwork, script: str, least_s: float) -> None:
    done = ran(own, script)
    assert least_s <= done.wall_s < least_s + 1
    assert done.interruptions >= 1


def test_a_program_that_computes_for_less_than_half_a_second_is_not_interrupted(own: VirtualNetwork) -> None:
    done = ran(own, "sum(range(2_000_000))")
    assert done.interruptions == 0
    assert done.wall_s < 0.05


@pytest.mark.parametrize("instruction", ["0f31", "0f01f9"], ids=["rdtsc", "rdtscp"])
def test_the_processors_counter_is_virtual_time_and_repeats(own: VirtualNetwork, instruction: str) -> None:
    found = ran(own, READS_THE_COUNTER, instruction).text.split()
    assert len(set(found)) == 100
    outcomes = []
    for _ in range(2):
        with closing(open_network(seed=3)) as network:
            outcomes.append(ran(network, READS_THE_COUNTER, instruction).text)
    assert outcomes[0] == outcomes[1]


def test_a_program_that_yields_slows_none_after_it(own: VirtualNetwork) -> None:
    assert ran(own, POLLS_BESIDE_A_THREAD).wall_s < 0.1
    ran(own, YIELDS)
    assert ran(own, POLLS_BESIDE_A_THREAD).wall_s < 0.1
