"""The training graph of a rank: the models' own lines, with gradients that ranks share."""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple

import tensorflow.compat.v1 as tf

from tools.bench.collectives.input_layers import (
    InputLayer,
    LayerOfGraphOpt,
    ShardedInputLayer,
    TableOfColumn,
)
from tools.bench.collectives.modes import (
    HOROVOD_DENSE,
    LOCAL,
    LOCAL_STOCK,
    OURS_DE,
    OURS_DE_FUSED,
    REPLICATED,
    THEIR_DE,
)
from tools.bench.collectives.stock_messages import LayerOfStockOps
from tools.bench.workloads.input_pipeline import Part
from tools.bench.workloads.workload import (
    OPTIMIZERS,
    Learning,
    TrainingGraph,
    Workload,
    next_batch,
)

_TABLE = re.compile("/embedding_weights:0$")
# All other modes have `ShardedInputLayer`.
_LAYERS: Dict[str, Any] = {
    OURS_DE: LayerOfGraphOpt,
    OURS_DE_FUSED: LayerOfGraphOpt,
    THEIR_DE: LayerOfStockOps,
}


class RankGraph(NamedTuple):
    """A rank's training graph.

    Attributes:
      training: graph and train op.
      tables: the tables that are sharded across ranks one by one.
      dense: the trainable variables that are no tables.
      keys: how many ids the sharded tables are asked for in a step, with repetitions, int64.
    """

    training: TrainingGraph
    tables: List[TableOfColumn]
    dense: List[Any]
    keys: tf.Tensor


def rank_graph(workload: Workload, learning: Learning, mode: str) -> RankGraph:
    """Builds the graph; Horovod and `graph_opt.sok` must be initialized.

    All ranks together train on the mean loss over all their rows. Variables start alike on all
    ranks, since these build the same graph with the same seed.

    Args:
      workload: model and data, of which each rank takes its part.
      learning: optimizer, learning rate and the seed of the initial values.
      mode: one of `modes`.
    """
    import horovod.tensorflow as hvd

    part = Part(hvd.rank(), hvd.size())
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(learning.seed)
        global_step = tf.train.get_or_create_global_step()
        features, label = next_batch(workload.training_batches(part))
        layer: InputLayer = _LAYERS.get(mode, ShardedInputLayer)()
        if mode in REPLICATED:
            logits = workload.logits(features, label)
        else:
            logits = workload.logits(features, label, layer)
        loss = tf.losses.sigmoid_cross_entropy(label, logits)
        tf.summary.scalar("loss", loss)
        optimizer = OPTIMIZERS[learning.optimizer](learning.learning_rate)
        divided = {variable.name for variable in layer.variables}
        dense = [
            each
            for each in tf.trainable_variables()
            if each.name not in divided and not _TABLE.search(each.name)
        ]
        if mode in REPLICATED:
            if mode not in (LOCAL, LOCAL_STOCK):
                optimizer = hvd.DistributedOptimizer(
                    optimizer, sparse_as_dense=mode == HOROVOD_DENSE
                )
            train_op = optimizer.minimize(loss, global_step)
        else:
            # The gradients of sharded tables are summed over ranks, so the others are summed, too.
            trained = dense + layer.variables
            gradients = tf.gradients(loss / hvd.size(), trained)
            summed = gradients[: len(dense)]
            if hvd.size() > 1:  # as hvd.DistributedOptimizer does
                summed = [
                    hvd.allreduce(each, op=hvd.Sum, name="dense_{}".format(place))
                    for place, each in enumerate(summed)
                ]
            pairs = zip(summed + gradients[len(dense) :], trained)
            train_op = optimizer.apply_gradients(pairs, global_step)
        keys = tf.add_n(layer.keys) if layer.keys else tf.constant(0, tf.int64)
    return RankGraph(TrainingGraph(graph, train_op, loss, global_step), layer.tables, dense, keys)
