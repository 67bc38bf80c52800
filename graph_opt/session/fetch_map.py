"""What a fetch by an original name means in an optimized graph.

- What a feature has another name for: that (session/features/).
- The result of a fused lookup: the output of the op that replaces it, read by the next lines.
- A boundary tensor: the output of the stage's take, which is the value for main's current batch.
- Any other tensor of the prefetch region, and what depends on one: computed anew from main's batch,
  or refused where something else decides its value, such as a table.
- Anything else: itself.
"""

from __future__ import annotations

import collections
from typing import (
    AbstractSet,
    Any,
    Callable,
    Deque,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
)

from graph_opt.compat import tf
from graph_opt.compat.graph_growth import is_reference
from graph_opt.graph.operations import operations_behind
from graph_opt.passes.name_map import NameMap
from graph_opt.passes.prefetch.batch_copies import NotOfBatch
from graph_opt.passes.prefetch.fetch_guard import is_guard
from graph_opt.rules.op_names import GATHERS
from graph_opt.session.batch_values import BatchValues
from graph_opt.session.features.listed import features_in

_MAX_NEIGHBOURS_NAMED = 4
_MAX_OPERATIONS_SEARCHED = 2000
_NOT_ITS_OWN = "main would run it once more"


class Resolved(NamedTuple):
    """What a step comes to.

    Attributes:
      fetches: What it fetches in place of the given tensors.
      targets: What it runs.
      feeds: What it feeds in place of the given tensors.
      reached: All operations that this takes.
    """

    fetches: List[Any]
    targets: List[Any]
    feeds: List[Any]
    reached: Set[Any]


