"""Tables in which a key gets a row when it is first seen, on the rank that owns it."""

from __future__ import annotations

from typing import Any, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.eager import owner_of_resource
from graph_opt.compat.resource_variables import ResourceVariable
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.ops.key_rows import (
    CONSTANT,
    FirstValues,
    key_index,
)
from graph_opt.reporting.stderr import say
from graph_opt.sharding.divided_variable import DividedVariable
from graph_opt.sharding.initial_part import initial_part, name_of_eager_table
from graph_opt.sharding.initializers import Constant, stream_key, values_of
from graph_opt.sharding.key_tables import KeyTable, find_rows, local_rows, look_up_keys
from graph_opt.sharding.keyed_rows import KeyedRows, scattered, zeros_if_uninitialized
from graph_opt.sharding.placement import ModRows, Slice
from graph_opt.sharding.transport_in_use import transport_in_use


class HashedVariable(DividedVariable):
    """This rank's rows of a table, in the order in which their keys came.

    Key k is on rank k % N, whatever number it is. Rows are given out by lookups that train.

    Attributes:
      m_var_name: Its name in the files of `Saver`: unique in the graph, the same on all ranks.
      key_dtype: int64 or uint32, in those files.
      row_keys: int64 [1 + rows]: how many keys this rank has, then the key of each row. It belongs
        into every checkpoint of the table.
    """

    def __init__(
        self,
        m_var_name: str,
        key_dtype: str,
        row_keys: Any,
        index: tf.Tensor,
        first_values: FirstValues,
        **arguments: Any,
    ) -> None:
        self.m_var_name = m_var_name
        self.key_dtype = key_dtype
        self.row_keys = row_keys
        self._index = index
        self._index_owner = owner_of_resource(index)
        self._first_values = first_values
        super().__init__(**arguments)

    @property
    def emb_handle(self) -> tf.Tensor:
        """The variable's handle."""
        return self.handle

    @property
    def companions(self) -> Sequence[Any]:
        """See `DividedVariable`."""
        return [self.row_keys]

    @property
    def global_shape(self) -> Tuple[int, int]:
        """Rows of all ranks together, given out or not, and columns."""
        return self.transport.size * int(self.shape[0]), int(self.shape[1])

    def rows_in(self, part: Any) -> KeyedRows:
        """See `DividedVariable`."""
        return HashedRows(self, part)

    @property
    def key_table(self) -> KeyTable:
        """What lookups need to know of it."""
        name, index, values = self.m_var_name, self._index, self._first_values
        return KeyTable(name, self, self.row_keys, index, values)

    def pooled(self, keys: Any, combiner: str, training: Any) -> tf.Tensor:
        """[B, D]: the rows of each bag, combined.

        Args:
          keys: SparseTensor or RaggedTensor of int64, [B, ...].
          combiner: `sum`, `mean` or `sqrtn`.
          training: Whether new keys get rows; others read zeros. None: they do.
        """
        ids = read_ids(0, keys, None)
        return look_up_keys(self.key_table, ids, combiner, _adds(training), self.transport)

    def rows_of(self, keys: Any, training: Any) -> tf.Tensor:
        """[K, D]: the row of each key.

        Args:
          keys: int64 [K].
          training: Whether new keys get rows; others read zeros. None: they do.
        """
        ids = read_ids(0, keys, None)
        found = find_rows(self.key_table, ids, _adds(training), self.transport)
        return tf.gather(found.rows, found.places)


