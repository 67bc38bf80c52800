"""`embedding_lookup`: rows of one table, on this rank alone."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.eager import handle_of, is_eager
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.embedding.tables import TABLE_DTYPES
from graph_opt.export.users_graph import export_users_graph
from graph_opt.ops.group_embedding import (
    COMBINERS,
    NO_DEFAULT,
    GroupAttributes,
    GroupIds,
    group_embedding_lookup,
)
from graph_opt.ops.stock_lookup import LookupIds, lookup_separately
from graph_opt.sharding.own_rows import note_layer_use

_REDUCTIONS = {"sum": tf.reduce_sum, "mean": tf.reduce_mean}


def embedding_lookup(param: Any, ids: Any, combiner: Optional[str] = None) -> Any:
    """Rows of a table, or the rows of each bag of ids combined, on this rank alone.

    Rows are added in the order of `tf.nn.embedding_lookup_sparse`, so its results are the same to
    the bit, and those of `tf.reduce_sum` over dense ids as well, where a bag has at most 8 ids.

    Args:
      param: The table, [rows, D]: a variable, a tensor or an array.
      ids: Dense, ragged or sparse ids [B, ...] of int32 or int64. Without a combiner, of any rank
        and not sparse.
      combiner: None for the rows themselves; `sum`, `mean` or `sqrtn` for one row a bag. A bag
        without ids gives zeros.

    Returns:
      [B, D]; without a combiner, ids.shape + [D], ragged as the ids are.

    Raises:
      TypeError: The table is no tensor, or ids are of an unsupported kind or dtype.
      ValueError: Ids are not of rank 2, or there is no such combiner.
      tf.errors.InvalidArgumentError: At run time, an id that the table does not have.

    Example:
      >>> embedding_lookup(table, tf.ragged.constant([[1, 2], [], [7]]), combiner="mean")
    """
    ids = _checked(param, ids, combiner)
    if combiner is None:
        if not isinstance(ids, tf.RaggedTensor):
            return tf.nn.embedding_lookup(param, ids)
        return ids.with_flat_values(tf.nn.embedding_lookup(param, ids.flat_values))
    read = read_ids(0, ids, None)
    if tf.as_dtype(param.dtype).base_dtype not in TABLE_DTYPES:
        return _by_stock_ops(param, read, combiner)
    return _by_one_op(param, read, combiner)


def stock_embedding_lookup(param: Any, ids: Any, combiner: Optional[str] = None) -> Any:
    """As `embedding_lookup`, by TensorFlow's own ops; of dense ids it first makes all rows."""
    ids = _checked(param, ids, combiner)
    if combiner is None:
        return tf.nn.embedding_lookup(param, ids)
    if not tf.is_tensor(ids) or combiner not in _REDUCTIONS:
        return _by_stock_ops(param, read_ids(0, ids, None), combiner)
    return _REDUCTIONS[combiner](tf.nn.embedding_lookup(param, ids), axis=1)


@tf.autograph.experimental.do_not_convert
def _by_one_op(param: Any, ids: LookupIds, combiner: str) -> tf.Tensor:
    handle = handle_of(param)
    attributes = GroupAttributes(
        lookup_tables=[0],
        table_shards=[1],
        table_names=[_name_of(param, handle)],
        combiners=[combiner],
        layouts=[ids.layout],
        weighted=[False],
        default_ids=[NO_DEFAULT],
        safe=False,
    )
    group = GroupIds([ids.ids], [ids.positions], [ids.shape], [])
    dtype = tf.as_dtype(param.dtype).base_dtype
    note_layer_use()
    if not tf.executing_eagerly():
        export_users_graph(tf.get_default_graph())
    return group_embedding_lookup([handle], group, attributes, [dtype])[0]


def _by_stock_ops(param: Any, ids: LookupIds, combiner: str) -> tf.Tensor:
    return lookup_separately([param], ids, combiner, None, "mod", prune=False)


def _name_of(param: Any, handle: tf.Tensor) -> str:
    """For errors: eager tensors have no names."""
    if is_eager(param) or isinstance(param, np.ndarray):
        return "param"
    return str(getattr(param, "name", None) or handle.op.name).split(":")[0]


def _checked(param: Any, ids: Any, combiner: Optional[str]) -> Any:
    """The ids as TensorFlow's, once table, ids and combiner fit each other."""
    if not (tf.is_tensor(param) or isinstance(param, np.ndarray)):
        raise TypeError(
            "embedding_lookup needs a variable or a tensor as its table, not a {}".format(
                type(param).__name__
            )
        )
    is_sparse = isinstance(ids, (tf.SparseTensor, tf.SparseTensorValue))
    if is_sparse:
        ids = tf.convert_to_tensor_or_sparse_tensor(ids)
    elif not isinstance(ids, tf.RaggedTensor):
        ids = tf.convert_to_tensor(ids)
    if combiner is None:
        if is_sparse:
            raise TypeError(
                "embedding_lookup cannot return rows of sparse ids: choose a combiner, or give a "
                "RaggedTensor (tf.RaggedTensor.from_sparse)"
            )
        return ids
    if combiner not in COMBINERS:
        raise ValueError(
            "combiner is {!r}; choose None or one of {}".format(combiner, ", ".join(COMBINERS))
        )
    if ids.shape.rank not in (None, 2):
        raise ValueError(
            "embedding_lookup with a combiner needs ids of rank 2, not of shape {}".format(
                ids.shape
            )
        )
    return ids
