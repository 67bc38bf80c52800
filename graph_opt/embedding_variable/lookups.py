"""TensorFlow's lookups with DeepRec's arguments, tables and combiner.

Calls without any of these are TensorFlow's own, and build the same nodes.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional, TypeVar

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import beside
from graph_opt.dynamic.partitioned import PartitionedDynamicTable
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.embedding import fused_lookup
from graph_opt.embedding_variable.composite_tables import CompositeTable

# Saved on import, because `install` replaces these names with the functions below.
_stock_lookup = tf.nn.embedding_lookup
_stock_lookup_sparse = tf.nn.embedding_lookup_sparse
_stock_safe_lookup_sparse = tf.nn.safe_embedding_lookup_sparse
_TILE = "tile"
_PRUNE_OF_DEEPREC = 8  # behind max_norm


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: Optional[str] = None,
    validate_indices: bool = True,
    max_norm: Optional[float] = None,
    ev_init_value: Any = None,
    blocknums: Any = None,
    counts: Any = None,
) -> tf.Tensor:
    """`tf.nn.embedding_lookup` that also takes DeepRec's tables and arguments.

    Args:
      params: As TensorFlow's, an EmbeddingVariable, a multi-hash or dynamic-dimension variable.
      ids: As TensorFlow's, as for the next four.
      partition_strategy: As TensorFlow's.
      name: As TensorFlow's.
      validate_indices: As TensorFlow's.
      max_norm: As TensorFlow's.
      ev_init_value: [ids, dim]. What rows of ids that an EmbeddingVariable does not have start as.
      blocknums: For each id the number of blocks of its row in a dynamic-dimension variable.
      counts: For each id how often it occurred, which an EmbeddingVariable's filter counts.

    Raises:
      ValueError: An argument does not belong to the kind of table.
    """
    params = table = whole(params)
    _check_arguments("embedding_lookup", table, blocknums, ev_init_value, counts)
    if isinstance(table, CompositeTable):
        with tf.name_scope(name, "embedding_lookup"):
            rows = table.rows_of(tf.convert_to_tensor(ids), _as_tensor(blocknums))
            return _clipped(rows, max_norm)
    if ev_init_value is None and counts is None:
        return _stock_lookup(params, ids, partition_strategy, name, validate_indices, max_norm)
    with tf.name_scope(name, "embedding_lookup") as scope:
        ids = tf.convert_to_tensor(ids)
        with beside(table):
            rows = table.sparse_read(ids, scope, ev_init_value, counts)
        return _clipped(tf.identity(rows), max_norm)


def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    partition_strategy: str = "mod",
    name: Optional[str] = None,
    combiner: Optional[str] = None,
    max_norm: Optional[float] = None,
    allow_fast_lookup: Any = False,
    blocknums: Any = None,
) -> tf.Tensor:
    """`tf.nn.embedding_lookup_sparse` that also takes DeepRec's tables, and the combiner `tile`.

    Args:
      params: As for `embedding_lookup`.
      sp_ids: As TensorFlow's, as for the next four.
      sp_weights: As TensorFlow's.
      partition_strategy: As TensorFlow's.
      name: As TensorFlow's.
      combiner: As TensorFlow's, or `tile`: the rows of a row's ids side by side, each in the place
        of its id, with zeros elsewhere: [B, T · D] for ids [B, T].
      max_norm: As TensorFlow's.
      allow_fast_lookup: As TensorFlow's; DeepRec has `blocknums` in its place, and may here.
      blocknums: For each id the number of blocks of its row in a dynamic-dimension variable.
    """
    if not isinstance(allow_fast_lookup, bool):
        allow_fast_lookup, blocknums = False, allow_fast_lookup
    params = table = whole(params)
    _check_arguments("embedding_lookup_sparse", table, blocknums)
    if combiner != _TILE and not isinstance(table, CompositeTable):
        return _stock_lookup_sparse(
            params,
            sp_ids,
            sp_weights,
            partition_strategy,
            name,
            combiner,
            max_norm,
            **_fast(allow_fast_lookup),
        )
    with tf.name_scope(name, "embedding_lookup_sparse"):
        unique, places = tf.unique(sp_ids.values)
        rows = embedding_lookup(
            params,
            unique,
            partition_strategy,
            max_norm=max_norm,
            blocknums=_of_unique(blocknums, unique, places),
        )
        if combiner == _TILE:
            return _tiled(tf.gather(rows, places), sp_ids, sp_weights)
        ids = tf.SparseTensor(sp_ids.indices, places, sp_ids.dense_shape)
        return _stock_lookup_sparse(rows, ids, sp_weights, combiner=combiner or "mean")


_Lookup = TypeVar("_Lookup", bound=Callable[..., tf.Tensor])


def _with_prune_by_name(lookup: _Lookup) -> _Lookup:
    """DeepRec has `prune` where TensorFlow 2.15 has `allow_fast_lookup`; True changes nothing."""

    @functools.wraps(lookup)
    def checked(*arguments: Any, **named: Any) -> tf.Tensor:
        if arguments[_PRUNE_OF_DEEPREC : _PRUNE_OF_DEEPREC + 1] == (False,):
            raise ValueError(
                "safe_embedding_lookup_sparse: argument {} is False, which is prune in DeepRec and "
                "allow_fast_lookup in TensorFlow 2.15: give it by its name".format(
                    _PRUNE_OF_DEEPREC + 1
                )
            )
        return lookup(*arguments, **named)

    return checked  # type: ignore[return-value]


@_with_prune_by_name
def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str = "mean",
    default_id: Optional[int] = None,
    name: Optional[str] = None,
    partition_strategy: str = "div",
    max_norm: Optional[float] = None,
    allow_fast_lookup: bool = False,
    prune: bool = True,
    blocknums: Any = None,
) -> tf.Tensor:
    """`tf.nn.safe_embedding_lookup_sparse` that also takes DeepRec's tables and arguments.

    Args:
      embedding_weights: As for `embedding_lookup`.
      sparse_ids: As TensorFlow's, as for the next six.
      sparse_weights: As TensorFlow's.
      combiner: As for `embedding_lookup_sparse`.
      default_id: As TensorFlow's.
      name: As TensorFlow's.
      partition_strategy: As TensorFlow's.
      max_norm: As TensorFlow's.
      allow_fast_lookup: As TensorFlow's.
      prune: Whether to drop ids below 0, or empty ones of strings, and weights that are not above 0
        unless the combiner is `sum`. To an EmbeddingVariable, ids below 0 are ids like others.
      blocknums: Not supported.
    """
    embedding_weights = table = whole(embedding_weights)
    if blocknums is not None or getattr(table, "needs_blocknums", False):
        raise ValueError(
            "safe_embedding_lookup_sparse takes no dynamic-dimension variable: use "
            "embedding_lookup_sparse"
        )
    sparse_ids = numbered(sparse_ids, table)
    if prune and combiner != _TILE and not isinstance(table, CompositeTable):
        return _stock_safe_lookup_sparse(
            embedding_weights,
            sparse_ids,
            sparse_weights,
            combiner,
            default_id,
            name,
            partition_strategy,
            max_norm,
            **_fast(allow_fast_lookup),
        )
    with tf.name_scope(name, "embedding_lookup"):
        shape = sparse_ids.dense_shape
        is_matrix = tf.dimension_value(shape.shape[0]) == 2
        ids = sparse_ids if is_matrix else as_matrix(sparse_ids)
        weights = None if sparse_weights is None else sparse_weights.values
        if prune:
            ids, weights = pruned(ids, weights, combiner)
        ids, weights, is_empty = _filled(ids, weights, default_id)
        pooled = embedding_lookup_sparse(
            embedding_weights, ids, weights, partition_strategy, None, combiner, max_norm
        )
        if default_id is None:
            pooled = tf.where_v2(tf.expand_dims(is_empty, 1), tf.zeros_like(pooled), pooled)
        if is_matrix:
            return pooled
        leading = tf.cast(shape[:-1], tf.int32)
        return tf.reshape(pooled, tf.concat([leading, tf.shape(pooled)[1:]], 0))


@functools.wraps(fused_lookup.fused_safe_embedding_lookup_sparse)
def fused_safe_embedding_lookup_sparse(
    embedding_weights: Any, sparse_ids: Any, *arguments: Any, **named: Any
) -> tf.Tensor:
    """As graph_opt's, also of a multi-hash variable, whose lookup is made of TensorFlow's ops."""
    if isinstance(whole(embedding_weights), CompositeTable):
        return safe_embedding_lookup_sparse(embedding_weights, sparse_ids, *arguments, **named)
    return fused_lookup.fused_safe_embedding_lookup_sparse(
        embedding_weights, sparse_ids, *arguments, **named
    )


def is_embedding_variable(table: Any) -> bool:
    """Whether a table has a row for each key that came."""
    return isinstance(table, (DynamicTableVariable, PartitionedDynamicTable))


def _check_arguments(function: str, table: Any, blocknums: Any, *of_keys: Any) -> None:
    needs = getattr(table, "needs_blocknums", False)
    if needs and blocknums is None:
        raise ValueError(
            "{}: dynamic-dimension variable {!r} needs blocknums: the number of blocks of each "
            "id".format(function, table.name)
        )
    if blocknums is not None and not needs:
        raise ValueError("{}: blocknums is for dynamic-dimension variables only".format(function))
    if any(one is not None for one in of_keys) and not is_embedding_variable(table):
        raise ValueError(
            "{}: ev_init_value and counts are for EmbeddingVariables only".format(function)
        )


def whole(params: Any) -> Any:
    """The table, also if it is given as its parts: a dynamic table knows which part has an id."""
    if not isinstance(params, (list, tuple)):
        return params
    if len(params) == 1:  # the only part of a partitioned variable is not the variable
        is_ours = isinstance(params[0], CompositeTable) or is_embedding_variable(params[0])
        return params[0] if is_ours else params
    if params and all(isinstance(part, DynamicTableVariable) for part in params):
        names = {part.table_name for part in params}
        if len(names) > 1 or [part.part for part in params] != list(range(params[0].num_parts)):
            raise ValueError(
                "parts of {} are looked up together: need all parts of one table, in order".format(
                    ", ".join(repr(part.op.name) for part in params)
                )
            )
        return PartitionedDynamicTable(params)
    return params


def numbered(ids: Any, table: Any) -> Any:
    """Ids that are strings as keys of their EmbeddingVariable, -1 for the empty one."""
    if not is_embedding_variable(table) or getattr(ids, "dtype", None) != tf.string:
        return ids
    keys = table.parts[0].as_keys(ids.values)
    keys = tf.where_v2(tf.equal(ids.values, ""), tf.constant(-1, keys.dtype), keys)
    return tf.SparseTensor(ids.indices, keys, ids.dense_shape)


def _as_tensor(value: Any) -> Optional[tf.Tensor]:
    return None if value is None else tf.convert_to_tensor(value)


def _fast(allowed: bool) -> Any:
    return {"allow_fast_lookup": True} if allowed else {}


def _clipped(rows: tf.Tensor, max_norm: Optional[float]) -> tf.Tensor:
    return rows if max_norm is None else tf.clip_by_norm(rows, max_norm, axes=[-1])


def _of_unique(blocknums: Any, unique: tf.Tensor, places: tf.Tensor) -> Optional[tf.Tensor]:
    """The largest number of blocks that any occurrence of an id asks for."""
    if blocknums is None:
        return None
    values = blocknums.values if isinstance(blocknums, tf.SparseTensor) else blocknums
    return tf.math.unsorted_segment_max(tf.convert_to_tensor(values), places, tf.size(unique))


def _tiled(rows: tf.Tensor, ids: tf.SparseTensor, weights: Any) -> tf.Tensor:
    if weights is not None:
        rows *= tf.expand_dims(tf.cast(weights.values, rows.dtype), 1)
    width = tf.dimension_value(rows.shape[1])
    shape = tf.concat([ids.dense_shape, tf.cast(tf.shape(rows)[1:], tf.int64)], 0)
    placed = tf.scatter_nd(ids.indices, rows, shape)
    static = tf.get_static_value(ids.dense_shape)
    columns = shape[1] * shape[2] if static is None else static[1] * width
    tiled = tf.reshape(placed, tf.stack([shape[0], columns]))
    if static is not None:
        tiled.set_shape([None, static[1] * width])
    return tiled


def as_matrix(ids: tf.SparseTensor) -> tf.SparseTensor:
    """Ids of any shape as rows of bags."""
    shape = ids.dense_shape
    return tf.sparse.reshape(ids, tf.stack([tf.reduce_prod(shape[:-1]), shape[-1]]))


def pruned(ids: tf.SparseTensor, weights: Any, combiner: str) -> Any:
    """Valid ids and, if there are any, their weights, which are above 0 unless they are summed."""
    kept = tf.greater_equal(ids.values, 0)
    if weights is not None and combiner != "sum":
        kept = tf.logical_and(kept, tf.greater(weights, 0))
    return tf.sparse.retain(ids, kept), None if weights is None else tf.boolean_mask(weights, kept)


def _filled(ids: tf.SparseTensor, weights: Any, default_id: Optional[int]) -> Any:
    """Gives rows without ids one, with weight 1; also tells which rows those are."""
    filled, is_empty = tf.sparse.fill_empty_rows(ids, default_id or 0)
    if weights is not None:
        sparse = tf.SparseTensor(ids.indices, weights, ids.dense_shape)
        weights, _ = tf.sparse.fill_empty_rows(sparse, 1.0)
    return filled, weights, is_empty
