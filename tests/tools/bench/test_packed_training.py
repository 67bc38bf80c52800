"""On servers, dense weights and gradients travel in two calls a step, with the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, NamedTuple

import pytest
import tensorflow.compat.v1 as tf

import graph_opt
from tests.tools.bench.small_workloads import BATCH, wide
from tools.bench.cluster.loopback import start_cluster
from tools.bench.training.sessions import FUSED, session_config
from tools.bench.workloads.dlrm.generated import generated_files
from tools.bench.workloads.dlrm.model import ModelOptions
from tools.bench.workloads.dlrm.workload import DataFiles, dlrm_workload
from tools.bench.workloads.workload import Learning, Workload, training_graph

STEPS = 100


def dlrm(folder: Path, resource: bool) -> Workload:
    """As many layers as by default, but small ones."""
    training, held_out = generated_files(folder, 4000, 100, seed=3)
    options = ModelOptions(buckets=100, bottom=(16, 8, 8), top=(8, 8), resource_variables=resource)
    return dlrm_workload(DataFiles([str(training)], [str(held_out)], 0), options, BATCH)


class Run(NamedTuple):
    """A training run: its losses, what crosses between tasks in a step, and in how many calls."""

    losses: List[float]
    received: List[str]
    calls: int

    @property
    def dense(self) -> List[str]:
        """What of it are weights and gradients of dense layers, one by one or together."""
        kinds = ("/read", "gradients/", "pack_dense/", "ReadVariableOp")
        return [name for name in self.received if any(kind in name for kind in kinds)]


def trained(workload: Workload, servers: int, packs: bool) -> Run:
    with start_cluster(servers) as cluster:
        training = training_graph(workload, Learning("adagrad", 0.01), cluster)
        config = session_config(FUSED)
        config.graph_options.optimizer_options.pack_dense = packs
        step = (training.loss, training.train_op)
        with training.graph.as_default():
            initialize = tf.global_variables_initializer()
            tables = tf.tables_initializer()
            with graph_opt.Session(cluster.master, config=config) as session:
                session.run([initialize, tables])
                losses = [float(session.run(step)[0]) for _ in range(STEPS)]
                traces = [traced(session, step) for _ in range(3)]
    received = [
        node.attr["tensor_name"].s.decode()
        for part in traces[0].partition_graphs
        for node in part.node
        if node.op == "_Recv"
    ]
    # A busy machine notes some calls only after the trace was collected.
    return Run(losses, received, max(map(calls_in, traces)))


def calls_in(metadata: Any) -> int:
    """How many calls for tensors a trace has."""
    return sum(
        node.node_name == "RecvTensor"
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
    )


def traced(session: Any, fetches: Any) -> Any:
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True, trace_level=tf.RunOptions.FULL_TRACE)
    session.run(fetches, options=options, run_metadata=metadata)
    return metadata


@pytest.mark.slow
@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("resource", [False, True])
def test_28_calls_of_dlrm_become_2_for_each_server(
    tmp_path: Path, resource: bool, servers: int
) -> None:
    workload = dlrm(tmp_path, resource)
    alone = trained(workload, servers, packs=False)
    packed = trained(workload, servers, packs=True)
    assert len(alone.dense) == 28
    assert len(packed.dense) == 2 * servers
    # The learning rate travels with gradients; TensorFlow copies it where it has several readers.
    rates = 1 if servers == 1 else 0
    assert alone.calls - packed.calls == 28 + rates - 2 * servers
    assert packed.losses == alone.losses


@pytest.mark.slow
def test_wide_needs_two_calls_for_its_dense_layers(tmp_path: Path) -> None:
    workload = wide(tmp_path, columns=20)
    alone = trained(workload, 1, packs=False)
    packed = trained(workload, 1, packs=True)
    assert len(packed.dense) == 2 and len(packed.dense) < len(alone.dense) // 2
    assert packed.losses == alone.losses
