"""A program for each of two ranks of Horovod: what scripts of distributed-embeddings do.

Its argument is a folder that all ranks see.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import tensorflow

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.version_names import IS_VERSION_1
from graph_opt.sharding.horovod_transport import horovod
from graph_opt.sharding.transport import OneRank
from graph_opt.sharding.transport_in_use import communicating_through, transport_or_init
from tests.distributed_embeddings import data_parallel_models as models
from tests.release_features import keras_optimizers

SIZES = ((50, 4), (30, 4), (200, 3), (7, 5))
BATCH, STEPS = 12, 20


def main(folder: Path) -> None:
    """Runs as one rank; an assertion that fails ends all."""
    tf.enable_v2_behavior()
    transport = transport_or_init()
    assert transport.size == 2 and horovod().is_initialized()
    for how, optimizer in (("session", "adagrad"), ("function", "keras_adam")):
        trained = models.train(transport, how, optimizer)
        models.assert_as_one_process([trained], models.train(OneRank(), how, optimizer))
    with graph_opt.install(sok=True):
        script = Script()
        for fit in (True, False):
            for legacy in (True, False):
                ours = script.train(transport.rank, transport.size, fit, legacy)
                with communicating_through(OneRank()):
                    alone = script.train(0, 1, fit, legacy)
                for table, whole in zip(ours, alone):
                    np.testing.assert_allclose(table, whole, rtol=1e-4, atol=1e-5)
        script.check_files(folder)
        script.check_inputs(transport.rank)
        if not IS_VERSION_1:  # whose variables Horovod takes as keys, which they then cannot be
            script.check_arguments_of_horovod()
    print("rank {} is done".format(transport.rank))


class Script:
    """What a script does with the names that it imports."""

    def __init__(self) -> None:
        layers = "distributed_embeddings.python.layers"
        self.dmp = importlib.import_module(layers + ".dist_model_parallel")
        self.embedding = importlib.import_module(layers + ".embedding")

    def model(self) -> Any:
        """Several tables, of which no rank has all, and a dense layer that differs by rank."""
        script = self

        class Model(tensorflow.keras.Model):
            def __init__(self) -> None:
                super().__init__()
                tables = [script.embedding.Embedding(*size, combiner="sum") for size in SIZES]
                self.tables = script.dmp.DistributedEmbedding(tables, "memory_balanced")
                self.dense = tensorflow.keras.layers.Dense(1)

            def call(self, inputs: Any) -> Any:
                return self.dense(tf.concat(self.tables(inputs), axis=1))

        return Model()

    def train(self, rank: int, num_ranks: int, fit: bool, legacy: bool) -> List[np.ndarray]:
        """Trains by `model.fit`, or by a function with a tape; the weights in the end."""
        model = self.model()
        model([ids[:1] for ids in batch(0, 0, 1)["ids"]])
        model.tables.set_weights(first_tables())
        width = sum(width for _, width in SIZES)
        model.dense.set_weights([np.full([width, 1], 0.1 + rank), np.zeros([1])])
        of_keras = tensorflow.keras.optimizers
        optimizer = (keras_optimizers() if legacy else of_keras).Adagrad(0.1)
        if fit:
            self._fit(model, optimizer, rank, num_ranks)
        else:
            self._steps(model, optimizer, rank, num_ranks)
        return [*model.tables.get_weights(all_ranks=True), *model.dense.get_weights()]

    def _fit(self, model: Any, optimizer: Any, rank: int, num_ranks: int) -> None:
        steps = [batch(step, rank, num_ranks) for step in range(STEPS)]
        inputs = [np.concatenate([one["ids"][n] for one in steps]) for n in range(len(SIZES))]
        model.compile(self.dmp.DistributedOptimizer(optimizer), "mse")
        model.fit(
            inputs,
            np.concatenate([one["wanted"] for one in steps]),
            batch_size=BATCH // num_ranks,
            shuffle=False,
            verbose=0,
            callbacks=[self.dmp.BroadcastGlobalVariablesCallback(0)],
        )

    def _steps(self, model: Any, optimizer: Any, rank: int, num_ranks: int) -> None:
        dmp = self.dmp
        dmp.broadcast_variables(model.variables, root_rank=0)

        @tf.function
        def step(ids: Any, wanted: Any) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(ids) - wanted))
            tape = dmp.DistributedGradientTape(tape)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))

        for number in range(STEPS):
            one = batch(number, rank, num_ranks)
            step([tf.constant(ids) for ids in one["ids"]], tf.constant(one["wanted"]))

    def check_files(self, folder: Path) -> None:
        """Tables go to files and come back, on both ranks."""
        layer = self.model().tables
        layer([tf.constant(ids) for ids in batch(0, 0, 2)["ids"]])
        layer.set_weights(first_tables(), use_lock=True)
        paths = [folder / "{}.npy".format(place) for place in range(len(SIZES))]
        layer.get_weights(paths=paths, chunk=50)
        layer.set_weights([np.zeros(size) for size in SIZES])
        layer.set_weights(paths, chunk=50)
        for found, first in zip(layer.get_weights(all_ranks=True), first_tables()):
            np.testing.assert_array_equal(found, first)

    def check_inputs(self, rank: int) -> None:
        """Batches of both ranks reach the one that asks for a feature."""
        given = {"a": tf.constant([rank]), "b": tf.constant([[rank, 7]], tf.int64)}
        found = self.dmp._dp_to_mp_input(given, {0: ["b"], 1: ["a"]})
        assert {name: one.numpy().tolist() for name, one in found.items()} == [
            {"b": [[0, 7], [1, 7]]},
            {"a": [0, 1]},
        ][rank]

    def check_arguments_of_horovod(self) -> None:
        """What only Horovod has is left to it."""
        hvd = horovod()
        shared = tf.Variable([1.0, 2.0])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(shared * (hvd.rank() + 1.0))
        half = hvd.Compression.fp16
        tape = self.dmp.DistributedGradientTape(tape, op=hvd.Sum, compression=half)
        assert tape.gradient(loss, [shared])[0].numpy().tolist() == [3.0, 3.0]
        given = tensorflow.keras.optimizers.SGD(0.5)
        optimizer = self.dmp.DistributedOptimizer(given, compression=half)
        optimizer.minimize(lambda: tf.reduce_sum(shared * (hvd.rank() + 1.0)), [shared])
        assert shared.numpy().tolist() == [0.25, 1.25]


def batch(step: int, rank: int, num_ranks: int) -> Dict[str, Any]:
    """A rank's part of a step's batch."""
    random = np.random.default_rng(step)
    share = BATCH // num_ranks
    mine = slice(rank * share, (rank + 1) * share)
    ids = [random.integers(0, rows, (BATCH, 3))[mine] for rows, _ in SIZES]
    return {"ids": ids, "wanted": random.normal(size=(BATCH, 1)).astype(np.float32)[mine]}


def first_tables() -> List[np.ndarray]:
    """The values that the tables start with."""
    random = np.random.default_rng(5)
    return [random.normal(size=size).astype(np.float32) for size in SIZES]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
