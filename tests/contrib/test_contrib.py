"""`tf.contrib` where scripts find it: sequences, cells, hyperparameters, optimizers, modules."""

from __future__ import annotations

import copy
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.contrib import (
    data,
    feature_column,
    framework,
    kafka,
    lookup,
    metrics,
    predictor,
    rnn,
    training,
)
from graph_opt.contrib.opt import LazyAdamOptimizer
from graph_opt.contrib.training import HParams
from tests.contrib.test_layers import values_of
from tests.release_features import needs_estimators


@pytest.mark.parametrize("of_keys", [False, True])
def test_sequences_of_several_columns(of_keys: bool) -> None:
    words = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [b"a", b"b", b"a"], [2, 2])
    numbers = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1.0, 2.0, 3.0], [2, 2])
    if of_keys:
        column = graph_opt.sequence_categorical_column_with_embedding("words", tf.string)
        embedded = graph_opt.embedding_column(column, 3)
    else:
        column = feature_column.sequence_categorical_column_with_hash_bucket("words", 10)
        embedded = tf.feature_column.embedding_column(column, 3)
    columns = [embedded, feature_column.sequence_numeric_column("numbers")]
    features = {"words": words, "numbers": numbers}
    sequences, lengths = feature_column.sequence_input_layer(features, columns)
    assert tf.trainable_variables()[0].op.name == (
        "sequence_input_layer/words_embedding/embedding_weights"
    )
    got, counts = values_of([sequences, lengths])
    assert got.shape == (2, 2, 4)
    np.testing.assert_array_equal(counts, [2, 1])
    np.testing.assert_array_equal(got[..., 0], [[1, 2], [3, 0]])
    np.testing.assert_array_equal(got[0, 0, 1:], got[1, 0, 1:])
    assert not got[1, 1].any() and got[0, 1, 1:].any()
    with pytest.raises(ValueError, match="is no column of a sequence"):
        feature_column.sequence_input_layer(features, [tf.feature_column.numeric_column("x")])


def test_cells_made_of_linear_maps() -> None:
    class AttentionCell(rnn.RNNCell):
        """As DIEN's: a gated cell whose update gate is scaled."""

        state_size = output_size = 2

        def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
            with tf.variable_scope(scope or "gru_cell"):
                with tf.variable_scope("gates"):
                    ones = tf.constant_initializer(1.0)
                    gates = rnn._Linear([inputs, state], 4, True, ones)([inputs, state])
                update, reset = tf.split(tf.sigmoid(gates), 2, 1)
                with tf.variable_scope("candidate"):
                    mixed = rnn._linear([inputs, reset * state], 2, True)
                state = update * state + (1 - update) * tf.tanh(mixed)
            return state, state

    inputs = tf.constant(np.random.RandomState(0).rand(3, 4, 5), tf.float32)
    outputs, _ = tf.nn.dynamic_rnn(AttentionCell(), inputs, dtype=tf.float32)
    assert [(one.op.name, one.shape.as_list()) for one in tf.global_variables()] == [
        ("rnn/gru_cell/gates/kernel", [7, 4]),
        ("rnn/gru_cell/gates/bias", [4]),
        ("rnn/gru_cell/candidate/kernel", [7, 2]),
        ("rnn/gru_cell/candidate/bias", [2]),
    ]
    layers = [rnn.GRUCell(3)]
    both, forward, backward = rnn.stack_bidirectional_dynamic_rnn(
        layers, [rnn.GRUCell(3)], inputs, dtype=tf.float32, sequence_length=[4, 2, 1]
    )
    got, stacked, first, last = values_of([outputs, both, forward[0], backward[0]])
    assert got.shape == (3, 4, 2) and stacked.shape == (3, 4, 6)
    np.testing.assert_array_equal(first[0], stacked[0, 3, :3])
    np.testing.assert_array_equal(last, stacked[:, 0, 3:])


