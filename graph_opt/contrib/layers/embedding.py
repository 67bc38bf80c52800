"""Sequences of ids as sequences of rows."""

from __future__ import annotations

from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.contrib.variables import layer_variable


def embed_sequence(
    ids: Any,
    vocab_size: Optional[int] = None,
    embed_dim: Optional[int] = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> tf.Tensor:
    """The rows of ids in a table `embeddings`.

    Args:
      ids: [B, T] integers.
      vocab_size: Number of rows.
      embed_dim: Number of columns.
      unique: Whether each id is looked up once.
      initializer: Of the table.
      regularizer: Of the table.
      trainable: Whether the table is trained.
      scope: Variable scope; `EmbedSequence` by default.
      reuse: Of the variable scope. The table's shape need not be given to reuse it.

    Returns:
      [B, T, embed_dim].

    Raises:
      ValueError: The shape of a new table is not given.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError("embed_sequence: need vocab_size and embed_dim for a new table")
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        table = layer_variable(
            "embeddings",
            shape,
            None,
            initializer,
            regularizer,
            trainable,
        )
        if not unique:
            return tf.nn.embedding_lookup(table, ids)
        flat = tf.unique(tf.reshape(ids, [-1]))
        rows = tf.gather(tf.nn.embedding_lookup(table, flat[0]), flat[1])
        return tf.reshape(rows, tf.concat([tf.shape(ids), tf.shape(rows)[1:]], 0))
