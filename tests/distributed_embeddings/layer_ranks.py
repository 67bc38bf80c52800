"""A model with a `DistributedEmbedding`, trained by each rank on its share of a batch."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.distributed_embedding import DistributedEmbedding
from graph_opt.distributed_embeddings.embedding import Embedding
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import communicating_through
from tests.plain_sessions import plain_session

DENSE, ONE, RAGGED, SPARSE = "dense", "one", "ragged", "sparse"
RATE = 0.5


class Table(NamedTuple):
    """A table, and what is looked up in it."""

    rows: int
    width: int
    combiner: Optional[str]
    kind: str = DENSE


class Case(NamedTuple):
    """Tables, the layer's arguments, and the table of each input."""

    tables: Sequence[Table]
    arguments: Dict[str, Any]
    input_map: Optional[Sequence[int]] = None

    @property
    def inputs(self) -> List[Table]:
        return [self.tables[one] for one in self.input_map or range(len(self.tables))]


def layer_of(case: Case, **arguments: Any) -> Any:
    embeddings = [
        Embedding(one.rows, one.width, combiner=one.combiner, name="table_{}".format(place))
        for place, one in enumerate(case.tables)
    ]
    arguments = dict(case.arguments, **arguments)
    return DistributedEmbedding(
        embeddings, input_table_map=case.input_map, name="layer", **arguments
    )


def ids_of(case: Case, step: int, batch: int) -> List[List[List[int]]]:
    """For each input, the bags of a step's global batch."""
    random = np.random.RandomState(step)
    return [
        [
            random.randint(
                0,
                one.rows,
                {ONE: 1, DENSE: 3, RAGGED: random.randint(0, 4), SPARSE: random.randint(0, 4)}[
                    one.kind
                ],
            ).tolist()
            for _ in range(batch)
        ]
        for one in case.inputs
    ]


def as_input(bags: List[List[int]], kind: str, place: int = 0) -> Any:
    dtype = tf.int32 if place % 2 else tf.int64
    if kind in (RAGGED, SPARSE):
        ragged = tf.ragged.constant(bags, ragged_rank=1, dtype=dtype)
        return ragged.to_sparse() if kind == SPARSE else ragged
    array = np.array(bags, np.int32 if place % 2 else np.int64).reshape([len(bags), -1])
    return tf.constant(array[:, 0] if kind == ONE else array)


