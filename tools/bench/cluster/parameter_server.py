"""A parameter-server process: serves variables until the process that started it is gone.

    python -m tools.bench.cluster.parameter_server --task 0 --cluster '{"ps": [...], ...}'

The cluster is this server's own view: its own entry is where it listens, the others are where it
reaches them (see loopback.py). Prints `ready` once it serves; ends when its standard input is
closed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Optional, Sequence

import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.cluster.processes import wait_for_owner


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Serves until standard input is closed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cluster", type=json.loads, required=True, help="job -> addresses, JSON")
    parser.add_argument("--task", type=int, default=0, help="index of this server in job ps")
    options = parser.parse_args(arguments)
    graph_opt.load_op_library()  # lets workers ask for the rows of all tables at once
    server = tf.train.Server(
        tf.train.ClusterSpec(options.cluster), job_name="ps", task_index=options.task
    )
    print("ready", flush=True)
    wait_for_owner()
    del server
    # TensorFlow's gRPC server has no clean shutdown: leaving through the interpreter would wait
    # for its threads.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
