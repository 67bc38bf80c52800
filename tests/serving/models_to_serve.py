"""Models as scripts export them, by what they do with lookups, and requests for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np

from graph_opt.compat import tf

ROWS = 40
Arrays = Dict[str, np.ndarray]


class Model(NamedTuple):
    """What a script hands to `simple_save`, and requests of `ROWS` rows."""

    inputs: Dict[str, Any]
    outputs: Dict[str, Any]
    request: Arrays


def of_examples() -> Model:
    """Serialized examples: hashed, listed, weighted, shared and sequence-like features."""
    column = tf.feature_column
    hashed = column.categorical_column_with_hash_bucket("city", 50)
    listed = column.categorical_column_with_vocabulary_list(
        "kind", ["a", "b", "c"], num_oov_buckets=1
    )
    ids = column.categorical_column_with_identity("ids", 100, default_value=0)
    seen, bought = (
        column.categorical_column_with_identity(name, 30) for name in ("seen", "bought")
    )
    columns = [
        column.embedding_column(hashed, 4, combiner="sqrtn"),
        column.embedding_column(listed, 2),
        column.embedding_column(column.weighted_categorical_column(ids, "weights"), 8, "sum"),
        *tf.feature_column.shared_embedding_columns([seen, bought], 4),
        column.numeric_column("age"),
    ]
    examples = tf.placeholder(tf.string, [None], name="examples")
    features = tf.io.parse_example(examples, tf.feature_column.make_parse_example_spec(columns))
    scores = tf.sigmoid(tf.layers.dense(tf.feature_column.input_layer(features, columns), 1))
    return Model({"examples": examples}, {"scores": scores}, {"examples": serialized_examples()})


def serialized_examples() -> np.ndarray:
    """Rows with and without each feature."""
    random = np.random.RandomState(3)
    rows: List[bytes] = []
    for row in range(ROWS):
        ids = random.randint(0, 100, random.randint(0, 4))
        features = {
            "city": _bytes(["c" + str(number) for number in random.randint(0, 99, row % 3)]),
            "kind": _bytes(random.choice(["a", "b", "d"], row % 2)),
            "ids": _ints(ids),
            "weights": _floats(random.rand(len(ids))),
            "seen": _ints(random.randint(0, 30, row % 4)),
            "bought": _ints(random.randint(0, 30, (row + 1) % 2)),
            "age": _floats([random.rand()]),
        }
        message = tf.train.Example(features=tf.train.Features(feature=features))
        rows.append(message.SerializeToString())
    return np.array(rows, object)


def of_placeholders(use_resource: bool = False, parts: int = 0) -> Model:
    """A placeholder for each feature, as many ids in all rows."""
    random = np.random.RandomState(5)
    inputs: Dict[str, Any] = {}
    request: Arrays = {}
    pooled = []
    partitioner = tf.fixed_size_partitioner(parts) if parts else None
    for number in range(4):
        name = "f{}".format(number)
        inputs[name] = tf.placeholder(tf.int64, [None, 2], name=name)
        request[name] = random.randint(0, 64, [ROWS, 2])
        table = tf.get_variable(
            "tables/" + name, [64, 4], use_resource=use_resource, partitioner=partitioner,
            initializer=tf.random_normal_initializer(seed=number),
        )  # fmt: skip
        sparse = tf.sparse.from_dense(inputs[name] + 1)
        ids = tf.SparseTensor(sparse.indices, sparse.values - 1, sparse.dense_shape)
        pooled.append(tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="mean"))
    weights = tf.constant(random.rand(16, 1), tf.float32)
    scores = tf.sigmoid(tf.matmul(tf.concat(pooled, 1), weights), name="scores")
    return Model(inputs, {"scores": scores, "first": pooled[0]}, request)


def of_resources() -> Model:
    """The same with resource variables, in two parts each."""
    return of_placeholders(use_resource=True, parts=2)


MODELS: Dict[str, Callable[[], Model]] = {
    "examples": of_examples,
    "placeholders": of_placeholders,
    "resources": of_resources,
}


def save(model: Callable[[], Model], folder: Path) -> Arrays:
    """Exports a model by TensorFlow's `simple_save`; returns a request for it."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        made = model()
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        tf.saved_model.simple_save(
            session, str(folder), made.inputs, made.outputs, legacy_init_op=tf.tables_initializer()
        )
    return made.request


def _bytes(values: Any) -> Any:
    encoded = [str(value).encode() for value in values]
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))


def _ints(values: Any) -> Any:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _floats(values: Any) -> Any:
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))
