"""The scope in which a script makes the sharded tables among each other."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from graph_opt.compat import tf
from graph_opt.embedding.marked_tables import mark_table
from graph_opt.sharding.transport_in_use import transport_in_use


@contextlib.contextmanager
def embedding_scope() -> Iterator[None]:
    """Tables that are made in this block are sharded across ranks by the sessions that train them.

    Tables are trained matrices of floats; any other variable is made as usual. DeepRec's scripts
    give tables a partitioner with a part for each rank: they get none here, since sessions divide
    whole tables, whose checkpoints know nothing of ranks. With one rank, nothing changes.
    """
    if transport_in_use().size == 1:
        yield
        return
    scope = tf.get_variable_scope()
    outer = scope.custom_getter

    def in_one_piece(getter: Any, *arguments: Any, **named: Any) -> Any:
        if _is_table(named):
            named["partitioner"] = None
        return outer(getter, *arguments, **named) if outer else getter(*arguments, **named)

    # Entering the scope anew would count names of layers anew.
    scope.set_custom_getter(in_one_piece)
    try:
        with tf.variable_creator_scope(_marking):
            yield
    finally:
        scope.set_custom_getter(outer)


def _marking(create: Any, **named: Any) -> Any:
    variable = create(**named)
    mark_table(variable)
    return variable


def _is_table(named: Any) -> bool:
    dtype, shape = tf.as_dtype(named.get("dtype") or tf.float32), named.get("shape")
    is_matrix = shape is not None and tf.TensorShape(shape).rank == 2
    return is_matrix and dtype.base_dtype.is_floating and named.get("trainable") is not False
