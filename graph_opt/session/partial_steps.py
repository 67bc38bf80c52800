"""Steps that need less than the fused ops of their graph: these run as they were built.

    built      u -> lookup of U ────────> tower     session.run(tower, {u: ...}) needs u alone
    rewritten  u, i -> lookup of U and I ─> tower     and would need i as well

Whether a step is one of them is told by what it would run: a placeholder that it does not feed, or
an op that acts or draws (an iterator, `py_func`, `Assert`), which the step as built does not run.
So does a step whose script feeds the result of a fused lookup, or anything else that fused ops do
not read, such as the concatenation of results. And so does a step, once more, that failed for the
sake of fused ops alone, such as at an id that another table lacks.

It runs the copies of `stock_graph`. Rows of deferred tables are caught up for these, as for
any node that a graph gets later. A step that trains such tables cannot run as built, and names the
feeds that it lacks.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterable, List, Optional, Set

from graph_opt.compat import tf
from graph_opt.compat.stateful_ops import (
    CALLS_PYTHON,
    FINDS_ROWS,
    ONCE_A_BATCH,
    PLACEHOLDERS,
    may_draw,
)
from graph_opt.compat.variable_ops import ACTS, is_use
from graph_opt.export.built_edges import BuiltEdges
from graph_opt.graph.operations import operations_behind
from graph_opt.passes.name_map import NameMap
from graph_opt.passes.stock_copy import CannotCopy
from graph_opt.session.fetch_map import FetchMap, Resolved
from graph_opt.session.optimization import train_by_any_op
from graph_opt.session.stage_reach import StageReach
from graph_opt.session.stock_graph import StockFetches, stock_graph

_TAKES_BATCH = "it takes a batch that is read ahead, from '{}'"
_REPLACED = (
    "cannot feed '{}': it is the result of a lookup that was fused with others, and the model "
    "reads '{}' in its place. Feed that tensor, or exclude the lookup from fusion with "
    "group_embedding_options.lookups"
)
_NOT_READ = (
    "cannot feed '{}': fused lookups do the work of what reads it, and would not see the value. "
    "The step cannot run as it was built: {}. Exclude these lookups from fusion with "
    "group_embedding_options.lookups"
)
_MOST_NAMED = 4


def fetch_map_of(graph: Any, name_map: NameMap, reach: StageReach) -> FetchMap:
    """What fetches mean in a graph."""
    if name_map.is_stopped:
        return StockFetches(graph)
    if name_map.substitutes:
        return PartialSteps(graph, name_map, reach)
    return FetchMap(graph, name_map)


class PartialSteps(FetchMap):
    """Translates the fetches of a graph with fused lookups.

    Args:
      graph: The graph.
      name_map: What its names stand for.
      reach: Its stages.
    """

    def __init__(self, graph: Any, name_map: NameMap, reach: StageReach) -> None:
        super().__init__(graph, name_map)
        self._live, self._names = graph, name_map
        self._must_train_here = [each.not_as_built for each in self.features if each.not_as_built]
        # All parts of a partial run must be of the same graph: of the one as built, or not.
        self._parts: Dict[str, bool] = {}
        self._built: Optional[BuiltEdges] = None
        self._reach = reach

    def resolved(
        self,
        fetches: List[Any],
        targets: List[Any],
        feeds: List[Any],
        is_partial: bool = False,
    ) -> Resolved:
        """What a step comes to that fetches, runs and feeds these.

        Args:
          fetches: Tensors.
          targets: Operations.
          feeds: Tensors.
          is_partial: Whether it is a partial run, which is fed a part at a time.

        Raises:
          tf.errors.InvalidArgumentError: As for `FetchMap`; or fused lookups read a placeholder
            that is not fed, and the step cannot run as it was built.
        """
        if is_partial:
            if all(self._parts.get(each.name) for each in (*fetches, *targets)):
                return self._as_built(fetches, targets, feeds)
            return super().resolved(fetches, targets, feeds)
        if any(self._is_fused(tensor) for tensor in feeds):
            try:
                return self._as_built(fetches, targets, feeds)
            except CannotCopy as error:
                self._refuse_fused(feeds, error)
        found = super().resolved(fetches, targets, feeds)
        beyond = self._beyond(found.reached, fetches, targets, feeds)
        if not beyond:
            return found
        try:
            return self._as_built(fetches, targets, feeds)
        except CannotCopy as error:
            self._refuse_missing(beyond, error)
            return found

    def without_others(
        self, failed: Any, fetches: List[Any], targets: List[Any], feeds: List[Any]
    ) -> Optional[Resolved]:
        """The step as it was built, if the failed operation is no part of it."""
        if self.features:
            return None
        behind = operations_behind(_wanted(fetches, targets), feeds, self._built_edges())
        if failed in behind or any(_acts(each) for each in behind):
            return None
        try:
            return self._as_built(fetches, targets, feeds)
        except CannotCopy:
            return None

    def begin_partial(self, fetches: List[Any], targets: List[Any], feeds: List[Any]) -> bool:
        """Decides for the graph as it was built, unless that cannot do some part.

        Raises:
          tf.errors.InvalidArgumentError: Fused lookups read a placeholder that no part feeds, and
            some part cannot run as it was built. TensorFlow would end the session at that part.
        """
        try:
            self._as_built(fetches, targets, feeds)
            is_as_built = True
        except CannotCopy as error:
            is_as_built = False
            self._refuse_fused(feeds, error)
            reached = super().resolved(fetches, targets, feeds).reached
            self._refuse_missing(self._beyond(reached, fetches, targets, feeds), error)
        decided = {each.name: is_as_built for each in (*fetches, *targets)}
        changed = any(self._parts.get(name, value) != value for name, value in decided.items())
        self._parts.update(decided)
        return changed

    def _beyond(
        self, reached: AbstractSet[Any], fetches: List[Any], targets: List[Any], feeds: List[Any]
    ) -> Set[Any]:
        """What is noticed when it runs, and runs for the sake of fused ops alone."""
        given = {tensor.op for tensor in feeds}
        noticed = {each for each in reached if _is_noticed(each) and each not in given}
        if not noticed:
            return noticed
        built = self._built_edges()
        beyond = noticed - operations_behind(_wanted(fetches, targets), feeds, built)
        return {operation for operation in beyond if built.has(operation)}

    def _built_edges(self) -> BuiltEdges:
        if self._built is None:
            self._built = BuiltEdges(self._live)
        return self._built

    def _refuse_missing(self, beyond: Iterable[Any], error: CannotCopy) -> None:
        missing = sorted(each.name for each in beyond if each.type in PLACEHOLDERS)
        if missing:
            raise _needs_feeds(missing, str(error)) from None

    def _as_built(self, fetches: List[Any], targets: List[Any], feeds: List[Any]) -> Resolved:
        stock = stock_graph(self._live)
        found = stock.resolved([self._current(tensor) for tensor in fetches], targets, feeds)
        copied = {name.partition(":")[0] for name in stock.batches.values()}
        taken = [operation.name for operation in found.reached if operation.name in copied]
        if taken:
            raise CannotCopy(_TAKES_BATCH.format(stock.originals.get(taken[0], taken[0])))
        source, _ = self._reach.prefetch_source(found.reached)
        if source:
            raise CannotCopy(_TAKES_BATCH.format(source))
        if self._must_train_here and train_by_any_op(self._live, found.reached):
            raise CannotCopy(self._must_train_here[0])
        return found

    def _current(self, tensor: Any) -> Any:
        """The value of a variable once its rows are up to date, for that of the variable."""
        for feature in self.features:
            name = feature.in_built_graph(tensor.name)
            if name is not None:
                return self._live.get_tensor_by_name(name)
        return tensor

    def _is_fused(self, tensor: Any) -> bool:
        """Whether other ops do the work of what makes or reads a tensor."""
        replaced = tensor.name in self._names.substitutes or tensor.op.name in self._names.dead
        return replaced and not self.is_pulled(tensor.name)

    def _refuse_fused(self, feeds: Iterable[Any], error: CannotCopy) -> None:
        for tensor in feeds:
            if self._is_fused(tensor):
                text = _NOT_READ.format(tensor.name, error)
                if tensor.name in self._names.substitutes:
                    instead = self._names.substitutes[tensor.name]
                    text = _REPLACED.format(tensor.name, instead)
                raise tf.errors.InvalidArgumentError(None, tensor.op, text) from None


def _wanted(fetches: List[Any], targets: List[Any]) -> List[Any]:
    return [tensor.op for tensor in fetches] + targets


def _acts(operation: Any) -> bool:
    """Whether it is noticed if an operation runs twice; lookups of dynamic tables count keys."""
    op = operation.type
    return op in CALLS_PYTHON or op in FINDS_ROWS or may_draw(op) or is_use(op, ACTS)


def _is_noticed(operation: Any) -> bool:
    if operation.type in PLACEHOLDERS:
        return operation.type != "PlaceholderWithDefault"
    return operation.type in ONCE_A_BATCH or may_draw(operation.type)


def _needs_feeds(names: Iterable[str], reason: str) -> Exception:
    listed = ["'{}'".format(name) for name in names]
    more = " and {} others".format(len(listed) - _MOST_NAMED) if len(listed) > _MOST_NAMED else ""
    return tf.errors.InvalidArgumentError(
        None,
        None,
        "this step does not feed {}{}, which lookups read that were fused with its own, and it "
        "cannot run as it was built: {}. Feed them as well, or exclude one side from fusion with "
        "group_embedding_options.lookups".format(", ".join(listed[:_MOST_NAMED]), more, reason),
    )
