"""What a step depends on: the buffers it takes from and the iterators it initializes or saves."""

from __future__ import annotations

import weakref
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.stateful_ops import MUTABLE_HASH_TABLES
from graph_opt.graph.operations import operations_behind
from graph_opt.passes.io_stages import (
    BATCH_SOURCES,
    BUFFER_PUT,
    BUFFER_TAKE,
    ITERATORS,
    MAKE_ITERATOR,
)
from graph_opt.passes.prefetch.written_hash_tables import table_identity
from graph_opt.runtime.stages import Stage, stages_of
from graph_opt.session.pipeline_use import PipelineReach, PipelineUse

_ITERATOR_OPS = ("IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional")
# What moves an iterator to another batch: which input is the iterator.
_MOVES = {MAKE_ITERATOR: 1, "DeserializeIterator": 0}
_SAVES = "SerializeIterator"
_Buffer = Tuple[bytes, bytes]


class StageReach:
    """The stages of a graph, and which of them a step involves.

    Stages are looked up again whenever nodes have been added to the graph.

    Args:
      graph: A `tf.Graph`.
    """

    def __init__(self, graph: Any) -> None:
        # Weak: a session that ended without close() must not keep its graph through this.
        self._graph = weakref.ref(graph)
        self._version = -1
        self._stages: Dict[str, Stage] = {}
        self._buffers: Dict[_Buffer, str] = {}
        self._iterators: Dict[str, Set[str]] = {}
        self._prefetch_sources: Dict[str, str] = {}
        self._hash_tables: Dict[Tuple[bytes, bytes], str] = {}
        self._sources: Dict[str, Set[str]] = {}
        self._pipelines = PipelineReach(graph, ())

    def takes(self, reached: Set[Any]) -> Dict[str, Any]:
        """The operations by which a step itself always takes from stages, one for each stage.

        Args:
          reached: `operations_behind` the step.
        """
        takes = [op for op in reached if is_take(op) and condition_of(op) is None]
        return {name: take for take in takes for name in self.taken_directly([take])}

    def may_take_from(self, reached: Set[Any]) -> Dict[Any, FrozenSet[str]]:
        """The stages that a step takes from only if it chooses their input.

        Args:
          reached: `operations_behind` the step.

        Returns:
          For the boolean tensor that says whether it does, the names of the stages.
        """
        takes = [operation for operation in reached if is_take(operation)]
        conditions = {take: condition_of(take) for take in takes}
        return {
            condition: self._stages_of([take])
            for take, condition in conditions.items()
            if condition is not None
        }

    def chosen(self) -> FrozenSet[str]:
        """Names of the stages from which a step takes only if it chooses their input."""
        graph = self._graph()
        operations = graph.get_operations() if graph is not None else ()
        return frozenset().union(*self.may_take_from(set(operations)).values())

    def taken_directly(self, reached: Iterable[Any]) -> FrozenSet[str]:
        """Names of the stages from which these operations take, without those before them."""
        buffers = {_buffer(operation) for operation in reached if is_take(operation)}
        if not buffers:
            return frozenset()
        self._refresh()
        return frozenset(self._buffers[buffer] for buffer in buffers if buffer in self._buffers)

    def _stages_of(self, takes: Iterable[Any]) -> FrozenSet[str]:
        return self.with_upstream(self.taken_directly(takes))

    def with_upstream(self, names: Iterable[str]) -> FrozenSet[str]:
        """These stages, and all stages from which they take."""
        reached: Set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in self._stages and name not in reached:
                reached.add(name)
                waiting.extend(self._stages[name].spec.upstream)
        return frozenset(reached)

    def filled_by(self, reached: Set[Any]) -> FrozenSet[str]:
        """Names of the stages into which a step puts a batch, which makes it a prefetch step."""
        puts = [operation for operation in reached if operation.type == BUFFER_PUT]
        if not puts:
            return frozenset()
        self._refresh()
        buffers = {_buffer(put) for put in puts}
        return frozenset(self._buffers[buffer] for buffer in buffers if buffer in self._buffers)

    def reset_by(self, reached: Set[Any]) -> FrozenSet[str]:
        """Names of stages whose input a step reinitializes or restores, and of all in their chains.

        Args:
          reached: `operations_behind` the step.
        """
        moved = {
            operation.inputs[_MOVES[operation.type]].op.name
            for operation in reached
            if operation.type in _MOVES
        }
        if not moved:
            return frozenset()
        self._refresh()
        reset: Set[str] = set()
        for name, iterators in self._iterators.items():
            if moved & iterators:
                reset.update(stage.name for stage in self.chain(name))
        return frozenset(reset)

    def saved_iterator(self, reached: Set[Any]) -> Tuple[str, str]:
        """An iterator whose position a step saves, and the stage that reads it; '' for none.

        Args:
          reached: `operations_behind` the step.
        """
        saved = {operation.inputs[0].op.name for operation in reached if operation.type == _SAVES}
        if saved:
            self._refresh()
        for stage, iterators in self._iterators.items():
            for iterator in sorted(saved & iterators):
                return iterator, stage
        return "", ""

    def pipelines(self, reached: Set[Any]) -> PipelineUse:
        """What a step means to the stages that apply gradients.

        Args:
          reached: `operations_behind` the step.
        """
        self._refresh()
        return self._pipelines.use_of(reached)

    def prefetch_source(self, reached: Set[Any]) -> Tuple[str, str]:
        """A source in `reached` that feeds prefetched lookups, and its stage; '' for none."""
        sources = [op.name for op in reached if op.type in BATCH_SOURCES or op.type == BUFFER_TAKE]
        if sources:
            self._refresh()
        for name in sources:
            if name in self._prefetch_sources:
                return name, self._prefetch_sources[name]
        return "", ""

    def hash_tables(self) -> Mapping[Tuple[bytes, bytes], str]:
        """For each mutable hash table that a stage reads, by `table_identity`, the stage."""
        self._refresh()
        return self._hash_tables

    def input_of(self, take: Any) -> str:
        """The node that reads the batches that a take gets; '' if there is not exactly one.

        Args:
          take: A take from a stage.
        """
        stages = self._stages_of([take])
        sources = set().union(*(self._sources[name] for name in stages))
        return sources.pop() if len(sources) == 1 else ""

    def refuse_direct_reads(self, reached: Set[Any]) -> None:
        """Refuses a step of main that takes a batch from the threads of a stage.

        Args:
          reached: `operations_behind` the step.

        Raises:
          tf.errors.InvalidArgumentError: It reads such a source.
        """
        source, stage = self.prefetch_source(reached)
        if source:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                "this step reads '{}', the input of stage '{}', whose prefetch threads would "
                "miss that batch. Fetch the tensors by their names in the original graph, which "
                "give the values of the batch that main is consuming".format(source, stage),
            )

    def chain(self, name: str) -> List[Stage]:
        """All stages connected to this one by takes, upstream first."""
        self._refresh()
        linked = {name}
        grown = True
        while grown:
            before = len(linked)
            for stage in self._stages.values():
                if linked.intersection(stage.spec.upstream) or stage.name in linked:
                    linked.add(stage.name)
                    linked.update(other for other in stage.spec.upstream if other in self._stages)
            grown = len(linked) > before
        return [stage for stage in self._stages.values() if stage.name in linked]

    def _refresh(self) -> None:
        graph = self._graph()
        if graph is None or graph.version == self._version:
            return
        self._version = graph.version
        self._stages = {stage.name: stage for stage in stages_of(graph)}
        self._pipelines = PipelineReach(graph, self._stages.values())
        prefetch = {s.name for s in self._stages.values() if s.spec.is_prefetch}
        before_lookups = self.with_upstream(prefetch)
        for stage in self._stages.values():
            puts = [graph.get_operation_by_name(put.name) for put in stage.puts]
            self._buffers.update((_buffer(put), stage.name) for put in puts)
            behind = operations_behind(puts)
            self._iterators[stage.name] = {
                operation.inputs[0].op.name
                for operation in behind
                if operation.type in _ITERATOR_OPS
            }
            for operation in behind | _datasets_of(behind):
                if operation.type in MUTABLE_HASH_TABLES:
                    self._hash_tables[table_identity(operation.node_def)] = stage.name
            self._sources[stage.name] = {one.name for one in behind if one.type in BATCH_SOURCES}
            if stage.name in before_lookups:
                self._note_sources(behind, stage.name)

    def _note_sources(self, behind: Set[Any], stage: str) -> None:
        for operation in behind:
            if operation.type in BATCH_SOURCES or operation.type == BUFFER_TAKE:
                self._prefetch_sources[operation.name] = stage


def _datasets_of(operations: Iterable[Any]) -> Set[Any]:
    """All operations that make the datasets of those iterators that are among these."""
    iterators = [operation for operation in operations if operation.type in ITERATORS]
    users = [user for one in iterators for tensor in one.outputs for user in tensor.consumers()]
    return operations_behind([use.inputs[0].op for use in users if use.type == MAKE_ITERATOR])


def is_take(operation: Any) -> bool:
    """Whether an operation takes from a stage's buffer."""
    return bool(operation.type == BUFFER_TAKE)


def condition_of(take: Any) -> Optional[Any]:
    """The boolean that says whether a step takes from this buffer; None if it always does.

    Where steps choose among several inputs, a take waits for a Switch on that boolean.
    """
    for gate in take.control_inputs:
        if gate.type == "Identity" and gate.inputs[0].op.type == "Switch":
            return gate.inputs[0].op.inputs[1]
    return None


def _buffer(operation: Any) -> _Buffer:
    return operation.get_attr("container"), operation.get_attr("shared_name")
