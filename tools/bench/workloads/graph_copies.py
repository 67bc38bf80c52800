"""A training graph many times over, for sessions that run side by side.

graph_opt rewrites the graph of its session, so each needs one of its own. Python builds the 20,000
nodes of `wide` in four seconds; from a MetaGraphDef they are there in less than one.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from tools.bench.workloads.workload import TrainingGraph


class GraphCopies:
    """Copies of a training graph.

    Args:
      training: the graph, not rewritten. It gets the saver that a monitored session would add.

    Example:
      >>> copies = GraphCopies(training_graph(workload, Learning(), Cluster()))
      >>> trained = [copies.copy() for _ in MODES]
    """

    def __init__(self, training: TrainingGraph) -> None:
        self._train_op = training.train_op.name
        self._loss = training.loss.name
        with training.graph.as_default():
            # Without one in the file, TensorFlow would add a saver while it reads the file, too.
            saver = tf.train.Saver(sharded=True, allow_empty=True)
            tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
            self._meta_graph = tf.train.export_meta_graph(saver_def=saver.as_saver_def())

    def copy(self) -> TrainingGraph:
        """One more copy."""
        graph = tf.Graph()
        with graph.as_default():
            tf.train.import_meta_graph(self._meta_graph)
        return TrainingGraph(
            graph,
            graph.get_operation_by_name(self._train_op),
            graph.get_tensor_by_name(self._loss),
            tf.train.get_global_step(graph),
        )
