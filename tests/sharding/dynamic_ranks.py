"""A model of two dynamic tables and a static one, sharded across ranks; a program for each rank."""

from __future__ import annotations

from typing import Any, List, NamedTuple

import numpy as np
from tensorflow.python.eager import context

from graph_opt.compat import tf
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.ops.dynamic_table import BY_KEY, BY_KEY_1000, apply_to_keys
from graph_opt.sharding.exchange import ShardedTable, TableLookup, look_up
from graph_opt.sharding.horovod_transport import HorovodTransport, horovod
from graph_opt.sharding.initializers import Drawn
from graph_opt.sharding.key_placement import RowsByKey
from graph_opt.sharding.placement import ModRows
from graph_opt.sharding.transport import OneRank, Transport
from tests.plain_sessions import plain_session

DIM = 5
STATIC_ROWS = 10
BAGS = 6
STEPS = 3
# Gradients and this are few bits, so that their sums are the same in any order.
RATE = 0.5


class Bags(NamedTuple):
    """Keys of both dynamic tables and ids of the static one."""

    users: List[List[int]]
    items: List[List[int]]
    places: List[List[int]]


class Results(NamedTuple):
    """Pooled rows of each lookup in this rank's bags, and the keys or rows with gradients."""

    pooled: List[np.ndarray]
    indices: List[np.ndarray]


def options() -> DynamicTableOptions:
    """Tables whose rows start with random numbers."""
    return DynamicTableOptions(Drawn("normal", 0.0, 1.0))


def bags_of(transport: Transport) -> np.ndarray:
    """The numbers of this rank's bags among all."""
    return np.array_split(np.arange(BAGS), transport.size)[transport.rank]


def all_bags(step: int) -> Bags:
    """The bags of all ranks."""
    random = np.random.RandomState(step)

    def bags(least: int, most: int) -> List[List[int]]:
        sizes = random.randint(0, 4, size=BAGS)
        return [random.randint(least, most, size=size).tolist() for size in sizes]

    return Bags(bags(-(2**62), 2**62), bags(-20, 20), bags(0, STATIC_ROWS))


class Tables:
    """Two dynamic tables and a static one, sharded across the ranks."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.users = DynamicTableVariable("users", DIM, options())
        self.items = DynamicTableVariable("items", DIM + 2, options())
        rows = ModRows(STATIC_ROWS, transport.size)
        start = np.arange(STATIC_ROWS * DIM, dtype=np.float32).reshape([-1, DIM])
        self.places = tf.Variable(
            start[rows.keys(transport.rank)], name="places", use_resource=True
        )
        size = transport.size
        self.divided = [
            ShardedTable("users", self.users, RowsByKey(size, BY_KEY_1000), DIM),
            ShardedTable("items", self.items, RowsByKey(size, BY_KEY), DIM + 2),
            ShardedTable("places", self.places, rows, DIM),
        ]

    @property
    def variables(self) -> List[Any]:
        """All tables."""
        return [self.users, self.items, self.places]

    def pooled(self, step: int) -> List[tf.Tensor]:
        """Looks all tables up in one exchange, items twice."""
        lookups = []
        for place, bags in enumerate(all_bags(step)):
            mine = [bags[bag] for bag in bags_of(self.transport)]
            ids = tf.ragged.constant(mine, dtype=tf.int64, ragged_rank=1)
            combiner = "mean" if place == 1 else "sum"
            lookups.append(TableLookup(self.divided[place], read_ids(place, ids, None), combiner))
        lookups.append(lookups[1]._replace(combiner="sum"))
        return look_up(lookups, self.transport)

    def update(self, gradients: List[tf.IndexedSlices]) -> List[Any]:
        """Descends by gradients of all tables."""
        updates = [
            apply_to_keys("GradientDescent", table.handle, [], [RATE], one.indices, one.values)
            for table, one in zip(self.variables[:2], gradients)
        ]
        moved = tf.IndexedSlices(gradients[2].values * RATE, gradients[2].indices)
        return [*updates, self.places.scatter_sub(moved)]


def in_session(transport: Transport) -> List[Results]:
    """Trains for some steps."""
    with tf.Graph().as_default(), plain_session() as session:
        tables = Tables(transport)
        session.run(tf.global_variables_initializer())
        results = []
        for step in range(STEPS):
            pooled = tables.pooled(step)
            gradients = tf.gradients(pooled, tables.variables, _rounded(pooled))
            with tf.control_dependencies(gradients):
                updates = tables.update(gradients)
            fetched = session.run([pooled, [one.indices for one in gradients], updates])
            results.append(Results(*fetched[:2]))
        return results


def eagerly(transport: Transport) -> List[Results]:
    """The same, without a graph."""
    with context.eager_mode():
        tables = Tables(transport)
        results = []
        for step in range(STEPS):
            with tf.GradientTape() as tape:
                pooled = tables.pooled(step)
            gradients = tape.gradient(pooled, tables.variables, _rounded(pooled))
            tables.update(gradients)
            indices = [one.indices.numpy() for one in gradients]
            results.append(Results([one.numpy() for one in pooled], indices))
        return results


def _rounded(pooled: List[tf.Tensor]) -> List[tf.Tensor]:
    return [tf.round(one * 4.0) for one in pooled]


def main() -> None:
    """Checks that a rank of Horovod has the numbers of one that is alone."""
    horovod().init()
    transport = HorovodTransport()
    for program in (in_session, eagerly):
        for ours, theirs in zip(program(transport), program(OneRank())):
            for one, other in zip(ours.pooled, theirs.pooled):
                np.testing.assert_allclose(one, other[bags_of(transport)], rtol=1e-5, atol=1e-5)
    print("rank {} is done".format(transport.rank))


if __name__ == "__main__":
    main()
