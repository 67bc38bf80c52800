"""Models with dynamic tables, and how to train them."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from graph_opt.compat import tf
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.partitioned import PartitionedDynamicTable
from graph_opt.dynamic.variable import DynamicTableVariable, PartOf
from graph_opt.ops import dynamic_table
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.sharding.initializers import Drawn
from tests.passes import fused_models

Inputs = Dict[str, Any]
RATE = 0.1


def table(name: str, width: int = 4) -> DynamicTableVariable:
    """A table whose rows begin with numbers drawn for their keys."""
    options = DynamicTableOptions(Drawn("uniform", -1.0, 1.0, len(name) + width))
    return DynamicTableVariable(name, width, options)


def in_parts(name: str, parts: int, rule: str, width: int = 4) -> PartitionedDynamicTable:
    """The same in parts."""
    options = DynamicTableOptions(Drawn("uniform", -1.0, 1.0, len(name) + width))
    return PartitionedDynamicTable(
        [
            DynamicTableVariable(
                "{}/part_{}".format(name, part),
                width,
                options,
                part=PartOf(name, part, parts, rule),
            )
            for part in range(parts)
        ]
    )


def tables() -> List[DynamicTableVariable]:
    """The dynamic tables of the default graph."""
    return [v for v in tf.global_variables() if isinstance(v, DynamicTableVariable)]


def update(slices: Any, variable: DynamicTableVariable, optimizer: str) -> tf.Operation:
    """The update of a dynamic table by an optimizer's usual hyperparameters."""
    spec = optimizer_specs()[optimizer]
    slots = [variable.add_slot(slot, initial).handle for slot, initial in spec.slots.items()]
    return dynamic_table.apply_to_keys(
        optimizer,
        variable.handle,
        slots,
        list(spec.hyperparameters.values()),
        slices.indices,
        slices.values,
    )


def minimize(loss: tf.Tensor, optimizer: str = "Adagrad", clip: bool = False) -> tf.Operation:
    """Trains dynamic tables by one optimizer, and what else there is by gradient descent."""
    dynamic = tables()
    static = [v for v in tf.trainable_variables() if not isinstance(v, DynamicTableVariable)]
    gradients = tf.gradients(loss, [*(v.handle for v in dynamic), *static])
    if clip:
        gradients, _ = tf.clip_by_global_norm(gradients, 0.5)
    pairs = list(zip(gradients, [*dynamic, *static]))
    updates = [update(slices, variable, optimizer) for slices, variable in pairs[: len(dynamic)]]
    others = tf.train.GradientDescentOptimizer(RATE).apply_gradients(pairs[len(dynamic) :])
    return tf.group(*updates, others, name="train")


def every_api(inputs: Inputs) -> List[Any]:
    """Lookups of every kind, of whole tables and of tables in parts, beside a static one."""
    ids, more = (tf.sparse.from_dense(inputs[name]) for name in ("ids", "more"))
    weights = fused_models.weights_of(more, inputs["weight"])
    safe, plain = tf.nn.safe_embedding_lookup_sparse, tf.nn.embedding_lookup_sparse
    users, items = table("users"), table("items", 8)
    return [
        safe(users, ids, combiner="sqrtn"),
        safe(items, more, fused_models.weights_of(more, inputs["weight"]), combiner="mean"),
        plain(users, more, None, combiner="mean"),
        plain(table("weighted", 3), more, weights, combiner="sum"),
        tf.nn.embedding_lookup(items, inputs["one"]),
        tf.reduce_sum(tf.nn.embedding_lookup(in_parts("places", 3, "key"), inputs["ids"]), axis=1),
        plain(in_parts("shops", 2, "key1000"), more, None, combiner="mean"),
        plain(fused_models.table("static", 5, resource=True), more, None, combiner="mean"),
    ]


def names_of(values: Sequence[Any]) -> List[str]:
    """Names of variables, without outputs."""
    return [value.name.split(":")[0] for value in values]
