"""Averages of tables over time, whose steps are deferred with the updates of their tables.

    before   average, table -> Sub -> Mul(rate) -> AssignSub(average)
    after    table, slots, average, rate -> GroupEmbeddingAverage

The new op waits for what those nodes waited for, which usually is the update of the same step.

With optimizers that move touched rows only, weights are always current: only readers of the
average, and writers of the table, wait.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, Hashable, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.compat.op_definitions import value_dtype
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.fusion.deferred import DeferredVariable, Need, ShardInputs, deferred_variable
from graph_opt.passes.fusion.group_nodes import GroupNodes
from graph_opt.passes.fusion.table_reads import is_in_place
from graph_opt.passes.node_writer import Operand
from graph_opt.rules.optimizers.moving_average import (
    MovingAverage,
    moving_averages,
    read_average,
    refusal,
)
from graph_opt.rules.optimizers.sparse_update import SparseUpdate
from graph_opt.rules.optimizers.update_inputs import value_key

_FLOAT32 = 1
# Optimizers of which a row's weights and slot depend on each other without a gradient.
_MIXING = frozenset(["DenseMomentumL2", "DenseKerasMomentumL2"])


class WrittenAverage(NamedTuple):
    """The op that moves some averages.

    Attributes:
      node: Its name.
      averages: The steps that it replaces.
    """

    node: str
    averages: Tuple[MovingAverage, ...]


def with_average(view: GraphView, update: SparseUpdate) -> SparseUpdate:
    """The update, with the step of its table's average, if there is one.

    Raises:
      Refusal: average_not_deferrable.
    """
    ends = moving_averages(view, update.table)
    if not ends:
        return update
    if len(ends) > 1:
        raise refusal(ends[1], "one average of a table", "another: {}".format(ends[0]))
    average = read_average(view, update.table, ends[0])
    _require_place(view, average)
    if update.optimizer in _MIXING:
        need = "an optimizer whose penalty is not on the whole table"
        raise refusal(average.end, need, update.optimizer)
    if update.branches:
        raise refusal(average.end, "a table that each step updates", "an update in a tf.cond")
    rate = average.rate
    if isinstance(rate, TensorRef) and value_dtype(view.dtype(rate) or 0) != _FLOAT32:
        raise refusal(rate.node, "a float32 decay", "another dtype")
    averaged = dataclasses.replace(update, average=average)
    try:
        deferred_variable(view, averaged)
    except Refusal as reason:
        if update.moves_every_row:  # then it is the update's refusal, too
            return update
        raise refusal(reason.node, reason.need, reason.saw) from reason
    return averaged


def require_no_average(view: GraphView, update: SparseUpdate, adam: str) -> None:
    """Refuses averages of a table whose update is not deferred, though it moves every row.

    Raises:
      Refusal: average_not_deferrable.
    """
    for end in moving_averages(view, update.table):
        need = "a table whose update is deferred (group_embedding_options.adam 'deferred')"
        raise refusal(end, need, "'{}'".format(adam))


def write_averages(
    view: GraphView,
    nodes: GroupNodes,
    updates: Iterable[SparseUpdate],
    deferred: Mapping[str, DeferredVariable],
) -> List[WrittenAverage]:
    """Writes the ops that move the averages of deferred tables, one for those moved together."""
    groups: Dict[Hashable, List[MovingAverage]] = {}
    for update in updates:
        average = update.average
        if average is None or update.table not in deferred:
            continue
        shard = deferred[update.table]
        rate = value_key(view, average.rate)
        key = (shard.device, shard.is_resource, shard.optimizer, rate, average.controls)
        groups.setdefault(key, []).append(average)
    return [_write(nodes, group, deferred) for group in groups.values()]


def _write(
    nodes: GroupNodes, averages: Sequence[MovingAverage], deferred: Mapping[str, DeferredVariable]
) -> WrittenAverage:
    first = averages[0]
    tables = [average.table for average in averages]
    shards = ShardInputs(tables, deferred, Need(deferred[first.table].optimizer, averaged=True))
    writer = nodes.writer("average", deferred[first.table].device)
    rate: Operand
    if isinstance(first.rate, TensorRef):
        rate = first.rate
    else:
        rate = writer.constant("rate", np.float32(first.rate))
    call = writer.call(
        "rows",
        shards.op("GroupEmbeddingAverage"),
        waits_for=first.controls,
        rate=rate,
        table_names=tables,
        **shards.inputs,
        **shards.attributes,
    )
    return WrittenAverage(call.name, tuple(averages))


def _require_place(view: GraphView, average: MovingAverage) -> None:
    """Refuses values that travel to another task first: they are read as soon as a step begins."""
    if view.op(average.table) == "VarHandleOp":
        return
    for reader in average.readers:
        for variable in (average.table, average.average):
            if not is_in_place(view, reader, variable):
                raise refusal(
                    reader,
                    "an average computed where its table is, or resource variables: references "
                    "are sent to {} before the update".format(view.device(reader) or "it"),
                    "a table on {}".format(view.device(variable) or "another device"),
                )
