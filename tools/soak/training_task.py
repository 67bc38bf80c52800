"""One task of a cluster that trains a small DLRM, and notes which batches it used.

    graph-opt cluster --ps 2 --workers 2 --config configs/async_and_group_embedding.pbtxt \
        training_task.py --folder FOLDER

It knows nothing of graph_opt. Each batch has a number, which the source notes when it hands the
batch out, and the worker when a step has used it (`batch_notes.py` says how they must agree).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any, Callable, List, Tuple

import numpy as np
import tensorflow as tf

TABLES, COLUMNS, COUNTERS, BAG = 6, 8, 4, 2


class Notes:
    """A file of one process, a note in each line.

    Args:
      folder: Where it is.
      task: The task's name; the file's begins with it.
    """

    def __init__(self, folder: str, task: str) -> None:
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "{}.{}.txt".format(task, os.getpid()))
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, note: str, number: int) -> None:
        """Writes a note at once, so that it is there whatever ends the process."""
        os.write(self._file, "{} {}\n".format(note, number).encode())


class NoteSteps(tf.train.SessionRunHook):
    """Notes where a session's life begins, and the batch of each of its steps.

    Args:
      notes: Where to.
      batch: The number of the batch that a step uses.
    """

    def __init__(self, notes: Notes, batch: tf.Tensor) -> None:
        self._notes = notes
        self._batch = batch
        self._step = tf.train.get_or_create_global_step()

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """A session's life begins."""
        del coord
        self._notes.add("life", session.run(self._step))

    def before_run(self, run_context: Any) -> Any:
        """Asks for the batch's number."""
        return tf.train.SessionRunArgs(self._batch)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """The step is done."""
        self._notes.add("used", run_values.results)


def batches(
    count: int, rows: int, size: int, noted: Callable[[int], int]
) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """The next batch: its number, ids [B, TABLES, BAG], counters [B, COUNTERS], labels [B, 1]."""

    def made(number: Any) -> List[np.ndarray]:
        random = np.random.RandomState(number % (1 << 32))
        ids = random.zipf(1.2, [size, TABLES, BAG]) % rows
        labels = (ids[:, 0, :1] % 2 == 0).astype(np.float32)
        counters = random.rand(size, COUNTERS).astype(np.float32)
        return [np.int64(noted(int(number))), ids.astype(np.int64), counters, labels]

    kinds = [tf.int64, tf.int64, tf.float32, tf.float32]
    shapes = [[], [size, TABLES, BAG], [size, COUNTERS], [size, 1]]

    def batch(number: tf.Tensor) -> List[tf.Tensor]:
        parts = tf.numpy_function(made, [number], kinds)
        for part, shape in zip(parts, shapes):
            part.set_shape(shape)
        return parts

    numbers = tf.data.Dataset.range(count if count else sys.maxsize)
    return tf.data.make_one_shot_iterator(numbers.map(batch)).get_next()


def loss_of(
    ids: tf.Tensor, counters: tf.Tensor, labels: tf.Tensor, rows: int, servers: int
) -> tf.Tensor:
    """The mean loss of a small DLRM."""
    partitioner = tf.fixed_size_partitioner(servers)
    vectors = [tf.layers.dense(counters, COLUMNS, tf.nn.relu, name="bottom")]
    for number in range(TABLES):
        name = "table_{}".format(number)
        table = tf.get_variable(name, [rows, COLUMNS], partitioner=partitioner)
        bags = tf.SparseTensor(
            tf.where(tf.ones_like(ids[:, number])),
            tf.reshape(ids[:, number], [-1]),
            [int(ids.shape[0]), BAG],
        )
        vectors.append(tf.nn.embedding_lookup_sparse(table, bags, None, combiner="sum"))
    hidden = tf.layers.dense(tf.concat(vectors, 1), 32, tf.nn.relu, name="hidden")
    logits = tf.layers.dense(hidden, 1, name="logits")
    return tf.losses.sigmoid_cross_entropy(labels, logits)


def train(server: tf.train.Server, place: tf.estimator.RunConfig, args: Any) -> None:
    """Trains until `--steps`, the end of the input, or the file `stop` in the folder."""
    task = "{}_{}".format(place.task_type, place.task_id)
    notes = Notes(os.path.join(args.folder, "batches"), task)

    def noted(number: int) -> int:
        notes.add("made", number)
        return number

    worker = "/job:{}/task:{}".format(place.task_type, place.task_id)
    servers = len(place.cluster_spec.job_tasks("ps"))
    with tf.device(
        tf.train.replica_device_setter(worker_device=worker, cluster=place.cluster_spec)
    ):
        is_short = args.short is not None and task == args.short
        number, ids, counters, labels = batches(
            args.short_batches if is_short else args.batches, args.rows, args.size, noted
        )
        step = tf.train.get_or_create_global_step()
        loss = loss_of(ids, counters, labels, args.rows, servers)
        train_op = tf.train.AdagradOptimizer(0.05).minimize(loss, step)
    hooks = [NoteSteps(notes, number)]
    if args.steps:
        hooks.append(tf.train.StopAtStepHook(last_step=args.steps))
    stop = os.path.join(args.folder, "stop")
    with tf.train.MonitoredTrainingSession(
        server.target,
        place.is_chief,
        os.path.join(args.folder, "model"),
        hooks=hooks,
        save_checkpoint_secs=args.checkpoint_secs,
        save_summaries_steps=None,
        log_step_count_steps=None,
    ) as session:
        while not session.should_stop() and not os.path.exists(stop):
            count, value, _ = session.run([step, loss, train_op])
            time.sleep(args.pause_ms / 1e3)  # Cores are few, and others want to start again.
            if count % 200 < 2:
                print("step {}: loss {:.4f}".format(count, value), flush=True)
    print("trained", flush=True)


def main() -> None:
    """Trains; or, as a parameter server, serves until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="for checkpoints and notes")
    parser.add_argument("--steps", type=int, default=0, help="0: no end")
    parser.add_argument("--batches", type=int, default=0, help="of each worker, 0: no end")
    parser.add_argument("--short", help="a worker that has fewer batches, such as worker_0")
    parser.add_argument("--short-batches", type=int, default=100)
    parser.add_argument("--pause-ms", type=float, default=20.0, help="between two steps")
    parser.add_argument("--rows", type=int, default=1000, help="of each table")
    parser.add_argument("--size", type=int, default=64, help="rows of a batch")
    parser.add_argument("--checkpoint-secs", type=float, default=2.0)
    args = parser.parse_args()
    tf.logging.set_verbosity(tf.logging.WARN)
    place = tf.estimator.RunConfig()
    server = tf.train.Server(place.cluster_spec, place.task_type, place.task_id)
    if place.task_type == "ps":
        server.join()
    train(server, place, args)


main()
