"""A stock model with resource variables, as it is and through graph_opt.

TensorFlow 2.15's graph optimizer turns the lookup of a resource variable into a read of the whole
table, which is a copy once the table has been updated: every step of a stock model copies all its
tables. graph_opt keeps its gathers from that, and its fused lookups are none.

`bytes_per_step` is what one step allocates, prefetched part included, from RunMetadata.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Dict, Iterator, List, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.records import Goal, Outcome, Record, from_runs
from tools.bench.training.sessions import MODES, STOCK, session_config
from tools.bench.turns import in_turns, ratios, seconds_per_call

WORKLOAD = "resource_variables"
LEARNING_RATE = 0.05
GOAL_RATIO = Goal(">=", 5.0)
_BATCHES = 64
_ZIPF = 1.2
_BURN_IN = 8


class Size(NamedTuple):
    """Tables, their shape, and ids looked up in each of them in a step."""

    tables: int
    rows: int
    dimension: int
    batch: int

    @property
    def table_bytes(self) -> int:
        """Bytes of one float32 table."""
        return 4 * self.rows * self.dimension


class Effort(NamedTuple):
    """Size of the model, rounds, seconds of each turn, traced steps."""

    size: Size
    rounds: int
    seconds: float
    traced: int


FULL = Effort(Size(8, 200000, 16, 512), rounds=5, seconds=1.5, traced=5)
QUICK = Effort(Size(2, 20000, 16, 32), rounds=2, seconds=0.02, traced=1)


def run(quick: bool = False) -> Outcome:
    """Measures all modes; `quick` only tries that it works."""
    effort = QUICK if quick else FULL
    return Outcome(tuple(_times(effort) + _allocations(effort)))


def _times(effort: Effort) -> List[Record]:
    with contextlib.ExitStack() as stack:
        steps = {mode: stack.enter_context(_step(mode, effort.size)) for mode in MODES}
        contestants = {
            mode: functools.partial(seconds_per_call, step, effort.seconds, _BURN_IN)
            for mode, step in steps.items()
        }
        runs = in_turns(contestants, effort.rounds)
    params = _params(effort.size)
    records = [
        from_runs("seconds_per_step", WORKLOAD, mode, params, seconds, "s")
        for mode, seconds in runs.items()
    ]
    for mode in MODES[1:]:
        quotients = ratios(runs[STOCK], runs[mode])
        records.append(
            from_runs("ratio_to_stock", WORKLOAD, mode, params, quotients, goal=GOAL_RATIO)
        )
    return records


def _allocations(effort: Effort) -> List[Record]:
    params = _params(effort.size)
    # One table's size is what no step of an optimized session may allocate.
    goal = Goal("<=", effort.size.table_bytes)
    return [
        from_runs(
            "bytes_per_step",
            WORKLOAD,
            mode,
            params,
            _traced_bytes(effort, mode),
            "bytes",
            None if mode == STOCK else goal,
        )
        for mode in MODES
    ]


def _params(size: Size) -> Dict[str, Any]:
    return dict(size._asdict())


@contextlib.contextmanager
def _step(mode: str, size: Size) -> Iterator[Callable[[], object]]:
    with tf.Graph().as_default(), contextlib.ExitStack() as stack:
        train_op = _model(size)
        initializer = tf.global_variables_initializer()
        if mode == STOCK:
            session = stack.enter_context(tf.Session())
        else:
            session = stack.enter_context(graph_opt.Session(config=session_config(mode)))
        session.run(initializer)
        yield lambda: session.run(train_op)


def _traced_bytes(effort: Effort, mode: str) -> List[int]:
    """Bytes that each of some steps allocates, with its share of prefetching.

    A stock session runs the optimized graph here, and its put ops in the same step as the main
    graph: what the prefetch threads would do is then part of the trace.
    """
    with tf.Graph().as_default() as graph:
        train_op = _model(effort.size)
        initializer = tf.global_variables_initializer()
        step = [train_op]
        if mode != STOCK:
            graph_opt.optimize_graph(graph, session_config(mode))
            step += [op for op in graph.get_operations() if op.type == "TensorBufferPut"]
        with tf.Session() as session:
            session.run(initializer)
            for _ in range(3):  # the first update is what makes later reads copies
                session.run(step)
            return [_allocated(session, step) for _ in range(effort.traced)]


def _allocated(session: tf.Session, step: List[tf.Operation]) -> int:
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(step, options=options, run_metadata=metadata)
    return sum(
        memory.total_bytes
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        for memory in node.memory
    )


def _model(size: Size) -> tf.Operation:
    """A lookup in each table, a logit on top, Adagrad: what TensorFlow's users write."""
    dataset = tf.data.Dataset.from_tensor_slices(_ids(size)).repeat().prefetch(2)
    ids = tf.data.make_one_shot_iterator(dataset).get_next()
    rows = tf.range(size.batch, dtype=tf.int64)
    indices = tf.stack([rows, tf.zeros_like(rows)], axis=1)
    pooled = [
        tf.nn.embedding_lookup_sparse(
            tf.get_variable(
                "table_{}".format(number), [size.rows, size.dimension], use_resource=True
            ),
            tf.SparseTensor(indices, ids[number], [size.batch, 1]),
            None,
            combiner="mean",
        )
        for number in range(size.tables)
    ]
    logits = tf.layers.dense(tf.concat(pooled, axis=1), 1)
    loss = tf.losses.sigmoid_cross_entropy(tf.cast(ids[0][:, tf.newaxis] % 2, tf.float32), logits)
    return tf.train.AdagradOptimizer(LEARNING_RATE).minimize(loss)


def _ids(size: Size) -> np.ndarray:
    """Ids [batches, tables, batch] with the skew of real ones."""
    random = np.random.RandomState(7)
    return random.zipf(_ZIPF, (_BATCHES, size.tables, size.batch)) % size.rows
