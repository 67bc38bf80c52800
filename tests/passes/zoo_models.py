"""Small models as people write them, in the manner of DeepRec's model zoo.

Each builds on one batch of `batches` and returns the loss and the train op.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf

ROWS = 48
BATCH = 8
HISTORY = 4
USERS, ITEMS, WORDS = 30, 50, 40
NAMES = ("C1", "C2", "C3")

Batch = Dict[str, Any]
Trained = Tuple[Any, Any]
columns = tf.feature_column


def batches() -> Batch:
    """Words C1 .. C3, numbers I1 and I2, ids, histories with their lengths, and two labels."""
    random = np.random.RandomState(0)
    data: Dict[str, np.ndarray] = {
        name: np.array([b"w%d" % word for word in random.randint(0, WORDS, ROWS)]) for name in NAMES
    }
    for name in ("I1", "I2"):
        data[name] = random.rand(ROWS).astype(np.float32)
    for name in ("label", "second_label"):
        data[name] = random.randint(0, 2, ROWS).astype(np.float32)
    data["user"] = random.randint(0, USERS, ROWS)
    data["item"] = random.randint(0, ITEMS, ROWS)
    data["history"] = random.randint(0, ITEMS, [ROWS, HISTORY])
    data["length"] = random.randint(1, HISTORY + 1, ROWS).astype(np.int32)
    data["weight"] = random.rand(ROWS, HISTORY).astype(np.float32)
    words = [random.randint(0, WORDS, random.randint(1, 4)) for _ in range(ROWS)]
    data["words"] = np.array([b",".join(b"w%d" % word for word in row) for row in words])
    dataset = tf.data.Dataset.from_tensor_slices(data).repeat().batch(BATCH)
    return tf.data.make_one_shot_iterator(dataset).get_next()


def table(name: str, shape: Sequence[int], **options: Any) -> Any:
    initializer = tf.random_uniform_initializer(-0.5, 0.5, seed=len(name))
    return tf.get_variable(name, list(shape), initializer=initializer, **options)


def dense(inputs: Any, units: int, activation: Any = None) -> Any:
    """A dense layer in ops, which are quicker to build than Keras' layers."""
    with tf.variable_scope(None, default_name="dense"):
        outputs = tf.matmul(inputs, table("kernel", [int(inputs.shape[-1]), units]))
        outputs += tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
    return outputs if activation is None else activation(outputs)


def loss_of(logits: Any, label: Any) -> Any:
    return tf.losses.sigmoid_cross_entropy(label[:, None], tf.reshape(logits, [-1, 1]))


def trained(loss: Any, optimizer: Any = None) -> Trained:
    step = tf.train.get_or_create_global_step()
    return loss, (optimizer or tf.train.AdagradOptimizer(0.1)).minimize(loss, global_step=step)


def hashed(name: str) -> Any:
    return columns.categorical_column_with_hash_bucket(name, WORDS)


def embedded(column: Any, width: int = 4, combiner: str = "mean") -> Any:
    initializer = tf.random_uniform_initializer(-0.5, 0.5, seed=width)
    return columns.embedding_column(column, width, combiner=combiner, initializer=initializer)


def numbers() -> List[Any]:
    return [columns.numeric_column(name) for name in ("I1", "I2")]


def wide_and_deep(batch: Batch) -> Trained:
    """Two optimizers, a crossed column, and partitioned tables on the deep side."""
    features = {name: batch[name] for name in (*NAMES, "I1", "I2")}
    with tf.variable_scope("deep", partitioner=tf.fixed_size_partitioner(2)):
        deep = [embedded(hashed(name)) for name in NAMES]
        rows = columns.input_layer(features, deep + numbers())
    with tf.variable_scope("deep"):
        logits = dense(dense(rows, 8, tf.nn.relu), 1)
    with tf.variable_scope("wide"):
        crossed = columns.crossed_column(["C1", "C2"], WORDS)
        logits += columns.linear_model(features, [hashed("C1"), crossed], sparse_combiner="sum")
    loss = loss_of(logits, batch["label"])
    optimizers = {"deep": tf.train.AdagradOptimizer(0.1), "wide": tf.train.FtrlOptimizer(0.1)}
    updates = [
        optimizer.minimize(loss, var_list=tf.trainable_variables(scope))
        for scope, optimizer in optimizers.items()
    ]
    with tf.control_dependencies(updates):
        return loss, tf.assign_add(tf.train.get_or_create_global_step(), 1).op


