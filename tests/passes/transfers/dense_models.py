"""Models whose dense layers are on parameter servers, and ways to train them."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from graph_opt.session.session import Session
from tests.optimizer_models import STOCK
from tests.passes import fused_models

WORKER = "/job:worker/task:0"
SIZES = (5, 3, 1)


def packing(max_bytes: int = 1 << 20, packs: bool = True) -> Any:
    """A config that packs dense weights and gradients, and does nothing else."""
    config: Any = ConfigProto()
    optimizer = config.graph_options.optimizer_options
    optimizer.do_group_embedding = True
    optimizer.group_embedding_options.lookups.append("no lookup has this name")
    optimizer.pack_dense = packs
    optimizer.pack_dense_max_bytes = max_bytes
    return config


def on_servers(count: int) -> Any:
    """The device function of between-graph replication."""
    return tf.train.replica_device_setter(ps_tasks=count, worker_device=WORKER)


def layers(hidden: Any, resource: bool, sizes: Sequence[int] = SIZES) -> Any:
    """Dense layers with names and initial values of their own."""
    for number, units in enumerate(sizes):
        with tf.variable_scope("layer{}".format(number), use_resource=resource):
            initial = tf.random_uniform_initializer(-1, 1, seed=number + 1)
            kernel = tf.get_variable("kernel", [int(hidden.shape[1]), units], initializer=initial)
            bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        hidden = tf.tanh(tf.matmul(hidden, kernel) + bias)
    return hidden


def loss_of(resource: bool) -> Any:
    """A loss over dense features and rows of a table, with a penalty on all dense weights."""
    inputs = fused_models.batches()
    rows = tf.nn.embedding_lookup(fused_models.table("rows", resource=resource), inputs["one"])
    scale = tf.get_variable("scale", [], initializer=tf.ones_initializer(), use_resource=resource)
    logits = layers(tf.concat([rows, inputs["dense"]], 1) * scale, resource)[:, 0]
    dense = [each for each in tf.trainable_variables() if "rows" not in each.op.name]
    penalty = 0.01 * tf.add_n([tf.nn.l2_loss(each) for each in dense])
    return penalty + tf.reduce_mean(tf.square(logits - inputs["label"]), name="loss")


def clipped_step(optimizer: Any, loss: Any) -> Any:
    """A step with a decaying rate of its own, gradients clipped by their norm, and an average."""
    step = tf.train.get_or_create_global_step()
    pairs = optimizer.compute_gradients(loss)
    clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 1.0)
    applied = optimizer.apply_gradients(zip(clipped, [each for _, each in pairs]), step)
    average = tf.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([applied]):
        return average.apply([each for each in tf.trainable_variables() if "layer" in each.op.name])


class Trained(NamedTuple):
    """What a run came to."""

    losses: List[float]
    values: Dict[str, np.ndarray]
    received: List[str]
    graph: Any

    def difference(self, other: Trained) -> List[str]:
        """Where two runs differ, to the bit."""
        found = [] if self.losses == other.losses else ["losses"]
        assert self.values.keys() == other.values.keys()
        same = {name: np.array_equal(self.values[name], other.values[name]) for name in self.values}
        return found + [name for name, equal in same.items() if not equal]


def train(
    target: str,
    build: Callable[[], Sequence[Any]],
    config: Any = None,
    steps: int = 5,
    servers: int = 1,
) -> Trained:
    """Trains on servers.

    Args:
      target: The worker's.
      build: Builds the model; the loss and what else a step fetches.
      config: None for a stock session.
      steps: How many.
      servers: Parameter servers that variables are spread over.
    """
    with tf.Graph().as_default() as graph, tf.device(on_servers(servers)):
        tf.set_random_seed(1)
        fetches = list(build())
        variables = {each.op.name: each for each in tf.global_variables()}
        initialize = tf.global_variables_initializer()
        tf.Session.reset(target)
        opened = tf.Session(target) if config is None else Session(target, config=config)
        with opened as session:
            session.run(initialize)
            losses = [float(session.run(fetches)[0]) for _ in range(steps)]
            values = session.run(variables)
            received = received_by(session, fetches)
    return Trained(losses, values, received, graph)


def received_by(session: Any, fetches: List[Any]) -> List[str]:
    """What tasks receive in one step: tensors' names, without the numbers that the master adds."""
    metadata = tf.RunMetadata()
    session.run(fetches, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    return [
        node.attr["tensor_name"].s.decode().split("_", 2)[-1]
        for part in metadata.partition_graphs
        for node in part.node
        if node.op == "_Recv"
    ]


def usual_model(optimizer: str, resource: bool) -> Callable[[], Sequence[Any]]:
    """A model with everything that scripts do to weights and gradients."""

    def build() -> Sequence[Any]:
        loss = loss_of(resource)
        return loss, clipped_step(STOCK[optimizer](), loss)

    return build
