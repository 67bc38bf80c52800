"""One op for the lookups of many embedding tables."""

from __future__ import annotations

import sys
from typing import Any, Dict, Hashable, List, NamedTuple, Optional, Sequence, Tuple, Type

from graph_opt.compat import tf
from graph_opt.embedding.lookup_builders import (
    GroupedLookup,
    LookupBuilder,
    builder_of,
    own_builder,
)
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.embedding.sequences import steps_as_bags
from graph_opt.embedding.tables import read_table
from graph_opt.ops.group_embedding import COMBINERS

PARTITION_STRATEGIES = ("mod", "div")
_NAME = "group_embedding_lookup_sparse"


def group_embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    combiners: Any,
    partition_strategy: Any = "mod",
    sp_weights: Any = None,
    is_sequence: Any = False,
    params_num_per_group: Any = sys.maxsize,
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """Looks up many tables, with the results of a `tf.nn.safe_embedding_lookup_sparse` for each.

    Ids < 0 are dropped and, unless the combiner is `sum`, weights that are not > 0; a row left
    without ids gives zeros. All tables on a device are read by one op. Gradients are IndexedSlices
    in which each row occurs once, which every optimizer accepts; like TensorFlow's, they contain
    row 0 with zeros when a row of the result had no ids.

    Tables on parameter servers, and tables with parts on several devices, are looked up one by one
    with TensorFlow's ops, which a session with `do_group_embedding` packs into one transfer per
    server.

    Args:
      params: The tables, one for each of `sp_ids`: variables (ref or resource) or tensors
        [rows, D]; partitioned tables as a PartitionedVariable or a list of the parts. D and the
        dtype (float32, float16 or bfloat16, always summed in float32) may differ from table to
        table, and the same table may occur several times.
      sp_ids: For each table a SparseTensor [B, ...], a RaggedTensor [B, (K)], or a Tensor [B] or
        [B, W]; int32 or int64.
      combiners: `sum`, `mean` or `sqrtn`: one for all tables, or one for each.
      partition_strategy: `mod` or `div`: how ids are assigned to the parts of a table.
      sp_weights: None, or for each table None or weights of the same kind and shape as its ids.
        Older code passes this argument before `partition_strategy`; that order works, too.
      is_sequence: Whether each id is a step of a sequence: ids [B, T] give [B, T, D], with zeros
        where there is no id. A SparseTensor of more than two dimensions is a sequence of bags
        regardless.
      params_num_per_group: Maximum number of lookups that one op does; > 0.
      name: Name scope of the ops. Older code passes it right after `partition_strategy` and
        `sp_weights`, or after `is_sequence`; that works, too.

    Returns:
      For each of `sp_ids` a Tensor [B, D] of its table's dtype; for a SparseTensor of more than two
      dimensions, D replaces the last one. With `is_sequence`, a Tensor [B, T, D]; for a
      RaggedTensor, T is the length of its longest row.

    Raises:
      ValueError: Lists differ in length, shapes do not match, or a name is unknown.
      TypeError: Ids, weights or a table are of an unsupported kind or dtype.
      tf.errors.InvalidArgumentError: At run time: an id that the table does not have (the error
        names the table, row and id), an id outside the rows, or more or fewer weights than ids. On
        a GPU also: a SparseTensor whose ids are not in row order.

    Example:
      >>> user, item = group_embedding_lookup_sparse(
      ...     [user_table, item_table], [user_ids, item_ids], combiners="mean")
    """
    strategy, weights = _strategy_and_weights(partition_strategy, sp_weights)
    if _is_text(is_sequence):
        is_sequence, name = False, is_sequence
    if _is_text(params_num_per_group):
        params_num_per_group, name = sys.maxsize, params_num_per_group
    tables = as_list(params)
    all_ids = as_list(sp_ids)
    num = len(tables)
    check_length(_NAME, "sp_ids", len(all_ids), num)
    all_combiners = [combiners] * num if _is_text(combiners) else as_list(combiners)
    check_length(_NAME, "combiners", len(all_combiners), num)
    all_weights = [None] * num if weights is None else as_list(weights)
    check_length(_NAME, "sp_weights", len(all_weights), num)
    requests = [
        LookupRequest(*request) for request in zip(tables, all_ids, all_combiners, all_weights)
    ]
    if is_sequence:
        requests = [_of_sequence(place, request) for place, request in enumerate(requests)]
    if params_num_per_group < 1:
        raise ValueError(
            "group_embedding_lookup_sparse: params_num_per_group is {}; need 1 or more".format(
                params_num_per_group
            )
        )
    return lookup_group(requests, strategy, name, params_num_per_group)


