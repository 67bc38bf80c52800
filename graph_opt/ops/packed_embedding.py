"""Group lookups of tables on parameter servers: one tensor goes to a server, one comes back.

    worker                          server
    prepare   ids -> requests  -->  gather        request -> rows, or pooled rows
    combine   rows -> pooled   <--
    pack_gradients -> updates  -->  apply_packed  update -> its tables

Ids, layouts and columns are those of `graph_opt.ops.group_embedding`. All tables of a packed lookup
are of one type.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds
from graph_opt.ops.library import load_library
from graph_opt.ops.optimizers import default_flags


class ShardPlacement(NamedTuple):
    """Where the shards of a group's tables are.

    Attributes:
      rows: Rows of each shard, in the order of the tables.
      servers: Number of the server that each is on. Each server has one at least.
      num_servers: Servers.
    """

    rows: Sequence[int]
    servers: Sequence[int]
    num_servers: int

    def shards_of(self, server: int) -> List[int]:
        """Numbers of the shards on a server, in the order in which its ops take them."""
        return [shard for shard, place in enumerate(self.servers) if place == server]


class PreparedRows(NamedTuple):
    """What a group lookup needs.

    Attributes:
      requests: For each server int64: the rows, or the bags to pool, shard by shard.
      inverse: int32, for each id and each default row the number of its row among those of its
        table; without the lookups that servers pool.
      counts: int64, the rows asked for of each shard, or -1 where its server pools.
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
) -> PreparedRows:
    """Finds the rows that a lookup needs, each once, or the bags that servers pool.

    Args:
      ids: What is looked up.
      attributes: How.
      placement: Where the shards are.
      table_widths: Width of each table.
      pool_on_server: Whether servers pool the bags of tables in one shard: `always`, `never`, or
        `auto`, where that is less to send. Results are the same to the bit.
      name: Name of the node.

    Returns:
      Its tensors. The op fails with InvalidArgumentError, naming the table, the row and the id,
      when an id is out of range.
    """
    requests, inverse, counts = load_library().group_embedding_prepare(
        num_shards=len(placement.rows),
        shard_rows=list(placement.rows),
        shard_servers=list(placement.servers),
        num_servers=placement.num_servers,
        table_widths=list(table_widths),
        pool_on_server=pool_on_server,
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
    """Reads, on a server, the rows that a worker asks for.

    Args:
      tables: Shards of this server, [rows, D]: resource handles, or all tensors.
      request: What `group_embedding_prepare` gives for this server.
      table_names: For errors, one for each shard.
      dtype: Type of the shards.
      name: Name of the node.

    Returns:
      The rows, one after another: a vector.
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
      rows: Of each server.
      prepared: From the same ids.
      ids: What is looked up.
      attributes: How.
      placement: Where the shards are.
      table_widths: Width of each table.
      name: Name of the node.

    Returns:
      What `group_embedding_lookup` returns, to the bit.
    """
    results = 1 if attributes.columns else len(attributes.lookup_tables)
    pooled = load_library().group_embedding_combine(
        rows=list(rows),
        inverse=prepared.inverse,
        counts=prepared.counts,
        pooled_dtypes=[rows[0].dtype] * results,
        table_widths=list(table_widths),
        num_shards=len(placement.rows),
        shard_servers=list(placement.servers),
        name=name,
        **ids.inputs(),
        **attributes._asdict(),
    )
    return list(pooled)


def group_embedding_pack_gradients(
    ids: GroupIds,
    attributes: GroupAttributes,
    placement: ShardPlacement,
    gradients: Sequence[tf.Tensor],
    pool_on_server: str = "auto",
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """Sums the gradients of pooled rows by row, for each server, or packs them for it to sum.

    Args:
      ids: What was looked up.
      attributes: How.
      placement: Where the shards are.
      gradients: float32, [L], or [1] with columns. Of the pooled rows.
      pool_on_server: As in `group_embedding_prepare`: there servers sum the gradients of bags.
      name: Name of the node.

    Returns:
      For each server a vector of uint8, for `group_embedding_apply_packed`. Equal inputs give
      equal bits, whatever the threads.
    """
    updates = load_library().group_embedding_pack_gradients(
        gradients=list(gradients),
        num_shards=len(placement.rows),
        shard_rows=list(placement.rows),
        shard_servers=list(placement.servers),
        num_servers=placement.num_servers,
        pool_on_server=pool_on_server,
        name=name,
        **ids.inputs(),
        **attributes._asdict(),
    )
    return list(updates)


def group_embedding_apply_packed(
    optimizer: str,
    tables: Sequence[tf.Tensor],
    slots: Sequence[tf.Tensor],
    hyperparameters: Sequence[tf.Tensor],
    update: tf.Tensor,
    table_names: Sequence[str],
    flags: Optional[Sequence[str]] = None,
    use_locking: bool = False,
    name: Optional[str] = None,
) -> tf.Operation:
    """Updates, on a server, the rows that a worker sent gradients of.

    Args:
      optimizer: As in `group_embedding_apply`, as the arguments not listed here.
      tables: Shards of this server, float32: resource handles, or all references.
      slots: The optimizer's first slot of every shard, then its second one of every shard.
      hyperparameters: float32 scalars.
      update: What `group_embedding_pack_gradients` gives for this server.
      table_names: For errors, one for each shard.
      flags: Those of the optimizer that are set; None for those that its spec sets.
      use_locking: Lock the variables exclusively.
      name: Name of the node.

    Returns:
      The operation. The numbers are those of `group_embedding_apply`, to the bit; a malformed
      update fails with InvalidArgumentError and changes nothing.
    """
    library = load_library()
    if tables[0].dtype == tf.resource:
        apply = library.resource_group_embedding_apply_packed
    else:
        apply = library.group_embedding_apply_packed
    return apply(
        tables=list(tables),
        slots=list(slots),
        hyperparameters=list(hyperparameters),
        update=update,
        table_names=list(table_names),
        optimizer=optimizer,
        flags=list(default_flags(optimizer) if flags is None else flags),
        use_locking=use_locking,
        name=name,
    )


def ops_loaded(name: Optional[str] = None) -> tf.Tensor:
    """True, where it is placed; fails with NotFoundError in a process without graph_opt's ops.

    Args:
      name: Name of the node.
    """
    return load_library().graph_opt_loaded(name=name)
