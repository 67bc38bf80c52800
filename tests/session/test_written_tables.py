"""Hash tables that steps write while stages read them ahead."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.contrib.lookup import MutableHashTable
from tests.passes import models
from tests.session.small_model import async_config

STEPS = 30
WARNING = "writes hash table"


class Model(NamedTuple):
    """A model whose ids come from a hash table.

    Attributes:
      table: The table.
      iterator: Over the keys.
      keys: Of a batch.
      ids: What the table has for them.
      train_op: Trains a table of rows by these ids.
    """

    table: Any
    iterator: Any
    keys: Any
    ids: Any
    train_op: Any


def _table() -> Any:
    return MutableHashTable(tf.int64, tf.int64, 0)


def _model(table: Any, dataset: Any, lookup: Callable[[Any], Any] = tf.identity) -> Model:
    iterator = tf.data.make_initializable_iterator(dataset)
    keys, found = iterator.get_next()
    ids = lookup(found)
    rows = tf.nn.embedding_lookup(models.table(), ids)
    train_op = tf.train.AdagradOptimizer(0.1).minimize(tf.nn.l2_loss(rows))
    return Model(table, iterator, keys, ids, train_op)


def _keys() -> Any:
    """Batches of keys; TensorFlow's own rewrites of datasets would read some of them ahead."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    return tf.data.Dataset.range(3).repeat().batch(2).with_options(options)


def _read_in_main() -> Model:
    table = _table()
    return _model(table, _keys().map(lambda keys: (keys, keys)), table.lookup)


def _read_in_map() -> Model:
    table = _table()
    return _model(table, _keys().map(lambda keys: (keys, table.lookup(keys))))


def _read_in_flat_map() -> Model:
    table = _table()

    def looked_up(keys: Any) -> Any:
        return tf.data.Dataset.from_tensors((keys, table.lookup(keys)))

    return _model(table, _keys().flat_map(looked_up))


def _insert_batch(model: Model) -> Any:
    with tf.control_dependencies([tf.identity(model.ids)]):
        return model.table.insert(model.keys, model.ids + 1)


def _start(session: Any, model: Model) -> None:
    session.run([tf.global_variables_initializer(), model.iterator.initializer])


def _ids_of_steps(session: Any, make: Callable[[], Model]) -> List[List[int]]:
    """The ids of each step, which inserts others for the keys of its batch."""
    model = make()
    insert = _insert_batch(model)
    _start(session, model)
    steps = [session.run([model.ids, model.train_op, insert])[0] for _ in range(STEPS)]
    return [np.asarray(ids).tolist() for ids in steps]


@pytest.mark.parametrize("smart", [False, True])
@pytest.mark.parametrize("make", [_read_in_map, _read_in_flat_map])
def test_a_dataset_that_reads_what_steps_write_is_not_read_ahead(
    make: Callable[[], Model], smart: bool
) -> None:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        stock = _ids_of_steps(session, make)
    assert stock[-1] != stock[0]
    config = async_config(capacity=2)
    optimizer = config.graph_options.optimizer_options
    optimizer.do_smart_stage, optimizer.do_async_embedding = smart, not smart
    with graph_opt.Session(config=config) as session:
        assert _ids_of_steps(session, make) == stock
        told = str(graph_opt.report())
    assert "hash_table_written" in told and "Map" in told


@pytest.mark.parametrize("make", [_read_in_map, _read_in_flat_map])
def test_a_dataset_that_reads_what_nothing_writes_is_read_ahead(make: Callable[[], Model]) -> None:
    model = make()
    with graph_opt.Session(config=async_config()) as session:
        _start(session, model)
        session.run(model.train_op)
    report = graph_opt.report()
    assert report is not None and [lookup.refusal for lookup in report.lookups] == [None]


@pytest.mark.parametrize("make", [_read_in_main, _read_in_map])
def test_a_line_tells_once_of_an_insert_that_was_built_late(
    make: Callable[[], Model], capfd: pytest.CaptureFixture[str]
) -> None:
    model = make()
    with graph_opt.Session(config=async_config()) as session:
        _start(session, model)
        session.run(model.train_op)
        keys = tf.placeholder(tf.int64, [None], "keys")
        insert = model.table.insert(keys, keys, name="late_insert")
        assert WARNING not in capfd.readouterr().err
        for _ in range(2):
            session.run(insert, {keys: [1]})
    lines = [line for line in capfd.readouterr().err.splitlines() if WARNING in line]
    (line,) = lines
    assert "'{}'".format(insert.name) in line
    assert "add '{}' before the session's first run".format(insert.name) in line


def test_a_table_that_is_filled_before_training_is_nothing_to_tell(
    capfd: pytest.CaptureFixture[str],
) -> None:
    model = _read_in_main()
    with graph_opt.Session(config=async_config()) as session:
        _start(session, model)
        session.run(model.table.insert(np.array([1], np.int64), np.array([5], np.int64)))
        session.run(model.train_op)
        session.run(model.table.size())
        session.run(model.table.export())
    assert WARNING not in capfd.readouterr().err


def test_a_fill_that_comes_during_training_is_told_to_come_earlier(
    capfd: pytest.CaptureFixture[str],
) -> None:
    model = _read_in_main()
    fill = model.table.insert(tf.constant([1], tf.int64), tf.constant([5], tf.int64))
    with graph_opt.Session(config=async_config()) as session:
        _start(session, model)
        session.run(fill)
        session.run(model.train_op)
        assert WARNING not in capfd.readouterr().err
        session.run(fill)
    assert "run '{}' before the first step".format(fill.name) in capfd.readouterr().err


def test_another_handle_of_the_table_writes_it_as_well(capfd: pytest.CaptureFixture[str]) -> None:
    int64 = {"key_dtype": tf.int64, "value_dtype": tf.int64}

    def handle() -> Any:
        return tf.raw_ops.MutableHashTableV2(shared_name="shared", **int64)

    def found(keys: Any) -> Any:
        zero = tf.constant(0, tf.int64)
        return tf.raw_ops.LookupTableFindV2(table_handle=read, keys=keys, default_value=zero)

    read = handle()
    model = _model(None, _keys().map(lambda keys: (keys, keys)), found)
    with graph_opt.Session(config=async_config()) as session:
        _start(session, model)
        session.run(model.train_op)
        ones = tf.constant([1], tf.int64)
        session.run(tf.raw_ops.LookupTableInsertV2(table_handle=handle(), keys=ones, values=ones))
    assert WARNING in capfd.readouterr().err


def test_a_stage_that_a_script_asks_for_reads_ahead_and_is_told_of(
    capfd: pytest.CaptureFixture[str],
) -> None:
    table = _table()
    dataset = _keys().map(lambda keys: (keys, table.lookup(keys)))
    iterator = tf.data.make_initializable_iterator(dataset)
    keys, ids = graph_opt.staged(iterator.get_next())
    insert = table.insert(keys, ids + 1)
    with graph_opt.Session(config=graph_opt.ConfigProto()) as session:
        session.run(iterator.initializer)
        session.run([ids, insert])
    told = capfd.readouterr().err
    assert told.count(WARNING) == 1 and "graph_opt.staged" in told
