"""Tells, now and then, how old the rows are that a session's next step is about to use.

Of rows that are refreshed it is counted how many were old; these counts are read as often.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
from typing import Any, Callable, Iterable, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.callables import is_closed, is_direct_session
from graph_opt.compat.sessions import share_session
from graph_opt.passes.prefetch.measured_lookups import SampledStage, Sampling
from graph_opt.reporting.staleness import next_turn, note_sample
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.runtime.lock_step import lock_step_of
from graph_opt.runtime.refresh_metrics import counts_refreshed, read_refreshed
from graph_opt.session.features.feature import Feature, StepHooks
from graph_opt.session.graph_records import sample_steps_of
from graph_opt.session.step import Step

# What updates variables without being an optimizer's own op.
_UPDATE = re.compile(r"^LogUpdatedRows$|^(Resource)?Scatter(Sub|Add)$")
_NO_BATCH = (
    "staleness_sample_steps: stage '{}' had no batch within 10 s, so this session samples no more "
    "steps; set the option to 0 if steps take that long"
)


class StalenessSampler(StepHooks):
    """Samples one of so many training steps of a session.

    Its graph says of how many, and what to run, by its first step.
    """

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._every: Optional[int] = None
        self._counts = False
        self._stages: Sequence[SampledStage] = ()
        self._steps = 0
        self._lock = threading.Lock()

    def learn_graph(self, part: Optional[Sampling]) -> None:
        """See `StepHooks`."""
        self._stages = () if part is None else part.stages

    def concern(self, operations: Iterable[Any]) -> bool:
        """Whether a step of these updates variables, and so is one of which some are sampled."""
        return any(_UPDATE.match(operation.type) for operation in operations)

    def before_step(self, step: Step, within_limit: Callable[..., Any]) -> None:
        """See `StepHooks`."""
        session = self.session
        if self._every is None:
            self._counts = counts_refreshed(session.graph)
            told = self._stages or self._counts
            self._every = sample_steps_of(session.graph) if told else 0
            self._read_counts(session, within_limit, begins=True)
        if not self._every or not (step.trains or type(self) in step.concerns):
            return
        with self._lock:
            self._steps += 1
            if self._steps % self._every:
                return
        self._read_counts(session, within_limit)
        for stage in self._stages:
            if stage.stage in step.takes_from:
                self._sample(session, stage, within_limit)

    def before_close(self) -> None:
        """See `StepHooks`: the last time that it can tell its counts."""
        session = self.session
        # Servers may be gone, and TensorFlow would wait for them.
        if sys.is_finalizing() or not self._every or is_closed(session):
            return
        if is_direct_session(session):
            self._read_counts(session, lambda run, *given: run(*given))

    def _read_counts(
        self, session: Any, within_limit: Callable[..., Any], begins: bool = False
    ) -> None:
        if not self._counts:
            return
        run = functools.partial(within_limit, share_session(session).run)
        # What fails here fails in the step, too.
        with contextlib.suppress(tf.errors.OpError):
            read_refreshed(session.graph, run, begins)

    def _sample(self, session: Any, stage: SampledStage, within_limit: Callable[..., Any]) -> None:
        lock_step = lock_step_of(share_session(session))
        if lock_step is not None and not lock_step.is_open:
            return  # Rows miss nothing, and their batch is read once the step takes it.
        run = share_session(session).run
        fed = {stage.first: next_turn(session.graph, stage.tables)}
        try:
            told = within_limit(run, [stage.missed, stage.squares, stage.measured], fed)
        except tf.errors.DeadlineExceededError:
            self._every = 0
            warn_once(_NO_BATCH.format(stage.stage), session.graph)
            return
        except tf.errors.OpError as error:
            # The end of the input, or what the step itself is about to meet.
            tf.logging.debug("graph_opt: a step was not sampled: %s", error.message)
            return
        note_sample(session.graph, stage.tables, stage.uncounted, *told)


class SampledSteps(Feature):
    """See `Feature`."""

    part_type = Sampling
    hooks = StalenessSampler
    not_as_built = "it trains tables whose rows are read ahead"
