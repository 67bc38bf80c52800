"""One op for the lookups of many embedding tables."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.variables import parts_of
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.embedding.separate_lookups import is_elsewhere
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


def group_embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    combiners: Any,
    partition_strategy: Any = "mod",
    sp_weights: Any = None,
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """Looks ids up in many tables, as many calls of `tf.nn.safe_embedding_lookup_sparse` would.

    Ids < 0 are dropped, and weights that are not > 0 unless the combiner is `sum`; a row left
    without ids gives zeros. The tables of one device are read by one op. Gradients are
    IndexedSlices with each row once, which every optimizer takes; as TensorFlow's, they have row 0
    with zeros when a row of the result had no ids.

    Tables on parameter servers, and those with parts on several devices, are looked up one by one
    with TensorFlow's ops, which a session with `do_group_embedding` packs into one transfer for
    each server.

    Args:
      params: The tables, one for each of `sp_ids`: variables (ref or resource) or tensors of
        [rows, D], or partitioned: a PartitionedVariable, or a list of the parts. D and the type
        (float32, float16, bfloat16; sums are kept in float32) may differ from table to table. The
        same table may stand there several times.
      sp_ids: For each table a SparseTensor [B, ...], a RaggedTensor [B, (K)], or a Tensor [B] or
        [B, W]; int32 or int64.
      combiners: `sum`, `mean` or `sqrtn`: one for all, or one for each table.
      partition_strategy: `mod` or `div`: how ids are spread over the parts of a table.
      sp_weights: None, or for each table None or weights of the kind and shape of its ids. Older
        code has this argument before `partition_strategy`; that order is taken, too.
      name: Name scope of the ops.

    Returns:
      For each of `sp_ids` a Tensor [B, D] of its table's type; for a SparseTensor of more than two
      dimensions the last one is replaced by D.

    Raises:
      ValueError: Lists differ in length, shapes do not fit, or a name is unknown.
      TypeError: Ids, weights or a table are of a kind or type that is not supported.
      tf.errors.InvalidArgumentError: At run time, an id that the table does not have (the error
        names table, row and id), ids outside the rows, or weights of another number than ids. On
        a GPU, SparseTensors whose ids are not in the order of their rows, too.

    Example:
      >>> user, item = group_embedding_lookup_sparse(
      ...     [user_table, item_table], [user_ids, item_ids], combiners="mean")
    """
    strategy, weights = _told_apart(partition_strategy, sp_weights)
    tables = _as_list(params)
    all_ids = _as_list(sp_ids)
    num = len(tables)
    _check_length("sp_ids", len(all_ids), num)
    all_combiners = [combiners] * num if _is_text(combiners) else _as_list(combiners)
    _check_length("combiners", len(all_combiners), num)
    all_weights = [None] * num if weights is None else _as_list(weights)
    _check_length("sp_weights", len(all_weights), num)
    requests = [
        LookupRequest(*request) for request in zip(tables, all_ids, all_combiners, all_weights)
    ]
    return lookup_group(requests, strategy, name)


class LookupRequest(NamedTuple):
    """One lookup of a group.

    Attributes:
      table: As in `params` of `group_embedding_lookup_sparse`.
      ids: As in `sp_ids`.
      combiner: `sum`, `mean` or `sqrtn`.
      weights: As in `sp_weights`.
      default_id: The row that a row without ids gives; None is zeros.
    """

    table: Any
    ids: Any
    combiner: str
    weights: Any = None
    default_id: Optional[int] = None


def lookup_group(
    requests: Sequence[LookupRequest], partition_strategy: str = "mod", name: Optional[str] = None
) -> List[tf.Tensor]:
    """As `group_embedding_lookup_sparse`, for lookups that are told one by one.

    Args:
      requests: The lookups.
      partition_strategy: `mod` or `div`.
      name: Name scope of the ops.
    """
    if not requests:
        raise ValueError("group_embedding_lookup_sparse: params is empty; give at least one table")
    if partition_strategy not in PARTITION_STRATEGIES:
        raise ValueError(
            "group_embedding_lookup_sparse: unknown partition_strategy {!r}; need one of {}".format(
                partition_strategy, ", ".join(PARTITION_STRATEGIES)
            )
        )
    with tf.name_scope(name, "group_embedding_lookup_sparse"):
        groups: Dict[Tuple[str, bool], List[_Prepared]] = {}
        pooled: Dict[int, tf.Tensor] = {}
        for place, request in enumerate(requests):
            prepared = _prepare(place, request)
            if is_elsewhere(prepared.table.devices, prepared.ids.ids.device):
                pooled[place] = _look_up_separately(prepared, request, partition_strategy)
            else:
                groups.setdefault(prepared.table.group, []).append(prepared)
        for lookups in groups.values():
            results = _look_up(lookups, partition_strategy)
            pooled.update(zip((lookup.place for lookup in lookups), results))
        return [pooled[place] for place in range(len(requests))]


class _Table(NamedTuple):
    """A table as its parts: what the op reads, and what it stands beside."""

    name: str
    dtype: Any
    shards: List[tf.Tensor]  # handles or values
    devices: Set[str]

    @property
    def group(self) -> Tuple[str, bool]:
        """Tables with the same are read by one op."""
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
    lookup: _Prepared, request: LookupRequest, partition_strategy: str
) -> tf.Tensor:
    return lookup_separately(
        _parts_of(request.table),
        lookup.ids,
        lookup.combiner,
        request.default_id,
        partition_strategy,
    )


def _look_up(lookups: List[_Prepared], partition_strategy: str) -> List[tf.Tensor]:
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
    )
    ids = GroupIds(
        ids=[lookup.ids.ids for lookup in lookups],
        positions=[lookup.ids.positions for lookup in lookups],
        shapes=[lookup.ids.shape for lookup in lookups],
        weights=[lookup.ids.weights for lookup in lookups if lookup.ids.weights is not None],
    )
    shards = [shard for table in tables.values() for shard in table.shards]
    export_users_graph(tf.get_default_graph())
    with _beside(shards):
        dtypes = [lookup.table.dtype for lookup in lookups]
        return group_embedding_lookup(shards, ids, attributes, dtypes)


@contextlib.contextmanager
def _beside(shards: Sequence[tf.Tensor]) -> Any:
    """Places ops on the tables' device: a table itself must never travel."""
    graph = tf.get_default_graph()
    with contextlib.ExitStack() as stack:
        for shard in shards:
            if shard.graph is graph:  # else a function is being built; it takes tables as arguments
                stack.enter_context(graph.colocate_with(shard.op))
        yield


