"""Exchanges of tables that give rows to keys: the same numbers on any number of ranks."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Tuple

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt.compat import tf
from graph_opt.dynamic.options import CounterAdmission, DynamicTableOptions
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.ops.dynamic_table import BY_KEY, BY_KEY_1000, apply_to_keys
from graph_opt.sharding.exchange import DividedTable, TableLookup, look_up
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.initializers import Drawn
from graph_opt.sharding.key_placement import RowsByKey
from graph_opt.sharding.placement import ModRows
from graph_opt.sharding.transport import OneRank, Transport

DIM = 5
STATIC_ROWS = 10
STEPS = 3
# In powers of two, sums of gradients are the same in any order.
RATE = 0.5


class Bags(NamedTuple):
    """Keys of both dynamic tables and ids of the static one, in the same bags."""

    users: List[List[int]]
    items: List[List[int]]
    places: List[List[int]]


def all_bags(step: int) -> Bags:
    random = np.random.RandomState(step)

    def bags(least: int, most: int) -> List[List[int]]:
        sizes = random.randint(0, 4, size=6)
        return [random.randint(least, most, size=size).tolist() for size in sizes]

    return Bags(bags(-(2**62), 2**62), bags(-20, 20), bags(0, STATIC_ROWS))


def mine(bags: List[List[int]], transport: Transport) -> List[List[int]]:
    """Bags of this rank, in the order of all."""
    places = np.array_split(np.arange(len(bags)), transport.size)[transport.rank]
    return [bags[place] for place in places]


class Tables:
    """Two dynamic tables and a static one, divided among the ranks."""

    def __init__(self, transport: Transport, options: DynamicTableOptions) -> None:
        self.transport = transport
        self.users = DynamicTableVariable("users", DIM, options)
        self.items = DynamicTableVariable("items", DIM + 2, options)
        rows = ModRows(STATIC_ROWS, transport.size)
        start = np.arange(STATIC_ROWS * DIM, dtype=np.float32).reshape([-1, DIM])
        self.places = tf.Variable(
            start[rows.keys(transport.rank)], name="places", use_resource=True
        )
        size = transport.size
        self.divided = [
            DividedTable("users", self.users, RowsByKey(size, BY_KEY_1000), DIM),
            DividedTable("items", self.items, RowsByKey(size, BY_KEY), DIM + 2),
            DividedTable("places", self.places, rows, DIM),
        ]

    @property
    def variables(self) -> List[Any]:
        return [self.users, self.items, self.places]

    def pooled(self, step: int, insert: Any = True) -> List[tf.Tensor]:
        lookups = []
        for place, bags in enumerate(all_bags(step)):
            ids = tf.ragged.constant(mine(bags, self.transport), dtype=tf.int64, ragged_rank=1)
            combiner = "sum" if place != 1 else "mean"
            read = read_ids(place, ids, None)
            lookups.append(TableLookup(self.divided[place], read, combiner, insert))
        # Items are looked up twice, and their gradients summed.
        lookups.append(lookups[1]._replace(combiner="sum"))
        return look_up(lookups, self.transport)

    def update(self, gradients: List[tf.IndexedSlices]) -> List[Any]:
        updates = [
            apply_to_keys("GradientDescent", table.handle, [], [RATE], one.indices, one.values)
            for table, one in zip(self.variables[:2], gradients)
        ]
        last = gradients[2]
        return [
            *updates,
            self.places.scatter_sub(tf.IndexedSlices(last.values * RATE, last.indices)),
        ]


def rounded(pooled: List[tf.Tensor]) -> List[tf.Tensor]:
    return [tf.round(one * 4.0) for one in pooled]


def in_session(transport: Transport) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        tables = Tables(transport, DynamicTableOptions(Drawn("normal", 0.0, 1.0)))
        session.run(tf.global_variables_initializer())
        results = []
        for step in range(STEPS):
            pooled = tables.pooled(step)
            gradients = tf.gradients(pooled, tables.variables, rounded(pooled))
            with tf.control_dependencies(gradients):
                updates = tables.update(gradients)
            results.append(session.run([pooled, [one.indices for one in gradients], updates])[:2])
        rows = session.run(
            [tables.users.rows_of_keys(tf.constant([7, 8], tf.int64), None, insert=False)]
        )
        return results, rows


def eagerly(transport: Transport) -> Any:
    with context.eager_mode():
        tables = Tables(transport, DynamicTableOptions(Drawn("normal", 0.0, 1.0)))
        results = []
        for step in range(STEPS):
            with tf.GradientTape() as tape:
                pooled = tables.pooled(step)
            gradients = tape.gradient(pooled, tables.variables, rounded(pooled))
            tables.update(gradients)
            indices = [one.indices.numpy() for one in gradients]
            results.append([[one.numpy() for one in pooled], indices])
        return results, None


def joined(ranks: List[Any]) -> Tuple[List[List[np.ndarray]], List[List[Any]]]:
    """Pooled rows of all bags, and the keys that have gradients, by step."""
    pooled, keys = [], []
    for of_step in zip(*[results for results, _ in ranks]):
        pooled.append([np.concatenate(one) for one in zip(*[of_rank[0] for of_rank in of_step])])
        found = zip(*[of_rank[1] for of_rank in of_step])
        keys.append([sorted(np.concatenate(one).tolist()) for one in list(found)[:2]])
    return pooled, keys


@pytest.mark.parametrize("program", [in_session, eagerly])
def test_numbers_do_not_depend_on_the_number_of_ranks(program: Any) -> None:
    alone = joined([program(OneRank())])
    for size in (2, 3):
        ranks = run_ranks(size, program, 60)
        for ours, theirs in zip(joined(ranks)[0], alone[0]):
            for one, other in zip(ours, theirs):
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
        assert joined(ranks)[1] == alone[1]
        for rank, (results, _) in enumerate(ranks):
            owned = [keys for _, (users, items, _) in results for keys in items.tolist()]
            assert {key % size for key in owned} <= {rank}
            owned = [keys for _, (users, items, _) in results for keys in users.tolist()]
            assert {key % 1000 % size for key in owned} <= {rank}


def read_only(transport: Transport) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        options = DynamicTableOptions(Drawn("normal", 0.0, 1.0), admission=CounterAdmission(3))
        table = DynamicTableVariable("users", DIM, options)
        divided = DividedTable("users", table, RowsByKey(transport.size), DIM)
        ids = tf.constant([[4, 4], [5, 7 + transport.rank]], tf.int64)
        insert = tf.placeholder(tf.bool, [])
        lookup = TableLookup(
            divided, read_ids(0, tf.RaggedTensor.from_tensor(ids), None), "sum", insert
        )
        pooled = look_up([lookup], transport)[0]
        gradient = tf.gradients(pooled, table)[0]
        session.run(table.initializer)
        steps = []
        for inserts in (False, True, True, False):
            rows = session.run([pooled, gradient.indices], {insert: inserts})
            steps.append((rows[0], sorted(rows[1].tolist())))
        return steps, session.run(table.total_shape())


def test_admission_counts_occurrences_of_all_ranks() -> None:
    ranks = run_ranks(2, read_only, 60)
    # Key 4 comes four times a step, key 5 twice: it has a row after the second step that inserts.
    assert [size.tolist() for _, size in ranks] == [[1, DIM], [1, DIM]]
    steps = ranks[0][0]
    assert not steps[0][0].any() and not steps[1][0][1].any()
    assert steps[2][0][1].any()
    np.testing.assert_array_equal(steps[3][0], steps[2][0])
    assert steps[0][1] == [4, 8] and ranks[1][0][0][1] == [5, 7]


def test_lookups_of_a_table_agree_on_inserting() -> None:
    with tf.Graph().as_default():
        table = DynamicTableVariable("users", DIM, DynamicTableOptions(Drawn("normal", 0.0, 1.0)))
        divided = DividedTable("users", table, RowsByKey(1), DIM)
        ids = read_ids(0, tf.RaggedTensor.from_row_splits([1], [0, 1]), None)
        lookups = [TableLookup(divided, ids, "sum", insert) for insert in (True, False)]
        with pytest.raises(ValueError, match="lookups of table 'users' differ in `insert`"):
            look_up(lookups, OneRank())


def not_initialized(transport: Transport) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        table = DynamicTableVariable("users", DIM, DynamicTableOptions(Drawn("normal", 0.0, 1.0)))
        divided = DividedTable("users", table, RowsByKey(1), DIM)
        ids = read_ids(0, tf.RaggedTensor.from_row_splits([1], [0, 1]), None)
        pooled = look_up([TableLookup(divided, ids, "sum")], transport)[0]
        session.run(pooled)


def test_a_table_that_is_not_initialized_is_named() -> None:
    with pytest.raises(tf.errors.FailedPreconditionError, match="users"):
        not_initialized(OneRank())
