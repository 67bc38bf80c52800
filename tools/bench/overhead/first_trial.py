"""The longest step of main while a stage finds out who runs its steps, for which main waits.

After 16 steps that main waited for, a stage tries the session's threads. It has many lookups, so
that compiling its step for them would stop the session for as long as in a large model, and main
has nothing else to do.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import Any, List

import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.records import Goal, Outcome, from_runs
from tools.bench.training.sessions import ASYNC, Prefetching, session_config

WORKLOAD = "many lookups"
LOOKUPS, IDS = 200, 4096
ROUNDS = 5
FIRST, LAST = 4, 100
# Others use the machine, too: a step among so many takes a few times as long as most.
GOAL = Goal("<=", 4.0)


def measure(quick: bool) -> Outcome:
    """Opens a new session in each round."""
    lookups = 2 if quick else LOOKUPS
    longest = [_longest_ratio(lookups) for _ in range(1 if quick else ROUNDS)]
    params = {"lookups": lookups, "steps": LAST - FIRST}
    return Outcome((from_runs("longest_step_ratio", WORKLOAD, ASYNC, params, longest, "", GOAL),))


def _longest_ratio(lookups: int) -> float:
    with tf.Graph().as_default() as graph:
        result, start = _model(lookups), tf.global_variables_initializer()
    config = session_config(ASYNC, Prefetching(threads_num=1, capacity=1))
    options = config.graph_options.optimizer_options.async_embedding_options
    options.infer_io_stage = True
    with contextlib.closing(graph_opt.Session(graph=graph, config=config)) as session:
        session.run(start)
        seconds = _seconds_of_steps(session, result)
    return max(seconds) / statistics.median(seconds)


def _seconds_of_steps(session: Any, result: Any) -> List[float]:
    ended = []
    for _ in range(LAST + 1):
        session.run(result)
        ended.append(time.perf_counter())
    steps = [after - before for before, after in zip(ended, ended[1:])]
    return steps[FIRST:]


def _model(lookups: int) -> Any:
    ids = tf.data.Dataset.from_tensors(tf.range(IDS, dtype=tf.int64)).repeat()
    batch = tf.data.make_one_shot_iterator(ids).get_next()
    rows = [
        tf.nn.embedding_lookup(tf.get_variable("table_{}".format(number), [IDS, 8]), batch)
        for number in range(lookups)
    ]
    return tf.add_n([tf.reduce_sum(each[0]) for each in rows]).op
