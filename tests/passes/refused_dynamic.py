"""For each refusal code of dynamic tables, a small model that meets it."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.partitioned import PartitionedDynamicTable
from graph_opt.dynamic.variable import DynamicTableVariable, PartOf
from graph_opt.ops import dynamic_table
from graph_opt.sharding.initializers import Constant
from tests.passes.refused_models import Inputs, left_unfused

OPTIONS = DynamicTableOptions(Constant(0.5))


def train(rows: tf.Tensor, of: DynamicTableVariable) -> None:
    """Updates the table by gradient descent."""
    slices = tf.gradients(tf.reduce_sum(tf.square(rows)), of.handle)[0]
    dynamic_table.apply_to_keys(
        "GradientDescent", of.handle, [], [0.1], slices.indices, slices.values
    )


@left_unfused("lookup_by_key_differs")
def with_rows_of_its_own(inputs: Inputs) -> None:
    users = DynamicTableVariable("users", 4, OPTIONS)
    first = tf.zeros([tf.size(inputs["one"]), 4])
    train(users.sparse_read(inputs["one"], ev_init_value=first), users)


@left_unfused("keys_counted_twice")
def of_which_one_part_is_trained(inputs: Inputs) -> None:
    parts = [
        DynamicTableVariable(
            "table/part_{}".format(number), 4, OPTIONS, part=PartOf("table", number, 2)
        )
        for number in range(2)
    ]
    ids = tf.sparse.from_dense(inputs["more"])
    train(tf.nn.embedding_lookup_sparse(PartitionedDynamicTable(parts), ids, None), parts[0])
