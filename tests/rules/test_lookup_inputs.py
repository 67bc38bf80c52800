"""The inputs with which one op computes the same as a lookup, and what is refused."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import find_lookups
from graph_opt.rules.lookup import OR_NAN
from graph_opt.rules.lookup_inputs import DENSE, SEGMENTS, SPARSE
from tests.plain_sessions import plain_session
from tests.quick_cases import one_of_each, slow_but
from tests.releases.archives import names
from tests.releases.outcomes import TENSORFLOW_1, not_fused
from tests.releases.read import read_graph
from tests.rules.layer_models import COLUMN_MODELS, LAYER_MODELS
from tests.rules.lookup_models import CORE_MODELS, ROWS, Model
from tests.rules.lookup_values import (
    FEATURES,
    all_inputs,
    code_of,
    pairs,
    random_batch,
    shaped_view,
    tensor_of,
)
from tests.weighted_lookups import cancelling, divided

BATCHES = 4
VARIANTS: Dict[str, Dict[str, Any]] = {
    "ref": {},
    "resource": {"resource": True},
    "ref_mod": {"partitions": 3},
    "resource_div": {"resource": True, "partitions": 3, "strategy": "div"},
}
CLIPPED = [name for name in CORE_MODELS if name.endswith("max_norm")]
# Graphs of TensorFlow 1 whose lookups one op can do, and those whose lookups none can.
FUSED_OF_TENSORFLOW_1 = [name for name in names(TENSORFLOW_1) if not not_fused(TENSORFLOW_1, name)]
REFUSED_OF_TENSORFLOW_1 = [name for name in names(TENSORFLOW_1) if not_fused(TENSORFLOW_1, name)]
# Its assertions would fail.
WITHOUT_NEGATIVE_IDS = ("identity_without_default.ref", "identity_without_default.resource")


def few(graphs: List[str], first: int) -> List[Any]:
    """Names of graphs as parameters, of which few are quick, beginning with that number."""
    return slow_but(graphs, *graphs[first::6])


def initialize(session: Any) -> None:
    """Runs all initializers, including those of imported variables and hash tables."""
    operations = session.graph.get_operations()
    session.run([operation for operation in operations if is_initializer(operation)])


def is_initializer(operation: Any) -> bool:
    if operation.type in ("Assign", "AssignVariableOp"):  # others may belong to a train op
        return bool(operation.name == operation.inputs[0].op.name + "/Assign")
    return bool(operation.type == "InitializeTableV2" or "TableImport" in operation.type)


def assert_same_values(is_weighted: bool, negative: bool = True) -> None:
    """Asserts that every lookup of the default graph equals the op built from its inputs."""
    view = shaped_view()
    found = all_inputs(view)
    assert found
    both = pairs(view, found)
    source = next(name for name in view.nodes if name.endswith("IteratorGetNext"))
    safe = negative and all(inputs.safe for _, inputs in found)
    with plain_session() as session:
        initialize(session)
        for seed in range(BATCHES):
            batch = random_batch(seed, ROWS, lowest_id=-ROWS // 4 if safe else 0)
            feeds = {
                tensor_of(TensorRef(source, index)): batch[name]
                for index, name in enumerate(FEATURES)
            }
            for stock, ours in session.run(both, feeds):
                assert stock.dtype == ours.dtype and stock.shape == ours.shape
                # Unweighted results are bitwise equal.
                close = dict(rtol=1e-6, atol=1e-6) if is_weighted else dict(rtol=0, atol=0)
                np.testing.assert_allclose(ours, stock, **close)


def cases() -> List[Any]:
    """Models and variants, of which each model with one variant is quick."""
    names = [name for name in (*CORE_MODELS, *COLUMN_MODELS) if name not in CLIPPED]
    return one_of_each(names, list(VARIANTS)) + [(name, "ref") for name in LAYER_MODELS]


@pytest.mark.parametrize(("name", "variant"), cases())
def test_one_op_gives_the_values_of_a_lookup(name: str, variant: str) -> None:
    build = {**CORE_MODELS, **COLUMN_MODELS, **LAYER_MODELS}[name]
    build(Model(tf, **VARIANTS[variant]))
    assert_same_values("weighted" in name)


@pytest.mark.parametrize("name", few(FUSED_OF_TENSORFLOW_1, 1))
def test_one_op_gives_the_values_of_graphs_made_by_tensorflow_1(name: str) -> None:
    tf.import_graph_def(read_graph(TENSORFLOW_1, name), name="")
    assert_same_values("weighted" in name, name not in WITHOUT_NEGATIVE_IDS)


@pytest.mark.parametrize("name", REFUSED_OF_TENSORFLOW_1)
def test_refuses_what_only_tensorflow_1_writes(name: str) -> None:
    view = GraphView(read_graph(TENSORFLOW_1, name))
    assert codes(view) == [not_fused(TENSORFLOW_1, name)]


def codes(view: Optional[GraphView] = None) -> List[str]:
    """The refusal code of each lookup of a graph; '' for one that is not refused."""
    view = view or shaped_view()
    return [code_of(view, lookup) for lookup in find_lookups(view).lookups]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", CLIPPED)
def test_refuses_rows_clipped_to_a_norm(name: str, variant: str) -> None:
    CORE_MODELS[name](Model(tf, **VARIANTS[variant]))
    assert codes() == ["rows_clipped"]


def ids_of(rank: int, dtype: Any = tf.int64) -> Any:
    return tf.placeholder(dtype, [None] * rank, name="given")


def sparse_of(rank: Optional[int] = 2, weights: bool = False, dtype: Any = tf.int64) -> List[Any]:
    """Ids, and possibly weights, of a SparseTensor whose rank may be unknown before a step."""
    indices = tf.placeholder(tf.int64, [None, rank], name="indices")
    shape = tf.placeholder(tf.int64, [rank], name="shape")
    values = tf.placeholder(dtype, [None], name="values")
    found = [tf.SparseTensor(indices, values, shape)]
    if weights:
        weight = tf.placeholder(tf.float32, [None], name="weights")
        found.append(tf.SparseTensor(indices, weight, shape))
    return found


def sparse_feeds(seed: int, rank: int = 2, rows: int = 20, lowest_id: int = -3) -> Dict[str, Any]:
    random = np.random.RandomState(seed)
    shape = random.randint(2, 5, rank)
    places = np.argwhere(random.rand(*shape) < 0.6)
    return {
        "indices": places,
        "shape": shape,
        "values": random.randint(lowest_id, rows, len(places)),
        "weights": random.randn(len(places)),
    }


def assert_same(feeds: Sequence[Dict[str, Any]], tolerance: float = 0) -> None:
    """Asserts that the only lookup of the default graph equals the op built from its inputs."""
    view = shaped_view()
    both = pairs(view, all_inputs(view))
    assert len(both) == 1
    named = {operation.name for operation in tf.get_default_graph().get_operations()}
    with plain_session() as session:
        session.run(tf.global_variables_initializer())
        for fed in feeds:
            tensors = {name + ":0": value for name, value in fed.items() if name in named}
            stock, ours = (np.float64(value) for value in session.run(both[0], tensors))
            assert stock.shape == ours.shape
            np.testing.assert_allclose(ours, stock, rtol=tolerance, atol=tolerance)


def table(dtype: Any = tf.float32, resource: bool = False, parts: int = 1) -> Any:
    partitioner = tf.fixed_size_partitioner(parts) if parts > 1 else None
    return tf.get_variable(
        "table",
        [20, 5],
        dtype,
        tf.random_normal_initializer(),
        use_resource=resource,
        partitioner=partitioner,
    )


@pytest.mark.parametrize(
    "rank, dtype, parts, strategy",
    one_of_each([1, 2, 3], [tf.int32, tf.int64], [7, 1, 3], ["mod", "div"]),
)
def test_ids_of_any_rank_give_one_row_each(
    rank: int, dtype: Any, parts: int, strategy: str
) -> None:
    tf.nn.embedding_lookup(table(parts=parts), ids_of(rank, dtype), partition_strategy=strategy)
    random = np.random.RandomState(3)
    assert_same([{"given": random.randint(0, 20, [4] * rank)} for _ in range(3)])


def test_a_gather_of_whole_rows_is_a_lookup_by_ids() -> None:
    tf.gather(table(resource=True), ids_of(2))
    assert_same([{"given": [[1, 2], [1, 19]]}])


@pytest.mark.parametrize(
    "weighted, is_static, rank", one_of_each([False, True], [True, False], [2, 3, 4])
)
def test_sparse_ids_may_have_any_rank(rank: int, is_static: bool, weighted: bool) -> None:
    ids = sparse_of(rank if is_static else None, weighted)
    tf.nn.safe_embedding_lookup_sparse(table(), *ids)
    tolerance = 1e-6 if weighted else 0
    assert_same([sparse_feeds(seed, rank) for seed in range(BATCHES)], tolerance)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("safe", [False, True])
def test_batches_without_ids(safe: bool, resource: bool) -> None:
    lookup = tf.nn.safe_embedding_lookup_sparse if safe else tf.nn.embedding_lookup_sparse
    lookup(table(resource=resource), sparse_of()[0], None)
    assert_same([{"indices": np.zeros([0, 2]), "shape": [3, 2], "values": []}])


@pytest.mark.parametrize(
    "dtype, combiner, kind",
    one_of_each(
        [tf.float16, tf.bfloat16], ["sum", "mean", "sqrtn"], ["safe", "sparse", "weighted", "dense"]
    ),
)
def test_tables_of_low_precision(dtype: Any, combiner: str, kind: str) -> None:
    one, ids = table(dtype), sparse_of(2, weights=True)
    if kind == "safe":
        tf.nn.safe_embedding_lookup_sparse(one, ids[0], None, combiner)
    elif kind == "dense":
        tf.nn.embedding_lookup(one, ids[0].values)
    else:
        weights = ids[1] if kind == "weighted" else None
        tf.nn.embedding_lookup_sparse(one, ids[0], weights, combiner=combiner)
    lowest_id = -3 if kind == "safe" else 0
    feeds = [sparse_feeds(seed, lowest_id=lowest_id) for seed in range(BATCHES)]
    assert_same(feeds, tolerance=1e-3 if kind == "weighted" else 0)


@pytest.mark.parametrize("by", [tf.realdiv, tf.div_no_nan])
@pytest.mark.parametrize("combiner", ["mean", "sqrtn"])
def test_where_weights_add_up_to_0_rows_are_as_the_graph_divides(combiner: str, by: Any) -> None:
    ids, weights = sparse_of(2, weights=True)
    divided(table(), ids, weights, combiner, by)
    ending = OR_NAN if by is tf.realdiv else ""
    assert [one.combiner for _, one in all_inputs(shaped_view())] == [combiner + ending]
    assert_same([cancelling(seed, 9, 20) for seed in range(BATCHES)])


def test_weights_of_another_type_are_cast_first() -> None:
    ids, weights = sparse_of(2, weights=True)
    doubles = tf.SparseTensor(ids.indices, tf.cast(weights.values, tf.float64), ids.dense_shape)
    tf.nn.embedding_lookup_sparse(table(), ids, doubles)
    assert_same([sparse_feeds(seed, lowest_id=0) for seed in range(BATCHES)], 1e-6)


def test_a_lookup_whose_inner_nodes_are_read_elsewhere_ends_before_them() -> None:
    safe = tf.nn.safe_embedding_lookup_sparse(table(), sparse_of()[0])
    combined = next(op for op in safe.graph.get_operations() if op.type == "SparseSegmentMean")
    tf.nn.relu(combined.outputs[0])
    view = shaped_view()
    assert [inputs.layout for _, inputs in all_inputs(view)] == [SEGMENTS]
    assert_same([sparse_feeds(seed) for seed in range(BATCHES)])


def test_layouts_and_defaults() -> None:
    one, ids = table(), sparse_of()[0]
    tf.nn.safe_embedding_lookup_sparse(one, ids, default_id=4)
    tf.nn.embedding_lookup_sparse(one, ids, None, combiner="sqrtn")
    tf.nn.embedding_lookup(one, ids.values)
    found = [inputs for _, inputs in all_inputs(shaped_view())]
    assert [inputs.layout for inputs in found] == [SPARSE, SEGMENTS, DENSE]
    assert [inputs.default_id for inputs in found] == [4, -1, -1]
    assert [inputs.combiner for inputs in found] == ["mean", "sqrtn", "sum"]
    assert [inputs.safe for inputs in found] == [True, False, False]
    assert [len(inputs.tensors()) for inputs in found] == [3, 2, 1]


# Refused inputs.


def half_as_tensorflow_1_combines_it() -> None:
    ids = sparse_of()[0]
    unique, places = tf.unique(ids.values)
    rows = tf.cast(tf.nn.embedding_lookup(table(tf.float16), unique), tf.float32)
    tf.sparse_segment_mean(rows, places, tf.cast(ids.indices[:, 0], tf.int32))


def uneven_shards() -> None:
    parts = [tf.get_variable("part{}".format(rows), [rows, 5]) for rows in (3, 5)]
    tf.nn.embedding_lookup(parts, ids_of(1))


def waiting() -> None:
    one, ids = table(), sparse_of()[0]
    with tf.control_dependencies([tf.assign_add(tf.get_variable("count", []), 1.0)]):
        tf.nn.safe_embedding_lookup_sparse(one, ids)


def waiting_by_its_axis() -> None:
    one, ids = table(), ids_of(1)
    with tf.control_dependencies([tf.assign_add(tf.get_variable("count", []), 1.0)]):
        tf.nn.embedding_lookup(one, ids)


def in_a_cond(is_merged: bool) -> None:
    ids, chosen = ids_of(1), tf.placeholder(tf.bool, [])
    if is_merged:
        ids = tf.cond(chosen, lambda: ids + 1, lambda: ids)
    else:
        ids = tf.raw_ops.Switch(data=ids, pred=chosen).output_true
    tf.nn.embedding_lookup(table(), tf.minimum(ids, 19))


def behind_a_loop() -> None:
    ids = tf.while_loop(lambda ids: tf.reduce_sum(ids) < 9, lambda ids: (ids + 1,), [ids_of(1)])
    tf.nn.embedding_lookup(table(), ids)


def with_a_counted_number_of_rows() -> None:
    ids = sparse_of()[0]
    bags = tf.cast(ids.indices[:, 0], tf.int32)
    tf.sparse_segment_mean(table(), ids.values, bags, num_segments=7)


def get_table(shape: Any, dtype: Any = tf.float32) -> Any:
    is_known = tf.TensorShape(shape).is_fully_defined()
    if is_known:
        return tf.get_variable("table", shape, dtype)
    return tf.get_variable("table", initializer=tf.placeholder(dtype, shape), validate_shape=False)


REFUSED: Dict[str, Tuple[str, Callable[[], Any]]] = {
    "float64": (
        "table_not_supported",
        lambda: tf.nn.embedding_lookup(table(tf.float64), ids_of(1)),
    ),
    "combined rows of rank 2": (
        "table_not_supported",
        lambda: tf.nn.embedding_lookup_sparse(
            get_table([4, 5, 6]), sparse_of()[0], None, combiner="sum"
        ),
    ),
    "unknown rows": (
        "table_not_supported",
        lambda: tf.nn.embedding_lookup(get_table([None, 5]), ids_of(1)),
    ),
    "half as of TensorFlow 1": ("pooled_dtype_differs", half_as_tensorflow_1_combines_it),
    "uneven shards": ("shards_uneven", uneven_shards),
    "gather_nd": ("rows_not_by_ids", lambda: tf.gather_nd(table(), ids_of(2))),
    "one id": ("ids_not_supported", lambda: tf.nn.embedding_lookup(table(), ids_of(0))),
    "unknown rank": (
        "ids_not_supported",
        lambda: tf.nn.embedding_lookup(table(), tf.placeholder(tf.int64, None)),
    ),
    "safe weights of half": (
        "ids_not_supported",
        lambda: tf.nn.safe_embedding_lookup_sparse(
            table(tf.float16), sparse_of()[0], tf.sparse_placeholder(tf.float16, [None, 2])
        ),
    ),
    "waiting": ("lookup_waits", waiting),
    "waiting by its axis": ("lookup_waits", waiting_by_its_axis),
    "in a cond": ("lookup_in_control_flow", lambda: in_a_cond(False)),
    "counted rows": ("lookup_differs", with_a_counted_number_of_rows),
    "negative default": (
        "lookup_differs",
        lambda: tf.nn.safe_embedding_lookup_sparse(table(), sparse_of()[0], default_id=-2),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refuses(what: str) -> None:
    code, build = REFUSED[what]
    build()
    assert code in codes()


def test_accepts_ids_that_a_cond_returns() -> None:
    in_a_cond(True)
    assert codes() == [""]


def test_accepts_ids_that_a_loop_returns() -> None:
    behind_a_loop()
    assert codes() == [""]


def test_marked_tensors_are_refused() -> None:
    rows = tf.nn.relu(tf.matmul(tf.nn.embedding_lookup(table(), ids_of(1)), tf.ones([5, 2])))
    rows.op._set_attr("_async_embedding_marked", tf.AttrValue(b=True))
    assert codes() == ["", "rows_not_by_ids"]
