"""A step on several batches gives the numbers of the sum of their gradients."""

from __future__ import annotations

import functools
from typing import Any, Dict, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.passes.summed_batches.batch_models import (
    MODELS,
    OPTIMIZERS,
    Features,
    Loss,
    assert_same,
    branches,
    clipped,
    config,
    dataset,
    expected,
    found,
    frozen,
    hops,
    layer,
    loss_of,
    normalized,
    same,
    sequences,
    table,
)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
@pytest.mark.parametrize("model", sorted(MODELS))
def test_updates_are_by_the_sum_of_gradients(model: str, optimizer: str) -> None:
    given = MODELS[model], OPTIMIZERS[optimizer]
    for static in (False, True):
        data = functools.partial(dataset, 12, static=static)
        wanted = expected(*given, 3, data, same, 4)
        assert_same(found(*given, data, same, config(3), 4), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "adam_async", "adam_w", "sgd"])
@pytest.mark.parametrize("model", ["ref", "resource"])
def test_lookups_of_all_batches_are_fused(model: str, optimizer: str, static: bool) -> None:
    data = functools.partial(dataset, 8, static=static)
    given = MODELS[model], OPTIMIZERS[optimizer]
    one = found(*given, data, same, config(2, grouped=True), 4)
    assert_same(one, expected(*given, 2, data, same, 4))
    assert one.report is not None and one.report.fused_lookups
    for part in ("gradients", "updates"):
        assert "{} fused: 6 of 6".format(part) in str(one.report), str(one.report)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"grouped": True}, {"smart": True}, {"tuned": True}])
def test_batches_of_a_group_run_ahead_together(options: Dict[str, bool]) -> None:
    given = frozen, OPTIMIZERS["adam"]
    wanted = expected(*given, 2, lambda: dataset(9), same, 9)
    assert len(wanted.rows) == 4
    one = found(*given, lambda: dataset(9), same, config(2, ahead=True, **options), 9)
    assert_same(one, wanted)
    assert one.report is not None and len(one.report.stages) == 1
    assert len(one.report.lookups) == 4 and all(each.stage for each in one.report.lookups)


@pytest.mark.slow
@pytest.mark.parametrize("smart", [False, True])
def test_batches_of_a_stage_of_the_script_are_collected(smart: bool) -> None:
    wanted = expected(frozen, OPTIMIZERS["adam"], 2, lambda: dataset(9), same, 9)
    features = graph_opt.staged(tf.data.make_one_shot_iterator(dataset(9)).get_next())
    with tf.variable_scope("model"):
        loss = frozen(features)
    step = tf.train.get_or_create_global_step()
    update = tf.train.AdamOptimizer(0.02).minimize(loss, step)
    made = config(2, ahead=True, smart=smart)
    made.graph_options.optimizer_options.async_embedding_options.infer_io_stage = False
    read = []
    with _session(update, made) as session:
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                read.append(list(session.run([features["row"], update])[0]))
        assert session.run(step) == len(read)
        with pytest.raises(tf.errors.InvalidArgumentError, match="prefetch region"):
            session.run(loss, {features["row"]: np.arange(4)})
    assert read == wanted.rows and not _codes()


def _keyed(features: Features) -> Any:
    with tf.variable_scope("tables", reuse=tf.AUTO_REUSE):
        keys = graph_opt.get_embedding_variable("keys", 4, initializer=tf.ones_initializer())
    pooled = tf.nn.embedding_lookup_sparse(keys, tf.sparse.from_dense(features["ids"]), None)
    rows = tf.nn.embedding_lookup(keys, features["other"])
    hidden = tf.concat([pooled, rows, features["dense"]], 1)
    return loss_of(layer("logits", hidden, 1), features)


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [False, True])
def test_tables_of_keys_train_those_of_all_batches(grouped: bool) -> None:
    given = _keyed, OPTIMIZERS["adagrad"]
    wanted = expected(*given, 2, lambda: dataset(8), same, 4)
    assert_same(found(*given, lambda: dataset(8), same, config(2, grouped=grouped), 4), wanted)


def _of_constant_ids(features: Features) -> Any:
    rows = tf.nn.embedding_lookup(table("table"), [1, 2, 1])
    hidden = tf.concat([features["dense"], tf.tile(rows[:1] + rows[2:], [4, 1])], 1)
    penalized = tf.get_variable("penalized", [3])
    logits = layer("logits", hidden, 1)
    return loss_of(logits, features) + tf.nn.l2_loss(penalized)


