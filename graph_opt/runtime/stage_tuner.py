"""The thread that tunes the stages of a runner: measures at their buffers, then changes the stages.

A worker that is too many ends between two steps, so its places are settled; one that is added
counts places with the others. `TensorBufferResize` changes what a buffer may hold: more lets
waiting puts in, and with less, what it holds stays until it is taken.

It is a thread of its own since workers may run at a low priority, which threads that they start
would inherit.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from typing import Any, Dict, List, MutableMapping, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.reporting.tuned_stages import note_tuned, say_tuned
from graph_opt.runtime.stage_control import BufferControl
from graph_opt.runtime.tuning import LEAST_BATCHES, SHORTEST_WINDOW, Setting, Tuning, Window
from graph_opt.runtime.worker_pool import WorkerPool

# What an earlier runner of a graph has found is what the next one begins with: iterators that are
# initialized for every epoch restart their stages.
_found: MutableMapping[Any, Dict[str, Setting]] = weakref.WeakKeyDictionary()
# A step that takes so many times as long as others is none: main evaluates, or writes a checkpoint.
_PAUSE_STEPS = 10


class StageTuner:
    """Tunes the stages of one runner; made by `StageRunner`, which starts and stops it.

    Args:
      session: The session.
      pools: Pools of the runner's stages, of which those that are not tuned are left alone.
      control: Gives buffers their capacity.
    """

    def __init__(self, session: Any, pools: Sequence[WorkerPool], control: BufferControl) -> None:
        self._session = session
        known = _found.setdefault(session.graph, {})
        self._stages = [
            _TunedStage(pool, control, known.get(pool.stage.name))
            for pool in pools
            if pool.stage.spec.tuned
        ]
        self._over = threading.Event()
        self._thread: Optional[threading.Thread] = None

    @property
    def threads(self) -> List[threading.Thread]:
        """Its thread, once it has been started; none if no stage is tuned."""
        return [] if self._thread is None else [self._thread]

    def start(self) -> None:
        """Starts the thread if any stage is tuned; the pools have been started."""
        if not self._stages:
            return
        for stage in self._stages:
            stage.apply()
            note_tuned(self._session.graph, stage.name, stage.told)
        self._thread = threading.Thread(target=self._tune, name="graph_opt/tuning", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Has the thread end; does not wait for it."""
        self._over.set()

    def _tune(self) -> None:
        while not self._over.wait(SHORTEST_WINDOW):
            try:
                for stage in self._stages:
                    if self._may_change(stage):
                        self._observe(stage)
                    else:
                        stage.begin_again()
            except tf.errors.DeadlineExceededError:
                continue  # The machine stands still.
            except (tf.errors.OpError, RuntimeError) as error:
                # The session has ended, or is lost: the next one has a tuner of its own.
                tf.logging.info("graph_opt: stages are no longer tuned: %s", error)
                return

    def _may_change(self, stage: _TunedStage) -> bool:
        """Whether no other stage tries a change: it would be taken for this one's."""
        return not any(other.tuning.is_trying for other in self._stages if other is not stage)

    def _observe(self, stage: _TunedStage) -> None:
        was_settled = stage.tuning.settled
        if not stage.observe() or self._over.is_set():
            return
        graph = self._session.graph
        _found.setdefault(graph, {})[stage.name] = stage.tuning.setting
        note_tuned(graph, stage.name, stage.told)
        if stage.tuning.settled and not was_settled:
            say_tuned(stage.told)


class _TunedStage:
    """A stage, what was last measured at its buffer, and its tuning."""

    def __init__(self, pool: WorkerPool, control: BufferControl, known: Optional[Setting]) -> None:
        spec = pool.stage.spec
        self._pool = pool
        self._control = control
        self._spec = spec
        threads = sum(put.threads_num for put in pool.stage.puts)
        least = Setting(threads, spec.capacity)
        self.tuning = Tuning(spec.tuned, known or least, least, spec.tuning_bytes)
        self._applied = least
        self._before: Dict[str, int] = {}
        self._since = time.perf_counter()
        self._taken = 0
        self._taken_at = self._since
        self._step_seconds = math.inf

    @property
    def name(self) -> str:
        """Name of the stage."""
        return self._spec.name

    @property
    def told(self) -> str:
        """What was chosen and why, in one line."""
        told = "stage '{}' is tuned to {}".format(self.name, self.tuning)
        if not self._spec.is_prefetch or self._spec.exact:
            return told
        missed = self.tuning.setting.threads + self.tuning.setting.capacity
        return "{}; a row may miss up to {} updates".format(told, missed)

    def observe(self) -> bool:
        """Measures; returns whether the window was long enough to be judged."""
        now = self._control.metrics(self._pool.stage)
        seconds = time.perf_counter() - self._since
        if not self._before or self._is_paused(now):
            self._begin(now)
            return False
        batches = now["take_count"] - self._before["take_count"]
        if batches < LEAST_BATCHES or seconds < self.tuning.window_seconds:
            return False
        self._step_seconds = seconds / batches
        self.tuning.observe(
            Window(
                rate=batches / seconds,
                starved=min(1.0, self._waited("take_wait_micros", now) / seconds),
                idle=self._waited("put_wait_micros", now) / seconds,
                largest_bytes=now["largest_bytes"],
            )
        )
        self.apply()
        self._begin(now)
        return True

    def begin_again(self) -> None:
        """Forgets what it has measured for its next decision."""
        self._before = {}
        self.tuning.begin_again()

    def apply(self) -> None:
        """Gives the stage the setting that its tuning wants."""
        wanted = self.tuning.setting
        if wanted.threads != self._applied.threads:
            self._pool.resize(wanted.threads)
        if wanted.capacity != self._applied.capacity:
            self._control.resize(self._pool.stage, wanted.capacity)
        self._applied = wanted

    def _is_paused(self, now: Dict[str, int]) -> bool:
        """Whether main does something else than its steps."""
        at = time.perf_counter()
        if now["take_count"] != self._taken or now["pending_takes"]:
            self._taken, self._taken_at = now["take_count"], at
        return at - self._taken_at > _PAUSE_STEPS * self._step_seconds

    def _begin(self, now: Dict[str, int]) -> None:
        self._before = now
        self._since = time.perf_counter()

    def _waited(self, name: str, now: Dict[str, int]) -> float:
        return (now[name] - self._before[name]) / 1e6
