"""DeepRec's lookups in several dimensions: what NumPy computes of the same ids, and how fused."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.embedding_variable.multi_dim_lookups import (
    embedding_lookup_sparse_multi_dim,
    safe_embedding_lookup_multi_dim,
)
from graph_opt.graph.view import GraphView
from graph_opt.rules.find import find_lookups
from graph_opt.rules.lookup import EMBEDDING_LOOKUP, EMBEDDING_LOOKUP_SPARSE
from tests.quick_cases import one_of_each

SHAPE = (4, 3, 2)
Place = Tuple[int, ...]
# The second and the last row have no ids; of the others, some bags have none.
IDS: Dict[Place, int] = {(0, 0, 0): 3, (0, 0, 1): 1, (0, 2, 1): 3, (2, 1, 0): 0}
WEIGHTS: Dict[Place, float] = {(0, 0, 0): 2.0, (0, 0, 1): 0.5, (0, 2, 1): 3.0, (2, 1, 0): 1.5}
TABLE = np.random.RandomState(1).normal(size=(5, 2)).astype(np.float32)


def sparse(of: Dict[Place, Any], dtype: Any, shape: Place = SHAPE) -> tf.SparseTensor:
    return tf.SparseTensor(sorted(of), tf.constant([of[one] for one in sorted(of)], dtype), shape)


def reference(
    ids: Dict[Place, int],
    combiners: Sequence[str],
    weights: Optional[Dict[Place, float]],
    axis: int,
) -> np.ndarray:
    """Combines along the last dimension until one is left."""
    rows = {place: TABLE[one] * (weights[place] if weights else 1) for place, one in ids.items()}
    heavy = dict(weights) if weights else dict.fromkeys(ids, 1.0)
    for number in range(len(combiners), 0, -1):
        size, is_weighted = SHAPE[number], weights is not None and number == axis
        bags: Dict[Place, List[Place]] = {}
        for place in sorted(rows):
            bags.setdefault(place[:-1], []).append(place)
        rows = {
            bag: combined(
                combiners[number - 1],
                {place[-1]: rows[place] for place in places},
                [heavy[place] if is_weighted else 1.0 for place in places],
                size,
            )
            for bag, places in bags.items()
        }
        heavy = {
            bag: float(np.mean([heavy[one] for one in places])) for bag, places in bags.items()
        }
    width = next(iter(rows.values())).size
    return np.array([rows.get((row,), np.zeros(width)) for row in range(SHAPE[0])])


def combined(
    combiner: str, rows: Dict[int, np.ndarray], weights: Sequence[float], size: int
) -> np.ndarray:
    if combiner == "tile":
        none = np.zeros_like(next(iter(rows.values())))
        return np.concatenate([rows.get(place, none) for place in range(size)])
    stacked = np.array(list(rows.values()))
    if combiner in ("max", "min"):
        return np.asarray(getattr(stacked, combiner)(0))
    divisor = {
        "sum": 1.0,
        "mean": np.sum(weights),
        "sqrtn": np.sqrt(np.sum(np.square(weights))),
    }
    return np.asarray(stacked.sum(0) / divisor[combiner])


def run(*fetches: Any) -> List[np.ndarray]:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return list(session.run(fetches))


def table() -> Any:
    return tf.get_variable("table", initializer=tf.constant(TABLE), use_resource=True)


COMBINERS = ["mean", "sqrtn", "sum", "max", "min", "tile"]


@pytest.mark.parametrize("inner, weight_axis", one_of_each(COMBINERS, [None, 1, 2]))
def test_rows_are_combined_along_one_dimension_after_the_other(
    inner: str, weight_axis: Optional[int]
) -> None:
    variable, ids = table(), sparse(IDS, tf.int64)
    weights = None if weight_axis is None else WEIGHTS
    results = [
        embedding_lookup_sparse_multi_dim(
            variable,
            ids,
            None if weights is None else sparse(weights, tf.float32),
            combiners=[outer, inner],
            weight_axis=weight_axis,
        )
        for outer in COMBINERS
    ]
    for outer, result, got in zip(COMBINERS, results, run(*results)):
        expected = reference(IDS, [outer, inner], weights, weight_axis or 0)
        assert result.shape.as_list() == list(expected.shape)
        np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=outer)


def test_one_dimension_is_the_stock_lookup() -> None:
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 1]], tf.constant([3, 1, 0], tf.int64), [2, 3])
    rows = embedding_lookup_sparse_multi_dim(table(), ids, None)
    (variable,) = tf.trainable_variables()
    stock = tf.nn.embedding_lookup_sparse(variable, ids, None, combiner="mean")
    got, expected = run(rows, stock)
    np.testing.assert_array_equal(got, expected)


def test_invalid_ids_are_dropped_and_outer_dimensions_stay() -> None:
    with_invalid = {**IDS, (1, 0, 0): -1, (2, 1, 1): 4}
    weights = {**WEIGHTS, (1, 0, 0): 1.0, (2, 1, 1): 0.0}
    parts = [
        tf.get_variable(name, initializer=one) for name, one in zip("ab", (TABLE[:3], TABLE[3:]))
    ]
    rows = safe_embedding_lookup_multi_dim(
        parts, sparse(with_invalid, tf.int64), sparse(weights, tf.float32), weight_axis=2
    )
    expected = reference(IDS, ["tile", "mean"], WEIGHTS, 2).reshape(4, 3, 2)
    (got,) = run(rows)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_weights_below_zero_are_summed() -> None:
    weights = {**WEIGHTS, (0, 0, 0): -2.0}
    both = ["sum", "max"]
    ids, of_ids = sparse(IDS, tf.int64), sparse(weights, tf.float32)
    rows = safe_embedding_lookup_multi_dim(table(), ids, of_ids, both)
    np.testing.assert_allclose(run(rows)[0], reference(IDS, both, weights, 1), rtol=1e-6)


def test_gradients_are_those_of_the_dense_computation() -> None:
    variable = table()
    ids = sparse({place: one for place, one in IDS.items() if place[0] == 0}, tf.int64)
    rows = embedding_lookup_sparse_multi_dim(variable, ids, None, combiners=["mean", "max"])
    dense = (tf.maximum(variable[3], variable[1]) + variable[3]) / 2
    got, expected = (tf.gradients(one * [[1.0, 2.0]], variable)[0] for one in (rows, dense))
    found, wanted = run(tf.convert_to_tensor(got), expected)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_embedding_variables_have_rows_for_all_keys() -> None:
    users = graph_opt.get_embedding_variable("users", 2, initializer=tf.ones_initializer())
    ids = sparse({place: one - 2**40 for place, one in IDS.items()}, tf.int64)
    plain = embedding_lookup_sparse_multi_dim(users, ids, None, combiners=["sum", "sum"])
    kept = safe_embedding_lookup_multi_dim(users, ids, prune=False, combiners=["sum", "tile"])
    got, tiled = run(plain, kept)
    assert got.tolist() == [[3.0, 3.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    assert tiled[0].tolist() == [1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("combiner", "api"), [("mean", EMBEDDING_LOOKUP_SPARSE), ("max", EMBEDDING_LOOKUP)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_passes_know_the_lookup(combiner: str, api: str, weighted: bool) -> None:
    weights = sparse(WEIGHTS, tf.float32) if weighted else None
    ids = tf.sparse_placeholder(tf.int64, [None, 3, 2])
    embedding_lookup_sparse_multi_dim(table(), ids, weights, combiners=["max", combiner])
    view = GraphView(tf.get_default_graph().as_graph_def(add_shapes=True))
    found = find_lookups(view)
    assert [lookup.api for lookup in found.lookups] == [api] and not found.refusals


def trained(is_fused: bool) -> Tuple[List[np.ndarray], str]:
    """Two tables after two steps, and what was done to the graph."""
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.do_group_embedding = is_fused
    with tf.Graph().as_default() as graph:
        tables = [tf.get_variable(name, initializer=TABLE, use_resource=True) for name in "ab"]
        rows = [
            safe_embedding_lookup_multi_dim(one, sparse(IDS, tf.int64), combiners=["max", combiner])
            for one, combiner in zip(tables, ("mean", "sum"))
        ]
        train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows)))
        with graph_opt.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(2):
                session.run(train)
            return session.run(tables), str(graph_opt.report(graph))


def test_fused_lookups_train_the_same() -> None:
    fused, report = trained(is_fused=True)
    plain, _ = trained(is_fused=False)
    assert "2 of 2 lookups fused" in report
    np.testing.assert_allclose(fused, plain, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"combiners": ["mean"]}, ValueError, "has rank 3, with 1 combiners"),
        ({"combiners": ["mean", "product"]}, ValueError, "combiner is 'product'; need one of"),
        ({"combiners": ["mean", "sum"], "weight_axis": 0}, ValueError, "weight_axis is 0"),
        ({"sp_ids": tf.zeros}, TypeError, "sp_ids is a"),
        ({"sp_weights": [1.0]}, TypeError, "sp_weights is a list; need a SparseTensor"),
    ],
)
def test_what_cannot_be_is_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        embedding_lookup_sparse_multi_dim(
            **{"params": table(), "sp_ids": sparse(IDS, tf.int64), "sp_weights": None, **arguments}
        )


@pytest.mark.parametrize("missing", [None, []])
def test_a_lookup_needs_a_table(missing: Any) -> None:
    with pytest.raises(ValueError, match="embedding_weights is missing"):
        safe_embedding_lookup_multi_dim(missing, sparse(IDS, tf.int64))
