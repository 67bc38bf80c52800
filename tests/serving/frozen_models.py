"""Frozen graphs of models that serve: their tables are constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

from graph_opt.compat import tf
from tests.serving.models_to_serve import ROWS, Arrays, Model, of_placeholders, of_resources

column = tf.feature_column


class FrozenModel(NamedTuple):
    """A GraphDef without variables.

    Attributes:
      graph_def: The graph.
      outputs: Names of tensors by the names of the model's outputs.
      request: Values by names of placeholders.
    """

    graph_def: Any
    outputs: Dict[str, str]
    request: Arrays

    def opened(self, make_session: Callable[..., Any] = tf.Session, **arguments: Any) -> Any:
        """A session on a graph of its own that has imported the GraphDef."""
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(self.graph_def, name="")
        return make_session(graph=graph, **arguments)

    def feeds(self, rows: slice = slice(None)) -> Dict[str, np.ndarray]:
        """Values of these rows by names of tensors."""
        return {name + ":0": value[rows] for name, value in self.request.items()}


def frozen(model: Callable[[], Model], kept: Optional[List[str]] = None) -> FrozenModel:
    """Freezes a model with random variables.

    Args:
      model: Builds it.
      kept: Names of variables that stay variables.
    """
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.set_random_seed(7)
        made = model()
        session.run(tf.global_variables_initializer())
        ends = [tensor.op.name for tensor in made.outputs.values()]
        initializers = [name + "/Assign" for name in kept or ()]
        graph_def = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), [*ends, *initializers], variable_names_blacklist=kept
        )
    outputs = {name: tensor.name for name, tensor in made.outputs.items()}
    request = {made.inputs[name].op.name: value for name, value in made.request.items()}
    return FrozenModel(graph_def, outputs, request)


def save_frozen(model: FrozenModel, folder: Path) -> None:
    """Writes the graph as a SavedModel, whose inputs have the names of placeholders."""
    with model.opened() as session:
        inputs = {name: session.graph.get_tensor_by_name(name + ":0") for name in model.request}
        outputs = {n: session.graph.get_tensor_by_name(t) for n, t in model.outputs.items()}
        with session.graph.as_default():
            tf.saved_model.simple_save(session, str(folder), inputs, outputs)


def wide() -> Model:
    """A linear model over the columns, and embeddings of them."""
    random = np.random.RandomState(11)
    features: Dict[str, Any] = {}
    request: Arrays = {}
    columns: List[Any] = []
    for number in range(4):
        name = "wide{}".format(number)
        features[name] = tf.placeholder(tf.int64, [None, 3], name=name)
        request[name] = random.randint(-1, 30, [ROWS, 3])
        columns.append(column.categorical_column_with_identity(name, 30))
    for number in range(2):
        name = "word{}".format(number)
        features[name] = tf.placeholder(tf.string, [None, 2], name=name)
        request[name] = np.array(random.choice(["", "a", "b", "c"], [ROWS, 2]), object)
        columns.append(column.categorical_column_with_hash_bucket(name, 20))
    combiners = ("mean", "sum", "sqrtn")
    embeddings = [
        column.embedding_column(one, 4, combiner=combiners[number % 3])
        for number, one in enumerate(columns)
    ]
    linear = column.linear_model(features, columns)
    deep = tf.layers.dense(column.input_layer(features, embeddings), 3)
    scores = tf.sigmoid(tf.concat([linear, deep], 1), name="scores")
    return Model(features, {"scores": scores, "linear": linear}, request)


def dlrm() -> Model:
    """One row of each table for each id, and the products of all pairs."""
    random = np.random.RandomState(13)
    dense = tf.placeholder(tf.float32, [None, 4], name="dense")
    inputs: Dict[str, Any] = {"dense": dense}
    request: Arrays = {"dense": random.rand(ROWS, 4).astype(np.float32)}
    rows = [tf.layers.dense(dense, 8, tf.nn.relu)]
    for number in range(5):
        name = "id{}".format(number)
        inputs[name] = tf.placeholder(tf.int64, [None], name=name)
        request[name] = random.randint(0, 50, [ROWS])
        table = tf.get_variable("tables/" + name, [50, 8])
        rows.append(tf.nn.embedding_lookup(table, inputs[name], name="rows_of_" + name))
    stacked = tf.stack(rows, 1)
    products = tf.reshape(tf.matmul(stacked, stacked, transpose_b=True), [-1, 36])
    scores = tf.sigmoid(tf.layers.dense(products, 1), name="scores")
    return Model(inputs, {"scores": scores, "first": rows[1]}, request)


FROZEN: Dict[str, Callable[[], Model]] = {
    "wide": wide,
    "dlrm": dlrm,
    "placeholders": of_placeholders,
    "resources": of_resources,
}
