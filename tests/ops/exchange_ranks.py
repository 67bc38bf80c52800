"""Random lookups in tables spread over ranks, each a thread, and the same with TensorFlow's ops."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from tensorflow.python.eager import context

from graph_opt.compat import tf
from graph_opt.compat.eager import handle_of
from graph_opt.ops.exchange import exchange_lookup
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds
from graph_opt.ops.packed_embedding import ShardPlacement
from graph_opt.sharding.in_process import InProcessTransport
from graph_opt.sharding.transport import Transport

MODES = ("references", "resources", "function", "eager")


class TableCase(NamedTuple):
    """A table: `where` is mod, div, or the rank that has all of it."""

    values: np.ndarray
    where: Any


class LookupCase(NamedTuple):
    """The bags of all ranks: of each rank a list of bags, of each bag its ids and weights."""

    table: int
    combiner: str
    weighted: bool
    ranks: List[List[Tuple[List[int], List[float]]]]


class ExchangeCase(NamedTuple):
    """Tables and lookups.

    Attributes:
      size: Number of ranks.
      tables: All tables.
      lookups: All lookups.
      joined: Whether the results are columns of one tensor.
      default_ids: None, or as `tf.nn.safe_embedding_lookup_sparse` takes them, -1 for none.
      filled_ids: As `GroupAttributes` takes them.
    """

    size: int
    tables: List[TableCase]
    lookups: List[LookupCase]
    joined: bool = False
    default_ids: Optional[List[int]] = None
    filled_ids: Sequence[int] = ()

    def rows_of(self, table: int) -> List[List[int]]:
        """The rows of a table that each rank has."""
        rows, where = range(len(self.tables[table].values)), self.tables[table].where
        if where == "mod":
            return [list(rows[rank :: self.size]) for rank in range(self.size)]
        if where == "div":
            return [list(part) for part in np.array_split(rows, self.size)]
        return [list(rows) if rank == where else [] for rank in range(self.size)]

    def shards(self) -> List[Tuple[int, int, int]]:
        """Table, rank and number of rows of each shard."""
        return [
            (table, rank, len(rows))
            for table, case in enumerate(self.tables)
            for rank, rows in enumerate(self.rows_of(table))
            if case.where in ("mod", "div", rank)
        ]

    def placement(self) -> ShardPlacement:
        shards = self.shards()
        return ShardPlacement([s[2] for s in shards], [s[1] for s in shards], self.size)

    def attributes(self) -> GroupAttributes:
        widths = [self.tables[lookup.table].values.shape[1] for lookup in self.lookups]
        counts = [shard[0] for shard in self.shards()]
        return GroupAttributes(
            lookup_tables=[lookup.table for lookup in self.lookups],
            table_shards=[counts.count(table) for table in range(len(self.tables))],
            table_names=["table{}".format(table) for table in range(len(self.tables))],
            combiners=[lookup.combiner for lookup in self.lookups],
            layouts=[_layout(place) for place in range(len(self.lookups))],
            weighted=[lookup.weighted for lookup in self.lookups],
            default_ids=self.default_ids or [-1] * len(self.lookups),
            partition_strategies=[
                table.where if table.where in ("mod", "div") else "mod" for table in self.tables
            ],
            safe=self.default_ids is not None,
            columns=[sum(widths[:i]) for i in range(len(widths))] if self.joined else [],
            columns_width=sum(widths) if self.joined else 0,
            filled_ids=self.filled_ids,
        )


class Outcome(NamedTuple):
    """Pooled rows of each lookup, dense gradients of each table, gradients of all weights."""

    pooled: List[np.ndarray]
    tables: List[np.ndarray]
    weights: List[np.ndarray]


def cotangent(shape: Sequence[int], place: int) -> np.ndarray:
    """The gradient of a lookup's result, the same for the same global bag."""
    numbers = np.random.RandomState(place).randint(-8, 9, size=(400, shape[1]))
    return (numbers / 4.0).astype(np.float32)[: shape[0]]


