"""`sok.incremental_model_dump`: the rows of all ranks that were touched after a moment."""

from __future__ import annotations

import datetime
from typing import Any, Dict, List

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.compat import tf
from tests.sok.test_dynamic_variable import on_ranks

DIM = 2


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def by_key(keys: np.ndarray, rows: np.ndarray) -> Dict[int, Any]:
    assert rows.shape == (len(keys), DIM) and len(set(keys.tolist())) == len(keys)
    return dict(zip(keys.tolist(), rows[:, 0].tolist()))


def test_rows_that_were_touched_since_a_moment_come_from_all_ranks() -> None:
    def program(transport: Any) -> None:
        with tf.Graph().as_default(), tf.Session() as session:
            users = sok.DynamicVariable(DIM, name="users", initializer="ones")
            items = sok.DynamicVariable(DIM, name="items", initializer="2.0", var_type="hbm")
            asked = tf.placeholder(tf.int64, [None, 1])
            pooled = sok.lookup_sparse([users, items], [tf.RaggedTensor.from_tensor(asked)] * 2)
            loss = tf.reduce_sum(pooled[0]) + 0.0 * tf.reduce_sum(pooled[1])
            optimizer = sok.OptimizerWrapper(tf.train.GradientDescentOptimizer(0.5))
            train = optimizer.apply_gradients([(tf.gradients(loss, users)[0], users)])
            session.run(tf.global_variables_initializer())
            tf.get_default_graph().finalize()
            mine = np.array([[10 + transport.rank], [7]])
            both = [users, items]

            def dumped(threshold: Any, **arguments: Any) -> Any:
                keys, rows = sok.incremental_model_dump(both, threshold, session, **arguments)
                assert [one.dtype for one in keys] == [np.int64] * 2
                return [by_key(*one) for one in zip(keys, rows)]

            start = now()
            assert dumped(start) == [{}, {}]
            session.run(train, {asked: mine})
            expected = {10: 0.5, 11: 0.5, 7: 0.0}
            assert dumped(start) == [expected, dict.fromkeys(expected, 2.0)]
            later = now()
            assert dumped(later) == dumped([later, later]) == [{}, {}]
            session.run(pooled, {asked: mine[:1]})
            looked_up = {10: 0.5, 11: 0.5}
            assert dumped(later) == [looked_up, dict.fromkeys(looked_up, 2.0)]
            assert dumped(later, touched="written") == [{}, {}]
            assert dumped([later, start], touched="written") == [{}, dict.fromkeys(expected, 2.0)]
            sok.end_epoch(both, session)
            session.run(train, {asked: mine[:1]})
            sok.end_epoch(both, session)
            session.run(pooled, {asked: mine[1:]})
            assert dumped(0)[0] == {10: 0.0, 11: 0.0, 7: 0.0}
            assert dumped(0, touched="written")[0] == {10: 0.0, 11: 0.0}
            assert dumped([1, 0])[0] == {7: 0.0}
            assert [len(one) for one in dumped(now() + datetime.timedelta(1))] == [0, 0]

    on_ranks(2, program)


def test_static_tables_give_rows_that_changed_since_the_call_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def program(transport: Any) -> None:
        with context.eager_mode():
            values = np.arange(20, dtype=np.float32).reshape(10, DIM)
            table = sok.Variable(values, name="static")
            alone = sok.Variable(values, name="alone", mode="localized:1")
            start = now()
            keys, rows = sok.incremental_model_dump([table, alone], start)
            for of_table in zip(keys, rows):
                assert by_key(*of_table) == dict(zip(range(10), values[:, 0].tolist()))
            assert sok.incremental_model_dump(table, now())[0][0].tolist() == []
            before = now()
            sok.assign(table, [3, 4], [[5.0, 5.0], [6.0, 6.0]], check_ownership=False)
            found = [
                by_key(*one) for one in zip(*sok.incremental_model_dump([table, alone], before))
            ]
            assert found == [{3: 5.0, 4: 6.0}, {}]
            assert sok.incremental_model_dump(table, now())[0][0].tolist() == []
            assert sorted(sok.incremental_model_dump(table, before)[0][0]) == [3, 4]

    on_ranks(2, program)
    said = capsys.readouterr().err
    assert said.count("nothing has noted changes of 'static'") == 2  # ranks


def test_eager_tables_note_all_that_writes_them() -> None:
    def program(transport: Any) -> None:
        with context.eager_mode():
            table = sok.DynamicVariable(DIM, initializer="ones", var_type="hbm", key_type=tf.int32)
            tf.nn.embedding_lookup(table, tf.constant([1, 2, 3]))

            def written(write: Any) -> Dict[int, Any]:
                before = now()
                write()
                keys, rows = sok.incremental_model_dump(table, before, touched="written")
                assert keys[0].dtype == np.int32
                return by_key(keys[0], rows[0])

            slices = tf.IndexedSlices(tf.ones([3, DIM]), [2, 9, 2])
            assert written(lambda: table.scatter_add(slices)) == {2: 3.0, 9: 2.0}
            update = tf.IndexedSlices(tf.ones([2, DIM]) * 4, [3, 77])
            assert written(lambda: table.scatter_update(update)) == {3: 4.0}
            assert written(lambda: table.scatter_sub(slices)) == {2: 1.0, 9: 1.0}
            assert written(lambda: sok.assign(table, [5], [[8.0, 8.0]])) == {5: 8.0}
            assert written(lambda: tf.nn.embedding_lookup(table, [1, 6])) == {6: 1.0}
            with pytest.raises(NotImplementedError, match="scatter_add, scatter_sub and"):
                table.scatter_max(slices)

    on_ranks(1, program)


def test_wrong_arguments_are_errors() -> None:
    def program(transport: Any) -> None:
        with tf.Graph().as_default():
            users, static = sok.DynamicVariable(DIM), sok.Variable(np.ones([3, DIM]), name="static")
            with pytest.raises(RuntimeError, match="sess="):
                sok.incremental_model_dump(users, now())
            with tf.Session() as session:
                wrong: List[Any] = [
                    ((users, now(), session, "seen"), ValueError, "touched is 'seen'"),
                    ((static, now(), session, "read"), ValueError, "lookups in 'static.*not noted"),
                    ((users, datetime.datetime.now(), session), ValueError, "has no time zone"),
                    ((users, 1.5, session), TypeError, "time_threshold is a float"),
                    ((users, 0, session), ValueError, "epoch 0, but 0 epochs"),
                    (([users], [now()] * 2, session), ValueError, "2 entries for 1 tables"),
                    (([session], now(), session), TypeError, "need a sok.Variable"),
                ]
                for arguments, error, text in wrong:
                    with pytest.raises(error, match=text):
                        sok.incremental_model_dump(*arguments)

    on_ranks(1, program)


def test_a_session_fetches_the_rows_of_a_table() -> None:
    def program(transport: Any) -> None:
        with tf.Graph().as_default(), tf.Session() as session:
            table = sok.DynamicVariable(DIM, initializer="ones")
            write = sok.assign(table, [transport.rank], [[3.0, 3.0]])
            session.run(tf.global_variables_initializer())
            session.graph.finalize()
            assert session.run(table).shape == (0, DIM)
            session.run(write)
            rows, again = session.run([table, {"again": table}])
            assert rows.tolist() == again["again"].tolist() == [[3.0, 3.0]]

    on_ranks(2, program)
