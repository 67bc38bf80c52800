"""The training graph of a rank: the models' own lines, with gradients that ranks share."""

from __future__ import annotations

import math
import re
from typing import Any, List, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tools.bench.collectives.modes import HOROVOD_DENSE, LOCAL, REPLICATED
from tools.bench.workloads.input_pipeline import Part
from tools.bench.workloads.workload import (
    OPTIMIZERS,
    Learning,
    TrainingGraph,
    Workload,
    next_batch,
)

_TABLE = re.compile("_table:0$|/embedding_weights:0$")


class TableOfColumn(NamedTuple):
    """A divided table.

    Attributes:
      column: name of the feature that it embeds.
      variable: this rank's part, a variable of `graph_opt.sok`.
    """

    column: str
    variable: Any


class RankGraph(NamedTuple):
    """A rank's training graph.

    Attributes:
      training: graph and train op.
      tables: the tables that are divided among ranks, none where every rank has all.
      dense: the trainable variables that are no tables.
      keys: how many ids the divided tables are asked for in a step, with repetitions, int64.
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
        layer = DividedInputLayer()
        if mode in REPLICATED:
            logits = workload.logits(features, label)
        else:
            logits = workload.logits(features, label, layer)
        loss = tf.losses.sigmoid_cross_entropy(label, logits)
        tf.summary.scalar("loss", loss)
        optimizer = OPTIMIZERS[learning.optimizer](learning.learning_rate)
        tables = [table.variable for table in layer.tables]
        dense = [each for each in tf.trainable_variables() if not _TABLE.search(each.name)]
        if mode in REPLICATED:
            if mode != LOCAL:
                optimizer = hvd.DistributedOptimizer(
                    optimizer, sparse_as_dense=mode == HOROVOD_DENSE
                )
            train_op = optimizer.minimize(loss, global_step)
        else:
            # The gradients of divided tables are summed over ranks, so the others are summed, too.
            gradients = tf.gradients(loss / hvd.size(), dense + tables)
            summed = [hvd.allreduce(each, op=hvd.Sum) for each in gradients[: len(dense)]]
            pairs = zip(summed + gradients[len(dense) :], dense + tables)
            train_op = optimizer.apply_gradients(pairs, global_step)
        keys = tf.add_n(layer.keys) if layer.keys else tf.constant(0, tf.int64)
    return RankGraph(TrainingGraph(graph, train_op, loss, global_step), layer.tables, dense, keys)


class DividedInputLayer:
    """`tf.feature_column.input_layer` over tables that are divided among ranks.

    Attributes:
      tables: the tables, in the order of their columns' results.
      keys: the number of ids of each column.
    """

    def __init__(self) -> None:
        self.tables: List[TableOfColumn] = []
        self.keys: List[tf.Tensor] = []

    def __call__(self, features: Any, columns: Sequence[Any]) -> tf.Tensor:
        """Looks up the embedding columns of the features, [B, sum of their widths]."""
        from graph_opt import sok

        columns = sorted(columns, key=lambda column: column.name)  # as `input_layer` does
        ids = [_ids(features, column.categorical_column) for column in columns]
        for column in columns:
            key, width = column.categorical_column.key, column.dimension
            variable = sok.Variable(
                shape=[column.categorical_column.num_buckets, width],
                initializer=tf.truncated_normal_initializer(stddev=1 / math.sqrt(width)),
                name=key + "_table",
            )
            self.tables.append(TableOfColumn(key, variable))
        self.keys = [tf.size(each.values, out_type=tf.int64) for each in ids]
        pooled = sok.lookup_sparse(
            [table.variable for table in self.tables],
            ids,
            combiners=[column.combiner for column in columns],
        )
        return tf.concat(pooled, axis=1)


def _ids(features: Any, column: Any) -> tf.SparseTensor:
    """The ids of a categorical column, as the column itself would find them."""
    values = features[column.key]
    if not hasattr(column, "hash_bucket_size"):
        return values
    texts: Tuple[tf.Tensor, tf.Tensor] = _without_empty(values)
    hashed = tf.strings.to_hash_bucket_fast(texts[1], column.hash_bucket_size)
    return tf.SparseTensor(texts[0], hashed, tf.shape(values, out_type=tf.int64))


def _without_empty(texts: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    places = tf.where(tf.not_equal(texts, ""))
    return places, tf.gather_nd(texts, places)
