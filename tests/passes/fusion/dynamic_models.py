"""Models with dynamic tables, and how to train them."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

from graph_opt.compat import tf
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.partitioned import PartitionedDynamicTable
from graph_opt.dynamic.variable import DynamicTableSlot, DynamicTableVariable, PartOf
from graph_opt.session.live import optimize_graph
from graph_opt.session.session import Session
from graph_opt.sharding.initializers import Drawn
from tests.optimizer_models import STOCK
from tests.passes import fused_models
from tests.plain_sessions import plain_session

Inputs = Dict[str, Any]
Lookups = Callable[[Inputs], List[Any]]
STEPS = 5


class Trained(NamedTuple):
    """The results of a training run: losses, rows by table or slot and key, and the report."""

    losses: List[float]
    rows: Dict[str, Dict[int, np.ndarray]]
    frequencies: Dict[str, Dict[int, int]]
    versions: Dict[str, Dict[int, int]]
    values: Dict[str, np.ndarray]
    report: Any


def options_of(name: str, width: int) -> DynamicTableOptions:
    """Rows begin with numbers drawn for their keys."""
    rows = Drawn("uniform", -1.0, 1.0, len(name) + width)
    return DynamicTableOptions(rows, record_frequency=True)


def table(name: str, width: int = 4, **options: Any) -> DynamicTableVariable:
    """A table."""
    return DynamicTableVariable(name, width, options_of(name, width)._replace(**options))


def in_parts(name: str, parts: int, rule: str, width: int = 4) -> PartitionedDynamicTable:
    """The same in parts."""
    return PartitionedDynamicTable(
        [
            DynamicTableVariable(
                "{}/part_{}".format(name, part),
                width,
                options_of(name, width),
                part=PartOf(name, part, parts, rule),
            )
            for part in range(parts)
        ]
    )


def tables() -> List[DynamicTableVariable]:
    """The dynamic tables of the default graph."""
    return [v for v in tf.global_variables() if isinstance(v, DynamicTableVariable)]


def minimize(loss: tf.Tensor, optimizer: str = "adagrad", clip: bool = False) -> tf.Operation:
    """A train op."""
    made = STOCK[optimizer]()
    pairs = made.compute_gradients(loss)
    if clip:
        gradients, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.5)
        pairs = list(zip(gradients, [variable for _, variable in pairs]))
    return made.apply_gradients(pairs, tf.train.get_or_create_global_step())


def train(
    lookups: Lookups,
    config: Optional[Any] = None,
    optimizer: str = "adagrad",
    clip: bool = False,
    steps: int = STEPS,
) -> Trained:
    """Trains a model on the same batches with and without a rewrite."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        inputs = fused_models.batches()
        loss = fused_models.loss_of(lookups(inputs), inputs)
        step = minimize(loss, optimizer, clip)
        kinds = (DynamicTableVariable, DynamicTableSlot)
        everything = tf.global_variables()
        exports = {v.op.name: v.export() for v in everything if isinstance(v, kinds)}
        values = {v.op.name: v for v in everything if not isinstance(v, kinds)}
        initialize = tf.global_variables_initializer()
        report = None if config is None else optimize_graph(graph, config)
        with plain_session() if config is None else Session(config=config) as session:
            session.run(initialize)
            losses = [float(session.run([loss, step])[0]) for _ in range(steps)]
            rows, rest = session.run([exports, values])
    return exported(losses, rows, rest, report)


def exported(
    losses: List[float], rows: Dict[str, Any], values: Dict[str, np.ndarray], report: Any
) -> Trained:
    """What `export` gave of each table and slot, by key."""
    return Trained(
        losses,
        {name: dict(zip(one.keys.tolist(), one.values)) for name, one in rows.items()},
        {name: dict(zip(one.keys.tolist(), one.freqs.tolist())) for name, one in rows.items()},
        {name: dict(zip(one.keys.tolist(), one.versions.tolist())) for name, one in rows.items()},
        values,
        report,
    )


def assert_equal(one: Trained, other: Trained, tolerance: float = 1e-5) -> None:
    """The same losses, keys, rows, slots and numbers of occurrences."""
    np.testing.assert_allclose(one.losses, other.losses, rtol=tolerance)
    assert one.frequencies == other.frequencies
    assert one.versions == other.versions
    for name, rows in one.rows.items():
        assert sorted(rows) == sorted(other.rows[name]), name
        for key, row in rows.items():
            np.testing.assert_allclose(row, other.rows[name][key], atol=tolerance, err_msg=name)
    for name, value in one.values.items():
        np.testing.assert_allclose(value, other.values[name], atol=tolerance, err_msg=name)


def every_api(inputs: Inputs, static: bool = True) -> List[Any]:
    """Lookups of every kind, of whole tables and of tables in parts, beside a static one."""
    more = tf.sparse.from_dense(inputs["more"])
    weights = fused_models.weights_of(more, inputs["weight"])
    plain = tf.nn.embedding_lookup_sparse
    users, items = table("users"), table("items", 8)
    return [
        # No bag is without ids: for those, TensorFlow makes a row of key 0, which nothing reads.
        tf.nn.safe_embedding_lookup_sparse(table("safe"), more, combiner="sqrtn"),
        tf.nn.embedding_lookup(users, inputs["one"] - 5),
        plain(users, more, None, combiner="mean"),
        plain(table("weighted", 3), more, weights, combiner="sum"),
        tf.nn.embedding_lookup(items, inputs["one"]),
        tf.reduce_sum(tf.nn.embedding_lookup(in_parts("places", 3, "key"), inputs["ids"]), axis=1),
        plain(in_parts("shops", 2, "key1000"), more, None, combiner="mean"),
        *([plain(fused_models.table("static", 5, True), more, None)] if static else []),
    ]