def test_hyperparameters_by_name() -> None:
    hparams = HParams(rate=0.1, units=[8, 4], name="x", deep=True, steps=3)
    hparams.parse("rate=1,units=[16,8,4], name=deep fm,deep=false").set_hparam("steps", 5)
    expected = {"rate": 1.0, "units": [16, 8, 4], "name": "deep fm", "deep": False, "steps": 5}
    assert hparams.values() == expected and isinstance(hparams.rate, float)
    assert HParams(rate=0.5, steps=1).parse_json('{"rate": 2, "steps": 4}').get("rate") == 2.0
    assert "rate" in copy.deepcopy(hparams) and hparams.get("absent", 7) == 7
    assert hparams.to_json(sort_keys=True).startswith('{"deep": false')
    for text, message in (
        ("depth=1", "unknown hyperparameter 'depth'"),
        ("steps=x", "'steps' is 'x'; need int"),
        ("units=3", "need a list"),
        ("???", "cannot parse"),
    ):
        with pytest.raises(ValueError, match=message):
            hparams.parse(text)
    with pytest.raises(AttributeError, match="'layers'; there are deep, name, rate, steps, units"):
        _ = hparams.layers
    with pytest.raises(ValueError, match="need int"):
        hparams.set_hparam("steps", True)


@pytest.mark.parametrize("use_resource", [False, True])
def test_lazy_adam_moves_only_rows_of_the_batch(use_resource: bool) -> None:
    table = tf.get_variable(
        "table", [4, 2], initializer=tf.ones_initializer(), use_resource=use_resource
    )
    rows = tf.placeholder(tf.int64, [None])
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, rows))
    optimizer = LazyAdamOptimizer(0.1)
    train = optimizer.minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for batch in ([0, 1], [1, 1]):
            session.run(train, {rows: batch})
        got, m = session.run([table, optimizer.get_slot(table, "m")])
    weights, moments, squares = np.ones(2), np.zeros(2), np.zeros(2)
    for step, gradient in ((1, [1.0, 1.0]), (2, [0.0, 2.0])):
        touched = np.array(gradient) > 0
        rate = 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        moments = np.where(touched, 0.9 * moments + 0.1 * np.array(gradient), moments)
        squares = np.where(touched, 0.999 * squares + 0.001 * np.square(gradient), squares)
        weights -= np.where(touched, rate * moments / (np.sqrt(squares) + 1e-8), 0.0)
    np.testing.assert_allclose(got, [[one] * 2 for one in (*weights, 1.0, 1.0)], rtol=1e-5)
    np.testing.assert_allclose(m[:2, 0], moments, rtol=1e-5)


def test_tables_metrics_and_data() -> None:
    index = lookup.index_table_from_tensor(mapping=tf.constant(["a", "b"]), num_oov_buckets=1)
    auc = metrics.streaming_auc(predictions=tf.constant([0.1, 0.9]), labels=tf.constant([0, 1]))
    batches = tf.data.Dataset.range(5).apply(data.batch_and_drop_remainder(2))
    batch = tf.data.make_one_shot_iterator(batches).get_next()
    with tf.Session() as session:
        session.run([tf.tables_initializer(), tf.local_variables_initializer()])
        got = session.run([index.lookup(tf.constant(["b", "z"])), auc[1], batch])
    assert got[0].tolist() == [1, 2] and got[1] == pytest.approx(1.0) and got[2].shape == (2,)


FROM_FILES = (
    "import tensorflow.contrib.slim as slim",
    "from tensorflow.contrib.feature_column.python.feature_column import sequence_feature_column",
    "from tensorflow.contrib.framework.python.ops.variables import get_or_create_global_step",
    "from tensorflow.contrib.kafka.python.ops.kafka_dataset_ops import KafkaDataset",
    "from tensorflow.contrib.layers.python.layers import initializers, layers, regularizers",
    "from tensorflow.contrib.lookup.lookup_ops import HashTable",
    "from tensorflow.contrib.opt.python.training.lazy_adam_optimizer import LazyAdamOptimizer",
    "from tensorflow.contrib.rnn.python.ops import core_rnn_cell, rnn_cell",
    "from tensorflow.contrib.rnn.python.ops.core_rnn_cell_impl import _linear",
    "from tensorflow.contrib.training.python.training.hparam import HParams",
    "from tensorflow.contrib.util import make_tensor_proto",
)


@pytest.mark.parametrize(
    "name, words",
    [
        ("layers.sparse_column_with_keys", "use tf.feature_column.categorical_column_with_voc"),
        ("layers.conv2d", "use tf.layers"),
        ("slim.conv2d", "look in the package tf_slim"),
        ("opt.NadamOptimizer", "use tf.keras.optimizers.legacy.Nadam"),
        pytest.param("estimator.multi_head", "use tf.estimator.MultiHead", marks=needs_estimators),
        ("learn", "use tf.estimator"),
        ("graph_editor", "it has data, estimator"),
    ],
)
def test_what_is_not_here_says_what_to_use(name: str, words: str) -> None:
    *parts, last = name.split(".")
    owner = importlib.import_module(".".join(["graph_opt.contrib", *parts]))
    with pytest.raises(AttributeError, match=r"graph_opt's tf\.contrib.* has no '" + last) as error:
        getattr(owner, last)
    assert words in str(error.value)


