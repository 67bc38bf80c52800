"""For each refusal code of tables that are not sharded, a small model that meets it."""

from __future__ import annotations

from typing import Any, Callable

from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from tests.passes import models
from tests.passes.refused_models import MODELS, Build, Inputs, Refused, trained


def left_whole(code: str) -> Callable[[Build], Build]:
    """Registers a model whose table stays whole on every rank."""

    def register(build: Build) -> Build:
        assert code not in MODELS
        config = ConfigProto()
        options = config.graph_options.optimizer_options
        options.shard_tables = True
        options.shard_tables_options.min_table_bytes = 1
        MODELS[code] = Refused(build, config)
        return build

    return register


def sent_through_horovod(rows: Any, table: Any) -> Any:
    """Trains a table with the slices of all ranks; returns the graph with Horovod's ops in it."""
    optimizer = tf.train.AdagradOptimizer(0.1)
    slices = tf.gradients(tf.reduce_sum(tf.square(rows)), table)[0]
    values = tf.identity(slices.values, name="HorovodAllgather_values")
    indices = tf.identity(slices.indices, name="HorovodAllgather_indices")
    optimizer.apply_gradients([(tf.IndexedSlices(values / 2, indices), table)])
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    for node in graph_def.node:
        if node.name.startswith("HorovodAllgather"):
            node.op = "HorovodAllgather"
    return graph_def


@left_whole("table_read_whole")
def of_a_table_with_a_norm(inputs: Inputs) -> Any:
    table = models.table()
    tf.summary.scalar("norm", tf.norm(table))
    return sent_through_horovod(tf.nn.embedding_lookup(table, inputs["one"]), table)


@left_whole("gradient_not_gathered")
def trained_by_one_rank(inputs: Inputs) -> None:
    trained(tf.nn.embedding_lookup(models.table(), inputs["one"]))


@left_whole("table_not_trained")
def of_a_frozen_table(inputs: Inputs) -> None:
    tf.nn.embedding_lookup(models.table(), inputs["one"])
