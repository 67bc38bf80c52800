"""DeepRec's lookups in a single table, which are built as one op."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from graph_opt.compat import tf
from graph_opt.embedding.group_lookup import (
    LookupRequest,
    check_strategy,
    lookup_group,
)
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.embedding.tables import table_parts
from graph_opt.ops.stock_lookup import lookup_separately

_FUSED = "fused_embedding_lookup_sparse"
_FUSED_SAFE = "fused_safe_embedding_lookup_sparse"


def fused_embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sparse_weights: Any = None,
    partition_strategy: Optional[str] = None,
    name: Optional[str] = None,
    combiner: Optional[str] = None,
    max_norm: Optional[float] = None,
    default_id: Optional[int] = None,
    prune_invalid_ids: bool = False,
    fill_empty_row: bool = True,
    blocknums: Any = None,
) -> tf.Tensor:
    """`tf.nn.embedding_lookup_sparse` as one op, with pruning and filling as options.

    TensorFlow's own ops are used where rows are clipped to `max_norm` or rows without ids are not
    filled. `sparse_weights` and `partition_strategy=None`, which DeepRec declares but rejects, are
    supported.

    Args:
      params: A table: a variable or tensor [rows, D], or a list of its parts.
      sp_ids: A SparseTensor [B, T] of int32 or int64; a RaggedTensor or a Tensor works, too.
      sparse_weights: None, or weights of the same kind and shape as the ids.
      partition_strategy: `mod` or `div`; None is `mod`.
      name: Name scope of the ops.
      combiner: `sum`, `mean` or `sqrtn`; None is `mean`.
      max_norm: None, or the norm that rows are clipped to.
      default_id: The table row that stands in where a row of the input has no ids; None for zeros.
      prune_invalid_ids: Whether to drop ids < 0 and, unless the combiner is `sum`, weights that are
        not > 0; otherwise such ids are errors.
      fill_empty_row: Whether every row has a result; otherwise trailing rows without ids have none,
        as with `tf.nn.embedding_lookup_sparse`.
      blocknums: Must be None: tables of dynamic dimension are not supported.

    Returns:
      [B, D].

    Raises:
      ValueError: An option is unknown or not supported.
      TypeError: The ids, weights or table are of an unsupported kind.
      tf.errors.InvalidArgumentError: At run time, an id that the table does not have.

    Example:
      >>> pooled = fused_embedding_lookup_sparse(table, ids, combiner="sum")
    """
    strategy = "mod" if partition_strategy is None else partition_strategy
    combiner = "mean" if combiner is None else combiner
    if blocknums is not None:
        raise ValueError(
            _FUSED + ": blocknums is for DeepRec's tables of dynamic dimension, which are not "
            "supported here; leave it None"
        )
    if default_id is not None and not isinstance(default_id, (int, np.integer)):
        raise ValueError("{}: default_id is {!r}; need an integer".format(_FUSED, default_id))
    check_strategy(_FUSED, strategy)
    with tf.name_scope(name, _FUSED):
        if max_norm is None and fill_empty_row:
            request = LookupRequest(params, sp_ids, combiner, sparse_weights, default_id)
            return lookup_group([request], strategy, "pooled", safe=prune_invalid_ids)[0]
        return lookup_separately(
            table_parts(params),
            read_ids(0, sp_ids, sparse_weights),
            combiner,
            default_id,
            strategy,
            prune=prune_invalid_ids,
            fill=fill_empty_row,
            max_norm=max_norm,
        )


def fused_safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str = "mean",
    default_id: Optional[int] = None,
    name: Optional[str] = None,
    partition_strategy: str = "div",
    max_norm: Optional[float] = None,
    prune: bool = True,
) -> tf.Tensor:
    """`tf.nn.safe_embedding_lookup_sparse` as one op, with the same arguments.

    Args:
      embedding_weights: A table: a variable or tensor [rows, D], or a list of its parts.
      sparse_ids: A SparseTensor [B, T] of int32 or int64.
      sparse_weights: None, or weights of the same shape as the ids.
      combiner: `sum`, `mean` or `sqrtn`.
      default_id: The table row that stands in where a row of the input has no ids; None for zeros.
      name: Name scope of the ops.
      partition_strategy: `mod` or `div`.
      max_norm: None, or the norm that rows are clipped to.
      prune: Whether to drop ids < 0; otherwise they are errors.

    Returns:
      [B, D].

    Raises:
      ValueError, TypeError, tf.errors.InvalidArgumentError: As for `fused_embedding_lookup_sparse`.

    Example:
      >>> pooled = fused_safe_embedding_lookup_sparse(table, ids)
    """
    return fused_embedding_lookup_sparse(
        embedding_weights,
        sparse_ids,
        sparse_weights,
        partition_strategy=partition_strategy,
        name=name or _FUSED_SAFE,
        combiner=combiner,
        max_norm=max_norm,
        default_id=default_id,
        prune_invalid_ids=prune,
    )
