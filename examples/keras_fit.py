"""Keras' model.fit in TensorFlow 1's graph mode, trained with graph_opt or without it.

    python keras_fit.py
    python keras_fit.py --stock      by TensorFlow alone, to compare

`graph_opt.install(config)` lays the config over that of every session, the one that Keras opens
included. The model's inputs are the dataset's own tensors: arrays given to `fit` would be fed at
each step, too late for lookups to run ahead of it.
"""

from __future__ import annotations

import argparse
from typing import Any, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

import graph_opt

ROWS, BATCH, USERS, ITEMS, HISTORY = 16384, 256, 5000, 2000, 10
layers = tf.keras.layers


def make_rows() -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users [N], items that each has seen [N, HISTORY], and clicks [N, 1]."""
    random = np.random.RandomState(1)
    user = random.zipf(1.2, ROWS) % USERS
    seen = random.zipf(1.2, [ROWS, HISTORY]) % ITEMS
    odds = np.where(user % 2 == seen[:, 0] % 2, 0.9, 0.1)
    return user, seen, (random.rand(ROWS, 1) < odds[:, np.newaxis]).astype(np.float32)


class Network:
    """Layers that several Keras models can share."""

    def __init__(self) -> None:
        self.users = layers.Embedding(USERS, 16)
        self.items = layers.Embedding(ITEMS, 16)
        self.dense = [layers.Dense(units, activation="relu") for units in (64, 32)]
        self.click = layers.Dense(1, activation="sigmoid")

    def model(self, user: tf.Tensor, seen: tf.Tensor) -> tf.keras.Model:
        """A model over these inputs, made by `tf.keras.Input`."""
        hidden = layers.concatenate([self.users(user), layers.Flatten()(self.items(seen))])
        for layer in self.dense:
            hidden = layer(hidden)
        return tf.keras.Model([user, seen], self.click(hidden))


def session_config() -> Any:
    """What asks for graph_opt: lookups fused, and run ahead of the step."""
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    options.do_async_embedding = True
    options.async_embedding_options.threads_num = 1
    options.async_embedding_options.capacity = 2
    options.async_embedding_options.infer_io_stage = True
    return config


def train(epochs: int) -> None:
    """Trains on a dataset, then predicts from arrays by a second model of the same layers."""
    tf.set_random_seed(1)
    rows = make_rows()
    dataset = tf.data.Dataset.from_tensor_slices(rows).repeat().batch(BATCH)
    user, seen, click = tf.data.make_one_shot_iterator(dataset).get_next()
    network = Network()
    model = network.model(tf.keras.Input(tensor=user), tf.keras.Input(tensor=seen))
    model.compile(tf.train.AdagradOptimizer(0.5), "binary_crossentropy", target_tensors=[click])
    history = model.fit(steps_per_epoch=ROWS // BATCH, epochs=epochs, verbose=0).history
    for epoch, loss in enumerate(history["loss"], 1):
        print("epoch {}: loss {:.6f}".format(epoch, loss))
    inputs = [tf.keras.Input(tensor.shape[1:], dtype=tensor.dtype) for tensor in (user, seen)]
    serving = network.model(*inputs)
    print("first visit: {:.4f}".format(serving.predict([rows[0][:1], rows[1][:1]])[0, 0]))


def main() -> None:
    """Trains as the command line says."""
    parser = argparse.ArgumentParser(description="Keras in graph mode, with graph_opt or without.")
    parser.add_argument("--stock", action="store_true", help="TensorFlow alone, to compare")
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    if args.stock:
        train(args.epochs)
    else:
        with graph_opt.install(session_config()):
            train(args.epochs)
        print(graph_opt.report())


if __name__ == "__main__":
    main()
