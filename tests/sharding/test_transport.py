"""Transports: what ranks can tell each other, and under which names."""

from __future__ import annotations

import pytest
from tensorflow.python.eager import context

from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import OneRank
from tests.sharding.transports import check_gradients, check_messages, check_reductions


def test_ranks_reduce_gather_and_broadcast() -> None:
    run_ranks(2, check_reductions, 60)


def test_messages_of_every_dtype_are_sent_as_written() -> None:
    run_ranks(2, check_messages, 60)


def test_gradients_travel_back_under_names_of_their_own() -> None:
    run_ranks(2, check_gradients, 60)


def test_one_rank_needs_no_messages() -> None:
    alone = OneRank()
    with context.eager_mode():
        mine = tf.constant([1, 2])
        assert alone.all_reduce(mine, "average", "m").numpy().tolist() == [1, 2]
        assert alone.all_gather(mine, "m").numpy().tolist() == [1, 2]
        assert alone.broadcast(mine, 0, "m").numpy().tolist() == [1, 2]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="'mean'; choose one of sum, average, max, min"):
        OneRank().all_reduce([1.0], "mean", "m")
    with pytest.raises(ValueError, match="no rank 1 among 1"):
        OneRank().broadcast([1.0], 1, "m")


def test_names_are_unique_in_a_graph_and_the_functions_in_it() -> None:
    def name() -> str:
        return OneRank().message_name("m")

    names = []
    with tf.Graph().as_default() as graph:
        with tf.name_scope("tower"):
            names.append(name())

        @tf.function
        def nested() -> tf.Tensor:
            names.append(name())
            return tf.constant(0)

        nested()
        names.append(name())
    assert names == ["m", "m_1", "m_2"]

    with tf.Graph().as_default():
        tf.constant(0, name="m_ids")
        exported = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default():
        tf.import_graph_def(exported, name="imported")
        assert name() == "m_1"
    with graph.as_default():
        assert name() == "m_3"


def test_a_function_that_is_traced_again_keeps_its_names() -> None:
    names = []

    @tf.function
    def inner(value: tf.Tensor) -> tf.Tensor:
        names.append(OneRank().message_name("m"))
        return value

    @tf.function
    def outer(value: tf.Tensor) -> tf.Tensor:
        names.append(OneRank().message_name("m"))
        return inner(value)

    with context.eager_mode():
        outer(tf.constant(1))
        outer(tf.constant(1.0))
        names.append(OneRank().message_name("m"))
    assert names == ["m", "m_1", "m", "m_1", "m"]
