"""What a step of a script is for: to initialize, or to use a batch; and what it assigns."""

from __future__ import annotations

from typing import Any, FrozenSet, Iterable, Iterator, NamedTuple, Sequence, Set

from graph_opt.checking.fetched_values import SUMMARY
from graph_opt.compat import tf
from graph_opt.compat.variable_ops import CHANGES, VariableUse, is_use, use_of
from graph_opt.graph.operations import operations_behind
from graph_opt.passes.io_stages import BATCH_SOURCES, BUFFER_TAKE
from graph_opt.session.optimization import is_training_step, moves_trained_variables

_RESTORE = ("Restore", "RestoreSlice", "RestoreV2")
_SAVE = ("SaveV2", "MergeV2Checkpoints", "Save", "SaveSlices")
_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")
_TAKES = (*BATCH_SOURCES, "ReaderRead", "ReaderReadV2", BUFFER_TAKE)


class StepKind(NamedTuple):
    """What a step does.

    Attributes:
      trains: Whether it changes trained variables by their own values.
      uses_batch: Whether it trains or computes on a batch, rather than initializing.
      assigned: Names of the variables that it gives a value of its own.
      restored: Names of those that it gives one from a checkpoint.
      saves: Whether it writes a checkpoint.
      is_of_saver: Whether it writes or reads one.
      unordered: Names of what it fetches that is computed from the number of the step alone, before
        or after the step counts itself: which of them, TensorFlow does not say.
    """

    trains: bool
    uses_batch: bool
    assigned: FrozenSet[str]
    restored: FrozenSet[str]
    saves: bool
    is_of_saver: bool
    unordered: FrozenSet[str] = frozenset()


def kind_of(fetches: Iterable[Any], targets: Iterable[Any], feeds: Sequence[Any]) -> StepKind:
    """What a step does that runs these, given what it feeds."""
    reached = operations_behind([tensor.op for tensor in fetches] + list(targets), feeds)
    types = {operation.type for operation in reached}
    trains = is_training_step(reached) or _moves(reached)
    assigned: Set[str] = set()
    restored: Set[str] = set()
    for operation in reached if not trains else ():
        if use_of(operation.type) is VariableUse.SETS and len(operation.inputs) > 1:
            source = operations_behind([operation.inputs[1].op], feeds)
            is_restored = any(one.type in _RESTORE for one in source)
            (restored if is_restored else assigned).add(operation.inputs[0].op.name)
    is_of_checkpoint = bool(types.intersection(_RESTORE + _SAVE))
    takes = bool(types.intersection(_TAKES)) or bool(feeds)
    initializes = is_of_checkpoint or assigned or restored
    return StepKind(
        trains=trains,
        uses_batch=trains or (takes and not initializes),
        assigned=frozenset(assigned),
        restored=frozenset(restored),
        saves=bool(types.intersection(_SAVE)),
        is_of_saver=is_of_checkpoint,
        unordered=frozenset(_unordered(fetches, feeds)) if trains else frozenset(),
    )


def _unordered(fetches: Iterable[Any], feeds: Sequence[Any]) -> Iterator[str]:
    for tensor in fetches:
        if _reads_only_the_count(tensor, feeds):
            yield tensor.name
        for operation in operations_behind([tensor.op], feeds) if _is_summary(tensor) else ():
            if operation.type == "ScalarSummary":
                tag = tf.get_static_value(operation.inputs[0])
                if tag is not None and _reads_only_the_count(operation.inputs[1], feeds):
                    yield SUMMARY + tf.compat.as_str(tag.item())


def _is_summary(tensor: Any) -> bool:
    return str(tensor.op.type).endswith("Summary")


def _reads_only_the_count(tensor: Any, feeds: Sequence[Any]) -> bool:
    """Whether the number of the step is all the state that a tensor depends on."""
    counters = tensor.graph.get_collection(tf.GraphKeys.GLOBAL_STEP)
    names = {one.op.name for one in counters}
    reached = operations_behind([tensor.op], feeds)
    read = {operation.name for operation in reached if operation.type in _VARIABLES}
    types = {operation.type for operation in reached}
    fed = {one.op for one in feeds}
    return (
        bool(read) and read <= names and not types.intersection(_TAKES)
        and not any(is_use(one, CHANGES) for one in types)
        and not any(one.op in fed for operation in reached for one in operation.inputs)
    )  # fmt: skip


def _moves(reached: Set[Any]) -> bool:
    graphs = {operation.graph for operation in reached}
    return any(moves_trained_variables(graph, reached) for graph in graphs)


def stages_taken_from(
    fetches: Iterable[Any], targets: Iterable[Any], feeds: Sequence[Any]
) -> FrozenSet[str]:
    """Names of the buffers from which a step, as it is in the rewritten graph, takes a batch."""
    reached = operations_behind([tensor.op for tensor in fetches] + list(targets), feeds)
    takes = [operation for operation in reached if operation.type == BUFFER_TAKE]
    return frozenset(tf.compat.as_str(take.get_attr("shared_name")) for take in takes)