def _read_table(place: int, table: Any) -> _Table:
    parts = _parts_of(table)
    if not parts:
        raise ValueError("table {} is an empty list; give its parts".format(place))
    handles = [_handle_or_value(part) for part in parts]
    resources = {handle.dtype == tf.resource for handle in handles}
    dtypes = {_dtype_of(part) for part in parts}
    name = _name_of(table, handles[0])
    if len(dtypes) > 1 or len(resources) > 1:
        raise TypeError(
            "parts of table {!r} are of different types: {}".format(
                name, ", ".join(sorted(str(dtype) for dtype in dtypes))
            )
        )
    dtype = dtypes.pop()
    if dtype not in TABLE_DTYPES:
        raise TypeError(
            "table {!r} is of type {}; need one of {}".format(
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
    return {_handle_or_value(part).device for part in _parts_of(table)}


def _parts_of(table: Any) -> List[Any]:
    if isinstance(table, (list, tuple)):
        return [part for one in table for part in _parts_of(one)]
    return parts_of(table)


def _handle_or_value(part: Any) -> tf.Tensor:
    handle = getattr(part, "handle", None)
    if handle is not None and handle.dtype == tf.resource:
        return handle
    return tf.convert_to_tensor(part)  # of a ref variable: its own memory, no copy


def _dtype_of(part: Any) -> Any:
    return tf.as_dtype(part.dtype).base_dtype


def _name_of(table: Any, handle: tf.Tensor) -> str:
    name = getattr(table, "name", None) or handle.op.name
    return name.split(":")[0]


def _told_apart(fourth: Any, fifth: Any) -> Tuple[str, Any]:
    """Partition strategy and weights: two orders of these arguments were in use."""
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


def _as_list(value: Any) -> List[Any]:
    is_list = isinstance(value, (list, tuple)) and not isinstance(value, tf.SparseTensorValue)
    return list(value) if is_list else [value]


def _check_length(argument: str, length: int, tables: int) -> None:
    if length != tables:
        raise ValueError(
            "group_embedding_lookup_sparse: {} has {} entries, params has {} tables; give one for "
            "each table".format(argument, length, tables)
        )