def _of_sequence(place: int, request: LookupRequest) -> LookupRequest:
    ids, weights = steps_as_bags(place, request.ids, request.weights)
    return request._replace(ids=ids, weights=weights)


class LookupRequest(NamedTuple):
    """One lookup of a group.

    Attributes:
      table: As in `params` of `group_embedding_lookup_sparse`.
      ids: As in `sp_ids`.
      combiner: `sum`, `mean` or `sqrtn`.
      weights: As in `sp_weights`.
      default_id: The table row that stands in where a row of the input has no ids; None for zeros.
    """

    table: Any
    ids: Any
    combiner: str
    weights: Any = None
    default_id: Optional[int] = None


def lookup_group(
    requests: Sequence[LookupRequest],
    partition_strategy: str = "mod",
    name: Optional[str] = None,
    max_per_op: int = sys.maxsize,
    safe: bool = True,
) -> List[tf.Tensor]:
    """`group_embedding_lookup_sparse` for lookups described one by one.

    Args:
      requests: The lookups.
      partition_strategy: `mod` or `div`.
      name: Name scope of the ops.
      max_per_op: Maximum number of lookups that one op does.
      safe: Whether to drop ids < 0 and, unless the combiner is `sum`, weights that are not > 0;
        otherwise such ids are errors.
    """
    if not requests:
        raise ValueError("group_embedding_lookup_sparse: params is empty; pass at least one table")
    check_strategy(_NAME, partition_strategy)
    with tf.name_scope(name, "group_embedding_lookup_sparse"):
        groups: Dict[Tuple[Type[LookupBuilder], Hashable], List[GroupedLookup]] = {}
        pooled: Dict[int, tf.Tensor] = {}
        for place, request in enumerate(requests):
            lookup = _read(place, request)
            builder = builder_of(
                lookup.table.devices, lookup.ids.ids.device, own_builder(request.table)
            )
            groups.setdefault((builder, builder.group_key(lookup.table)), []).append(lookup)
        for (builder, _), group in groups.items():
            for first in range(0, len(group), max_per_op):
                lookups = group[first : first + max_per_op]
                results = builder.look_up(lookups, partition_strategy, safe)
                pooled.update(zip((lookup.place for lookup in lookups), results))
        return [pooled[place] for place in range(len(requests))]


def _read(place: int, request: LookupRequest) -> GroupedLookup:
    if request.combiner not in COMBINERS:
        raise ValueError(
            "combiner {} is {!r}; need one of {}".format(
                place, request.combiner, ", ".join(COMBINERS)
            )
        )
    ids = read_ids(place, request.ids, request.weights)
    table = read_table(place, request.table)
    return GroupedLookup(place, table, ids, request.combiner, request.default_id)


def _strategy_and_weights(fourth: Any, fifth: Any) -> Tuple[str, Any]:
    """Partition strategy and weights, which scripts pass in either order."""
    if _is_text(fourth):
        return fourth, fifth
    if fifth is None or _is_text(fifth):
        return fifth or "mod", fourth
    if fourth is None:
        return "mod", fifth
    raise TypeError(
        "group_embedding_lookup_sparse: partition_strategy is a {}; need one of {}".format(
            type(fourth).__name__, ", ".join(PARTITION_STRATEGIES)
        )
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def as_list(value: Any) -> List[Any]:
    """An argument as a list, whether it is one or a single value."""
    is_list = isinstance(value, (list, tuple)) and not isinstance(value, tf.SparseTensorValue)
    return list(value) if is_list else [value]


def check_length(function: str, argument: str, length: int, tables: int) -> None:
    """Raises ValueError unless a list has one entry for each table."""
    if length != tables:
        raise ValueError(
            "{}: {} has {} entries, params has {} tables; pass one for each table".format(
                function, argument, length, tables
            )
        )


def check_strategy(function: str, partition_strategy: Any) -> None:
    """Raises ValueError if there is no such strategy."""
    if partition_strategy not in PARTITION_STRATEGIES:
        raise ValueError(
            "{}: unknown partition_strategy {!r}; need one of {}".format(
                function, partition_strategy, ", ".join(PARTITION_STRATEGIES)
            )
        )
