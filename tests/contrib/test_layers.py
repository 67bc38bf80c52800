"""`tf.contrib.layers`: numbers, variables and collections of TensorFlow 1.15."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.contrib import framework, layers

INPUTS = np.random.RandomState(1).normal(2.0, 3.0, size=[8, 3]).astype(np.float32)


def values_of(fetches: Any, feeds: Any = None, steps: int = 0, updates: Any = ()) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(steps):
            session.run(updates, feeds)
        return session.run(fetches, feeds)


def names(collection: str = tf.GraphKeys.GLOBAL_VARIABLES) -> List[str]:
    return [variable.op.name for variable in tf.get_collection(collection)]


def test_dense_layers_have_contribs_variables_and_results() -> None:
    inputs = tf.constant(INPUTS)
    wide = layers.fully_connected(
        inputs, 4, weights_regularizer=layers.l2_regularizer(0.5), outputs_collections="activations"
    )
    second = layers.linear(wide, 2, biases_initializer=None, scope="last")
    stacked = layers.stack(second, layers.fully_connected, [3, 2], scope="mlp", trainable=False)
    layers.repeat(stacked, 1, layers.relu6, 3, trainable=False)
    of_rank_3 = layers.fully_connected(inputs[:, None, :], 4, scope="fully_connected", reuse=True)
    assert names() == [
        *("fully_connected/weights", "fully_connected/biases", "last/weights"),
        *("mlp/mlp_1/weights", "mlp/mlp_1/biases", "mlp/mlp_2/weights", "mlp/mlp_2/biases"),
        *("Repeat/fully_connected_1/weights", "Repeat/fully_connected_1/biases"),
    ]
    assert names(tf.GraphKeys.MODEL_VARIABLES) == names()
    assert len(tf.trainable_variables()) == 3
    assert tf.get_collection("activations") == [wide] and stacked.shape.as_list() == [8, 2]
    kernel, got, same, penalty, last, result = values_of(
        [
            *(tf.trainable_variables()[0], wide, of_rank_3, tf.losses.get_regularization_loss()),
            *(tf.trainable_variables()[2], second),
        ]
    )
    np.testing.assert_allclose(got, np.maximum(INPUTS @ kernel, 0), rtol=1e-5)
    np.testing.assert_array_equal(same[:, 0], got)
    np.testing.assert_allclose(penalty, 0.25 * np.sum(kernel**2), rtol=1e-5)
    np.testing.assert_allclose(result, got @ last, rtol=1e-4, atol=1e-5)
    assert np.abs(kernel).max() <= np.sqrt(6 / 7)  # Glorot's limit


def test_scopes_give_arguments_another_default() -> None:
    with framework.arg_scope([layers.fully_connected, layers.dropout], scope="a") as outer:
        layers.fully_connected(tf.constant(INPUTS), 2)
        with framework.arg_scope([layers.fully_connected], biases_initializer=None, scope="b"):
            layers.fully_connected(tf.constant(INPUTS), 2)
    with framework.arg_scope(outer):
        layers.fully_connected(tf.constant(INPUTS), 2, reuse=True)
    layers.fully_connected(tf.constant(INPUTS), 2)
    expected = ["a/weights", "a/biases", "b/weights"]
    assert names() == [*expected, "fully_connected/weights", "fully_connected/biases"]
    assert [one.op.name for one in framework.get_variables("a", suffix="biases")] == ["a/biases"]
    with pytest.raises(ValueError, match="matmul is not decorated"):
        with framework.arg_scope([tf.matmul]):
            pass


@pytest.mark.parametrize("rank", [2, 3])
def test_batch_normalization(rank: int) -> None:
    data = INPUTS if rank == 2 else INPUTS[:, None, :]
    training = tf.placeholder_with_default(True, [])
    inputs = tf.constant(data)
    got = layers.batch_norm(inputs, decay=0.9, scale=True, is_training=training)
    assert names() == [
        "BatchNorm/" + name for name in ("beta", "gamma", "moving_mean", "moving_variance")
    ]
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2 and len(tf.trainable_variables()) == 2
    moving = tf.global_variables()[2:]
    result, mean, variance = values_of([got, *moving], steps=1, updates=updates)
    of_batch = INPUTS.mean(0), INPUTS.var(0, ddof=1 if rank == 2 else 0)
    np.testing.assert_allclose(mean, 0.1 * of_batch[0], rtol=1e-4)
    np.testing.assert_allclose(variance, 0.9 + 0.1 * of_batch[1], rtol=1e-4)
    expected = (data - of_batch[0]) / np.sqrt(INPUTS.var(0) + 0.001)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
    inferred = values_of(got, {training: False})
    np.testing.assert_allclose(inferred, data / np.sqrt(1.001), rtol=1e-4)


def test_updates_of_averages_may_be_part_of_the_result() -> None:
    got = layers.batch_norm(tf.constant(INPUTS), decay=0.5, updates_collections=None)
    still = layers.batch_norm(tf.constant(INPUTS), is_training=False, scope="still")
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    mean = tf.global_variables()[1]
    assert mean.op.name == "BatchNorm/moving_mean"
    np.testing.assert_allclose(
        values_of(mean, steps=2, updates=[got, still]), 0.75 * INPUTS.mean(0), rtol=1e-4
    )
    with pytest.raises(ValueError, match="renorm"):
        layers.batch_norm(tf.constant(INPUTS), renorm=True)


def test_other_layers() -> None:
    inputs = tf.constant(INPUTS)
    normalized = layers.layer_norm(inputs)
    ids = tf.constant([[1, 0], [3, 1]])
    rows = layers.embed_sequence(ids, 5, 2, scope="words")
    unique = layers.embed_sequence(ids, 5, 2, unique=True, scope="words", reuse=True)
    assert names() == ["LayerNorm/beta", "LayerNorm/gamma", "words/embeddings"]
    fetches: Dict[str, Any] = {
        "normalized": normalized,
        "rows": rows,
        "unique": unique,
        "table": tf.global_variables()[2],
        "kept": layers.dropout(inputs, 0.5, is_training=False),
        "dropped": layers.dropout(tf.ones([100, 10]), 0.25, seed=1),
        "flat": layers.flatten(tf.reshape(inputs, [2, 2, 6])),
        "one_hot": layers.one_hot_encoding([1, 0], 3),
        "l1": layers.l1_l2_regularizer(0.5, 2.0)(inputs),
    }
    got = values_of(fetches)
    centred = INPUTS - INPUTS.mean(1, keepdims=True)
    np.testing.assert_allclose(
        got["normalized"], centred / INPUTS.std(1, keepdims=True), rtol=1e-3, atol=1e-4
    )
    np.testing.assert_array_equal(got["rows"], got["table"][np.array([[1, 0], [3, 1]])])
    np.testing.assert_array_equal(got["rows"], got["unique"])
    np.testing.assert_array_equal(got["kept"], INPUTS)
    assert (
        set(np.unique(got["dropped"])) == {0.0, 4.0}
        and 150 < np.count_nonzero(got["dropped"]) < 350
    )
    assert got["flat"].shape == (2, 12)
    np.testing.assert_array_equal(got["one_hot"], [[0, 1, 0], [1, 0, 0]])
    penalty = 0.5 * np.abs(INPUTS).sum() + np.square(INPUTS).sum()
    np.testing.assert_allclose(got["l1"], penalty, rtol=1e-5)


def test_initial_values_and_penalties_by_contribs_formulas() -> None:
    normal = layers.variance_scaling_initializer(seed=1)([400, 100])
    deviation = values_of(normal).std()
    assert abs(deviation - np.sqrt(1.3 * 2 / 400) * 0.88) < 2e-3
    assert layers.l2_regularizer(0.0)(tf.ones([2])) is None
    for wrong in (lambda: layers.l2_regularizer(1), lambda: layers.l1_regularizer(-1.0)):
        with pytest.raises(ValueError, match="scale"):
            wrong()
    with pytest.raises(ValueError, match="FAN_IN, FAN_OUT or FAN_AVG"):
        layers.variance_scaling_initializer(mode="fan_in")


def test_a_loss_is_optimized_with_its_summaries() -> None:
    step = tf.train.get_or_create_global_step()
    bias = tf.get_variable("bias", initializer=[3.0, 4.0])
    still = tf.get_variable("still", initializer=[1.0])
    loss = tf.reduce_sum(bias * bias) / 2 + tf.reduce_sum(still)
    train = layers.optimize_loss(
        *(loss, step, 0.5, "SGD"),
        gradient_multipliers={"bias:0": 2.0, still: 0.0},
        clip_gradients=1.0,
        learning_rate_decay_fn=lambda rate, step: rate / 2,
        summaries=["loss", "learning_rate", "gradients", "global_gradient_norm"],
    )
    assert names() == ["global_step", "bias", "still", "OptimizeLoss/learning_rate"]
    summaries = tf.get_collection(tf.GraphKeys.SUMMARIES)
    assert [one.op.name.partition("/")[2] for one in summaries] == [
        *("learning_rate_1", "global_norm/gradient_norm", "loss", "gradients/bias_0"),
        *("gradients/still_0", "global_norm/clipped_gradient_norm"),
    ]
    got = values_of([bias, still, step], steps=1, updates=[train])
    # The gradient [6, 8] becomes [0.6, 0.8], and the learning rate 0.25.
    np.testing.assert_allclose(got[0], [3.0 - 0.15, 4.0 - 0.2], rtol=1e-6)
    assert got[1:] == [[1.0], 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"optimizer": "Sgd"}, "optimizer 'Sgd' is none of Adagrad, Adam"),
        ({"learning_rate": 1}, "learning_rate is 1; need a float"),
        ({"learning_rate": None}, "needs a learning_rate"),
        ({"summaries": ["norm"]}, "summary 'norm' is none of"),
        ({"clip_gradients": "1"}, "clip_gradients is '1'"),
        ({"optimizer": lambda rate: rate}, "no optimizer"),
    ],
)
def test_wrong_arguments_of_optimize_loss(arguments: Any, message: str) -> None:
    loss = tf.reduce_sum(tf.get_variable("bias", initializer=[3.0]))
    given: Any = {"learning_rate": 0.1, "optimizer": "SGD", **arguments}
    with pytest.raises(ValueError, match=message):
        layers.optimize_loss(loss, None, **given)


@pytest.mark.parametrize(
    "optimizer",
    [
        tf.train.GradientDescentOptimizer(0.5),
        lambda: tf.train.GradientDescentOptimizer(0.5),
    ],
)
def test_optimizers_may_have_a_learning_rate_of_their_own(optimizer: Any) -> None:
    table = tf.get_variable("table", initializer=[[1.0], [2.0]])
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 1]))
    options: Any = {"gradient_multipliers": {table: 3.0}, "gradient_noise_scale": 0.0}
    train = layers.optimize_loss(loss, None, None, optimizer, summaries=[], **options)
    trained = values_of(table, steps=2, updates=[train])
    np.testing.assert_allclose(trained, [[1.0], [2.0 - 2 * 0.5 * 3 * 2]])
