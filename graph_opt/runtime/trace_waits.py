"""Finds when the steps of a detailed trace waited at buffers; has the hook that traces main."""

from __future__ import annotations

import time
from typing import Any, Callable, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.callables import raw_session, trace_level
from graph_opt.ops.stage_nodes import BUFFER_PUT, BUFFER_TAKE
from graph_opt.runtime.trace import StepTrace, Wait, trace_of

_WAITING_OPS = (BUFFER_PUT, BUFFER_TAKE)


def run_traced(step: Callable[..., Any]) -> Tuple[Wait, ...]:
    """Runs a step compiled with `traced=True` and returns the waits in it."""
    metadata = tf.RunMetadata()
    step(run_metadata=metadata)
    return waits_in(metadata)


def waits_in(metadata: Any) -> Tuple[Wait, ...]:
    """The puts and takes of a step's RunMetadata, in order of time."""
    # The runtime uses the wall clock, the records the monotonic one.
    shift = time.perf_counter() - time.time()
    waits = []
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            op = next((op for op in _WAITING_OPS if "= {}(".format(op) in node.timeline_label), "")
            if op:
                start = node.all_start_micros
                ends = (start + node.all_end_rel_micros) * 1e-6
                waits.append(Wait(op, start * 1e-6 + shift, ends + shift))
    return tuple(sorted(waits, key=lambda wait: wait.start))


class StepTraceHook(tf.train.SessionRunHook):
    """Records every step of main along with those of the prefetch threads.

    Attributes:
      trace: The trace of the last session created; it outlives the session.

    Example:
      >>> hook = graph_opt.train.StepTraceHook()
      >>> with graph_opt.train.MonitoredTrainingSession(config=config, hooks=[hook]) as session:
      ...   session.run(train_op)
      >>> lanes = hook.trace.records()
    """

    def __init__(self) -> None:
        """Starts with an empty trace, until a session is created."""
        self.trace = StepTrace()
        self._start = 0.0
        self._is_traced = False

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Finds the session's trace."""
        del coord  # part of the hook's signature
        self.trace = trace_of(session)

    def before_run(self, run_context: Any) -> Optional[Any]:
        """Notes when the step starts, and requests each op's times if the trace is detailed."""
        options = None
        self._is_traced = self.trace.detailed
        if self._is_traced:
            level = trace_level(raw_session(run_context.session))
            options = tf.RunOptions(trace_level=level)
        self._start = time.perf_counter()
        return tf.train.SessionRunArgs(None, options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Records the step."""
        del run_context
        end = time.perf_counter()
        waits = waits_in(run_values.run_metadata) if self._is_traced else None
        self.trace.add_main_step(self._start, end, waits)
