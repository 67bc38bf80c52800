"""Lookups in `sok.Variable`s."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple, Union

from graph_opt.compat import tf
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.ops.group_embedding import COMBINERS
from graph_opt.sharding.exchange import TableLookup, look_up
from graph_opt.sharding.sharded_variable import StaticVariable
from graph_opt.sok.dynamic_variable import HYBRID
from graph_opt.sok.rank_table import RankTable


def lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any = None,
    combiners: Any = None,
    use_low_frequency_filter: bool = False,
) -> Union[tf.Tensor, List[tf.Tensor]]:
    """Pools rows of tables, as `tf.nn.embedding_lookup_sparse`, with all tables in three messages.

    Unlike there, a bag without ids gives zeros, and there is a result for every bag. All ranks must
    look up the same tables in the same order, each its own bags: any number of them, or none.
    Gradients are summed over ranks.

    Args:
      params: `sok.Variable`s, `sok.DynamicVariable`s and tables of layers, one for each of
        `sp_ids`; the same may occur several times. In a dynamic table new ids get rows.
      sp_ids: SparseTensor or RaggedTensor [B, ...] of int32 or int64: one, or a list.
      sp_weights: None, or weights of the same kind and shape; any sign.
      combiners: `sum`, `mean` or `sqrtn`, one for each; `mean` by default.
      use_low_frequency_filter: Of hybrid `sok.DynamicVariable`s: a new id gets a row with the
        probability `filter_ratio` only, and else reads zeros and has no gradient.

    Returns:
      [B, D] for each of `sp_ids`, as a list if they are one.

    Raises:
      TypeError: A table, ids or weights are of a kind that is not supported.
      ValueError: Lists differ in length, there is no such combiner, or a filter is asked for.
      tf.errors.InvalidArgumentError: At run time, an id that the table does not have.

    Example:
      >>> pooled = sok.lookup_sparse([users, items], [user_ids, item_ids], combiners=["sum"] * 2)
    """
    is_list = isinstance(sp_ids, (list, tuple))
    tables = _as_list(params)
    ids = _as_list(sp_ids)
    weights = [None] * len(ids) if sp_weights is None else _as_list(sp_weights)
    kinds = ["mean"] * len(ids) if combiners is None else _as_list(combiners)
    for what, values in (("params", tables), ("sp_weights", weights), ("combiners", kinds)):
        if len(values) != len(ids):
            raise ValueError(
                "{} has {} entries, but sp_ids has {}".format(what, len(values), len(ids))
            )
    lookups = []
    for place, (table, combiner) in enumerate(zip(tables, kinds)):
        if combiner not in COMBINERS:
            raise ValueError(
                "combiners[{}] is {!r}; choose one of {}".format(
                    place, combiner, ", ".join(COMBINERS)
                )
            )
        read = read_ids(place, ids[place], weights[place])
        divided = _checked(place, table, use_low_frequency_filter).sharded_table
        filtered = use_low_frequency_filter or not _has_filter(table)
        lookups.append(TableLookup(divided, read, combiner, filtered=filtered))
    pooled = look_up(lookups, tables[0].transport) if lookups else []
    return pooled if is_list else pooled[0]


def all2all_dense_embedding(param: Any, indices: Any) -> tf.Tensor:
    """Rows of a table, one for each id, as `tf.nn.embedding_lookup`.

    Args:
      param: A `sok.Variable`, or the `embedding_variable` of a layer.
      indices: int32 or int64, of any shape.

    Returns:
      indices.shape + [D].

    Example:
      >>> rows = sok.all2all_dense_embedding(table, [[3, 1], [0, 3]])  # [2, 2, 16]
    """
    ids = tf.convert_to_tensor(indices)
    rows = lookup_sparse(param, tf.reshape(ids, [-1]), combiners="sum")
    width = param.dim if isinstance(param, RankTable) else param.global_shape[1]
    shaped = tf.reshape(rows, tf.concat([tf.shape(ids), [width]], axis=0))
    shaped.set_shape(ids.shape.concatenate(width))
    return shaped


def sparse_read_and_evict(var: Any, indices: Any) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Rows of this rank's keys, and what the table gave up to make room for those that were new.

    Nothing is sent: each rank asks for its own keys.

    Args:
      var: A hybrid `sok.DynamicVariable`.
      indices: Keys, of any shape.

    Returns:
      Rows, indices.shape + [D], which have a gradient; the keys that lost their rows, int64 [E],
      each once; and these rows as they were, [E, D].

    Raises:
      TypeError: The table is another one, which never gives up rows.

    Example:
      >>> rows, keys, evicted = sok.sparse_read_and_evict(table, [3, 7])
    """
    if getattr(var, "backend_type", None) != HYBRID:
        raise TypeError(
            "{!r} never evicts: sok.sparse_read_and_evict is for hybrid "
            "sok.DynamicVariables".format(getattr(var, "name", var))
        )
    found: Tuple[tf.Tensor, tf.Tensor, tf.Tensor] = var.read_and_evict(indices)
    return found


def _checked(place: int, table: Any, filtered: bool = False) -> Union[StaticVariable, RankTable]:
    if not isinstance(table, (StaticVariable, RankTable)):
        raise TypeError(
            "params[{}] is a {}; need a sok.Variable or a sok.DynamicVariable".format(
                place, type(table).__name__
            )
        )
    if filtered and getattr(table, "backend_type", None) != HYBRID:
        raise ValueError(
            "use_low_frequency_filter is for hybrid sok.DynamicVariables; params[{}] is "
            "{!r}".format(place, table.name)
        )
    return table


def _has_filter(table: Any) -> bool:
    return isinstance(table, RankTable) and table.options.admission is not None


def _as_list(value: Any) -> Sequence[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
