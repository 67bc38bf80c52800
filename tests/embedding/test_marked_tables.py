"""Tables that are to be divided: TensorFlow's ops look them up, which sessions can divide."""

from __future__ import annotations

from typing import Any, Iterator, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.embedding.marked_tables import mark_lookups, mark_table, marked_tables
from tests.plain_sessions import plain_session


@pytest.fixture(autouse=True)
def _nothing_stays_changed() -> Iterator[None]:
    verbosity = tf.logging.get_verbosity()
    yield
    mark_lookups(False)
    tf.logging.set_verbosity(verbosity)


def _tables() -> List[Any]:
    return [
        tf.get_variable(
            "table{}".format(place), initializer=tf.reshape(tf.range(12.0) + place, [6, 2])
        )
        for place in range(2)
    ]


def _look_up(tables: List[Any]) -> List[tf.Tensor]:
    ids = tf.sparse.from_dense(tf.constant([[1, 5], [3, 0]], tf.int64))
    weights = tf.SparseTensor(ids.indices, tf.constant([0.5, 2.0, 3.0]), ids.dense_shape)
    return graph_opt.group_embedding_lookup_sparse(
        tables, [ids, ids], "sum", sp_weights=[weights, None]
    )


def _group_ops() -> List[str]:
    operations = tf.get_default_graph().get_operations()
    return [one.type for one in operations if one.type.startswith("GroupEmbeddingLookup")]


def test_marked_tables_are_no_part_of_a_group() -> None:
    tables = _tables()
    grouped = _look_up(tables)
    assert len(_group_ops()) == 1
    mark_table(tables[0])
    mark_table(tables[0])
    apart = _look_up(tables)
    with plain_session() as session:
        session.run(tf.global_variables_initializer())
        for one, other in zip(*session.run([grouped, apart])):
            np.testing.assert_array_equal(one, other)
    assert marked_tables(tf.get_default_graph()) == [tables[0]]


def test_group_lookups_mark_their_tables_where_that_is_asked_for(
    capfd: pytest.CaptureFixture[str],
) -> None:
    mark_lookups(True)
    tables = _tables()
    tf.logging.set_verbosity(tf.logging.ERROR)  # The line is on stderr then.
    parted = tf.get_variable("parted", [6, 2], partitioner=tf.fixed_size_partitioner(2))
    _look_up(tables)
    graph_opt.group_embedding_lookup(parted, tf.constant([1, 2]))
    assert _group_ops() and len(marked_tables(tf.get_default_graph())) == 2
    assert "table of 'parted/part_0:0' is partitioned" in capfd.readouterr().err
    assert [one is table for one, table in zip(marked_tables(tf.get_default_graph()), tables)]


def test_what_cannot_be_divided_is_not_marked() -> None:
    mark_table(tf.get_variable("bias", [3]))
    mark_table(tf.get_variable("keys", [3, 2], tf.int64))
    mark_table(tf.get_variable("frozen", [3, 2], trainable=False))
    mark_table(tf.ones([3, 2]))
    assert marked_tables(tf.get_default_graph()) == []


def test_tables_stay_marked_in_graphs_that_are_exported_and_imported() -> None:
    mark_table(_tables()[0])
    proto = tf.train.export_meta_graph()
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(proto)
        (table,) = marked_tables(graph)
        assert table is tf.global_variables()[0]
