"""Tables whose keys get rows when they are first seen."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sok.communication import communicating_through

WIDTH = 3
KEYS = np.array([7, -1, 2**63 - 1, -(2**63), 7, 0, 123456789012], np.int64)


def make_layer(rows: int = 8, **arguments: Any) -> Any:
    return sok.All2AllDenseEmbedding(rows, WIDTH, 1, 1, dynamic_input=True, **arguments)


def rows_of_all_keys(transport: Transport, **arguments: Any) -> Dict[int, np.ndarray]:
    """What a rank finds under `KEYS`, of which it first sees some."""
    with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
        sok.Init(global_batch_size=4, seed=3)
        layer, asked = make_layer(**arguments), tf.placeholder(tf.int64, [None])
        rows = layer(asked)
        session.run(tf.global_variables_initializer())
        session.run(rows, {asked: KEYS[transport.rank :: 2]})
        return dict(zip(KEYS, session.run(rows, {asked: KEYS})))


@pytest.mark.parametrize("initializer", [None, "random_normal", "ones"])
def test_a_key_starts_with_the_same_row_on_any_number_of_ranks(initializer: Any) -> None:
    alone = rows_of_all_keys(OneRank(), embedding_initializer=initializer)
    if initializer is None:
        values = np.array(list(alone.values()))
        assert len(np.unique(values)) == values.size and np.abs(values).max() <= 0.05
    for ranks in (2, 3):
        for found in run_ranks(
            ranks, lambda transport: rows_of_all_keys(transport, embedding_initializer=initializer)
        ):
            for key, row in found.items():
                np.testing.assert_array_equal(row, alone[key])


def test_keys_take_the_rows_of_an_unknown_initializer(capsys: pytest.CaptureFixture[str]) -> None:
    def numbered(shape: Any, dtype: Any = None) -> Any:
        return tf.cast(tf.reshape(tf.range(shape[0] * shape[1]), shape), dtype)

    found = rows_of_all_keys(OneRank(), embedding_initializer=numbered)
    assert [row[0] for row in found.values()] == [WIDTH * (key % 8) for key in found]
    assert "key k starts with row k % 8" in capsys.readouterr().err
    with communicating_through(OneRank()), tf.Graph().as_default(), tf.Session() as session:
        fixed = make_layer(embedding_initializer=numbered)(tf.constant([7, 9]), training=False)
        session.run(tf.global_variables_initializer())
        assert not session.run(fixed).any()


def test_only_training_gives_rows_to_keys() -> None:
    def check(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            layer, training = make_layer(), tf.placeholder_with_default(True, [])
            asked = tf.placeholder(tf.int64, [None])
            rows, fixed = layer(asked, training=training), layer(asked, training=False)
            count = layer.embedding_variable.keyed_rows.num_rows()
            session.run(tf.global_variables_initializer())
            assert not session.run(fixed, {asked: [1, 2, 3]}).any()
            assert not session.run(rows, {asked: [1, 2, 3], training: False}).any()
            assert session.run(count) == 0
            seen = session.run(rows, {asked: [2, 4]})
            assert seen.all() and session.run(count) == (2 if transport.rank == 0 else 0)
            again = session.run(fixed, {asked: [4, 1, 2]})
            np.testing.assert_array_equal(again, [seen[1], [0] * WIDTH, seen[0]])

    run_ranks(2, check)


@pytest.mark.parametrize("training", [True, False])
def test_keys_without_a_row_move_no_other_row(training: bool) -> None:
    with communicating_through(OneRank()), tf.Graph().as_default(), tf.Session() as session:
        layer, asked = make_layer(), tf.placeholder(tf.int64, [None])
        adds = tf.placeholder_with_default(True, []) if training else False
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        seen = optimizer.minimize(tf.reduce_sum(layer(asked)))
        step = optimizer.minimize(tf.reduce_sum(layer(asked, training=adds)))
        session.run(tf.global_variables_initializer())
        session.run(seen, {asked: [5, 6]})
        exported = sok.export(layer.embedding_variable)
        before = session.run(exported)
        feeds = {asked: [6, 99], adds: False} if training else {asked: [6, 99]}
        session.run(step, feeds)
        after = session.run(exported)
        assert list(after[0]) == list(before[0]) and sorted(after[0]) == [5, 6]
        moved = (after[1] != before[1]).any(axis=1)
        assert dict(zip(after[0], moved)) == {5: False, 6: True}


def test_bags_with_unseen_keys_pool_zeros() -> None:
    with communicating_through(OneRank()), tf.Session() as session:
        layer = sok.DistributedEmbedding("mean", 4, WIDTH, 1, 2, embedding_initializer="ones")
        places, shape = [[0, 0], [0, 1], [2, 0]], [3, 2]
        seen = layer(tf.SparseTensor(places[:1], [5], shape))
        rows = layer(tf.SparseTensor(places, [5, 6, 6], shape), training=False)
        session.run(tf.global_variables_initializer())
        session.run(seen)
        np.testing.assert_array_equal(session.run(rows)[:, 0, 0], [0.5, 0, 0])


def test_release_2_looks_up_keys_too() -> None:
    values = np.arange(10, dtype=np.float32).reshape(5, 2)

    def check(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            layer = sok.All2AllDenseEmbedding(9, 2, 1, 1)
            table, static = layer.embedding_variable, sok.Variable(values)
            ids = tf.ragged.constant([[3, 1], [], [2]])
            weights = tf.ragged.constant([[2.0, -1.0], [], [1.0]])
            pooled = sok.lookup_sparse(
                [table, static, table], [ids] * 3, [weights] * 3, ["sum", "sum", "mean"]
            )
            rows = sok.all2all_dense_embedding(table, [[4, 0], [2, 2]])
            session.run(tf.global_variables_initializer())
            session.run(sok.Saver().load_embedding_values(table, values))
            first, second, mean = session.run(pooled)
            np.testing.assert_array_equal(first, [2 * values[3] - values[1], [0, 0], values[2]])
            np.testing.assert_array_equal(first, second)
            np.testing.assert_array_equal(mean[0], 2 * values[3] - values[1])
            np.testing.assert_array_equal(session.run(rows), values[np.array([[4, 0], [2, 2]])])

    run_ranks(2, check)


def test_exported_graphs_name_layers_and_what_only_graph_opt_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with communicating_through(OneRank()), tf.Session() as session:
        make_layer(name="items")(tf.constant([1], tf.int64))
        optimizer = sok.optimizers.Adam()
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / "model"))
        assert "Issue encountered" not in caplog.text and optimizer
        with tf.Graph().as_default():
            tf.train.import_meta_graph(str(tmp_path / "model.meta"))
            names = [sok.GraphKeys.SparseOperationKitEmbeddingLayers]
            names.append(sok.GraphKeys.SparseOperationKitOptimizer)
            assert [tf.get_collection(name) for name in names] == [["items"], ["Adam"]]


def test_a_full_table_names_itself_and_what_to_raise() -> None:
    with communicating_through(OneRank()), tf.Session() as session:
        layer, asked = make_layer(rows=3), tf.placeholder(tf.int64, [None])
        rows = layer(asked)
        session.run(tf.global_variables_initializer())
        session.run(rows, {asked: [1, 2]})
        message = (
            r"EmbeddingVariable has 2 of at most 3 rows \(max_vocabulary_size_per_gpu\), and 2 new"
        )
        with pytest.raises(tf.errors.ResourceExhaustedError, match=message):
            session.run(rows, {asked: [3, 4, 1]})
        table = layer.embedding_variable
        exported, write = sok.export(table), sok.assign(table, [5, 6], np.ones([2, WIDTH]))
        assert sorted(session.run(exported)[0]) == [1, 2]
        with pytest.raises(tf.errors.ResourceExhaustedError, match="at most 3 rows"):
            session.run(write)
        session.run(rows, {asked: [4, 4]})
        assert sorted(session.run(exported)[0]) == [1, 2, 4]


def test_checkpoints_and_initializers_of_tensorflow_hold_for_keys(tmp_path: Path) -> None:
    with communicating_through(OneRank()), tf.Session() as session:
        layer, asked = make_layer(), tf.placeholder(tf.int64, [None])
        rows, count = layer(asked), layer.embedding_variable.keyed_rows.num_rows()
        train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(rows))
        initialize, saver = tf.global_variables_initializer(), tf.train.Saver()
        session.run(initialize)
        for _ in range(3):
            session.run(train, {asked: [5, 3, 5]})
        trained = session.run(rows, {asked: [3, 5]})
        path = saver.save(session, str(tmp_path / "model"))
        session.run(initialize)
        assert session.run(count) == 0
        session.run(rows, {asked: [8, 9, 10]})
        saver.restore(session, path)
        assert session.run(count) == 2
        np.testing.assert_array_equal(session.run(rows, {asked: [3, 5]}), trained)
    with tf.Session(graph=asked.graph) as session:
        saver.restore(session, path)
        np.testing.assert_array_equal(session.run(rows, {asked: [3, 5]}), trained)


def test_checkpoints_that_have_keys_beside_rows_are_restored(tmp_path: Path) -> None:
    path = str(tmp_path / "model")
    keys = np.unique(KEYS)
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [
            tf.Variable(keys, name="EmbeddingVariable/keys"),
            tf.Variable(np.stack([keys % 1000] * WIDTH, 1).astype(np.float32), name="rows"),
        ]
        saver = tf.train.Saver(
            dict(zip(["EmbeddingVariable/keys", "EmbeddingVariable"], variables))
        )
        session.run(tf.global_variables_initializer())
        saver.save(session, path)

    def restored(transport: Transport) -> Dict[int, float]:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            table = make_layer().embedding_variable
            tf.train.Saver().restore(session, path)
            found, rows = session.run(sok.export(table))
            assert (found % transport.size == transport.rank).all()
            return dict(zip(found, rows[:, 0]))

    for size in (1, 2):
        found = {key: row for rank in run_ranks(size, restored) for key, row in rank.items()}
        assert found == {key: np.float32(key % 1000) for key in keys}


def test_saver_moves_keys_to_another_number_of_ranks(tmp_path: Path) -> None:
    def trained(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            layer = make_layer()
            table = layer.embedding_variable
            mine = KEYS[np.mod(KEYS, transport.size) == transport.rank]
            keys = np.unique(mine)
            values = np.stack([keys % 1000] * WIDTH, 1).astype(np.float32)
            session.run(tf.global_variables_initializer())
            session.run(sok.assign(table, keys, values))
            session.run(sok.Saver().dump_to_file(table, str(tmp_path)))
            assert sorted(session.run(sok.export(table))[0]) == sorted(keys)

    def restored(transport: Transport) -> List[float]:
        with communicating_through(transport), context.eager_mode():
            layer = make_layer()
            table = layer.embedding_variable
            name = table.m_var_name
            for part in ("keys", "values"):
                ours = tmp_path / "{}_{}.file".format(name, part)
                if not ours.exists():
                    ours.symlink_to(tmp_path / "EmbeddingVariable_{}.file".format(part))
            sok.Saver().restore_from_file(table, str(tmp_path))
            return [float(row[0]) for row in layer(KEYS, training=False)]

    run_ranks(3, trained)
    for found in run_ranks(2, restored):
        assert found == [float(np.float32(key % 1000)) for key in KEYS]


def test_eager_and_traced_steps_train_rows_of_keys() -> None:
    def train(transport: Transport, traced: bool) -> np.ndarray:
        with communicating_through(transport), context.eager_mode():
            layer = make_layer(embedding_initializer="zeros")
            tables = [layer.embedding_variable]
            assert len(layer.weights) == len(layer.trainable_weights) == 1
            optimizer = sok.OptimizerWrapper(tf.train.GradientDescentOptimizer(1.0))

            def step(keys: Any) -> None:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(layer(keys, training=True))
                gradients = tape.gradient(loss, tables)
                optimizer.apply_gradients(zip(gradients, tables))

            run = tf.function(step) if traced else step
            for _ in range(2):
                run(tf.constant([100, -7, 100] if transport.rank else [100], tf.int64))
            found: np.ndarray = layer(np.array([100, -7, 1])).numpy()[:, 0]
            return found

    for traced in (False, True):
        for found in run_ranks(2, functools.partial(train, traced=traced)):
            # In each of two steps 100 was looked up three times, by two ranks.
            np.testing.assert_array_equal(found, [-6, -2, 0])


def test_eager_tables_have_keys_of_their_own() -> None:
    with communicating_through(OneRank()), context.eager_mode():
        first, second = make_layer(), make_layer()
        first(np.arange(5))
        second(np.arange(5, 8))
        tables = [layer.embedding_variable.keyed_rows for layer in (first, second)]
        assert [int(table.num_rows()) for table in tables] == [5, 3]
        assert not first(np.arange(5, 8), training=False).numpy().any()