class HashedRows(KeyedRows):
    """Rows of a `HashedVariable`, or of a slot that an optimizer has for it.

    Args:
      table: The table.
      part: The variable that has the rows.
    """

    def __init__(self, table: HashedVariable, part: Any) -> None:
        self.name = part.name.split(":")[0]
        self.dtype = part.dtype.base_dtype
        self.width = int(part.shape[1])
        self.rank = table.transport.rank
        self._num_ranks = table.transport.size
        self._table = table
        self._part = part

    def num_rows(self) -> tf.Tensor:
        """See `KeyedRows`."""
        return tf.convert_to_tensor(self._table.row_keys)[0]

    def block(self, first: Any, count: Any) -> Tuple[tf.Tensor, tf.Tensor]:
        """See `KeyedRows`."""
        begin = tf.cast(first, tf.int64)
        end = tf.minimum(self.num_rows(), begin + tf.cast(count, tf.int64))
        rows = tf.range(begin, end, dtype=tf.int64)
        return tf.gather(self._table.row_keys, 1 + rows), tf.gather(self._part, rows)

    def owners(self, keys: Any) -> Any:
        """See `KeyedRows`."""
        return keys % self._num_ranks

    def places(self, keys: Any) -> Any:
        """See `KeyedRows`. New keys get rows."""
        return local_rows(self._table.key_table, keys, True)

    def clear(self) -> Any:
        """See `KeyedRows`."""
        row_keys = self._table.row_keys
        forgotten = row_keys.assign(tf.zeros(row_keys.shape, tf.int64))
        room = zeros_if_uninitialized(self._part)
        return None if tf.executing_eagerly() else tf.group(forgotten, room)

    def write(self, keys: Any, rows: Any) -> Any:
        """See `KeyedRows`."""
        places = self.places(tf.cast(keys, tf.int64))
        return scattered(self._part, rows, places)


def hashed_variable(
    shape: Tuple[int, int], initializer: Any, name: str, **arguments: Any
) -> HashedVariable:
    """Makes a table whose keys get rows when they are first seen.

    Args:
      shape: Rows of all ranks together, and columns.
      initializer: Of rows. Where it is TensorFlow's or Keras', a key starts with the same row on
        any number of ranks.
      name: The same on all ranks.
      **arguments: Of `HashedVariable` and `tf.Variable`.
    """
    transport = transport_in_use()
    rule = ModRows(shape[0], transport.size)
    local = rule.num_local_rows(transport.rank), shape[1]
    values = values_of(initializer, shape)
    full_name = _full_name(transport, name)
    if values is None:
        say(
            "the initializer of {!r} is neither TensorFlow's nor Keras': keys get its rows in the "
            "order in which they are first seen".format(name)
        )
        start = _rows_of_initializer(initializer, Slice(rule, 0, shape[1]), transport.rank, name)
    else:
        start = _zeros(local)
    row_keys = ResourceVariable(
        initial_value=_row_keys(local[0]),
        trainable=False,
        dtype=tf.int64,
        name=name + "_keys",
    )
    with tf.init_scope():
        index = key_index(row_keys.name.split(":")[0])
    return HashedVariable(
        transport=transport,
        row_keys=row_keys,
        index=index,
        first_values=_first_values(values, full_name),
        initial_value=start,
        dtype=tf.float32,
        name=name,
        **arguments,
    )


def _adds(training: Any) -> Any:
    return True if training is None else training


def _zeros(shape: Tuple[int, int]) -> Any:
    return lambda: tf.zeros(shape, tf.float32)


def _row_keys(rows: int) -> Any:
    return lambda: tf.zeros([1 + rows], tf.int64)


def _rows_of_initializer(initializer: Any, part: Slice, rank: int, name: str) -> Any:
    return lambda: initial_part(initializer, part, rank, part.width, tf.float32, name)


def _first_values(values: Any, name: str) -> FirstValues:
    if values is None:
        return FirstValues()
    if isinstance(values, Constant):
        return FirstValues(CONSTANT, values.value)
    stream = stream_key(name, values.seed)
    return FirstValues(values.distribution, values.first, values.second, stream)


def _full_name(transport: Any, name: str) -> str:
    if tf.executing_eagerly():
        return name_of_eager_table(transport, name)
    scope = tf.get_default_graph().get_name_scope()
    return "{}/{}".format(scope, name) if scope else name
