"""What each rank of Horovod saves and loads; an assertion that fails ends all."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.compat import tf
from tests.plain_sessions import plain_session

VALUES = np.arange(22, dtype=np.float32).reshape(11, 2)


def check_saving(folder: str) -> None:
    """Files and checkpoints, in a session and eagerly.

    Args:
      folder: That all ranks see.
    """
    with tf.Graph().as_default(), plain_session() as session:
        table = sok.Variable(VALUES, name="users")
        bag = tf.SparseTensor([[0, 0], [0, 1]], [sok.rank(), 7], [1, 2])
        pooled: Any = sok.lookup_sparse(table, bag, combiners="sum")
        optimizer = sok.OptimizerWrapper(tf.train.AdamOptimizer(0.1))
        step = tf.train.get_or_create_global_step()
        gradients = tf.gradients(tf.reduce_sum(tf.square(pooled)), table)
        train = optimizer.apply_gradients([(gradients[0], table)], global_step=step)
        saver = sok.CheckpointSaver()
        session.run(tf.global_variables_initializer())
        session.run(train)
        sok.dump(os.path.join(folder, "tables"), table, optimizer, session=session)
        saver.save(session, os.path.join(folder, "model"))
        expected = session.run(sok.export(table))[1]
        session.run(train)
        sok.load(os.path.join(folder, "tables"), table, optimizer, session=session)
        np.testing.assert_array_equal(session.run(sok.export(table))[1], expected)
        session.run(train)
        saver.restore(session, os.path.join(folder, "model"))
        np.testing.assert_array_equal(session.run(sok.export(table))[1], expected)
    with context.eager_mode():
        again = sok.Variable(np.zeros_like(VALUES), name="users", mode="localized:1")
        sok.load(os.path.join(folder, "tables"), again)
        if sok.rank() == 1:
            np.testing.assert_array_equal(again.numpy()[sok.rank() :: sok.num_ranks()], expected)
        sok.dump(os.path.join(folder, "again"), again)
        try:
            sok.load(os.path.join(folder, "missing"), again)
        except FileNotFoundError as error:
            assert "no table 'users_0'" in str(error)
