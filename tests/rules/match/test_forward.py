"""Lookups are distinguished from what optimizers, summaries and initializers gather."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import find_lookups
from graph_opt.rules.match.forward import ForwardPart
from tests.quick_cases import one_of_each
from tests.rules import lookup_models
from tests.rules.lookup_models import ROWS, WIDTH, Model
from tests.rules.search import outputs, said, search

OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "adam": lambda: tf.train.AdamOptimizer(),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1),
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "proximal": lambda: tf.train.ProximalAdagradOptimizer(0.1),
}
MODELS = ["embedding_lookup", "sparse_mean", "sparse_weighted_mean", "safe_weighted_mean"]


def loss_of(model: Model, dense: bool = True) -> Any:
    """A scalar loss of the model's outputs, with a dense layer or with no gradient op at all."""
    flat = [tf.reshape(tensor, [-1, WIDTH]) for tensor in model.outputs]
    joined = tf.concat(flat, 0)
    if not dense:
        return tf.reduce_sum(joined)
    layer = tf.get_variable("layer", [WIDTH, 4], use_resource=model.resource)
    return tf.reduce_mean(tf.nn.relu(tf.matmul(joined, layer)))


def assert_finds_all(model: Model) -> None:
    assert [said(lookup) for lookup in search().lookups] == model.expected


@pytest.mark.parametrize(
    "name, optimizer, resource", one_of_each(list(MODELS), sorted(OPTIMIZERS), [True, False])
)
def test_backward_and_update_change_nothing(name: str, optimizer: str, resource: bool) -> None:
    model = Model(tf, resource)
    lookup_models.CORE_MODELS[name](model)
    OPTIMIZERS[optimizer]().minimize(loss_of(model))
    assert_finds_all(model)


@pytest.mark.parametrize("name", sorted(lookup_models.CORE_MODELS))
def test_inference_graphs_have_the_same_lookups(name: str) -> None:
    model = Model(tf, partitions=2)
    lookup_models.CORE_MODELS[name](model)
    loss_of(model)
    assert_finds_all(model)


@pytest.mark.parametrize("name", MODELS)
def test_fetched_and_summarised_gradients_change_nothing(name: str) -> None:
    model = Model(tf)
    lookup_models.CORE_MODELS[name](model)
    optimizer = tf.train.AdagradOptimizer(0.1)
    pairs = optimizer.compute_gradients(loss_of(model))
    gradients = [tf.convert_to_tensor(gradient) for gradient, _ in pairs]
    clipped, norm = tf.clip_by_global_norm(gradients, 1.0)
    tf.summary.scalar("norm", norm)
    for gradient in clipped:
        tf.summary.histogram("gradient", gradient)
        tf.norm(gradient)
    optimizer.apply_gradients(zip(clipped, [variable for _, variable in pairs]))
    assert_finds_all(model)


@pytest.mark.parametrize("name", MODELS)
def test_hand_written_optimizers_that_assign_change_nothing(name: str) -> None:
    model = Model(tf)
    lookup_models.CORE_MODELS[name](model)
    variables = tf.trainable_variables()
    for variable, gradient in zip(variables, tf.gradients(loss_of(model), variables)):
        dense = tf.convert_to_tensor(gradient)
        moment = tf.get_variable(variable.op.name + "_moment", variable.shape, trainable=False)
        following = 0.9 * moment + 0.1 * dense
        tf.assign(moment, following)
        tf.assign(variable, variable - 0.1 * following)
    assert_finds_all(model)


@pytest.mark.parametrize("resource", [False, True])
def test_an_optimizers_gathers_from_its_slots_are_not_lookups(resource: bool) -> None:
    model = Model(tf, resource)
    lookup_models.embedding_lookup(model)
    table = tf.trainable_variables()[0]
    gradient = tf.gradients(loss_of(model), [table])[0]
    moment = tf.get_variable("moment", [ROWS, WIDTH], use_resource=resource, trainable=False)
    rows = 0.9 * tf.gather(moment, gradient.indices) + 0.1 * gradient.values
    tf.scatter_update(moment, gradient.indices, rows)
    decayed = gradient.values + 0.01 * tf.gather(table, gradient.indices)
    tf.scatter_sub(table, gradient.indices, decayed)
    assert_finds_all(model)


def test_rows_gathered_only_for_a_summary_are_not_a_lookup() -> None:
    model = Model(tf)
    lookup_models.embedding_lookup(model)
    tf.summary.histogram("rows", tf.gather(tf.trainable_variables()[0], model.features()["values"]))
    model.train()
    assert_finds_all(model)


