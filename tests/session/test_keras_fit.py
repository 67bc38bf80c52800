"""Keras' `fit` in graph mode: lookups are fused whatever it reads, with TensorFlow's numbers."""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, Iterator, List, Optional

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.quick_cases import slow_but
from tests.session.small_model import report_on

ROWS, BATCH = 256, 32
RANDOM = np.random.RandomState(7)
USERS, ITEMS = RANDOM.randint(0, 50, ROWS), RANDOM.randint(0, 20, [ROWS, 3])
CLICKS = RANDOM.randint(0, 2, [ROWS, 1]).astype(np.float32)
WEIGHTS = np.linspace(0.0, 2.0, ROWS).astype(np.float32)
Fit = Callable[[Any], Any]


def dataset(*parts: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices(parts).batch(BATCH)


def batches(*parts: Any) -> Iterator[Any]:
    while True:
        for start in range(0, ROWS, BATCH):
            part = slice(start, start + BATCH)
            yield tuple(tf.nest.map_structure(operator.itemgetter(part), parts))


class Batches(tf.keras.utils.Sequence):
    """The same batches by number."""

    def __len__(self) -> int:
        return ROWS // BATCH

    def __getitem__(self, number: int) -> Any:
        part = slice(number * BATCH, (number + 1) * BATCH)
        return [USERS[part], ITEMS[part]], CLICKS[part]


def on_dataset(model: Any) -> Any:
    return model.fit(dataset((USERS, ITEMS), CLICKS), epochs=2, verbose=0)


def on_repeated_dataset(model: Any) -> Any:
    repeated = dataset((USERS, ITEMS), CLICKS).repeat()
    held_out = dataset((USERS[:64], ITEMS[:64]), CLICKS[:64])
    return model.fit(repeated, steps_per_epoch=6, epochs=2, verbose=0, validation_data=held_out)


def on_dataset_with_loaded_weights(model: Any) -> Any:
    load = tf.keras.callbacks.LambdaCallback(
        on_train_begin=lambda _: model.set_weights([1.5 * value for value in model.get_weights()])
    )
    return model.fit(dataset((USERS, ITEMS), CLICKS), epochs=2, verbose=0, callbacks=[load])


def on_weighted_dataset(model: Any) -> Any:
    return model.fit(x=dataset((USERS, ITEMS), CLICKS, WEIGHTS), epochs=2, verbose=0)


def on_generator(model: Any) -> Any:
    read = batches([USERS, ITEMS], CLICKS)
    return model.fit(read, steps_per_epoch=8, epochs=2, verbose=0, class_weight={0: 1.0, 1: 3.0})


def on_weighted_generator(model: Any) -> Any:
    read = batches([USERS, ITEMS], CLICKS, WEIGHTS)
    return model.fit(read, steps_per_epoch=8, epochs=2, verbose=0)


def on_sequence(model: Any) -> Any:
    return model.fit(Batches(), epochs=2, verbose=0, shuffle=False)


def on_arrays(model: Any) -> Any:
    return model.fit([USERS, ITEMS], CLICKS, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)


def compiled_model() -> Any:
    tf.set_random_seed(1)
    layers = tf.keras.layers
    user = tf.keras.Input([], dtype=tf.int64)
    items = tf.keras.Input([3], dtype=tf.int64)
    rows = [layers.Embedding(50, 4)(user), layers.Flatten()(layers.Embedding(20, 4)(items))]
    hidden = layers.Dropout(0.2, seed=3)(layers.Dense(8, activation="relu")(tf.concat(rows, 1)))
    model = tf.keras.Model([user, items], layers.Dense(1, activation="sigmoid")(hidden))
    model.compile(tf.train.AdagradOptimizer(0.5), "binary_crossentropy", metrics=["AUC"])
    return model


def trained(fit: Fit, graph: Optional[Any] = None) -> Dict[str, List[Any]]:
    """The history of a training, and the trained weights."""
    with (graph or tf.Graph()).as_default():
        model = compiled_model()
        history = dict(fit(model).history)
        history["weights"] = model.get_weights()
    return history


def fused_config() -> Any:
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.do_group_embedding = True
    return config


@pytest.mark.parametrize(
    "fit",
    slow_but(
        [
            on_dataset,
            on_repeated_dataset,
            on_dataset_with_loaded_weights,
            on_weighted_dataset,
            on_generator,
            on_weighted_generator,
            on_sequence,
            on_arrays,
        ],
        *(on_dataset_with_loaded_weights, on_weighted_generator, on_arrays),
    ),
)
def test_lookups_of_fit_are_fused_and_numbers_are_tensorflows(fit: Fit, capfd: Any) -> None:
    stock, graph = trained(fit), tf.Graph()
    with graph_opt.install(fused_config()):
        fused = trained(fit, graph)
    assert len(report_on(graph).fused) == 2
    assert "not optimized" not in capfd.readouterr().err
    assert stock.keys() == fused.keys()
    for name, values in stock.items():
        for expected, value in zip(values, fused[name]):
            np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-7, err_msg=name)


def test_weights_that_are_loaded_before_leave_fit_to_tensorflow_with_one_line(capfd: Any) -> None:
    def load_and_fit(model: Any) -> Any:
        model.set_weights(model.get_weights())
        return on_dataset(model)

    stock = trained(load_and_fit)
    with graph_opt.install(fused_config()):
        assert trained(load_and_fit)["loss"] == stock["loss"]
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("graph_opt: ")]
    assert len(said) == 1 and "training was added to the graph after" in said[0]


def test_a_model_that_was_not_compiled_has_tensorflows_error() -> None:
    with graph_opt.install(fused_config()), tf.Graph().as_default():
        user = tf.keras.Input([], dtype=tf.int64)
        model = tf.keras.Model(user, tf.keras.layers.Embedding(50, 4)(user))
        with pytest.raises(RuntimeError, match="compile"):
            model.fit(dataset(USERS, CLICKS))
