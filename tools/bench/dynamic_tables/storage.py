"""What a dynamic table needs beside its rows, and what rows in a file cost, in this process."""

from __future__ import annotations

import functools
import tempfile
from typing import Any, Dict, List

import numpy as np
import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.dynamic_tables.dynamic import dynamic_table, filling
from tools.bench.group_lookup_cases import LEARNING_RATE, ZIPF, Size, ids_of
from tools.bench.turns import in_turns, ratios, seconds_per_call

_ROUNDS = 5
_SECONDS = 0.5
_TIMES_MEMORY = 4
_WITH_ACCUMULATOR = 2
_DRAM_SSDHASH = 12  # of DeepRec's StorageType


def bytes_per_key(size: Size) -> float:
    """Bytes for each key in a table of so many, without rows and slots."""
    with tf.Graph().as_default():
        table = dynamic_table("table", size)
        fill = filling([table])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            fill(session, size.rows)
            metrics = graph_opt.table_metrics(session)[table.op.name]
    return (metrics["index_bytes"] + metrics["metadata_bytes"]) / metrics["keys"]


def ratio_to_memory(size: Size) -> List[float]:
    """Training steps a second of a table of four times its memory budget, over one in memory.

    Both are filled with all keys in an order that has nothing to do with how often they come.
    """
    with tf.Graph().as_default(), tempfile.TemporaryDirectory() as folder:
        budget = size.rows * size.row_bytes * _WITH_ACCUMULATOR // _TIMES_MEMORY
        storage = graph_opt.StorageOption(_DRAM_SSDHASH, folder, [budget, 1 << 40])
        option = graph_opt.EmbeddingVariableOption(storage_option=storage)
        tables = {
            "memory": dynamic_table("memory", size),
            "tiers": dynamic_table("tiers", size, ev_option=option),
        }
        keys = tf.placeholder(tf.int64, [None])
        steps = {name: _training(table, keys) for name, table in tables.items()}
        random = np.random.RandomState(5)
        names = random.permutation(size.rows)
        batches = names[ids_of(size, ZIPF)[:, 0]]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            filling_keys = random.permutation(names)
            for first in range(0, size.rows, size.ids):
                some = filling_keys[first : first + size.ids]
                session.run(list(steps.values()), {keys: some})
            contestants = {
                name: functools.partial(
                    seconds_per_call, _step(session, step, keys, batches), _SECONDS, len(batches)
                )
                for name, step in steps.items()
            }
            seconds = in_turns(contestants, _ROUNDS)
    return ratios(seconds["memory"], seconds["tiers"])


def _training(table: Any, keys: tf.Tensor) -> tf.Operation:
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, keys)))
    return tf.train.AdagradOptimizer(LEARNING_RATE).minimize(loss)


def _step(session: tf.Session, step: tf.Operation, keys: tf.Tensor, batches: Any) -> Any:
    call = session.make_callable(step, feed_list=[keys])
    state: Dict[str, int] = {"next": 0}

    def one() -> None:
        call(batches[state["next"]])
        state["next"] = (state["next"] + 1) % len(batches)

    return one