def deepfm(batch: Batch) -> Trained:
    """All fields in two tables, of which the first-order weights are a vector; Adam."""
    ids, weights = batch["history"], batch["weight"]
    first = tf.reduce_sum(tf.nn.embedding_lookup(table("fm_w", [ITEMS]), ids) * weights, 1)
    rows = tf.nn.embedding_lookup(table("fm_v", [ITEMS, 4]), ids) * weights[:, :, None]
    squares = tf.square(tf.reduce_sum(rows, 1)) - tf.reduce_sum(tf.square(rows), 1)
    deep = dense(tf.reshape(rows, [-1, 4 * HISTORY]), 1)[:, 0]
    logits = first + 0.5 * tf.reduce_sum(squares, 1) + deep
    return trained(loss_of(logits, batch["label"]), tf.train.AdamOptimizer(0.01))


def attention(query: Any, keys: Any, length: Any) -> Any:
    queries = tf.tile(query[:, None, :], [1, tf.shape(keys)[1], 1])
    pairs = tf.concat([queries, keys, queries - keys, queries * keys], -1)
    flat = tf.reshape(pairs, [-1, int(pairs.shape[-1])])
    scores = tf.reshape(dense(dense(flat, 4, tf.nn.sigmoid), 1), [-1, 1, HISTORY])
    mask = tf.sequence_mask(length, HISTORY)[:, None, :]
    scores = tf.nn.softmax(tf.where(mask, scores, tf.fill(tf.shape(scores), -1e9)))
    return tf.matmul(scores, keys)[:, 0]


def din(batch: Batch) -> Trained:
    """Attention over a history that shares its table with the item; a bias for each item."""
    items, cates = table("item_emb_w", [ITEMS, 4]), table("cate_emb_w", [7, 4])
    cate_of = tf.constant(np.arange(ITEMS) % 7)

    def rows(ids: Any) -> Any:
        cate = tf.gather(cate_of, ids)
        found = [tf.nn.embedding_lookup(items, ids), tf.nn.embedding_lookup(cates, cate)]
        return tf.concat(found, -1)

    item = rows(batch["item"])
    interest = attention(item, rows(batch["history"]), batch["length"])
    user = tf.nn.embedding_lookup(table("user_emb_w", [USERS, 4]), batch["user"])
    logits = dense(tf.concat([user, item, interest, item * interest], 1), 1)[:, 0]
    logits += tf.gather(table("item_b", [ITEMS]), batch["item"])
    return trained(loss_of(logits, batch["label"]))


def bst(batch: Batch) -> Trained:
    """A partitioned table, positions, self-attention and layer norm; gradients clipped."""
    sharded = table("item", [ITEMS, 4], partitioner=tf.fixed_size_partitioner(2))
    ids = tf.concat([batch["history"], batch["item"][:, None]], 1)
    places = tf.tile(tf.range(HISTORY + 1)[None], [tf.shape(ids)[0], 1])
    rows = tf.nn.embedding_lookup(sharded, ids, partition_strategy="div")
    rows += tf.nn.embedding_lookup(table("position", [HISTORY + 1, 4]), places)
    attended = tf.matmul(tf.nn.softmax(tf.matmul(rows, rows, transpose_b=True)), rows)
    mean, variance = tf.nn.moments(rows + attended, [-1], keepdims=True)
    normal = (rows + attended - mean) * tf.rsqrt(variance + 1e-6)
    loss = loss_of(dense(tf.reshape(normal, [-1, 4 * HISTORY + 4]), 1), batch["label"])
    optimizer = tf.train.AdagradOptimizer(0.1)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
    return loss, optimizer.apply_gradients(zip(clipped, variables))


def mmoe(batch: Batch) -> Trained:
    """Two tasks on shared, weighted, bucketized and vocabulary columns."""
    places = tf.where(batch["weight"] > 0.2)
    shape = tf.shape(batch["weight"], out_type=tf.int64)
    tags, weights = (
        tf.SparseTensor(places, tf.gather_nd(batch[name], places), shape)
        for name in ("history", "weight")
    )
    weighted = columns.weighted_categorical_column(
        columns.categorical_column_with_identity("tags", ITEMS), "weights"
    )
    buckets = columns.bucketized_column(columns.numeric_column("I1"), [0.2, 0.5])
    words = columns.categorical_column_with_vocabulary_list("C3", ["w1", "w2"], num_oov_buckets=3)
    shared = columns.shared_embedding_columns([hashed("C1"), hashed("C2")], 3)
    features = {name: batch[name] for name in (*NAMES, "I1")}
    rows = columns.input_layer(
        {**features, "tags": tags, "weights": weights},
        [*shared, embedded(weighted, 4, "sum"), embedded(buckets, 2), embedded(words, 5)],
    )
    experts = tf.stack([dense(rows, 4, tf.nn.relu) for _ in range(2)], 1)
    losses = []
    for label in ("label", "second_label"):
        gate = tf.nn.softmax(dense(rows, 2))[:, :, None]
        losses.append(loss_of(dense(tf.reduce_sum(experts * gate, 1), 1), batch[label]))
    decayed = tf.train.exponential_decay(0.1, tf.train.get_or_create_global_step(), 10, 0.9)
    return trained(tf.add_n(losses), tf.train.AdagradOptimizer(decayed))


