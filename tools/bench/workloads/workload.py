"""What a workload is, and its training and evaluation graphs.

Nothing here or in the models knows graph_opt: the graph of a stock run and that of an optimized
run are built by the same lines.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from tools.bench.cluster.loopback import Cluster

# TF1's Adagrad starts its sum of squares at 0.1. A row's gradient is a few ids' share of a batch,
# its square some 1e-8: with 0.1 in front of it the tables would hardly move in a short run.
ADAGRAD_INITIAL_SUM = 1e-5

INPUT_LAYER = tf.feature_column.input_layer

OPTIMIZERS: Dict[str, Callable[[float], Any]] = {
    "adagrad": lambda rate: tf.train.AdagradOptimizer(rate, ADAGRAD_INITIAL_SUM),
    "adam": tf.train.AdamOptimizer,
    "ftrl": tf.train.FtrlOptimizer,
    "momentum": lambda rate: tf.train.MomentumOptimizer(rate, momentum=0.9),
    "sgd": tf.train.GradientDescentOptimizer,
}


class Workload(NamedTuple):
    """A model and its data, each as a function that adds to the default graph.

    Attributes:
      name: for titles and file names.
      training_batches: makes the dataset trained on; its elements are (features, label [B, 1]).
        Given a `Part`, it makes that part.
      held_out_batches: makes the dataset scored on, read once.
      logits: turns (features, label) into the model's output [B, 1]. The label is there for its
        row count only. A third argument looks up embedding columns in place of `INPUT_LAYER`.
    """

    name: str
    training_batches: Callable[..., tf.data.Dataset]
    held_out_batches: Callable[[], tf.data.Dataset]
    logits: Callable[..., tf.Tensor]


class Learning(NamedTuple):
    """How a model is trained."""

    optimizer: str = "adagrad"
    learning_rate: float = 0.03
    seed: int = 1


class TrainingGraph(NamedTuple):
    """A complete training graph: running `train_op` does one step."""

    graph: tf.Graph
    train_op: tf.Operation
    loss: tf.Tensor
    global_step: tf.Variable


def training_graph(workload: Workload, learning: Learning, cluster: Cluster) -> TrainingGraph:
    """Builds the training graph: input, forward, loss, backward and update, summaries.

    Args:
      workload: model and data.
      learning: optimizer, learning rate and the seed of the initial values.
      cluster: where the variables live.
    """
    graph = tf.Graph()
    with graph.as_default(), tf.device(cluster.device):
        tf.set_random_seed(learning.seed)
        global_step = tf.train.get_or_create_global_step()
        features, label = next_batch(workload.training_batches())
        logits = workload.logits(features, label)
        loss = tf.losses.sigmoid_cross_entropy(label, logits)
        optimizer = OPTIMIZERS[learning.optimizer](learning.learning_rate)
        train_op = optimizer.minimize(loss, global_step)
        tf.summary.scalar("loss", loss)
        tf.summary.scalar("mean_prediction", tf.reduce_mean(tf.sigmoid(logits)))
    return TrainingGraph(graph, train_op, loss, global_step)


def evaluation_graph(workload: Workload) -> Tuple[tf.Graph, tf.Tensor, tf.Tensor]:
    """Builds the graph that scores the held-out rows: (graph, logits [B, 1], label [B, 1])."""
    graph = tf.Graph()
    with graph.as_default():
        features, label = next_batch(workload.held_out_batches())
        logits = workload.logits(features, label)
        tf.train.get_or_create_global_step()
    return graph, logits, label


def next_batch(dataset: tf.data.Dataset) -> Any:
    """The tensors of a dataset's next element."""
    return tf.data.make_one_shot_iterator(dataset).get_next()
