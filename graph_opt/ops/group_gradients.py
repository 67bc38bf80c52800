"""The gradients of group lookups: IndexedSlices with unique rows, and gradients of weights."""

from __future__ import annotations

import contextlib
from typing import Any, List, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.eager import is_eager
from graph_opt.ops.group_embedding import (
    NO_DEFAULT,
    GroupAttributes,
    GroupIds,
    group_embedding_gradient,
    group_embedding_weights_gradient,
)

# The row that tf.nn.safe_embedding_lookup_sparse reads for an empty bag and then discards: it gets
# a zero gradient, which matters to optimizers with momentum.
_FILLED_ID = 0


def differentiate(op: tf.Operation, *gradients: Any) -> List[Any]:
    """The gradient function of a group lookup, in the form that `tf.RegisterGradient` expects.

    Args:
      op: The lookup.
      gradients: The gradients of its outputs; None and placeholder zeros count as no gradient.

    Returns:
      A gradient for each input: IndexedSlices for tables, tensors for weights, None for ids.

    Raises:
      tf.errors.UnimplementedError: A table is of int8.
    """
    attributes = GroupAttributes.of(op)
    tables, ids = _inputs_of(op, attributes)
    if any(table.dtype == tf.int8 for table in tables):
        raise tf.errors.UnimplementedError(
            None, None, "{}: tables of int8 are for serving: train those of float32".format(op.name)
        )
    pooled = [i for i, g in enumerate(gradients) if not stands_for_none(g, op.outputs[i])]
    results: List[Any] = [None] * len(op.inputs)
    if not pooled:
        return results
    # With columns, one tensor contains the results of all lookups.
    lookups = list(range(len(attributes.lookup_tables))) if attributes.columns else pooled
    kept = attributes.only(lookups)
    kept_ids = _only(ids, attributes, lookups)
    kept_gradients = [tf.convert_to_tensor(gradients[i]) for i in pooled]
    kept_shards = [s for t in attributes.tables_of(lookups) for s in attributes.shards_of(t)]
    kept_tables = [tables[s] for s in kept_shards]
    with _colocated_with(op):
        slices = _slices(kept_tables, kept_ids, _with_filled_ids(kept), kept_gradients)
        for shard, gradient in zip(kept_shards, slices):
            results[shard] = gradient
        if kept_ids.weights:
            of_weights = group_embedding_weights_gradient(
                kept_tables, kept_ids, kept, kept_gradients
            )
            places = weight_inputs(attributes, len(op.inputs))
            weighted = [i for i, has_weights in enumerate(attributes.weighted) if has_weights]
            kept_places = [place for i, place in zip(weighted, places) if i in lookups]
            for place, gradient in zip(kept_places, of_weights):
                results[place] = gradient
    return results


def _colocated_with(op: Any) -> Any:
    """Places gradients beside their op. What an eager tape recorded has no graph."""
    graph = getattr(op, "graph", None)
    return contextlib.nullcontext() if graph is None else graph.colocate_with(op)


def _with_filled_ids(attributes: GroupAttributes) -> GroupAttributes:
    if not attributes.safe:
        return attributes
    filled = [_FILLED_ID if row == NO_DEFAULT else NO_DEFAULT for row in attributes.default_ids]
    return attributes._replace(filled_ids=filled)


def _slices(
    tables: List[tf.Tensor], ids: GroupIds, attributes: GroupAttributes, gradients: List[tf.Tensor]
) -> List[tf.IndexedSlices]:
    rows, table_rows = rows_of_shards(tables)
    dtypes: List[Any] = []
    for table in range(len(attributes.table_shards)):
        lookup = 0 if attributes.columns else attributes.lookup_tables.index(table)
        dtypes.extend([gradients[lookup].dtype] * attributes.table_shards[table])
    shard_gradients = group_embedding_gradient(ids, attributes, table_rows, gradients, dtypes)
    return [
        indexed_slices(indices, values, count)
        for (indices, values), count in zip(shard_gradients, rows)
    ]