def test_rows_gathered_to_initialize_a_variable_are_not_a_lookup() -> None:
    model = Model(tf)
    lookup_models.embedding_lookup(model)
    trained = tf.trainable_variables()[0]
    tf.Variable(tf.gather(trained.initialized_value(), [1, 2, 3]), name="copy")
    target = tf.get_variable("target", [3, WIDTH])
    tf.assign(target, tf.gather(trained, [1, 2, 3]))
    model.train()
    assert_finds_all(model)


@pytest.mark.parametrize("dense", [True, False])
def test_a_loss_read_by_nothing_but_its_summary_still_counts(dense: bool) -> None:
    model = Model(tf)
    lookup_models.embedding_lookup(model)
    loss = loss_of(model, dense)
    tf.summary.scalar("loss", loss)
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    assert_finds_all(model)


def test_a_loss_read_by_nothing_but_its_moving_average_still_counts() -> None:
    model = Model(tf)
    lookup_models.embedding_lookup(model)
    loss = loss_of(model, dense=False)
    tf.train.ExponentialMovingAverage(0.9).apply([loss])
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    assert_finds_all(model)


@pytest.mark.parametrize("name", MODELS)
def test_a_graph_cut_down_to_its_train_op_keeps_its_lookups(name: str) -> None:
    model = Model(tf)
    lookup_models.CORE_MODELS[name](model)
    train = tf.train.AdagradOptimizer(0.1).minimize(loss_of(model))
    whole = tf.get_default_graph().as_graph_def()
    cut = tf.graph_util.extract_sub_graph(whole, [train.name])
    found = find_lookups(GraphView(cut)).lookups
    assert [said(lookup) for lookup in found] == model.expected


def test_gradients_inside_of_the_loss_hide_no_lookup() -> None:
    model = Model(tf)
    lookup_models.CORE_MODELS["sparse_weighted_mean"](model)
    first = loss_of(model)
    penalty = tf.reduce_sum(tf.square(tf.gradients(first, model.outputs)[0]))
    tf.train.AdagradOptimizer(0.1).minimize(first + penalty)
    assert_finds_all(model)


def test_a_saver_changes_nothing() -> None:
    model = Model(tf, partitions=2)
    lookup_models.CORE_MODELS["safe_mean"](model)
    model.train()
    tf.train.Saver(sharded=True)
    tf.summary.merge_all()
    tf.global_variables_initializer()
    assert_finds_all(model)


def test_several_losses_and_optimizers_share_a_graph() -> None:
    model = Model(tf)
    lookup_models.shared_ids(model)
    loss = loss_of(model)
    tf.train.AdamOptimizer().minimize(loss)
    tf.train.AdagradOptimizer(0.1).minimize(2.0 * loss)
    assert_finds_all(model)


def dense_dependence() -> List[Tuple[str, bool]]:
    """(node, whether it depends on a dense variable) for a graph with one of each kind."""
    table = tf.get_variable("table", [ROWS, WIDTH])
    dense = tf.get_variable("dense", [WIDTH, 1])
    ids = tf.placeholder(tf.int64, [None], name="ids")
    rows = tf.gather(table, ids, name="rows")
    scores = tf.matmul(rows, dense, name="scores")
    sizes = tf.shape(scores, name="sizes")
    forward = ForwardPart(GraphView(tf.get_default_graph().as_graph_def()))
    names = [tensor.op.name for tensor in (ids, rows, scores, sizes)]
    return [(name, forward.depends_on_dense_variable(name)) for name in names]


def test_single_rows_and_shapes_are_not_a_dense_dependence() -> None:
    assert dense_dependence() == [
        ("ids", False),
        ("rows", False),
        ("scores", True),
        ("sizes", False),
    ]


def test_stays_inside_overlooks_readers_of_shapes_and_gradients() -> None:
    rows = tf.gather(tf.get_variable("table", [ROWS, WIDTH]), tf.placeholder(tf.int64, [None]))
    inside = tf.identity(rows, "inside")
    tf.shape(rows, name="shape")
    loss = tf.reduce_sum(tf.square(inside))
    gradient = tf.gradients(loss, inside)[0]
    tf.norm(rows * gradient, name="backward_norm")
    view = GraphView(tf.get_default_graph().as_graph_def())
    assert ForwardPart(view).stays_inside(TensorRef(rows.op.name, 0), ("inside",))
    tf.norm(rows, name="outside")
    view = GraphView(tf.get_default_graph().as_graph_def())
    assert not ForwardPart(view).stays_inside(TensorRef(rows.op.name, 0), ("inside",))


def test_outputs_are_listed_in_graph_order() -> None:
    model = Model(tf)
    lookup_models.shared_ids(model)
    names = [fact.output for fact in model.expected]
    assert [output for _, output in outputs(search())] == names