def dssm(batch: Batch) -> Trained:
    """Two towers over bags of words, one table for two kinds of lookups, and a vector of biases."""
    split = tf.string_split(batch["words"], ",")
    ids = tf.string_to_hash_bucket_fast(split.values, WORDS)
    bags = tf.SparseTensor(
        split.indices, ids, tf.cast(tf.cast(split.dense_shape, tf.int32), tf.int64)
    )
    words = table("words", [WORDS, 4])
    query = tf.nn.safe_embedding_lookup_sparse(words, bags, combiner="mean")
    document = tf.nn.embedding_lookup_sparse(words, bags, None, combiner="sum")
    user = tf.nn.embedding_lookup(table("user", [USERS, 8]), batch["user"])
    tower = tf.nn.l2_normalize(dense(tf.concat([query, document, user], 1), 4), 1)
    item = tf.nn.embedding_lookup(table("item", [ITEMS, 4]), batch["item"])
    cosine = tf.reduce_sum(tower * tf.nn.l2_normalize(item, 1), 1)
    return trained(loss_of(cosine, batch["label"]), tf.train.MomentumOptimizer(0.05, 0.9))


def youtube(batch: Batch) -> Trained:
    """Candidates drawn on the way, and their weights and biases looked up with the labels."""
    weights, biases = table("nce_w", [ITEMS, 4]), table("nce_b", [ITEMS])
    mask = tf.sequence_mask(batch["length"], HISTORY, tf.float32)[:, :, None]
    rows = tf.nn.embedding_lookup(weights, batch["history"]) * mask
    user = tf.nn.embedding_lookup(table("user", [USERS, 4]), batch["user"])
    hidden = dense(tf.concat([tf.reduce_sum(rows, 1), user], 1), 4)
    losses = tf.nn.sampled_softmax_loss(
        weights, biases, batch["item"][:, None], hidden, 5, ITEMS, seed=4
    )
    return trained(tf.reduce_mean(losses))


def dien(batch: Batch) -> Trained:
    """A GRU over a history with sampled negatives, batch norm, and Adam with a decayed rate."""
    items, user = table("item", [ITEMS, 4]), table("user", [USERS, 4])
    item, history, negatives = (
        tf.nn.embedding_lookup(items, ids)
        for ids in (batch["item"], batch["history"], (batch["history"] + 7) % ITEMS)
    )
    cell = tf.nn.rnn_cell.GRUCell(4, kernel_initializer=tf.random_normal_initializer(seed=3))
    states, last = tf.nn.dynamic_rnn(cell, history, batch["length"], dtype=tf.float32)
    clicks, others = (tf.reduce_sum(states * rows, 2) for rows in (history, negatives))
    seen = tf.sequence_mask(batch["length"], HISTORY, tf.float32)
    auxiliary = tf.reduce_mean((tf.nn.softplus(-clicks) + tf.nn.softplus(others)) * seen)
    rows = tf.concat([tf.nn.embedding_lookup(user, batch["user"]), item, last, item * last], 1)
    normal = tf.layers.batch_normalization(rows, training=True)
    loss = loss_of(dense(normal, 1), batch["label"]) + auxiliary
    step = tf.train.get_or_create_global_step()
    rate = tf.train.cosine_decay(0.01, step, 100)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return loss, tf.train.AdamOptimizer(rate).minimize(loss, step)


def esmm(batch: Batch) -> Trained:
    """Two tasks whose scaled loss moves nothing if it overflows, and a lookup without gradient."""
    rows = columns.input_layer(
        {name: batch[name] for name in NAMES}, list(map(embedded, map(hashed, NAMES)))
    )
    items = table("item", [ITEMS, 4])
    liked = tf.stop_gradient(tf.nn.embedding_lookup(items, batch["history"][:, 0]))
    bags = tf.sparse.from_dense(batch["history"])
    bought = tf.nn.safe_embedding_lookup_sparse(items, bags, combiner="sqrtn")
    inputs = tf.concat([rows, liked, bought], 1)
    click, buy = (tf.sigmoid(dense(dense(inputs, 4, tf.nn.relu), 1))[:, 0] for _ in range(2))
    loss = tf.losses.log_loss(batch["label"], click)
    loss += tf.losses.log_loss(batch["second_label"], click * buy)
    scale = tf.train.experimental.DynamicLossScale(1024.0, increment_period=3)
    optimizer = tf.train.experimental.MixedPrecisionLossScaleOptimizer(
        tf.train.AdamOptimizer(0.01), scale
    )
    return trained(loss, optimizer)


MODELS: Dict[str, Callable[[Batch], Trained]] = {
    model.__name__: model
    for model in (wide_and_deep, deepfm, din, bst, mmoe, dssm, youtube, dien, esmm)
}
