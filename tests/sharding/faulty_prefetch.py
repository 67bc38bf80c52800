"""A program for ranks of Horovod that prefetch, one of which fails as the argument says."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import horovod
from tests.sharding.faulty_ranks import FAILS, outlive_launcher, say_what
from tests.sharding.guarded_model import torn
from tests.sharding.prefetched_ranks import prefetching, rank_dataset, rank_model

THREADS, CAPACITY = 2, 2
BATCHES = 40


class Torn(tf.train.GradientDescentOptimizer):
    """Has an error in place of the gradients of a step, if it is told so."""

    def __init__(self, fails: Any) -> None:
        super().__init__(0.0)
        self._fails = fails

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
        """See `tf.train.Optimizer`."""
        ones = tf.py_func(torn, [tf.ones_like(loss), self._fails, "late"], tf.float32)
        return super().compute_gradients(loss, *args, **dict(kwargs, grad_loss=ones))


def main(fault: str) -> None:
    """Trains until a step fails; says what it has raised, and how long it took."""
    outlive_launcher()
    horovod().init()
    sok.init()
    mine = sok.rank() == FAILS
    config = prefetching(
        THREADS + (mine and fault == "threads"), CAPACITY + (mine and fault == "capacity")
    )
    with tf.Graph().as_default():
        fails = tf.placeholder_with_default(False, [])
        model = rank_model(rank_dataset(sok.rank(), BATCHES), Torn(fails))
        tables, others = sok.filter_variables(tf.global_variables())
        with graph_opt.Session(config=config) as session:
            # Rows are first missed where other ranks ask for them.
            forgotten = mine and fault == "uninitialized"
            session.run(tf.variables_initializer(others if forgotten else others + tables))
            session.run(model.iterator.initializer)
            if fault in ("late", "killed"):
                for _ in range(3):
                    session.run(model.train_op)
            if fault == "killed" and mine:
                os.kill(os.getpid(), signal.SIGKILL)

            def steps() -> None:
                while True:
                    session.run(model.train_op, {fails: mine and fault == "late"})

            say_what(steps)


if __name__ == "__main__":
    main(sys.argv[1])
