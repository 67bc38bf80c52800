"""A model over a table that is sharded across ranks, whose steps can be made to fail."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graph_opt import sok
from graph_opt.compat import tf

ROWS = 10


class Model(NamedTuple):
    """What a script runs.

    Attributes:
      fail_late: Whether the step fails between the rows and their gradients.
      table: The table.
      train: A step.
      total: The sum of the looked-up rows, which are ones.
    """

    fail_late: Any
    table: Any
    train: Any
    total: Any


def build(ids: Any, combiner: str = "sum", by_key: bool = False) -> Model:
    """The model for ids [bags, ids of a bag]; the rows may be those of any keys."""
    table = (
        table_by_key("ones")
        if by_key
        else sok.Variable(np.ones([ROWS, 2], np.float32), name="table")
    )
    fail_late = tf.placeholder_with_default(False, [])
    bags = tf.RaggedTensor.from_tensor(ids)
    pooled = sok.lookup_sparse([table], [bags], combiners=[combiner])[0]
    total = tf.reduce_sum(pooled)
    checked = tf.py_func(torn, [total, fail_late, "late"], tf.float32)
    gradient = tf.gradients(total, table, grad_ys=checked)[0]
    train = tf.train.GradientDescentOptimizer(0.0).apply_gradients([(gradient, table)])
    return Model(fail_late, table, train, total)


def table_by_key(initializer: str, width: int = 2) -> Any:
    """A table whose keys get rows when they are first seen."""
    layer = sok.All2AllDenseEmbedding(ROWS, width, 1, 1, embedding_initializer=initializer)
    return layer.embedding_variable


def torn(values: Any, fails: bool, when: Any) -> Any:
    """For `tf.py_func`: the values, or an error."""
    if fails:
        raise ValueError("record 17 is torn ({})".format(when.decode("utf-8")))
    return values
