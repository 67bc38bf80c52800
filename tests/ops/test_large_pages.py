"""Tables move to large pages while a session trains, and their numbers stay what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Tuple

import pytest

from tests.forked_programs import run_forked

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
LINUX_THAT_MOVES = (6, 1)

# Large arrays of NumPy, which asks for large pages, would be counted, so programs make none. What a
# process allocates otherwise is in small pages, unless large ones are the default.
START = """
import ctypes
import json
import mmap
import time
import numpy as np
import tensorflow.compat.v1 as tf
import graph_opt

LARGE_PAGE = 2 << 20
MADV_COLLAPSE = 25
PR_SET_THP_DISABLE = 41
libc = ctypes.CDLL(None)

def forbid(large_pages):
    assert libc.prctl(PR_SET_THP_DISABLE, int(large_pages), 0, 0, 0) == 0

def large():
    for line in open("/proc/self/smaps_rollup"):
        if line.startswith("AnonHugePages"):
            return int(line.split()[1]) << 10

def has_large_pages(number):
    area = mmap.mmap(-1, (number + 1) * LARGE_PAGE)
    area.write(bytes([1]) * len(area))
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    begin = -(-address // LARGE_PAGE) * LARGE_PAGE
    pages = range(begin, begin + number * LARGE_PAGE, LARGE_PAGE)
    moved = [libc.madvise(ctypes.c_void_p(page), LARGE_PAGE, MADV_COLLAPSE) for page in pages]
    return not any(moved)

def moves(before, wanted, step):
    # Whether so many bytes move; None if the system has no large pages for them.
    start = time.monotonic()
    while time.monotonic() < start + 300:
        step()
        if large() - before >= wanted:
            return True
        if time.monotonic() > start + 60 and not has_large_pages(wanted // LARGE_PAGE):
            return None
    return False

tf.disable_eager_execution()
"""

# Two tables of 16 MB, and many small ones that share large pages.
PROGRAM = """
forbid({forbidden})
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
with graph_opt.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    before = large()
    losses = [float(session.run([loss, train_op])[0]) for _ in range(20)]
    moved = not {forbidden} and moves(before, {wanted}, lambda: session.run(train_op))
    fused = len(graph_opt.report(session.graph).fused_lookups)
print(json.dumps(dict(grown=large() - before, moved=moved, losses=losses, fused=fused)))
"""
# Tables and their accumulators, less the ends that share a page with little else.
WANTED_BYTES = 60 << 20

# What is written while the process gets no large pages, and what a lookup finds later.
DYNAMIC_PROGRAM = """
table = graph_opt.get_embedding_variable("table", 16, initializer=tf.random_normal_initializer())
end = tf.placeholder(tf.int64, [])
rows = tf.nn.embedding_lookup(table, tf.range(end))
some = tf.nn.embedding_lookup(table, tf.range({small}, delta=997, dtype=tf.int64))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    forbid(True)
    session.run(rows.op, {{end: {small}}})
    first, before = session.run(some), large()
    forbid(False)
    session.run(rows.op, {{end: {all}}})
    moved = moves(before, {wanted}, lambda: session.run(rows.op, {{end: {small}}}))
    same = bool((first == session.run(some)).all())
print(json.dumps(dict(moved=moved, same=same)))
"""
# The rows that were written without large pages are 32 MB, and the others 8.
SMALL_PAGE_KEYS = 1 << 19
ALL_KEYS = 5 << 17
DYNAMIC_BYTES = 36 << 20


def _release() -> Tuple[int, ...]:
    version = Path("/proc/sys/kernel/osrelease")
    numbers = version.read_text().split(".")[:2] if version.exists() else ["0", "0"]
    return tuple(int("".join(c for c in number if c.isdigit()) or 0) for number in numbers)


def _found(program: str, tmp_path: Path) -> Dict[str, Any]:
    ran = run_forked(START + program, tmp_path)
    assert ran.returncode == 0, ran.stderr
    found: Dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    if found["moved"] is None:
        pytest.skip("the system has no large pages left")
    return found


def _trained(tmp_path: Path, forbidden: bool) -> Dict[str, Any]:
    return _found(PROGRAM.format(forbidden=forbidden, wanted=WANTED_BYTES), tmp_path)


moves_memory = pytest.mark.skipif(
    not ENABLED.exists() or "[never]" in ENABLED.read_text() or _release() < LINUX_THAT_MOVES,
    reason="the system moves no memory to large pages: that takes Linux 6.1",
)


@moves_memory
def test_tables_and_slots_move_while_they_are_trained(tmp_path: Path) -> None:
    moved = _trained(tmp_path, forbidden=False)
    left = _trained(tmp_path, forbidden=True)
    assert moved["fused"] == left["fused"] == 18
    assert moved["moved"]
    assert left["grown"] == 0
    assert moved["losses"] == left["losses"]
    assert moved["losses"][-1] < moved["losses"][0]


@moves_memory
def test_dynamic_tables_move_once_they_have_grown(tmp_path: Path) -> None:
    program = DYNAMIC_PROGRAM.format(small=SMALL_PAGE_KEYS, all=ALL_KEYS, wanted=DYNAMIC_BYTES)
    assert _found(program, tmp_path) == {"moved": True, "same": True}
