"""DeepRec's arguments of TensorFlow's lookups, and the tables that only they read."""

from __future__ import annotations

from typing import Any, Callable, Dict

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.embedding_variable.lookups import (
    embedding_lookup,
    embedding_lookup_sparse,
    safe_embedding_lookup_sparse,
)

KEYS = np.array([5, 6, 5, 7])
PLACES = np.array([[0, 0], [2, 0], [2, 2], [2, 3]])


def ids() -> tf.SparseTensor:
    return tf.SparseTensor(PLACES, tf.constant(KEYS), [3, 4])


def rows_of(table: Any, keys: Any) -> tf.Tensor:
    return tf.nn.embedding_lookup(table, tf.constant(keys, tf.int64))


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def test_rows_are_tiled_side_by_side() -> None:
    table = tf.get_variable("table", [10, 2])
    weights = tf.SparseTensor(PLACES, tf.constant([1.0, 2.0, 3.0, 4.0]), [3, 4])
    tiled, weighted, safe, rows = run(
        embedding_lookup_sparse(table, ids(), None, combiner="tile"),
        embedding_lookup_sparse(table, ids(), weights, combiner="tile"),
        safe_embedding_lookup_sparse(table, ids(), combiner="tile"),
        table,
    )
    expected = np.zeros([3, 4, 2], np.float32)
    expected[tuple(PLACES.T)] = rows[KEYS]
    np.testing.assert_array_equal(tiled, expected.reshape(3, 8))
    np.testing.assert_array_equal(safe, expected.reshape(3, 8))
    expected[tuple(PLACES.T)] *= np.array([[1.0], [2.0], [3.0], [4.0]])
    np.testing.assert_array_equal(weighted, expected.reshape(3, 8))


def test_ids_below_zero_are_keys_unless_they_are_pruned() -> None:
    table = graph_opt.get_embedding_variable("table", 2)
    negative = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], tf.constant([-3, -3, 4], tf.int64), [3, 2])
    pruned, kept, rows = run(
        safe_embedding_lookup_sparse(table, negative),
        safe_embedding_lookup_sparse(table, negative, prune=False),
        rows_of(table, [-3, 4]),
    )
    np.testing.assert_array_equal(pruned, [[0, 0], rows[1], [0, 0]])
    np.testing.assert_allclose(kept, [rows[0], rows.mean(axis=0), [0, 0]], rtol=1e-6)


@pytest.mark.parametrize("parts", [1, 2])
def test_new_rows_may_be_given(parts: int) -> None:
    partitioner = tf.fixed_size_partitioner(parts) if parts > 1 else None
    table = graph_opt.get_embedding_variable("table", 2, partitioner=partitioner)
    first = embedding_lookup(table, KEYS, ev_init_value=np.arange(8.0).reshape(4, 2))
    with tf.control_dependencies([first]):
        later = rows_of(table, [5, 6, 7])
    first, later = run(first, later)
    np.testing.assert_array_equal(later, [[0, 1], [2, 3], [6, 7]])
    np.testing.assert_array_equal(first, later[[0, 1, 0, 2]])


@pytest.mark.parametrize("parts", [1, 2])
def test_occurrences_may_be_given(parts: int) -> None:
    partitioner = tf.fixed_size_partitioner(parts) if parts > 1 else None
    option = graph_opt.EmbeddingVariableOption(
        filter_option=graph_opt.CounterFilter(3),
        init_option=graph_opt.InitializerOption(tf.ones_initializer),
    )
    table = graph_opt.get_embedding_variable("table", 1, ev_option=option, partitioner=partitioner)
    rows = embedding_lookup(table, np.array([1, 2, 3]), counts=[3, 2, 4])
    assert run(rows)[0].ravel().tolist() == [1, 0, 1]


