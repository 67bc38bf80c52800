"""Group lookups in tables on parameter servers: one tensor to each server, and one back.

    worker                          server
    prepare   ids -> requests  -->  gather        request -> rows, or pooled rows
    combine   rows -> pooled   <--
    pack_gradients -> updates  -->  apply_packed  update -> its tables

Ids, layouts and columns are those of `graph_opt.ops.group_embedding`. All tables of a packed lookup
have the same dtype.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds
from graph_opt.ops.library import load_library, op_for
from graph_opt.ops.optimizers import default_flags


class ShardPlacement(NamedTuple):
    """Where the shards of a group's tables are.

    Attributes:
      rows: Number of rows of each shard, in the order of the tables; not read of dynamic tables.
      servers: Number of the server of each shard.
      num_servers: Number of servers.
    """

    rows: Sequence[int]
    servers: Sequence[int]
    num_servers: int

    def shards_of(self, server: int) -> List[int]:
        """Numbers of the shards on a server, in the order in which its ops expect them."""
        return [shard for shard, place in enumerate(self.servers) if place == server]


class PreparedRows(NamedTuple):
    """What a group lookup requests.

    Attributes:
      requests: For each server int64: the rows or keys, or the bags to pool, shard by shard.
      inverse: int32, for each id and each default row the number of its row among those requested
        of its table; without lookups that servers pool.
      counts: int64, the number of rows requested of each shard, or -1 if its server pools.
    """

    requests: List[tf.Tensor]
    inverse: tf.Tensor
    counts: tf.Tensor


def group_embedding_prepare(
    ids: GroupIds,
    attributes: GroupAttributes,
    placement: ShardPlacement,
    table_widths: Sequence[int],
    pool_on_server: str = "auto",
    name: Optional[str] = None,
    insert: Sequence[Any] = (),
    filtered: bool = True,
) -> PreparedRows:
    """Finds the unique rows or keys that a lookup needs, or the bags that servers are to pool.

    Args:
      ids: What is looked up.
      attributes: How it is looked up.
      placement: Where the shards are.
      table_widths: Width of each table.
      pool_on_server: Whether servers pool the bags of tables of one shard: `always`, `never`, or
        `auto`: whenever that is less to send. Results are bitwise equal.
      name: Name of the node.
      insert: Whether keys without a row get one, for each dynamic table: those whose partition
        strategy is `BY_KEY` or `BY_KEY_1000` (`graph_opt.ops.dynamic_table`); empty: they do.
      filtered: Whether the filters of dynamic tables choose the keys that get one; else all keys
        do that have none, and occurrences are not counted.

    Returns:
      The requests. The op fails with InvalidArgumentError, naming the table, row and id, if an id
      is out of range.
    """
    requests, inverse, counts = load_library().group_embedding_prepare(
        num_shards=len(placement.rows),
        shard_rows=list(placement.rows),
        shard_servers=list(placement.servers),
        num_servers=placement.num_servers,
        table_widths=list(table_widths),
        pool_on_server=pool_on_server,
        insert=[tf.cast(one, tf.bool) for one in insert],
        filtered=filtered,
        name=name,
        **ids.inputs(),
        **attributes._asdict(),
    )
    return PreparedRows(list(requests), inverse, counts)


def group_embedding_gather(
    tables: Sequence[tf.Tensor],
    request: tf.Tensor,
    table_names: Sequence[str],
    dtype: Any,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Reads, on a server, the rows that a worker requests.

    Args:
      tables: Shards on this server, [rows, D]: resource handles, those of dynamic tables among
        them, or all tensors.
      request: The request for this server from `group_embedding_prepare`.
      table_names: For error messages, one for each shard.
      dtype: Dtype of the shards.
      name: Name of the node.

    Returns:
      All rows, concatenated into a vector.
    """
    library = load_library()
    if tables[0].dtype == tf.resource:
        return library.resource_group_embedding_gather(
            list(tables), request, T=dtype, table_names=list(table_names), name=name
        )
    return library.group_embedding_gather(
        list(tables), request, table_names=list(table_names), name=name
    )


