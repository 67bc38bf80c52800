"""A process that trains two steps and prints the CPU seconds that it has used by then."""

from __future__ import annotations

import sys

import tensorflow.compat.v1 as tf

from tools.bench.cluster.loopback import Cluster
from tools.bench.cluster.processes import own_cpu_seconds
from tools.bench.overhead.start import BATCH
from tools.bench.training.contenders import Setting, open_trainer
from tools.bench.workloads.measured import dlrm
from tools.bench.workloads.workload import Learning, training_graph


def main(mode: str, quick: bool) -> None:
    """Trains in a mode of `sessions.MODES`."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    workload, cluster = dlrm(BATCH, quick), Cluster()
    training = training_graph(workload, Learning(), cluster)
    with open_trainer(Setting(workload), mode, training, cluster) as trainer:
        trainer.run(2)
        print(own_cpu_seconds())


if __name__ == "__main__":
    main(sys.argv[1], bool(int(sys.argv[2])))
