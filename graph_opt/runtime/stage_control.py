"""Controls the buffers of a session, and compiles what a step of a stage runs."""

from __future__ import annotations

import itertools
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import callables, tf
from graph_opt.compat.compiled_steps import CompiledStep
from graph_opt.ops.stage_spec import MAINS_THREADS
from graph_opt.ops.tensor_buffer import METRIC_NAMES, NO_PLACE, decode_metrics
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.runtime import python_spec, thread_priority
from graph_opt.runtime.feeds import FeedReader
from graph_opt.runtime.outcome import Status
from graph_opt.runtime.stages import Put, Stage

# Controlling a buffer must not hang if the master is lost.
_CONTROL_TIMEOUT_MILLIS = 5000
_MESSAGE_CHARACTERS = 100000

_PUT_COUNT = METRIC_NAMES.index("put_count")

Step = Callable[..., Any]


class BufferControl:
    """Resumes, closes and cancels the buffers of a session's stages.

    In direct sessions the ops run in the calling thread, so that they work even if all pool threads
    are busy. Compiling takes time that grows with the graph, so each step is compiled once, when it
    is first needed.
    """

    def __init__(self, session: Any) -> None:
        """Compiles nothing yet."""
        self._session = session
        self._lock = threading.Lock()
        self._steps: Dict[Tuple[str, ...], Step] = {}

    def resume(self, stages: Sequence[Stage], first_place: int) -> None:
        """Empties and opens the buffers; pending takes keep waiting for the first element.

        Args:
          stages: The stages of the buffers.
          first_place: The place of the first step of each stage.
        """
        turns = [stage.exchange.resume for stage in stages if stage.exchange is not None]
        pipelines = _pipeline_buffers(stages)
        resume = self._compiled(
            [*(stage.resume for stage in stages), *turns, *(each.resume for each in pipelines)],
            [*(stage.place for stage in stages), *(each.place for each in pipelines)],
        )
        resume(*([np.int64(first_place)] * (len(stages) + len(pipelines))))

    def fill_pipeline(self, stage: Stage) -> None:
        """Reads the weights for the first steps of a stage that applies gradients."""
        assert stage.pipeline is not None
        self._compiled([stage.pipeline.fill, stage.pipeline.turns.begin], waits=True)()

    def begin_turn(self, stage: Stage) -> None:
        """Gives the turn to the next step of a stage that applies gradients: one has failed."""
        assert stage.pipeline is not None
        turns = stage.pipeline.turns
        self._compiled([turns.resume], [turns.place])(np.int64(NO_PLACE))
        self._compiled([turns.begin])()

    def gradients_put(self, stage: Stage) -> int:
        """How often steps have put gradients into the stage's buffer since it was created."""
        assert stage.pipeline is not None
        metrics = self._compiled([], fetches=[stage.pipeline.metrics])()
        return int(metrics[0][_PUT_COUNT])

    def put_status(self, stage: Stage, place: int, status: Optional[Status]) -> None:
        """Puts an error in the place of a batch; waits while the buffer is full.

        Args:
          stage: The stage whose step failed.
          place: The place of that step, or `NO_PLACE`.
          status: The error; None leaves the place empty.
        """
        code, message = (tf.errors.OK, "") if status is None else status
        put = self._compiled(
            [stage.put_status], [stage.place, stage.status_code, stage.status_message], waits=True
        )
        put(np.int64(place), *status_values(code, message))

    def resize(self, stage: Stage, capacity: int) -> None:
        """Gives the buffer of a tuned stage another capacity while it is in use."""
        self._compiled([stage.resize], [stage.capacity])(np.int64(capacity))

    def metrics(self, stage: Stage) -> Dict[str, int]:
        """The numbers of a stage's buffer, as `decode_metrics` names them."""
        return decode_metrics(self._compiled([], fetches=[stage.metrics])()[0])

    def close(self, stage: Stage) -> None:
        """Ends the input: takes drain the buffer, then fail with OutOfRangeError."""
        self._compiled([stage.close])()

    def prepare_cancel(self, stages: Sequence[Stage]) -> None:
        """Compiles what `cancel` will run, so that stopping does not wait for it."""
        self._compiled_cancel(stages)

    def empty_step(self, stage: Stage) -> Step:
        """A step of the session that does next to nothing, in the calling thread."""
        return callables.compile_call(
            self._session,
            fetches=[stage.metrics],
            inter_op_thread_pool=callables.CALLER_THREAD,
        )

    def cancel(self, stages: Sequence[Stage], status: Status) -> None:
        """Makes pending and later puts and takes of the stages fail with this status."""
        buffers = len(stages) + len(_pipeline_buffers(stages))
        self._compiled_cancel(stages)(*(status_values(*status) * buffers))

    def _compiled_cancel(self, stages: Sequence[Stage]) -> Step:
        buffers: List[Any] = [*stages, *_pipeline_buffers(stages)]
        feeds = [name for each in buffers for name in (each.status_code, each.status_message)]
        turns = [stage.exchange.cancel for stage in stages if stage.exchange is not None]
        return self._compiled([*(each.cancel for each in buffers), *turns], feeds)

    def _compiled(
        self,
        targets: Sequence[str],
        feeds: Sequence[str] = (),
        waits: bool = False,
        fetches: Sequence[str] = (),
    ) -> Step:
        key = (*targets, *fetches)
        with self._lock:
            if key not in self._steps:
                self._steps[key] = callables.compile_call(
                    self._session,
                    fetches=fetches,
                    targets=targets,
                    feeds=feeds,
                    inter_op_thread_pool=callables.CALLER_THREAD,
                    timeout_millis=callables.NO_TIMEOUT if waits else _CONTROL_TIMEOUT_MILLIS,
                )
            return self._steps[key]


