"""What fetches and feeds mean in an optimized graph."""

from __future__ import annotations

import collections
from typing import Any, Callable, Iterator, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.session.small_model import (
    USERS,
    WIDTH,
    SmallModel,
    async_config,
    initialize,
    input_data,
    report_on,
    row_batches,
    small_model,
)

Pair = collections.namedtuple("Pair", ["first", "second"])


@pytest.fixture
def model() -> SmallModel:
    return small_model()


@pytest.fixture
def session(model: SmallModel, threads_left_behind: Callable[[], List[str]]) -> Iterator[Any]:
    with graph_opt.Session(config=async_config()) as opened:
        opened.run([tf.global_variables_initializer(), model.iterator.initializer])
        yield opened


def test_each_boundary_tensor_keeps_its_name_and_gives_the_batch_of_the_step(
    session: Any, model: SmallModel
) -> None:
    data = input_data()
    users = np.random.RandomState(7).rand(USERS, WIDTH).astype(np.float32)
    for rows in row_batches():
        names = [model.features["user"].name, model.features["label"].name]
        user, label, looked_up, _ = session.run(names + [model.user_rows, model.train_op])
        np.testing.assert_array_equal(user, data["user"][rows])
        np.testing.assert_array_equal(label, data["label"][rows])
        np.testing.assert_array_equal(looked_up, users[user])


def test_every_structure_of_fetches_comes_back_as_given(session: Any, model: SmallModel) -> None:
    row, user = model.features["row"], model.features["user"]
    fetched = session.run(
        {"pair": Pair(row, [user, row]), "name": row.name, "op": model.train_op, "none": []}
    )
    first = row_batches()[0]
    assert type(fetched["pair"]) is Pair
    assert list(fetched["pair"].first) == list(fetched["pair"].second[1]) == first
    assert list(fetched["name"]) == first
    assert (fetched["op"], fetched["none"]) == (None, [])


def test_parts_of_sparse_tensors_and_slices_are_mapped(session: Any, model: SmallModel) -> None:
    row = model.features["row"]
    ordered = tf.expand_dims(tf.range(8, dtype=tf.int64), 1)
    sparse = tf.SparseTensor(ordered, row, tf.constant([8], tf.int64))
    assert list(session.run(sparse).values) == row_batches()[0]
    slices = tf.IndexedSlices(row, row)
    assert list(session.run([slices])[0].indices) == row_batches()[1]


def test_running_the_op_of_a_boundary_tensor_skips_one_batch(
    session: Any, model: SmallModel
) -> None:
    session.run(model.user_rows.op)
    assert list(session.run(model.features["row"])) == row_batches()[1]


def hidden_tensor(session: Any) -> Any:
    hidden = report_on(session.graph).hidden
    operations = session.graph.get_operations()
    fetches = report_on(session.graph).fetches
    for operation in operations:
        names = [tensor.name for tensor in operation.outputs]
        reads_table = "Gather" in operation.type and operation.name in hidden
        if reads_table and not set(names) & set(fetches):
            return operation.outputs[0]
    raise AssertionError("no rows are hidden")


def test_a_tensor_that_exists_only_in_prefetch_is_refused_with_its_neighbours(
    session: Any, model: SmallModel
) -> None:
    session.run(model.global_step)
    tensor = hidden_tensor(session)
    for fetch in (tensor, tensor.name, {"nested": [tensor]}, tensor.op):
        with pytest.raises(tf.errors.InvalidArgumentError) as refused:
            session.run(fetch)
        assert tensor.op.name in refused.value.message
        assert "prefetch region" in refused.value.message
        assert any(name in refused.value.message for name in report_on(session.graph).fetches)
        assert "async_embedding_mark_node" in refused.value.message
    with pytest.raises(tf.errors.InvalidArgumentError, match="prefetch region"):
        session.make_callable(tensor)
    with pytest.raises(tf.errors.InvalidArgumentError, match="prefetch region"):
        session.partial_run_setup([tensor])


def test_refused_fetches_cost_no_batch(session: Any, model: SmallModel) -> None:
    session.run(model.global_step)
    for _ in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run([hidden_tensor(session), model.loss])
    assert list(session.run(model.features["row"])) == row_batches()[0]


def test_reading_the_clone_of_the_input_is_refused(session: Any, model: SmallModel) -> None:
    session.run(model.global_step)
    source = model.features["row"].op.name
    clones = [op for op in session.graph.get_operations() if op.name.endswith("/" + source)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="whose prefetch threads would miss"):
        session.run(clones[0].outputs[0])
    assert list(session.run(model.features["row"])) == row_batches()[0]


