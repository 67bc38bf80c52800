"""Compares gradients recognised in a graph with those of the op that may replace them."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.group_embedding import GroupAttributes, group_embedding_gradient
from graph_opt.rules import Lookup, find_lookups
from graph_opt.rules.gradients.rows import RowGradient, row_gradients
from graph_opt.rules.lookup import Table
from graph_opt.rules.lookup_inputs import DENSE, LookupInputs, lookup_inputs
from tests.plain_sessions import plain_session
from tests.rules.lookup_models import ROWS, Model
from tests.rules.lookup_values import (
    FEATURES,
    attributes_of,
    ids_of,
    random_batch,
    shaped_view,
    tensor_of,
)

BATCHES = 2
Rows = Dict[int, np.ndarray]
# IndexedSlices as optimizers take them: (values, indices) of each shard, stock's and ours.
Pair = Tuple[List[Tuple[Any, Any]], List[Tuple[Any, Any]]]


def loss_of(model: Model) -> Any:
    """A loss with a different gradient for each element of each lookup, even if rows are zero."""
    terms = []
    for number, output in enumerate(model.outputs):
        shape = tf.shape(output)
        places = tf.reshape(tf.range(tf.reduce_prod(shape)), shape)
        factors = tf.sin(tf.cast(places, tf.float32) + number)
        terms.append(tf.reduce_sum(tf.cast(output, tf.float32) * factors + output * output))
    return tf.add_n(terms)


def gradient_attributes(lookup: Lookup, inputs: LookupInputs) -> GroupAttributes:
    """Attributes of the gradient ops, which read row 0 for rows without ids if stock does."""
    fills = inputs.safe and inputs.default_id < 0
    return attributes_of(lookup, inputs)._replace(filled_ids=[0 if fills else -1])


def fused_gradient(lookup: Lookup, inputs: LookupInputs, gradient: RowGradient) -> List[Any]:
    """(values, indices) of each shard, computed by one op from the pooled gradient."""
    pooled = tensor_of(gradient.pooled)
    if inputs.layout == DENSE:
        pooled = tf.reshape(pooled, [-1, shape_of(lookup.tables[0])[1]])
    shards = group_embedding_gradient(
        ids_of(inputs),
        gradient_attributes(lookup, inputs),
        [shape_of(table)[0] for table in lookup.tables],
        [pooled],
        [tf.as_dtype(table.dtype) for table in lookup.tables],
    )
    return [(shard.values, shard.indices) for shard in shards]


def shape_of(table: Table) -> Tuple[int, int]:
    """(rows, width) of a table whose shape is known."""
    assert table.shape is not None
    rows, width = table.shape
    assert rows is not None and width is not None
    return rows, width


def found_gradients(view: GraphView) -> List[Tuple[Lookup, LookupInputs, RowGradient]]:
    """All gradients of all lookups."""
    return [
        (lookup, lookup_inputs(view, lookup), gradient)
        for lookup in find_lookups(view).lookups
        for gradient in row_gradients(view, lookup)
    ]


def pairs(view: GraphView) -> List[Pair]:
    """For each gradient, the graph's IndexedSlices and ours."""
    return [
        (
            [(tensor_of(part.values), tensor_of(part.indices)) for part in gradient.slices],
            fused_gradient(lookup, inputs, gradient),
        )
        for lookup, inputs, gradient in found_gradients(view)
    ]


def without_trailing(batch: Dict[str, Any]) -> Dict[str, Any]:
    """A batch without its trailing rows that have no ids."""
    rows = int(batch["indices"][-1, 0]) + 1
    cut = {name: batch[name][:rows] for name in ("ids", "words")}
    return dict(batch, shape=np.array([rows, batch["shape"][1]]), **cut)


def sums(values: np.ndarray, indices: np.ndarray) -> Rows:
    """The sum of the values of each row."""
    rows: Rows = {}
    for value, index in zip(values.astype(np.float32), indices.reshape(-1)):
        rows[int(index)] = rows.get(int(index), np.zeros_like(value)) + value
    return rows


def assert_same_rows(stock: Rows, ours: Rows, tolerance: float = 1e-5) -> None:
    """Asserts that both are equal as sets of rows."""
    assert set(stock) == set(ours)
    for row, value in stock.items():
        np.testing.assert_allclose(ours[row], value, rtol=tolerance, atol=tolerance)


def assert_same_gradients(
    initialize: Callable[[Any], None],
    count: int,
    negative: bool = True,
    trailing: bool = True,
    tolerance: float = 1e-5,
) -> None:
    """Asserts that one op computes each gradient of the default graph from its pooled gradient.

    Args:
      initialize: Initializes the variables in a given session.
      count: How many gradients there are.
      negative: Whether ids < 0 may be among those of safe lookups.
      trailing: Whether the last rows may have no ids.
      tolerance: Relative and absolute tolerance.
    """
    view = shaped_view()
    both = pairs(view)
    assert len(both) == count
    unique = [gradient.unique for _, _, gradient in found_gradients(view)]
    safe = negative and all(inputs.safe for _, inputs, _ in found_gradients(view))
    source = next(name for name in view.nodes if name.endswith("IteratorGetNext"))
    with plain_session() as session:
        initialize(session)
        for seed in range(BATCHES):
            batch = random_batch(seed, ROWS, lowest_id=-ROWS // 4 if safe else 0)
            if not trailing:
                batch = without_trailing(batch)
            feeds = {
                tensor_of(TensorRef(source, index)): batch[name]
                for index, name in enumerate(FEATURES)
            }
            for (stock, ours), once in zip(session.run(both, feeds), unique):
                for (values, indices), (our_values, our_indices) in zip(stock, ours):
                    if once:
                        assert len(set(indices)) == len(indices)
                    assert_same_rows(
                        sums(values, indices), sums(our_values, our_indices), tolerance
                    )


def changed(view: GraphView, name: str, change: Callable[[Any], None]) -> GraphView:
    """The graph with one node changed, and a node `alien` for the changed node to read."""
    graph_def = tf.GraphDef(node=view.nodes.values(), library=view.library)
    change(next(node for node in graph_def.node if node.name == name))
    alien = graph_def.node.add(name="alien", op="Placeholder")
    alien.attr["dtype"].CopyFrom(tf.AttrValue(type=tf.float32.as_datatype_enum))
    return GraphView(graph_def)
