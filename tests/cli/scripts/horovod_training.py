"""Trains with Horovod as its users do, and prints what each rank has seen, as JSON.

python horovod_training.py losses adagrad
python horovod_training.py rows
"""

import hashlib
import json
import sys
import time
from typing import Any, Callable, Dict

import horovod.tensorflow as hvd
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
STEPS, BATCH, ROWS, CAPACITY = 40, 16, 40, 6
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.02),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.01, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
}


def batches() -> Any:
    """Batches of this rank: three ids each, and a label."""
    is_seeded = hvd.rank() == 0 or "unseeded" not in sys.argv
    random = np.random.RandomState(hvd.rank() if is_seeded else None)
    ids = (random.zipf(1.3, [STEPS * BATCH, 3]) % ROWS).astype(np.int64)
    labels = random.rand(STEPS * BATCH, 1).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((ids, labels)).batch(BATCH)
    return tf.data.make_one_shot_iterator(data).get_next()


def losses(optimizer: str) -> Dict[str, Any]:
    """The losses of all steps, and a digest of each variable at the end."""
    ids, label = batches()
    tables = [
        tf.get_variable(name, [ROWS, 8], initializer=tf.random_uniform_initializer(-1, 1, seed))
        for seed, name in enumerate(["users", "items", "shops"])
    ]
    rows = [
        tf.nn.safe_embedding_lookup_sparse(table, tf.sparse.from_dense(ids), combiner="sum")
        for table in tables
    ]
    start = tf.random_uniform_initializer(-1, 1, seed=7)
    logits = tf.layers.dense(tf.concat(rows, 1), 1, kernel_initializer=start)
    loss = tf.losses.mean_squared_error(label, logits)
    step = tf.train.get_or_create_global_step()
    train = hvd.DistributedOptimizer(OPTIMIZERS[optimizer]()).minimize(loss, step)
    variables = tf.global_variables()
    hooks = [hvd.BroadcastGlobalVariablesHook(0)]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        found = [float(session.run([loss, train])[0]) for _ in range(STEPS)]
        values = session.run(variables)
    digests = [hashlib.sha256(value.tobytes()).hexdigest() for value in values]
    return {"losses": found, "digests": digests}


def wait_until_full(session: Any) -> None:
    """Waits until as many batches wait as may, where lookups run ahead."""
    graph_opt = sys.modules.get("graph_opt")
    while graph_opt is not None:
        buffer = graph_opt.metrics(session).get("async_embedding")
        if buffer is None or buffer["size"] == CAPACITY:
            return
        time.sleep(0.002)


def rows() -> Dict[str, Any]:
    """Of three tables, how many updates their rows had missed in each step; all rows have each."""
    data = tf.data.Dataset.from_tensors(np.arange(ROWS, dtype=np.int64)[:, None]).repeat(STEPS)
    all_rows = tf.data.make_one_shot_iterator(data).get_next()
    ids = tf.sparse.from_dense(all_rows + 1)
    ids = tf.SparseTensor(ids.indices, ids.values - 1, ids.dense_shape)
    start = tf.zeros_initializer()
    names = ["exact", "limited", "free"]
    tables = [tf.get_variable(name, [ROWS, 4], initializer=start) for name in names]
    pooled = [tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum") for table in tables]
    # The gradient is 1 whatever a row has, and yet is computed from it.
    loss = tf.add_n([tf.reduce_sum(each + 0.0 * tf.square(each)) for each in pooled])
    train = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0)).minimize(loss)
    hooks = [hvd.BroadcastGlobalVariablesHook(0)]
    missed = []
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        for step in range(STEPS):
            if 0 < step < STEPS - CAPACITY:
                wait_until_full(session)
            values, _ = session.run([pooled, train])
            missed.append([step + float(value.min()) for value in values])
    return {"missed": missed}


hvd.init()
tf.set_random_seed(1)
done = losses(sys.argv[2]) if sys.argv[1] == "losses" else rows()
print(json.dumps(dict(done, rank=hvd.rank())))
