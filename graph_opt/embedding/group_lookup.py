"""One op for the lookups of many embedding tables."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.variables import parts_of
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.embedding.separate_lookups import needs_separate_lookup
from graph_opt.embedding.sequences import steps_as_bags
from graph_opt.export.users_graph import export_users_graph
from graph_opt.ops.group_embedding import (
    COMBINERS,
    NO_DEFAULT,
    GroupAttributes,
    GroupIds,
    group_embedding_lookup,
)
from graph_opt.ops.stock_lookup import LookupIds, lookup_separately

TABLE_DTYPES = (tf.float32, tf.float16, tf.bfloat16)
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
        groups: Dict[Tuple[str, bool], List[_Prepared]] = {}
        pooled: Dict[int, tf.Tensor] = {}
        for place, request in enumerate(requests):
            prepared = _prepare(place, request)
            if needs_separate_lookup(prepared.table.devices, prepared.ids.ids.device):
                pooled[place] = _look_up_separately(prepared, request, partition_strategy, safe)
            else:
                groups.setdefault(prepared.table.group, []).append(prepared)
        for group in groups.values():
            for first in range(0, len(group), max_per_op):
                lookups = group[first : first + max_per_op]
                results = _look_up(lookups, partition_strategy, safe)
                pooled.update(zip((lookup.place for lookup in lookups), results))
        return [pooled[place] for place in range(len(requests))]


class _Table(NamedTuple):
    """A table as the parts that the op reads, with the devices they are on."""

    name: str
    dtype: Any
    shards: List[tf.Tensor]  # handles or values
    devices: Set[str]

    @property
    def group(self) -> Tuple[str, bool]:
        """Tables of the same group are read by one op."""
        return next(iter(self.devices)), self.shards[0].dtype == tf.resource

    @property
    def key(self) -> Tuple[str, ...]:
        """Equal for equal tables."""
        return tuple(shard.name for shard in self.shards)


class _Prepared(NamedTuple):
    place: int
    table: _Table
    ids: LookupIds
    combiner: str
    default_id: int


def _prepare(place: int, request: LookupRequest) -> _Prepared:
    if request.combiner not in COMBINERS:
        raise ValueError(
            "combiner {} is {!r}; need one of {}".format(
                place, request.combiner, ", ".join(COMBINERS)
            )
        )
    ids = read_ids(place, request.ids, request.weights)
    default_id = NO_DEFAULT if request.default_id is None else request.default_id
    return _Prepared(place, _read_table(place, request.table), ids, request.combiner, default_id)


def _look_up_separately(
    lookup: _Prepared, request: LookupRequest, partition_strategy: str, safe: bool
) -> tf.Tensor:
    return lookup_separately(
        table_parts(request.table),
        lookup.ids,
        lookup.combiner,
        request.default_id,
        partition_strategy,
        prune=safe,
    )


def _look_up(lookups: List[_Prepared], partition_strategy: str, safe: bool) -> List[tf.Tensor]:
    tables: Dict[Tuple[str, ...], _Table] = {}
    for lookup in lookups:
        tables.setdefault(lookup.table.key, lookup.table)
    order = list(tables)
    attributes = GroupAttributes(
        lookup_tables=[order.index(lookup.table.key) for lookup in lookups],
        table_shards=[len(table.shards) for table in tables.values()],
        table_names=[table.name for table in tables.values()],
        combiners=[lookup.combiner for lookup in lookups],
        layouts=[lookup.ids.layout for lookup in lookups],
        weighted=[lookup.ids.weights is not None for lookup in lookups],
        default_ids=[lookup.default_id for lookup in lookups],
        partition_strategy=partition_strategy,
        safe=safe,
    )
    ids = GroupIds(
        ids=[lookup.ids.ids for lookup in lookups],
        positions=[lookup.ids.positions for lookup in lookups],
        shapes=[lookup.ids.shape for lookup in lookups],
        weights=[lookup.ids.weights for lookup in lookups if lookup.ids.weights is not None],
    )
    shards = [shard for table in tables.values() for shard in table.shards]
    export_users_graph(tf.get_default_graph())
    with _colocated_with(shards):
        dtypes = [lookup.table.dtype for lookup in lookups]
        return group_embedding_lookup(shards, ids, attributes, dtypes)


@contextlib.contextmanager
def _colocated_with(shards: Sequence[tf.Tensor]) -> Any:
    """Places ops on the tables' device: a table itself must never be transferred."""
    graph = tf.get_default_graph()
    with contextlib.ExitStack() as stack:
        for shard in shards:
            if shard.graph is graph:  # inside a function, which takes tables as arguments, it isn't
                stack.enter_context(graph.colocate_with(shard.op))
        yield


def _read_table(place: int, table: Any) -> _Table:
    parts = table_parts(table)
    if not parts:
        raise ValueError("table {} is an empty list; pass its parts".format(place))
    handles = [_handle_or_value(part) for part in parts]
    resources = {handle.dtype == tf.resource for handle in handles}
    dtypes = {_dtype_of(part) for part in parts}
    name = _name_of(table, handles[0])
    if len(dtypes) > 1 or len(resources) > 1:
        raise TypeError(
            "parts of table {!r} have different dtypes: {}".format(
                name, ", ".join(sorted(str(dtype) for dtype in dtypes))
            )
        )
    dtype = dtypes.pop()
    if dtype not in TABLE_DTYPES:
        raise TypeError(
            "table {!r} has dtype {}; need one of {}".format(
                name, dtype.name, ", ".join(one.name for one in TABLE_DTYPES)
            )
        )
    for part in parts:
        rank = tf.TensorShape(part.shape).ndims
        if rank not in (None, 2):
            raise ValueError("table {!r} has rank {}; need [rows, width]".format(name, rank))
    return _Table(name, dtype, handles, devices_of(table))


def devices_of(table: Any) -> Set[str]:
    """The devices that a table's parts are on."""
    return {_handle_or_value(part).device for part in table_parts(table)}


def table_parts(table: Any) -> List[Any]:
    """The parts of a table; a table that is not partitioned is its only part."""
    if isinstance(table, (list, tuple)):
        return [part for one in table for part in table_parts(one)]
    return parts_of(table)


def _handle_or_value(part: Any) -> tf.Tensor:
    handle = getattr(part, "handle", None)
    if handle is not None and handle.dtype == tf.resource:
        return handle
    return tf.convert_to_tensor(part)  # for a ref variable its own memory, not a copy


def _dtype_of(part: Any) -> Any:
    return tf.as_dtype(part.dtype).base_dtype


def _name_of(table: Any, handle: tf.Tensor) -> str:
    name = getattr(table, "name", None) or handle.op.name
    return name.split(":")[0]


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
