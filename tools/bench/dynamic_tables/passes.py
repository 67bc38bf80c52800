"""What is timed of a table, and how a model that is timed is made."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Sequence

import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.group_lookup_batches import Batches, runs_of
from tools.bench.group_lookup_cases import COMBINER, FORWARD, TRAIN
from tools.bench.group_lookup_server import Run
from tools.bench.training.sessions import LAZY, session_config

INSERT = "insert"
ADAM = "adam"
PASSES = (FORWARD, INSERT, TRAIN, ADAM)
# With Adam's slots, these many rows in two tables fit into 24 GiB no more.
MOST_ROWS_WITH_ADAM = 20000000


def pooled(tables: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> List[tf.Tensor]:
    """The lookup that scripts write."""
    return [
        tf.nn.embedding_lookup_sparse(table, one, None, combiner=COMBINER)
        for table, one in zip(tables, ids)
    ]


@contextlib.contextmanager
def runs_in_session(
    batches: Batches, label: str, ops: Dict[str, tf.Operation], fill: Any
) -> Iterator[tf.Session]:
    """A session on the default graph, optimized; `fill` is called with it.

    Args:
        batches: of the graph.
        label: of the implementation.
        ops: by pass, what is timed.
        fill: called with the session after all variables are initialized.
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
    runs: Dict[str, Run] = {}
    for of_pass, op in ops.items():
        replicas = batches.size.replicas if of_pass == FORWARD else 1
        name = "{} {}".format(label, of_pass)
        runs.update(runs_of(session, batches, {name: op}, replicas))
    return runs


def trained(batches: Batches, tables: Sequence[Any]) -> Dict[str, tf.Operation]:
    """The passes that every table of ours has: the first table's, and with Adam the second's."""
    ops = {
        FORWARD: batches.forward(pooled, tables[:1]),
        TRAIN: batches.train(pooled, tables[:1]),
    }
    if len(tables) > 1:
        ops[ADAM] = batches.train(pooled, tables[1:], tf.train.AdamOptimizer())
    return ops