def test_feeding_what_belongs_to_prefetch_is_refused(session: Any, model: SmallModel) -> None:
    session.run(model.global_step)
    for tensor in (model.features["user"], model.user_rows, hidden_tensor(session)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="cannot feed '" + tensor.name):
            session.run(model.loss, {tensor: np.zeros(1)} if tensor.shape.rank == 1 else
                        {tensor: np.zeros([1, WIDTH])})  # fmt: skip
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot feed"):
        session.partial_run_setup([model.loss], [model.features["user"]])


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_feeding_a_table_reaches_its_lookups_or_is_refused(fused: bool, ahead: bool) -> None:
    model = small_model(one_shot=True)
    value = np.ones([USERS, WIDTH], np.float32)
    config = async_config() if ahead else graph_opt.ConfigProto()
    config.graph_options.optimizer_options.do_group_embedding = fused
    with graph_opt.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        for name in ("users:0", "users/read:0"):
            try:
                rows = session.run(model.user_rows, {name: value})
            except tf.errors.InvalidArgumentError as error:
                assert "cannot feed '{}'".format(name) in error.message
                assert fused or ahead
            else:
                assert (rows == 1).all()


@pytest.mark.parametrize("resource", [False, True])
def test_ids_of_an_iterator_may_be_fed_to_lookups_that_are_fused(resource: bool) -> None:
    ids = tf.data.make_one_shot_iterator(tf.data.Dataset.range(8).batch(4)).get_next()
    values = np.arange(20, dtype=np.float32).reshape([10, 2])
    table = tf.get_variable("table", initializer=values, use_resource=resource)
    rows = tf.nn.embedding_lookup(table, ids)
    train_op = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(rows))
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.do_group_embedding = True
    with graph_opt.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        fed, _ = session.run([rows, train_op], {ids: [9, 5]})
        np.testing.assert_array_equal(fed, values[[9, 5]])
        np.testing.assert_array_equal(session.run(rows), values[:4])
        np.testing.assert_array_equal(session.run(rows, {ids: [9]}), values[[9]] - 1)


def test_feeding_main_is_as_before(session: Any, model: SmallModel) -> None:
    assert session.run(model.loss, {model.loss: 5.0}) == 5.0
    assert list(session.run(model.features["row"])) == row_batches()[0]


@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam"])
@pytest.mark.parametrize("exact", [False, True])
def test_a_lookup_that_is_added_later_reads_rows_of_the_batch_of_its_step(
    exact: bool, optimizer: str
) -> None:
    model = small_model(one_shot=True)
    users = next(each for each in tf.trainable_variables() if each.op.name == "users")
    train_op = {"Adagrad": tf.train.AdagradOptimizer, "Adam": tf.train.AdamOptimizer}[optimizer](
        0.1
    ).minimize(model.loss)
    config = async_config()
    options = config.graph_options.optimizer_options
    options.do_group_embedding, options.async_embedding_options.exact = True, exact
    data = input_data()
    with graph_opt.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            session.run(train_op)
        late = tf.nn.embedding_lookup(users, model.features["user"])
        for rows in row_batches()[2:5]:
            table, looked_up = session.run(users), session.run(late)
            np.testing.assert_array_equal(looked_up, table[data["user"][rows]])


def test_training_that_is_added_later_is_told_to_miss_tables_of_rows_that_run_ahead(
    session: Any, model: SmallModel, capfd: pytest.CaptureFixture[str]
) -> None:
    session.run(model.train_op)
    late = tf.train.GradientDescentOptimizer(0.1).minimize(model.loss)
    session.run(model.train_op)
    assert "tf.gradients" not in capfd.readouterr().err
    for _ in range(2):
        session.run(late)
    told = capfd.readouterr().err
    assert told.count("tf.gradients gives None for tables whose lookups run ahead") == 1
    assert "build all training" in told


def test_gradients_through_rows_that_are_read_again_are_refused(model: SmallModel) -> None:
    config = async_config()
    options = config.graph_options.optimizer_options
    options.do_group_embedding, options.async_embedding_options.exact = True, True
    with graph_opt.Session(config=config) as session:
        initialize(session, model)
        session.run(model.train_op)
        with pytest.raises(LookupError, match="build all training"):
            tf.train.GradientDescentOptimizer(0.1).minimize(model.loss)


def test_a_stock_session_is_stopped_from_stealing_batches(model: SmallModel) -> None:
    graph_opt.optimize_graph(tf.get_default_graph(), async_config())
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), model.iterator.initializer])
        with pytest.raises(tf.errors.InvalidArgumentError, match="prefetch region"):
            session.run(model.features["row"])
