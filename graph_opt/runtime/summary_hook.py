"""Buffer metrics as TensorBoard scalars."""

from __future__ import annotations

from typing import Any, Dict, NoReturn, Optional

from graph_opt.compat import tf
from graph_opt.runtime.metrics import buffer_metrics
from graph_opt.runtime.refresh_metrics import refresh_metrics
from graph_opt.runtime.staleness_metrics import staleness_metrics

DEFAULT_EVERY_N_STEPS = 100
_Metrics = Dict[str, Dict[str, Any]]


class PrefetchSummaryHook(tf.train.SessionRunHook):
    """Writes, every N steps of main, how long main and the stages waited.

    Scalars of each stage, under `prefetch/<stage>/`: `elements` in the buffer and `occupancy`
    (elements over capacity) at that moment; and per step of main, on average since the last time,
    `starved_ms` (main, or the stage behind, waited for an element), `full_ms` (the stage's threads
    waited for room) and `bytes` taken. Times of all waiting calls are summed.

    Scalars of each table whose lookups run ahead, under `staleness/<table>/`: `missed_updates`, the
    mean of its rows, and `relative_l2`; both of all steps sampled so far.

    Scalars of each table whose rows are refreshed, under `refresh/<table>/`: `ids_changed`,
    the share of the ids looked up ahead whose row was written before its step, and `steps_in_main`,
    the share of steps that looked up all rows themselves; both since the last time.

    Example:
      >>> hooks = [graph_opt.make_prefetch_hook(), PrefetchSummaryHook("/tmp/train")]
    """

    def __init__(
        self,
        output_dir: Optional[str] = None,
        summary_writer: Optional[Any] = None,
        every_n_steps: int = DEFAULT_EVERY_N_STEPS,
    ) -> None:
        """Makes the hook.

        Args:
          output_dir: Folder of the event file; shared with other summary hooks.
          summary_writer: A writer to use instead.
          every_n_steps: Steps of main between two points.

        Raises:
          tf.errors.InvalidArgumentError: not exactly one of `output_dir` and `summary_writer`, or
            `every_n_steps` below 1.
        """
        if (output_dir is None) == (summary_writer is None):
            _refuse("need exactly one of output_dir and summary_writer")
        if every_n_steps < 1:
            _refuse("every_n_steps={}: need at least 1".format(every_n_steps))
        self._output_dir = output_dir
        self._writer = summary_writer
        self._every_n_steps = every_n_steps
        self._global_step: Optional[Any] = None
        self._steps = 0
        self._before: _Metrics = {}
        self._refreshed: _Metrics = {}

    def begin(self) -> None:
        """Finds the global step and opens the event file."""
        self._global_step = tf.train.get_global_step()
        self._refreshed = {}
        if self._output_dir is not None:
            self._writer = tf.summary.FileWriterCache.get(self._output_dir)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Starts counting anew: the buffers of a new session may be new too."""
        del session, coord
        self._before = {}

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the scalars if they are due."""
        del run_values
        self._steps += 1
        if self._steps % self._every_n_steps == 0:
            self._write(run_context.session)

    def end(self, session: Any) -> None:
        """Flushes the event file."""
        del session
        if self._writer is not None:
            self._writer.flush()

    def _write(self, session: Any) -> None:
        metrics = buffer_metrics(session)
        step = self._steps if self._global_step is None else session.run(self._global_step)
        summary = tf.Summary()
        for stage, now in metrics.items():
            before = self._before.get(stage, {})
            for name, value in _scalars(before, now, self._every_n_steps).items():
                summary.value.add(tag="prefetch/{}/{}".format(stage, name), simple_value=value)
        for table, told in staleness_metrics(session).items():
            for name, value in _of_table(told).items():
                summary.value.add(tag="staleness/{}/{}".format(table, name), simple_value=value)
        refreshed = refresh_metrics(session)
        for table, now in refreshed.items():
            for name, value in _of_refresh(self._refreshed.get(table, {}), now).items():
                summary.value.add(tag="refresh/{}/{}".format(table, name), simple_value=value)
        self._before, self._refreshed = metrics, refreshed
        if self._writer is not None:
            self._writer.add_summary(summary, step)


def _scalars(before: Dict[str, int], now: Dict[str, int], steps: int) -> Dict[str, float]:
    def per_step(name: str) -> float:
        return (now[name] - before.get(name, 0)) / float(steps)

    return {
        "elements": float(now["size"]),
        "occupancy": now["size"] / float(now["capacity"]),
        "starved_ms": per_step("take_wait_micros") / 1000.0,
        "full_ms": per_step("put_wait_micros") / 1000.0,
        "bytes": per_step("taken_bytes"),
    }


def _of_table(told: Dict[str, Any]) -> Dict[str, float]:
    scalars = {"relative_l2": told["relative_l2"]}
    if not told["uncounted"]:
        scalars["missed_updates"] = told["mean_missed"]
    return scalars


def _of_refresh(before: Dict[str, Any], now: Dict[str, Any]) -> Dict[str, float]:
    def share(part: str, whole: str) -> float:
        parts, wholes = (now[name] - before.get(name, 0) for name in (part, whole))
        return parts / float(max(wholes, 1))

    return {
        "ids_changed": share("ids_changed", "ids"),
        "steps_in_main": share("steps_in_main", "steps"),
    }


def _refuse(fault: str) -> NoReturn:
    raise tf.errors.InvalidArgumentError(None, None, "PrefetchSummaryHook: " + fault)
