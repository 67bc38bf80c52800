"""`graph-opt run -np`: scripts as real ranks of Horovod."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.horovod_processes import NEEDS_HOROVOD
from tests.json_documents import validated

pytestmark = [pytest.mark.slow, NEEDS_HOROVOD]
REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = """
import os, signal, sys
import horovod.tensorflow as hvd
import sparse_operation_kit as sok
import tensorflow as tf

hvd.init()
sok.init()
assert sok.num_gpus() == hvd.size()
total = hvd.allreduce(tf.random_uniform([]) * 0 + hvd.rank(), op=hvd.Sum, name="total")
with tf.Session() as session:
    for step in range(1000 if sys.argv[1:] else 3):
        value = session.run(total)
        if sys.argv[1:] and step == 3 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
print(sys.argv, __name__, value, os.environ["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"])
"""
EAGER = {
    "release_2": """
import horovod.tensorflow as hvd
import numpy as np
import sparse_operation_kit as sok
import tensorflow as tf

hvd.init()
sok.init()
rows = np.arange(40, dtype=np.float32).reshape(10, 4)
table, whole = sok.Variable(rows), tf.Variable(rows)
keyed = sok.DynamicVariable(dimension=4, initializer="1.0", var_type="hbm")
optimizer = tf.optimizers.SGD(learning_rate=1.0, momentum=0.9)
wrapped = sok.OptimizerWrapper(optimizer)
ids = tf.ragged.constant([[1, 2], [hvd.rank()]], dtype=tf.int64)
for _ in range(3):
    with tf.GradientTape() as tape:
        pooled = sok.lookup_sparse([table, keyed], [ids, ids], combiners=["sum", "sum"])
        loss = tf.reduce_sum(pooled[0] * 2.0) + tf.reduce_sum(pooled[1])
    variables = [table, keyed]
    wrapped.apply_gradients(zip(tape.gradient(loss, variables), variables))
    with tf.GradientTape() as tape:
        pooled = tf.nn.embedding_lookup_sparse(whole, ids.to_sparse(), None, combiner="sum")
        loss = tf.reduce_sum(pooled * 2.0)
    gradient = hvd.allreduce(tf.convert_to_tensor(tape.gradient(loss, whole)), op=hvd.Sum)
    optimizer.apply_gradients([(gradient, whole)])
np.testing.assert_allclose(table.numpy(), whole.numpy()[hvd.rank() :: hvd.size()], rtol=1e-5)
keys, momentum = sok.export(wrapped._slots[keyed._unique_id]["momentum"])
assert len(keys) == len(momentum) > 0
""",
    "release_1": """
import horovod.tensorflow as hvd
import sparse_operation_kit as sok
import tensorflow as tf

class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.rows = sok.All2AllDenseEmbedding(100, 4, 2, 3)
        self.top = tf.keras.layers.Dense(1)

    def call(self, keys, training=True):
        return self.top(tf.reshape(self.rows(keys, training), [-1, 24]))

hvd.init()
sok.Init(global_batch_size=8)
model, optimizers = Model(), [sok.optimizers.Adam(0.1), tf.keras.optimizers.Adam(0.1)]

@tf.function
def step(keys):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(model(keys, training=True) - 1.0)) / 8
    tables, others = sok.split_embedding_variable_from_others(model.trainable_variables)
    of_tables, of_others = tape.gradient(loss, [tables, others])
    optimizers[0].apply_gradients(zip(of_tables, tables))
    optimizers[1].apply_gradients(zip([hvd.allreduce(one) for one in of_others], others))
    return loss

keys = tf.random.stateless_uniform([8 // hvd.size(), 2, 3], [1, hvd.rank()], 0, 50, tf.int64)
losses = [float(step(keys)) for _ in range(20)]
assert losses[-1] < losses[0] / 4, losses
""",
    "synthetic": """
import horovod.tensorflow.keras as hvd
import tensorflow as tf
import distributed_embeddings
from distributed_embeddings import dist_model_parallel as dmp

class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        make = distributed_embeddings.Embedding
        tables = [make(rows, 8, combiner="sum") for rows in (10, 20, 30)]
        self.embeddings = dmp.DistributedEmbedding(
            tables, strategy="memory_balanced", dp_input=False, input_table_map=[0, 1, 2, 0])
        self.top = tf.keras.layers.Dense(1)

    def call(self, inputs):
        return self.top(tf.concat(self.embeddings(inputs), 1))

hvd.init()
model = Model()
mine = model.embeddings.strategy.input_ids_list[hvd.rank()]
ids = [tf.random.uniform([16, 3], maxval=10, dtype=tf.int64) for _ in mine]
labels = tf.ones([16 // hvd.size(), 1])
model(ids)
dmp.broadcast_variables(model.variables, root_rank=0)
optimizer = tf.keras.optimizers.Adagrad(0.5)
bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)

@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = bce(labels, model(ids))
    tape = dmp.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

losses = [float(step()) for _ in range(20)]
assert losses[-1] < losses[0] / 2, losses
""",
}


def run(
    num_ranks: int, folder: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(SCRIPT)
    launched = ["-m", "graph_opt.cli", "run", "-np", str(num_ranks), "--sok"]
    command = [sys.executable, *launched, *arguments]
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY), **variables)
    return subprocess.run(
        command, cwd=str(folder), env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_ranks_train_and_leave_one_report(num_ranks: int, tmp_path: Path) -> None:
    done = run(num_ranks, tmp_path, "--report", "all.json", "-m", "script")
    assert done.returncode == 0, done.stderr
    total = float(sum(range(num_ranks)))
    printed = "{} __main__ {} 600".format([str(tmp_path / "script.py")], total)
    expected = ["[{}] {}".format(rank, printed) for rank in range(num_ranks)]
    assert sorted(done.stdout.splitlines()) == expected
    first = done.stderr.splitlines()[0]
    assert "{} ranks".format(num_ranks) in first
    assert "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=600" in first
    processes = validated((tmp_path / "all.json").read_text())["processes"]
    assert [process["rank"] for process in processes] == list(range(num_ranks))
    assert "[1] graph-opt run" not in done.stderr  # what holds for all is said once
    assert done.stderr.count("gradients of sharded tables are summed") == 1


@pytest.mark.parametrize("name", sorted(EAGER))
def test_eager_scripts_run_as_they_are(name: str, tmp_path: Path) -> None:
    (tmp_path / "eager.py").write_text(EAGER[name])
    done = run(2, tmp_path, "eager.py")
    assert done.returncode == 0, done.stderr
    assert "nothing was optimized" not in done.stderr and "retracing" not in done.stderr


def test_a_killed_rank_ends_all(tmp_path: Path) -> None:
    done = run(4, tmp_path, "script.py", "kill", HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="50")
    assert done.returncode == 137
    assert "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=50" in done.stderr.splitlines()[0]
    assert "rank 1 was ended by SIGKILL" in done.stderr.splitlines()[-1]
