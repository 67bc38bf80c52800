"""For each refusal code of dynamic tables, a small model that meets it."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.partitioned import PartitionedDynamicTable
from graph_opt.dynamic.variable import DynamicTableVariable, PartOf
from graph_opt.ops import dynamic_table
from graph_opt.sharding.initializers import Constant
from tests.passes.refused_models import Inputs, left_unfused

OPTIONS = DynamicTableOptions(Constant(0.5))


def trained(rows: tf.Tensor, of: DynamicTableVariable) -> Any:
    """The default graph once it updates the table by gradient descent."""
    slices = tf.gradients(tf.reduce_sum(tf.square(rows)), of.handle)[0]
    dynamic_table.apply_to_keys(
        "GradientDescent", of.handle, [], [0.1], slices.indices, slices.values
    )
    return running_graph_def(tf.get_default_graph(), add_shapes=True)


@left_unfused("lookup_by_key_differs")
def with_rows_of_its_own(inputs: Inputs) -> Any:
    users = DynamicTableVariable("users", 4, OPTIONS)
    first = tf.zeros([tf.size(inputs["one"]), 4])
    return trained(users.sparse_read(inputs["one"], ev_init_value=first), users)


@left_unfused("keys_counted_twice")
def of_which_one_part_is_trained(inputs: Inputs) -> Any:
    parts = [
        DynamicTableVariable(
            "table/part_{}".format(number), 4, OPTIONS, part=PartOf("table", number, 2)
        )
        for number in range(2)
    ]
    ids = tf.sparse.from_dense(inputs["more"])
    return trained(
        tf.nn.embedding_lookup_sparse(PartitionedDynamicTable(parts), ids, None), parts[0]
    )
