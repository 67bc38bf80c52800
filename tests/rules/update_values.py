"""Trains a graph with its own update, and with the op that may replace it."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.group_embedding import (
    GroupAttributes,
    GroupIds,
    group_embedding_apply,
)
from graph_opt.rules.lookup_inputs import DENSE, LookupInputs
from graph_opt.rules.optimizers.sparse_update import SparseUpdate, sparse_updates
from tests.plain_sessions import plain_session
from tests.rules.gradient_values import found_gradients, gradient_attributes, shape_of
from tests.rules.lookup_values import ids_of, tensor_of

Values = Dict[str, np.ndarray]


def fused_updates(view: GraphView) -> List[Any]:
    """One op for each table, which does what its update does."""
    gradients = found_gradients(view)
    tables = {tuple(t.name for t in lookup.tables): lookup for lookup, _, _ in gradients}
    names = [name for shards in tables for name in shards]
    found = sparse_updates(view, names)
    assert found.refusals == {} and sorted(found.found) == sorted(names)
    return [_apply(view, [found.found[name] for name in shards]) for shards in tables]


def _apply(view: GraphView, shards: List[SparseUpdate]) -> Any:
    gradients = found_gradients(view)
    members = []
    for part in shards[0].parts:
        members += [found for found in gradients if found[2].slices[0] == part]
    assert len(members) == len(shards[0].parts)
    for shard, update in enumerate(shards):
        assert update.parts == tuple(gradient.slices[shard] for _, _, gradient in members)
    pooled = []
    for lookup, inputs, gradient in members:
        tensor = tensor_of(gradient.pooled)
        width = shape_of(lookup.tables[0])[1]
        pooled.append(tf.reshape(tensor, [-1, width]) if inputs.layout == DENSE else tensor)
    first = shards[0]
    slots = [
        tensor_of(update.slots[number]) for number in range(len(first.slots)) for update in shards
    ]
    flags = [name for name, is_set in first.attributes.items() if is_set]
    return group_embedding_apply(
        first.optimizer,
        [tensor_of(TensorRef(update.table, 0)) for update in shards],
        slots,
        [_number(value) for value in first.hyperparameters],
        _joined_ids([inputs for _, inputs, _ in members]),
        _joined_attributes([gradient_attributes(lookup, inputs) for lookup, inputs, _ in members]),
        pooled,
        [name for name in flags if name != "use_locking"],
        "use_locking" in flags,
    )


def _number(value: Any) -> Any:
    return tensor_of(value) if isinstance(value, TensorRef) else tf.constant(value, tf.float32)


def _joined_ids(inputs: List[LookupInputs]) -> GroupIds:
    each = [ids_of(one) for one in inputs]
    return GroupIds(*[[t for ids in each for t in ids[field]] for field in range(4)])


def _joined_attributes(each: List[GroupAttributes]) -> GroupAttributes:
    """Several lookups of one table."""
    return each[0]._replace(
        lookup_tables=[0] * len(each),
        combiners=[one.combiners[0] for one in each],
        layouts=[one.layouts[0] for one in each],
        weighted=[one.weighted[0] for one in each],
        default_ids=[one.default_ids[0] for one in each],
        filled_ids=[one.filled_ids[0] for one in each],
    )


def trained(step: Any, feeds: List[Dict[Any, Any]]) -> Tuple[Values, Values]:
    """All variables before and after a step for each of `feeds`, in a session of their own."""
    variables = {variable.op.name: variable for variable in tf.global_variables()}
    with plain_session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        before = dict(session.run(variables))
        for feed in feeds:
            session.run(step, feed)
        return before, dict(session.run(variables))
