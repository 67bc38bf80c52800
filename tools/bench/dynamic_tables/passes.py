"""What is timed of a table, and how a model that is timed is made."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, Sequence

import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.group_lookup_batches import Batches, plain_lookup, runs_of
from tools.bench.group_lookup_cases import FORWARD, TRAIN
from tools.bench.group_lookup_server import Run
from tools.bench.training.sessions import LAZY, session_config

INSERT = "insert"
ADAM = "adam"
PASSES = (FORWARD, INSERT, TRAIN, ADAM)
# With Adam's slots, these many rows in two tables fit into 24 GiB no more.
MOST_ROWS_WITH_ADAM = 20000000


@contextlib.contextmanager
def runs_in_session(fill: Callable[[tf.Session], None]) -> Iterator[tf.Session]:
    """A session on the default graph, optimized.

    Args:
      fill: Called with the session after all variables are initialized.
    """
    initializer = tf.global_variables_initializer()
    graph = tf.get_default_graph()
    graph_opt.optimize_graph(graph, session_config(LAZY))
    with tf.Session() as session:
        session.run(initializer)
        fill(session)
        yield session


def labelled_runs(
    session: tf.Session, batches: Batches, label: str, ops: Dict[str, tf.Operation]
) -> Dict[str, Run]:
    """The runs of `ops`, as `Prepared` has them."""
    named = {"{} {}".format(label, of_pass): op for of_pass, op in ops.items()}
    return runs_of(session, batches, named, 1)


def trained(
    batches: Batches, tables: Sequence[Any], ids: Sequence[tf.SparseTensor]
) -> Dict[str, tf.Operation]:
    """The passes that every table of ours has: the first table's, and with Adam the second's.

    Forward is the lookup of the training step, since one of its own would not be fused: it would
    not be used in training. A step needs what it looks up, as that of a model does; otherwise
    TensorFlow would leave the lookup out.
    """
    pooled = plain_lookup(tables[:1], ids)
    forward = batches.read(pooled)
    ops = {FORWARD: forward, TRAIN: tf.group(forward, batches.update(pooled, tables[:1]))}
    if len(tables) > 1:
        pooled = plain_lookup(tables[1:], ids)
        update = batches.update(pooled, tables[1:], tf.train.AdamOptimizer())
        ops[ADAM] = tf.group(batches.read(pooled), update)
    return ops
