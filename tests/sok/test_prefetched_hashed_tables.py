"""Tables of release 1 with hash tables, prefetched and fused by a session, and saved meanwhile."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from tests.quick_cases import slow_but
from tests.session.small_model import async_config, report_on

STEPS, BATCH = 8, 6
OPTIMIZERS: Dict[str, Tuple[str, Callable[[], Any]]] = {
    "adagrad": ("accumulator", lambda: tf.train.AdagradOptimizer(0.5)),
    "adam": ("v", lambda: tf.train.AdamOptimizer(0.1)),  # moves all rows in each step
}


def batches(transport: Transport) -> Any:
    """Each key is in two of its bags, and in one batch only: what is stale makes no difference."""

    def keys(step: Any) -> Any:
        bags = tf.range(tf.constant(transport.rank, tf.int64), 2 * BATCH, transport.size)
        return (step * BATCH + bags % BATCH) * 7 - 100

    return tf.data.make_initializable_iterator(tf.data.Dataset.range(STEPS).map(keys))


def trained(transport: Transport, config: Any, path: str, optimizer: str) -> Dict[int, np.ndarray]:
    """Rows and slots of a rank by key; one rank saves in the middle."""
    with communicating_through(transport), tf.Graph().as_default() as graph:
        layer = sok.All2AllDenseEmbedding(
            200, 2, 1, 1, dynamic_input=True, embedding_initializer="ones"
        )
        iterator, table = batches(transport), layer.embedding_variable
        loss = tf.reduce_sum(tf.square(layer(iterator.get_next())))
        slot_name, make = OPTIMIZERS[optimizer]
        training = make()
        train = training.minimize(loss, var_list=[table])
        slot = training.get_slot(table, slot_name)
        table.own_slots({slot_name: slot})
        exported, saver = [sok.export(one) for one in (table, slot)], tf.train.Saver()
        with graph_opt.Session(config=config) as session:
            session.run([tf.global_variables_initializer(), iterator.initializer])
            for step in range(STEPS):
                session.run(train)
                if step == 3 and transport.rank == 0:
                    saver.save(session, path)
            (keys, rows), (_, slots) = session.run(exported)
        if config is not None:
            (report,) = [report_on(graph)]
            assert len(report.moved) == 1 and report.fused_lookups[0].update == "fused"
        return dict(zip(keys, np.concatenate([rows, slots], axis=1)))


@pytest.mark.parametrize("optimizer", slow_but(sorted(OPTIMIZERS), "adagrad"))
def test_they_train_as_without_and_are_saved_meanwhile(optimizer: str, tmp_path: Path) -> None:
    config = async_config()
    config.graph_options.optimizer_options.do_group_embedding = True
    saved = {}
    results = []
    for name, chosen in (("plain", None), ("prefetched", config)):
        path = str(tmp_path / name)
        work = functools.partial(trained, config=chosen, path=path, optimizer=optimizer)
        found = {key: row for rank in run_ranks(2, work, 60) for key, row in rank.items()}
        assert len(found) == STEPS * BATCH
        results.append(found)
        with tf.Graph().as_default(), tf.Session() as session:
            table = graph_opt.get_embedding_variable("EmbeddingVariable", 2)
            tf.train.Saver().restore(session, path)
            rows = session.run(table.export())
            saved[name] = dict(zip(rows.keys, rows.values[:, 0]))
    for key, row in results[0].items():
        np.testing.assert_array_equal(results[1][key], row)
    # Rows of batches that are prefetched are there as they begin.
    assert len(saved["plain"]) == 4 * BATCH
    for key, value in saved["prefetched"].items():
        assert value == saved["plain"].get(key, 1.0)
