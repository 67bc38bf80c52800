"""A process ends cleanly whatever its prefetch threads do."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Sessions that prefetch are tested so in tests/session/test_interrupt.py; these do it by hooks.
pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 600
INTERRUPT_SECONDS = 60.0  # two on an idle machine

PROGRAM = """
import signal
import sys
from graph_opt.compat import tf
from graph_opt.runtime.staged import staged
from graph_opt.session.prefetch_hook import make_prefetch_hook

numbers = tf.data.make_one_shot_iterator(tf.data.Dataset.range(2**40)).get_next()
taken = staged(staged(numbers, capacity=2), num_threads=4)
# A process started in the background may have inherited an ignored SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
LEAVES_THE_SESSION_OPEN = """
session = tf.Session()
make_prefetch_hook().after_create_session(session)
session.run(taken)
sys.exit(3)
"""
# The source goes on once the interpreter has begun to end.
ENDS_BEFORE_ITS_SOURCE = """
import time

class AtEnd:
    def __init__(self, put):
        self.put = put

    def __del__(self, sleep=time.sleep):
        self.put()
        sleep(2)  # The step of the stage's thread ends meanwhile.

source = tf.FIFOQueue(8, tf.int64, [[]])
fed = staged(source.dequeue(), name="fed")
put = source.enqueue(1)
session = tf.Session()
session.run(put)
make_prefetch_hook().after_create_session(session)
assert session.run(fed) == 1
sys.modules["at_end"] = AtEnd(session.make_callable(put))
sys.exit(3)
"""
TRAINS_UNTIL_INTERRUPTED = """
with tf.train.MonitoredTrainingSession(hooks=[make_prefetch_hook()]) as session:
    session.run(taken)
    print("training", flush=True)
    while True:
        session.run(taken)
"""


def start(rest: str) -> subprocess.Popen:
    """Runs the program, followed by the given code, in a separate process."""
    setup = "import graph_opt.compat\ngraph_opt.compat.tf.disable_v2_behavior()\n"
    return subprocess.Popen(
        [sys.executable, "-c", setup + PROGRAM + rest],
        cwd=str(REPOSITORY),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize(
    "rest",
    [LEAVES_THE_SESSION_OPEN, ENDS_BEFORE_ITS_SOURCE],
    ids=["at once", "before its source"],
)
def test_a_session_left_open_does_not_disturb_the_exit(rest: str) -> None:
    process = start(rest)
    _, errors = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 3, errors.decode("utf-8")[-2000:]


def test_an_interrupt_ends_training_within_seconds() -> None:
    process = start(TRAINS_UNTIL_INTERRUPTED)
    assert process.stdout is not None
    assert process.stdout.readline() == b"training\n"
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=START_SECONDS)
    assert time.monotonic() - sent < INTERRUPT_SECONDS
    assert errors.decode("utf-8").rstrip().endswith("KeyboardInterrupt")
