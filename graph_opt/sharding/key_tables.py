"""Lookups in tables that give rows to keys when they are first seen, on the ranks that own them.

    rank: keys, each once ══► owner: keys -> rows of its part, read ══► rank: pooled rows

A double arrow is a message; gradients of rows travel back in a third one. Each row travels once.
Keys travel behind the header of an exchange: a rank that has none may send an error instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from graph_opt.compat import tf
from graph_opt.compat.eager import handle_of
from graph_opt.export.users_graph import export_users_graph
from graph_opt.ops.exchange import exchange_requests
from graph_opt.ops.group_embedding import (
    NO_DEFAULT,
    GroupAttributes,
    GroupIds,
    group_embedding_lookup,
)
from graph_opt.ops.key_rows import FirstValues, asked_keys, keys_by_owner, rows_of_keys
from graph_opt.ops.message_names import IDS_SUFFIX
from graph_opt.ops.stock_lookup import LookupIds
from graph_opt.sharding.guard import guard_graph, guarded_eagerly
from graph_opt.sharding.input_end import dropping_rest, ended_flag, waits_for_all
from graph_opt.sharding.transport import Transport

_SCOPE = "graph_opt/"


class KeyTable(NamedTuple):
    """This rank's rows of a table, in the order in which their keys came.

    Attributes:
      name: The same on all ranks.
      part: The float32 variable with the rows, [rows, D].
      row_keys: The int64 variable [1 + rows]: the number of keys, then the key of each row.
      index: From `graph_opt.ops.key_rows.key_index`.
      first_values: How a row starts.
    """

    name: str
    part: Any
    row_keys: Any
    index: tf.Tensor
    first_values: FirstValues


class FoundRows(NamedTuple):
    """The rows of some keys, from wherever they are.

    Attributes:
      rows: [U, D], each once.
      places: int64 [K]. The place among them of each key.
    """

    rows: tf.Tensor
    places: tf.Tensor


def local_rows(table: KeyTable, keys: tf.Tensor, add: Any) -> tf.Tensor:
    """int64 [n]: the rows of keys of this rank; -1 for those without one.

    Args:
      table: The table.
      keys: int64 [n]. Keys that this rank owns.
      add: Whether new keys get rows: a bool, or a tensor.
    """
    return rows_of_keys(
        handle_of(table.row_keys),
        handle_of(table.part),
        table.index,
        keys,
        add,
        table.first_values,
    )


@tf.autograph.experimental.do_not_convert
def find_rows(table: KeyTable, ids: LookupIds, add: Any, transport: Transport) -> FoundRows:
    """Brings the rows of keys here. All ranks must make the same lookups in the same order.

    Args:
      table: The table.
      ids: K keys, int32 or int64, in any number of bags.
      add: Whether new keys get rows: a bool, or a tensor. Others read zeros.
      transport: How to reach the other ranks; with one rank nothing is sent.
    """
    name = transport.message_name("graph_opt_keys")
    guard_graph(transport)
    with tf.name_scope(_SCOPE), guarded_eagerly(transport):
        ended = ended_flag([ids], transport)
        asked = keys_by_owner(
            tf.cast(tf.reshape(ids.ids, [-1]), tf.int64),
            transport.size,
            table.name,
            int(table.part.shape[1]),
            ended if waits_for_all(transport) else False,
        )
        send = dropping_rest(transport, ended)
        ready = exchange_requests(asked.requests, transport.place + name)
        requests, splits = send(ready, asked.splits, name + IDS_SUFFIX)
        mine = asked_keys(requests, splits, transport.place + name)
        rows = local_rows(table, mine.keys, add)
        found = tf.gather(table.part, rows) if add is True else _rows_or_zeros(table.part, rows)
        received, _ = transport.all_to_all(found, mine.counts, name + "_rows")
    if not tf.executing_eagerly():
        export_users_graph(tf.get_default_graph())
    return FoundRows(received, asked.places)


def _rows_or_zeros(part: Any, rows: tf.Tensor) -> tf.Tensor:
    """Zeros for rows < 0: not a row's times zero, which an optimizer with momentum would move."""
    places = tf.where_v2(rows >= 0)
    found = tf.gather(part, tf.gather_nd(rows, places))
    shape = tf.stack([tf.size(rows, out_type=tf.int64), tf.shape(part, out_type=tf.int64)[1]])
    return tf.scatter_nd(places, found, shape)


def look_up_keys(
    table: KeyTable, ids: LookupIds, combiner: str, add: Any, transport: Transport
) -> tf.Tensor:
    """[B, D]: the rows of each bag of keys, combined.

    Args:
      table: The table.
      ids: Keys, and their weights if they have any; int32 or int64.
      combiner: `sum`, `mean` or `sqrtn`.
      add: Whether new keys get rows: a bool, or a tensor. Others read zeros.
      transport: How to reach the other ranks.
    """
    found = find_rows(table, ids, add, transport)
    weights = [] if ids.weights is None else [ids.weights]
    places = tf.reshape(found.places, tf.shape(ids.ids))
    places.set_shape(ids.ids.shape)
    attributes = GroupAttributes(
        lookup_tables=[0],
        table_shards=[1],
        table_names=[table.name],
        combiners=[combiner],
        layouts=[ids.layout],
        weighted=[bool(weights)],
        default_ids=[NO_DEFAULT],
        safe=False,
    )
    group = GroupIds([places], [ids.positions], [ids.shape], weights)
    return group_embedding_lookup([found.rows], group, attributes, [found.rows.dtype])[0]
