"""Ranks with different numbers of batches end in the same step, in sessions and eagerly."""

from __future__ import annotations

from itertools import product
from typing import Any, List, Tuple

import numpy as np
import pytest
from tensorflow.python.eager import context

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sok.communication import communicating_through
from tests.quick_cases import slow_but

BATCHES = (5, 2, 0)  # of each rank
ROWS = 4


def batches(rank: int) -> Any:
    """Rank r has BATCHES[r] batches of r + 1 bags, and one without rows among them."""
    some = tf.data.Dataset.from_tensor_slices(np.zeros([BATCHES[rank] * (rank + 1), 2], np.int64))
    none = tf.data.Dataset.from_tensors(np.zeros([0, 2], np.int64))
    return none.concatenate(some.batch(rank + 1))


def look_up(table: Any, ids: Any) -> Any:
    bags = tf.RaggedTensor.from_tensor(ids)
    return tf.reduce_sum(sok.lookup_sparse([table], [bags], combiners=["sum"])[0])


def counted(table: Any, ids: Any) -> Any:
    """A step: adds one to row 0 for each bag of any rank; this rank's number of bags."""
    loss = -0.5 * look_up(table, ids)
    gradient = tf.gradients(loss, table)[0]
    update = tf.train.GradientDescentOptimizer(1.0).apply_gradients([(gradient, table)])
    with tf.control_dependencies([update]):
        return tf.shape(ids)[0]


def steps_and_bags(policy: str) -> Tuple[int, List[int]]:
    """How many steps there are, and how many bags each rank uses."""
    steps = min(BATCHES) if policy == "drop" else max(BATCHES)
    return steps, [(rank + 1) * min(steps, BATCHES[rank]) for rank in range(len(BATCHES))]


def make_table(kind: str) -> Any:
    if kind == "divided":
        return sok.Variable(np.ones([ROWS, 1], np.float32), name="table")
    return sok.All2AllDenseEmbedding(ROWS, 1, 1, 1, embedding_initializer="ones").embedding_variable


def is_async(transport: InProcessTransport) -> Any:
    del transport
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_async_embedding = True
    options.async_embedding_options.threads_num = 2
    options.async_embedding_options.capacity = 2
    options.async_embedding_options.infer_io_stage = True
    return config


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        pytest.param(lambda _: None, "divided", marks=pytest.mark.slow),
        (is_async, "divided"),
        (lambda _: None, "by_key"),
    ],
    ids=["plain", "async", "by_key"],
)
@pytest.mark.parametrize("policy", slow_but(["drop", "empty"], "drop"))
def test_monitored_sessions_end_in_the_same_step(policy: str, config: Any, kind: str) -> None:
    def work(transport: InProcessTransport) -> Any:
        with communicating_through(transport), tf.Graph().as_default():
            table = make_table(kind)
            dataset = sok.end_together(batches(transport.rank), policy)
            ids = tf.data.make_one_shot_iterator(dataset).get_next()
            bags = counted(table, ids)
            tf.train.get_or_create_global_step()
            seen = []
            config_of_rank = config(transport)
            with graph_opt.train.MonitoredTrainingSession(config=config_of_rank) as session:
                while not session.should_stop():
                    seen.append(session.run(bags))
            assert transport.store is not None and transport.store.get("failure") is None
            return seen

    number_of_steps, bags = steps_and_bags(policy)
    results = run_ranks(len(BATCHES), work, 60)
    assert [len(seen) for seen in results] == [number_of_steps] * len(BATCHES)
    assert [sum(seen) for seen in results] == bags


@pytest.mark.parametrize(
    "traced, kind, policy",
    slow_but(
        product([False, True], ["divided", "by_key"], ["drop", "empty"]),
        *((False, "divided", "empty"), (True, "by_key", "empty")),
    ),
)
def test_eager_loops_end_in_the_same_step(policy: str, traced: bool, kind: str) -> None:
    def work(transport: InProcessTransport) -> Any:
        with communicating_through(transport), context.eager_mode():
            table = make_table(kind)

            def step(ids: Any) -> Any:
                return look_up(table, ids)

            if traced:
                shape = tf.TensorSpec([None, 2], tf.int64)
                step = tf.function(step, input_signature=[shape])
            sums = []
            with pytest.raises(tf.errors.OutOfRangeError):
                for ids in sok.end_together(batches(transport.rank), policy):
                    sums.append(float(step(ids)))
            return sums

    number_of_steps, bags = steps_and_bags(policy)
    results = run_ranks(len(BATCHES), work, 60)
    assert [len(sums) for sums in results] == [number_of_steps] * len(BATCHES)
    assert [sum(sums) for sums in results] == [2.0 * count for count in bags]


def test_elements_of_all_kinds_have_empty_forms() -> None:
    def work(transport: InProcessTransport) -> Any:
        with communicating_through(transport), tf.Graph().as_default():
            dense = tf.data.Dataset.from_tensors(
                {
                    "dense": np.ones([2, 3], np.float32),
                    "ragged": tf.ragged.constant([[1, 2], [3]]),
                    "sparse": tf.SparseTensor([[0, 1]], ["a"], [2, 5]),
                }
            )
            dataset = sok.end_together(dense, "empty")
            element = tf.data.make_one_shot_iterator(dataset).get_next()
            with tf.Session() as session:
                return [session.run(element) for _ in range(3)]

    for elements in run_ranks(2, work, 60):
        assert elements[0]["dense"].shape == (2, 3)
        for empty in elements[1:]:
            assert empty["dense"].shape == (0, 3)
            assert empty["ragged"].to_list() == []
            assert list(empty["sparse"].dense_shape) == [0, 5]


def test_faults_of_the_caller_are_named() -> None:
    scalars = tf.data.Dataset.range(3)
    transport = run_ranks(2, lambda one: one, 60)[0]
    with communicating_through(transport):
        with pytest.raises(ValueError, match="the policy is 'pad'; choose one of drop, empty"):
            sok.end_together(scalars, "pad")
        with pytest.raises(ValueError, match=r"is a scalar \(TensorSpec.*batch the dataset first"):
            sok.end_together(scalars, "empty")
