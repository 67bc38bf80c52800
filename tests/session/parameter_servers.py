"""Parameter servers as processes of their own, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Dict, Iterator, List

REPOSITORY = Path(__file__).resolve().parents[2]

_PROGRAM = """
import json, sys
import tensorflow.compat.v1 as tf
cluster, task, has_ops = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "ops"
if has_ops:
    import graph_opt
    graph_opt.load_op_library()
server = tf.train.Server(tf.train.ClusterSpec(cluster), job_name="ps", task_index=task)
print("ready", flush=True)
sys.stdin.read()  # until the test closes it, or is gone
"""


def free_addresses(count: int) -> List[str]:
    """Addresses that the operating system chose and nobody listens on."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        return ["localhost:{}".format(each.getsockname()[1]) for each in sockets]


@contextlib.contextmanager
def parameter_servers(
    cluster: Dict[str, List[str]], has_ops: List[bool]
) -> Iterator[List[subprocess.Popen]]:
    """Starts the first tasks of job ps, ready for use, and ends them.

    Args:
      cluster: Addresses by job.
      has_ops: For each task whether it loads graph_opt's ops, or is stock TensorFlow.
    """
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(cluster), str(task), "ops" * loads],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=str(REPOSITORY),
            env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3"),
        )
        for task, loads in enumerate(has_ops)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == b"ready"
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()
