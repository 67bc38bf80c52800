"""For each refusal code of gradients and updates, a small model whose report contains it."""

from __future__ import annotations

from typing import Any

import numpy as np

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessGroup, InProcessTransport
from graph_opt.sok.communication import communicating_through
from tests.passes import cyclic_models, fused_models, models
from tests.passes.refused_models import (
    ControlFlowV1,
    Inputs,
    changed,
    left_unfused,
    looked_up,
    registered,
    trained,
)


def pooled(inputs: Inputs, table: Any, name: str = "ids") -> Any:
    """Rows of a table, one for each row of the batch."""
    return tf.nn.safe_embedding_lookup_sparse(table, tf.sparse.from_dense(inputs[name]))


@left_unfused("gradient_not_recognised")
def of_one_shard_alone(inputs: Inputs) -> None:
    rows = tf.nn.embedding_lookup(models.table(partitions=2), inputs["one"])
    optimizer = tf.train.AdagradOptimizer(0.1)
    optimizer.minimize(tf.reduce_sum(rows), var_list=tf.trainable_variables()[:1])


@left_unfused("gradient_changed_before_update")
def clipped_gradients_of_a_row_for_each_id(inputs: Inputs) -> None:
    optimizer = tf.train.AdagradOptimizer(0.1)
    rows = tf.nn.embedding_lookup(models.table(), inputs["one"])
    gradients, variables = zip(*optimizer.compute_gradients(tf.reduce_sum(rows)))
    clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
    optimizer.apply_gradients(zip(clipped, variables))


@left_unfused("gradient_accumulated")
def gradients_of_several_workers(inputs: Inputs) -> None:
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.AdagradOptimizer(0.1), 2)
    step = tf.train.get_or_create_global_step()
    rows = pooled(inputs, models.table())
    optimizer.minimize(tf.reduce_sum(rows), global_step=step)


@left_unfused("adam_updates_whole_table", adam="stock")
def adam(inputs: Inputs) -> None:
    trained(pooled(inputs, models.table()), tf.train.AdamOptimizer())


@left_unfused("update_not_deferrable", adam="deferred")
def adam_without_epsilon(inputs: Inputs) -> None:
    trained(pooled(inputs, models.table()), tf.train.AdamOptimizer(epsilon=0.0))


@left_unfused("average_not_deferrable")
def two_averages_of_a_table(inputs: Inputs) -> None:
    table = models.table()
    trained(pooled(inputs, table))
    for decay in (0.9, 0.99):
        tf.train.ExponentialMovingAverage(decay, name=str(decay)).apply([table])


@left_unfused("optimizer_unknown")
def dual_averaging(inputs: Inputs) -> None:
    step = tf.train.get_or_create_global_step()
    trained(pooled(inputs, models.table()), tf.train.AdagradDAOptimizer(0.1, step))


@left_unfused("update_is_dense")
def a_norm_of_the_whole_table(inputs: Inputs) -> None:
    table = models.table()
    loss = tf.reduce_sum(pooled(inputs, table)) + tf.norm(table)
    tf.train.AdagradOptimizer(0.1).minimize(loss)


@left_unfused("penalty_on_whole_table")
def a_penalty_on_the_whole_table(inputs: Inputs) -> None:
    table = models.table()
    rows = pooled(inputs, table)
    loss = tf.reduce_sum(rows) + tf.nn.l2_loss(table)
    tf.train.AdagradOptimizer(0.1).minimize(loss)


@left_unfused("table_assigned")
def values_kept_in_bounds(inputs: Inputs) -> None:
    table = models.table()
    trained(pooled(inputs, table))
    tf.assign(table, tf.clip_by_value(table, -1.0, 1.0))


@left_unfused("table_updated_twice")
def two_optimizers(inputs: Inputs) -> None:
    rows = pooled(inputs, models.table())
    trained(rows)
    trained(rows, tf.train.GradientDescentOptimizer(0.1))


@left_unfused("update_in_control_flow")
def updated_several_times_in_a_step(inputs: Inputs) -> None:
    table = models.table()
    rows = pooled(inputs, table)
    (slices,) = tf.gradients(tf.reduce_sum(rows), [table])
    optimizer = tf.train.AdagradOptimizer(0.1)

    def again(count: Any) -> Any:
        with tf.control_dependencies([optimizer.apply_gradients([(slices, table)])]):
            return count + 1

    with ControlFlowV1():
        tf.while_loop(lambda count: count < 2, again, [tf.constant(0)])


@left_unfused("update_dtype")
def a_table_of_half_floats(inputs: Inputs) -> None:
    table = tf.get_variable("table", [models.VOCABULARY, 4], tf.float16)
    rows = tf.nn.embedding_lookup(table, inputs["one"])
    trained(rows, tf.train.GradientDescentOptimizer(0.1))


@left_unfused("update_output_read")
def a_norm_of_the_table_after_its_update(inputs: Inputs) -> None:
    looked_up(inputs["one"])
    updates = [op for op in tf.get_default_graph().get_operations() if "SparseApply" in op.type]
    tf.nn.l2_loss(updates[0].outputs[0])


@left_unfused("update_not_recognised")
def duplicates_applied_one_after_the_other(inputs: Inputs) -> None:
    table = models.table()
    rows = tf.nn.embedding_lookup(table, inputs["one"])
    slot = tf.get_variable("slot", table.shape, use_resource=False, trainable=False)
    (slices,) = tf.gradients(tf.reduce_sum(rows), [table])
    tf.raw_ops.SparseApplyAdagrad(
        var=table._ref(), accum=slot._ref(), lr=0.1, grad=slices.values, indices=slices.indices
    )


@left_unfused("slots_differ")
def a_slot_of_another_shape(inputs: Inputs) -> Any:
    looked_up(inputs["one"])

    def change(node: Any) -> None:
        if node.name == "table/Adagrad":
            node.attr["shape"].shape.dim[1].size = fused_models.BATCH

    return changed(change)


@left_unfused("fusion_makes_a_cycle")
def an_update_between_two_lookups(inputs: Inputs) -> None:
    cyclic_models.build(inputs["more"], cyclic_models.CLOSING)


def _exact() -> Any:
    """A config whose lookups run ahead only with exact rows."""
    config = fused_models.config(prefetch=True, require_server_ops=True)
    config.graph_options.optimizer_options.async_embedding_options.exact = True
    return config


@registered("exact_table_written", _exact())
def scattered_into(inputs: Inputs) -> None:
    table = models.table()
    trained(pooled(inputs, table))
    tf.scatter_add(table, [0], [[1.0] * models.WIDTH])


@registered("exact_elsewhere", _exact())
def on_its_own_server(inputs: Inputs) -> None:
    with tf.device("/job:worker/task:0"):
        trained(pooled(inputs, models.table()))


@registered("exact_not_fused", _exact())
def of_clipped_rows(inputs: Inputs) -> None:
    trained(tf.nn.embedding_lookup(models.table(), inputs["one"], max_norm=1.0))


@registered("exact_several_inputs", _exact())
def of_ranks_whose_labels_have_an_input_of_their_own(inputs: Inputs) -> None:
    with communicating_through(InProcessTransport(InProcessGroup(2), 0)):
        users = sok.Variable(np.ones([models.VOCABULARY, models.WIDTH], np.float32), name="users")
        ids = tf.sparse.from_dense(inputs["more"])
        (pooled,) = sok.lookup_sparse([users], [ids], combiners=["sum"])
        labels = tf.cast(fused_models.batches(seed=1)["one"], tf.float32)
        trained(pooled * labels[:, tf.newaxis])
