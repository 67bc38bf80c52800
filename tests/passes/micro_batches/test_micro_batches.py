"""Steps on micro-batches give the numbers of steps on whole batches."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graph_opt
from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from tests.example_share import example_share
from tests.passes import models
from tests.passes.one_pass import ran_pass
from tests.quick_cases import slow_but

# The last ones have fewer rows than there are micro-batches.
SIZES = (8, 7, 9, 3, 1)
Loss = Callable[[Any, Any], Any]


def config(number: int, grouped: bool = False) -> Any:
    made = ConfigProto()
    options = made.graph_options.optimizer_options
    options.micro_batch_num, options.micro_batch_rule = number, "parts"
    options.do_group_embedding = grouped
    return made


def mean_of_rows(logits: Any, labels: Any) -> Any:
    return tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits), name="loss"
    )


def mean_of_present(logits: Any, labels: Any) -> Any:
    return tf.losses.sigmoid_cross_entropy(labels, logits, weights=tf.round(labels + 0.3))


def sum_with_penalty(logits: Any, labels: Any) -> Any:
    # Its gradient needs its value, so that no update comes before the value is read.
    penalty = tf.add_n([tf.norm(variable) for variable in tf.trainable_variables()])
    return tf.reduce_sum(tf.square(logits - labels)) + 0.01 * penalty


LOSSES: Dict[str, Loss] = {
    loss.__name__: loss for loss in (mean_of_rows, mean_of_present, sum_with_penalty)
}


class Trained(NamedTuple):
    """What steps return, and what they leave behind."""

    losses: List[float]
    predictions: List[Any]
    variables: List[Any]
    evaluated: float
    report: Optional[graph_opt.Report]


def layers(inputs: Any, units: Sequence[int], resource: bool = False) -> Any:
    """Layers with ReLU but for the last."""
    for number, size in enumerate(units):
        width = int(inputs.shape[1])
        with tf.variable_scope("layer_{}".format(number), use_resource=resource):
            weights = tf.get_variable("weights", [width, size])
            inputs = tf.nn.bias_add(tf.matmul(inputs, weights), tf.get_variable("bias", [size]))
        inputs = inputs if number == len(units) - 1 else tf.nn.relu(inputs)
    return inputs


def train(
    number: int,
    loss_of: Loss = mean_of_rows,
    optimizer: Any = None,
    rows: Optional[int] = None,
    clip: bool = False,
    body: Optional[Callable[[Any], Any]] = None,
    grouped: bool = False,
) -> Trained:
    """Trains on fed batches; `rows` is their static size."""
    random = np.random.RandomState(1)
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(5)
        inputs = tf.placeholder(tf.float32, [rows, 6])
        labels = tf.placeholder(tf.float32, [rows, 1])
        logits = (body or (lambda given: layers(given, (8, 4, 1))))(inputs)
        loss = loss_of(logits, labels)
        optimizer = optimizer or tf.train.AdamOptimizer(0.05)
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        if clip:
            gradients, _ = tf.clip_by_global_norm(gradients, 0.5)
        step = tf.train.get_or_create_global_step()
        update = optimizer.apply_gradients(zip(gradients, variables), step)
        scores = tf.sigmoid(logits)
        losses, predictions = [], []
        with graph_opt.Session(config=config(number, grouped)) as session:
            session.run(tf.global_variables_initializer())
            for size in (rows,) * 5 if rows else SIZES:
                values = random.rand(size, 6).astype(np.float32)
                feed = {inputs: values, labels: (values[:, :1] > 0.5).astype(np.float32)}
                value, score, _ = session.run([loss, scores, update], feed)
                losses.append(value)
                predictions.append(score)
            trained = session.run(tf.trainable_variables())
            scores_alone = session.run(scores, {inputs: values})
            assert scores_alone.shape == predictions[-1].shape
            evaluated = session.run(loss, feed)
            assert session.run(step) == len(losses)
        return Trained(losses, predictions, trained, evaluated, graph_opt.report(graph))


def assert_same(found: Trained, wanted: Trained, divided: bool = True) -> None:
    assert found.report is not None
    assert bool(found.report.micro_batches) == divided, str(found.report)
    np.testing.assert_allclose(found.losses, wanted.losses, 2e-5, 2e-6)
    np.testing.assert_allclose(found.evaluated, wanted.evaluated, 2e-5, 2e-6)
    for one, other in zip(
        found.predictions + found.variables, wanted.predictions + wanted.variables
    ):
        np.testing.assert_allclose(one, other, 2e-5, 2e-6)


@pytest.mark.parametrize("loss", slow_but(sorted(LOSSES), "mean_of_present", "sum_with_penalty"))
def test_updates_are_those_of_whole_batches(loss: str) -> None:
    made: Dict[str, Any] = dict(loss_of=LOSSES[loss], clip=loss == "sum_with_penalty")
    assert_same(train(4, **made), train(0, **made))


class _Multiplies(tf.train.Optimizer):
    """An optimizer that changes weights by an op that TensorFlow's own do not use."""

    def __init__(self) -> None:
        super().__init__(False, "multiplies")

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        rows = tf.range(tf.shape(grad)[0])
        return tf.group(tf.scatter_mul(handle, rows, 1 - 0.1 * grad))


