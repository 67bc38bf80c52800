"""Rows that lookups read ahead and that a step has as they are when it runs.

Whoever follows the rows of a table is told of what else writes it, also by nodes that come later.
Rows of servers are read again, for batches that wait, once a session cannot know them any more. A
step that failed may or may not have updated rows, and what assigns to a table, such as a restored
checkpoint, writes all of them. The next step that takes a batch first reads those again that wait:
on the same thread, before it begins.
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from typing import (
    AbstractSet,
    Any,
    Callable,
    Iterable,
    List,
    MutableSet,
    Optional,
    Sequence,
)

from graph_opt.compat import tf
from graph_opt.compat.sessions import share_session
from graph_opt.graph.operations import operations_behind
from graph_opt.graph.view import GraphView
from graph_opt.passes.prefetch.exact.exact_tables import (
    LOSE_ROWS,
    ExactTables,
    ReadAgain,
    tell_followers,
)
from graph_opt.reporting.read_again import note_read_again
from graph_opt.session.features.feature import Feature, Late, StepHooks, Watched
from graph_opt.session.stage_reach import StageReach
from graph_opt.session.step import Step

# A step that ends by one of these may go on in the worker.
_NOT_OVER = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.UnavailableError,
)


class _Losses:
    """How many steps of this process may have made rows unknown to batches that wait.

    Sessions on one worker share the record of such batches.

    Attributes:
      count: How many have ended so far.
      may_come: Of sessions that are left, those of which a step failed that may not be over.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0
        self.may_come: MutableSet[LostRows] = weakref.WeakSet()

    def add(self) -> None:
        with self._lock:
            self.count += 1


_losses = _Losses()


class LostRows(StepHooks):
    """Has a session read rows again."""

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._read: Sequence[ReadAgain] = ()
        self._seen = 0
        self._must_lose = False
        self._lock = threading.Lock()

    @property
    def matter(self) -> bool:
        """Whether any lookup of servers' tables of the session's graph runs ahead."""
        return bool(self._read)

    def learn_graph(self, part: Optional[ExactTables]) -> None:
        """See `StepHooks`."""
        self._read = () if part is None else part.read_again

    def concern(self, operations: Iterable[Any]) -> bool:
        """Whether a step of these writes tables by other means than the updates of its lookups."""
        return self.matter and any(each.type == LOSE_ROWS for each in operations)

    def before_step(self, step: Step, within_limit: Callable[..., Any]) -> None:
        """See `StepHooks`."""
        if not self._read or (self._seen == _losses.count and not _losses.may_come):
            return
        if not step.takes_from and step.may_take_from is None:
            return
        with self._lock:
            count = _losses.count
            if self._seen != count or _losses.may_come:
                within_limit(self._read_again)
                self._seen = count

    def after_step(self, step: Step, error: Optional[BaseException]) -> None:
        """See `StepHooks`."""
        failed = error is not None and not step.fills
        loses = type(self) in step.concerns
        if failed and loses:
            self._must_lose = True  # The step may have written tables, and told nobody.
        if failed and isinstance(error, _NOT_OVER):
            _losses.may_come.add(self)
        if failed or loses:
            _losses.add()

    def _read_again(self) -> None:
        session = self.session
        graph = session.graph
        losses = [each.loss for each in self._read]
        replace = [graph.get_operation_by_name(each.replace) for each in self._read]
        run = share_session(session).run
        if self._must_lose:
            self._must_lose = False
            run([graph.get_operation_by_name(each.lose) for each in self._read])
        found = run(losses)  # without a round trip to servers
        while any(found):
            found, _ = run([losses, replace])
            for each, loss in zip(self._read, found):
                if loss:
                    note_read_again(graph, _stage_of(graph, each), each.pooled, int(loss))


def _stage_of(graph: Any, read: ReadAgain) -> str:
    """The stage from which a step takes the batches of a lookup."""
    reached = operations_behind([graph.get_operation_by_name(read.pooled)])
    return max(StageReach(graph).taken_directly(reached), default="")


class ExactRows(Feature):
    """See `Feature`."""

    part_type = ExactTables
    hooks = LostRows
    not_as_built = "it trains tables whose rows are read ahead"

    def __init__(self, graph: Any, part: ExactTables) -> None:
        super().__init__(graph, part)
        self._side_targets = part.side_targets

    @classmethod
    def watched(cls, part: ExactTables) -> Watched:
        """See `Feature`."""
        return Watched(part.followers.keys())

    @classmethod
    def rewrite_late(cls, view: GraphView, part: ExactTables, new: AbstractSet[str]) -> Late:
        """See `Feature`."""
        rewrite, told = tell_followers(view, part.followers, new)
        if not told:
            return Late(rewrite, part)
        side_targets = {**part.side_targets, **told}
        return Late(rewrite, dataclasses.replace(part, side_targets=side_targets))

    def side_targets(self, reached: AbstractSet[Any]) -> List[Any]:
        """See `Feature`: what tells a worker what the step writes, of rows that batches have."""
        targets = self._side_targets
        names = {targets[each.name]: None for each in reached if each.name in targets}
        return [self.graph.get_operation_by_name(name) for name in names]
