"""graph_opt's lookups, for `group_lookup`.

Forward is `graph_opt.group_embedding_lookup_sparse`. Training is a model of stock TensorFlow that
went through `graph_opt.optimize_graph` with `do_group_embedding`.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.group_lookup_batches import Batches, plain_lookup, runs_of, tables_of
from tools.bench.group_lookup_cases import COMBINER, FORWARD, TRAIN, Size
from tools.bench.group_lookup_server import Prepared, Run
from tools.bench.training.sessions import FUSED, session_config

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
        for of_pass, (label, use_resource) in itertools.product((FORWARD, TRAIN), _KINDS):
            name = "{} {}".format(label, of_pass)
            try:
                batches, session, run = stack.enter_context(_opened(size, use_resource, of_pass))
            except NotFusedError as error:
                absent[name] = str(error)
                continue
            loads.append((batches, session))
            runs[name] = run

        def load(ids: Any) -> None:
            for batches, session in loads:
                batches.load(session, ids)

        yield Prepared(load, runs, absent, graph_opt.instruction_set(size.dimension))


@contextlib.contextmanager
def _opened(
    size: Size, use_resource: bool, of_pass: str
) -> Iterator[Tuple[Batches, tf.Session, Run]]:
    with tf.Graph().as_default() as graph:
        batches = Batches(size)
        tables = tables_of(size, use_resource, "table")
        if of_pass == FORWARD:
            op, number = batches.forward(_group, tables), size.replicas
        else:
            op, number = batches.train(plain_lookup, tables), 1
        initializer = tf.global_variables_initializer()
        if of_pass == TRAIN:
            graph_opt.optimize_graph(graph, session_config(FUSED))
            kinds = {node.type for node in graph.get_operations()}
            if not any(kind.endswith("GroupEmbeddingApply") for kind in kinds):
                raise NotFusedError("the update was not fused: see the report of optimize_graph")
        with tf.Session() as session:
            session.run(initializer)
            yield batches, session, runs_of(session, batches, {of_pass: op}, number)[of_pass]


def _group(tables: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> List[tf.Tensor]:
    return list(graph_opt.group_embedding_lookup_sparse(list(tables), list(ids), COMBINER))