def _pipeline_buffers(stages: Sequence[Stage]) -> List[Any]:
    """The buffers of gradients and of turns."""
    pipelines = [stage.pipeline for stage in stages if stage.pipeline is not None]
    return [buffer for each in pipelines for buffer in (each, each.turns)]


def status_values(code: int, message: str) -> List[Any]:
    """An error as the values that `Stage.status_code` and `status_message` are fed."""
    text = message[:_MESSAGE_CHARACTERS].encode("utf-8", "replace")
    return [np.int32(code), np.array(text, dtype=object)]


class LastPlace:
    """The place of the last step that a worker ran; `NO_PLACE` if batches leave as they arrive."""

    __slots__ = ("place",)

    def __init__(self) -> None:
        """No step has run."""
        self.place = NO_PLACE


class StageSteps:
    """Compiles what the threads of one stage call for each batch, feeds included.

    Attributes:
      own_thread: Whether the kernels of a step run in the calling thread.
    """

    def __init__(self, session: Any, stage: Stage, first_place: int) -> None:
        """Raises tf.errors.InvalidArgumentError if the session lacks the stage's pool."""
        self._session = session
        self._stage = stage
        self._pool = _thread_pool(session, stage)
        self.own_thread = self._pool == callables.CALLER_THREAD
        self._feeds = python_spec.recall(session.graph, stage.name).feeds
        fetched = self._feeds.fetched
        fetch = self._compiled_fetch(fetched) if fetched else None
        self._reader = FeedReader(self._feeds, fetch)
        self._places = itertools.count(first_place)
        self._drawing = threading.Lock()
        # Another one: steps draw while a form of theirs is made.
        self._compiling = threading.Lock()
        self._puts: Dict[str, CompiledStep] = {}

    def step(self, put: Put, last: LastPlace, traced: bool = False) -> Step:
        """Returns a function that draws the feeds and runs the put; each worker has its own.

        Args:
          put: A put operation of the stage.
          last: Gets the place of each step.
          traced: Whether to collect each op's times; the function then takes `run_metadata`.
        """
        return self._fed(put, last, self._put(put, self._pool, traced))

    def shared_step(self, put: Put, last: LastPlace) -> Step:
        """Like `step`, but its kernels always run on the session's threads."""
        return self._fed(put, last, self._put(put, callables.DEFAULT_POOL, traced=False))

    def _fed(self, put: Put, last: LastPlace, run_put: Step) -> Step:
        if not self._feeds.feeds and not put.ordered:
            return run_put
        reader, places = self._reader, self._places

        def feed_and_put(**metadata: Any) -> None:
            with self._drawing:
                if put.ordered:
                    last.place = next(places)
                drawn = reader.draw()
            values = reader.convert(drawn)
            if put.ordered:
                values.append(np.array(last.place, np.int64))
            run_put(*values, **metadata)

        return feed_and_put

    def _put(self, put: Put, pool: int, traced: bool) -> Step:
        with self._compiling:
            if put.name not in self._puts:
                fed = list(self._feeds.fed) + ([self._stage.place] if put.ordered else [])
                pipeline = self._stage.pipeline
                targets = [put.name] + ([] if pipeline is None else [pipeline.turns.end])
                self._puts[put.name] = CompiledStep(self._session, targets, fed)
            return self._puts[put.name].form(pool, traced)

    def _compiled_fetch(self, fetches: Sequence[str]) -> Step:
        # The session's own time limit is for steps of main; a stage may wait long for its source.
        return callables.compile_call(
            self._session,
            fetches=fetches,
            inter_op_thread_pool=self._pool,
            timeout_millis=callables.NO_TIMEOUT,
        )


def _thread_pool(session: Any, stage: Stage) -> int:
    direct = callables.is_direct_session(session)
    if stage.spec.thread_pool < 0:
        # On a single core, a thread of its own gains nothing. What follows a message would run in
        # the thread that received it.
        several_cores = thread_priority.cores() > 1 and stage.exchange is None
        own_thread = direct and several_cores and stage.spec.priority != MAINS_THREADS
        return callables.CALLER_THREAD if own_thread else callables.DEFAULT_POOL
    if not direct:
        warn_once(
            "use_stage_subgraph_thread_pool has no effect in a distributed session, which has no "
            "pools of its own: the kernels of the stages share the worker's threads with main",
            session.graph,
        )
        return callables.DEFAULT_POOL
    # Pool 0 is the session's default pool, so pool p of the config is number p + 1.
    pools = max(0, callables.thread_pool_count(session) - 1)
    if stage.spec.thread_pool >= pools:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "stage '{}' asks for stage subgraph thread pool {}, but the session has {}: add "
            "session_stage_subgraph_thread_pool {{ inter_op_threads_num: 2 }} to the session's "
            "config for each pool and open the session with graph_opt".format(
                stage.name, stage.spec.thread_pool, pools
            ),
        )
    return stage.spec.thread_pool + 1
