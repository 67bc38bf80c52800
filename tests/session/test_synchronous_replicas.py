"""`tf.train.SyncReplicasOptimizer`: two workers train sliced tables in step, as by TensorFlow."""

from __future__ import annotations

import os
import threading
from typing import Any, List, Set

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.processes import kill, pipe, start_process
from tests.session.parameter_servers import free_addresses

SERVERS = WORKERS = 2
ROWS, WIDTH, BATCH, STEPS = 23, 4, 8, 12
LIMIT_SECONDS = 200.0


def one_batch() -> Any:
    """The same batch for all workers and steps: the losses then depend on the steps alone."""
    random = np.random.RandomState(5)
    batch = {
        "ids": random.randint(0, ROWS, [BATCH, 3]),
        "label": random.randint(0, 2, [BATCH]).astype(np.float32),
    }
    return tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(batch).repeat()).get_next()


def config(ahead: bool) -> Any:
    made = graph_opt.ConfigProto()
    options = made.graph_options.optimizer_options
    options.do_group_embedding, options.do_async_embedding = True, ahead
    options.async_embedding_options.threads_num = 1
    options.async_embedding_options.capacity = 1
    options.async_embedding_options.infer_io_stage = True
    return made


def train(target: str, task: int, wanted: Any, losses: List[float]) -> None:
    """One worker, which never ends: TensorFlow cannot close such sessions while others train."""
    setter = tf.train.replica_device_setter(
        SERVERS, worker_device="/job:worker/task:{}".format(task)
    )
    slices = tf.fixed_size_partitioner(SERVERS)
    with tf.Graph().as_default(), tf.device(setter), tf.variable_scope("", partitioner=slices):
        batch = one_batch()
        pooled = []
        for name in ("users", "items"):
            initializer = tf.random_uniform_initializer(-1, 1, seed=len(name))
            table = tf.get_variable(name, [ROWS, WIDTH], initializer=initializer)
            sparse = tf.sparse.from_dense(batch["ids"])
            pooled.append(tf.nn.safe_embedding_lookup_sparse(table, sparse))
        logits = tf.reduce_sum(tf.concat(pooled, axis=1), axis=1)
        loss = tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=batch["label"], logits=logits)
        )
        optimizer = tf.train.AdagradOptimizer(0.1)
        optimizer = tf.train.SyncReplicasOptimizer(optimizer, WORKERS, WORKERS)
        step = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        hooks = [optimizer.make_session_run_hook(task == 0)]
        api = tf if wanted is None else graph_opt
        with api.train.MonitoredTrainingSession(
            target, task == 0, hooks=hooks, config=wanted
        ) as session:
            while True:
                losses.append(float(session.run([loss, step])[0]))


def losses_of_steps(wanted: Any, messages: Any) -> None:
    """Sends the losses of the first steps; in a process of its own, whose end is that of all."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    graph_opt.load_op_library()
    addresses = free_addresses(SERVERS + WORKERS)
    cluster = tf.train.ClusterSpec({"ps": addresses[:SERVERS], "worker": addresses[SERVERS:]})
    servers = [
        tf.train.Server(cluster, job_name=job, task_index=task)
        for job, count in (("ps", SERVERS), ("worker", WORKERS))
        for task in range(count)
    ]
    losses: List[List[float]] = [[] for _ in range(WORKERS)]
    for task in range(WORKERS):
        arguments = (servers[SERVERS + task].target, task, wanted, losses[task])
        threading.Thread(target=train, args=arguments, daemon=True).start()
    seen: Set[float] = set()
    pause = threading.Event()
    while len(seen) < STEPS or not all(losses):
        pause.wait(0.05)
        seen = {round(loss, 5) for each in losses for loss in each}
    report = None if wanted is None else graph_opt.report()
    moved = 0 if report is None else len(report.moved)
    messages.send((sorted(seen, reverse=True)[:STEPS], moved))
    os._exit(0)


def run(wanted: Any) -> Any:
    messages, theirs = pipe()
    process = start_process(losses_of_steps, wanted, theirs)
    theirs.close()
    try:
        assert messages.poll(LIMIT_SECONDS), "the workers do not come to {} steps".format(STEPS)
        return messages.recv()
    finally:
        kill(process)


@pytest.mark.slow
def test_workers_in_step_have_tensorflows_losses() -> None:
    expected, _ = run(None)
    fused, _ = run(config(ahead=False))
    np.testing.assert_allclose(fused, expected, rtol=1e-4)
    ahead, moved = run(config(ahead=True))
    assert moved > 0
    # Rows miss a few updates, and all of them are made.
    assert ahead[0] == pytest.approx(expected[0], rel=1e-4) and ahead[-1] < expected[0]