def share(values: Any, rank: int, size: int, uneven: bool) -> Any:
    """A rank's share of a batch; uneven ones leave the first rank almost nothing."""
    cuts = [place * len(values) // size for place in range(size + 1)]
    if uneven and size > 1:
        cuts[1] = 1
    return values[cuts[rank] : cuts[rank + 1]]


def weights_of_loss(case: Case, step: int, batch: int) -> List[np.ndarray]:
    random = np.random.RandomState(1000 + step)
    return [random.uniform(-1, 1, [batch, one.width]).astype(np.float32) for one in case.inputs]


def loss_of(outputs: Sequence[Any], weights: Sequence[Any]) -> Any:
    total = 0.0
    for output, weight in zip(outputs, weights):
        if isinstance(output, tf.RaggedTensor):
            output = tf.reduce_sum(output, axis=1)
        elif output.shape.rank == 3:
            output = tf.reduce_sum(output, axis=1)
        total += tf.reduce_sum(tf.tanh(output + 0.1) * weight)
    return total


class Held(NamedTuple):
    """Rows and columns of a table that a rank has."""

    keys: np.ndarray
    first_column: int
    values: np.ndarray


def held_by(layer: Any, values_of: Any) -> List[List[Held]]:
    """What this rank has of each table.

    Args:
      layer: The layer.
      values_of: From a variable to its values.
    """
    rank = layer.transport.rank
    tables = []
    for table in layer.placed_tables():
        held = []
        for part in table.parts:
            keys = part.rows.keys(rank)
            values = values_of(part.variable)[part.first_row : part.first_row + len(keys)]
            assert values.shape == (len(keys), part.width)
            held.append(Held(keys, part.first_column, values))
        tables.append(held)
    return tables


def whole_tables(case: Case, ranks: Sequence[List[List[Held]]]) -> List[np.ndarray]:
    """The tables, from what all ranks have; each element is somewhere."""
    whole = [np.full([one.rows, one.width], np.nan, np.float32) for one in case.tables]
    for tables in ranks:
        for table, parts in zip(whole, tables):
            for part in parts:
                columns = slice(part.first_column, part.first_column + part.values.shape[1])
                before = table[part.keys, columns]
                np.testing.assert_array_equal(
                    before[~np.isnan(before)], part.values[~np.isnan(before)]
                )
                table[part.keys, columns] = part.values
    assert not any(np.isnan(table).any() for table in whole)
    return whole


def placeholder_of(table: Table, place: int) -> Any:
    dtype = tf.int32 if place % 2 else tf.int64
    if table.kind == RAGGED:
        return tf.ragged.placeholder(dtype, 1, name="input_{}".format(place))
    if table.kind == SPARSE:
        return tf.sparse_placeholder(dtype, [None, None], name="input_{}".format(place))
    return tf.placeholder(dtype, [None] if table.kind == ONE else [None, 3])


def fed(bags: Sequence[List[int]], table: Table, place: int) -> Any:
    dtype = np.int32 if place % 2 else np.int64
    if table.kind in (ONE, DENSE):
        array = np.array(bags, dtype).reshape([len(bags), -1])
        return array[:, 0] if table.kind == ONE else array
    lengths = [len(bag) for bag in bags]
    flat = np.array([one for bag in bags for one in bag], dtype)
    if table.kind == RAGGED:
        splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return tf.ragged.RaggedTensorValue(flat, splits)
    rows = np.repeat(np.arange(len(bags)), lengths)
    columns = [column for length in lengths for column in range(length)]
    indices = np.stack([rows, np.array(columns, np.int64)], axis=1).reshape([-1, 2])
    return tf.SparseTensorValue(indices, flat, [len(bags), max([1, *lengths])])


def trained_on_rank(
    case: Case,
    transport: Transport,
    steps: int,
    batch: int,
    optimizer: Any,
    open_session: Any = plain_session,
    uneven: bool = True,
) -> Tuple[List[List[Held]], List[List[Held]]]:
    """What a rank has of each table before and after some steps in a session."""
    rank, size = transport.rank, transport.size
    with communicating_through(transport), tf.Graph().as_default():
        layer = layer_of(case)
        numbers = list(range(len(case.inputs)))
        if not layer.dp_input:
            numbers = layer.strategy.input_ids_list[rank]
        inputs = [placeholder_of(case.inputs[one], one) for one in numbers]
        outputs = layer(inputs)
        wanted = [tf.placeholder(tf.float32, [None, one.width]) for one in case.inputs]
        loss = loss_of(outputs, wanted)
        variables = [one for one in layer.trainable_weights if one.shape[0] or size > 1]
        gradients = []
        for variable, gradient in zip(variables, tf.gradients(loss, variables)):
            if gradient is not None and not getattr(variable, "de_local", False):
                name = transport.message_name("gradient")
                gradient = transport.all_reduce(tf.convert_to_tensor(gradient), "sum", name)
            gradients.append(gradient)
        known = [pair for pair in zip(gradients, variables) if pair[0] is not None]
        train = optimizer().apply_gradients(known)
        with open_session() as session:
            session.run(tf.global_variables_initializer())
            start = held_by(layer, session.run)
            for step in range(steps):
                ids = ids_of(case, step, batch)
                feeds = {}
                for one, given in zip(numbers, inputs):
                    bags: Any = ids[one]
                    if layer.dp_input:
                        bags = share(bags, rank, size, uneven)
                    feeds[given] = fed(bags, case.inputs[one], one)
                for value, given in zip(weights_of_loss(case, step, batch), wanted):
                    feeds[given] = share(value, rank, size, uneven and layer.dp_input)
                session.run(train, feeds)
            return start, held_by(layer, session.run)


def trained_by_stock(
    case: Case, tables: Sequence[np.ndarray], steps: int, batch: int, optimizer: Any
) -> List[np.ndarray]:
    """The same by one process with TensorFlow's own ops and whole tables."""
    with tf.Graph().as_default(), plain_session() as session:
        variables = [tf.Variable(table, use_resource=True) for table in tables]
        numbers = case.input_map or range(len(case.tables))
        inputs = [placeholder_of(one, place) for place, one in enumerate(case.inputs)]
        outputs = [
            stock_output(variables[number], given, table)
            for number, given, table in zip(numbers, inputs, case.inputs)
        ]
        wanted = [tf.placeholder(tf.float32, [None, one.width]) for one in case.inputs]
        train = optimizer().minimize(loss_of(outputs, wanted), var_list=variables)
        session.run(tf.global_variables_initializer())
        for step in range(steps):
            ids = ids_of(case, step, batch)
            feeds = {
                given: fed(bags, table, place)
                for place, (given, bags, table) in enumerate(zip(inputs, ids, case.inputs))
            }
            feeds.update(zip(wanted, weights_of_loss(case, step, batch)))
            session.run(train, feeds)
        return session.run(variables)


def stock_output(table: Any, ids: Any, of: Table) -> Any:
    if of.combiner is None:
        return tf.nn.embedding_lookup(table, ids)
    if of.kind == DENSE:
        rows = tf.nn.embedding_lookup(table, ids)
        return tf.reduce_sum(rows, 1) if of.combiner == "sum" else tf.reduce_mean(rows, 1)
    sparse = ids.to_sparse() if of.kind == RAGGED else ids
    return tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner=of.combiner)
