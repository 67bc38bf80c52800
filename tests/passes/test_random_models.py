"""Random models: the split graph gives the stock graph's losses, step by step, to the end."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graph_opt
from graph_opt.compat import tf
from tests.example_share import example_share
from tests.passes import models

ODD_ROWS = 45  # The last batch has 5 rows.


class LookupChoice(NamedTuple):
    """One lookup of a random model."""

    api: str
    combiner: str
    weighted: bool
    table: int


class ModelChoice(NamedTuple):
    """A random model, and how to run it."""

    lookups: List[LookupChoice]
    resource: bool
    partitions: int
    staged: bool
    threads_num: int
    capacity: int
    dense: List[str]
    smart: bool


# What scripts make of numbers before the layers; some of it depends on a variable.
_DENSE: Dict[str, Callable[[Any], Any]] = {
    "parse": lambda dense: tf.strings.to_number(tf.strings.as_string(dense, precision=4)),
    "log": tf.log1p,
    "join": lambda dense: tf.concat([dense, tf.cast(dense > 0.5, tf.float32)], 1),
    "draw": lambda dense: dense + tf.random_uniform(tf.shape(dense), seed=3),
    "check": lambda dense: tf.debugging.check_numerics(dense, "not a number"),
    "weigh": lambda dense: dense * tf.get_variable("factor", initializer=1.5),
    "choose": lambda dense: tf.cond(tf.reduce_sum(dense) > 9, lambda: dense, lambda: -dense),
}
_LOOKUPS = st.builds(
    LookupChoice,
    api=st.sampled_from(["plain", "sparse", "safe"]),
    combiner=st.sampled_from(["sum", "mean", "sqrtn"]),
    weighted=st.booleans(),
    table=st.integers(0, 1),
)
_MODELS = st.builds(
    ModelChoice,
    lookups=st.lists(_LOOKUPS, min_size=1, max_size=3),
    resource=st.booleans(),
    partitions=st.sampled_from([1, 2]),
    staged=st.booleans(),
    threads_num=st.sampled_from([1, 4]),
    capacity=st.integers(1, 3),
    dense=st.lists(st.sampled_from(sorted(_DENSE)), max_size=4),
    smart=st.booleans(),
)


def _pooled(choice: LookupChoice, tables: List[Any], inputs: Dict[str, Any]) -> Any:
    table = tables[choice.table]
    if choice.api == "plain":
        return tf.nn.embedding_lookup(table, inputs["other"])
    ids = tf.sparse.from_dense(inputs["ids"] + (1 if choice.api == "sparse" else 0))
    ids = tf.SparseTensor(ids.indices, ids.values % models.VOCABULARY, ids.dense_shape)
    weights = None
    if choice.weighted:
        values = tf.cast(ids.values, tf.float32) * 0.1 + 0.5
        weights = tf.SparseTensor(ids.indices, values, ids.dense_shape)
    lookup = (
        tf.nn.safe_embedding_lookup_sparse
        if choice.api == "safe"
        else tf.nn.embedding_lookup_sparse
    )
    return lookup(table, ids, weights, combiner=choice.combiner)


def _build(choice: ModelChoice) -> Any:
    inputs = models.features(rows=ODD_ROWS)
    if choice.staged:
        inputs = graph_opt.staged(inputs, capacity=2)
    tables = [models.table("table{}".format(i), choice.resource, choice.partitions) for i in (0, 1)]
    pooled = [_pooled(lookup, tables, inputs) for lookup in choice.lookups]
    pooled = [tf.reshape(rows, [-1, models.WIDTH]) for rows in pooled]
    for name in choice.dense:
        with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
            inputs["dense"] = _DENSE[name](inputs["dense"])
    return models.train(pooled, inputs, learning_rate=0.0)


def _losses(session: Any, fetches: Any) -> List[float]:
    losses = []
    session.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.OutOfRangeError):
        while True:
            losses.append(session.run(fetches)[0])
    return losses


def _run(choice: ModelChoice, config: Any) -> List[float]:
    with tf.Graph().as_default():
        tf.set_random_seed(11)
        loss, step = _build(choice)
        with graph_opt.Session(config=config) as session:
            losses = _losses(session, [loss, step])
        if config is not None:
            report = graph_opt.report(tf.get_default_graph())
            assert report is not None
            assert len(report.moved) == len(report.lookups) == len(choice.lookups)
    return losses


def _check_losses(choice: ModelChoice) -> None:
    stock = _run(choice, None)
    config = models.config(
        threads_num=choice.threads_num,
        capacity=choice.capacity,
        infer_io_stage=not choice.staged,
    )
    config.graph_options.optimizer_options.do_smart_stage = choice.smart
    assert _run(choice, config) == stock
    assert len(stock) == -(-ODD_ROWS // models.BATCH)


@example_share(0.05)
@given(_MODELS)
def test_losses_equal_stock_at_every_step(choice: ModelChoice) -> None:
    _check_losses(choice)


@pytest.mark.slow
@given(_MODELS)
def test_losses_of_many_models_equal_stock_at_every_step(choice: ModelChoice) -> None:
    _check_losses(choice)
