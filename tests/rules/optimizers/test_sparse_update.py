"""Updates by optimizers are recognised, and the ops that they describe train the same."""

from __future__ import annotations

from itertools import product
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import TensorRef
from graph_opt.rules import find_lookups
from graph_opt.rules.gradients.rows import row_gradients
from graph_opt.rules.optimizers.sparse_update import SparseUpdate, SparseUpdates, sparse_updates
from tests.optimizer_models import KERAS, MOVING_EVERY_ROW, STOCK
from tests.quick_cases import slow_but
from tests.release_features import keras_optimizers
from tests.releases.outcomes import TENSORFLOW_1, optimizer_of
from tests.releases.read import read_graph
from tests.rules.gradient_values import loss_of
from tests.rules.lookup_models import CORE_MODELS, ROWS, Model
from tests.rules.lookup_values import FEATURES, random_batch, shaped_view, tensor_of
from tests.rules.test_lookup_inputs import FUSED_OF_TENSORFLOW_1, VARIANTS, few
from tests.rules.update_values import fused_updates, trained

STEPS = 3
RATE = float(np.float32(0.1))


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(7)
        yield graph


def two_lookups(model: Model) -> None:
    """Two lookups of one table, and one of another."""
    shared, other = model.table("shared"), model.table("other")
    for table, combiner in ((shared, "mean"), (other, "sum"), (shared, "sqrtn")):
        model.outputs.append(
            tf.nn.safe_embedding_lookup_sparse(
                table,
                model.sparse_ids(),
                model.sparse_weights() if combiner == "mean" else None,
                combiner=combiner,
                default_id=1 if combiner == "sum" else None,
                partition_strategy=model.strategy,
            )
        )


def batches(steps: int) -> List[Dict[Any, Any]]:
    source = next(
        operation.name
        for operation in tf.get_default_graph().get_operations()
        if operation.type == "IteratorGetNext"
    )
    return [
        {
            tensor_of(TensorRef(source, index)): random_batch(seed, ROWS, lowest_id=-9)[name]
            for index, name in enumerate(FEATURES)
        }
        for seed in range(steps)
    ]


def steps_alike(optimizer: str) -> int:
    """If all rows move, only the first step is the same as a row-wise update."""
    return 1 if optimizer in MOVING_EVERY_ROW else STEPS


