"""How a rank's part of a table starts: as those rows of the whole table, on any number of ranks."""

from __future__ import annotations

import collections
import weakref
from typing import Any, Counter, List, MutableMapping, Tuple

from graph_opt.compat import tf
from graph_opt.sharding.initializers import initial_values, stream_key, values_of
from graph_opt.sharding.placement import RowsRule, Slice
from graph_opt.sharding.transport import Transport

# A function that we do not know is called for the whole table, or for blocks of that size.
MOST_ELEMENTS = 1 << 26

_eager_names: MutableMapping[Transport, Counter[str]] = weakref.WeakKeyDictionary()


def initial_part(
    initializer: Any, part: Slice, rank: int, width: int, dtype: Any, name: str
) -> tf.Tensor:
    """The first values of a rank's part of a table: the same rows on any number of ranks.

    Args:
      initializer: An initializer of TensorFlow or Keras, its class or name, a number, or a function
        `(shape, dtype=)`. A function that is none of these initializers gives the values of the
        whole table, with a seed of its own for random numbers; of a table of more than
        `MOST_ELEMENTS` elements, those of a block of rows at a time.
      part: How rows are divided, and which columns.
      rank: The rank.
      width: Number of columns of the whole table.
      dtype: Of the table.
      name: Name of the table; tables with different names get different random numbers.

    Raises:
      TypeError: The initializer is none of these.
      ValueError: A function returns another shape than it was asked for.

    Example:
      >>> part = divided("items", (100, 16), num_ranks=2).slices[0]
      >>> initial_part(tf.keras.initializers.Orthogonal(), part, rank, 16, tf.float32, "items")
    """
    rule = part.rows
    values = values_of(initializer, (rule.num_rows, width))
    if values is not None:
        rows = tf.range(tf.constant(rule.num_local_rows(rank), tf.int64), dtype=tf.int64)
        keys = rule.key(rank, rows)
        return initial_values(values, keys, part.width, dtype, name, part.first_column)
    parts: List[tf.Tensor] = []
    for number, (first, count) in enumerate(_blocks(rule.num_rows, width)):
        seed = stream_key("{}:{}".format(name, number), None) & 0x7FFFFFFF
        with tf.control_dependencies(parts[-1:]):  # one block in memory at a time
            block = _called(initializer, (first, count, width), dtype, name, seed)
            begin, end = (_rows_before(rule, rank, key) for key in (first, first + count))
            rows = tf.range(tf.constant(begin, tf.int64), tf.constant(end, tf.int64))
            columns = block[:, part.first_column : part.first_column + part.width]
            parts.append(tf.gather(columns, rule.key(rank, rows) - first))
    return tf.concat(parts, axis=0)


def name_of_eager_table(transport: Transport, name: str) -> str:
    """Tells eager tables of one name apart, as a graph does: the second "t" is "t_1"."""
    names = _eager_names.setdefault(transport, collections.Counter())
    number = names[name]
    names[name] += 1
    return name if number == 0 else "{}_{}".format(name, number)


def _blocks(num_rows: int, width: int) -> List[Tuple[int, int]]:
    """First row and number of rows of each block, whatever the number of ranks."""
    rows = max(1, MOST_ELEMENTS // max(1, width))
    starts = range(0, num_rows, rows) if num_rows else [0]
    return [(first, min(rows, num_rows - first)) for first in starts]


def _called(
    initializer: Any, block: Tuple[int, int, int], dtype: Any, name: str, seed: int
) -> tf.Tensor:
    first, count, width = block
    seeded = _with_seed(initializer, seed)

    def values() -> tf.Tensor:
        # The seeds of random ops follow from this one and from their place in this function, not
        # from what else the graph holds.
        tf.set_random_seed(seed)
        return tf.convert_to_tensor(seeded([count, width], dtype=dtype), dtype)

    # A function that is called for the first time each time would be warned about.
    result = tf.function(values, autograph=False).get_concrete_function()()
    if not result.shape.is_compatible_with([count, width]):
        raise ValueError(
            "the initializer of table {!r} returned shape {} for rows {} to {}, of shape {}".format(
                name, result.shape, first, first + count, [count, width]
            )
        )
    return result


def _with_seed(initializer: Any, seed: int) -> Any:
    """A Keras initializer without a seed draws one for each process: ranks need the same."""
    get_config = getattr(initializer, "get_config", None)
    if get_config is None or get_config().get("seed", seed) is not None:
        return initializer
    return type(initializer).from_config(dict(get_config(), seed=seed))


def _rows_before(rule: RowsRule, rank: int, key: int) -> int:
    """How many rows of a rank's part, which ascend, have a lower key."""
    low, high = 0, rule.num_local_rows(rank)
    while low < high:
        middle = (low + high) // 2
        if rule.key(rank, middle) < key:
            low = middle + 1
        else:
            high = middle
    return low
