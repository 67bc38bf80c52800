"""Stock TensorFlow's lookups, for `group_lookup`."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Sequence

import tensorflow.compat.v1 as tf

from tools.bench import instruction_sets
from tools.bench.group_lookup_batches import Batches, plain_lookup, runs_of, tables_of
from tools.bench.group_lookup_cases import CALL, COMBINER, FORWARD, TRAIN, Size
from tools.bench.group_lookup_server import Prepared, Run


@contextlib.contextmanager
def prepared(size: Size) -> Iterator[Prepared]:
    """Ref and resource variables; the plain lookup, and the safe one (forward only).

    `CALL` is what remains of a call without a lookup: the session, and handing the ids over.
    """
    with tf.Graph().as_default():
        batches = Batches(size)
        forward: Dict[str, tf.Operation] = {}
        train: Dict[str, tf.Operation] = {}
        for kind, use_resource in (("ref", False), ("resource", True)):
            tables = tables_of(size, use_resource, kind)
            forward["tf_{} {}".format(kind, FORWARD)] = batches.forward(plain_lookup, tables)
            forward["tf_safe_{} {}".format(kind, FORWARD)] = batches.forward(_safe, tables)
            train["tf_{} {}".format(kind, TRAIN)] = batches.train(plain_lookup, tables)
        forward["{} {}".format(CALL, FORWARD)] = batches.forward(_nothing, [])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            runs: Dict[str, Run] = runs_of(session, batches, forward, size.replicas)
            runs.update(runs_of(session, batches, train, 1))
            compiled_for = instruction_sets.of_tensorflow(
                instruction_sets.own_log(), instruction_sets.cpu_flags()
            )
            yield Prepared(lambda ids: batches.load(session, ids), runs, {}, compiled_for)


def _safe(tables: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> List[tf.Tensor]:
    return [
        tf.nn.safe_embedding_lookup_sparse(table, one, combiner=COMBINER)
        for table, one in zip(tables, ids)
    ]


def _nothing(_: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> List[tf.Tensor]:
    return [one.values for one in ids]
