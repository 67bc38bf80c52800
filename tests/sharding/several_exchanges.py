"""A program for ranks of Horovod whose steps have several exchanges, some of which fail or end."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import horovod
from tests.plain_sessions import plain_session
from tests.sharding.guarded_model import ROWS, table_by_key, torn

STEPS = 4


def main() -> None:
    """An assertion that fails ends the program."""
    horovod().init()
    sok.init()
    fail_in_turns()
    end_apart()
    constant_ids()
    print("rank {} is done".format(sok.rank()))


def slowly(values: Any) -> Any:
    """For `tf.py_func`: the values, after everything else that a step may do by then."""
    time.sleep(0.05)
    return values


def fail_in_turns() -> None:
    """Each rank fails in turn, and each asks for something else last."""
    rank, size = sok.rank(), sok.num_ranks()
    with tf.Graph().as_default():
        raw = tf.placeholder(tf.int64, [None, 2])
        fails = tf.placeholder_with_default(False, [])
        checked = tf.ensure_shape(tf.py_func(torn, [raw, fails, "early"], tf.int64), [None, 2])
        bags = tf.RaggedTensor.from_tensor(checked)
        late = tf.ensure_shape(tf.py_func(slowly, [bags.flat_values], tf.int64), [None])
        tables = [table_by_key("ones") for _ in range(3)]
        tables += [sok.Variable(tf.ones([ROWS, 2], dtype)) for dtype in (tf.float32, tf.float16)]
        ids = [bags] * len(tables)
        ids[rank] = ids[rank - 2] = bags.with_flat_values(late)
        pooled = sok.lookup_sparse(tables, ids, combiners=["sum"] * len(tables))
        total = tf.add_n([tf.reduce_sum(tf.cast(one, tf.float32)) for one in pooled])
        gradients = zip(tf.gradients(total, tables), tables)
        train = tf.train.GradientDescentOptimizer(0.0).apply_gradients(gradients)
        with plain_session() as session:
            session.run(tf.global_variables_initializer())
            for step in range(STEPS):
                try:
                    session.run([total, train], {raw: [[0, 1]], fails: step % size == rank})
                    raise AssertionError("no error in step {}".format(step))
                except tf.errors.InvalidArgumentError as error:
                    assert "record 17 is torn (early)" in error.message
                assert session.run([total, train], {raw: [[0, 1]]})[0] == 20.0


def end_apart() -> None:
    """Of two inputs, the second one ends first, later on each rank."""
    with tf.Graph().as_default():
        row = tf.data.Dataset.from_tensors(np.array([[0, 1]]))
        end = row.map(lambda ids: tf.py_func(slowly, [ids], tf.int64)).filter(lambda _: False)
        inputs = [row.repeat(9), row.repeat(2 + sok.rank()).concatenate(end)]
        total = tf.constant(0.0)
        for dataset in inputs:
            ids = tf.ensure_shape(tf.data.make_one_shot_iterator(dataset).get_next(), [None, 2])
            table = sok.Variable(tf.ones([ROWS, 2]))
            total += tf.reduce_sum(sok.lookup_sparse(table, tf.RaggedTensor.from_tensor(ids)))
        tf.train.get_or_create_global_step()
        steps = 0
        with tf.train.MonitoredTrainingSession() as session:
            while not session.should_stop():
                session.run(total)
                steps += 1
        assert steps == 2


def constant_ids() -> None:
    """Equal lookups of ids that TensorFlow knows beforehand are messages of each step, too."""
    with tf.Graph().as_default():
        table = sok.Variable(tf.ones([ROWS, 2]))
        ids = tf.RaggedTensor.from_tensor(tf.constant([[0, 1]], tf.int64))
        pooled = [sok.lookup_sparse(table, ids, combiners="sum") for _ in range(2)]
        double = table.assign(table * 2.0)
        with plain_session() as session:
            session.run(tf.global_variables_initializer())
            for step in range(3):
                assert session.run(pooled)[1].tolist() == [[2.0 * 2**step] * 2]
                session.run(double)


if __name__ == "__main__":
    main()
