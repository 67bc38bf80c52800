"""Runs that feed and fetch some of a model: what works in TensorFlow works, with its values."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graph_opt
from graph_opt.compat import tf
from tests.example_share import example_share
from tests.optimizer_models import STOCK

ROWS, WIDTH = 11, 3
TOLERANCE = 2e-5
APIS = ("rows", "safe", "weighted")


class Column(NamedTuple):
    """A lookup of fed ids."""

    table: int
    api: str
    resource: bool


class Run(NamedTuple):
    """One run.

    Attributes:
      fetches: Numbers of columns: their rows, towers, gradients; see `_fetched`.
      feeds: Numbers of columns whose ids are fed.
      trains: Whether it also trains, for which all is fed.
      compiled: Whether it goes through `make_callable`.
      feeds_joined: Whether it feeds, too, what all rows are joined to, if they are.
    """

    fetches: List[Tuple[str, int]]
    feeds: List[int]
    trains: bool
    compiled: bool
    feeds_joined: bool = False


COLUMN = st.builds(
    Column, table=st.integers(0, 2), api=st.sampled_from(APIS), resource=st.booleans()
)
RUN = st.builds(
    Run,
    fetches=st.lists(
        st.tuples(st.sampled_from(["rows", "tower", "pair", "gradient"]), st.integers(0, 3)),
        min_size=1,
        max_size=3,
    ),
    feeds=st.lists(st.integers(0, 3), max_size=4, unique=True),
    trains=st.booleans(),
    compiled=st.booleans(),
    feeds_joined=st.booleans(),
)


class Model(NamedTuple):
    """Tensors of a model, by column."""

    ids: List[Any]
    rows: List[Any]
    towers: List[Any]
    gradients: List[Any]
    train: Any
    joined: Any  # None: each tower reads its rows


def _looked_up(column: Column, ids: Any) -> Any:
    values = np.random.RandomState(column.table).normal(size=[ROWS, WIDTH]).astype(np.float32)
    name = "table_{}_{}".format(column.table, column.resource)
    table = tf.get_variable(name, initializer=values, use_resource=column.resource)
    if column.api == "rows":
        return tf.nn.embedding_lookup(table, ids[:, 0])
    sparse = tf.sparse.from_dense(ids)
    if column.api == "safe":
        return tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner="mean")
    amounts = tf.cast(sparse.values, tf.float32)
    weights = tf.SparseTensor(sparse.indices, amounts, sparse.dense_shape)
    return tf.nn.embedding_lookup_sparse(table, sparse, weights, combiner="sum")


def _build(columns: Sequence[Column], optimizer: str, is_joined: bool) -> Model:
    ids = [tf.placeholder(tf.int64, [None, 2], "ids_{}".format(n)) for n in range(len(columns))]
    with tf.variable_scope("tables", reuse=tf.AUTO_REUSE):
        rows = [_looked_up(*one) for one in zip(columns, ids)]
    weights = tf.get_variable("weights", initializer=np.eye(WIDTH, dtype=np.float32) + 0.1)
    joined = tf.concat(rows, 1) if is_joined else None
    read = tf.split(joined, len(rows), 1) if is_joined else rows
    towers = [tf.tanh(tf.matmul(each, weights)) for each in read]
    loss = tf.reduce_mean(tf.square(tf.add_n(towers) - 0.3))
    train = STOCK[optimizer]().minimize(loss)
    return Model(ids, rows, towers, list(tf.gradients(loss, rows)), train, joined)


def _fetched(model: Model, what: str, number: int) -> Any:
    place = number % len(model.ids)
    if what == "pair":
        return model.towers[place] * model.towers[place - 1]
    return {"rows": model.rows, "tower": model.towers, "gradient": model.gradients}[what][place]


def _outcome(session: Any, fetches: List[Any], fed: Dict[Any, Any], compiled: bool) -> Any:
    try:
        if compiled:
            return session.make_callable(fetches, list(fed))(*fed.values())
        return session.run(fetches, fed)
    except tf.errors.OpError as error:
        return type(error)


def _outcomes(
    columns: Sequence[Column], optimizer: str, runs: Sequence[Run], joined: bool, options: Any
) -> List[Any]:
    found = []
    with tf.Graph().as_default():
        model = _build(columns, optimizer, joined)
        fetches = [[_fetched(model, *one) for one in run.fetches] for run in runs]
        with graph_opt.Session(config=options) as session:
            session.run(tf.global_variables_initializer())
            everything = list(range(len(model.ids)))
            for number, (run, wanted) in enumerate(zip(runs, fetches)):
                chosen = everything if run.trains else run.feeds
                fed = {
                    model.ids[place]: np.random.RandomState(number + place).randint(1, ROWS, [3, 2])
                    for place in dict.fromkeys(each % len(everything) for each in chosen)
                }
                beside = {}
                if run.feeds_joined and joined:
                    beside[model.joined] = np.full([3, WIDTH * len(columns)], 0.1 * number)
                found.append(_outcome(session, wanted, {**fed, **beside}, run.compiled))
                if run.trains:
                    session.run(model.train, fed)
            found.append(session.run(tf.trainable_variables()))
    return found


def _config(deferred: bool) -> Any:
    made = graph_opt.ConfigProto()
    options = made.graph_options.optimizer_options
    options.do_group_embedding = True
    options.group_embedding_options.adam = "deferred" if deferred else "stock"
    return made


def _check(
    columns: List[Column], optimizer: str, runs: List[Run], deferred: bool, joined: bool
) -> None:
    ours = _outcomes(columns, optimizer, runs, joined, _config(deferred))
    stock = _outcomes(columns, optimizer, runs, joined, None)
    for told, got, expected in zip([*runs, "variables"], ours, stock):
        if isinstance(expected, type):
            assert got is expected, told
            continue
        assert not isinstance(got, type), (told, got)
        for one, other in zip(got, expected):
            np.testing.assert_allclose(one, other, TOLERANCE, TOLERANCE, err_msg=str(told))


ANY_RUNS = given(
    columns=st.lists(COLUMN, min_size=2, max_size=4),
    optimizer=st.sampled_from(["sgd", "adagrad", "adam"]),
    runs=st.lists(RUN, min_size=1, max_size=6),
    deferred=st.booleans(),
    joined=st.booleans(),
)


@example_share(0.03)
@ANY_RUNS
def test_random_feeds(
    columns: List[Column], optimizer: str, runs: List[Run], deferred: bool, joined: bool
) -> None:
    _check(columns, optimizer, runs, deferred, joined)


@pytest.mark.slow
@pytest.mark.fuzz("feeds")
@ANY_RUNS
def test_many_random_feeds(
    columns: List[Column], optimizer: str, runs: List[Run], deferred: bool, joined: bool
) -> None:
    _check(columns, optimizer, runs, deferred, joined)
