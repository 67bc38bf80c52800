"""Calls of TensorFlow that return while the interpreter ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A server that never answers resets its connections once the interpreter has begun to end.
SCRIPT = """
import socket, sys, threading, time
import tensorflow.compat.v1 as tf

listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
accepted, first = [], threading.Event()

def accept():
    while True:
        accepted.append(listening.accept()[0])
        accepted[-1].recv(1)
        first.set()

class AtEnd:
    def __del__(self, reset=[listening, accepted], sleep=time.sleep):
        reset[0].close()
        for connection in reset[1]:
            connection.close()
        sleep(3)  # The call returns meanwhile.

threading.Thread(target=accept, daemon=True).start()
sys.modules["at_end"] = AtEnd()
silent = "127.0.0.1:{}".format(listening.getsockname()[1])
tasks = tf.train.ClusterSpec({"ps": [silent], "worker": ["127.0.0.1:0"]})
server = tf.train.Server(tasks, "worker", 0)
graph = tf.Graph()
with graph.as_default():
    nothing = tf.no_op()
{call}
first.wait()
sys.exit(7)
"""


CALL = """
from graph_opt.ops.late_threads import start_thread
start_thread(lambda: tf.Session(server.target, graph).run(nothing))
"""
PROBE = """
from graph_opt.session.server_ops import differing_libraries
try:
    differing_libraries(server.target, ["/job:ps/task:0"], timeout_seconds=0.5)
except tf.errors.UnavailableError:
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("call", [CALL, PROBE], ids=["a call", "the search for our ops"])
def test_the_process_ends_with_its_own_exit_code(call: str) -> None:
    script = SCRIPT.replace("{call}", call)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 7, done.stderr
    assert "UNAVAILABLE" in done.stderr  # The call has returned.
