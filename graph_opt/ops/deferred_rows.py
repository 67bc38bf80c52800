"""Deferred updates: rows without a gradient are moved when they are next read.

Optimizers such as Adam move every row of a table in each step. An update with `row_states` moves
only the rows that have a gradient, and keeps up to which step each row is current. Whatever reads
rows has a control edge from one of these ops, which catch them up:

    group_embedding_lookup    group_embedding_catch_up
    group_embedding_gather    group_embedding_catch_up_packed
    anything else             group_embedding_catch_up_all

All take the tables and slots of the update as references or handles, and its row states. Where
nothing is left behind, they return at once. None needs the variables to be initialized. A shard
that is not deferred has the row state "", and any references or handles for slots.
"""

from __future__ import annotations

from typing import Optional, Sequence

from graph_opt.compat import tf
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds
from graph_opt.ops.library import op_for


def row_state_name(name: str, shared_name: str = "", container: str = "") -> str:
    """The entry of `row_states` for a shard.

    What it names is in the container of the variable, and so goes with it on `tf.Session.reset`.

    Args:
      name: Name of the variable's node.
      shared_name: The node's attribute of this name.
      container: The node's attribute of this name.

    Example:
      >>> row_state_name("item/embeddings", container="experiment")
      'experiment:item/embeddings'
    """
    known_as = shared_name or name
    return container + ":" + known_as if container or ":" in known_as else known_as


def group_embedding_catch_up(
    optimizer: str,
    tables: Sequence[tf.Tensor],
    slots: Sequence[tf.Tensor],
    row_states: Sequence[str],
    ids: GroupIds,
    attributes: GroupAttributes,
    name: Optional[str] = None,
) -> tf.Operation:
    """Catches up the rows that a group lookup reads.

    Args:
      optimizer: That of the update.
      tables: The shards of each table, float32: resource handles, or all references.
      slots: The optimizer's first slot of every shard, then its second slot of every shard, ...
      row_states: One for each shard (`row_state_name`).
      ids: What is looked up. Ids that the tables do not have are left to the lookup to report.
      attributes: How it is looked up.
      name: Name of the node.

    Returns:
      The operation, which the lookup must have as a control input.
    """
    return op_for(tables, "group_embedding_catch_up")(
        tables=list(tables),
        slots=list(slots),
        optimizer=optimizer,
        row_states=list(row_states),
        name=name,
        **ids.inputs(),
        **attributes._asdict(),
    )


def group_embedding_catch_up_packed(
    optimizer: str,
    tables: Sequence[tf.Tensor],
    slots: Sequence[tf.Tensor],
    row_states: Sequence[str],
    request: tf.Tensor,
    table_names: Sequence[str],
    name: Optional[str] = None,
) -> tf.Operation:
    """Catches up, on a server, the rows that a worker requests.

    Args:
      optimizer: That of the update.
      tables: Shards on this server, float32: resource handles, or all references.
      slots: The optimizer's first slot of every shard, then its second slot of every shard, ...
      row_states: One for each shard (`row_state_name`).
      request: The request for this server from `group_embedding_prepare`.
      table_names: For error messages, one for each shard.
      name: Name of the node.

    Returns:
      The operation, which `group_embedding_gather` must have as a control input.
    """
    return op_for(tables, "group_embedding_catch_up_packed")(
        tables=list(tables),
        slots=list(slots),
        optimizer=optimizer,
        row_states=list(row_states),
        request=request,
        table_names=list(table_names),
        name=name,
    )


def group_embedding_catch_up_all(
    optimizer: str,
    tables: Sequence[tf.Tensor],
    slots: Sequence[tf.Tensor],
    row_states: Sequence[str],
    table_names: Sequence[str],
    name: Optional[str] = None,
) -> tf.Operation:
    """Catches up all rows; at most once in a step is there anything to do.

    An update that runs in the same step also catches up all rows, as whoever reads the whole
    table may do so after it. If a table or slot is not initialized, what was kept is dropped.

    Args:
      optimizer: That of the update.
      tables: Shards, float32: resource handles, or all references.
      slots: The optimizer's first slot of every shard, then its second slot of every shard, ...
      row_states: One for each shard (`row_state_name`).
      table_names: For error messages, one for each shard.
      name: Name of the node.

    Returns:
      The operation, which the reader must have as a control input.
    """
    return op_for(tables, "group_embedding_catch_up_all")(
        tables=list(tables),
        slots=list(slots),
        optimizer=optimizer,
        row_states=list(row_states),
        table_names=list(table_names),
        name=name,
    )
