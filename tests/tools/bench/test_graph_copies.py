"""A copied training graph is the graph that was built, and trains like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

from graph_opt.compat import tf
from tests.tools.bench import small_workloads
from tools.bench.cluster.loopback import Cluster
from tools.bench.workloads.graph_copies import GraphCopies
from tools.bench.workloads.workload import Learning, TrainingGraph, training_graph


def trained(training: TrainingGraph) -> List[Any]:
    """The losses of three steps, and the number of the last one."""
    with training.graph.as_default(), tf.train.MonitoredTrainingSession() as session:
        losses = [session.run([training.loss, training.train_op])[0] for _ in range(3)]
        return [*losses, session.run(training.global_step)]


def test_copies_train_like_the_graph(tmp_path: Path) -> None:
    built = training_graph(small_workloads.wide(tmp_path, 3), Learning(), Cluster())
    copies = GraphCopies(built)
    first, second = copies.copy(), copies.copy()
    nodes = {node.name: node for node in built.graph.as_graph_def().node}
    assert nodes == {node.name: node for node in first.graph.as_graph_def().node}
    expected = trained(built)
    assert expected[-1] == 3 and len(set(expected[:3])) == 3
    assert trained(first) == trained(second) == expected
    # Monitored sessions use the saver that was copied.
    assert len(first.graph.get_collection(tf.GraphKeys.SAVERS)) == 1
