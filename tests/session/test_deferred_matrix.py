"""Trajectories of deferred updates in every combination, against those of TensorFlow.

Gradients do not depend on the rows that were read, so that prefetching, which reads rows a few
steps early, must not change what is trained.
"""

from __future__ import annotations

import functools
import itertools
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple

import pytest

import graph_opt
from graph_opt.compat import tf
from tests.session.deferred_model import ModelOptions, assert_same, deferred_model
from tests.session.deferred_scripts import all_values, train, values_in
from tests.session.deferred_sessions import assert_deferred, fused_config
from tests.session.parameter_servers import free_addresses, parameter_servers

KERAS = ("keras_adam", "keras_adamax")
DEFERRED = ("adam", "keras_adam")
OPTIMIZERS = ("adam", "keras_adam", "keras_adamax", "adagrad", "momentum")
QUICK_STEPS, STEPS, READS = 40, 2000, 10


class Combination(NamedTuple):
    """One way to train."""

    optimizer: str
    use_resource: bool
    on_server: bool
    prefetch: bool
    decay: bool
    clip: bool

    @property
    def options(self) -> ModelOptions:
        return ModelOptions(
            self.optimizer, self.use_resource, linear=True, clip=self.clip, decay=self.decay
        )


QUICK = (
    Combination("adam", False, False, True, False, True),
    Combination("keras_adamax", True, True, False, True, False),
    Combination("momentum", False, False, False, True, True),
)
ALL = tuple(
    combination
    for combination in itertools.starmap(
        Combination, itertools.product(OPTIMIZERS, *[[False, True]] * 5)
    )
    if combination.use_resource or combination.optimizer not in KERAS
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The target of a worker in this process, with a parameter server in another."""
    ps, worker = free_addresses(2)
    addresses = {"ps": [ps], "worker": [worker]}
    with parameter_servers(addresses, has_ops=[True]):
        spec = tf.train.ClusterSpec(addresses)
        yield tf.train.Server(spec, job_name="worker", task_index=0).target


@functools.lru_cache(maxsize=None)
def expected(options: ModelOptions, steps: int) -> List[Dict[str, Any]]:
    """What checkpoints of TensorFlow hold, at `READS` points."""
    with tf.Graph().as_default(), tempfile.TemporaryDirectory() as folder:
        return list(checkpoints(tf.Session, options, steps, Path(folder)))


def checkpoints(
    opened: Any, options: ModelOptions, steps: int, folder: Path
) -> Iterator[Dict[str, Any]]:
    model, saver = deferred_model(options, steps=steps), tf.train.Saver(max_to_keep=1)
    with opened() as session:
        session.run(tf.global_variables_initializer())
        for number in range(READS):
            train(session, model, steps // READS)
            yield values_in(saver.save(session, str(folder / "model"), number))
        yield all_values(session)


def check(combination: Combination, steps: int, server: str, folder: Path) -> None:
    options = combination.options
    wanted = expected(options, steps)
    target = server if combination.on_server else ""
    if combination.on_server:
        options = options.placed("/job:ps/task:0")
    config = fused_config(combination.prefetch)
    opened = functools.partial(graph_opt.Session, target, config=config)
    with tf.Graph().as_default() as graph:
        for place, found in enumerate(checkpoints(opened, options, steps, folder)):
            assert_same(found, wanted[place], what="read {}".format(place))
        if combination.optimizer in DEFERRED:
            assert_deferred(graph)


@pytest.mark.parametrize("combination", QUICK, ids=lambda each: "-".join(map(str, each)))
def test_checkpoints_hold_what_they_hold_with_tensorflow(
    combination: Combination, server: str, tmp_path: Path
) -> None:
    check(combination, QUICK_STEPS, server, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("combination", ALL, ids=lambda each: "-".join(map(str, each)))
def test_they_do_after_many_steps(combination: Combination, server: str, tmp_path: Path) -> None:
    check(combination, STEPS, server, tmp_path)
