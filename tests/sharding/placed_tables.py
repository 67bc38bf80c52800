"""Tables that are placed in every way, looked up by one rank."""

from __future__ import annotations

from typing import Any, List

import numpy as np
from tensorflow.python.eager import context

from graph_opt.compat import tf
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.sharding.exchange import TableLookup, look_up, table_of
from graph_opt.sharding.placement import (
    TablePlacement,
    by_columns,
    on_rank,
    replicated,
    sharded,
)
from graph_opt.sharding.transport import Transport
from tests.ops.exchange_ranks import (
    ExchangeCase,
    LookupCase,
    TableCase,
    loss_of,
    sparse_of,
    stock,
)
from tests.plain_sessions import plain_session

DTYPES = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 8e-2}
MODES = ("references", "resources", "eager")


class Placed:
    """Tables, lookups, and where the tables are."""

    def __init__(self, case: ExchangeCase, placements: List[TablePlacement]) -> None:
        self.case = case
        self.placements = placements

    def __repr__(self) -> str:
        return "{} {}".format(self.case, self.placements)

    def parts(self, rank: int) -> List[List[np.ndarray]]:
        """The values of a rank's slices of each table."""
        return [
            [
                table.values[of.rows.keys(rank), of.first_column : of.first_column + of.width]
                for of in placement.slices
            ]
            for table, placement in zip(self.case.tables, self.placements)
        ]


def looked_up(placed: Placed, transport: Transport, tables: List[List[Any]]) -> List[tf.Tensor]:
    lookups = []
    for place, lookup in enumerate(placed.case.lookups):
        values = sparse_of(lookup.ranks[transport.rank])
        ids, factors = (
            tf.SparseTensor(values["positions"], values[name], values["shape"])
            for name in ("ids", "weights")
        )
        weights = factors if lookup.weighted else None
        table = table_of(placed.placements[lookup.table], tables[lookup.table])
        lookups.append(TableLookup(table, read_ids(place, ids, weights), lookup.combiner))
    return look_up(lookups, transport)


def results_on_rank(placed: Placed, transport: Transport, mode: str) -> Any:
    """Pooled rows, and the gradient of each part as (rows, values)."""
    with context.eager_mode() if mode == "eager" else tf.Graph().as_default():
        tables = [
            [tf.Variable(part, use_resource=mode != "references") for part in parts]
            for parts in placed.parts(transport.rank)
        ]
        flat = [part for parts in tables for part in parts]
        with tf.GradientTape() as tape:
            pooled = looked_up(placed, transport, tables)
            loss = loss_of(placed.case, transport, pooled)
        of_parts = tape.gradient(loss, flat) if mode == "eager" else tf.gradients(loss, flat)
        slices = [(one.indices, one.values) for one in of_parts]
        if mode == "eager":
            return tf.nest.map_structure(lambda value: value.numpy(), (pooled, slices))
        with plain_session() as session:
            session.run(tf.global_variables_initializer())
            return session.run((pooled, slices))


def check_on_rank(transport: Transport) -> None:
    """One rank's pooled rows and gradients are its part of those of one process."""
    rank, size = transport.rank, transport.size
    for dtype, mode in zip(DTYPES, MODES):
        placed = _all_placements(size, dtype)
        pooled, slices = results_on_rank(placed, transport, mode)
        expected = stock(placed.case)
        for lookup, ours, theirs in zip(placed.case.lookups, pooled, expected.pooled):
            first = sum(len(bags) for bags in lookup.ranks[:rank])
            _close(ours, theirs[first : first + len(lookup.ranks[rank])], dtype)
        parts = iter(slices)
        for placement, theirs in zip(placed.placements, expected.tables):
            for of in placement.slices:
                rows, values = next(parts)
                ours = np.zeros([of.rows.num_local_rows(rank), of.width], np.float32)
                ours[rows] = values
                columns = theirs[:, of.first_column : of.first_column + of.width]
                if not placement.is_replicated:
                    _close(ours, columns[of.rows.keys(rank)], dtype)


def _all_placements(size: int, dtype: str) -> Placed:
    random = np.random.RandomState(size)
    shape = (13, 5)
    placements = [
        sharded("mod", shape, size),
        sharded("div", shape, size, "div"),
        on_rank("rank", shape, size, size - 1),
        by_columns("columns", shape, size, [0, size - 1]),
        replicated("replicated", shape, size),
    ]
    tables, lookups = [], []
    for table in range(len(placements)):
        values = random.randint(-16, 17, size=shape) / 8.0
        tables.append(TableCase(values.astype(tf.as_dtype(dtype).as_numpy_dtype), None))
        ranks = []
        for rank in range(size):
            bags = [list(random.randint(0, 13, count)) for count in range(3 * (rank % 2))]
            ranks.append([(bag, [1.0] * len(bag)) for bag in bags])
        ranks[-1].append(([3, 3, 7], [0.5, -1.0, 2.0]))
        lookups.append(LookupCase(table, "mean", table == 0, ranks))
    return Placed(ExchangeCase(size, tables, lookups), placements)


def _close(ours: np.ndarray, theirs: np.ndarray, dtype: str) -> None:
    tolerance = DTYPES[dtype] * (1 + np.abs(theirs).max(initial=0))
    np.testing.assert_allclose(ours.astype(np.float32), theirs, rtol=DTYPES[dtype], atol=tolerance)
