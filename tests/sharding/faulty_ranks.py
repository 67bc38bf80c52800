"""A program for ranks of Horovod, one of which fails as the first argument says.

The second argument says how tables are looked up: by `number` of the row, or by `key`. With a
third one, `mpi`, ranks do not find the store of their launcher, as under MPI.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict

import numpy as np

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.compat.step_calls import own_message
from graph_opt.sharding.horovod_transport import horovod
from tests.horovod_processes import GLOO, be_started_by
from tests.sharding.guarded_model import build, torn

FAILS = 1
STEPS = 3
STALL_SECONDS = 2


def main(fault: str, lookup: str, launcher: str = GLOO) -> None:
    """Trains; says what the first step that failed has raised, and how long it took."""
    outlive_launcher()
    is_eager = fault in ("eager", "function", "tape")
    if is_eager:
        tf.enable_eager_execution()  # first, as TensorFlow 1.15 breaks functions after a session
    horovod().init()
    be_started_by(launcher)
    sok.init()
    mine = sok.rank() == FAILS
    if is_eager:
        look_up_eagerly(fault, mine)
        return
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.stall_seconds = STALL_SECONDS if fault == "slow" else 0
    with tf.Graph().as_default():
        raw = tf.placeholder(tf.int64, [None, 2])
        early = tf.placeholder_with_default(False, [])
        checked = tf.py_func(torn, [raw, early, "early"], tf.int64)
        checked.set_shape([None, 2])
        model = build(checked, "mean" if mine and fault == "differs" else "sum", lookup == "key")
        last = tf.placeholder_with_default(False, [])
        with tf.control_dependencies([model.train]):
            train = tf.group(tf.py_func(torn, [model.total, last, "last"], tf.float32))
        feeds: Dict[Any, Any] = {raw: np.array([[0, 1]])}
        with graph_opt.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            if fault != "differs":
                for _ in range(STEPS):
                    session.run(train, feeds)
            if mine:
                fail(fault)
            if fault == "twice":
                run_twice(lambda: session.run(train, feeds), mine)
                return
            feeds[early] = mine and fault == "early"
            feeds[model.fail_late] = mine and fault == "late"
            feeds[last] = mine and fault == "last"
            say_what(lambda: [session.run(train, feeds) for _ in range(STEPS)])
            if fault == "early":
                feeds[early] = False
                session.run(train, feeds)
                report("went on", "", 0)


def outlive_launcher() -> None:
    """Lets this rank say what it has raised: horovodrun ends all as soon as one has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def look_up_eagerly(fault: str, mine: bool) -> None:
    """The second rank leaves while the first looks something up, or sends its gradients."""
    table = sok.Variable(np.ones([5, 2], np.float32), name="table")

    def look_up() -> Any:
        ids = tf.RaggedTensor.from_row_lengths([1, 2], [2])
        return sok.lookup_sparse([table], [ids], combiners=["sum"])

    def train() -> Any:
        with tf.GradientTape() as tape:
            looked_up = look_up()
        if mine and fails:
            fail("raised")
        return tape.gradient(looked_up, table).values

    steps = {"eager": look_up, "function": tf.function(look_up), "tape": train}
    step, fails = steps[fault], False
    step()
    fails = True
    if mine and fault != "tape":
        fail("raised")
    say_what(step)


def run_twice(step: Callable[[], Any], mine: bool) -> None:
    """The second rank runs two steps at once, again and again."""

    def steps() -> None:
        while True:
            step()

    threads = [threading.Thread(target=say_what, args=(steps,)) for _ in range(1 + mine)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fail(fault: str) -> None:
    """Ends this rank between two steps, if it is to end there."""
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "raised":
        raise KeyError("no such feature")
    if fault == "left":
        sys.exit(0)
    if fault == "slow":
        threading.Event().wait(2 * STALL_SECONDS + 4)


def say_what(step: Callable[[], Any]) -> None:
    """Runs a step that fails."""
    begun = time.monotonic()
    try:
        step()
    except tf.errors.OpError as error:
        told = " ".join(own_message(error).splitlines())
        assert horovod().rank() == sok.rank() and horovod().size() == sok.num_ranks()
        report(type(error).__name__, told, time.monotonic() - begun)


def report(*what: Any) -> None:
    """Writes one line, whoever is about to end this process."""
    os.write(1, "rank {}: {}: {}: {:.1f} s\n".format(sok.rank(), *what).encode("utf-8"))


if __name__ == "__main__":
    main(*sys.argv[1:])