class FetchMap:
    """Translates fetches and targets of one graph, and checks feeds.

    Args:
      graph: The optimized graph.
      name_map: What its names stand for; `UNCHANGED` for a graph that was not optimized.

    Attributes:
      features: What has other names for tensors, or more to run.
    """

    def __init__(self, graph: Any, name_map: NameMap) -> None:
        self._graph = graph
        self._substitutes = name_map.substitutes
        self.features = [feature(graph, part) for feature, part in features_in(name_map)]
        self._taken = name_map.taken
        self._prefetched = name_map.prefetched
        self._not_run = name_map.not_run
        self._groups = name_map.summed_batches and name_map.summed_batches + "_io"
        self._of_batch = BatchValues(graph, name_map)
        self._boundary_operations = {name.rpartition(":")[0] for name in self._taken}

    def without_others(
        self, failed: Any, fetches: List[Any], targets: List[Any], feeds: List[Any]
    ) -> Optional[Resolved]:
        """What to run in place of a step that failed at an operation which it did not ask for.

        Args:
          failed: The operation.
          fetches: Tensors.
          targets: Operations.
          feeds: Tensors.

        Returns:
          None if the error is the step's own.
        """
        return None

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
          tf.errors.InvalidArgumentError: One of them exists only in prefetch, or cannot be fed; or
            the step leaves its updates to a stage that does more than was asked for.
        """
        for tensor in feeds:
            self._check_feed(tensor)
        fetched = self._computed([self._in_main(each) for each in fetches], self._exists_ahead)
        run = [each for target in targets for each in self._run_instead(target)]
        for feature in self.features:
            run += dict.fromkeys(feature.acting(fetches))
        reached = operations_behind([tensor.op for tensor in fetched] + run, feeds)
        if _run_ahead(reached):
            fetched = self._computed(
                fetched, lambda tensor: _run_ahead(operations_behind([tensor.op], feeds))
            )
            reached = operations_behind([tensor.op for tensor in fetched] + run, feeds)

        def given() -> AbstractSet[Any]:
            return operations_behind([tensor.op for tensor in fetches] + targets, feeds)

        for feature in self.features:
            before = fetched
            fetched = feature.fetched_in_step(fetched, reached, given)
            more = feature.side_targets(reached)
            if fetched is not before or more:
                run += more
                reached = operations_behind([tensor.op for tensor in fetched] + run, feeds)
        return Resolved(fetched, run, feeds, reached)

    def begin_partial(self, fetches: List[Any], targets: List[Any], feeds: List[Any]) -> bool:
        """Decides how a partial run is done, before its parts are resolved.

        Args:
          fetches: The tensors that its parts fetch.
          targets: The operations that they run.
          feeds: The tensors that they feed.

        Returns:
          Whether some of these are resolved otherwise than before.
        """
        return False

    def fetched(self, tensor: Any) -> Any:
        """The tensor to fetch in place of `tensor`.

        Raises:
          tf.errors.InvalidArgumentError: Its value exists only in prefetch.
        """
        (found,) = self._computed([self._in_main(tensor)], self._exists_ahead)
        return found

    def _in_main(self, tensor: Any) -> Any:
        """What main has in place of a tensor; the tensor itself if that is nothing."""
        for feature in self.features:
            name = feature.in_main(tensor.name)
            if name is not None:
                return self._graph.get_tensor_by_name(name)
        if tensor.name in self._substitutes:
            tensor = self._graph.get_tensor_by_name(self._substitutes[tensor.name])
        take = self._taken.get(tensor.name)
        return tensor if take is None else self._graph.get_tensor_by_name(take)

    def _computed(self, tensors: List[Any], is_ahead: Callable[[Any], bool]) -> List[Any]:
        """Tensors, with main's values of those that are computed ahead."""
        places = [place for place, tensor in enumerate(tensors) if is_ahead(tensor)]
        if not places:
            return tensors
        try:
            of_batch = self._of_batch.tensors([tensors[place] for place in places])
        except NotOfBatch as error:
            tensor = self._graph.get_tensor_by_name(error.tensor)
            raise self._refusal("fetch", tensor.name, tensor.op, str(error)) from None
        computed = dict(zip(places, of_batch))
        return [computed.get(place, tensor) for place, tensor in enumerate(tensors)]

    def _exists_ahead(self, tensor: Any) -> bool:
        return self._is_prefetched(tensor.name)

    def _run_instead(self, target: Any) -> List[Any]:
        """The operations to run in place of one."""
        run = [self.run(target)]
        for feature in self.features:
            run = [each for operation in run for each in feature.run_instead(operation)]
        return run

    def run(self, operation: Any) -> Any:
        """The operation to run in place of `operation`.

        Raises:
          tf.errors.InvalidArgumentError: It runs only in prefetch.
        """
        replaced = [tensor.name for tensor in operation.outputs if tensor.name in self._substitutes]
        if replaced:
            operation = self._graph.get_tensor_by_name(self._substitutes[replaced[0]]).op
        for tensor in operation.outputs:
            take = self._taken.get(tensor.name)
            if take is not None:
                return self._graph.get_tensor_by_name(take).op
        if self._is_prefetched(operation.name):
            raise self._refusal("run", operation.name, operation, _NOT_ITS_OWN)
        return operation

    def _check_feed(self, tensor: Any) -> None:
        """Refuses a feed that the prefetch threads or the readers of a tensor would never see.

        Raises:
          tf.errors.InvalidArgumentError: The tensor belongs to prefetch, or is a variable whose
            update is deferred or whose rows are looked up without what is fed.
        """
        for feature in self.features:
            refusal = feature.refusal_of_feed(tensor.name)
            if refusal:
                text = "cannot feed '{}': {}".format(tensor.name, refusal)
                raise tf.errors.InvalidArgumentError(None, tensor.op, text)
        if self._is_table_looked_up_elsewhere(tensor):
            raise tf.errors.InvalidArgumentError(
                None,
                tensor.op,
                "cannot feed '{}': lookups that were fused or run ahead of this step read the "
                "variable itself, and would not see the value. Assign it to the variable, or open "
                "the session without do_group_embedding and do_async_embedding".format(tensor.name),
            )
        is_ahead = tensor.name in self._taken or self._is_prefetched(tensor.name)
        if not is_ahead and not self.is_pulled(tensor.name):
            return
        raise tf.errors.InvalidArgumentError(
            None,
            tensor.op,
            "cannot feed '{}': it belongs to the prefetch region, whose threads run ahead of "
            "this step and would not see the value. Feed it in a session on a graph built without "
            "do_async_embedding and do_smart_stage, or pass the value to the IO stage: "
            "graph_opt.staged(features, feed_dict={{...}})".format(tensor.name),
        )

    def _is_table_looked_up_elsewhere(self, tensor: Any) -> bool:
        """Whether a tensor is a variable's value, and lookups no longer read it in this step."""
        if is_reference(tensor):
            values = [value for reader in tensor.consumers() for value in reader.outputs]
            readers = [tensor, *(value for value in values if not is_reference(value))]
            return any(
                self._is_prefetched(each.name) for one in readers for each in one.consumers()
            )
        if not any(is_reference(read) for read in tensor.op.inputs):
            return False
        return any(
            reader.type in GATHERS
            and reader.name in self._not_run
            and reader.inputs[0].name == tensor.name
            for reader in tensor.consumers()
        )

    def fed_value(self, tensor: Any, value: Any) -> Any:
        """What to feed in place of a value.

        Raises:
          tf.errors.InvalidArgumentError: It is assigned to a sharded variable and is not whole.
        """
        for feature in self.features:
            value = feature.fed_value(tensor, value)
        return value

    def results(self, session: Any, fetches: Sequence[Any], values: List[Any]) -> List[Any]:
        """The results of a step, given what it fetched for them."""
        for feature in self.features:
            values = feature.results(session, fetches, values)
        return values

    def refuse_compiled(self, fetches: Sequence[Any]) -> None:
        """Refuses what a compiled or partial step cannot fetch.

        Raises:
          tf.errors.InvalidArgumentError: It would be a part of a sharded variable.
        """
        for feature in self.features:
            feature.refuse_compiled(fetches)

    def _is_prefetched(self, name: str) -> bool:
        return name in self._prefetched or name.rpartition(":")[0] in self._prefetched

    def is_pulled(self, name: str) -> bool:
        """Whether it is of a batch that a stage collects with others for a step."""
        return bool(self._groups) and self._substitutes.get(name, "").startswith(self._groups)

    def _refusal(self, verb: str, name: str, operation: Any, reason: str) -> Exception:
        near = self._boundary_tensors_near(operation)
        listed = "Tensors near it that reach main and can be fetched: {}. ".format(
            ", ".join("'{}'".format(other) for other in near)
        )
        return tf.errors.InvalidArgumentError(
            None,
            operation,
            "cannot {} '{}': it belongs to the prefetch region, which runs ahead of the batch that "
            "main is consuming, and its value does not cross to main: {}. {}To keep it, call "
            "graph_opt.async_embedding_mark_node(tensor) on it before the graph is optimized; to "
            "keep everything, open the session without do_async_embedding and "
            "do_smart_stage".format(verb, name, reason, listed if near else ""),
        )

    def _boundary_tensors_near(self, start: Any) -> List[str]:
        """Names of boundary tensors, nearest first, found by following edges in both directions."""
        found: List[str] = []
        seen: Set[str] = {start.name}
        waiting: Deque[Any] = collections.deque([start])
        while waiting and len(found) < _MAX_NEIGHBOURS_NAMED:
            if len(seen) >= _MAX_OPERATIONS_SEARCHED:
                break
            operation = waiting.popleft()
            if operation.name in self._boundary_operations:
                names = [output.name for output in operation.outputs]
                found.extend(name for name in names if name in self._taken)
                continue
            neighbours = [tensor.op for tensor in operation.inputs]
            neighbours += [user for output in operation.outputs for user in output.consumers()]
            for neighbour in neighbours:
                if neighbour.name not in seen:
                    seen.add(neighbour.name)
                    waiting.append(neighbour)
        return found[:_MAX_NEIGHBOURS_NAMED]


def _run_ahead(operations: Iterable[Any]) -> bool:
    """Whether running these would run the source of a stage in main."""
    return any(is_guard(each.type, each.name) for each in operations)
