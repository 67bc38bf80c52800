"""A script to check: what it does, and what makes its runs differ, is chosen by arguments."""

import argparse
import contextlib
import json
import os
from typing import Any, ContextManager, Dict, Iterator, Tuple

import numpy as np
import tensorflow as tf

STEPS, BATCH, USERS, ITEMS = 12, 16, 60, 40


def examples() -> Dict[str, np.ndarray]:
    random = np.random.RandomState(1)
    count = STEPS * BATCH
    return {
        "user": random.randint(0, USERS, count),
        "item": random.randint(0, ITEMS, count),
        "label": random.randint(0, 2, count).astype(np.float32),
    }


def batches(shuffles: bool) -> Dict[str, tf.Tensor]:
    data = tf.data.Dataset.from_tensor_slices(examples())
    data = data.shuffle(STEPS * BATCH) if shuffles else data
    return tf.data.make_one_shot_iterator(data.batch(BATCH)).get_next()


def fed(is_random: bool) -> Iterator[Dict[str, np.ndarray]]:
    order = np.random.default_rng() if is_random else np.random.RandomState(1)
    rows = order.permutation(STEPS * BATCH)
    for step in range(STEPS):
        chosen = rows[step * BATCH : (step + 1) * BATCH]
        yield {name: column[chosen] for name, column in examples().items()}


def loss_of(features: Dict[str, tf.Tensor]) -> tf.Tensor:
    users = tf.get_variable("users", [USERS, 8])
    items = tf.get_variable("items", [ITEMS, 8])
    rows = [
        tf.nn.embedding_lookup(users, features["user"]),
        tf.nn.embedding_lookup(items, features["item"]),
    ]
    logits = tf.layers.dense(tf.concat(rows, 1), 1)[:, 0]
    return tf.losses.sigmoid_cross_entropy(features["label"], logits)


def placeholders() -> Dict[str, tf.Tensor]:
    return {name: tf.placeholder(column.dtype, [None], name) for name, column in examples().items()}


def place() -> Tuple[str, ContextManager[Any]]:
    """What a session talks to, and where variables are: on servers in a task of a cluster."""
    if "TF_CONFIG" not in os.environ:
        return "", contextlib.nullcontext()
    told = json.loads(os.environ["TF_CONFIG"])
    cluster, task = tf.train.ClusterSpec(told["cluster"]), told["task"]
    server = tf.train.Server(cluster, task["type"], task["index"])
    if task["type"] == "ps":
        server.join()
    worker = "/job:{type}/task:{index}".format(**task)
    return server.target, tf.device(
        tf.train.replica_device_setter(worker_device=worker, cluster=cluster)
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--optimizer", default="Adagrad")
    parser.add_argument("--model-dir", default=None)
    parser.add_argument("--seed", type=int, default=None)
    for flag in ("--shuffle", "--feed", "--feed-random", "--plain-session", "--fail-at-end"):
        parser.add_argument(flag, action="store_true")
    flags = parser.parse_args()
    tf.set_random_seed(flags.seed)
    is_fed = flags.feed or flags.feed_random
    target, device = place()
    with device:
        features = placeholders() if is_fed else batches(flags.shuffle)
        loss = loss_of(features)
        step = tf.train.get_or_create_global_step()
        optimizer = getattr(tf.train, flags.optimizer + "Optimizer")(0.1)
        train = optimizer.minimize(loss, global_step=step)
    if is_fed or flags.plain_session:
        session: Any = tf.Session()
        session.run(tf.global_variables_initializer())
        feeds = fed(flags.feed_random) if is_fed else iter([{}] * STEPS)
        for batch in feeds:
            session.run([train, loss], {features[name]: batch[name] for name in batch})
    else:
        with tf.train.MonitoredTrainingSession(target, checkpoint_dir=flags.model_dir) as monitored:
            while not monitored.should_stop():
                number = monitored.run([train, loss, step])[2]
        print("trained to step", number)
    if flags.fail_at_end and any(op.type == "TensorBufferPut" for op in _operations()):
        raise RuntimeError("only when rewritten")
    print("working in", os.getcwd())


def _operations() -> Any:
    return tf.get_default_graph().get_operations()


main()
