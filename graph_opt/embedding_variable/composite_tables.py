"""Tables whose rows are made of others: multi-hash and dynamic-dimension variables."""

from __future__ import annotations

import abc
from typing import Any, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.embedding_variable.get_embedding_variable import (
    AnyEmbeddingVariable,
    get_embedding_variable,
)
from graph_opt.embedding_variable.option_classes import EmbeddingVariableOption, StorageOption

_COMBINED_BY = {
    "add": tf.add,
    "mul": tf.multiply,
    "concat": lambda quotient, remainder: tf.concat([quotient, remainder], -1),
}


class CompositeTable(abc.ABC):
    """A table that is looked up by `tf.nn.embedding_lookup` and its siblings, and by nothing else.

    Attributes:
      name: Of the table.
      dtype: Of its rows.
      needs_blocknums: Whether lookups say how many blocks each row has.
    """

    name: str
    dtype = tf.float32
    needs_blocknums = False

    @property
    @abc.abstractmethod
    def parts(self) -> List[Any]:
        """The variables that have the rows."""

    @abc.abstractmethod
    def rows_of(self, ids: tf.Tensor, blocknums: Optional[tf.Tensor] = None) -> tf.Tensor:
        """The rows of ids, [*ids.shape, width].

        Args:
          ids: Integers of any shape.
          blocknums: Of the shape of `ids`, for tables that need them.
        """

    def __iter__(self) -> Any:
        return iter(self.parts)


class MultiHashVariable(CompositeTable):
    """Rows made of a row for an id's quotient, and one for its remainder.

    Args:
      name: Of the variable.
      quotients: Variable [rows, width]; its number of rows is the divisor.
      remainders: Variable [rows, width]; its number of rows is that of the remainders.
      operation: `add`, `mul` or `concat`: how the two rows become one.
    """

    def __init__(self, name: str, quotients: Any, remainders: Any, operation: str) -> None:
        self.name = name
        self.dtype = tf.as_dtype(quotients.dtype).base_dtype
        self._quotients = quotients
        self._remainders = remainders
        self._operation = operation

    @property
    def parts(self) -> List[Any]:
        """The two variables."""
        return [self._quotients, self._remainders]

    def rows_of(self, ids: tf.Tensor, blocknums: Optional[tf.Tensor] = None) -> tf.Tensor:
        """See `CompositeTable`."""
        divisor = tf.constant(_rows(self._quotients), ids.dtype)
        # DeepRec reads out of range where quotients are as many as the divisor, or more.
        quotient = tf.floormod(tf.floordiv(ids, divisor), divisor)
        remainder = tf.floormod(ids, tf.constant(_rows(self._remainders), ids.dtype))
        return _COMBINED_BY[self._operation](
            tf.nn.embedding_lookup(self._quotients, quotient),
            tf.nn.embedding_lookup(self._remainders, remainder),
        )


def check_multihash(name: str, dims: Any, strategy: str, operation: str) -> None:
    """Raises ValueError unless the options of a multi-hash variable are supported."""
    if len(dims) != 2:
        raise ValueError(
            "multi-hash variable {!r}: dims has {} entries; need 2".format(name, len(dims))
        )
    if strategy != "Q-R":
        raise ValueError(
            "multi-hash variable {!r}: complementary_strategy is {!r}; need 'Q-R'".format(
                name, strategy
            )
        )
    if operation not in _COMBINED_BY:
        raise ValueError(
            "multi-hash variable {!r}: operation is {!r}; need one of {}".format(
                name, operation, ", ".join(sorted(_COMBINED_BY))
            )
        )


