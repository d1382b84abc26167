"""The UML router's console: a shell on a pair of pipes, one question at a time. Stdlib only: part of the agent."""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.hosts.agent.protocol import Channel, Message
from lab.hosts.agent.spawn import fork_into

# The guest's terminal takes lines of up to 4096 bytes (n_tty's buffer) and silently cuts longer ones.
MAX_LINE_BYTES = 4000
_KEPT_BYTES = 4096
# A busy guest has been seen to miss that its console became readable; an empty line only wakes it.
_NUDGE_S = 1.0


@dataclass
class Question:
    channel: Channel
    line: str | None  # None: waiting for the boot
    end: bytes
    deadline: float
    answer: bytearray = field(default_factory=bytearray)


class Console:
    """Questions are asked in order; each is followed by an echo of its own token, so an answer's end is certain."""

    def __init__(self, pid: int, to_guest: int, from_guest: int, selector: selectors.BaseSelector) -> None:
        self.pid = pid
        self._to_guest = to_guest
        self._from_guest = from_guest
        self._selector = selector
        self._waiting: deque[Question] = deque()
        self._current: Question | None = None
        self._count = 0
        self._nudge_at = 0.0
        self._dead = ""
        self._last = bytearray()
        selector.register(from_guest, selectors.EVENT_READ, self._readable)

    @classmethod
    def start(cls, argv: list[str], selector: selectors.BaseSelector, enter: Callable[[], None]) -> Console:
        guest_in, to_guest = os.pipe()
        from_guest, guest_out = os.pipe()
        stdio = (guest_in, guest_out, guest_out)
        child = fork_into(argv, env=dict(os.environ), cwd="/", stdio=stdio, enter=enter, terminal=False)
        for fd in (guest_in, guest_out):
            os.close(fd)
        os.set_blocking(from_guest, False)
        return cls(child.pid, to_guest, from_guest, selector)

    def wait_ready(self, channel: Channel, timeout_s: float) -> None:
        self._put(Question(channel, None, b"READY", time.monotonic() + timeout_s))

    def ask(self, channel: Channel, line: str, timeout_s: float) -> None:
        self._count += 1
        token = f"--{self._count}-{time.monotonic_ns():x}--"
        text = f'{{ {line}\n}} 2>&1; echo "{token} $?"'.replace("\n", "; ", 1)
        if len(text) > MAX_LINE_BYTES or "\n" in text:
            raise ValueError(f"a console line must be one line of at most {MAX_LINE_BYTES} bytes")
        self._put(Question(channel, text, token.encode(), time.monotonic() + timeout_s))

    def forget(self, channel: Channel) -> None:
        """No one waits any more. A question already asked stays, so that its answer is not taken for the next one's."""
        self._waiting = deque(q for q in self._waiting if q.channel is not channel)

    def seconds_to_deadline(self) -> float | None:
        return max(0.0, min(_NUDGE_S, self._current.deadline - time.monotonic())) if self._current else None

    def expire(self) -> None:
        """Give up a question that is overdue; nudge a guest that takes its time."""
        now = time.monotonic()
        if self._current and self._current.line is not None and now >= self._nudge_at:
            self._nudge_at = now + _NUDGE_S
            with contextlib.suppress(OSError):
                os.write(self._to_guest, b"\n")
        if self._current and now >= self._current.deadline:
            # An answer that comes too late could be taken for the next one's: the console is no longer to be trusted.
            self._die(f"no answer in time to {self._current.line or 'its boot'}")

    def _put(self, question: Question) -> None:
        if self._dead:
            self._reply(question, {"error": self._dead})
            return
        self._waiting.append(question)
        if self._current is None:
            self._next()

    def _next(self) -> None:
        self._current = self._waiting.popleft() if self._waiting else None
        self._nudge_at = time.monotonic() + _NUDGE_S
        if self._current and self._current.line is not None:
            try:
                os.write(self._to_guest, self._current.line.encode() + b"\n")
            except OSError:
                self._die("it has ended")

    def _readable(self, _: int) -> None:
        try:
            data = os.read(self._from_guest, 65536)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(self._from_guest)
            self._die("it has ended")
            return
        self._last = (self._last + data)[-_KEPT_BYTES:]
        if self._current is None:
            return
        question = self._current
        question.answer += data
        start = question.answer.find(question.end)
        if start < 0 or b"\n" not in question.answer[start:]:
            return
        output = question.answer[:start].decode(errors="replace")
        rest = question.answer[start + len(question.end) :].split(b"\n")[0].decode(errors="replace").strip()
        code = 0 if question.line is None else int(rest)
        answer: Message = {"output": output, "returncode": code}
        self._reply(question, answer)
        self._next()

    def _reply(self, question: Question, answer: Message) -> None:
        with contextlib.suppress(OSError):
            question.channel.send(answer)

    def _die(self, why: str) -> None:
        tail = " | ".join(self._last.decode(errors="replace").strip().splitlines()[-3:])
        self._dead = f"the User-Mode Linux router does not answer: {why}" + (f"; it last said: {tail}" if tail else "")
        everyone = ([self._current] if self._current else []) + list(self._waiting)
        self._current, self._waiting = None, deque()
        for question in everyone:
            self._reply(question, {"error": self._dead})