def test_an_update_may_be_any_op_that_changes_a_variable() -> None:
    def body(inputs: Any) -> Any:
        return layers(inputs, (8, 4, 1), resource=True)

    made: Dict[str, Any] = dict(optimizer=_Multiplies(), body=body)
    assert_same(train(4, **made), train(0, **made))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [8, 10])
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_static_batches_are_divided_too(loss: str, rows: int) -> None:
    made: Dict[str, Any] = dict(loss_of=LOSSES[loss], rows=rows)
    assert_same(train(4, **made), train(0, **made))


def _normalized(inputs: Any) -> Any:
    hidden = layers(inputs, (8,))
    mean, variance = tf.nn.moments(hidden, [0])
    hidden = (hidden - mean) * tf.rsqrt(variance + 1e-3)
    with tf.variable_scope("head"):
        return layers(hidden, (1,))


def test_layers_that_mix_rows_are_refused() -> None:
    found = train(2, body=_normalized)
    assert_same(found, train(0, body=_normalized), divided=False)
    assert found.report is not None
    assert [each["code"] for each in found.report.refusals] == ["rows_mixed"]
    assert "each batch runs whole" in str(found.report)


def _with_dropout(inputs: Any) -> Any:
    hidden = tf.nn.dropout(layers(inputs, (8,)), rate=0.5, seed=3)
    with tf.variable_scope("head"):
        return layers(hidden, (1,))


@pytest.mark.slow
def test_dropout_draws_for_the_whole_batch() -> None:
    found, wanted = train(2, body=_with_dropout), train(0, body=_with_dropout)
    # Steps that do not train draw numbers, too, and not the same ones.
    assert_same(found._replace(evaluated=0.0), wanted._replace(evaluated=0.0))


class Model(NamedTuple):
    """A random model, and how it is trained."""

    ops: List[str]
    loss: str
    optimizer: str
    clip: bool
    rows: Optional[int]
    number: int


OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "adam": lambda: tf.train.AdamOptimizer(0.02),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.02),
    "momentum": lambda: tf.train.MomentumOptimizer(0.02, 0.9),
}
OPS: Dict[str, Callable[[Any], Any]] = {
    "tanh": tf.tanh,
    "softmax": tf.nn.softmax,
    "scaled": lambda tensor: tensor * tf.get_variable("scale", [int(tensor.shape[1])]),
    "centered": lambda tensor: tensor - tf.reduce_mean(tensor, 1, keepdims=True),
    "pairs": lambda tensor: tf.reshape(
        tf.matmul(tensor[:, :, None], tensor[:, None, :]), [-1, int(tensor.shape[1]) ** 2]
    )[:, :7],
    "reversed": lambda tensor: tf.concat([tensor[:, 2:], tensor[:, :2]], 1),
    "gathered": lambda tensor: tf.gather(tensor, [3, 1, 0, 1, 2], axis=1),
    "stacked": lambda tensor: tf.reduce_sum(tf.stack([tensor, tf.square(tensor)], 0), 0),
    "transposed": lambda tensor: tf.tanh(tf.transpose(tf.transpose(tensor) * 0.5)),
    "clipped": lambda tensor: tf.clip_by_value(tensor, -0.5, 0.5),
    "masked": lambda tensor: tf.where(tensor > 0, tensor, tf.zeros_like(tensor)),
    "over rows": lambda tensor: tensor - tf.reduce_mean(tensor, 0, keepdims=True),
    "largest row": lambda tensor: tensor / (1 + tf.reduce_max(tf.abs(tensor))),
    "sorted": lambda tensor: tf.sort(tensor, axis=1),
    "rows reversed": lambda tensor: tf.reverse(tensor, [0]),
}
_MIXES = {"over rows", "largest row", "rows reversed"}
# Their gradients have shapes, or places in the batch, of which graph_opt does not know enough.
_UNKNOWN, _UNKNOWN_IF_STATIC = {"sorted", "stacked"}, {"gathered"}
_MODELS = st.builds(
    Model,
    ops=st.lists(st.sampled_from(sorted(OPS)), max_size=3),
    loss=st.sampled_from(sorted(LOSSES)),
    optimizer=st.sampled_from(sorted(OPTIMIZERS)),
    clip=st.booleans(),
    rows=st.sampled_from([None, None, 8, 9]),
    number=st.sampled_from([2, 3, 5]),
)


