"""Exchanges of tables that give rows to keys: the same numbers on any number of ranks."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.dynamic.keyed_rows import DynamicRows
from graph_opt.dynamic.options import CounterAdmission
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.sharding.exchange import ShardedTable, TableLookup, look_up
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.key_placement import RowsByKey
from graph_opt.sharding.transport import OneRank, Transport
from tests.horovod_processes import NEEDS_HOROVOD, check_all_done
from tests.quick_cases import slow_but
from tests.sharding.dynamic_ranks import DIM, Results, eagerly, in_session, options


@pytest.mark.parametrize("program", slow_but([in_session, eagerly], in_session))
def test_numbers_do_not_depend_on_the_number_of_ranks(program: Any) -> None:
    alone = program(OneRank())
    for size in (2, 3):
        ranks: List[List[Results]] = run_ranks(size, program, 60)
        for of_step, theirs in zip(zip(*ranks), alone):
            for place, rows in enumerate(theirs.pooled):
                ours = np.concatenate([one.pooled[place] for one in of_step])
                np.testing.assert_allclose(ours, rows, rtol=1e-6, atol=1e-6)
            for place, keys in enumerate(theirs.indices[:2]):
                found = [one.indices[place] for one in of_step]
                assert sorted(np.concatenate(found)) == sorted(keys)
                for rank, mine in enumerate(found):
                    owners = mine % 1000 % size if place == 0 else mine % size
                    assert set(owners) <= {rank}


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_ranks_of_horovod_have_the_same_numbers(num_ranks: int) -> None:
    check_all_done(num_ranks, "tests.sharding.dynamic_ranks")


def lookup_of(table: Any, transport: Transport, keys: Any, insert: Any = True) -> TableLookup:
    divided = ShardedTable("users", table, RowsByKey(transport.size), DIM)
    ids = tf.RaggedTensor.from_tensor(tf.constant(keys, tf.int64))
    return TableLookup(divided, read_ids(0, ids, None), "sum", insert)


def with_a_filter(transport: Transport) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        filtered = options()._replace(admission=CounterAdmission(3))
        table = DynamicTableVariable("users", DIM, filtered)
        insert = tf.placeholder(tf.bool, [])
        keys = [[4, 4], [5, 7 + transport.rank]]
        pooled = look_up([lookup_of(table, transport, keys, insert)], transport)[0]
        gradient = tf.gradients(pooled, table)[0]
        session.run(table.initializer)
        steps = []
        for inserts in (False, True, True, False):
            rows, indices = session.run([pooled, gradient.indices], {insert: inserts})
            steps.append((rows, sorted(indices.tolist())))
        return steps, session.run(table.size)


def test_admission_counts_occurrences_of_all_ranks() -> None:
    ranks = run_ranks(2, with_a_filter, 60)
    # Key 4 comes four times a step, key 5 twice: it has a row after the second step that inserts.
    assert [size for _, size in ranks] == [1, 1]
    steps = ranks[0][0]
    assert not steps[0][0].any() and not steps[1][0][1].any()
    assert steps[2][0][1].any()
    np.testing.assert_array_equal(steps[3][0], steps[2][0])
    assert steps[0][1] == [4, 8] and ranks[1][0][0][1] == [5, 7]


def test_lookups_of_a_table_agree_on_inserting() -> None:
    with tf.Graph().as_default():
        table = DynamicTableVariable("users", DIM, options())
        lookups = [lookup_of(table, OneRank(), [[1]], insert) for insert in (True, False)]
        with pytest.raises(ValueError, match="lookups of table 'users' differ in `insert`"):
            look_up(lookups, OneRank())


def test_a_table_that_is_not_initialized_is_named() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        table = DynamicTableVariable("users", DIM, options())
        pooled = look_up([lookup_of(table, OneRank(), [[1]])], OneRank())[0]
        with pytest.raises(tf.errors.FailedPreconditionError, match="users"):
            session.run(pooled)


def rows_by_key(transport: Transport) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        table = DynamicTableVariable("users", DIM, options())
        keys = [[4, -3, 9]]
        pooled = look_up([lookup_of(table, transport, keys)], transport)[0]
        optimizer = tf.train.AdagradOptimizer(0.1)
        train = optimizer.minimize(tf.reduce_sum(pooled))
        rule = RowsByKey(transport.size)
        slot = optimizer.get_slot(table, "accumulator")
        rows = [DynamicRows(one, rule, transport.rank) for one in (table, slot)]
        mine = np.array([key for key in keys[0] if rule.owner(key) == transport.rank], np.int64)
        assert rows[0].owners(np.array(keys[0])).tolist() == [
            key % transport.size for key in keys[0]
        ]
        written = rows[1].write(mine[:1], np.full([1, DIM], 7.0))
        blocks = [rows[0].block(0, 10), rows[1].block(0, 10), rows[1].block(1, 10)]
        forgotten, count = rows[0].clear(), rows[0].num_rows()
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(count) == len(mine)
        session.run(written)
        (found, _), (keys_of_slot, slots), (later, _) = session.run(blocks)
        assert sorted(found) == sorted(mine) and list(keys_of_slot) == list(found)
        assert list(later) == list(found[1:])
        # Of each key's gradient all ranks have a part, 1 each.
        expected = [7.0 if key == mine[0] else 0.1 + transport.size**2 for key in found]
        np.testing.assert_allclose(slots[:, 0], expected, rtol=1e-6)
        session.run(forgotten)
        return int(session.run(count))


def test_rows_of_a_rank_are_read_and_written_by_key() -> None:
    assert run_ranks(2, rows_by_key, 60) == [0, 0]
