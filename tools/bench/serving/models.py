"""Models as a script exports them, untrained, and the requests that they get.

    wide            200 columns of 1 to 5 ids, each a tensor [B, 5] in which -1 is no id
    wide_examples   the same columns in serialized `tf.train.Example`s, one tensor [B] of strings
    dlrm            13 counters [B, 13], and 26 tensors [B] of strings
    din             a user's 50 last items [B, 50] with attention to one item [B], and 8 features
    din_one_user    the same; all but the item are the same in all rows
    wide_frozen     wide and dlrm as frozen graphs: a GraphDef with constants in place of variables
    dlrm_frozen
    functions       26 ids, each a tensor [B], with lookups in functions, as TensorFlow 2 saves them

Sizes are those of the models that are trained (tools.bench.workloads), where these are the same.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from tools.bench.serving import frozen, functions
from tools.bench.workloads.dlrm import model as dlrm_model
from tools.bench.workloads.dlrm.criteo import COUNTERS
from tools.bench.workloads.dlrm.schema import CATEGORICALS, INTEGER_COUNT
from tools.bench.workloads.wide import model as wide_model
from tools.bench.workloads.wide.data import DataOptions, column_names

SEED = 1
_FLOAT_BYTES = 4
MOST_ROWS = 512
USER = ("history", *("feature_{}".format(number) for number in range(8)))
"""The inputs of `din` that are the same for all items of a request."""

Arrays = Dict[str, np.ndarray]


class Sizes(NamedTuple):
    """How large models are; `QUICK` only shows that they work."""

    columns: int = 200
    buckets: int = 20000
    dlrm_buckets: int = 100000
    history: int = 50


FULL = Sizes()
QUICK = Sizes(columns=6, buckets=100, dlrm_buckets=100, history=5)


class Served(NamedTuple):
    """A model in the default graph.

    Attributes:
      inputs: by name.
      scores: [B, 1].
      rows: what the dense layers get of the tables.
      rows_per_request: how many rows of tables a request of one row reads, on average.
      width: numbers of a row.
    """

    inputs: Dict[str, Any]
    scores: Any
    rows: Any
    rows_per_request: float
    width: int


class Model(NamedTuple):
    """How a model is built, a request of 512 rows, and how else it is exported.

    Attributes:
      build: Makes it in the default graph; None if TensorFlow 2 saves it (`functions`).
      request: Makes the request.
      repeated: What is the same in all rows of it.
      table_dtypes: Dtypes of tables beside float32 that are measured.
      is_frozen: Whether it is a frozen graph, which is measured in a session of graph_opt, too.
      with_xla: Whether it is measured with XLA, which takes half a minute to compile 200 lookups
        for each number of rows.
    """

    build: Optional[Callable[[Sizes], Served]]
    request: Callable[[Sizes], Arrays]
    repeated: Sequence[str] = ()
    table_dtypes: Sequence[str] = ()
    is_frozen: bool = False
    with_xla: bool = False


def _data(sizes: Sizes) -> DataOptions:
    return DataOptions(columns=sizes.columns, buckets=sizes.buckets)


def _looked_up(found: List[Any]) -> Callable[[Any, Any], Any]:
    def embed(features: Any, columns: Any) -> Any:
        found.append(
            tf.identity(tf.feature_column.input_layer(features, columns), name="looked_up")
        )
        return found[0]

    return embed


def _wide(sizes: Sizes) -> Served:
    data = _data(sizes)
    names = column_names(data)
    inputs = {name: tf.placeholder(tf.int64, [None, data.most_ids], name) for name in names}
    return _wide_of(inputs, inputs, data)


def _wide_of_examples(sizes: Sizes) -> Served:
    data = _data(sizes)
    examples = tf.placeholder(tf.string, [None], "examples")
    spec = {name: tf.io.VarLenFeature(tf.int64) for name in column_names(data)}
    return _wide_of({"examples": examples}, tf.io.parse_example(examples, spec), data)


def _wide_of(inputs: Dict[str, Any], features: Dict[str, Any], data: DataOptions) -> Served:
    options, rows = wide_model.ModelOptions(), []  # type: ignore[var-annotated]
    scores = tf.sigmoid(wide_model.logits(features, options, data, _looked_up(rows)))
    ids = data.columns * (1 + data.most_ids) / 2
    return Served(inputs, scores, rows[0], ids, options.dimension)


def _dlrm(sizes: Sizes) -> Served:
    options, rows = dlrm_model.ModelOptions(buckets=sizes.dlrm_buckets), []  # type: ignore[var-annotated]
    inputs = {name: tf.placeholder(tf.string, [None], name) for name in CATEGORICALS}
    inputs[COUNTERS] = tf.placeholder(tf.float32, [None, INTEGER_COUNT], COUNTERS)
    scores = tf.sigmoid(dlrm_model.logits(inputs, options, _looked_up(rows)))
    return Served(inputs, scores, rows[0], len(CATEGORICALS), options.dimension)


def _din(sizes: Sizes) -> Served:
    width = 16
    inputs = {
        "history": tf.placeholder(tf.int64, [None, sizes.history], "history"),
        "item": tf.placeholder(tf.int64, [None], "item"),
    }
    items = tf.get_variable("items", [sizes.dlrm_buckets, width])
    history = tf.nn.embedding_lookup(items, inputs["history"])
    item = tf.nn.embedding_lookup(items, inputs["item"])
    pooled = [item]
    for number in range(8):
        name = "feature_{}".format(number)
        inputs[name] = tf.placeholder(tf.int64, [None], name)
        table = tf.get_variable(name + "/table", [sizes.buckets, width])
        pooled.append(tf.nn.embedding_lookup(table, inputs[name]))
    query = tf.tile(item[:, None, :], [1, sizes.history, 1])
    pairs = tf.concat([history, query, history - query, history * query], 2)
    hidden = tf.layers.dense(pairs, 36, tf.nn.sigmoid)
    weights = tf.nn.softmax(tf.layers.dense(hidden, 1)[:, :, 0])
    pooled.append(tf.reduce_sum(history * weights[:, :, None], 1))
    joined = tf.concat(pooled, 1)
    hidden = tf.layers.dense(tf.layers.dense(joined, 200, tf.nn.relu), 80, tf.nn.relu)
    scores = tf.sigmoid(tf.layers.dense(hidden, 1))
    return Served(inputs, scores, joined, sizes.history + 9, width)


def _one_user(sizes: Sizes) -> Arrays:
    """Requests of one user and many items."""
    found = _histories(sizes)
    return {
        name: np.repeat(array[:1], MOST_ROWS, 0) if name in USER else array
        for name, array in found.items()
    }


def _ids(sizes: Sizes) -> Arrays:
    data = _data(sizes)
    random = np.random.RandomState(SEED)
    found = {}
    for name in column_names(data):
        ids = random.randint(0, data.buckets, [MOST_ROWS, data.most_ids])
        counts = random.randint(1, data.most_ids + 1, MOST_ROWS)
        found[name] = np.where(np.arange(data.most_ids) < counts[:, None], ids, -1)
    return found


def _examples(sizes: Sizes) -> Arrays:
    ids = _ids(sizes)
    rows = []
    for row in range(MOST_ROWS):
        example = tf.train.Example()
        for name, of_column in ids.items():
            there = of_column[row][of_column[row] >= 0]
            example.features.feature[name].int64_list.value.extend(there)
        rows.append(example.SerializeToString())
    return {"examples": np.array(rows, object)}


def _categories(sizes: Sizes) -> Arrays:
    random = np.random.RandomState(SEED)
    found: Arrays = {COUNTERS: random.rand(MOST_ROWS, INTEGER_COUNT).astype(np.float32)}
    for name in CATEGORICALS:
        values = random.randint(0, 1 << 30, MOST_ROWS)
        found[name] = np.array(["{:08x}".format(value).encode() for value in values], object)
    return found


def _histories(sizes: Sizes) -> Arrays:
    random = np.random.RandomState(SEED)
    found = {
        "history": random.randint(0, sizes.dlrm_buckets, [MOST_ROWS, sizes.history]),
        "item": random.randint(0, sizes.dlrm_buckets, MOST_ROWS),
    }
    for number in range(8):
        found["feature_{}".format(number)] = random.randint(0, sizes.buckets, MOST_ROWS)
    return found


def _single_ids(sizes: Sizes) -> Arrays:
    random = np.random.RandomState(SEED)
    return {
        name: random.randint(0, sizes.dlrm_buckets, MOST_ROWS)
        for name in functions.names(len(CATEGORICALS))
    }


MODELS: Dict[str, Model] = {
    "wide": Model(_wide, _ids, table_dtypes=("float16", "int8")),
    "wide_examples": Model(_wide_of_examples, _examples),
    "dlrm": Model(_dlrm, _categories, with_xla=True),
    "din": Model(_din, _histories),
    "din_one_user": Model(_din, _one_user, USER, with_xla=True),
    "functions": Model(None, _single_ids),
    "wide_frozen": Model(_wide, _ids, is_frozen=True),
    "dlrm_frozen": Model(_dlrm, _categories, is_frozen=True),
}


def export(name: str, sizes: Sizes, folder: Path) -> float:
    """Writes a model with initial values, as `simple_save` does or TensorFlow 2, or a frozen graph.

    Returns:
      Bytes of tables that a request of one row reads, on average.
    """
    build = MODELS[name].build
    if build is None:
        tables = len(CATEGORICALS)
        given = [str(folder), str(tables), str(sizes.dlrm_buckets)]
        subprocess.run([sys.executable, "-m", functions.__name__, *given], check=True)
        return float(tables * functions.WIDTH * _FLOAT_BYTES)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(SEED)
        served = build(sizes)
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        outputs = {"scores": served.scores, "rows": served.rows}
        if MODELS[name].is_frozen:
            frozen.save(session, served.inputs, outputs, folder)
        else:
            tf.saved_model.simple_save(session, str(folder), served.inputs, outputs)
    return served.rows_per_request * served.width * _FLOAT_BYTES
