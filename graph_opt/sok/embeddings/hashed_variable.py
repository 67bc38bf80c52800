"""Tables of SparseOperationKit 1 in which a key gets a row when it is first seen."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, NamedTuple, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.dynamic.options import Bank, DynamicTableOptions, Initial, RowLimit
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.reporting.stderr import say_for_all_ranks
from graph_opt.sharding.exchange import TableLookup, look_up
from graph_opt.sharding.initial_part import initial_part
from graph_opt.sharding.initializers import values_of
from graph_opt.sharding.placement import ModRows, Slice
from graph_opt.sharding.transport_in_use import transport_in_use
from graph_opt.sok.rank_table import RankTable

_LIMIT = "max_vocabulary_size_per_gpu"


class HashedVariable(RankTable):
    """A table of a layer, in which every integer is a key.

    Key k is on rank k % N. Rows are given out by lookups that train, until the rank has
    `max_vocabulary_size_per_gpu` of them: a batch that needs more is an error and changes nothing.

    Args:
      m_var_name: Its name in the files of `Saver`: unique in the graph, the same on all ranks.
      file_key_dtype: int64 or uint32, in those files.
      rows: Most rows of a rank.
      width: Number of columns.
      initializer: Of rows. Where it is TensorFlow's or Keras', a key starts with the same row on
        any number of ranks.
      trainable: Whether optimizers update it.

    Attributes:
      m_var_name: As given.
      file_key_dtype: As given.
      moves_every_row: Optimizers that move all rows of a variable in each step, such as Adam, move
        all rows of the table. In SparseOperationKit it is such a variable, too, behind its hash
        table.
    """

    moves_every_row: ClassVar[bool] = True

    def __init__(
        self,
        m_var_name: str,
        file_key_dtype: str,
        rows: int,
        width: int,
        initializer: Any,
        trainable: bool = True,
    ) -> None:
        self.m_var_name = m_var_name
        self.file_key_dtype = file_key_dtype
        self._rows = rows
        start = _start(initializer, rows, width, m_var_name)
        options = DynamicTableOptions(start.initial, limit=RowLimit(rows, _LIMIT))
        super().__init__(m_var_name, width, options, bank=start.bank, trainable=trainable)

    @property
    def emb_handle(self) -> tf.Tensor:
        """The variable's handle."""
        return self.handle

    @property
    def global_shape(self) -> Tuple[int, int]:
        """The most rows of all ranks together, and columns."""
        return self.transport.size * self._rows, self.dim

    def pooled(self, keys: Any, combiner: str, training: Any) -> tf.Tensor:
        """[B, D]: the rows of each bag, combined.

        Args:
          keys: SparseTensor or RaggedTensor of int64, [B, ...].
          combiner: `sum`, `mean` or `sqrtn`.
          training: Whether new keys get rows; others read zeros. None: they do.
        """
        adds: Any = True
        if training is not None:
            adds = tf.cast(training, tf.bool) if tf.is_tensor(training) else bool(training)
        ids = read_ids(0, keys, None)
        return look_up([TableLookup(self.sharded_table, ids, combiner, adds)], self.transport)[0]

    def rows_of(self, keys: Any, training: Any) -> tf.Tensor:
        """[K, D]: the row of each key.

        Args:
          keys: int64 [K].
          training: As for `pooled`.
        """
        return self.pooled(keys, "sum", training)


class _Start(NamedTuple):
    """How rows start: by an initializer that is known, or as rows of a bank."""

    initial: Initial
    bank: Optional[Callable[[], tf.Tensor]] = None


def _start(initializer: Any, rows: int, width: int, name: str) -> _Start:
    transport = transport_in_use()
    shape = rows * transport.size, width
    values = values_of(initializer, shape)
    if values is not None:
        return _Start(values)
    say_for_all_ranks(
        "the initializer of {!r} is neither TensorFlow's nor Keras': of the {} rows that it makes "
        "for a rank, key k starts with row k % {}".format(name, rows, rows)
    )
    part = Slice(ModRows(shape[0], transport.size), 0, width)
    rank = transport.rank
    return _Start(
        Bank(rows), lambda: initial_part(initializer, part, rank, width, tf.float32, name)
    )
