"""A model to train and serve, and a process without graph_opt that loads what was exported."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

import graph_opt
from graph_opt.compat import tf
from tests.forked_programs import run_script

ROWS, BATCH, WIDTH = 32, 8, 4
SERVED = {"user": [3, 30, 11], "item": [[1, 2], [63, 0], [17, 40]]}
_LOADER = Path(__file__).with_name("load_without_graph_opt.py")


class ServedModel(NamedTuple):
    """The parts of the model that a script holds on to."""

    user: Any
    item: Any
    scores: Any
    train_op: Any

    def feeds(self) -> Dict[str, Any]:
        """What a process that loads the graph feeds, by tensor name."""
        return {self.user.name: SERVED["user"], self.item.name: SERVED["item"]}


def config(fuse: bool = True, prefetch: bool = True, infer_io_stage: bool = True) -> Any:
    """A config with both flags."""
    made = graph_opt.ConfigProto()
    options = made.graph_options.optimizer_options
    options.do_group_embedding = fuse
    options.do_async_embedding = prefetch
    options.async_embedding_options.threads_num = 1
    options.async_embedding_options.capacity = 2
    options.async_embedding_options.infer_io_stage = infer_io_stage
    return made


def batches() -> Any:
    """Batches in which each id occurs only once, so that prefetched rows miss no update."""
    rows = np.arange(ROWS, dtype=np.int64)
    data = {
        "user": rows,
        "item": np.stack([2 * rows, 2 * rows + 1], axis=1),
        "label": (rows % 3 == 0).astype(np.float32),
    }
    return tf.data.Dataset.from_tensor_slices(data).batch(BATCH)


def served_model(
    features: Optional[Dict[str, Any]] = None, group: bool = False, use_resource: bool = True
) -> ServedModel:
    """Two tables, one of them partitioned, and a dense layer.

    Args:
      features: user [B], item [B, 2], label [B]; None takes them from a new iterator.
      group: Whether the script calls `group_embedding_lookup_sparse` itself.
      use_resource: Whether both tables are resource variables.
    """
    if features is None:
        features = tf.data.make_one_shot_iterator(batches()).get_next()
    random = np.random.RandomState(5)
    users = _variable("users", random.rand(ROWS, WIDTH), use_resource)
    items = _variable("items", random.rand(2 * ROWS, WIDTH), use_resource, parts=2)
    dense = _variable("dense", random.rand(2 * WIDTH, 1), use_resource)
    user_ids, item_ids = _sparse(features["user"][:, None]), _sparse(features["item"])
    if group:
        pooled = graph_opt.group_embedding_lookup_sparse(
            [users, items], [user_ids, item_ids], ["sum", "mean"], partition_strategy="div"
        )
    else:
        pooled = [
            tf.nn.safe_embedding_lookup_sparse(users, user_ids, combiner="sum"),
            tf.nn.safe_embedding_lookup_sparse(items, item_ids, combiner="mean"),
        ]
    logits = tf.squeeze(tf.matmul(tf.concat(pooled, 1), dense), 1)
    scores = tf.sigmoid(logits, name="scores")
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=features["label"], logits=logits)
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.AdagradOptimizer(0.5)
    train_op = optimizer.minimize(tf.reduce_mean(losses), step, name="train")
    return ServedModel(features["user"], features["item"], scores, train_op)


def _variable(name: str, value: np.ndarray, use_resource: bool, parts: int = 0) -> Any:
    def initializer(shape: Any, dtype: Any = tf.float32, partition_info: Any = None) -> Any:
        first = partition_info.var_offset[0] if partition_info is not None else 0
        return tf.constant(value[first : first + shape[0]], dtype)

    partitioner = tf.fixed_size_partitioner(parts) if parts else None
    return tf.get_variable(
        name, value.shape, tf.float32, initializer, partitioner=partitioner,
        use_resource=use_resource,
    )  # fmt: skip


def _sparse(ids: Any) -> Any:
    shape = tf.shape(ids, out_type=tf.int64)
    return tf.SparseTensor(tf.where(tf.ones_like(ids, tf.bool)), tf.reshape(ids, [-1]), shape)


@functools.lru_cache(maxsize=None)
def _scores_by_steps() -> List[List[float]]:
    with tf.Graph().as_default():
        model = served_model()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            scores = [list(session.run(model.scores, model.feeds()))]
            for _ in range(ROWS // BATCH):
                session.run(model.train_op)
                scores.append(list(session.run(model.scores, model.feeds())))
    return scores


def stock_scores(steps: int) -> List[float]:
    """The scores of the served rows after this many steps of stock TensorFlow."""
    return _scores_by_steps()[steps]


def load_without_graph_opt(requests: List[Dict[str, Any]], folder: Path) -> List[Any]:
    """What a process with only TensorFlow gets from exported models; errors are strings."""
    asked, answered = folder / "requests.json", folder / "results.json"
    asked.write_text(json.dumps(requests))
    ran = run_script(_LOADER, folder, str(asked), str(answered))
    assert ran.returncode == 0, ran.stderr
    results: List[Any] = json.loads(answered.read_text())
    return results
