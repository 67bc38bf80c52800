"""Dynamic tables that several threads train, export, clear and give slots at the same time."""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, List

import numpy as np

from graph_opt.compat import tf
from graph_opt.ops import dynamic_content, dynamic_table
from tests.ops.dynamic_tables import TableUnderTest

DIM = 4
KEYS = 300
STEPS = 200


class Workers:
    """Runs functions in threads, and gives the first error to whoever waits."""

    def __init__(self) -> None:
        self.errors: List[BaseException] = []
        self._threads: List[threading.Thread] = []

    def start(self, work: Callable[[], Any]) -> None:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # for the thread that waits
                self.errors.append(error)

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def wait(self) -> None:
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


def test_no_update_is_lost_while_a_table_is_exported_and_given_slots() -> None:
    table = TableUnderTest("table", DIM, {"late": 0.5}, initial={"kind": "constant", "value": 0.0})
    keys = tf.placeholder(tf.int64, [None])
    rows = dynamic_table.lookup(table.handle, keys, True)
    found = dynamic_table.group_dynamic_rows([table.handle], [keys], [0], ["table"], True)
    with tf.control_dependencies([rows, *found.rows]):
        minus = -tf.ones([tf.size(keys), DIM])
        update = dynamic_table.apply_to_keys(
            "GradientDescent", table.handle, [], [1.0], keys, minus, use_locking=True
        )
    exported = dynamic_content.export_rows(table.handle)
    erase = dynamic_content.erase_rows(table.handle, tf.range(KEYS, 2 * KEYS, dtype=tf.int64))
    maintain = [dynamic_content.compact(table.handle), erase, table.slot_initializers]
    expected = np.zeros(KEYS)
    batches = [np.random.RandomState(i).randint(0, 2 * KEYS, [STEPS, 50]) for i in range(3)]
    for batch in batches:
        np.add.at(expected, batch[batch < KEYS], 1)
    config = tf.ConfigProto(intra_op_parallelism_threads=2, inter_op_parallelism_threads=4)
    with tf.Session(config=config) as session:
        session.run(table.initializer)
        workers = Workers()

        def train(batch: np.ndarray) -> None:
            for step in batch:
                session.run(update, {keys: step})

        def export() -> None:
            for _ in range(STEPS):
                block = session.run(exported)
                # An update is whole or not yet there: no row is torn.
                assert (block.values == block.values[:, :1]).all()

        def change() -> None:
            for _ in range(STEPS):
                session.run(maintain)

        for batch in batches:
            workers.start(functools.partial(train, batch))
        workers.start(export)
        workers.start(change)
        workers.wait()
        session.run(erase)
        at_end = session.run(dynamic_content.export_rows(table.handle, list(table.slots.values())))
    counted = np.zeros(KEYS)
    counted[at_end.keys] = at_end.values[:, 0]
    np.testing.assert_array_equal(counted, expected)
    assert (at_end.slot_values[0] == 0.5).all()


def test_a_table_may_be_initialized_again_while_it_is_trained() -> None:
    table = TableUnderTest("table", DIM, {"momentum": 0.0}, initial={"kind": "constant"})
    keys = tf.placeholder(tf.int64, [None])
    rows = dynamic_table.lookup(table.handle, keys, True)
    with tf.control_dependencies([rows]):
        update = table.apply("Momentum", [1.0, 0.9], keys, tf.ones([tf.size(keys), DIM]))
    with tf.Session() as session:
        session.run(table.initializers)
        workers = Workers()

        def train() -> None:
            for step in range(STEPS):
                try:
                    session.run(update, {keys: np.arange(step, step + 100)})
                except tf.errors.AbortedError as error:
                    assert "'table' was initialized while" in str(error)

        workers.start(train)
        workers.start(train)
        for _ in range(STEPS):
            session.run(table.initializers)
        workers.wait()
        session.run(table.initializer)
        assert session.run(dynamic_content.table_size(table.handle))[0] == 0