def assert_trains_alike(step: Any, steps: int = STEPS, counter: Any = None) -> None:
    ours = tf.group(*fused_updates(shaped_view()))
    if counter is not None:
        with tf.control_dependencies([ours]):
            ours = tf.assign_add(counter, 1).op
    feeds = batches(steps)
    start, stock = trained(step, feeds)
    same_start, fused = trained(ours, feeds)
    assert all(np.array_equal(same_start[name], value) for name, value in start.items())
    counters = ("beta1_power", "beta2_power", "iter")
    for name, value in stock.items():
        if not name.endswith(counters):
            np.testing.assert_allclose(fused[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    assert any(np.any(stock[name] != value) for name, value in start.items())


def optimizers_and_variants() -> List[Any]:
    """All pairs, of which each kind of variable and the optimizers that differ most are quick.

    Each optimizer with each kind of variable is among the tests of the whole pass.
    """
    quick = [("adagrad", "ref_mod"), ("adagrad", "resource"), ("momentum", "ref")]
    quick += [(name, "resource_div") for name in [*list(STOCK)[::2], "adadelta", "adam_w"]]
    return slow_but(product(STOCK, VARIANTS), *quick)


@pytest.mark.parametrize("optimizer, variant", optimizers_and_variants())
def test_one_op_for_each_table_trains_as_the_update_does(optimizer: str, variant: str) -> None:
    model = Model(tf, **VARIANTS[variant])
    two_lookups(model)
    step = STOCK[optimizer]().minimize(loss_of(model))
    assert_trains_alike(step, steps_alike(optimizer))


# The others end in ops that those of TensorFlow end in, too.
@pytest.mark.parametrize(
    "optimizer",
    slow_but(KERAS, "sgd", "amsgrad", "adamax", "rms_prop_centered_plain"),
)
def test_updates_of_keras_optimizers(optimizer: str) -> None:
    model = Model(tf, resource=True)
    two_lookups(model)
    name, options = KERAS[optimizer]
    made = getattr(keras_optimizers(), name)(learning_rate=0.1, **options)
    with tf.control_dependencies(made.get_updates(loss_of(model), tf.trainable_variables())):
        step = tf.no_op()
    assert_trains_alike(step, steps_alike(optimizer), made.iterations)


@pytest.mark.parametrize("name", few(FUSED_OF_TENSORFLOW_1, 5))
def test_updates_of_graphs_made_by_tensorflow_1_are_found(name: str) -> None:
    tf.import_graph_def(read_graph(TENSORFLOW_1, name), name="")
    view = shaped_view()
    for lookup in find_lookups(view).lookups:
        known = [gradient.slices for gradient in row_gradients(view, lookup)]
        updates = updates_of(*(table.name for table in lookup.tables))
        assert updates.refusals == {}
        for shard, table in enumerate(lookup.tables):
            update = updates.found[table.name]
            assert update.optimizer == optimizer_of(name)
            assert set(update.parts) >= {slices[shard] for slices in known}


def update_of(table: str = "table") -> SparseUpdate:
    found = updates_of(table)
    assert found.refusals == {}
    return found.found[table]


def updates_of(*tables: str) -> SparseUpdates:
    return sparse_updates(shaped_view(), tables)


def code_of(table: str = "table") -> str:
    found = updates_of(table)
    assert found.found == {}
    return found.refusals[table].code if found.refusals else ""


def lookup_loss(resource: bool = False, name: str = "sparse_mean") -> Any:
    model = Model(tf, resource=resource)
    CORE_MODELS[name](model)
    return loss_of(model)


FACTS: List[Tuple[Any, Tuple[Any, ...], Dict[str, bool]]] = [
    (lambda: tf.train.GradientDescentOptimizer(0.1, use_locking=True), (RATE,), {}),
    (STOCK["momentum"], (RATE, float(np.float32(0.9))), {"use_nesterov": False}),
    (STOCK["nesterov"], (RATE, float(np.float32(0.9))), {"use_nesterov": True}),
    (STOCK["adagrad"], (RATE, 0.0), {"update_slots": True}),
]


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize(("make", "values", "attributes"), FACTS)
def test_constants_are_values_and_flags_are_kept(
    make: Any, values: Tuple[Any, ...], attributes: Dict[str, bool], resource: bool
) -> None:
    optimizer = make()
    optimizer.minimize(lookup_loss(resource))
    update = update_of()
    assert update.hyperparameters == values
    locking = optimizer.get_name() == "GradientDescent" and not resource
    assert update.attributes == {**attributes, "use_locking": locking}
    assert update.end in update.nodes and update.end.startswith(
        optimizer.get_name() + "/update_table/"
    )


@pytest.mark.parametrize("resource", [False, True])
def test_slots_and_computed_hyperparameters_are_tensors(resource: bool) -> None:
    tf.train.FtrlOptimizer(
        0.1, l2_regularization_strength=0.02, l2_shrinkage_regularization_strength=0.3
    ).minimize(lookup_loss(resource))
    update = update_of()
    assert [str(slot) for slot in update.slots] == ["table/Ftrl:0", "table/Ftrl_1:0"]
    rate, l1, l2, shrinkage, power = update.hyperparameters
    assert (rate, l1, power) == (RATE, 0.0, -0.5)
    assert l2 == TensorRef("Ftrl/add", 0) and shrinkage == float(np.float32(0.3))


@pytest.mark.parametrize("resource", [False, True])
def test_equal_updates_have_equal_hyperparameters(resource: bool) -> None:
    model = Model(tf, resource=resource)
    two_lookups(model)
    rate = tf.get_variable("rate", [], use_resource=resource, trainable=False)
    tf.train.AdamOptimizer(rate).minimize(loss_of(model))
    found = updates_of("shared", "other").found
    values = {update.hyperparameters for update in found.values()}
    assert len(values) == 1
    read = "Read/ReadVariableOp" if resource else "read"
    assert next(iter(values))[4:] == (
        TensorRef("beta1_power/" + read, 0),
        TensorRef("beta2_power/" + read, 0),
    )


def test_a_rate_that_waits_for_its_own_change_is_read_afterwards() -> None:
    rate = tf.get_variable("rate", [], use_resource=False, trainable=False)
    loss = lookup_loss()
    with tf.control_dependencies([tf.assign(rate, 0.5)]):
        later = tf.identity(rate, name="later")
    tf.train.GradientDescentOptimizer(later).minimize(loss)
    assert update_of().hyperparameters == (TensorRef("later", 0),)


@pytest.mark.parametrize("variant", slow_but(VARIANTS, "ref", "resource_div"))
def test_parts_are_the_gradients_of_all_lookups_in_order(variant: str) -> None:
    model = Model(tf, **VARIANTS[variant])
    two_lookups(model)
    ids = tf.cast(model.features()["ids"], tf.int32)
    shared = [v for v in tf.trainable_variables() if v.op.name.startswith("shared")]
    model.outputs.append(tf.nn.embedding_lookup(shared, ids, partition_strategy=model.strategy))
    STOCK["adagrad"]().minimize(loss_of(model))
    view = shaped_view()
    known = [
        gradient.slices[0]
        for lookup in find_lookups(view).lookups
        for gradient in row_gradients(view, lookup)
        if lookup.tables[0].name.startswith("shared")
    ]
    assert len(known) == 3
    assert set(update_of(shared[0].op.name).parts) == set(known)


def test_a_clipped_gradient_is_a_part_that_is_no_lookups() -> None:
    loss = lookup_loss()
    optimizer = STOCK["adagrad"]()
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
    optimizer.apply_gradients(zip(clipped, variables))
    view = shaped_view()
    (gradient,) = row_gradients(view, find_lookups(view).lookups[0])
    (part,) = update_of().parts
    assert part.indices == gradient.slices[0].indices
    assert part.values != gradient.slices[0].values and "clip_by_global_norm" in part.values.node


def test_a_scaled_gradient_is_a_part_that_is_no_lookups() -> None:
    loss = lookup_loss()
    optimizer = STOCK["sgd"]()
    ((slices, table),) = optimizer.compute_gradients(loss)
    scaled = tf.IndexedSlices(slices.values * 0.5, slices.indices, slices.dense_shape)
    optimizer.apply_gradients([(scaled, table)])
    (part,) = update_of().parts
    assert str(part.values) == scaled.values.name


@pytest.mark.parametrize("resource", slow_but([False, True], True))
@pytest.mark.parametrize("optimizer", STOCK)
def test_train_ops_that_wait_for_other_updates(optimizer: str, resource: bool) -> None:
    loss = lookup_loss(resource)
    steps = tf.get_variable("steps", [], use_resource=resource, trainable=False)
    with tf.control_dependencies([tf.assign_add(steps, 1.0)]):
        STOCK[optimizer]().minimize(loss)
    assert len(update_of().parts) == 1


def test_a_table_that_nothing_updates_is_neither_found_nor_refused() -> None:
    lookup_loss()
    tf.train.Saver()
    assert updates_of("table") == SparseUpdates({}, {})


def test_savers_and_initializers_are_not_updates() -> None:
    STOCK["adagrad"]().minimize(lookup_loss())
    tf.train.Saver()
    table = tf.trainable_variables()[0]
    tf.assign(table, tf.placeholder(tf.float32, [ROWS, 8]))
    assert update_of().optimizer == "Adagrad"


@pytest.mark.parametrize("resource", [False, True])
def test_refuses_two_updates_of_one_table(resource: bool) -> None:
    loss = lookup_loss(resource)
    STOCK["adagrad"]().minimize(loss)
    STOCK["sgd"]().minimize(loss)
    assert code_of() == "table_updated_twice"


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("comes_first", [False, True])
def test_refuses_an_update_of_all_rows_besides(resource: bool, comes_first: bool) -> None:
    loss = lookup_loss(resource)
    table = tf.trainable_variables()[0]
    if comes_first:
        tf.assign_add(table, tf.ones_like(table))
    STOCK["adagrad"]().minimize(loss)
    if not comes_first:
        tf.assign_sub(table, tf.ones_like(table))
    assert code_of() == "table_updated_twice"


@pytest.mark.parametrize("resource", [False, True])
def test_refuses_an_optimizer_that_nobody_knows_and_names_it(resource: bool) -> None:
    step = tf.train.get_or_create_global_step()
    tf.train.AdagradDAOptimizer(0.1, step).minimize(lookup_loss(resource))
    refusal = updates_of("table").refusals["table"]
    assert refusal.code == "optimizer_unknown" and "SparseApplyAdagradDA" in refusal.saw


@pytest.mark.parametrize("resource", [False, True])
def test_refuses_a_table_that_something_else_assigns(resource: bool) -> None:
    loss = lookup_loss(resource)
    table = tf.trainable_variables()[0]
    STOCK["adagrad"]().minimize(loss)
    tf.assign(table, tf.clip_by_value(table, -1.0, 1.0))
    assert code_of() == "table_assigned"


@pytest.mark.parametrize("resource", [False, True])
def test_an_update_inside_of_conditions_tells_their_branches(resource: bool) -> None:
    model = Model(tf, resource=resource)
    CORE_MODELS["sparse_mean"](model)
    (slices,) = tf.gradients(loss_of(model), tf.trainable_variables())
    table = tf.trainable_variables()[0]

    def step() -> Any:
        return STOCK["adagrad"]().apply_gradients([(slices, table)])

    large = tf.reduce_sum(model.outputs[0]) > 0
    tf.cond(large, lambda: tf.cond(large, tf.no_op, step), tf.no_op)
    update = updates_of("table").found["table"]
    assert [branch.taken for branch in update.branches] == [1, 0]
    assert len(update.parts) == 1 and update.optimizer == "Adagrad"


@pytest.mark.parametrize("op", ["scatter_sub", "scatter_add", "scatter_update"])
def test_refuses_rows_that_a_user_changes(op: str) -> None:
    model = Model(tf)
    CORE_MODELS["sparse_mean"](model)
    ids = model.features()["values"]
    change = tf.ones([tf.size(ids), 8])
    getattr(tf, op)(tf.trainable_variables()[0], ids, change)
    assert code_of() in ("update_not_recognised", "optimizer_unknown")


@pytest.mark.parametrize("resource", [False, True])
def test_rows_that_a_script_sets_are_no_second_update(resource: bool) -> None:
    STOCK["adagrad"]().minimize(lookup_loss(resource))
    table = tf.trainable_variables()[0]
    tf.scatter_update(table, [1, 2], tf.ones([2, 8]))
    tf.scatter_nd_update(table, [[3]], tf.ones([1, 8]))
    tf.assign(table[:2], tf.zeros([2, 8]))
    assert update_of().optimizer == "Adagrad"


def test_refuses_a_product_that_is_not_a_rate_times_a_gradient() -> None:
    model = Model(tf)
    CORE_MODELS["sparse_mean"](model)
    ids = model.features()["values"]
    change = tf.ones([tf.size(ids), 8])
    tf.scatter_sub(tf.trainable_variables()[0], ids, change * change)
    assert code_of() == "update_not_recognised"


def test_refuses_duplicates_that_are_applied_one_after_the_other() -> None:
    model = Model(tf)
    CORE_MODELS["embedding_lookup"](model)
    table = tf.trainable_variables()[0]
    slot = tf.get_variable("slot", table.shape, use_resource=False, trainable=False)
    (slices,) = tf.gradients(loss_of(model), [table])
    tf.raw_ops.SparseApplyAdagrad(
        var=table._ref(), accum=slot._ref(), lr=0.1, grad=slices.values, indices=slices.indices
    )
    assert code_of() == "update_not_recognised"


def test_refuses_slots_of_another_shape() -> None:
    STOCK["adagrad"]().minimize(lookup_loss())
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    for node in graph_def.node:
        if node.name == "table/Adagrad":
            node.attr["shape"].shape.dim[1].size = 4
    found = sparse_updates(type(shaped_view())(graph_def), ["table"])
    assert found.refusals["table"].code == "slots_differ"