def test_a_saved_model_is_a_function(tmp_path: Path) -> None:
    folder = str(tmp_path / "model")
    with tf.Session() as session:
        given = tf.placeholder(tf.float32, [None], "given")
        weight = tf.get_variable("weight", [], initializer=tf.constant_initializer(3.0))
        session.run(weight.initializer)
        tf.saved_model.simple_save(session, folder, {"x": given}, {"y": given * weight})
    predict = predictor.from_saved_model(folder)
    np.testing.assert_array_equal(predict({"x": [1.0, 2.0]})["y"], [3.0, 6.0])
    named = predictor.from_saved_model(
        folder, input_names={"a": "given:0"}, output_names={"b": predict.fetch_tensors["y"].name}
    )
    assert named({"a": [1.0]})["b"] == 3.0
    with pytest.raises(ValueError, match="no input 'z'; inputs are x"):
        predict({"z": [1.0]})
    with pytest.raises(ValueError, match="no signature 'other'; there are serving_default"):
        predictor.from_saved_model(folder, "other")


def test_variables_go_to_the_server_with_least_load() -> None:
    strategy = training.GreedyLoadBalancingStrategy(2, training.byte_size_load_fn)
    with tf.device(tf.train.replica_device_setter(2, ps_strategy=strategy)):
        made = [
            tf.get_variable(name, shape, use_resource=use_resource)
            for name, shape, use_resource in (
                ("a", [100], True),
                ("b", [10, 4], False),
                ("c", [], True),
                ("d", [90], False),
            )
        ]
    assert [tf.DeviceSpec.from_string(one.device).task for one in made] == [0, 1, 1, 1]


def test_models_start_from_checkpoints(tmp_path: Path) -> None:
    first = framework.model_variable("first", [2], initializer=tf.ones_initializer())
    assert framework.get_model_variables() == [first] and framework.has_arg_scope(
        framework.variable
    )
    right = metrics.accuracy(tf.constant([1, 2, 3]), tf.constant([1, 0, 3]), [1.0, 1.0, 2.0])
    with tf.Session() as session:
        session.run(first.initializer)
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
        second = framework.variable("second", [2], device="/cpu:0")
        restore = framework.assign_from_checkpoint_fn(path, [first, second], True)
        session.run(first.assign([5.0, 6.0]))
        assert restore is not None
        restore(session)
        assert session.run(first).tolist() == [1.0, 1.0] and session.run(right) == 0.75
    assert framework.assign_from_checkpoint_fn(path, [second], ignore_missing_vars=True) is None


def test_kafka_says_what_to_use() -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="KafkaGroupIODataset"):
        kafka.KafkaDataset(["clicks:0:0:-1"], group="workers", eof=True)


def test_scripts_import_it_from_where_it_was() -> None:
    assert not hasattr(tf, "contrib")
    with graph_opt.install(contrib=True):
        layers = importlib.import_module("tensorflow.contrib.layers")
        assert layers is importlib.import_module("tensorflow.contrib.layers.python.layers")
        assert layers is tf.contrib.layers is graph_opt.contrib.layers
        cell = importlib.import_module("tensorflow.contrib.rnn.python.ops.core_rnn_cell")
        assert cell._Linear is rnn._Linear
        assert importlib.import_module("tensorflow.contrib.training").HParams is HParams
        with pytest.raises(ModuleNotFoundError, match=r"has no 'crf': use tensorflow_addons"):
            importlib.import_module("tensorflow.contrib.crf")
        assert tf.contrib.util.make_ndarray is tf.make_ndarray
        for line in FROM_FILES:
            exec(line, {})
    assert not hasattr(tf, "contrib")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tensorflow.contrib.layers")


def test_modules_of_deeprec_can_be_left_out() -> None:
    name = "tensorflow.core.framework.embedding.config_pb2"
    with graph_opt.install():
        assert importlib.import_module(name).StorageType.DRAM == 1
    with graph_opt.install(deeprec=False):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)