@pytest.mark.slow
def test_what_does_not_depend_on_batches_counts_once_for_each() -> None:
    given = _of_constant_ids, OPTIMIZERS["sgd"]
    wanted = expected(*given, 3, lambda: dataset(9), same, 3)
    assert_same(found(*given, lambda: dataset(9), same, config(3), 3), wanted)


@pytest.mark.slow
def test_a_smart_stage_prepares_all_batches_of_a_group() -> None:
    given = normalized, OPTIMIZERS["adam"]
    wanted = expected(*given, 3, lambda: dataset(10), same, 9)
    one = found(*given, lambda: dataset(10), same, config(3, smart=True), 9)
    assert_same(one, wanted)
    assert one.report is not None and one.report.smart_stage


def test_an_incomplete_last_group_is_left_out() -> None:
    given = normalized, OPTIMIZERS["adagrad"]
    wanted = expected(*given, 3, lambda: dataset(7, last=1), same, 9)
    assert wanted.step == len(wanted.rows) == 2
    assert_same(found(*given, lambda: dataset(7, last=1), same, config(3), 9), wanted)


@pytest.mark.slow
def test_gradients_are_clipped_batch_by_batch() -> None:
    for model in ("ref", "normalized"):
        given = MODELS[model], OPTIMIZERS["adagrad"]
        wanted = expected(*given, 2, lambda: dataset(8), clipped, 4)
        assert_same(found(*given, lambda: dataset(8), clipped, config(2, grouped=True), 4), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("functions", [False, True])
@pytest.mark.parametrize("model", [sequences, hops, branches])
def test_loops_and_branches_are_those_of_each_batch(model: Loss, functions: bool) -> None:
    was_enabled = tf.control_flow_v2_enabled()
    (tf.enable_control_flow_v2 if functions else tf.disable_control_flow_v2)()
    try:
        given = model, OPTIMIZERS["adagrad"]
        wanted = expected(*given, 3, lambda: dataset(9), same, 3)
        assert_same(found(*given, lambda: dataset(9), same, config(3), 3), wanted)
    finally:
        (tf.enable_control_flow_v2 if was_enabled else tf.disable_control_flow_v2)()


def _session(update: Any, made: Any = None) -> Any:
    session = graph_opt.Session(config=made or config(2))
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return session


def _codes() -> List[str]:
    report = graph_opt.report(tf.get_default_graph())
    return [each["code"] for each in report.refusals] if report is not None else []


def test_fed_batches_are_refused() -> None:
    features = {
        "dense": tf.placeholder(tf.float32, [None, 5]),
        "label": tf.placeholder(tf.float32, [None, 1]),
    }
    loss = normalized(features)
    update = tf.train.AdagradOptimizer(0.1).minimize(loss)
    values = np.ones([4, 5], np.float32)
    with _session(update) as session:
        session.run(update, {features["dense"]: values, features["label"]: values[:, :1]})
    assert _codes() == ["no_source_to_pull"]
    assert "each step trains on one batch" in str(graph_opt.report(tf.get_default_graph()))


def test_updates_by_hand_are_refused() -> None:
    features = tf.data.make_one_shot_iterator(dataset(8)).get_next()
    loss = normalized(features)
    (gradient,) = tf.gradients(loss, tf.trainable_variables()[:1])
    update = tf.assign_sub(tf.trainable_variables()[0], 0.1 * gradient)
    with _session(update) as session:
        session.run(update)
    assert _codes() == ["update_not_summed"]


def test_steps_that_do_not_train_pull_one_batch() -> None:
    features = tf.data.make_one_shot_iterator(dataset(8)).get_next()
    update = tf.train.AdagradOptimizer(0.1).minimize(normalized(features))
    with _session(update) as session:
        read = []
        for also in ([update], [], [update]):
            read.append(session.run([features["row"], *also])[0][0])
    assert read == [0, 8, 12]


def _batch_normalized(inputs: Any, features: Features) -> Any:
    hidden = tf.layers.batch_normalization(layer("hidden", inputs, 6), training=True)
    return loss_of(layer("logits", hidden, 1), features)


@pytest.mark.slow
def test_moving_averages_are_of_the_first_batch() -> None:
    features = tf.data.make_one_shot_iterator(dataset(8)).get_next()
    loss = _batch_normalized(features["dense"], features)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        update = tf.train.GradientDescentOptimizer(0.0).minimize(loss)
    hidden = tf.get_default_graph().get_tensor_by_name("hidden/BiasAdd:0")
    moving = [one for one in tf.global_variables() if "moving_mean" in one.op.name]
    with _session(update) as session:
        before = np.zeros(6)
        for _ in range(3):
            values, _ = session.run([hidden, update])
            before += (values.mean(0) - before) * 0.01
        np.testing.assert_allclose(session.run(moving)[0], before, 1e-4, 1e-6)
    assert not _codes()


@pytest.mark.slow
def test_each_batch_draws_numbers_of_its_own() -> None:
    features = tf.data.make_one_shot_iterator(dataset(8)).get_next()
    weights = tf.get_variable("weights", [4, 1], initializer=tf.zeros_initializer())
    kept = tf.nn.dropout(tf.ones([4, 4]), rate=0.5, seed=3)
    loss = tf.reduce_sum(tf.matmul(kept, weights) * tf.ones_like(features["label"]))
    update = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    with _session(update) as session:
        drawn, _ = session.run([kept, update])
        assert np.abs(-session.run(weights)[:, 0] - 2 * drawn.sum(0)).max() > 1


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [False, True])
def test_queues_are_pulled_too(ahead: bool) -> None:
    inputs, labels = (np.arange(24.0).reshape([24, 1]) % size for size in (5, 2))
    inputs, labels = tf.train.slice_input_producer(
        [inputs.astype(np.float32), labels.astype(np.float32)], num_epochs=1, shuffle=False
    )
    dense, label = tf.train.batch([inputs, labels], 4)
    weights = tf.get_variable("weights", [1, 1], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(dense, weights) - label))
    rate = 0.001
    update = tf.train.GradientDescentOptimizer(rate).minimize(loss)
    session = _session(update, config(2, smart=ahead))
    with session:
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        batches, value = [], 1.0
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                session.run(update)
                batches.append(session.run(weights)[0, 0])
        coordinator.request_stop()
        coordinator.join(threads)
    rows = np.arange(24.0)
    for step, found_value in enumerate(batches):
        for part in np.split(rows[step * 8 : step * 8 + 8], 2):
            residual = part % 5 * (1.0 if step == 0 else batches[step - 1]) - part % 2
            value -= rate * 2 * np.mean(residual * (part % 5))
        np.testing.assert_allclose(found_value, value, 1e-5)
    assert len(batches) == 3


