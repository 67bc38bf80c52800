"""Runs a graph's lookup, and the op built from its inputs, on the same random batches."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds, group_embedding_lookup
from graph_opt.rules import Lookup, find_lookups
from graph_opt.rules.lookup_inputs import DENSE, SEGMENTS, SPARSE, LookupInputs, lookup_inputs

# In the order of the outputs of a model's IteratorGetNext.
FEATURES = ("ids", "indices", "shape", "values", "weights", "words")
WORDS = np.array(["", "a", "b", "c", "another"])
Pair = Tuple[Any, Any]


def shaped_view(graph: Optional[Any] = None) -> GraphView:
    return GraphView(running_graph_def(graph, add_shapes=True))


def all_inputs(view: GraphView) -> List[Tuple[Lookup, LookupInputs]]:
    return [(lookup, lookup_inputs(view, lookup)) for lookup in find_lookups(view).lookups]


def code_of(view: GraphView, lookup: Lookup) -> str:
    """The code with which the lookup's inputs are refused, or ''."""
    try:
        lookup_inputs(view, lookup)
    except Refusal as refusal:
        return refusal.code
    return ""


def random_batch(seed: int, rows: int, lowest_id: int = 0) -> Dict[str, Any]:
    """Features of a model, including rows without ids, duplicates, and weights <= 0."""
    random = np.random.RandomState(seed)
    most, batch = 5, random.randint(2, 9)
    counts = random.randint(0, most + 1, batch)
    counts[random.randint(batch)] = 0
    indices = [[row, place] for row, count in enumerate(counts) for place in range(count)]
    values = random.randint(lowest_id, rows, len(indices))
    values[random.rand(len(values)) < 0.3] = max(lowest_id, 0)
    weights = random.randn(len(indices)).astype(np.float32)
    weights[random.rand(len(weights)) < 0.2] = 0
    return {
        "ids": random.randint(0, rows, [batch, 3]),
        "indices": np.array(indices, np.int64).reshape(-1, 2),
        "shape": np.array([batch, most], np.int64),
        "values": values,
        "weights": weights,
        "words": WORDS[random.randint(0, len(WORDS), [batch, 1])],
    }


def fused(view: GraphView, lookup: Lookup, inputs: LookupInputs) -> Any:
    """The output of the op that the inputs describe, in the default graph."""
    ids = tensor_of(inputs.ids)
    pooled = group_embedding_lookup(
        [tensor_of(TensorRef(table.name, 0)) for table in lookup.tables],
        ids_of(inputs),
        attributes_of(lookup, inputs),
        [tf.as_dtype(lookup.tables[0].dtype)],
    )[0]
    if inputs.layout != DENSE:
        return pooled
    return tf.reshape(pooled, tf.concat([tf.shape(ids), tf.shape(pooled)[1:]], 0))


def ids_of(inputs: LookupInputs) -> GroupIds:
    """The op's inputs: the tensors of `inputs` in the default graph."""
    ids = tensor_of(inputs.ids)
    flat = tf.reshape(ids, [-1]) if inputs.layout == DENSE else ids
    return GroupIds([flat], [_positions(inputs)], [_shape(inputs)], _weights(inputs))


def attributes_of(lookup: Lookup, inputs: LookupInputs) -> GroupAttributes:
    """The op's attributes."""
    return GroupAttributes(
        lookup_tables=[0],
        table_shards=[len(lookup.tables)],
        table_names=[lookup.tables[0].name],
        combiners=[inputs.combiner],
        layouts=[DENSE if inputs.layout == DENSE else SPARSE],
        weighted=[inputs.weights is not None],
        default_ids=[inputs.default_id],
        partition_strategies=[inputs.partition_strategy],
        safe=inputs.safe,
    )


def tensor_of(reference: TensorRef) -> Any:
    return tf.get_default_graph().get_tensor_by_name(str(reference))


def pairs(view: GraphView, found: Sequence[Tuple[Lookup, LookupInputs]]) -> List[Pair]:
    """(stock, fused) outputs of each lookup, in the default graph."""
    return [(tensor_of(lookup.output), fused(view, lookup, inputs)) for lookup, inputs in found]


def _positions(inputs: LookupInputs) -> Any:
    if inputs.positions is None:
        return tf.constant([], tf.int64)
    return tf.cast(tensor_of(inputs.positions), tf.int64)


def _shape(inputs: LookupInputs) -> Any:
    if inputs.layout == SEGMENTS or inputs.dense_shape is None:
        return tf.constant([], tf.int64)
    return tensor_of(inputs.dense_shape)


def _weights(inputs: LookupInputs) -> List[Any]:
    return [] if inputs.weights is None else [tensor_of(inputs.weights)]
