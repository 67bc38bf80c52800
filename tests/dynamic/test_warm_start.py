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


def test_slots_start_from_checkpoints_as_those_of_variables_do(tmp_path: Path) -> None:
    def trained(scope: str, parts: int, optimizer: Any) -> Any:
        model = Scoped(scope, parts)
        train = optimizer.minimize(tf.reduce_sum(model.rows) + tf.reduce_sum(model.dense))
        return model, train

    adagrad = tf.train.AdagradOptimizer
    with tf.Graph().as_default(), tf.Session() as session:
        model, train = trained("old", 2, adagrad(0.5, 0.25))
        session.run(tf.global_variables_initializer())
        session.run([train, model.rows])
        path = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))
        expected = model.values(session)

    def started(scope: str, parts: int, start: Any) -> None:
        with tf.Graph().as_default(), tf.Session() as session:
            optimizer = adagrad(0.5)
            model, _ = trained(scope, parts, optimizer)
            start(model, [optimizer.get_slot(part, "accumulator") for part in model.table.parts])
            slots = [one.export() for one in tf.global_variables("{}/ev.*/Adagrad".format(scope))]
            assert len(slots) == parts
            session.run(tf.global_variables_initializer())
            for found, value in zip(model.values(session), expected):
                np.testing.assert_array_equal(found, value)
            found = session.run(slots)
            assert sorted(key for part in found for key in part.keys) == sorted(KEYS)
            assert all(
                (part.values == 1.25).all() and (part.versions == -1).all() for part in found
            )

    dense = {"old/dense": "new/dense"}
    for parts in (1, 3):
        started("new", parts, lambda *_: tf.train.init_from_checkpoint(path, {"old/": "new/"}))
        started("old", parts, lambda *_: tf.train.warm_start(path, [".*"]))
        started(
            *("new", parts),
            lambda model, slots: tf.train.init_from_checkpoint(
                path, {"old/ev": model.table, "old/ev/Adagrad": slots, **dense}
            ),
        )
        # Before the table, whose keys it needs.
        started(
            *("new", parts),
            lambda model, slots: [
                tf.train.init_from_checkpoint(path, one)
                for one in ({"old/ev/Adagrad": slots}, {"old/ev": model.table, **dense})
            ],
        )
    with tf.Graph().as_default(), tf.Session() as session:
        trained("new", 1, adagrad(0.5))
        tf.train.init_from_checkpoint(path, {"old/ev/Adagrad": "new/ev/Adagrad"})
        with pytest.raises(tf.errors.FailedPreconditionError, match="for 3 keys, but the table"):
            session.run(tf.global_variables_initializer())
    with tf.Graph().as_default():
        trained("old", 1, tf.train.MomentumOptimizer(0.5, 0.9))
        with pytest.raises(ValueError, match="has no slot 'old/ev/Momentum' to start"):
            tf.train.init_from_checkpoint(path, {"/": "/"})