def test_batches_that_cannot_be_divided_are_summed_unless_told_otherwise(capfd: Any) -> None:
    either, parts = config(2), config(2)
    either.graph_options.optimizer_options.micro_batch_rule = ""
    parts.graph_options.optimizer_options.micro_batch_rule = "parts"
    given = normalized, OPTIMIZERS["adagrad"]
    summed = found(*given, lambda: dataset(8), same, either, 4)
    assert_same(summed, expected(*given, 2, lambda: dataset(8), same, 4))
    told = capfd.readouterr().err
    assert "each step trains on 2 batches by the sum of their gradients, as in DeepRec" in told
    whole = found(*given, lambda: dataset(8), same, parts, 4)
    assert whole.rows == expected(*given, 1, lambda: dataset(8), same, 4).rows
    told = capfd.readouterr().err
    assert "micro_batch_num has no effect: each step trains on one whole batch" in told


def test_batches_that_can_be_divided_are_unless_told_otherwise() -> None:
    either = config(2)
    either.graph_options.optimizer_options.micro_batch_rule = ""
    divided = found(MODELS["ref"], OPTIMIZERS["adagrad"], lambda: dataset(8), same, either, 4)
    assert divided.report is not None
    assert divided.report.micro_batches.startswith("each batch in 2 micro-batches")


def test_a_step_that_does_not_train_takes_one_batch_where_batches_are_summed_instead() -> None:
    either = config(2, ahead=True, smart=True)
    either.graph_options.optimizer_options.micro_batch_rule = ""
    features = tf.data.make_one_shot_iterator(dataset(6)).get_next()
    update = OPTIMIZERS["adagrad"]().minimize(normalized(features))
    with graph_opt.Session(config=either) as session:
        session.run(tf.global_variables_initializer())
        rows = [session.run([features["row"], update])[0][0], session.run(features["row"])[0]]
        rows.append(session.run([features["row"], update])[0][0])
    assert rows == [0, 8, 12]
