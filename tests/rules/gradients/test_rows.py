"""Gradients of lookups are found, and one op computes them from the gradients of the results."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import pytest

from graph_opt.compat import tf
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.rules import find_lookups
from graph_opt.rules.gradients.rows import row_gradients
from tests.quick_cases import one_of_each, slow_but
from tests.releases.archives import expected
from tests.releases.outcomes import TENSORFLOW_1
from tests.releases.read import read_graph
from tests.rules.gradient_values import assert_same_gradients, changed, found_gradients, loss_of
from tests.rules.layer_models import COLUMN_MODELS, LAYER_MODELS
from tests.rules.lookup_models import CORE_MODELS, Model
from tests.rules.lookup_values import shaped_view
from tests.rules.test_lookup_inputs import (
    CLIPPED,
    FUSED_OF_TENSORFLOW_1,
    VARIANTS,
    WITHOUT_NEGATIVE_IDS,
    cases,
    few,
    initialize,
)

QUICK_VARIANTS = ("ref", "resource_div")
MODELS = {**CORE_MODELS, **COLUMN_MODELS, **LAYER_MODELS}


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(7)
        yield graph


@pytest.mark.parametrize(("name", "variant"), cases())
def test_the_pooled_gradient_gives_the_gradients_of_all_shards(name: str, variant: str) -> None:
    model = Model(tf, **VARIANTS[variant])
    MODELS[name](model)
    tf.gradients(loss_of(model), tf.trainable_variables())
    assert_same_gradients(initialize, len(model.expected))


@pytest.mark.parametrize("name", few(FUSED_OF_TENSORFLOW_1, 3))
def test_gradients_of_graphs_made_by_tensorflow_1_are_found(name: str) -> None:
    tf.import_graph_def(read_graph(TENSORFLOW_1, name), name="")
    count = len(expected(TENSORFLOW_1, name))
    negative = name not in WITHOUT_NEGATIVE_IDS
    assert_same_gradients(initialize, count, negative, trailing=False)


@pytest.mark.parametrize("name, variant", one_of_each(CLIPPED, list(VARIANTS)))
def test_refuses_the_gradient_of_rows_clipped_to_a_norm(name: str, variant: str) -> None:
    model = Model(tf, **VARIANTS[variant])
    CORE_MODELS[name](model)
    tf.gradients(loss_of(model), tf.trainable_variables())
    assert refused() == ["gradient_not_recognised"]


def refused(view: Optional[GraphView] = None) -> List[str]:
    """The refusal code of each lookup, '' for one that is not refused."""
    view = view or shaped_view()
    codes = []
    for lookup in find_lookups(view).lookups:
        try:
            row_gradients(view, lookup)
            codes.append("")
        except Refusal as refusal:
            codes.append(refusal.code)
    return codes


def found() -> List[Tuple[str, ...]]:
    """(table, pooled gradient) of each gradient."""
    return [
        (lookup.tables[0].name, str(gradient.pooled))
        for lookup, _, gradient in found_gradients(shaped_view())
    ]


@pytest.mark.parametrize("name", ["embedding_lookup", "sparse_mean", "safe_weighted_mean"])
def test_a_lookup_that_nothing_trains_has_no_gradient(name: str) -> None:
    model = Model(tf, partitions=2)
    CORE_MODELS[name](model)
    tf.reduce_sum(model.outputs[0])
    assert found() == []


@pytest.mark.parametrize("variant", slow_but(VARIANTS, *QUICK_VARIANTS))
@pytest.mark.parametrize("name", ["embedding_lookup", "sparse_mean", "safe_weighted_mean"])
def test_each_loss_has_its_own_gradient(name: str, variant: str) -> None:
    model = Model(tf, **VARIANTS[variant])
    CORE_MODELS[name](model)
    tables = tf.trainable_variables()
    tf.gradients(loss_of(model), tables)
    tf.gradients(tf.reduce_sum(model.outputs[0]), tables, name="second")
    assert_same_gradients(initialize, 2)


def test_losses_that_are_added_have_one_gradient() -> None:
    model = Model(tf)
    CORE_MODELS["safe_mean"](model)
    (output,) = model.outputs
    tf.gradients([tf.reduce_sum(output * 2), tf.reduce_sum(output * output)], model_tables())
    assert_same_gradients(initialize, 1)
    assert [tensor for _, tensor in found()] == ["gradients/AddN:0"]


def model_tables() -> List[Any]:
    return list(tf.trainable_variables())


@pytest.mark.parametrize("variant", slow_but(VARIANTS, *QUICK_VARIANTS))
def test_lookups_of_one_table_have_a_gradient_each(variant: str) -> None:
    model = Model(tf, **VARIANTS[variant])
    table = model.table()
    for combiner in ("mean", "sum"):
        combined = tf.nn.safe_embedding_lookup_sparse(
            table, model.sparse_ids(), combiner=combiner, partition_strategy=model.strategy
        )
        model.outputs.append(combined)
    rows = tf.nn.embedding_lookup(table, model.features()["ids"], model.strategy)
    model.outputs.append(rows)
    tf.gradients(loss_of(model), model_tables())
    assert_same_gradients(initialize, 3, negative=False)


@pytest.mark.parametrize("resource", [False, True])
def test_tables_of_several_shapes_looked_up_by_the_same_ids_are_distinguished(
    resource: bool,
) -> None:
    ids = Model(tf).features()["ids"]
    for name, shape in (("wide", [50, 1]), ("deep", [50, 4]), ("long", [60, 4])):
        table = tf.get_variable(name, shape, use_resource=resource)
        rows = tf.nn.embedding_lookup(table, ids)
        tf.gradients(tf.reduce_sum(rows), [table], name="of_" + name)
    assert [(name, pooled.split("/")[0]) for name, pooled in found()] == [
        ("wide", "of_wide"),
        ("deep", "of_deep"),
        ("long", "of_long"),
    ]


@pytest.mark.parametrize("prefix", ["", "imported"])
@pytest.mark.parametrize("resource", [False, True])
def test_equal_tables_looked_up_by_the_same_ids_are_distinguished(
    resource: bool, prefix: str
) -> None:
    with tf.Graph().as_default() as graph:
        ids = Model(tf).features()["ids"]
        tables = [tf.get_variable(n, [50, 4], use_resource=resource) for n in ("one", "other")]
        with tf.name_scope("a"):
            tf.nn.embedding_lookup(tables[0], ids)
        with tf.name_scope("b"):
            rows = tf.nn.embedding_lookup(tables[1], ids)
        tf.gradients(tf.reduce_sum(rows), tables)
    tf.import_graph_def(graph.as_graph_def(), name=prefix)
    assert [name.rpartition("/")[2] for name, _ in found()] == ["other"]


def test_a_gather_of_activations_by_the_same_ids_is_not_taken_for_the_tables() -> None:
    ids = Model(tf).features()["ids"]
    table = tf.get_variable("table", [50, 4], use_resource=False)
    hidden = tf.get_variable("hidden", [50, 4], use_resource=False) * 2
    rows = tf.nn.embedding_lookup(table, ids)
    tf.gradients(tf.reduce_sum(rows * 3 + tf.gather(hidden, ids)), [hidden])
    assert found() == []


def test_ids_and_weights_of_static_shapes() -> None:
    model = Model(tf, partitions=2)
    table = model.table()
    indices = tf.constant([[0, 0], [0, 1], [2, 0]], tf.int64)
    shape = tf.constant([3, 2], tf.int64)
    ids = tf.SparseTensor(indices, tf.constant([7, 2, 7], tf.int64), shape)
    weights = tf.SparseTensor(indices, tf.constant([1.5, 2.0, -1.0]), shape)
    model.features()
    for combiner in ("sum", "mean", "sqrtn"):
        lookup = tf.nn.safe_embedding_lookup_sparse
        model.outputs.append(lookup(table, ids, weights, combiner=combiner))
        model.outputs.append(lookup(table, ids, combiner=combiner))
    model.outputs.append(tf.nn.embedding_lookup(table, ids.values))
    tf.gradients(loss_of(model), model_tables())
    assert_same_gradients(initialize, 7, negative=False)


def test_columns_of_width_one() -> None:
    model = Model(tf)
    table = model.table(shape=(1000, 1))
    for combiner in ("sum", "mean"):
        lookup = tf.nn.safe_embedding_lookup_sparse
        model.outputs.append(
            lookup(table, model.sparse_ids(), model.sparse_weights(), combiner=combiner)
        )
    tf.gradients(loss_of(model), model_tables())
    assert_same_gradients(initialize, 2)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
@pytest.mark.parametrize("weighted", [False, True])
def test_tables_of_low_precision(dtype: Any, weighted: bool) -> None:
    model = Model(tf)
    table = tf.get_variable("table", [1000, 4], dtype, use_resource=True)
    weights = model.sparse_weights() if weighted else None
    pooled = tf.nn.embedding_lookup_sparse(table, model.sparse_ids(), weights, combiner="sum")
    tf.gradients(tf.reduce_sum(pooled * 2), [table])
    assert_same_gradients(initialize, 1, tolerance=0.05)


def test_weights_that_are_trained_do_not_hide_the_gradient_of_the_table() -> None:
    model = Model(tf)
    sparse = model.sparse_weights()
    trained = tf.SparseTensor(sparse.indices, sparse.values * 2, sparse.dense_shape)
    model.outputs.append(
        tf.nn.safe_embedding_lookup_sparse(
            model.table(), model.sparse_ids(), trained, combiner="mean"
        )
    )
    tf.gradients(loss_of(model), [*model_tables(), sparse.values])
    assert_same_gradients(initialize, 1)


def test_train_ops_that_wait_for_something() -> None:
    model = Model(tf)
    CORE_MODELS["safe_weighted_mean"](model)
    table, loss = model_tables(), loss_of(model)
    with tf.control_dependencies([tf.assign_add(tf.get_variable("steps", []), 1.0)]):
        tf.gradients(loss, table, gate_gradients=True)
    assert_same_gradients(initialize, 1)


def test_a_gradient_of_only_one_shard_is_refused() -> None:
    model = Model(tf, partitions=2)
    CORE_MODELS["sparse_mean"](model)
    tf.gradients(loss_of(model), model_tables()[:1])
    assert refused() == ["gradient_not_recognised"]


def test_a_dense_gradient_of_a_table_is_refused() -> None:
    model = Model(tf)
    pooled = tf.nn.embedding_lookup_sparse(
        model.table(), model.sparse_ids(), None, combiner="mean", allow_fast_lookup=True
    )
    tf.gradients(tf.reduce_sum(pooled), model_tables())
    assert refused() == ["gradient_not_recognised"]


@pytest.mark.parametrize("name", ["embedding_lookup", "sparse_mean", "safe_weighted_mean"])
def test_nodes_are_all_between_the_pooled_gradient_and_the_slices(name: str) -> None:
    view, lookup, gradient = trained(name, 2)
    ends = [tensor.node for part in gradient.slices for tensor in part]
    forward = view.ancestors([gradient.pooled.node, lookup.output.node])
    made = [
        node
        for node in _data_ancestors(view, ends)
        if node not in forward and view.op(node) != "Const"
    ]
    assert set(made) <= set(gradient.nodes)
    assert not set(gradient.nodes) & (set(forward) | set(lookup.nodes))


def _data_ancestors(view: GraphView, names: List[str]) -> List[str]:
    seen = dict.fromkeys(names)
    stack = list(seen)
    while stack:
        for tensor in view.inputs(stack.pop()):
            if tensor.node not in seen:
                seen[tensor.node] = None
                stack.append(tensor.node)
    return list(seen)


# Covers every edge, constant and op of the longest patterns.

LONGEST = [("safe_weighted_mean", 3), ("sparse_weighted_sqrtn", 1), ("safe_mean", 1)]


def trained(name: str, partitions: int) -> Tuple[GraphView, Any, Any]:
    model = Model(tf, partitions=partitions, resource=partitions == 1)
    CORE_MODELS[name](model)
    tf.gradients(loss_of(model), model_tables())
    view = shaped_view()
    lookup = find_lookups(view).lookups[0]
    (gradient,) = row_gradients(view, lookup)
    return view, lookup, gradient


def same_gradient(view: GraphView, lookup: Any, gradient: Any) -> bool:
    """Whether the same op would still replace the gradient of a changed graph."""
    try:
        again = row_gradients(view, lookup)
    except Refusal:
        return False
    return [(g.pooled, g.slices) for g in again] == [(gradient.pooled, gradient.slices)]


def ties(view: GraphView, gradient: Any) -> Dict[str, None]:
    """Nodes that are not part of the pattern itself: those of `tf.tuple`."""
    read = view.ancestors([tensor.node for part in gradient.slices for tensor in part])
    return {name: None for name in gradient.nodes if name not in read or view.op(name) == "NoOp"}


@pytest.mark.parametrize(("name", "partitions"), LONGEST)
def test_looks_at_every_edge_and_operation(name: str, partitions: int) -> None:
    view, lookup, gradient = trained(name, partitions)
    beside = ties(view, gradient)
    missed: List[Tuple[str, Any]] = []
    for node in gradient.nodes:
        if node in beside:
            continue

        def replace(proto: Any) -> None:
            proto.op = "Other"

        if same_gradient(changed(view, node, replace), lookup, gradient):
            missed.append((node, "op"))
        for slot, tensor in enumerate(view.inputs(node)):
            if tensor == gradient.pooled or view.op(tensor.node) == "Const":
                continue

            def rewire(proto: Any, slot: int = slot) -> None:
                proto.input[slot] = "alien"

            if same_gradient(changed(view, node, rewire), lookup, gradient):
                missed.append((node, slot))
    assert missed == []


def test_another_constant_in_a_shape_is_refused() -> None:
    view, lookup, gradient = trained("sparse_mean", 1)
    (name,) = [n for n in view.nodes if n.endswith("embedding_lookup_grad/Const")]

    def widen(proto: Any) -> None:
        proto.attr["value"].tensor.CopyFrom(tf.make_tensor_proto([1000, 9], tf.int32))

    assert not same_gradient(changed(view, name, widen), lookup, gradient)


@pytest.mark.parametrize(
    "shape, is_taken", [((-1, 8), True), ((-1, -1), False), ((1000, 8), False), ((8, -1), False)]
)
def test_a_reshape_may_leave_the_only_unknown_dimension_open(
    shape: Tuple[int, int], is_taken: bool
) -> None:
    view, lookup, gradient = trained("sparse_mean", 3)
    (reshape,) = [n for n in view.nodes if n.endswith("embedding_lookup/Reshape_1_grad/Reshape")]
    name = view.nodes[reshape].input[1]

    def make_constant(proto: Any) -> None:
        constant = tf.NodeDef(name=name, op="Const")
        constant.attr["dtype"].type = tf.int32.as_datatype_enum
        constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(shape, tf.int32))
        proto.CopyFrom(constant)

    assert same_gradient(changed(view, name, make_constant), lookup, gradient) == is_taken
