"""Optimizers on tables of release 1 with a hash table: rows move as those of a variable."""

from __future__ import annotations

from typing import Any, Callable, Dict

import numpy as np
import pytest
import tensorflow
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.dynamic import optimizers as module
from graph_opt.sharding.transport import OneRank
from graph_opt.sok.communication import communicating_through
from tests.quick_cases import slow_but
from tests.release_features import keras_optimizers

KERAS = tensorflow.keras.optimizers
ROWS, WIDTH = 12, 2
FIRST = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
# All rows are in the first batch, and some miss each of the others.
BATCHES = [np.arange(ROWS), *np.random.default_rng(1).integers(0, ROWS, (5, 4))]
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "train.adam": lambda: tf.train.AdamOptimizer(0.1),
    "train.rms_prop": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.9),
    "legacy.adam": lambda: keras_optimizers().Adam(0.1),
    "legacy.amsgrad": lambda: keras_optimizers().Adam(0.1, amsgrad=True),
    "legacy.rms_prop": lambda: keras_optimizers().RMSprop(0.1),
    "legacy.centered": lambda: keras_optimizers().RMSprop(0.1, centered=True),
    "legacy.momentum": lambda: keras_optimizers().SGD(0.1, momentum=0.9),
    "keras.adam": lambda: KERAS.Adam(0.1),
    "keras.amsgrad": lambda: KERAS.Adam(0.1, amsgrad=True),
    "keras.adam_w": lambda: KERAS.AdamW(0.1),
    "keras.adamax": lambda: KERAS.Adamax(0.1),
    "keras.rms_prop": lambda: KERAS.RMSprop(0.1, momentum=0.9),
    "keras.momentum": lambda: KERAS.SGD(0.1, momentum=0.9, nesterov=True),
    "keras.adagrad": lambda: KERAS.Adagrad(0.1),
    "keras.adadelta": lambda: KERAS.Adadelta(0.5),
    "keras.ftrl": lambda: KERAS.Ftrl(0.1),
}


def trained(variable: Any, look_up: Callable[[Any], Any], optimizer: Any) -> np.ndarray:
    for batch in BATCHES:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(look_up(tf.constant(batch)) - 1.0))
        optimizer.apply_gradients(zip(tape.gradient(loss, [variable]), [variable]))
    found: np.ndarray = look_up(tf.range(ROWS, dtype=tf.int64)).numpy()
    return found


@pytest.mark.parametrize("name", slow_but(sorted(OPTIMIZERS), "legacy.adam", "keras.adam_w"))
def test_rows_that_miss_a_batch_move_as_those_of_a_variable(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_said", set())
    with communicating_through(OneRank()), context.eager_mode():
        layer = sok.All2AllDenseEmbedding(ROWS, WIDTH, 1, 1, dynamic_input=True)
        sok.Saver().load_embedding_values(layer.embedding_variable, FIRST)
        ours = trained(layer.embedding_variable, layer, OPTIMIZERS[name]())
        variable = tf.Variable(FIRST, use_resource=True)
        theirs = trained(
            variable, lambda ids: tf.nn.embedding_lookup(variable, ids), OPTIMIZERS[name]()
        )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    told = capsys.readouterr().err.count("moves rows of variables that no batch has had yet")
    assert told == (name in ("keras.adam_w", "keras.ftrl"))