@pytest.mark.parametrize("operation", ["add", "mul", "concat"])
def test_multi_hash_rows_are_made_of_two(operation: str) -> None:
    items = graph_opt.get_multihash_variable("items", [[5, 2], [5, 2]], operation=operation)
    assert [part.op.name for part in items] == ["items/multhash_Q", "items/multhash_R"]
    pooled, looked_up, quotients, remainders = run(
        safe_embedding_lookup_sparse(items, ids(), combiner="sum"),
        embedding_lookup(items, tf.constant([0, 7, 24])),
        *items.parts,
    )
    combines: Dict[str, Callable[..., Any]] = {
        "add": np.add,
        "mul": np.multiply,
        "concat": lambda one, other: np.concatenate([one, other], -1),
    }
    combine = combines[operation]
    np.testing.assert_allclose(looked_up, combine(quotients[[0, 1, 4]], remainders[[0, 2, 4]]))
    rows = combine(quotients[KEYS // 5], remainders[KEYS % 5])
    np.testing.assert_allclose(pooled, [rows[0], 0 * rows[0], rows[1:].sum(axis=0)], rtol=1e-5)


def test_a_fused_lookup_of_a_multi_hash_variable_is_that_of_its_parts() -> None:
    items = graph_opt.get_multihash_variable("items", [[5, 2], [5, 2]])
    fused = graph_opt.fused_safe_embedding_lookup_sparse(items, ids(), combiner="sqrtn")
    got, expected = run(fused, safe_embedding_lookup_sparse(items, ids(), combiner="sqrtn"))
    np.testing.assert_array_equal(got, expected)


def test_all_parts_of_a_multi_hash_variable_are_trained() -> None:
    items = graph_opt.get_multihash_variable("items", [[5, 2], [5, 2]])
    loss = tf.reduce_sum(safe_embedding_lookup_sparse(items, ids(), combiner="sum"))
    gradients = tf.gradients(loss, items.parts)
    quotients, remainders = run(*[tf.convert_to_tensor(gradient) for gradient in gradients])
    np.testing.assert_array_equal(quotients[:, 0], [0, 4, 0, 0, 0])
    np.testing.assert_array_equal(remainders[:, 0], [2, 1, 1, 0, 0])


def test_rows_of_dynamic_dimension_end_in_zeros() -> None:
    items = graph_opt.get_dynamic_dimension_embedding_variable(
        "items", 2.0, 3, initializer=tf.ones_initializer
    )
    rows, pooled = run(
        embedding_lookup(items, tf.constant([[5], [6]], tf.int64), blocknums=[[0], [2]]),
        embedding_lookup_sparse(items, ids(), None, "mod", None, "sum", None, [1, 1, 3, 0]),
    )
    np.testing.assert_array_equal(rows, [[[0] * 6], [[1] * 4 + [0] * 2]])
    np.testing.assert_array_equal(pooled, [[1] * 6, [0] * 6, [2, 2, 1, 1, 1, 1]])


@pytest.mark.parametrize(
    ("look_up", "message"),
    [
        (lambda tables: embedding_lookup(tables[0], [1]), "'items' needs blocknums"),
        (lambda tables: safe_embedding_lookup_sparse(tables[0], ids()), "use embedding_lookup_sp"),
        (lambda tables: embedding_lookup(tables[1], [1], blocknums=[1]), "blocknums is for"),
        (
            lambda tables: safe_embedding_lookup_sparse(
                *(tables[1], ids(), None, "sum", None, None, "div", None, False)
            ),
            "argument 9 is False, which is prune",
        ),
        (
            lambda tables: embedding_lookup(tables[1], [1], counts=[1]),
            "for EmbeddingVariables only",
        ),
        (lambda tables: graph_opt.get_multihash_variable("m", [[2, 3]]), "dims has 1 entries"),
        (
            lambda tables: graph_opt.get_multihash_variable("m", [[2, 3]] * 2, operation="x"),
            "operation is 'x'; need one of add, concat, mul",
        ),
    ],
)
def test_arguments_that_do_not_fit_the_table(look_up: Any, message: str) -> None:
    items = graph_opt.get_dynamic_dimension_embedding_variable("items", 2, 3)
    table = tf.get_variable("table", [10, 2])
    with pytest.raises(ValueError, match=message):
        look_up([items, table])


def test_a_table_may_be_given_as_its_parts() -> None:
    table = graph_opt.get_embedding_variable("table", 2, partitioner=tf.fixed_size_partitioner(2))
    keys = tf.constant([1000, 1, 2])
    whole, parts, pooled = run(
        embedding_lookup(table, keys),
        embedding_lookup(list(table), keys),
        embedding_lookup_sparse(list(table), ids(), None, combiner="sum"),
    )
    np.testing.assert_array_equal(whole, parts)
    assert pooled.shape == (3, 2)
    with pytest.raises(ValueError, match="need all parts of one table, in order"):
        embedding_lookup(list(table)[::-1], keys)
