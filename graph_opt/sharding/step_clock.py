"""What a rank is doing, as the others are told when they wait for it."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from graph_opt.ops.sent_messages import times_sent
from graph_opt.sharding.step_messages import StepMessages


class RankState(NamedTuple):
    """What a rank says of itself.

    Attributes:
      steps: How many steps it has begun.
      seconds: For how long it has been in this step, or between two of them.
      in_step: Which of the two.
      message: The message that it has sent last; "" if none.
      buffers: Stages from whose buffers the step takes.
      by_stage: Whether one of these has sent `message`, and not the step itself.
    """

    steps: int
    seconds: float
    in_step: bool
    message: str
    buffers: List[str]
    by_stage: bool = False

    def __str__(self) -> str:
        where = "has been in step {} for {:.0f} s" if self.in_step else _BETWEEN
        described = where.format(self.steps, self.seconds)
        if self.message:
            described += ", and has sent '{}' last".format(self.message)
        if self.in_step and self.buffers:
            described += "; the step takes from the buffer of stage {}".format(
                ", ".join("'{}'".format(name) for name in self.buffers)
            )
        return described

    def encoded(self) -> bytes:
        """As a message."""
        return json.dumps(self._asdict()).encode("utf-8")


_BETWEEN = "has been outside of steps for {1:.0f} s, after {0} of them"


def decoded_state(encoded: bytes) -> RankState:
    """The opposite of `RankState.encoded`."""
    return RankState(**json.loads(encoded.decode("utf-8")))


class _Running(NamedTuple):
    messages: StepMessages
    stall_seconds: float
    begun: float
    sent: List[int]


class StepClock:
    """Knows which step a rank runs, since when, and which message it has sent last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Dict[int, _Running] = {}
        self._steps = 0
        self._since = time.monotonic()

    @contextlib.contextmanager
    def step(self, messages: StepMessages, stall_seconds: float) -> Iterator[List[int]]:
        """While a step runs; yields how often each of its messages was sent before.

        Args:
          messages: What it sends.
          stall_seconds: How long it may wait for other ranks; 0 for no limit.
        """
        sent = messages.sent()
        with self._lock:
            self._steps += 1
            number = self._steps
            self._running[number] = _Running(messages, stall_seconds, time.monotonic(), sent)
        try:
            yield sent
        finally:
            with self._lock:
                del self._running[number]
                self._since = time.monotonic()

    def discount(self) -> None:
        """Does not count a step that has sent nothing and that other ranks do not run."""
        with self._lock:
            self._steps -= 1

    def seconds_in_step(self) -> float:
        """For how long the oldest step has run; 0 outside of steps."""
        oldest = self._oldest()
        return 0.0 if oldest is None else time.monotonic() - oldest.begun

    @property
    def stall_seconds(self) -> float:
        """The limit of that step; 0 for none."""
        oldest = self._oldest()
        return 0.0 if oldest is None else oldest.stall_seconds

    def state(self) -> RankState:
        """What this rank is doing."""
        oldest = self._oldest()
        message, by_stage = ("", False) if oldest is None else _last_message(oldest)
        return RankState(
            steps=self._steps,
            seconds=time.monotonic() - (self._since if oldest is None else oldest.begun),
            in_step=oldest is not None,
            message=message,
            buffers=[] if oldest is None else [one.spec.name for one in oldest.messages.stages],
            by_stage=by_stage,
        )

    def _oldest(self) -> Optional[_Running]:
        with self._lock:
            return self._running[min(self._running)] if self._running else None


def _last_message(running: _Running) -> Tuple[str, bool]:
    """What was sent last, and whether by a stage from which the step takes."""
    sent = _last_sent(running)
    return (sent, False) if sent else (_last_of_stages(running), True)


def _last_sent(running: _Running) -> str:
    """What the step itself has sent last; "" if nothing."""
    now = running.messages.sent()
    grown = [
        message.name
        for message, before, after in zip(running.messages.messages, running.sent, now)
        if after > before
    ]
    return grown[-1] if grown else ""


def _last_of_stages(running: _Running) -> str:
    """A batch sends each of a stage's messages once: the last to have been sent most often."""
    last = ""
    for stage in running.messages.stages:
        counts = [times_sent(message.key) for message in stage.messages]
        sent = [one.name for one, count in zip(stage.messages, counts) if count == max(counts)]
        last = sent[-1] if max(counts) else last
    return last