def sparse_of(bags: List[Tuple[List[int], List[float]]]) -> Dict[str, np.ndarray]:
    """Ids, positions, dense shape and weights of bags."""
    pairs = [(b, i) for b, (ids, _) in enumerate(bags) for i in range(len(ids))]
    return dict(
        ids=np.array([i for ids, _ in bags for i in ids], np.int64),
        positions=np.array(pairs, np.int64).reshape(-1, 2),
        shape=np.array([len(bags), max([len(ids) for ids, _ in bags] + [0])], np.int64),
        weights=np.array([w for _, weights in bags for w in weights], np.float32),
    )


def on_rank(case: ExchangeCase, transport: InProcessTransport, mode: str) -> Any:
    """One rank's results: pooled rows, indices and values of each table, gradients of weights."""
    if mode in ("eager", "function"):
        with context.eager_mode():
            tables = [
                tf.Variable(part, use_resource=True) for part in parts_of_rank(case, transport.rank)
            ]
            weights = _weights(case, transport)

            def step() -> Any:
                return _taped(case, transport, tables, weights)

            results = tf.function(step)() if mode == "function" else step()
            return tf.nest.map_structure(lambda value: value.numpy(), results)
    with tf.Graph().as_default(), tf.Session() as session:
        results = build_rank(case, transport, mode == "resources")
        session.run(tf.global_variables_initializer())
        return session.run(results)


def build_rank(case: ExchangeCase, transport: InProcessTransport, use_resource: bool = True) -> Any:
    """One rank's variables, lookups and gradients in the current graph: the results' tensors."""
    tables = [
        tf.Variable(part, use_resource=use_resource) for part in parts_of_rank(case, transport.rank)
    ]
    weights = _weights(case, transport)
    pooled = look_up_on_rank(case, transport, tables, weights)
    found = tf.gradients(loss_of(case, transport, pooled), [*tables, *weights])
    return _results(pooled, found, len(tables))


def merged(case: ExchangeCase, ranks: Sequence[Any]) -> Outcome:
    """The results of all ranks as those of one process with the batches of all ranks."""
    dense = [np.zeros(table.values.shape, np.float32) for table in case.tables]
    for rank, (_, slices, _) in enumerate(ranks):
        for table, (indices, values) in enumerate(slices):
            rows = case.rows_of(table)[rank]
            assert list(indices) == sorted(set(indices))
            for index, value in zip(indices, values):
                dense[table][rows[index]] += value.astype(np.float32)
    count = len(ranks[0][0])
    pooled = [np.concatenate([rank[0][i] for rank in ranks]) for i in range(count)]
    weights = [np.concatenate([rank[2][i] for rank in ranks]) for i in range(len(ranks[0][2]))]
    return Outcome([one.astype(np.float32) for one in pooled], dense, weights)


def stock(case: ExchangeCase) -> Outcome:
    """TensorFlow's lookups and their gradients, in float32."""
    with tf.Graph().as_default(), tf.Session() as session:
        tables = [tf.constant(table.values.astype(np.float32)) for table in case.tables]
        loss, pooled, weights = stock_step(case, tables)
        inputs = [*tables, *weights]
        dense = [
            tf.zeros_like(of) if one is None else tf.convert_to_tensor(one)
            for of, one in zip(inputs, tf.gradients(loss, inputs))
        ]
        pooled, dense = session.run([pooled, dense])
    # TensorFlow 1 divides 0 by 0 for a bag without ids that has weights.
    pooled = [np.where(np.isnan(one), np.float32(0), one) for one in pooled]
    if case.joined:
        pooled = [np.concatenate(pooled, axis=1)]
    return Outcome(pooled, dense[: len(tables)], [one[:-1] for one in dense[len(tables) :]])


def stock_step(
    case: ExchangeCase, tables: Sequence[Any]
) -> Tuple[tf.Tensor, List[tf.Tensor], List[tf.Tensor]]:
    """The loss of all ranks' bags, the pooled rows and the weights, with one that is not used."""
    weights, pooled, losses = [], [], []
    for place, lookup in enumerate(case.lookups):
        bags = [bag for rank in lookup.ranks for bag in rank]
        # Results end with the last bag that is not empty, so there is one more.
        given = sparse_of([*bags, ([0], [1.0])])
        ids = tf.SparseTensor(given["positions"], given["ids"], given["shape"])
        of_weights = None
        if lookup.weighted:
            weights.append(tf.constant(given["weights"]))
            of_weights = tf.SparseTensor(given["positions"], weights[-1], given["shape"])
        pooled.append(_stock_lookup(case, place, tables[lookup.table], ids, of_weights)[:-1])
        width = case.tables[lookup.table].values.shape[1]
        losses.append(tf.reduce_sum(pooled[-1] * cotangent([len(bags), width], place)))
    return tf.add_n(losses), pooled, weights