def group_embedding_combine(
    rows: Sequence[tf.Tensor],
    prepared: PreparedRows,
    ids: GroupIds,
    attributes: GroupAttributes,
    placement: ShardPlacement,
    table_widths: Sequence[int],
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """Pools the rows that the servers sent.

    Args:
      rows: The rows from each server.
      prepared: The requests, prepared from the same ids.
      ids: What is looked up.
      attributes: How it is looked up.
      placement: Where the shards are.
      table_widths: Width of each table.
      name: Name of the node.

    Returns:
      The same as `group_embedding_lookup`, bitwise.
    """
    pooled = load_library().group_embedding_combine(
        rows=list(rows),
        inverse=prepared.inverse,
        counts=prepared.counts,
        name=name,
        **combine_arguments(ids, attributes, placement, table_widths, rows[0].dtype),
    )
    return list(pooled)


def combine_arguments(
    ids: GroupIds,
    attributes: GroupAttributes,
    placement: ShardPlacement,
    table_widths: Sequence[int],
    dtype: Any,
) -> Dict[str, Any]:
    """What ops that pool received rows are told about the lookup, however rows reached them."""
    results = 1 if attributes.columns else len(attributes.lookup_tables)
    return dict(
        pooled_dtypes=[dtype] * results,
        table_widths=list(table_widths),
        num_shards=len(placement.rows),
        shard_servers=list(placement.servers),
        **ids.inputs(),
        **attributes._asdict(),
    )


def group_embedding_pack_gradients(
    ids: GroupIds,
    attributes: GroupAttributes,
    placement: ShardPlacement,
    gradients: Sequence[tf.Tensor],
    pool_on_server: str = "auto",
    requests: Sequence[tf.Tensor] = (),
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """Sums the gradients of pooled rows by table row for each server, or packs them for it to sum.

    Args:
      ids: What was looked up.
      attributes: How it was looked up.
      placement: Where the shards are.
      gradients: float32, [L], or [1] with columns. The gradients of the pooled rows.
      pool_on_server: As for `group_embedding_prepare`: servers that pool also sum the gradients.
      requests: Those of `group_embedding_prepare`, whose bags are then sent again as they are, and
        which say which servers pool; none: bags are packed anew.
      name: Name of the node.

    Returns:
      For each server a vector of uint8, for `group_embedding_apply_packed`. Equal inputs give
      bitwise equal results for any number of threads.
    """
    made = load_library().group_embedding_pack_gradients(
        gradients=list(gradients),
        requests=list(requests),
        num_shards=len(placement.rows),
        shard_rows=list(placement.rows),
        shard_servers=list(placement.servers),
        num_servers=placement.num_servers,
        pool_on_server=pool_on_server,
        name=name,
        **ids.inputs(),
        **attributes._asdict(),
    )
    return list(made.updates)


def group_embedding_apply_packed(
    optimizer: str,
    tables: Sequence[tf.Tensor],
    slots: Sequence[tf.Tensor],
    hyperparameters: Sequence[tf.Tensor],
    update: tf.Tensor,
    table_names: Sequence[str],
    flags: Optional[Sequence[str]] = None,
    use_locking: bool = False,
    row_states: Sequence[str] = (),
    name: Optional[str] = None,
) -> tf.Operation:
    """Updates, on a server, the rows whose gradients a worker has sent.

    Args:
      optimizer: Name of its spec (`optimizer_specs`).
      tables: Shards on this server, float32: resource handles, or all references.
      slots: The optimizer's first slot of every shard, then its second slot of every shard, ...
        Those of a dynamic table must be slots of that table.
      hyperparameters: float32 scalars, in the order of the spec.
      update: The update for this server from `group_embedding_pack_gradients`.
      table_names: For error messages, one for each shard.
      flags: The optimizer's flags that are set; None for the defaults of its spec.
      use_locking: Whether to lock the variables exclusively.
      row_states: For a deferred update (`graph_opt.ops.deferred_rows`), one for each shard.
      name: Name of the node.

    Returns:
      The operation. The results are bitwise those of `group_embedding_apply`. A malformed update
      fails with InvalidArgumentError and changes nothing.
    """
    return op_for(tables, "group_embedding_apply_packed")(
        tables=list(tables),
        slots=list(slots),
        hyperparameters=list(hyperparameters),
        update=update,
        table_names=list(table_names),
        optimizer=optimizer,
        flags=list(default_flags(optimizer) if flags is None else flags),
        use_locking=use_locking,
        row_states=list(row_states),
        name=name,
    )


def ops_loaded(name: Optional[str] = None) -> tf.Tensor:
    """True; fails with NotFoundError if placed in a process without graph_opt's ops.

    Args:
      name: Name of the node.
    """
    return load_library().graph_opt_loaded(name=name)


def library_of_process(name: Optional[str] = None) -> List[tf.Tensor]:
    """The release of the process's library of graph_opt's ops, and a hash of their definitions.

    Fails with NotFoundError if placed in a process without the ops, or with an older library.

    Args:
      name: Name of the node.
    """
    return list(load_library().graph_opt_library(name=name))
