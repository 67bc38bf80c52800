"""A program for each rank of Horovod: trains two tables, and says what a plan counts."""

from __future__ import annotations

import sys
from typing import Any

import graph_opt
from graph_opt.compat import tf
from graph_opt.cost.assumptions import Assumptions
from graph_opt.cost.cost_plan import cost_plan
from graph_opt.cost.planned_graph import PlannedGraph
from graph_opt.inspect.shapes import add_missing_shapes
from graph_opt.sharding.horovod_transport import horovod

BATCH = 16
STEPS = 30
WIDTH = 8


def config_of(mode: str) -> Any:
    """Nothing, fused lookups, sharded tables, or sharded tables whose rows are exchanged ahead."""
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = mode != "stock"
    options.shard_tables = mode in ("divided", "ahead")
    options.shard_tables_options.min_table_bytes = 1
    options.do_async_embedding = mode == "ahead"
    ahead = options.async_embedding_options
    ahead.threads_num, ahead.capacity, ahead.infer_io_stage = 1, 2, True
    return config


def train_op() -> Any:
    """The update of two tables and of a dense layer."""
    ids = tf.data.Dataset.range(10**6).map(lambda i: (i * 7 % 500, i * 11 % 300)).batch(BATCH, True)
    user, item = tf.data.make_one_shot_iterator(ids).get_next()
    tables = [tf.get_variable(name, [500, WIDTH]) for name in ("users", "items")]
    rows = [tf.nn.embedding_lookup(tables[0], user), tf.nn.embedding_lookup(tables[1], item)]
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.concat(rows, 1), 1)))
    optimizer = horovod().DistributedOptimizer(tf.train.AdagradOptimizer(0.01))
    return optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())


def main(mode: str) -> None:
    """Trains, and prints the collectives and bytes that a plan counts for a step."""
    horovod().init()
    with tf.Graph().as_default() as graph:
        train = train_op()
        with graph_opt.Session(config=config_of(mode)) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(STEPS):
                session.run(train)
            graph_def = graph_opt.running_graph_def(graph)
            add_missing_shapes(graph_def)
    planned = PlannedGraph(graph_def, fetches=(train.name,))
    cost = cost_plan(planned, Assumptions(BATCH)).before
    print("planned: {} {:.0f}".format(cost.collectives, cost.collective_bytes))
    print("rank {} is done".format(horovod().rank()))


if __name__ == "__main__":
    main(sys.argv[1])