def rows_of_shards(
    tables: Sequence[tf.Tensor], by_key: Sequence[bool] = ()
) -> Tuple[List[Any], tf.Tensor]:
    """The numbers of rows of shards.

    Args:
      tables: Resource handles, or all tensors.
      by_key: Whether each is of a dynamic table; empty: none is.

    Returns:
      For each shard an int if the number is known statically, else a tensor, and 0 of a dynamic
      table; and all numbers as one int64 vector.
    """
    keyed = by_key or [False] * len(tables)
    rows = [0 if by else _num_rows(table) for table, by in zip(tables, keyed)]
    if all(isinstance(count, int) for count in rows):
        return rows, tf.constant(rows, tf.int64)
    return rows, tf.stack([tf.cast(count, tf.int64) for count in rows])


def indexed_slices(indices: tf.Tensor, values: tf.Tensor, rows: Any) -> tf.IndexedSlices:
    """The gradient of a shard.

    Args:
      indices: int64 [K], the rows that have a gradient.
      values: [K, D].
      rows: The shard's number of rows, as in `rows_of_shards`.
    """
    return tf.IndexedSlices(values, indices, _dense_shape(rows, values))


def weight_inputs(attributes: GroupAttributes, num_inputs: int) -> List[int]:
    """Which inputs of a lookup are the weights of its weighted lookups, in their order.

    Args:
      attributes: Of the lookup.
      num_inputs: Its number of inputs; the weights are the last ones.
    """
    return list(range(num_inputs - sum(attributes.weighted), num_inputs))


def _dense_shape(rows: Any, values: tf.Tensor) -> tf.Tensor:
    """Indices as int32, like those of TensorFlow's gathers: branches of a tf.cond must agree."""
    width = tf.dimension_value(values.shape[1])
    if isinstance(rows, int) and width is not None:
        return tf.constant([rows, width], tf.int32)
    return tf.stack([tf.cast(rows, tf.int32), tf.shape(values)[1]])


def _num_rows(table: tf.Tensor) -> Any:
    """The number of rows of a shard: an int if it is known statically, else a tensor."""
    if table.dtype != tf.resource:
        rows = tf.dimension_value(table.shape[0])
        return tf.shape(table, out_type=tf.int64)[0] if rows is None else rows
    if not is_eager(table) and table.op.type == "VarHandleOp":
        shape = tf.TensorShape(table.op.get_attr("shape"))
        if shape.rank is not None and tf.dimension_value(shape[0]) is not None:
            return int(tf.dimension_value(shape[0]))
    return tf.raw_ops.VariableShape(input=table, out_type=tf.int64)[0]


def stands_for_none(gradient: Any, output: tf.Tensor) -> bool:
    """Whether nothing depends on the output, for which TensorFlow then passes zeros.

    Taken as gradients, they would touch rows that no loss depends on, and an optimizer with
    momentum would move these.
    """
    if gradient is None:
        return True
    if is_eager(gradient):
        return False
    if isinstance(gradient, tf.IndexedSlices) or gradient.op.type != "ZerosLike":
        return False
    return gradient.op.inputs[0] is output


def _inputs_of(op: tf.Operation, attributes: GroupAttributes) -> Tuple[List[tf.Tensor], GroupIds]:
    inputs = list(op.inputs)
    num_shards = sum(attributes.table_shards)
    return inputs[:num_shards], GroupIds.of(inputs[num_shards:], len(attributes.lookup_tables))


def _only(ids: GroupIds, attributes: GroupAttributes, lookups: List[int]) -> GroupIds:
    weighted = [i for i, has_weights in enumerate(attributes.weighted) if has_weights]
    return GroupIds(
        ids=[ids.ids[i] for i in lookups],
        positions=[ids.positions[i] for i in lookups],
        shapes=[ids.shapes[i] for i in lookups],
        weights=[ids.weights[weighted.index(i)] for i in lookups if attributes.weighted[i]],
    )
