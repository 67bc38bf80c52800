"""Memory that group ops use outside TensorFlow's allocator, observed through a user's session."""

from __future__ import annotations

import json
from pathlib import Path

from tests.forked_programs import run_forked

# One batch of a million ids, and then small ones.
PROGRAM = """
import json
import numpy as np
import tensorflow.compat.v1 as tf
import graph_opt

tf.disable_eager_execution()
ids = tf.placeholder(tf.int64, [None])
table = tf.get_variable("table", [1 << 20, 2])
rows = tf.sparse.SparseTensor(
    tf.stack([tf.range(tf.size(ids, out_type=tf.int64)), tf.zeros_like(ids)], 1),
    ids, [tf.size(ids, out_type=tf.int64), 1])
pooled = tf.nn.embedding_lookup_sparse(table, rows, None, combiner="sum")
train_op = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(pooled))
config = graph_opt.ConfigProto()
config.graph_options.optimizer_options.do_group_embedding = True

def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) << 10

found = {"before": graph_opt.scratch_memory()}
with graph_opt.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    def train(count):
        session.run(train_op, {ids: np.random.randint(0, 1 << 20, count)})
    for _ in range(10):
        train(1000)
    found["small"] = graph_opt.scratch_memory()
    found["resident_small"] = resident()
    train(1 << 20)
    found["large"] = graph_opt.scratch_memory()
    found["resident_large"] = resident()
    for _ in range(200):
        train(1000)
    found["small_again"] = graph_opt.scratch_memory()
    found["resident_small_again"] = resident()
found["closed"] = graph_opt.scratch_memory()
print(json.dumps(found))
"""


def test_memory_of_one_large_batch_is_released(tmp_path: Path) -> None:
    ran = run_forked(PROGRAM, tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    ids_bytes = 8 << 20  # of the large batch
    assert found["before"] == {"held_bytes": 0, "idle_bytes": 0, "peak_bytes": 0}
    assert 0 < found["small"]["held_bytes"] < 1 << 20
    assert found["large"]["held_bytes"] > ids_bytes
    assert found["large"]["idle_bytes"] == found["large"]["held_bytes"]
    assert found["small_again"]["held_bytes"] < 1 << 20
    assert found["small_again"]["peak_bytes"] >= found["large"]["held_bytes"]
    returned = found["resident_large"] - found["resident_small_again"]
    assert returned > ids_bytes
    assert found["closed"]["held_bytes"] == 0