def get_multihash_variable(
    name: str,
    dims: Sequence[Sequence[int]],
    complementary_strategy: str = "Q-R",
    operation: str = "add",
    dtype: Any = tf.float32,
    initializer: Any = None,
    **arguments: Any,
) -> MultiHashVariable:
    """A table with a row for every id, in the memory of two small ones.

    Row id // m of the first and row id % n of the second are combined, where m and n are their
    numbers of rows.

    Args:
      name: Of the variable; the small ones are `<name>/multhash_Q` and `<name>/multhash_R`.
      dims: Shapes [rows, width] of the two.
      complementary_strategy: `Q-R`.
      operation: `add`, `mul` or `concat`: how the two rows become one.
      dtype: Of the rows.
      initializer: Of both variables; truncated normal by default.
      **arguments: Others of `tf.get_variable`, for both variables.

    Raises:
      ValueError: An option is not supported.

    Example:
      >>> items = tf.get_multihash_variable("items", [[1000, 16], [1000, 16]])
      >>> rows = tf.nn.embedding_lookup(items, item_ids)
    """
    check_multihash(name, dims, complementary_strategy, operation)
    initializer = tf.truncated_normal_initializer() if initializer is None else initializer
    with tf.variable_scope(name) as scope:
        variables = [
            tf.get_variable(part, list(shape), dtype, initializer, **arguments)
            for part, shape in zip(("multhash_Q", "multhash_R"), dims)
        ]
        return MultiHashVariable(scope.name, variables[0], variables[1], operation)


class DynamicDimensionEmbeddingVariable(CompositeTable):
    """Rows in blocks, of which each id uses the first few; the others are zeros.

    Args:
      name: Of the variable.
      blocks: The EmbeddingVariables of the blocks.
    """

    needs_blocknums = True

    def __init__(self, name: str, blocks: Sequence[AnyEmbeddingVariable]) -> None:
        self.name = name
        self._blocks = list(blocks)

    @property
    def parts(self) -> List[Any]:
        """The variables of all blocks."""
        return [part for block in self._blocks for part in block.parts]

    def rows_of(self, ids: tf.Tensor, blocknums: Optional[tf.Tensor] = None) -> tf.Tensor:
        """See `CompositeTable`; only blocks that an id uses get a row."""
        flat = tf.reshape(ids, [-1])
        numbers = tf.reshape(tf.cast(blocknums, tf.int32), [-1])
        size = tf.size(flat)
        blocks = []
        for place, block in enumerate(self._blocks):
            users = tf.where(tf.greater(numbers, place))
            rows = tf.nn.embedding_lookup(block, tf.gather_nd(flat, users))
            width = block.parts[0].dim
            blocks.append(tf.scatter_nd(users, rows, tf.cast([size, width], tf.int64)))
        joined = tf.concat(blocks, 1)
        width = sum(block.parts[0].dim for block in self._blocks)
        shape = tf.concat([tf.shape(ids), [width]], 0)
        result = tf.reshape(joined, shape)
        result.set_shape(ids.shape.concatenate([width]))
        return result


def get_dynamic_dimension_embedding_variable(
    name: str,
    embedding_block_dimension: Any,
    embedding_block_num: Any,
    *arguments: Any,
    ht_partition_num: int = 1000,
    storage_type: Any = None,
    **named: Any,
) -> DynamicDimensionEmbeddingVariable:
    """An EmbeddingVariable whose rows have blocks, of which rare ids use fewer.

    `tf.nn.embedding_lookup` and its siblings need `blocknums` for it: for each id the number of
    blocks that its row has. The others are zeros, and no memory is spent on them.

    Args:
      name: Of the variable; its blocks are `<name>/block0` and so on.
      embedding_block_dimension: Number of columns of a block.
      embedding_block_num: Number of blocks.
      *arguments: Those of `get_embedding_variable` from `key_dtype` on, but `ev_option`.
      ht_partition_num: Without effect.
      storage_type: A `config_pb2.StorageType` without files.
      **named: See `arguments`.

    Example:
      >>> items = tf.get_dynamic_dimension_embedding_variable("items", 4, 2)
      >>> rows = tf.nn.embedding_lookup(items, [7, 8], blocknums=[1, 2])
    """
    option = EmbeddingVariableOption(
        ht_partition_num=ht_partition_num, storage_option=StorageOption(storage_type)
    )
    named["ev_option"] = option
    width = int(embedding_block_dimension)
    with tf.variable_scope(name) as scope:
        blocks = [
            get_embedding_variable("block{}".format(number), width, *arguments, **named)
            for number in range(int(embedding_block_num))
        ]
        return DynamicDimensionEmbeddingVariable(scope.name, blocks)


def _rows(variable: Any) -> int:
    return int(variable.shape[0])
