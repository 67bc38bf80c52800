"""A model as Horovod scripts train it, by ranks that are threads of one process.

Slices are gathered by a function that has the name of Horovod's op, so that no Horovod is needed.
Where tables are sharded nothing calls it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
from tensorflow.python.framework import function

import graph_opt
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sharding.transport import AVERAGE
from graph_opt.sharding.transport_in_use import communicating_through

ROWS = 37
WIDTHS = {"users": 8, "items": 4}
BATCH = 6
SEED = 4


class Model(NamedTuple):
    """What a script has built; `rows` are the results of its lookups."""

    train: Any
    loss: Any
    ids: Any
    labels: Any
    tables: Dict[str, Any]
    optimizer: Any
    rows: List[Any]


def sharding(**options: Any) -> Any:
    """A config that divides all tables."""
    config = graph_opt.ConfigProto()
    optimizer_options = config.graph_options.optimizer_options
    optimizer_options.shard_tables = True
    for name, value in dict({"min_table_bytes": 1}, **options).items():
        field = getattr(optimizer_options.shard_tables_options, name)
        if name == "tables":
            field.extend(value)
        else:
            setattr(optimizer_options.shard_tables_options, name, value)
    return config


def build(
    optimizer: Any,
    transport: Optional[InProcessTransport] = None,
    use_resource: bool = False,
    initializer: Any = None,
    batch: Any = None,
) -> Model:
    """Builds the model in the default graph: on a rank, or with whole batches on None.

    It is fed, unless it is given the ids and labels of a `batch`.
    """
    tf.set_random_seed(SEED)
    ids, labels = batch or (
        tf.placeholder(tf.int64, [None, 2], name="ids"),
        tf.placeholder(tf.float32, [None], name="labels"),
    )
    tables = {
        name: tf.get_variable(
            name,
            [ROWS, width],
            initializer=initializer or tf.random_uniform_initializer(-1, 1, seed=width),
            use_resource=use_resource,
        )
        for name, width in WIDTHS.items()
    }
    rows = [
        tf.nn.embedding_lookup(tables["users"], ids[:, 0]),
        tf.nn.embedding_lookup(tables["items"], ids),
    ]
    # Of a reference, the update might come before gradients of rows have read it.
    ones = tf.ones_initializer()
    dense = tf.get_variable("dense", [sum(WIDTHS.values())], None, ones, use_resource=True)
    logits = tf.reduce_sum(
        tf.concat([rows[0], tf.reduce_sum(rows[1], axis=1)], axis=1) * dense, axis=1
    )
    loss = tf.reduce_mean(tf.square(logits - labels))
    variables = [*tables.values(), dense]
    gradients = tf.gradients(loss, variables)
    if transport is not None:
        gradients = [averaged(gradient, transport) for gradient in gradients]
    step = tf.train.get_or_create_global_step()
    train = optimizer.apply_gradients(zip(gradients, variables), global_step=step)
    return Model(train, loss, ids, labels, tables, optimizer, rows)


def feed(model: Model, step: int, rank: Optional[int] = None, ranks: int = 2) -> Dict[Any, Any]:
    """A rank's part of the batch of a step; all of it for None."""
    ids, labels = batch_of(step, rank, ranks)
    return {model.ids: ids, model.labels: labels}


def batch_of(step: int, rank: Optional[int] = None, ranks: int = 2) -> Tuple[Any, Any]:
    """Ids and labels of a step: those of a rank; of all for None."""
    random = np.random.default_rng(step)
    ids = random.integers(0, ROWS, [ranks, BATCH, 2])
    labels = random.normal(size=[ranks, BATCH])
    if rank is None:
        return ids.reshape(-1, 2), labels.reshape(-1)
    return ids[rank], labels[rank]


def stock(optimizer: Callable[[], Any], steps: int, **options: Any) -> Dict[str, np.ndarray]:
    """The variables after one process has trained on whole batches."""
    with tf.Graph().as_default(), tf.Session() as session:
        model = build(optimizer(), **options)
        session.run(tf.global_variables_initializer())
        for step in range(steps):
            session.run(model.train, feed(model, step))
        return session.run({one.op.name: one for one in tf.global_variables()})


def on_ranks(work: Callable[[InProcessTransport], Any], ranks: int = 2) -> List[Any]:
    """Runs each rank in a graph of its own."""

    def run(transport: InProcessTransport) -> Any:
        with communicating_through(transport), tf.Graph().as_default():
            return work(transport)

    return run_ranks(ranks, run, timeout_seconds=60)


def parts(session: Any) -> Dict[str, Dict[int, np.ndarray]]:
    """This rank's rows of each sharded variable, by name and key."""
    found = {}
    for variable in tf.global_variables():
        if hasattr(variable, "keyed_rows"):
            with tf.name_scope("graph_opt/rows/"):
                block = variable.keyed_rows.block(0, ROWS)
            keys, rows = session.run(block)
            found[variable.op.name] = dict(zip(keys.tolist(), rows))
    return found


def averaged(gradient: Any, transport: InProcessTransport) -> Any:
    """What `hvd.allreduce` makes of a gradient."""
    if not isinstance(gradient, tf.IndexedSlices):
        name = transport.message_name("dense")
        return transport.all_reduce(gradient, AVERAGE, name)
    values, indices = _gather(transport)(gradient.values, gradient.indices)
    return tf.IndexedSlices(values / transport.size, indices, gradient.dense_shape)


def _gather(transport: InProcessTransport) -> Any:
    @function.Defun(tf.float32, tf.int64, func_name="HorovodGroupedAllgather")
    def gather(values: Any, indices: Any) -> Any:
        return (
            transport.all_gather(values, "values"),
            transport.all_gather(tf.expand_dims(indices, 1), "indices")[:, 0],
        )

    return gather
