"""The tables of SparseOperationKit 1: the same number of rows on each rank."""

from __future__ import annotations

import weakref
from typing import Any, List, MutableMapping, Sequence, Tuple, Union

from graph_opt.compat import tf
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.sharding.exchange import TableLookup, look_up
from graph_opt.sharding.sharded_variable import StaticVariable
from graph_opt.sharding.transport_in_use import transport_in_use
from graph_opt.sok.core.initialize import seed_of_tables
from graph_opt.sok.distributed_variable import filter_variables, part_of_table
from graph_opt.sok.embeddings.hashed_variable import HashedVariable

_LARGEST = 0.05
_made: MutableMapping[Any, List[int]] = weakref.WeakKeyDictionary()


class EmbeddingVariable(StaticVariable):
    """This rank's part of a table whose keys are its rows.

    Attributes:
      m_var_name: Its name in the files of `Saver`: unique in the graph, the same on all ranks.
      file_key_dtype: int64 or uint32, in those files.
    """

    def __init__(self, m_var_name: str, file_key_dtype: str, **arguments: Any) -> None:
        self.m_var_name = m_var_name
        self.file_key_dtype = file_key_dtype
        super().__init__(**arguments)

    @property
    def emb_handle(self) -> tf.Tensor:
        """The variable's handle."""
        return self.handle

    def pooled(self, keys: Any, combiner: str, training: Any) -> tf.Tensor:
        """[B, D]: the rows of each bag, combined.

        Args:
          keys: SparseTensor or RaggedTensor of int64, [B, ...].
          combiner: `sum`, `mean` or `sqrtn`.
          training: Not used: every key has its row.
        """
        lookup = TableLookup(self.sharded_table, read_ids(0, keys, None), combiner)
        return look_up([lookup], self.transport)[0]

    def rows_of(self, keys: Any, training: Any) -> tf.Tensor:
        """[K, D]: the row of each key.

        Args:
          keys: int64 [K].
          training: Not used: every key has its row.
        """
        lookup = TableLookup(self.sharded_table, read_ids(0, keys, None), "sum")
        return look_up([lookup], self.transport)[0]


def embedding_variable(
    rows_of_rank: int,
    width: int,
    use_hashtable: bool,
    initializer: Any,
    key_dtype: str,
    **arguments: Any,
) -> Union[EmbeddingVariable, HashedVariable]:
    """Makes a table. All ranks must make the same tables in the same order.

    Args:
      rows_of_rank: Rows on each rank.
      width: Number of columns.
      use_hashtable: Whether keys get rows when they are first seen. Otherwise they are the rows.
      initializer: Of its rows; None: uniform from -0.05 to 0.05.
      key_dtype: int64 or uint32.
      **arguments: `trainable`, as for `tf.Variable`.
    """
    if initializer is None:
        initializer = tf.random_uniform_initializer(-_LARGEST, _LARGEST, seed=seed_of_tables())
    name = _next_name()
    if use_hashtable:
        return HashedVariable(
            m_var_name=name,
            file_key_dtype=key_dtype,
            rows=rows_of_rank,
            width=width,
            initializer=initializer,
            **arguments,
        )
    shape = rows_of_rank * transport_in_use().size, width
    part = part_of_table(shape=shape, initializer=initializer, name=name, **arguments)
    return EmbeddingVariable(m_var_name=name, file_key_dtype=key_dtype, **part)


def split_embedding_variable_from_others(
    variables: Sequence[Any],
) -> Tuple[List[Any], List[Any]]:
    """Separates tables that are sharded across ranks from all other variables.

    Raises:
      ValueError: `variables` is neither a list nor a tuple.

    Example:
      >>> tables, others = sok.split_embedding_variable_from_others(model.trainable_variables)
    """
    if not isinstance(variables, (list, tuple)):
        raise ValueError(
            "variables is a {}; need a list or a tuple".format(type(variables).__name__)
        )
    return filter_variables(variables)


def _next_name() -> str:
    """Numbered in the order of creation, on each rank alike."""
    ranks = _made.setdefault(tf.get_default_graph(), [])
    rank = transport_in_use().rank
    number = ranks.count(rank)
    ranks.append(rank)
    return "EmbeddingVariable_{}".format(number) if number else "EmbeddingVariable"
