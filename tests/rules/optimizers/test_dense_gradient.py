"""Updates by gradients that a script made as large as the table."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from graph_opt.compat import tf
from tests.dense_optimizers import DENSE, OF_RESOURCES, SHRINKING
from tests.optimizer_models import STOCK
from tests.quick_cases import slow_but
from tests.rules.gradient_values import loss_of
from tests.rules.lookup_models import Model
from tests.rules.optimizers.test_sparse_update import (
    RATE,
    assert_trains_alike,
    code_of,
    lookup_loss,
    steps_alike,
    two_lookups,
    update_of,
)


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(7)
        yield graph


@pytest.mark.parametrize(
    "optimizer, resource",
    slow_but(
        product(sorted(set(DENSE) - set(SHRINKING)), [False, True]),
        *(("adam_without_weight_decay", True), ("dense_adam", True), ("dense_momentum", True)),
        *(("dense_keras_amsgrad", True), ("dense_sgd", True)),
    ),
)
def test_updates_with_gradients_as_large_as_the_table(optimizer: str, resource: bool) -> None:
    model = Model(tf, resource=resource or optimizer in OF_RESOURCES)
    two_lookups(model)
    step = DENSE[optimizer]().minimize(loss_of(model))
    assert_trains_alike(step, steps_alike(optimizer))


@pytest.mark.parametrize("resource", [False, True])
def test_refuses_dense_updates(resource: bool) -> None:
    loss = lookup_loss(resource)
    STOCK["adagrad"]().minimize(loss + tf.norm(tf.trainable_variables()[0]))
    assert code_of() == "update_is_dense"


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_refuses_a_penalty_on_the_table_by_name(optimizer: str, resource: bool) -> None:
    loss = lookup_loss(resource)
    STOCK[optimizer]().minimize(loss + 0.5 * tf.nn.l2_loss(tf.trainable_variables()[0]))
    assert code_of() == "penalty_on_whole_table"


def squared(table: Any) -> Any:
    return 0.25 * tf.reduce_sum(tf.square(table))


@pytest.mark.parametrize("penalty", [tf.keras.regularizers.l2(0.25), squared])
@pytest.mark.parametrize("resource", [False, True])
def test_the_factor_of_a_penalty_is_what_users_wrote(resource: bool, penalty: Any) -> None:
    loss = lookup_loss(resource)
    STOCK["sgd"]().minimize(0.5 * (loss + penalty(tf.trainable_variables()[0])))
    update = update_of()
    assert (update.optimizer, update.hyperparameters) == ("GradientDescentL2", (RATE, 0.25))


@pytest.mark.parametrize(
    "penalty",
    [
        lambda table: tf.placeholder(tf.float32, []) * tf.nn.l2_loss(table),
        lambda table: tf.reduce_sum(tf.square(table) * tf.range(1.0, 1.0 + int(table.shape[1]))),
        lambda table: tf.reduce_sum(tf.pow(table, 3) / 3),
        lambda table: tf.reduce_sum(table * tf.stop_gradient(tf.abs(table))),
    ],
    ids=["fed", "of columns", "cubes", "of rows"],
)
def test_refuses_what_is_not_the_table_times_a_number(penalty: Any) -> None:
    loss = lookup_loss()
    STOCK["sgd"]().minimize(loss + penalty(tf.trainable_variables()[0]))
    assert code_of() == "update_is_dense"
