"""A bounded list of the steps of prefetch threads and of main, for timelines."""

from __future__ import annotations

import json
import os
import threading
import time
import weakref
from collections import deque
from contextlib import contextmanager
from typing import Any, Deque, Iterator, List, MutableMapping, Optional, Tuple, Union

from graph_opt.compat.callables import raw_session
from graph_opt.reporting.step_records import StepRecord as StepRecord
from graph_opt.reporting.step_records import Wait as Wait
from graph_opt.reporting.step_records import trace_events

MAIN = "main"
DEFAULT_LENGTH = 20000


class StepTrace:
    """The last steps of a session. Threads append without a lock: `deque.append` is atomic.

    Attributes:
      detailed: Set it to also record the waits at buffers, from the times of each op. That slows
        steps down; it is meant for the few that a picture shows.
    """

    def __init__(self, length: int = DEFAULT_LENGTH) -> None:
        """Keeps the last `length` records."""
        self.detailed = False
        self._records: Deque[StepRecord] = deque(maxlen=length)
        self.append = self._records.append
        self._main_steps = 0

    def records(self) -> List[StepRecord]:
        """All records that are kept, in the order in which the steps ended."""
        while True:
            try:
                return list(self._records)
            except RuntimeError:  # a thread appended meanwhile
                continue

    def clear(self) -> None:
        """Drops all records."""
        self._records.clear()

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the records as JSON for `graph-opt inspect --timeline`, Perfetto and Chrome.

        Raises:
          OSError: The file cannot be written.

        Example:
          >>> graph_opt.step_trace(session).save("steps.json")
        """
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace_events(self.records()), file)

    @contextmanager
    def main_step(self) -> Iterator[None]:
        """Records the block as one step of main.

        Example:
          >>> with trace_of(session).main_step():
          ...   session.run(train_op)
        """
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add_main_step(start, time.perf_counter())

    def add_main_step(
        self, start: float, end: float, waits: Optional[Tuple[Wait, ...]] = None
    ) -> None:
        """Records a step of main that the calling thread ran from `start` to `end`.

        Args:
          start: Seconds on the clock of `time.perf_counter`.
          end: The same clock.
          waits: When it waited at buffers; None if it was not traced.
        """
        thread, traced = threading.current_thread().name, waits is not None
        record = StepRecord(MAIN, thread, self._main_steps, start, end, waits or (), traced)
        self.append(record)
        self._main_steps += 1


_traces: MutableMapping[Any, StepTrace] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def trace_of(session: Any) -> StepTrace:
    """The trace of a session; prefetch threads write to it from their first step on.

    Args:
      session: A session, monitored or not.

    Example:
      >>> trace = graph_opt.step_trace(session)
      >>> with trace.main_step():
      ...     session.run(train_op)
      >>> trace.save("steps.json")
    """
    with _lock:
        return _traces.setdefault(raw_session(session), StepTrace())
