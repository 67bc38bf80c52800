"""Graphs of ranks end when scripts drop them: evaluations of an Estimator have one each."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any, List

import pytest

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sok.communication import communicating_through
from tests.quick_cases import slow_but
from tests.sharding.guarded_model import build
from tests.sharding.prefetched_ranks import prefetching, train_rank


def trained(transport: InProcessTransport) -> weakref.ref[Any]:
    with communicating_through(transport), tf.Graph().as_default() as graph:
        model = build(tf.constant([[0, 1]]))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run([model.train, model.total])
            session.run(model.total)
        return weakref.ref(graph)


def prefetched(transport: InProcessTransport) -> weakref.ref[Any]:
    return weakref.ref(train_rank(transport, 3, prefetching())["graph"])


def with_named_layer(transport: InProcessTransport) -> weakref.ref[Any]:
    with communicating_through(transport), tf.Graph().as_default() as graph:
        layer = sok.get_embedding(
            "items", sok.All2AllDenseEmbedding, **dict(SIZES, use_hashtable=False)
        )
        assert sok.get_embedding("items") is layer
        layer(tf.constant([[[1]], [[2]]], tf.int64))
        return weakref.ref(graph)


SIZES = {
    "max_vocabulary_size_per_gpu": 8,
    "embedding_vec_size": 2,
    "slot_num": 1,
    "nnz_per_slot": 1,
}


@pytest.mark.parametrize(
    "use", slow_but([trained, prefetched, with_named_layer], prefetched, with_named_layer)
)
def test_a_graph_that_is_dropped_is_gone(use: Any) -> None:
    group: List[InProcessTransport] = []  # a process has its group until it ends
    lock = threading.Lock()

    def work(transport: InProcessTransport) -> weakref.ref[Any]:
        with lock:
            group.append(transport)
        return use(transport)

    graphs = run_ranks(2, work, 60)
    for _ in range(2):  # what a finalizer has held goes in the next one
        gc.collect()
    assert [graph() for graph in graphs] == [None, None]
