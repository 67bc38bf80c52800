"""Small models whose lookups read from an iterator, and a way to run a split graph."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

import graph_opt
from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from graph_opt.passes.optimize import OptimizedGraph, optimize_graph_def

ROWS = 48
BATCH = 8
VOCABULARY = 30
WIDTH = 4

Features = Dict[str, Any]


def config(**options: Any) -> Any:
    """A config with async embedding: 1 thread, capacity 2, inferred IO stage."""
    made = ConfigProto()
    optimizer_options = made.graph_options.optimizer_options
    optimizer_options.do_async_embedding = True
    asynchronous = optimizer_options.async_embedding_options
    chosen = dict(threads_num=1, capacity=2, infer_io_stage=True)
    chosen.update(options)
    for name, value in chosen.items():
        setattr(asynchronous, name, value)
    return made


def features(batch: int = BATCH, rows: int = ROWS, seed: int = 0) -> Features:
    """One batch of `ids` [B, 3] (0 is padding), `dense` [B, 4] and `label` [B] each time."""
    random = np.random.RandomState(seed)
    data = {
        "ids": random.randint(0, VOCABULARY, [rows, 3]).astype(np.int64),
        "other": random.randint(1, VOCABULARY, [rows]).astype(np.int64),
        "dense": random.rand(rows, 4).astype(np.float32),
        "label": random.randint(0, 2, [rows]).astype(np.float32),
    }
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(batch)
    return tf.data.make_one_shot_iterator(dataset).get_next()


def table(name: str = "table", resource: bool = False, partitions: int = 1) -> Any:
    """A variable [VOCABULARY, WIDTH], possibly in parts."""
    partitioner = tf.fixed_size_partitioner(partitions) if partitions > 1 else None
    return tf.get_variable(
        name, [VOCABULARY, WIDTH], use_resource=resource, partitioner=partitioner
    )


def train(pooled: List[Any], inputs: Features, learning_rate: float = 0.1) -> Tuple[Any, Any]:
    """A dense layer over the lookups, its loss and an Adagrad step."""
    hidden = tf.concat(pooled + [inputs["dense"]], axis=1)
    weights = tf.get_variable("weights", [int(hidden.shape[1]), 1], use_resource=False)
    logits = tf.matmul(hidden, weights)[:, 0]
    loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=inputs["label"], logits=logits), name="loss"
    )
    step = tf.train.get_or_create_global_step()
    return loss, tf.train.AdagradOptimizer(learning_rate).minimize(loss, global_step=step)


def safe_model(resource: bool = False, combiner: str = "mean", partitions: int = 1) -> Any:
    """Inputs and the output of one `safe_embedding_lookup_sparse`, trained."""
    inputs = features()
    pooled = tf.nn.safe_embedding_lookup_sparse(
        table(resource=resource, partitions=partitions),
        tf.sparse.from_dense(inputs["ids"]),
        combiner=combiner,
    )
    train([pooled], inputs)
    return inputs, pooled


def optimized(**options: Any) -> OptimizedGraph:
    """Runs the passes on the default graph."""
    graph_def = graph_opt.running_graph_def(add_shapes=True)
    return optimize_graph_def(graph_def, config(**options))


def codes(result: OptimizedGraph) -> List[Optional[str]]:
    """Refusal code of each lookup, None for those that moved."""
    return [
        None if lookup.refusal is None else lookup.refusal["code"]
        for lookup in result.report.lookups
    ]


def boundary_names(result: OptimizedGraph) -> List[str]:
    """Names of all boundary tensors."""
    return [tensor.name for stage in result.stages for tensor in stage.boundary]


def with_control_flow_v1(build: Callable[[], Any]) -> Any:
    """Builds control flow with Switch, Merge and Enter in place of functions."""
    tf.disable_control_flow_v2()
    return build()
