"""The fused update compared step by step with TensorFlow's own optimizers."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.embedding.group_lookup import group_embedding_lookup_sparse
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds, group_embedding_apply
from graph_opt.rules.optimizers.sparse_update import sparse_updates
from tests.embedding.lookup_groups import random_bags, table
from tests.optimizer_models import ROW_BY_ROW, STOCK
from tests.plain_sessions import plain_session
from tests.quick_cases import slow_but


def reference(variable: Any, use_resource: bool) -> tf.Tensor:
    return variable.handle if use_resource else variable.op.outputs[0]


def inputs_of(op: tf.Operation) -> Tuple[GroupIds, GroupAttributes]:
    attributes = GroupAttributes.of(op)
    inputs = list(op.inputs)[sum(attributes.table_shards) :]
    num = len(attributes.lookup_tables)
    lists = [inputs[i * num : (i + 1) * num] for i in range(3)]
    ids = GroupIds(lists[0], lists[1], lists[2], weights=inputs[3 * num :])
    return ids, attributes


def value_of(hyperparameter: Any) -> Any:
    if isinstance(hyperparameter, TensorRef):
        return tf.get_default_graph().get_tensor_by_name(str(hyperparameter))
    return tf.constant(hyperparameter, tf.float32)


def run_steps(optimizer: str, use_resource: bool, partitions: int, fused: bool) -> List[np.ndarray]:
    """Tables and slots after a few steps."""
    random = np.random.RandomState(5)
    with tf.Graph().as_default():
        tables = [
            table("t{}".format(i), 23, 5 + 12 * i, use_resource, partitions) for i in range(2)
        ]
        tables.append(tables[0])
        bags = [random_bags(random, 12, 23) for _ in tables]
        pooled = group_embedding_lookup_sparse(tables, [b.sparse() for b in bags], "mean")
        gradients = [tf.constant(random.randn(12, p.shape[1].value), tf.float32) for p in pooled]
        shards = [s for t in tables[:2] for s in (list(t) if partitions > 1 else [t])]
        stock = STOCK[optimizer]()
        pairs = list(zip(tf.gradients(pooled, shards, gradients), shards))
        train = stock.apply_gradients(pairs)  # creates the slots, too
        slots = [stock.get_slot(shard, name) for name in stock.get_slot_names() for shard in shards]
        if fused:
            names = [shard.op.name for shard in shards]
            found = sparse_updates(GraphView(tf.get_default_graph().as_graph_def()), names).found
            first = found[names[0]]
            ids, attributes = inputs_of(pooled[0].op)
            train = group_embedding_apply(
                first.optimizer,
                [reference(shard, use_resource) for shard in shards],
                [value_of(found[n].slots[i]) for i in range(len(first.slots)) for n in names],
                [value_of(value) for value in first.hyperparameters],
                ids,
                attributes,
                gradients,
                [flag for flag, is_set in first.attributes.items() if is_set],
            )
        with plain_session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(4):
                session.run(train)
            return session.run(shards + slots)


@pytest.mark.parametrize(
    "use_resource, partitions",
    [
        pytest.param(False, 1, marks=pytest.mark.slow),
        pytest.param(False, 2, marks=pytest.mark.slow),
        pytest.param(True, 1, marks=pytest.mark.slow),
        (True, 2),
    ],
)
@pytest.mark.parametrize(
    "optimizer", slow_but(ROW_BY_ROW, "adagrad", "ftrl_shrinkage", "rms_prop_centered")
)
def test_the_fused_update_equals(optimizer: str, use_resource: bool, partitions: int) -> None:
    expected = run_steps(optimizer, use_resource, partitions, fused=False)
    got = run_steps(optimizer, use_resource, partitions, fused=True)
    for one, other in zip(got, expected):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("use_locking", [False, True])
@pytest.mark.parametrize("use_resource", [False, True])
def test_row_wise_adam(use_resource: bool, use_locking: bool) -> None:
    params = table("t", 9, 4, use_resource)
    m, v = (
        tf.get_variable(n, [9, 4], use_resource=use_resource, initializer=tf.ones_initializer())
        for n in "mv"
    )
    pooled = group_embedding_lookup_sparse(params, tf.constant([1, 2, 2]), "sum")[0]
    ids, attributes = inputs_of(pooled.op)
    gradient = np.arange(12, dtype=np.float32).reshape(3, 4)
    values = (0.1, 0.9, 0.99, 1e-6, 0.81, 0.98)
    train = group_embedding_apply(
        "Adam",
        [reference(params, use_resource)],
        [reference(m, use_resource), reference(v, use_resource)],
        [tf.constant(value) for value in values],
        ids,
        attributes,
        [tf.constant(gradient)],
        use_locking=use_locking,
    )
    with plain_session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(params)
        session.run(train)
        after, new_m, new_v = session.run([params, m, v])
    g = np.stack([gradient[0], gradient[1] + gradient[2]])
    expected_m, expected_v = 0.9 + 0.1 * g, 0.99 + 0.01 * g * g
    rate = 0.1 * np.sqrt(1 - 0.98) / (1 - 0.81)
    expected = before[1:3] - rate * expected_m / (np.sqrt(expected_v) + 1e-6)
    np.testing.assert_allclose(new_m[1:3], expected_m, rtol=1e-5)
    np.testing.assert_allclose(new_v[1:3], expected_v, rtol=1e-5)
    np.testing.assert_allclose(after[1:3], expected, rtol=1e-4)
    for new, old in ((after, before), (new_m, np.ones([9, 4])), (new_v, np.ones([9, 4]))):
        np.testing.assert_array_equal(np.delete(new, [1, 2], 0), np.delete(old, [1, 2], 0))


def test_an_update_reads_no_whole_table() -> None:
    params = table("t", 100000, 16, use_resource=True)
    slot = tf.get_variable("slot", [100000, 16], use_resource=True)
    pooled = group_embedding_lookup_sparse(params, tf.constant([1, 2, 2]), "sum")[0]
    ids, attributes = inputs_of(pooled.op)
    with tf.control_dependencies([pooled]):
        train = group_embedding_apply(
            "Momentum",
            [params.handle],
            [slot.handle],
            [tf.constant(0.1), tf.constant(0.9)],
            ids,
            attributes,
            [tf.ones([3, 16])],
        )
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with plain_session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        session.run([train, pooled], options=options, run_metadata=metadata)
    largest = max(
        memory.peak_bytes
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        for memory in node.memory
    )
    assert largest < 100000


def test_slots_of_another_shape_or_number_are_errors() -> None:
    params = table("t", 9, 4, use_resource=True)
    slot = tf.get_variable("slot", [9, 5], use_resource=True)
    pooled = group_embedding_lookup_sparse(params, tf.constant([1]), "sum")[0]
    ids, attributes = inputs_of(pooled.op)
    common = ([tf.constant(0.1), tf.constant(0.9)], ids, attributes, [tf.ones([1, 4])])
    wrong_shape = group_embedding_apply("Momentum", [params.handle], [slot.handle], *common)
    too_few = group_embedding_apply("Momentum", [params.handle], [], *common)
    one_value = ([tf.constant(0.1)], *common[1:])
    too_few_values = group_embedding_apply("Momentum", [params.handle], [params.handle], *one_value)
    no_flag = group_embedding_apply(
        "Momentum", [params.handle], [params.handle], *common, flags=["update_slots"]
    )
    with plain_session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="slot 0 of table 't'"):
            session.run(wrong_shape)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Momentum has 1 slots"):
            session.run(too_few)
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"2 hyperparameters \(learning_rate, momentum\)"
        ):
            session.run(too_few_values)
        with pytest.raises(tf.errors.InvalidArgumentError, match="no flag 'update_slots'"):
            session.run(no_flag)
    with pytest.raises(ValueError, match="need one of GradientDescent, Momentum"):
        group_embedding_apply("Momenta", [params.handle], [], *common)
