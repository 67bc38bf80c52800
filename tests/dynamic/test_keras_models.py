"""Keras' models of dynamic tables, trained in the session of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graph_opt.compat import tf
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.sharding.initializers import Constant
from tests.release_features import keras_optimizers


class Rows(tf.keras.layers.Layer):
    def __init__(self, table: Any) -> None:
        super().__init__()
        self.table = table

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.nn.embedding_lookup(self.table, ids)


def test_a_model_trains_its_table_in_a_graph(tmp_path: Path) -> None:
    ids = np.array([[7], [-3], [2**40], [7]])
    wanted = np.array([[1.0, 0.0]]).repeat(4, 0)
    with tf.Session() as session:
        tf.keras.backend.set_session(session)
        table = DynamicTableVariable("table", 2, DynamicTableOptions(Constant(0.5)))
        given = tf.keras.Input([], dtype=tf.int64)
        model = tf.keras.Model(given, Rows(table)(given))
        model.compile(keras_optimizers().Adam(0.1), "mse")
        losses = model.fit(ids[:, 0], wanted, epochs=20, verbose=0).history["loss"]
        assert losses[-1] < 0.1 * losses[0]
        assert sorted(session.run(table.export().keys).tolist()) == [-3, 7, 2**40]
        assert set(table.slots) == {"Adam/m", "Adam/v"}
        trained = model.predict(ids[:, 0])
        model.save_weights(str(tmp_path / "weights"))
        session.run(table.initializer)
        assert not np.allclose(model.predict(ids[:, 0]), trained)
        model.load_weights(str(tmp_path / "weights"))
        np.testing.assert_array_equal(model.predict(ids[:, 0]), trained)
