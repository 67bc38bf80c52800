"""Tables move to large pages while a session trains, and their numbers stay what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Tuple

import pytest

from tests.forked_programs import run_forked

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
LINUX_THAT_MOVES = (6, 1)

# Two tables of 16 MB, and many small ones that share large pages. What the process allocates
# otherwise is in small pages, unless large ones are the default. Large arrays of NumPy, which asks
# for large pages, would be counted until they are freed.
PROGRAM = """
import ctypes
import json
import time
import numpy as np

FORBIDDEN = {forbidden}
PR_SET_THP_DISABLE = 41
if FORBIDDEN:
    assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0

import tensorflow.compat.v1 as tf
import graph_opt

tf.disable_eager_execution()
shapes = [[1 << 20, 4]] * 2 + [[1 << 14, 8]] * 16
random = np.random.RandomState(1)
pooled = []
for i, shape in enumerate(shapes):
    table = tf.get_variable(
        "table_%d" % i, initializer=tf.random.stateless_normal(shape, [1, i]),
        use_resource=i % 2 == 0)
    ids = tf.constant(random.randint(0, shape[0], 64), tf.int64)
    rows = tf.sparse.SparseTensor(
        tf.stack([tf.range(64, dtype=tf.int64), tf.zeros([64], tf.int64)], 1), ids, [64, 1])
    pooled.append(tf.nn.embedding_lookup_sparse(table, rows, None, combiner="sum"))
loss = tf.add_n([tf.reduce_sum(p * p) for p in pooled])
train_op = tf.train.AdagradOptimizer(0.1).minimize(loss)
config = graph_opt.ConfigProto()
config.graph_options.optimizer_options.do_group_embedding = True

def large():
    for line in open("/proc/self/smaps_rollup"):
        if line.startswith("AnonHugePages"):
            return int(line.split()[1]) << 10

with graph_opt.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    before = large()
    until = time.monotonic() + 60
    losses = [float(session.run([loss, train_op])[0]) for _ in range(20)]
    while not FORBIDDEN and large() - before < {wanted} and time.monotonic() < until:
        session.run(train_op)
    after = large()
    fused = len(graph_opt.report(session.graph).fused_lookups)
print(json.dumps(dict(before=before, after=after, losses=losses, fused=fused)))
"""
# Tables and their accumulators, less the ends that share a page with little else.
WANTED_BYTES = 60 << 20

# What is written while the process gets no large pages, and what a lookup finds later.
DYNAMIC_PROGRAM = """
import ctypes
import json
import time
import numpy as np
import tensorflow.compat.v1 as tf
import graph_opt

PR_SET_THP_DISABLE = 41
tf.disable_eager_execution()
table = graph_opt.get_embedding_variable("table", 16, initializer=tf.random_normal_initializer())
keys = tf.placeholder(tf.int64, [None])
rows = tf.nn.embedding_lookup(table, keys)

def large():
    for line in open("/proc/self/smaps_rollup"):
        if line.startswith("AnonHugePages"):
            return int(line.split()[1]) << 10

def disable(large_pages):
    assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, large_pages, 0, 0, 0) == 0

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    disable(1)
    first = session.run(rows, {{keys: np.arange({small})}})
    before = large()
    disable(0)
    session.run(rows, {{keys: np.arange({small}, {all})}})
    until = time.monotonic() + 60
    again = session.run(rows, {{keys: np.arange({small})}})
    while large() - before < {wanted} and time.monotonic() < until:
        again = session.run(rows, {{keys: np.arange({small})}})
    after = large()
print(json.dumps(dict(before=before, after=after, same=bool((first == again).all()))))
"""
# The rows that were written without large pages are 32 MB, and the others 8.
SMALL_PAGE_KEYS = 1 << 19
ALL_KEYS = 5 << 17
DYNAMIC_BYTES = 36 << 20


def _release() -> Tuple[int, ...]:
    version = Path("/proc/sys/kernel/osrelease")
    numbers = version.read_text().split(".")[:2] if version.exists() else ["0", "0"]
    return tuple(int("".join(c for c in number if c.isdigit()) or 0) for number in numbers)


def _trained(tmp_path: Path, forbidden: bool) -> Dict[str, Any]:
    ran = run_forked(PROGRAM.format(forbidden=forbidden, wanted=WANTED_BYTES), tmp_path)
    assert ran.returncode == 0, ran.stderr
    found: Dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


moves_memory = pytest.mark.skipif(
    not ENABLED.exists() or "[never]" in ENABLED.read_text() or _release() < LINUX_THAT_MOVES,
    reason="the system moves no memory to large pages: that takes Linux 6.1",
)


@moves_memory
def test_tables_and_slots_move_while_they_are_trained(tmp_path: Path) -> None:
    moved = _trained(tmp_path, forbidden=False)
    left = _trained(tmp_path, forbidden=True)
    assert moved["fused"] == left["fused"] == 18
    assert moved["after"] - moved["before"] >= WANTED_BYTES
    assert left["after"] == left["before"]
    assert moved["losses"] == left["losses"]
    assert moved["losses"][-1] < moved["losses"][0]


@moves_memory
def test_dynamic_tables_move_once_they_have_grown(tmp_path: Path) -> None:
    program = DYNAMIC_PROGRAM.format(small=SMALL_PAGE_KEYS, all=ALL_KEYS, wanted=DYNAMIC_BYTES)
    ran = run_forked(program, tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["after"] - found["before"] >= DYNAMIC_BYTES
    assert found["same"]