def _check(model: Model) -> None:
    def body(inputs: Any) -> Any:
        for number, op in enumerate(model.ops):
            with tf.variable_scope("part_{}".format(number)):
                inputs = OPS[op](layers(inputs, (5,)))
        with tf.variable_scope("head"):
            return layers(inputs, (1,))

    found, wanted = (
        train(
            number,
            LOSSES[model.loss],
            OPTIMIZERS[model.optimizer](),
            model.rows,
            model.clip,
            body,
        )
        for number in (model.number, 0)
    )
    assert found.report is not None
    assert_same(found, wanted, divided=bool(found.report.micro_batches))
    refused = _MIXES.union(_UNKNOWN, _UNKNOWN_IF_STATIC if model.rows else ()).intersection(
        model.ops
    )
    assert bool(found.report.micro_batches) != bool(refused), model
    assert [each["code"] for each in found.report.refusals] == ["rows_mixed"] * bool(refused), model


@example_share(0.01)
@given(_MODELS)
def test_random_models_train_alike_or_are_refused(model: Model) -> None:
    _check(model)


@pytest.mark.slow
@example_share(0.12)
@given(_MODELS)
def test_many_random_models_train_alike_or_are_refused(model: Model) -> None:
    _check(model)


def _with_lookups(number: int, grouped: bool, steps: int = 6) -> Trained:
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(5)
        inputs = models.features(rows=45)
        ids = tf.sparse.from_dense(inputs["ids"])
        with tf.device("/cpu:0"):  # where ids are not, rows are gathered before they are combined
            gathered = models.table("gathered")
        pooled = [
            tf.nn.safe_embedding_lookup_sparse(models.table(), ids),
            tf.nn.safe_embedding_lookup_sparse(gathered, ids),
            tf.nn.embedding_lookup(models.table("other"), inputs["other"]),
        ]
        loss, update = models.train(pooled, inputs)
        with graph_opt.Session(config=config(number, grouped)) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, update])[0] for _ in range(steps)]
            trained = session.run(tf.trainable_variables())
        return Trained(losses, [], trained, 0.0, graph_opt.report(graph))


@pytest.mark.parametrize("grouped", slow_but([False, True], False))
def test_lookups_stay_whole(grouped: bool) -> None:
    assert_same(_with_lookups(3, grouped), _with_lookups(0, grouped))


def test_a_batch_of_which_nothing_is_divided_is_said_to_run_whole() -> None:
    rows = tf.nn.embedding_lookup(models.table(), models.features()["other"])
    tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows))
    passed = ran_pass("micro_batches", config(2))
    assert passed.drawn() == [] and passed.report.micro_batches == ""
    (line,) = passed.report.left_alone
    assert line.startswith("micro_batch_num: each batch runs whole")


def test_batches_are_divided_once() -> None:
    inputs = tf.placeholder(tf.float32, [None, 6])
    loss = tf.reduce_sum(tf.square(layers(inputs, (4, 1))))
    tf.train.AdagradOptimizer(0.1).minimize(loss)
    once = ran_pass("micro_batches", config(2))
    with pytest.raises(tf.errors.FailedPreconditionError, match="divided before"):
        ran_pass("micro_batches", config(2), once.change.after)
