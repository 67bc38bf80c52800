"""Batches of all ranks for the features of one."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt import distributed_embeddings as de
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sharding.transport_in_use import communicating_through

BATCHES = (2, 0, 3)  # of each rank
BAGS = [[1, 2], [], [5], [6, 7, 8], []]
WHERE = {0: ["ragged", "flat"], 1: ["matrix", "flat", "sparse"], 2: []}


def bounds(rank: int) -> slice:
    first = sum(BATCHES[:rank])
    return slice(first, first + BATCHES[rank])


def inputs(rank: int) -> Dict[str, Any]:
    mine = bounds(rank)
    places = [(row, 2 * n) for row, bag in enumerate(BAGS[mine]) for n in range(len(bag))]
    values = np.array([one for bag in BAGS[mine] for one in bag], np.int32)
    return {
        "flat": tf.constant(np.arange(5)[mine], tf.int32),
        "matrix": tf.constant(np.arange(15).reshape(5, 3)[mine], tf.int64),
        "ragged": tf.RaggedTensor.from_row_lengths(
            tf.constant(values, tf.int64), [len(bag) for bag in BAGS[mine]]
        ),
        # Bags with gaps between their ids.
        "sparse": tf.SparseTensorValue(
            np.array(places, np.int64).reshape(-1, 2), values, (BATCHES[rank], 6)
        ),
    }


def as_lists(found: Any) -> Any:
    if isinstance(found, tf.SparseTensor):
        return tf.RaggedTensor.from_sparse(found).to_list()
    return found.to_list() if isinstance(found, tf.RaggedTensor) else found.numpy().tolist()


def eagerly(transport: Transport) -> Any:
    with communicating_through(transport), context.eager_mode():
        found = de.dp_to_mp_input(inputs(transport.rank), WHERE)
        return {name: as_lists(one) for name, one in found.items()}, {
            name: one.dtype for name, one in found.items()
        }


def test_ranks_get_all_batches_of_their_features() -> None:
    expected: List[Dict[str, Any]] = [
        {"ragged": BAGS, "flat": list(range(5))},
        {
            "matrix": np.arange(15).reshape(5, 3).tolist(),
            "flat": list(range(5)),
            "sparse": BAGS,
        },
        {},
    ]
    results = run_ranks(3, eagerly)
    assert [found for found, _ in results] == expected
    assert results[1][1] == {"matrix": tf.int64, "flat": tf.int32, "sparse": tf.int32}


def test_lists_in_sessions_under_the_name_of_distributed_embeddings() -> None:
    where = {0: [2, 0], 1: [1], 2: [0]}

    def work(transport: Transport) -> Any:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            given = [tf.placeholder(tf.int64, [None, 2]) for _ in range(3)]
            found = de._dp_to_mp_input(given, where)
            assert [one.shape.as_list() for one in found] == [[None, 2]] * len(
                where[transport.rank]
            )
            rows = np.full([BATCHES[transport.rank], 2], transport.rank)
            return session.run(found, {one: rows + 10 * n for n, one in enumerate(given)})

    results = run_ranks(3, work)
    rows = np.repeat([0, 2], [4, 6]).reshape(-1, 2)
    for rank, features in where.items():
        for found, feature in zip(results[rank], features):
            np.testing.assert_array_equal(found, rows + 10 * feature)


def test_wrong_inputs_are_errors_that_name_them() -> None:
    with communicating_through(OneRank()):
        with pytest.raises(ValueError, match="lacks rank 0"):
            de.dp_to_mp_input([tf.constant([1])], {1: [0]})
        with pytest.raises(KeyError, match="no input 'absent'"):
            de.dp_to_mp_input({"a": tf.constant([1])}, {0: ["absent"]})

    def work(transport: Transport) -> None:
        where = {0: ["a"], 1: []}
        with communicating_through(transport), context.eager_mode():
            with pytest.raises(TypeError, match="'a' has dtype float32"):
                de.dp_to_mp_input({"a": tf.constant([1.0])}, where)
            with pytest.raises(ValueError, match="'a' has shape"):
                de.dp_to_mp_input({"a": tf.constant([[[1]]])}, where)
            uneven = {"a": tf.constant([1, 2]), "b": tf.constant([1, 2, 3, 4])}
            with pytest.raises(ValueError, match="'a' and 'b' of one rank have batches of 2 and 4"):
                de.dp_to_mp_input(uneven, {0: ["a", "b"], 1: ["a"]})

    run_ranks(2, work)


def test_dense_bags_of_different_sizes_are_an_error() -> None:
    def work(transport: Transport) -> str:
        with communicating_through(transport), context.eager_mode():
            given = {"a": tf.ones([2, 2 + transport.rank], tf.int64)}
            try:
                de.dp_to_mp_input(given, {0: ["a"], 1: []})
            except tf.errors.InvalidArgumentError as error:
                return str(error)
            return ""

    assert "different numbers of ids a bag of input 'a'" in run_ranks(2, work)[0]


def test_batches_that_only_the_step_knows_must_be_equal() -> None:
    def work(transport: Transport) -> str:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            given = [tf.placeholder(tf.int64, [None]) for _ in range(2)]
            found = de.dp_to_mp_input(given, {0: [0, 1], 1: [0]})
            try:
                session.run(found, {given[0]: [1, 2], given[1]: [1, 2, 3, 4]})
            except tf.errors.InvalidArgumentError as error:
                return str(error)
            return ""

    assert all("Shapes of all inputs must match" in one for one in run_ranks(2, work))
