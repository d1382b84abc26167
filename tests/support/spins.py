"""Python programs that wait in a loop without a system call."""

from __future__ import annotations

# Python hands its lock over after five milliseconds of the clock, which stands still meanwhile.
WAITS_FOR_A_THREAD = """
import threading, time
done = False
def finish():
    global done
    time.sleep(0.01)
    done = True
threading.Thread(target=finish).start()
while not done:
    pass
"""
# The same for a signal's handler, which needs a timer.
WAITS_FOR_A_TIMER = """
import signal
done = False
def finish(*_):
    global done
    done = True
signal.signal(signal.SIGALRM, finish)
signal.setitimer(signal.ITIMER_REAL, 0.25)
while not done:
    pass
"""
