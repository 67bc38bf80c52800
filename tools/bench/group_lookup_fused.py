"""graph_opt's lookups, for `group_lookup`.

Forward is `graph_opt.group_embedding_lookup_sparse`. Training is a model of stock TensorFlow that
went through `graph_opt.optimize_graph` with `do_group_embedding`.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.group_lookup_batches import Batches, plain_lookup, runs_of, tables_of
from tools.bench.group_lookup_cases import COMBINER, FORWARD, TRAIN, Size
from tools.bench.group_lookup_server import Prepared, Run

_KINDS = (("graph_opt", False), ("graph_opt_resource", True))  # label, resource variables


class NotFusedError(Exception):
    """The pass left the update of a table as it was."""


@contextlib.contextmanager
def prepared(size: Size) -> Iterator[Prepared]:
    """Ref and resource variables."""
    runs: Dict[str, Run] = {}
    absent: Dict[str, str] = {}
    loads: List[Tuple[Batches, tf.Session]] = []
    with contextlib.ExitStack() as stack:
        for label, use_resource in _KINDS:
            batches, session, found = stack.enter_context(_forward(size, label, use_resource))
            loads.append((batches, session))
            runs.update(found)
        for label, use_resource in _KINDS:
            try:
                batches, session, found = stack.enter_context(_train(size, label, use_resource))
            except NotFusedError as error:
                absent["{} {}".format(label, TRAIN)] = str(error)
                continue
            loads.append((batches, session))
            runs.update(found)

        def load(ids: Any) -> None:
            for batches, session in loads:
                batches.load(session, ids)

        yield Prepared(load, runs, absent, graph_opt.instruction_set(size.dimension))


@contextlib.contextmanager
def _forward(
    size: Size, label: str, use_resource: bool
) -> Iterator[Tuple[Batches, tf.Session, Dict[str, Run]]]:
    with tf.Graph().as_default():
        batches = Batches(size)
        tables = tables_of(size, use_resource, "table")
        op = batches.forward(_group, tables)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            ops = {"{} {}".format(label, FORWARD): op}
            yield batches, session, runs_of(session, batches, ops, size.replicas)


@contextlib.contextmanager
def _train(
    size: Size, label: str, use_resource: bool
) -> Iterator[Tuple[Batches, tf.Session, Dict[str, Run]]]:
    with tf.Graph().as_default() as graph:
        batches = Batches(size)
        tables = tables_of(size, use_resource, "table")
        op = batches.train(plain_lookup, tables)
        initializer = tf.global_variables_initializer()
        graph_opt.optimize_graph(graph, _config())
        if not any(node.type.endswith("GroupEmbeddingApply") for node in graph.get_operations()):
            raise NotFusedError("the update was not fused: see the report of optimize_graph")
        with tf.Session() as session:
            session.run(initializer)
            yield batches, session, runs_of(session, batches, {"{} {}".format(label, TRAIN): op}, 1)


def _config() -> Any:
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.do_group_embedding = True
    return config


def _group(tables: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> List[tf.Tensor]:
    return list(graph_opt.group_embedding_lookup_sparse(list(tables), list(ids), COMBINER))
