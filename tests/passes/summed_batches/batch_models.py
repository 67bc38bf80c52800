"""Models that train on several batches in a step, and the same in stock TensorFlow."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

import graph_opt
from graph_opt.compat import tf
from graph_opt.config import ConfigProto

VOCABULARY = 40
Features = Dict[str, Any]
Loss = Callable[[Features], Any]


def config(number: int = 2, **options: bool) -> Any:
    made = ConfigProto()
    optimizer = made.graph_options.optimizer_options
    optimizer.micro_batch_num = number
    optimizer.micro_batch_rule = "batches"
    if options.get("ahead"):
        optimizer.do_async_embedding = True
        tuned = bool(options.get("tuned"))
        optimizer.async_embedding_options.threads_num = -1 if tuned else 1
        optimizer.async_embedding_options.capacity = -1 if tuned else 2
        optimizer.async_embedding_options.infer_io_stage = True
    optimizer.do_group_embedding = bool(options.get("grouped"))
    optimizer.do_smart_stage = bool(options.get("smart"))
    return made


def dataset(batches: int, rows: int = 4, last: int = 0, static: bool = False) -> Any:
    """Batches of `rows` rows, which may be their static size; perhaps another of `last`."""
    random = np.random.RandomState(7)
    count = batches * rows + last
    return tf.data.Dataset.from_tensor_slices(
        {
            "row": np.arange(count),
            "ids": random.randint(0, VOCABULARY, (count, 3)),
            "other": random.randint(0, VOCABULARY, count),
            "dense": random.rand(count, 5).astype(np.float32),
            "label": (random.rand(count, 1) > 0.5).astype(np.float32),
        }
    ).batch(rows, drop_remainder=static)


def table(name: str, resource: bool = False) -> Any:
    with tf.variable_scope("tables", reuse=tf.AUTO_REUSE):
        return tf.get_variable(name, [VOCABULARY, 4], use_resource=resource)


def layer(name: str, inputs: Any, units: int, resource: bool = False) -> Any:
    with tf.variable_scope(name, use_resource=resource):
        weights = tf.get_variable("weights", [int(inputs.shape[1]), units])
        return tf.nn.bias_add(tf.matmul(inputs, weights), tf.get_variable("bias", [units]))


def loss_of(logits: Any, features: Features) -> Any:
    return tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=features["label"], logits=logits)
    )


def with_tables(features: Features, resource: bool = False) -> Any:
    pooled = tf.nn.safe_embedding_lookup_sparse(
        table("table", resource), tf.sparse.from_dense(features["ids"]), combiner="mean"
    )
    again = tf.nn.embedding_lookup(table("other", resource), features["other"])
    shared = tf.nn.embedding_lookup(table("other", resource), features["ids"][:, 0])
    hidden = tf.concat([pooled, again, shared, features["dense"]], 1)
    hidden = tf.nn.relu(layer("hidden", hidden, 6, resource))
    return loss_of(layer("logits", hidden, 1, resource), features)


def normalized(features: Features) -> Any:
    """Mixes the rows of a batch, and weighs them."""
    hidden = layer("hidden", features["dense"], 6)
    mean, variance = tf.nn.moments(hidden, [0])
    logits = layer("logits", (hidden - mean) * tf.rsqrt(variance + 1e-3), 1)
    weights = features["dense"][:, :1] + 0.5
    penalty = 0.01 * tf.add_n([tf.nn.l2_loss(one) for one in tf.trainable_variables()])
    return tf.losses.sigmoid_cross_entropy(features["label"], logits, weights) + penalty


def frozen(features: Features) -> Any:
    """Rows of tables that no update changes, so that it does not matter when they are read."""
    with tf.variable_scope("frozen"):
        tables = [
            tf.get_variable(name, [VOCABULARY, 4], trainable=False) for name in ("one", "two")
        ]
    pooled = tf.nn.safe_embedding_lookup_sparse(tables[0], tf.sparse.from_dense(features["ids"]))
    rows = tf.nn.embedding_lookup(tables[1], features["other"])
    hidden = tf.nn.relu(layer("hidden", tf.concat([pooled, rows, features["dense"]], 1), 6))
    return loss_of(layer("logits", hidden, 1), features)


def sequences(features: Features) -> Any:
    """A loop whose steps write arrays, one for each batch."""
    sequence = tf.stack([features["dense"], features["dense"] * 2, features["dense"] - 1], 1)
    cell = tf.nn.rnn_cell.GRUCell(4)
    _, state = tf.nn.dynamic_rnn(cell, sequence, dtype=tf.float32)
    return loss_of(layer("logits", state, 1), features)


def hops(features: Features) -> Any:
    """A loop that always turns twice, over weights of its own."""
    hidden = layer("hidden", features["dense"], 4)
    weights = tf.get_variable("hops", [4, 4])
    _, hidden = tf.while_loop(
        lambda hop, _: hop < 2,
        lambda hop, hidden: (hop + 1, tf.tanh(tf.matmul(hidden, weights))),
        [tf.constant(0), hidden],
    )
    return loss_of(layer("logits", hidden, 1), features)


def branches(features: Features) -> Any:
    """Layers that depend on what is in a batch."""
    dense = features["dense"]
    total = tf.reduce_sum(dense)
    hidden = tf.cond(
        total > 10.0, lambda: layer("one", dense, 4), lambda: tf.tanh(layer("two", dense, 4))
    )
    return loss_of(layer("logits", hidden, 1), features)


MODELS: Dict[str, Loss] = {
    "ref": with_tables,
    "resource": lambda features: with_tables(features, resource=True),
    "normalized": normalized,
}
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.02),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l2_regularization_strength=0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.9),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.02),
    "adam_async": lambda: graph_opt.train.AdamAsyncOptimizer(0.02),
    "adagrad_decay": lambda: graph_opt.train.AdagradDecayOptimizer(
        0.1, tf.train.get_or_create_global_step()
    ),
    "adam_w": lambda: graph_opt.train.AdamWOptimizer(0.01, 0.02),
}


class Trained(NamedTuple):
    """What steps return and leave behind."""

    losses: List[float]
    rows: List[List[int]]
    variables: List[Any]
    step: int
    report: Optional[graph_opt.Report]


Gradients = List[Tuple[Any, Any]]


def same(gradients: Gradients) -> Gradients:
    return gradients


def clipped(gradients: Gradients) -> Gradients:
    values, variables = zip(*gradients)
    return list(zip(tf.clip_by_global_norm(values, 0.3)[0], variables))


def _sum(values: Sequence[Any]) -> Any:
    if not isinstance(values[0], tf.IndexedSlices):
        return tf.add_n(values)
    return tf.IndexedSlices(
        tf.concat([one.values for one in values], 0),
        tf.concat([one.indices for one in values], 0),
        values[0].dense_shape,
    )


def run(
    session: Any, train_op: Any, loss: Any, row: Any, variables: Sequence[Any], steps: int
) -> Trained:
    losses, rows = [], []
    session.run([tf.global_variables_initializer(), tf.tables_initializer()])
    for _ in range(steps):
        try:
            value, read, _ = session.run([loss, row, train_op])
        except tf.errors.OutOfRangeError:
            break
        losses.append(value)
        rows.append(list(read))
    graph = session.graph
    step = session.run(tf.train.get_global_step(graph))
    fetched = [list(one.export()) if hasattr(one, "export") else one for one in variables]
    values = [_by_key(one) if isinstance(one, list) else one for one in session.run(fetched)]
    return Trained(losses, rows, values, step, graph_opt.report(graph))


def _by_key(exported: Sequence[Any]) -> Any:
    """The rows of a table of keys, in the order of keys."""
    keys, rows = exported[:2]
    return np.concatenate([keys[:, None], rows], 1)[np.argsort(keys)]


def towers(
    model: Loss, optimizer: Any, number: int, data: Any, change: Any = same
) -> Tuple[Any, Any, Any]:
    """An update in stock TensorFlow, by the sum of the gradients of a tower for each batch.

    Returns:
      The update, and the loss and the rows of the first batch.
    """
    iterator = tf.data.make_one_shot_iterator(data)
    losses: List[Any] = []
    gradients: List[Gradients] = []
    rows: List[Any] = []
    for place in range(number):
        with tf.control_dependencies(losses[-1:]):
            features = iterator.get_next()
        rows.append(features["row"])
        with tf.variable_scope("model", reuse=place > 0):
            losses.append(model(features))
        gradients.append(change(optimizer.compute_gradients(losses[-1])))
    summed = [(_sum([one for one, _ in each]), each[0][1]) for each in zip(*gradients)]
    update = optimizer.apply_gradients(summed, tf.train.get_or_create_global_step())
    return update, losses[0], rows[0]


def expected(
    model: Loss, optimizer: Callable[[], Any], number: int, data: Any, change: Any, steps: int
) -> Trained:
    """Stock TensorFlow with a tower for each batch."""
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        fetched = towers(model, optimizer(), number, data(), change)
        with tf.Session() as session:
            return run(session, *fetched, tf.trainable_variables(), steps)


def found(
    model: Loss, optimizer: Callable[[], Any], data: Any, change: Any, made: Any, steps: int
) -> Trained:
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        features = tf.data.make_one_shot_iterator(data()).get_next()
        with tf.variable_scope("model"):
            loss = model(features)
        chosen = optimizer()
        gradients = change(chosen.compute_gradients(loss))
        update = chosen.apply_gradients(gradients, tf.train.get_or_create_global_step())
        with graph_opt.Session(config=made) as session:
            return run(session, update, loss, features["row"], tf.trainable_variables(), steps)


def assert_same(one: Trained, other: Trained) -> None:
    assert one.report is not None and one.report.micro_batches, str(one.report)
    assert one.rows == other.rows and one.step == other.step
    np.testing.assert_allclose(one.losses, other.losses, 1e-5, 1e-6)
    for mine, wanted in zip(one.variables, other.variables):
        np.testing.assert_allclose(mine, wanted, 2e-5, 2e-6)
