"""`Saver` of SparseOperationKit 1: tables in files of raw keys and rows."""

from __future__ import annotations

import functools
from typing import Any, Callable, List, Sequence, Union

from graph_opt.compat import tf
from graph_opt.sharding.transport import Transport
from graph_opt.sok.embeddings.embedding_variable import EmbeddingVariable
from graph_opt.sok.embeddings.hashed_variable import HashedVariable
from graph_opt.sok.embeddings.raw_files import RawFiles

Table = Union[EmbeddingVariable, HashedVariable]

BLOCK_BYTES = 1 << 26


class Saver:
    """Writes and reads the tables of embedding layers.

    A table `T` becomes two files without headers: `T_keys.file` has its keys and `T_values.file`
    its rows, of all ranks. Values are float32 and all bytes in native order. T is `m_var_name`.

    Keys are int64 or uint32, as the layer says; files with either are read. Files do not depend on
    the number of ranks.

    Example:
      >>> saver = sok.Saver()
      >>> session.run(saver.dump_to_file(layer.embedding_variable, "model"))
    """

    def dump_to_file(self, embedding_variable: Table, filepath: str) -> tf.Tensor:
        """Writes a table. All ranks must call it; rank 0 writes, a block of rows at a time.

        Args:
          embedding_variable: `layer.embedding_variable`.
          filepath: Folder, which is made if it is missing. Files appear in it once they are whole.

        Returns:
          The string `OK`, in a session once it is run. Then the files are complete, on any rank.
        """
        table = _checked(embedding_variable)
        mine, transport = table.keyed_rows, table.transport
        files = RawFiles(filepath, table.m_var_name, mine.width)
        is_writer = transport.rank == 0
        begun = _python(files.begin if is_writer else _nothing, [])
        with tf.control_dependencies([begun]):
            # A collective of constants would be run by TensorFlow while it optimizes the graph.
            count = mine.num_rows() + begun
            block = _rows_of_block(mine.width)
            rounds = _all(transport, (count + block - 1) // block, "max", "rounds")
        names = [transport.message_name("graph_opt_sok_dump_" + part) for part in ("keys", "rows")]
        append = functools.partial(files.append, table.file_key_dtype)

        def write(number: tf.Tensor) -> List[tf.Tensor]:
            sent = mine.block(tf.minimum(number * block, count), block)
            splits = [tf.size(sent[0])] + [0] * (transport.size - 1)
            received = [
                transport.all_to_all(one, tf.stack(splits), name)[0]
                for one, name in zip(sent, names)
            ]
            with tf.control_dependencies([_python(append if is_writer else _nothing, received)]):
                return [number + 1]

        written = _times(rounds, write)
        with tf.control_dependencies([written]):
            ended = _python(files.finish if is_writer else _nothing, [])
        return _ok(_all(transport, ended, "max", "end"))

    def restore_from_file(self, embedding_variable: Table, filepath: str) -> tf.Tensor:
        """Reads a table. Each rank reads the files, and keeps the rows of its own keys.

        Rows of keys that the files do not have stay as they are.

        Args:
          embedding_variable: `layer.embedding_variable`.
          filepath: Folder.

        Returns:
          The string `OK`, in a session once it is run.

        Raises:
          tf.errors.InvalidArgumentError: When it is run: a file is missing, or they are not those
            of a table of this width, or have a key that the table has no row for.
        """
        table = _checked(embedding_variable)
        mine, transport = table.keyed_rows, table.transport
        files = RawFiles(filepath, table.m_var_name, mine.width)
        # As a tensor: eagerly, TensorFlow 1 gives functions nothing else.
        block = tf.constant(_rows_of_block(mine.width), tf.int64)
        count = tf.numpy_function(files.num_rows, [], tf.int64)
        of_rank = functools.partial(files.read, transport.rank, transport.size, mine.num_keys)

        def read(number: tf.Tensor) -> List[tf.Tensor]:
            keys, rows = tf.numpy_function(of_rank, [number * block, block], [tf.int64, tf.float32])
            keys.set_shape([None])
            rows.set_shape([None, mine.width])
            with tf.control_dependencies(_operations(mine.write(keys, rows))):
                return [number + 1]

        return _ok(_times((count + block - 1) // block, read))

    def load_embedding_values(
        self, embedding_variable: Table, tensors: Union[Any, Sequence[Any]]
    ) -> tf.Tensor:
        """Sets the rows of the keys 0, 1, ...: the same call on all ranks.

        Args:
          embedding_variable: `layer.embedding_variable`.
          tensors: [n, D], or a list of such, one after another.

        Returns:
          The string `OK`, in a session once it is run.

        Raises:
          ValueError: The values have another width, or there are more than the table has rows.
        """
        table = _checked(embedding_variable)
        parts = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        values = tf.concat([tf.cast(part, tf.float32) for part in parts], axis=0)
        most, width = table.global_shape
        if not values.shape.is_compatible_with([None, width]):
            raise ValueError(
                "values of shape {} for table {!r} of width {}".format(
                    values.shape, table.m_var_name, width
                )
            )
        rows = tf.compat.dimension_value(values.shape[0])
        if rows is not None and rows > most:
            raise ValueError(
                "{} rows for table {!r}, which has {}".format(rows, table.m_var_name, most)
            )
        transport = table.transport
        keys = tf.range(
            tf.constant(transport.rank, tf.int64),
            tf.shape(values, out_type=tf.int64)[0],
            transport.size,
        )
        with tf.control_dependencies(
            _operations(table.keyed_rows.write(keys, tf.gather(values, keys)))
        ):
            return tf.constant("OK")


def _checked(variable: Any) -> Table:
    if not isinstance(variable, (EmbeddingVariable, HashedVariable)):
        raise TypeError(
            "Saver got a {}; need the embedding_variable of a layer".format(type(variable).__name__)
        )
    return variable


def _rows_of_block(width: int) -> int:
    return max(1, BLOCK_BYTES // (4 * width))


def _all(transport: Transport, value: tf.Tensor, operation: str, what: str) -> tf.Tensor:
    """One number of all ranks."""
    name = transport.message_name("graph_opt_sok_dump_" + what)
    return transport.all_reduce(value, operation, name)


def _times(rounds: tf.Tensor, body: Callable[[tf.Tensor], List[tf.Tensor]]) -> tf.Tensor:
    """Runs the body for 0, 1, ..., one after another; returns `rounds` once it has."""
    return tf.while_loop(
        lambda number: number < rounds, body, [tf.constant(0, tf.int64)], parallel_iterations=1
    )


def _ok(after: tf.Tensor) -> tf.Tensor:
    """`OK`, from a number >= 0: a message that only a control edge asks for would be pruned."""
    return tf.gather(["OK"], tf.minimum(after, 0))


def _operations(operation: Any) -> List[Any]:
    """For control dependencies, of which there are none eagerly."""
    return [] if operation is None or tf.executing_eagerly() else [operation]


def _python(function: Callable[..., Any], inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    """Calls a function that returns 0."""
    zero = tf.numpy_function(function, list(inputs), tf.int64)
    zero.set_shape([])
    return zero


def _nothing(*inputs: Any) -> Any:
    """What ranks that do not write do, from the same nodes."""
    return RawFiles.DONE