def _stock_lookup(
    case: ExchangeCase, place: int, table: Any, ids: tf.SparseTensor, weights: Any
) -> tf.Tensor:
    combiner = case.lookups[place].combiner
    if case.default_ids is None:
        return tf.nn.embedding_lookup_sparse(table, ids, weights, combiner=combiner)
    default = None if case.default_ids[place] < 0 else case.default_ids[place]
    return tf.nn.safe_embedding_lookup_sparse(
        [table], ids, weights, combiner=combiner, default_id=default
    )


def parts_of_rank(case: ExchangeCase, rank: int) -> List[np.ndarray]:
    """The values of a rank's part of each table."""
    return [t.values[case.rows_of(i)[rank]] for i, t in enumerate(case.tables)]


def _weights(case: ExchangeCase, transport: InProcessTransport) -> List[tf.Tensor]:
    return [
        tf.constant(sparse_of(lookup.ranks[transport.rank])["weights"])
        for lookup in case.lookups
        if lookup.weighted
    ]


def _layout(place: int) -> str:
    """Of the lookup at this place: every other one is ragged, with int32 ids."""
    return "ragged" if place % 2 else "sparse"


def look_up_on_rank(
    case: ExchangeCase, transport: InProcessTransport, tables: List[Any], weights: List[tf.Tensor]
) -> List[tf.Tensor]:
    """All lookups of a rank."""
    ids = GroupIds([], [], [], weights)
    for place, lookup in enumerate(case.lookups):
        bags = lookup.ranks[transport.rank]
        given = sparse_of(bags)
        is_sparse = _layout(place) == "sparse"
        splits = np.cumsum([0] + [len(of_bag) for of_bag, _ in bags])
        ids.ids.append(tf.constant(given["ids"], tf.int64 if is_sparse else tf.int32))
        ids.positions.append(tf.constant(given["positions"] if is_sparse else splits, tf.int64))
        ids.shapes.append(tf.constant(given["shape"]))
    return exchange_lookup(
        [handle_of(table) for table in tables],
        ids,
        case.attributes(),
        case.placement(),
        transport.rank,
        [table.values.shape[1] for table in case.tables],
        [tf.as_dtype(table.values.dtype) for table in case.tables],
        transport.all_to_all,
        "exchange_0",
    )


def loss_of(case: ExchangeCase, transport: Transport, pooled: List[tf.Tensor]) -> tf.Tensor:
    """The loss of a rank's pooled rows."""
    parts = []
    for place, lookup in enumerate(case.lookups):
        counts = [len(rank) for rank in lookup.ranks]
        width = case.tables[lookup.table].values.shape[1]
        first = sum(counts[: transport.rank])
        part = cotangent([sum(counts), width], place)[first : first + counts[transport.rank]]
        parts.append(part)
    if case.joined:
        parts = [np.concatenate(parts, axis=1)]
    return tf.add_n(
        [tf.reduce_sum(tf.cast(p, tf.float32) * part) for p, part in zip(pooled, parts)]
    )


def loss_on_rank(case: ExchangeCase, transport: InProcessTransport, tables: List[Any]) -> tf.Tensor:
    """The loss of one rank's bags, of which `stock_step` has the sum over all ranks."""
    pooled = look_up_on_rank(case, transport, tables, _weights(case, transport))
    return loss_of(case, transport, pooled)


def _taped(
    case: ExchangeCase, transport: InProcessTransport, tables: List[Any], weights: List[tf.Tensor]
) -> Any:
    with tf.GradientTape() as tape:
        for weight in weights:
            tape.watch(weight)
        pooled = look_up_on_rank(case, transport, tables, weights)
        loss = loss_of(case, transport, pooled)
    return _results(pooled, tape.gradient(loss, [*tables, *weights]), len(tables))


def _results(pooled: List[tf.Tensor], found: List[Any], num_tables: int) -> Any:
    slices = [(one.indices, one.values) for one in found[:num_tables]]
    return pooled, slices, found[num_tables:]
