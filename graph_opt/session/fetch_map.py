"""What a fetch by an original name means in an optimized graph.

- The result of a fused lookup: the output of the op that replaces it, read by the next lines.
- A variable whose update is deferred, as a whole: a read that waits until all rows are up to date.
- A variable of which this rank has a part: what is assigned to it, or all of it, with the rows of
  other ranks, once the step has run. Of what is fed to be assigned, this rank's rows are fed.
- A boundary tensor: the output of the stage's take, which is the value for main's current batch.
- In a step that trains on micro-batches, what these compute: their results, summed or joined.
- In a step that leaves its updates to a stage: see pipelined_steps.py.
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
    Dict,
    Iterable,
    List,
    NamedTuple,
    Sequence,
    Set,
)

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.operations import operations_behind
from graph_opt.passes.prefetch.batch_copies import NotOfBatch
from graph_opt.passes.prefetch.fetch_guard import is_guard
from graph_opt.passes.shard_tables.divided_variables import DividedVariables
from graph_opt.passes.translation import Translation
from graph_opt.session.batch_values import BatchValues
from graph_opt.session.pipelined_steps import PipelinedSteps

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
      translation: What its names stand for; `UNCHANGED` for a graph that was not optimized.
    """

    def __init__(self, graph: Any, translation: Translation) -> None:
        self._graph = graph
        self._substitutes = translation.substitutes
        self._up_to_date = translation.up_to_date
        self._divided = translation.divided or DividedVariables()
        self._taken = translation.taken
        self._prefetched = translation.prefetched
        self._while_training = translation.while_training
        self._pipelined = PipelinedSteps(graph, translation.pipelined)
        self._side_targets = translation.exact.side_targets if translation.exact is not None else {}
        self._micro_batches = translation.micro_batches and translation.micro_batches + "/"
        self._groups = translation.summed_batches and translation.summed_batches + "_io"
        self._of_batch = BatchValues(graph, translation)
        self._boundary_operations = {name.rpartition(":")[0] for name in self._taken}

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
            self.check_feed(tensor)
        named = self._computed([self._in_main(tensor) for tensor in fetches], self._exists_ahead)
        fetched = [self._pipelined.fetched(tensor) for tensor in named]
        run = [each for target in targets for each in self._pipelined.run(self.run(target))]
        run += dict.fromkeys(self.side_targets(fetches))
        reached = operations_behind([tensor.op for tensor in fetched] + run, feeds)
        if _run_ahead(reached):
            fetched = self._computed(
                fetched, lambda tensor: _run_ahead(operations_behind([tensor.op], feeds))
            )
            reached = operations_behind([tensor.op for tensor in fetched] + run, feeds)
        if self.trains_on_micro_batches(reached):
            fetched = [self.while_training(tensor) for tensor in fetched]
            reached = operations_behind([tensor.op for tensor in fetched] + run, feeds)
        if self._pipelined.train(reached):
            given = [tensor.op for tensor in fetches] + targets
            self._pipelined.check(operations_behind(given, feeds), reached)
            fetched = [self._pipelined.while_training(tensor) for tensor in fetched]
            reached = operations_behind([tensor.op for tensor in fetched] + run, feeds)
        of_writers = self._side_targets_of(reached)
        if of_writers:
            run += of_writers
            reached = operations_behind([tensor.op for tensor in fetched] + run, feeds)
        return Resolved(fetched, run, feeds, reached)

    def fetched(self, tensor: Any) -> Any:
        """The tensor to fetch in place of `tensor`.

        Raises:
          tf.errors.InvalidArgumentError: Its value exists only in prefetch.
        """
        (found,) = self._computed([self._in_main(tensor)], self._exists_ahead)
        return found

    def _in_main(self, tensor: Any) -> Any:
        """What main has in place of a tensor; the tensor itself if that is nothing."""
        if tensor.name in self._divided.assigned:
            return self._graph.get_tensor_by_name(self._divided.assigned[tensor.name])
        if tensor.name in self._divided.values:
            variable = self._divided.named(self._divided.values[tensor.name])
            return self._graph.get_tensor_by_name(variable.keys + "/start:0")
        if tensor.name in self._substitutes:
            tensor = self._graph.get_tensor_by_name(self._substitutes[tensor.name])
        if tensor.name in self._up_to_date:
            return self._graph.get_tensor_by_name(self._up_to_date[tensor.name])
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

    def trains_on_micro_batches(self, reached: Iterable[Any]) -> bool:
        """Whether a step that runs these operations divides its batch."""
        scope = self._micro_batches
        return bool(scope) and any(operation.name.startswith(scope) for operation in reached)

    def while_training(self, tensor: Any) -> Any:
        """The tensor to fetch in place of `tensor` in such a step."""
        name = self._while_training.get(tensor.name)
        return tensor if name is None else self._graph.get_tensor_by_name(name)

    def check_feed(self, tensor: Any) -> None:
        """Refuses a feed that the prefetch threads or the readers of a tensor would never see.

        Raises:
          tf.errors.InvalidArgumentError: The tensor belongs to prefetch, is the result of a fused
            lookup, or is a variable whose update is deferred.
        """
        if tensor.name in self._divided.unread or tensor.name in self._divided.values:
            raise tf.errors.InvalidArgumentError(
                None,
                tensor.op,
                "cannot feed '{}': ranks have different rows of this variable, and do not read "
                "this tensor. Load a whole value with Variable.load".format(tensor.name),
            )
        if tensor.name in self._up_to_date:
            raise tf.errors.InvalidArgumentError(
                None,
                tensor.op,
                "cannot feed '{}': it is the value of a variable whose rows are updated when they "
                "are read, and its readers do not read this tensor. Load the value into the "
                "variable, or set group_embedding_options.adam to stock".format(tensor.name),
            )
        if tensor.name in self._substitutes and not self.is_pulled(tensor.name):
            raise tf.errors.InvalidArgumentError(
                None,
                tensor.op,
                "cannot feed '{}': it is the result of a lookup that was fused with others, and "
                "the model reads '{}' in its place. Feed that tensor, or exclude the lookup from "
                "fusion with group_embedding_options.lookups".format(
                    tensor.name, self._substitutes[tensor.name]
                ),
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

    def fed_value(self, tensor: Any, value: Any) -> Any:
        """What to feed in place of a value.

        Raises:
          tf.errors.InvalidArgumentError: It is assigned to a divided variable and is not whole.
        """
        name = self._divided.fed.get(tensor.name)
        if name is None:
            return value
        variable = self._divided.named(name)
        whole = np.asarray(value)
        if whole.shape != variable.shape:
            raise tf.errors.InvalidArgumentError(
                None,
                tensor.op,
                "cannot feed '{}' with shape {}: need the whole variable '{}', of shape {}, of "
                "which each rank takes its rows".format(
                    tensor.name, list(whole.shape), name, list(variable.shape)
                ),
            )
        return whole[variable.rows.keys(variable.rank)]

    def divided_among(self, fetches: Sequence[Any]) -> Dict[int, str]:
        """Which of these have a part of a variable: their places, and its name."""
        values, assigned = self._divided.values, self._divided.assigned
        if not values:
            return {}
        names = {place: tensor.name for place, tensor in enumerate(fetches)}
        return {
            place: values[name]
            for place, name in names.items()
            if name in values and name not in assigned
        }

    def side_targets(self, fetches: Sequence[Any]) -> List[Any]:
        """The operations of fetched tensors that other tensors stand in for, but which act."""
        values = self._divided.values
        return [tensor.op for tensor in fetches if tensor.name in values] if values else []

    def _side_targets_of(self, reached: AbstractSet[Any]) -> List[Any]:
        """What tells a worker what the step writes, of rows that batches wait with."""
        names = {
            self._side_targets[each.name]: None
            for each in reached
            if each.name in self._side_targets
        }
        return [self._graph.get_operation_by_name(name) for name in names]

    def part_fetched(self, tensor: Any) -> Exception:
        """The error for a step that is compiled, and so cannot ask other ranks for rows."""
        name = self._divided.values[tensor.name]
        variable = self._divided.named(name)
        return tf.errors.InvalidArgumentError(
            None,
            tensor.op,
            "cannot fetch '{}' in a compiled or partial step: the variable '{}' is divided among "
            "{} ranks, and this one has {} of its {} rows. Fetch it with session.run, which gets "
            "the rows of all ranks".format(
                tensor.name, name, variable.rows.num_ranks, variable.local_rows, variable.shape[0]
            ),
        )

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
