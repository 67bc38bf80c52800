"""Dense ids of which those below 0 are left out are looked up without a SparseTensor."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.rules.find import find_lookups
from graph_opt.rules.lookup_inputs import BAGS, SPARSE, lookup_inputs
from tests.quick_cases import slow_but

ROWS, WIDTH = 7, 3
IDS = np.array([[3, -1, 3], [-1, -1, -1], [0, 6, 2], [-1, 5, -1]])


def table(resource: bool = True) -> Any:
    values = np.random.RandomState(2).rand(ROWS, WIDTH).astype(np.float32)
    return tf.get_variable("table", initializer=values, use_resource=resource)


def sparse_of(ids: Any, ignored: int = -1, cast: bool = False) -> Any:
    """As feature columns make a SparseTensor of dense ids."""
    places = tf.where(tf.not_equal(ids, tf.cast(ignored, ids.dtype)))
    values = tf.gather_nd(ids, places)
    if cast:
        values = tf.cast(values, tf.int64)
    return tf.SparseTensor(places, values, tf.shape(ids, out_type=tf.int64))


def layout_of(ids: Any, combiner: str = "mean", weights: Optional[Any] = None) -> str:
    """Of the op that can replace a lookup of these ids."""
    tf.nn.safe_embedding_lookup_sparse(table(), ids, weights, combiner=combiner)
    view = GraphView(tf.get_default_graph().as_graph_def(add_shapes=True))
    (lookup,) = find_lookups(view).lookups
    return lookup_inputs(view, lookup).layout


def dense(dtype: Any = tf.int64, shape: Any = (None, 3)) -> Any:
    return tf.placeholder(dtype, shape)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_dense_ids_are_bags(combiner: str) -> None:
    assert layout_of(sparse_of(dense()), combiner) == BAGS


def test_ids_that_are_cast_are_bags_too() -> None:
    assert layout_of(sparse_of(dense(tf.int32), cast=True)) == BAGS


def test_columns_make_bags() -> None:
    column = tf.feature_column.categorical_column_with_identity("ids", ROWS)
    columns = [tf.feature_column.embedding_column(column, WIDTH)]
    tf.feature_column.input_layer({"ids": tf.placeholder(tf.int64, [None])}, columns)
    view = GraphView(tf.get_default_graph().as_graph_def(add_shapes=True))
    inputs = lookup_inputs(view, find_lookups(view).lookups[0])
    assert inputs.layout == BAGS and view.op(inputs.ids.node) == "ExpandDims"
    assert inputs.tensors() == (inputs.ids,)


def of_other_places() -> Any:
    other = sparse_of(dense())
    return tf.SparseTensor(other.indices, sparse_of(dense()).values, other.dense_shape)


def of_another_shape() -> Any:
    ids = sparse_of(dense())
    return tf.SparseTensor(ids.indices, ids.values, tf.placeholder(tf.int64, [2]))


def of_values_that_are_changed() -> Any:
    ids = sparse_of(dense())
    return tf.SparseTensor(ids.indices, ids.values + 1, ids.dense_shape)


def of_compared_others() -> Any:
    ids, other = dense(), dense()
    places = tf.where(tf.not_equal(other, tf.constant(-1, tf.int64)))
    return tf.SparseTensor(places, tf.gather_nd(ids, places), tf.shape(ids, out_type=tf.int64))


def of_checked_values() -> Any:
    """As the columns of TensorFlow 1 make them: an id below -1 is an error."""
    ids = sparse_of(dense())
    with tf.control_dependencies([tf.assert_non_negative(ids.values)]):
        values = tf.identity(ids.values)
    return tf.SparseTensor(ids.indices, values, ids.dense_shape)


def of_places_that_wait() -> Any:
    ids = dense()
    with tf.control_dependencies([tf.no_op()]):
        return sparse_of(ids)


OTHERS: Dict[str, Callable[[], Any]] = {
    "an id that is not below 0 is ignored": lambda: sparse_of(dense(), ignored=0),
    "of unknown rank": lambda: sparse_of(dense(shape=None)),
    "of three dimensions": lambda: sparse_of(dense(shape=(None, 2, 2))),
    "values of other places": of_other_places,
    "another shape": of_another_shape,
    "values that are changed": of_values_that_are_changed,
    "others are compared": of_compared_others,
    "values that are checked": of_checked_values,
    "places that wait": of_places_that_wait,
    "no dense ids": lambda: tf.sparse_placeholder(tf.int64, [None, 3]),
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_others_stay_sparse(name: str) -> None:
    assert layout_of(OTHERS[name]()) == SPARSE


def test_weighted_ids_stay_sparse() -> None:
    ids = sparse_of(dense())
    weights = tf.SparseTensor(ids.indices, tf.ones_like(ids.values, tf.float32), ids.dense_shape)
    assert layout_of(ids, weights=weights) == SPARSE


def trained(config: Optional[Any], combiner: str, resource: bool, default: Optional[int]) -> Any:
    """Rows that were looked up and the table, after a few steps."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        batches = tf.data.Dataset.from_tensor_slices(np.stack([IDS, IDS[::-1], IDS])).repeat()
        ids = tf.data.make_one_shot_iterator(batches).get_next()
        variable = table(resource)
        rows = tf.nn.safe_embedding_lookup_sparse(
            variable, sparse_of(ids), combiner=combiner, default_id=default
        )
        loss = tf.reduce_sum(tf.square(rows - 0.5))
        update = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        session: Any
        opened = tf.Session() if config is None else graph_opt.Session(config=config)
        with opened as session:
            session.run(tf.global_variables_initializer())
            found: List[Any] = [session.run([rows, update])[0] for _ in range(3)]
            if config is not None:
                report = graph_opt.report(tf.get_default_graph())
                assert report is not None and len(report.fused) == 1
            return [*found, session.run(variable)]


def fused(ahead: bool) -> Any:
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    if ahead:
        options.do_async_embedding = True
        options.async_embedding_options.threads_num = 1
        options.async_embedding_options.capacity = 2
        options.async_embedding_options.infer_io_stage = True
        options.async_embedding_options.exact = True
    return config


@pytest.mark.parametrize("combiner", slow_but(["sum", "mean", "sqrtn"], "mean", "sqrtn"))
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("default", slow_but([None, 4], 4))
@pytest.mark.parametrize("ahead", [False, True])
def test_rows_and_updates_are_tensorflows(
    combiner: str, resource: bool, default: Optional[int], ahead: bool
) -> None:
    expected = trained(None, combiner, resource, default)
    found = trained(fused(ahead), combiner, resource, default)
    np.testing.assert_array_equal(found[0], expected[0])
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5)
