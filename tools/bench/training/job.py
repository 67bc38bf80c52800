"""Training a workload to the end: session, progress, checkpoints, score."""

from __future__ import annotations

import contextlib
import tempfile
import time
from typing import Any, Dict, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from tools.bench.cluster.loopback import Cluster, start_cluster
from tools.bench.training.progress import ProgressHook
from tools.bench.training.sessions import (
    ONLY_AT_THE_END,
    PREFETCHING_MODES,
    STOCK,
    SessionOptions,
    open_training_session,
)
from tools.bench.workloads.scoring import Score, evaluate
from tools.bench.workloads.workload import Learning, TrainingGraph, Workload, training_graph


class Job(NamedTuple):
    """A training run.

    Attributes:
      workload: model and data.
      learning: optimizer, rate, seed.
      session: mode, prefetching, checkpoints.
      steps: steps to train; 0: to the end of the data.
      servers: parameter-server processes; 0: none.
      delay_ms: latency each way to the parameter servers.
    """

    workload: Workload
    learning: Learning
    session: SessionOptions
    steps: int
    servers: int = 0
    delay_ms: float = 0.0


class Outcome(NamedTuple):
    """What a training run came to.

    Attributes:
      steps: steps trained.
      seconds: wall time of these steps.
      score: on the held-out rows.
      report: what graph_opt's passes found and did; None in stock mode.
      metrics: who waited for whom, by stage; empty where no lookup runs ahead.
    """

    steps: int
    seconds: float
    score: Score
    report: Optional[Any]
    metrics: Dict[str, Dict[str, int]]


def train(job: Job) -> Outcome:
    """Trains, then scores the last checkpoint.

    Raises:
      tools.bench.cluster.processes.ProcessEnded: a parameter server died.
      tf.errors.InvalidArgumentError: a row of the data is malformed.
    """
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(start_cluster(job.servers, job.delay_ms))
        session_options = job.session
        if session_options.checkpoint_directory is None:
            session_options = session_options._replace(
                checkpoint_directory=stack.enter_context(tempfile.TemporaryDirectory()),
                checkpoint_steps=ONLY_AT_THE_END,  # for the score alone: nobody can go on from it
                summary_steps=0,
            )
        training = training_graph(job.workload, job.learning, cluster)
        steps, seconds, metrics = _run(job, session_options, cluster, training)
        score = evaluate(job.workload, str(session_options.checkpoint_directory))
    if job.session.mode == STOCK:
        return Outcome(steps, seconds, score, None, metrics)
    import graph_opt

    return Outcome(steps, seconds, score, graph_opt.report(training.graph), metrics)


def _run(
    job: Job, options: SessionOptions, cluster: Cluster, training: TrainingGraph
) -> Tuple[int, float, Dict[str, Dict[str, int]]]:
    """Steps, seconds and metrics of a training."""
    progress = ProgressHook(job.steps or None, training.loss, f"{job.workload.name} {options.mode}")
    hooks = [progress] + ([tf.train.StopAtStepHook(num_steps=job.steps)] if job.steps else [])
    with training.graph.as_default(), contextlib.closing(progress):
        with open_training_session(options, cluster, hooks) as session:
            start = time.perf_counter()
            steps = _run_to_end(session, training.train_op)
            seconds = time.perf_counter() - start
            metrics = _metrics(session) if options.mode in PREFETCHING_MODES else {}
    return steps, seconds, metrics


def _run_to_end(session: Any, train_op: tf.Operation) -> int:
    steps = 0
    while not session.should_stop():
        try:
            session.run(train_op)
        except tf.errors.OutOfRangeError:  # the end of the data
            break
        steps += 1
    return steps


def _metrics(session: Any) -> Dict[str, Dict[str, int]]:
    import graph_opt

    return dict(graph_opt.metrics(session))
