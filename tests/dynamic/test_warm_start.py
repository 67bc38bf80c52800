"""`tf.train.init_from_checkpoint` and warm starts of dynamic tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf

KEYS = [1, -2, 3003]


class Scoped:
    """A table and a variable in a scope."""

    def __init__(self, scope: str, parts: int = 1) -> None:
        partitioner = tf.fixed_size_partitioner(parts) if parts > 1 else None
        with tf.variable_scope(scope):
            self.table = graph_opt.get_embedding_variable("ev", 2, partitioner=partitioner)
            self.dense = tf.get_variable("dense", [2])
        self.rows = tf.nn.embedding_lookup(self.table, tf.constant(KEYS, tf.int64))

    def values(self, session: tf.Session) -> Any:
        return session.run([self.rows, self.dense])


def test_tables_start_from_checkpoints_as_variables_do(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        model = Scoped("old", parts=2)
        session.run(tf.global_variables_initializer())
        rows, dense = model.values(session)
        path = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))

    def started(scope: str, parts: int, start: Any) -> None:
        with tf.Graph().as_default(), tf.Session() as session:
            model = Scoped(scope, parts)
            start(model)
            session.run(tf.global_variables_initializer())
            found = model.values(session)
            np.testing.assert_array_equal(found[0], rows)
            np.testing.assert_array_equal(found[1], dense)

    def init(assignments: Any) -> None:
        tf.train.init_from_checkpoint(path, assignments)

    for parts in (1, 3):
        started("new", parts, lambda model: init({"old/": "new/"}))
        started("old", parts, lambda model: init({"/": "/"}))
        started("new", parts, lambda model: init({"old/ev": "new/ev", "old/dense": "new/dense"}))
        started("new", parts, lambda model: init({"old/ev": model.table, "old/dense": model.dense}))
        started("old", parts, lambda model: tf.train.warm_start(path))
    with tf.Graph().as_default():
        Scoped("new")
        with pytest.raises(ValueError, match="no table 'other/ev' to start 'new/ev' as"):
            init({"other/ev": "new/ev"})
