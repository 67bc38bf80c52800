"""Ids from mutable hash tables: read ahead of the step unless steps write the table."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.contrib.lookup import MutableDenseHashTable, MutableHashTable
from tests.passes import models
from tests.session.small_model import async_config

Table = Any
STEPS = 40


def _counts() -> Table:
    return MutableHashTable(tf.int64, tf.int64, 0)


def _dense() -> Table:
    return MutableDenseHashTable(tf.int64, tf.int64, 0, -1, -2)


def _model(ids: Callable[[Any], Any]) -> Any:
    """Looks up the ids that a function makes of those of a batch; returns the batch."""
    inputs = models.features()
    rows = tf.nn.embedding_lookup(models.table(), ids(inputs["other"]))
    models.train([rows], inputs)
    return inputs["other"]


def _codes() -> List[Optional[str]]:
    return models.codes(models.optimized())


def _inserts_batch(table: Table, batch: Any) -> None:
    table.insert(batch, batch)


def _inserts_fed(table: Table, batch: Any) -> None:
    table.insert(tf.placeholder(tf.int64, [None]), tf.constant([1, 2], tf.int64))


def _inserts_twice(table: Table, batch: Any) -> None:
    for value in (1, 2):
        table.insert(tf.constant([1], tf.int64), tf.constant([value], tf.int64))


def _inserts_and_removes(table: Table, batch: Any) -> None:
    _inserts_constants(table, batch)
    table.remove(tf.constant([1], tf.int64))


def _inserts_in_function(table: Table, batch: Any) -> None:
    def insert(keys: Any) -> Any:
        with tf.control_dependencies([table.insert(keys, keys)]):
            return tf.identity(keys)

    tf.function(insert)(batch)


def _inserts_constants(table: Table, batch: Any) -> None:
    table.insert(tf.constant([3, 4], tf.int64), tf.range(tf.constant(2, tf.int64)))


def _nothing(table: Table, batch: Any) -> None:
    pass


def _is_saved(table: Table, batch: Any) -> None:
    tf.train.Saver([table, *tf.global_variables()])


WRITES = [_inserts_batch, _inserts_fed, _inserts_twice, _inserts_and_removes, _inserts_in_function]
Use = Callable[[Table, Any], None]


@pytest.mark.parametrize("make", [_counts, _dense])
@pytest.mark.parametrize("use", WRITES)
def test_ids_from_a_table_that_steps_write_stay_in_main(make: Any, use: Use) -> None:
    table = make()
    use(table, _model(table.lookup))
    assert _codes() == ["hash_table_written"]


@pytest.mark.parametrize("make", [_counts, _dense])
@pytest.mark.parametrize("use", [_nothing, _inserts_constants, _is_saved])
def test_ids_from_a_table_that_is_filled_once_run_ahead(make: Any, use: Use) -> None:
    table = make()
    use(table, _model(table.lookup))
    assert _codes() == [None]


def _handle(shared_name: str) -> Any:
    int64 = {"key_dtype": tf.int64, "value_dtype": tf.int64}
    return tf.raw_ops.MutableHashTableV2(shared_name=shared_name, **int64)


def _found(handle: Any, keys: Any) -> Any:
    zero = tf.constant(0, tf.int64)
    return tf.raw_ops.LookupTableFindV2(table_handle=handle, keys=keys, default_value=zero)


def test_a_table_of_the_same_name_is_the_same_table() -> None:
    read, same, other = (_handle(name) for name in ("one", "one", "other"))
    batch = _model(lambda ids: _found(read, ids))
    tf.raw_ops.LookupTableInsertV2(table_handle=other, keys=batch, values=batch)
    assert _codes() == [None]
    tf.raw_ops.LookupTableInsertV2(table_handle=same, keys=batch, values=batch)
    assert _codes() == ["hash_table_written"]


def _found_in_function(table: Table, batch: Any) -> Any:
    return tf.function(table.lookup)(batch)


def _behind_a_count_of_rows(table: Table, batch: Any) -> Any:
    return batch + 0 * table.size()


def _behind_a_constant_key(table: Table, batch: Any) -> Any:
    return batch + 0 * table.lookup(tf.constant([1], tf.int64))


@pytest.mark.parametrize(
    "read", [_found_in_function, _behind_a_count_of_rows, _behind_a_constant_key]
)
def test_every_way_to_read_a_written_table_counts(read: Callable[[Table, Any], Any]) -> None:
    table = _counts()
    batch = _model(lambda ids: read(table, ids))
    assert _codes() == [None]
    _inserts_batch(table, batch)
    (lookup,) = models.optimized().report.lookups
    assert lookup.refusal is not None
    assert lookup.refusal["code"] == "hash_table_written"
    assert "Insert" in lookup.refusal["saw"]


def _ids_of_steps(session_class: Any, config: Any) -> List[List[int]]:
    """The ids that each step looks up; the step inserts the keys of its batch behind them."""
    with tf.Graph().as_default():
        batches = tf.data.Dataset.range(3).repeat().batch(2)
        keys = tf.data.make_one_shot_iterator(batches).get_next()
        table = _counts()
        seen = tf.identity(table.lookup(keys))
        rows = tf.nn.embedding_lookup(models.table(), seen)
        train_op = tf.train.AdagradOptimizer(0.1).minimize(tf.nn.l2_loss(rows))
        with tf.control_dependencies([seen]):
            count = table.insert(keys, seen + 1)
        with session_class(config=config) as session:
            session.run(tf.global_variables_initializer())
            steps = [session.run([seen, train_op, count])[0] for _ in range(STEPS)]
    return [np.asarray(ids).tolist() for ids in steps]


def test_a_step_finds_what_the_steps_before_it_inserted() -> None:
    stock = _ids_of_steps(tf.Session, None)
    assert stock[-1] != stock[0]
    assert _ids_of_steps(graph_opt.Session, async_config(capacity=2)) == stock
