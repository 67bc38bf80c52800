"""A model over sharded tables that each rank trains on batches of its own, with prefetch."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from tests.session.small_model import async_config, report_on

USERS, ITEMS, WIDTH, BATCH = 23, 17, 4, 5


class RankModel(NamedTuple):
    """Tensors of one rank's model.

    Attributes:
      iterator: Over the rank's batches.
      rows: Numbers of the batch's rows.
      loss, train_op: As usual.
    """

    iterator: Any
    rows: Any
    loss: Any
    train_op: Any


def rank_dataset(rank: int, batches: int, parse: Optional[Callable[[Any], Any]] = None) -> Any:
    """Rows numbered from 1000 * rank, in batches."""
    numbers = tf.data.Dataset.range(1000 * rank, 1000 * rank + batches * BATCH)
    dataset = numbers.batch(BATCH)
    return dataset if parse is None else dataset.map(parse)


def rank_model(dataset: Any, optimizer: Any = None) -> RankModel:
    """The model in the default graph; the transport must be in use.

    By default its optimizer changes nothing: with another, what a prefetched lookup reads depends
    on the threads.
    """
    iterator = tf.data.make_initializable_iterator(dataset)
    rows = iterator.get_next()
    random = np.random.RandomState(3)
    users = sok.Variable(random.rand(USERS, WIDTH).astype(np.float32), name="users")
    items = sok.Variable(
        random.rand(ITEMS, 2 * WIDTH).astype(np.float32), mode="localized:0", name="items"
    )
    pooled = sok.lookup_sparse(
        [users, items],
        [ids_of(rows * 7 % USERS), ids_of(rows * 5 % ITEMS)],
        combiners=["sum", "mean"],
    )
    loss = tf.reduce_mean(tf.concat(pooled, 1) * tf.cast(rows[:, None] + 1, tf.float32))
    optimizer = optimizer or tf.train.GradientDescentOptimizer(0.0)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    return RankModel(iterator, rows, loss, train_op)


def ids_of(ids: Any) -> Any:
    """One id in each bag."""
    count = tf.shape(ids, out_type=tf.int64)[0]
    positions = tf.stack([tf.range(count), tf.zeros_like(tf.range(count))], axis=1)
    return tf.SparseTensor(positions, ids, tf.stack([count, tf.constant(1, tf.int64)]))


def steps_to_end(session: Any, model: RankModel, errors: Optional[List[Any]] = None) -> List[Any]:
    """First row and loss of each step, until the input ends; a step that fails gives its error."""
    results: List[Any] = []
    while True:
        try:
            rows, loss, _ = session.run([model.rows, model.loss, model.train_op])
            results.append((int(rows[0]), float(loss)))
        except tf.errors.OutOfRangeError:
            return results
        except tf.errors.OpError as error:
            results.append((error.error_code, error.message))
            if errors is not None:
                errors.append(error)
            if len(results) > 50:
                raise


def train_rank(
    transport: Transport,
    batches: int,
    config: Any,
    parse: Optional[Callable[[Any], Any]] = None,
    optimizer: Any = None,
) -> Dict[str, Any]:
    """Trains one rank to the end of its input; returns its steps and the session's report."""
    with communicating_through(transport), tf.Graph().as_default() as graph:
        model = rank_model(rank_dataset(transport.rank, batches, parse), optimizer)
        with graph_opt.Session(config=config) as session:
            session.run([tf.global_variables_initializer(), model.iterator.initializer])
            steps = steps_to_end(session, model)
        report = report_on(graph) if config is not None else None
        return {"steps": steps, "report": report, "graph": graph}


def prefetching(threads: int = 1, capacity: int = 2) -> Any:
    """A config that prefetches."""
    return async_config(threads, capacity)
