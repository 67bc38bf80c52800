"""Dynamic tables, filled with all keys that are looked up, in fused lookups."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.dynamic_tables.passes import (
    INSERT,
    MOST_ROWS_WITH_ADAM,
    labelled_runs,
    runs_in_session,
    trained,
)
from tools.bench.group_lookup_batches import Batches
from tools.bench.group_lookup_cases import FORWARD, Size
from tools.bench.group_lookup_server import Prepared, Run

LABEL = "dynamic"
_EACH_NEW = 100  # one key in so many
_FIRST_NEW_KEY = 1 << 40
_FILLED_AT_ONCE = 1 << 20


@contextlib.contextmanager
def prepared(size: Size) -> Iterator[Prepared]:
    """All passes. Keys are the ids: hashing them first would change nothing but their names."""
    with tf.Graph().as_default():
        batches = Batches(size)
        names = ["adagrad", "adam"] if size.rows <= MOST_ROWS_WITH_ADAM else ["adagrad"]
        tables = [dynamic_table(name, size) for name in names]
        ids = batches.sparse_ids()
        ops = trained(batches, tables, ids)
        filled = filling(tables)
        with runs_in_session(lambda one: filled(one, size.rows)) as session:
            runs = labelled_runs(session, batches, LABEL, ops)
            lookup = session.make_callable(ops[FORWARD], [batches.first, ids[0].values])
            name = "{} {}".format(LABEL, INSERT)

            def load(given: np.ndarray) -> None:
                batches.load(session, given)
                runs[name] = Run(_Inserting(lookup, given[:, 0].copy()), 1)

            runs[name] = Run(_Inserting(lookup, np.zeros([size.batches, size.ids], np.int64)), 1)
            yield Prepared(load, runs, {}, graph_opt.instruction_set(size.dimension))


def dynamic_table(name: str, size: Size, **options: Any) -> Any:
    """A table as scripts make it, whose rows start as those of a matrix of 4,096."""
    return graph_opt.get_embedding_variable(
        name, size.dimension, initializer=tf.random_uniform_initializer(-0.1, 0.1), **options
    )


def filling(tables: Sequence[Any]) -> Any:
    """A function (session, rows) that gives keys 0, 1, ... rows."""
    keys = tf.placeholder(tf.int64, [None])
    looked_up = tf.group(*(tf.nn.embedding_lookup(table, keys) for table in tables))

    def fill(session: tf.Session, rows: int) -> None:
        for first in range(0, rows, _FILLED_AT_ONCE):
            session.run(looked_up, {keys: np.arange(first, min(rows, first + _FILLED_AT_ONCE))})

    return fill


class _Inserting:
    """Calls with batches in which one key in a hundred was never seen."""

    def __init__(self, call: Callable[[int, np.ndarray], object], batches: np.ndarray) -> None:
        self._call = call
        self._batches = batches
        self._next_key = _FIRST_NEW_KEY

    def __call__(self, first: int) -> None:
        keys = self._batches[first]
        end = self._next_key + len(keys[::_EACH_NEW])
        keys[::_EACH_NEW] = np.arange(self._next_key, end)
        self._next_key = end
        self._call(first, keys)
