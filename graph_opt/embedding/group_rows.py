"""One op that reads rows of many embedding tables without combining them."""

from __future__ import annotations

from typing import Any, List, Optional

from graph_opt.compat import tf
from graph_opt.embedding.group_lookup import (
    LookupRequest,
    as_list,
    check_length,
    lookup_group,
)
from graph_opt.embedding.lookup_builders import builder_of, own_builder
from graph_opt.embedding.tables import devices_of

_NAME = "group_embedding_lookup"


def group_embedding_lookup(
    params: Any, ids: Any, partition_strategy: str = "mod", name: Optional[str] = None
) -> List[tf.Tensor]:
    """Reads rows of many tables, with the results of a `tf.nn.embedding_lookup` for each.

    All tables on a device are read by one op. Tables on parameter servers are looked up one by one
    with TensorFlow's ops, which a session with `do_group_embedding` packs. The same table may occur
    several times.

    Args:
      params: The tables, one for each of `ids`, as in `group_embedding_lookup_sparse`.
      ids: For each table a Tensor of int32 or int64, of any shape.
      partition_strategy: `mod` or `div`: how ids are assigned to the parts of a table.
      name: Name scope of the ops.

    Returns:
      For each of `ids` a Tensor of shape ids.shape + [D].

    Raises:
      ValueError: The lists differ in length, or the strategy is unknown.
      TypeError: Ids or a table are of an unsupported dtype.
      tf.errors.InvalidArgumentError: At run time, an id that the table does not have.

    Example:
      >>> user, items = group_embedding_lookup([user_table, item_table], [user_ids, item_ids])
    """
    tables, all_ids = as_list(params), as_list(ids)
    check_length(_NAME, "ids", len(all_ids), len(tables))
    rows: List[Any] = [None] * len(tables)
    together: List[int] = []
    with tf.name_scope(name, _NAME):
        tensors = [tf.convert_to_tensor(one) for one in all_ids]
        for place, table in enumerate(tables):
            builder = builder_of(devices_of(table), tensors[place].device, own_builder(table))
            if not builder.is_grouped:
                rows[place] = tf.nn.embedding_lookup(
                    table, tensors[place], partition_strategy=partition_strategy
                )
            else:
                together.append(place)
        if together:
            requests = [
                LookupRequest(tables[place], tf.reshape(tensors[place], [-1]), "sum")
                for place in together
            ]
            found = lookup_group(requests, partition_strategy, "rows", safe=False)
            for place, flat in zip(together, found):
                rows[place] = _shaped_like_ids(flat, tensors[place])
    return rows


def _shaped_like_ids(rows: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    width = rows.shape[-1:]
    shape = tf.concat([tf.shape(ids), tf.shape(rows)[1:]], axis=0)
    reshaped = tf.reshape(rows, shape)
    reshaped.set_shape(ids.shape.concatenate(width))
    return reshaped
