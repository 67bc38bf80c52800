"""Dense weights and gradients that a worker and a server exchange are packed where they can be."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Tuple

import pytest

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.optimize import OptimizedGraph, optimize_graph_def
from graph_opt.passes.transfers.sometimes_run import sometimes_run
from graph_opt.session.live import optimize_graph
from tests.passes import fused_models
from tests.passes.refused_models import ControlFlowV1
from tests.passes.transfers import dense_models


class Packed(NamedTuple):
    """A rewritten graph, and how many tensors each of its messages carries."""

    view: GraphView
    tensors: List[int]
    codes: List[str]


def packed(build: Callable[[], Any], servers: int = 1, max_bytes: int = 1 << 20) -> Packed:
    with tf.Graph().as_default() as graph, tf.device(dense_models.on_servers(servers)):
        build()
        graph_def = graph.as_graph_def(add_shapes=True)
    result: OptimizedGraph = optimize_graph_def(graph_def, dense_models.packing(max_bytes))
    return Packed(
        GraphView(result.graph_def),
        [each.tensors for each in result.report.packed_transfers],
        [each["code"] for each in result.report.not_packed],
    )


def logits(resource: bool = True) -> Tuple[Any, Any]:
    inputs = fused_models.batches()
    return inputs, dense_models.layers(inputs["dense"], resource)[:, 0]


def trained(optimizer: Any = None, resource: bool = True) -> Any:
    inputs, output = logits(resource)
    loss = tf.reduce_mean(tf.square(output - inputs["label"]), name="loss")
    return (optimizer or tf.train.AdagradOptimizer(0.1)).minimize(loss)


@pytest.mark.parametrize("resource", [False, True])
def test_weights_and_gradients_are_one_tensor_each(resource: bool) -> None:
    result = packed(lambda: trained(resource=resource))
    assert result.tensors == [6, 7]  # The learning rate travels with the gradients.
    assert result.codes == []


def test_each_server_gets_a_message_of_its_own() -> None:
    assert packed(trained, servers=2).tensors == [3, 3, 4, 4]


def test_a_graph_on_one_task_is_unchanged() -> None:
    inputs, output = logits()
    tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_mean(output - inputs["label"]))
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    result = optimize_graph_def(graph_def, dense_models.packing())
    assert result.graph_def == graph_def
    assert "pack_dense" not in str(result.report)


def test_what_trains_nothing_is_unchanged() -> None:
    assert packed(logits).tensors == []


def test_reads_of_a_variable_share_its_part() -> None:
    def penalized() -> None:
        inputs, output = logits()
        penalty = tf.add_n([tf.nn.l2_loss(each) for each in tf.trainable_variables()])
        loss = penalty + tf.reduce_mean(tf.square(output - inputs["label"]))
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    result = packed(penalized)
    assert result.tensors == [6, 7]
    for reader in result.view.of_op("L2Loss"):
        assert result.view.inputs(reader)[0].node.startswith("pack_dense/")


def test_models_that_train_apart_travel_apart() -> None:
    def two() -> None:
        for scope in "ab":
            with tf.variable_scope(scope):
                trained()

    assert packed(two).tensors == [6, 6, 7, 7]


def test_weights_of_heads_that_train_together_travel_together() -> None:
    def heads() -> None:
        inputs = fused_models.batches()
        losses = []
        for scope in "ab":
            with tf.variable_scope(scope):
                output = dense_models.layers(inputs["dense"], True)[:, 0]
            losses.append(tf.reduce_mean(tf.square(output - inputs["label"])))
            tf.metrics.mean(output)
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.add_n(losses))

    assert packed(heads).tensors[0] == 12


def test_dtypes_travel_apart() -> None:
    def mixed() -> None:
        inputs = fused_models.batches()
        terms = []
        for dtype in (tf.float32, tf.float64):
            for number in range(2):
                name = "v_{}_{}".format(dtype.name, number)
                weight = tf.get_variable(name, [4], dtype, use_resource=True)
                terms.append(tf.cast(tf.reduce_sum(weight), tf.float32))
        loss = tf.add_n(terms) * tf.reduce_mean(inputs["dense"])
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    assert packed(mixed).tensors == [2, 2, 2, 2]


def test_reads_after_an_update_stay_after_it() -> None:
    def averaged() -> None:
        step = trained()
        average = tf.train.ExponentialMovingAverage(0.9)
        with tf.control_dependencies([step]):
            average.apply(tf.trainable_variables())

    result = packed(averaged)
    assert result.tensors[:2] == [6, 12]  # Weights, then weights and averages.
    (early, late) = [each for each in result.view.of_op("ConcatV2") if "transfer_" in each][:2]
    assert "Adagrad" not in result.view.ancestors([early])
    assert "Adagrad" in result.view.ancestors([late])


def test_gradients_that_wait_for_an_update_are_not_joined_with_it() -> None:
    def alternating() -> None:
        inputs = fused_models.batches()
        with tf.variable_scope("a"):
            first = dense_models.layers(inputs["dense"], True, (3, 1))
        with tf.variable_scope("b"):
            second = dense_models.layers(inputs["dense"], True, (3, 1))
        variables = tf.trainable_variables()
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        step = optimizer.minimize(tf.reduce_mean(first), var_list=variables[:4])
        with tf.control_dependencies([step]):
            loss = tf.reduce_mean(second)
            optimizer.minimize(loss, var_list=variables[4:])

    result = packed(alternating)
    assert result.view.topological_order() is not None
    assert [count for count in result.tensors if count >= 4] == result.tensors


def test_large_tensors_travel_alone() -> None:
    result = packed(trained, max_bytes=4 * 14)
    # Kernels of 4 * 5 and 5 * 3 numbers, and their gradients.
    assert result.tensors == [4, 5]
    assert result.codes == ["transfer_too_large"] * 4


def test_shards_of_a_partitioned_variable_travel_together() -> None:
    def divided() -> None:
        inputs = fused_models.batches()
        partitioner = tf.fixed_size_partitioner(2)
        kernel = tf.get_variable("kernel", [4, 6], partitioner=partitioner, use_resource=False)
        loss = tf.reduce_sum(tf.matmul(inputs["dense"], tf.convert_to_tensor(kernel)))
        tf.train.AdagradOptimizer(0.1).minimize(loss)

    assert packed(divided).tensors == [2, 3]


def test_accumulated_gradients_travel_together() -> None:
    def synchronous() -> None:
        tf.train.get_or_create_global_step()
        inputs, output = logits(resource=False)
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.AdagradOptimizer(0.1), 2)
        loss = tf.reduce_mean(tf.square(output - inputs["label"]))
        optimizer.minimize(loss, tf.train.get_or_create_global_step())

    result = packed(synchronous)
    takers = result.view.of_op("AccumulatorApplyGradient", "ResourceAccumulatorApplyGradient")
    assert len(takers) == 6
    assert {result.view.inputs(each)[2].node.split("/")[0] for each in takers} == {"pack_dense"}


def test_a_weight_read_in_both_branches_of_a_condition_is_packed_outside() -> None:
    def conditional() -> None:
        inputs, output = logits(resource=False)
        with ControlFlowV1():
            output = tf.cond(tf.timestamp() > 0, lambda: output * 1.0, lambda: output * 2.0)
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(output - inputs["label"]))

    assert packed(conditional).tensors == [6, 7]


def test_only_insides_of_conditions_and_loops_run_sometimes() -> None:
    with ControlFlowV1():
        start = tf.constant(1.0, name="start")
        chosen = tf.cond(start > 0, lambda: tf.add(start, 1, name="inside"), lambda: start)

        def body(value: Any) -> Any:
            added = tf.cond(value > 2, lambda: tf.add(value, 1, name="deep"), lambda: value)
            return tf.add(added, chosen, name="next")

        left = tf.while_loop(lambda value: value < 9, body, [start])
        tf.identity(tf.add(chosen, left), name="behind")
    view = GraphView(tf.get_default_graph().as_graph_def())
    inside = sometimes_run(view)
    assert {"cond/inside", "while/next", "while/cond/deep"} <= inside
    assert not {"start", "behind", chosen.op.name, left.op.name} & inside


def test_exports_have_the_users_own_graph() -> None:
    with tf.device(dense_models.on_servers(1)):
        trained()
        saver = tf.train.Saver()
    graph = tf.get_default_graph()
    before = graph.as_graph_def(add_shapes=True)
    report = optimize_graph(graph, dense_models.packing())
    assert [each.tensors for each in report.packed_transfers] == [6, 7]
    assert any(node.name.startswith("pack_dense/") for node in running_graph_def(graph).node)
    assert graph.as_graph_def(add_shapes=True) == before
    assert saver.export_meta_graph().graph_def == before


def test_new_nodes_are_stock_ops_on_the_tasks_they_serve() -> None:
    view = packed(trained).view
    added = [name for name in view.nodes if name.startswith("pack_dense/")]
    assert {view.op(name) for name in added} == {"Const", "Reshape", "ConcatV2", "Slice"}
    for name in added:
        if view.op(name) == "Slice":
            message = view.inputs(name)[0]
            assert view.op(message.node) == "ConcatV2"
            assert view.device(message.node) != view.device(name)
            assert view.shape(TensorRef(name, 0)) is not None


def test_a_reference_that_is_read_after_the_update_is_left_alone() -> None:
    def read_again() -> None:
        step = trained(resource=False)
        with tf.control_dependencies([step]):
            again = [each.read_value() for each in tf.trainable_variables()]
            tf.assign_add(tf.get_variable("sum", []), tf.add_n(list(map(tf.reduce_sum, again))))

    result = packed(read_again)
    assert result.tensors[:2] == [6, 7]
    assert result.codes == ["transfer_waits"] * 6
