"""The tables that group lookups are given: variables or tensors, in one piece or in parts."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.variables import parts_of

TABLE_DTYPES = (tf.float32, tf.float16, tf.bfloat16)


class Table(NamedTuple):
    """A table as its parts, with what an op reads of them.

    Attributes:
      name: For errors.
      dtype: The type of its rows.
      parts: As they were passed.
      shards: The handle or the value of each part.
      devices: The devices that the shards are on.
    """

    name: str
    dtype: Any
    parts: List[Any]
    shards: List[tf.Tensor]
    devices: Set[str]

    @property
    def key(self) -> Tuple[str, ...]:
        """Equal for equal tables."""
        return tuple(shard.name for shard in self.shards)


def read_table(place: int, table: Any) -> Table:
    """Reads an argument that is a table.

    Args:
      place: Its position among the tables, for errors.
      table: As in `params` of `group_embedding_lookup_sparse`.

    Raises:
      ValueError: It has no parts, or a part is not a matrix.
      TypeError: Its parts have different dtypes, or one that is not supported.
    """
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
        rank = tf.TensorShape(getattr(part, "table_shape", part.shape)).ndims
        if rank not in (None, 2):
            raise ValueError("table {!r} has rank {}; need [rows, width]".format(name, rank))
    return Table(name, dtype, parts, handles, {handle.device for handle in handles})


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
