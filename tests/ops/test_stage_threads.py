"""Threads of their own for the fused lookups that run ahead, in sessions of both kinds."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, List, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.runtime import thread_priority
from tests.runtime.sources import wait_until
from tests.session.small_model import (
    async_config,
    initialize,
    report_on,
    run_to_end,
    small_model,
    stock_losses,
)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or thread_priority.cores() == 1,
    reason="threads have no priority there, or nothing to step back for",
)

NICE = os.getpriority(os.PRIO_PROCESS, os.getpid())


@pytest.fixture(scope="module")
def server() -> Any:
    return tf.train.Server.create_local_server()


def fused_config(intra_op_threads: int = 0) -> Any:
    config = async_config()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    if intra_op_threads:
        config.session_stage_subgraph_thread_pool.add().intra_op_threads_num = intra_op_threads
        options.async_embedding_options.use_stage_subgraph_thread_pool = True
    return config


def stage_threads() -> List[Tuple[int, int]]:
    """(policy, nice value) of each thread of a stage's pool in this process."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text() == "graph_opt/stage\n":
                thread = int(task.name)
                nice = os.getpriority(os.PRIO_PROCESS, thread)
                found.append((os.sched_getscheduler(thread), nice))
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
    return found


def cpu_of(target: str) -> str:
    with tf.Session(target) as session:
        name: str = session.list_devices()[0].name
        return name


def train(target: str, config: Any, thread: Tuple[int, int], new: int) -> List[float]:
    """The losses of all steps, once so many threads of this priority have come."""
    before = stage_threads().count(thread)
    with tf.Graph().as_default():
        with tf.device(cpu_of(target) if target else None):
            model = small_model()
        with graph_opt.Session(target, config=config) as session:
            initialize(session, model)
            first = session.run([model.loss, model.train_op])
            wait_until(lambda: stage_threads().count(thread) == before + new, "threads of a pool")
            return [loss for loss, _ in [first, *run_to_end(session, [model.loss, model.train_op])]]


def test_lookups_on_a_server_yield_to_main(server: Any) -> None:
    config = fused_config()
    config.graph_options.optimizer_options.async_embedding_options.prefetch_priority = 7
    losses = train(server.target, config, (os.SCHED_OTHER, min(19, NICE + 7)), new=1)
    np.testing.assert_array_equal(losses, stock_losses())


@pytest.mark.slow
def test_lookups_that_need_not_yield_stay_on_the_servers_threads(server: Any) -> None:
    config = fused_config()
    config.graph_options.optimizer_options.async_embedding_options.prefetch_priority = 0
    before = stage_threads()
    with tf.Graph().as_default():
        model = small_model()
        with graph_opt.Session(server.target, config=config) as session:
            initialize(session, model)
            losses = [loss for loss, _ in run_to_end(session, [model.loss, model.train_op])]
    np.testing.assert_array_equal(losses, stock_losses())
    assert stage_threads() == before


@pytest.mark.parametrize(
    "on_server, threads", [(False, 3), pytest.param(True, 5, marks=pytest.mark.slow)]
)
def test_a_pool_has_as_many_threads_within_an_op_as_it_says(
    on_server: bool, threads: int, server: Any
) -> None:
    config = fused_config(threads)
    target = server.target if on_server else ""
    losses = train(target, config, (os.SCHED_OTHER, NICE), new=threads)
    np.testing.assert_array_equal(losses, stock_losses())


def test_an_error_in_such_a_thread_reaches_the_step() -> None:
    config = fused_config(2)
    users = tf.get_variable("users", [5, 2])
    ids = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensors([1, 9])).get_next()
    rows = tf.nn.embedding_lookup(users, ids)
    with graph_opt.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="9"):
            session.run(rows)


def test_lookups_that_are_not_ours_are_told_of() -> None:
    config = fused_config(2)
    config.graph_options.optimizer_options.do_group_embedding = False
    model = small_model()
    with graph_opt.Session(config=config) as session:
        initialize(session, model)
        session.run(model.loss)
    assert any("intra_op_threads_num" in line for line in report_on(session.graph).warnings)
