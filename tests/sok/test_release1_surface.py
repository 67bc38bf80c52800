"""Layers of SparseOperationKit 1 as scripts meet them: shapes, Keras, eager steps, names."""

from __future__ import annotations

import importlib
import inspect
from typing import Any, Callable, Dict, List

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sok.communication import communicating_through
from tests.release_features import keras_optimizers

SLOTS, NNZ, WIDTH, ROWS = 2, 3, 4, 10


def pooled_layer(num_ranks: int = 1, **arguments: Any) -> Any:
    arguments.setdefault("use_hashtable", False)
    return sok.DistributedEmbedding("sum", ROWS // num_ranks, WIDTH, SLOTS, NNZ, **arguments)


def row_layer(num_ranks: int = 1, **arguments: Any) -> Any:
    arguments.setdefault("use_hashtable", False)
    return sok.All2AllDenseEmbedding(ROWS // num_ranks, WIDTH, SLOTS, NNZ, **arguments)


def numbered(layer: Any) -> Any:
    return sok.Saver().load_embedding_values(layer.embedding_variable, table())


def table() -> np.ndarray:
    return np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)


# Optimizers of TensorFlow 1 never sum the gradients of ranks.
OF_ONE_RANK: Dict[str, Any] = {
    name: False
    for name in inspect.signature(keras_optimizers().SGD.apply_gradients).parameters
    if name == "experimental_aggregate_gradients"
}


def bags(samples: int) -> tf.SparseTensorValue:
    keys = np.arange(samples * SLOTS) % ROWS
    indices = np.stack([np.arange(samples * SLOTS), np.zeros(samples * SLOTS)], 1)
    return tf.SparseTensorValue(indices.astype(np.int64), keys, (samples * SLOTS, NNZ))


def test_an_eager_step_and_a_traced_one_train_on_two_ranks() -> None:
    def train(transport: Transport, traced: bool) -> np.ndarray:
        with communicating_through(transport), context.eager_mode():
            assert sok.Init(global_batch_size=4, seed=1).numpy() == b"OK"
            layer = pooled_layer(transport.size)
            numbered(layer)
            optimizer = sok.optimizers.Adam(0.5)

            def step(keys: Any) -> Any:
                with tf.GradientTape() as tape:
                    pooled = layer(keys, training=True)
                    loss = tf.reduce_sum(pooled) / 4
                tables, others = sok.split_embedding_variable_from_others(layer.trainable_variables)
                assert others == [] and len(tables) == 1
                gradients = tape.gradient(loss, tables)
                optimizer.apply_gradients(zip(gradients, tables), **OF_ONE_RANK)
                return pooled

            run = tf.function(step) if traced else step
            samples = 4 // transport.size
            for _ in range(3):
                pooled = run(tf.SparseTensor(*bags(samples)))
            assert pooled.shape == [samples, SLOTS, WIDTH]
            return np.asarray(layer.embedding_variable.numpy())

    plain = run_ranks(2, lambda transport: train(transport, False))
    traced = run_ranks(2, lambda transport: train(transport, True))
    for rank, rows in enumerate(plain):
        before = table()[rank::2]  # Both ranks looked up the keys 0 to 3, in each of three steps.
        np.testing.assert_allclose(rows[:2], before[:2] - 1.5, rtol=1e-4)
        np.testing.assert_array_equal(rows[2:], before[2:])
        np.testing.assert_array_equal(rows, traced[rank])


@pytest.mark.parametrize("eager", [False, True])
def test_in_keras_functional_api_a_model_fits(eager: bool) -> None:
    def fit() -> None:
        sok.Init(global_batch_size=8)
        layer, keys = row_layer(), tf.keras.Input([SLOTS, NNZ], dtype="int64")
        rows = layer(keys)
        assert rows.shape.as_list() == [None, SLOTS, NNZ, WIDTH]
        flat = tf.keras.layers.Reshape([SLOTS * NNZ * WIDTH])(rows)
        model = tf.keras.Model(keys, tf.keras.layers.Dense(1)(flat))
        model.compile(keras_optimizers().SGD(0.1), "mse")
        inputs = np.random.default_rng(0).integers(0, ROWS, [8, SLOTS, NNZ])
        history = model.fit(inputs, np.ones([8, 1]), epochs=5, batch_size=4, verbose=0)
        losses = history.history["loss"]
        assert losses[-1] < losses[0]
        assert model.predict(inputs, verbose=0).shape == (8, 1)

    with communicating_through(OneRank()):
        if eager:
            with context.eager_mode():
                fit()
        else:
            fit()


@pytest.mark.parametrize("eager", [False, True])
def test_sparse_inputs_of_keras_are_bags(eager: bool) -> None:
    def check() -> None:
        layer = pooled_layer()
        keys = tf.keras.Input([NNZ], sparse=True, dtype="int64")
        pooled = layer(keys)
        assert pooled.shape.as_list() == [None, SLOTS, WIDTH]
        model = tf.keras.Model(keys, pooled)
        if eager:
            numbered(layer)
            found = model(tf.SparseTensor(*bags(3)))
        else:
            session = tf.keras.backend.get_session()
            session.run(numbered(layer))
            found = session.run(model.output, {keys: bags(3)})
        np.testing.assert_array_equal(np.asarray(found).reshape(-1, WIDTH), table()[:6])

    with communicating_through(OneRank()):
        if eager:
            with context.eager_mode():
                check()
        else:
            check()


@pytest.mark.parametrize("make", [pooled_layer, row_layer])
def test_training_may_be_given_by_its_place(make: Callable[..., Any]) -> None:
    class Model(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.layer = make(use_hashtable=True, embedding_initializer="ones")

        def call(self, keys: Any, training: Any = None) -> Any:
            return self.layer(keys, training)

    with communicating_through(OneRank()), context.eager_mode():
        keys: Any = tf.ones([1, SLOTS, NNZ], tf.int64)
        keys = tf.sparse.from_dense(keys[0]) if make is pooled_layer else keys
        layer, model = make(use_hashtable=True, embedding_initializer="ones"), Model()
        for look_up in (layer, model, tf.function(model)):
            assert not np.any(look_up(keys, training=False))
        assert not np.any(layer(keys, False))
        assert np.all(layer(keys, True)) and np.all(model(keys))


def test_shapes_of_rows_and_any_integer_keys() -> None:
    with communicating_through(OneRank()), tf.Session() as session:
        fixed = row_layer()
        dynamic = row_layer(dynamic_input=True, name="rows", dtype="float16")
        keys = np.random.default_rng(0).integers(0, ROWS, [5, SLOTS, NNZ])
        many = tf.placeholder(tf.int32, [None])
        ragged = tf.RaggedTensor.from_row_splits(tf.constant([1, 2, 3], tf.int32), [0, 2, 2, 3, 3])
        results = [fixed(tf.constant(keys, tf.uint32)), dynamic(many), pooled_layer()(ragged)]
        assert [one.shape.as_list() for one in results[:2]] == [
            [5, SLOTS, NNZ, WIDTH],
            [None, WIDTH],
        ]
        if hasattr(
            dynamic, "compute_dtype"
        ):  # Layers of TensorFlow 1 have the dtype of their input.
            assert results[1].dtype == tf.float16
        session.run(tf.global_variables_initializer())
        session.run([numbered(fixed), numbered(dynamic)])
        rows, some, bagged = session.run(results, {many: [7, 0, 7]})
        np.testing.assert_array_equal(rows, table()[keys])
        np.testing.assert_array_equal(some, table()[[7, 0, 7]].astype(np.float16))
        assert bagged.shape == (2, SLOTS, WIDTH) and not bagged[:, 1].any()


def test_tables_have_names_and_equal_first_rows_on_any_number_of_ranks() -> None:
    def start(transport: Transport) -> List[Any]:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            sok.Init(global_batch_size=8, seed=5)
            layers = [pooled_layer(transport.size), row_layer(transport.size)]
            tables = [layer.embedding_variable for layer in layers]
            assert [one.m_var_name for one in tables] == [
                "EmbeddingVariable",
                "EmbeddingVariable_1",
            ]
            assert tables[0].emb_handle is tables[0].handle
            session.run(tf.global_variables_initializer())
            return list(session.run(tables))

    whole = start(OneRank())
    assert np.abs(whole[0] - whole[1]).min() > 0 and 0.04 < np.abs(whole).max() < 0.05
    for rank, parts in enumerate(run_ranks(2, start)):
        for part, every in zip(parts, whole):
            np.testing.assert_array_equal(part, every[rank::2])


def test_layers_come_back_from_their_config() -> None:
    with communicating_through(OneRank()):
        for layer in (
            pooled_layer(embedding_initializer="ones", key_dtype="uint32"),
            row_layer(dynamic_input=True),
        ):
            again = type(layer).from_config(layer.get_config())
            assert again.get_config() == layer.get_config()


def test_layers_by_name_and_collections() -> None:
    arguments = dict(
        max_vocabulary_size_per_gpu=5,
        embedding_vec_size=2,
        slot_num=1,
        nnz_per_slot=1,
        use_hashtable=False,
    )
    with communicating_through(OneRank()):
        layer = sok.get_embedding("items", sok.All2AllDenseEmbedding, **arguments)
        assert sok.get_embedding("items") is layer
        assert sok.get_embedding("users", sok.All2AllDenseEmbedding, **arguments) is not layer
        with pytest.raises(ValueError, match="'absent': pass its constructor"):
            sok.get_embedding("absent")
        optimizer = sok.optimizers.Adam()
        layers = tf.get_collection(sok.GraphKeys.SparseOperationKitEmbeddingLayers)
        assert layers[0] is layer and len(layers) == 2
        assert tf.get_collection(sok.GraphKeys.SparseOperationKitOptimizer) == [optimizer]


@pytest.mark.parametrize(
    "module, name",
    [
        ("core.initialize", "Init"),
        ("embeddings.all2all_dense_embedding", "All2AllDenseEmbedding"),
        ("embeddings.distributed_embedding", "DistributedEmbedding"),
        ("optimizers", "Adam"),
        ("optimizers.utils", "split_embedding_variable_from_others"),
        ("saver", "Saver"),
        ("tf.keras.mixed_precision", "LossScaleOptimizer"),
        ("tf.keras.optimizers", "Adam"),
        ("tf.keras.optimizers", "LazyAdamOptimizer"),
        ("tf.keras.optimizers.adam", "Adam"),
        ("tf.keras.optimizers.lazy_adam", "LazyAdamOptimizer"),
    ],
)
def test_deep_imports_of_old_scripts(module: str, name: str) -> None:
    deep = getattr(importlib.import_module("graph_opt.sok." + module), name)
    owner: Any = sok
    if not module.endswith("utils"):
        for part in module.split("."):
            owner = getattr(owner, part)
        assert getattr(owner, name) is deep
    assert all(hasattr(sok, one) for one in sok.__all__) and set(sok.__all__) <= set(dir(sok))


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: sok.Init(0), ValueError, "global_batch_size is 0"),
        (lambda: pooled_layer(key_dtype="int32"), ValueError, "int32; choose one of int64, uint32"),
        (lambda: pooled_layer(num_ranks=20), ValueError, "max_vocabulary_size_per_gpu is 0"),
        (
            lambda: sok.DistributedEmbedding("max", 1, 1, 1, 1, use_hashtable=False),
            ValueError,
            "combiner is 'max'; choose sum or mean",
        ),
        (lambda: pooled_layer()(tf.zeros([2, 2], tf.int64)), TypeError, "need a SparseTensor"),
        (lambda: row_layer()(tf.zeros([2, 2], tf.int64)), ValueError, r"need \(\?, 2, 3\)"),
        (
            lambda: pooled_layer()(tf.SparseTensor([[0, 0]], [1], [3, 3])),
            ValueError,
            "got 3 bags, which are no samples of 2 slots each",
        ),
        (lambda: sok.split_embedding_variable_from_others({}), ValueError, "a dict; need a list"),
        (lambda: sok.OptimizerScope(None), ValueError, "a NoneType; need a list"),
        (
            lambda: sok.tf.keras.mixed_precision.LossScaleOptimizer(None, "dynamic"),
            ValueError,
            "'dynamic'; need a positive number",
        ),
    ],
)
def test_wrong_arguments_are_named(make: Callable[[], Any], error: Any, message: str) -> None:
    with communicating_through(OneRank()), pytest.raises(error, match=message):
        make()


def test_replicas_in_one_process_are_refused() -> None:
    devices = ["/cpu:0", "/cpu:1"]
    strategy = tf.distribute.MirroredStrategy(devices)
    with strategy.scope(), pytest.raises(RuntimeError, match="horovodrun -np 2"):
        sok.Init(global_batch_size=4)
