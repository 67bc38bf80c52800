"""Exports with mapped tables, checkpoints of later values, and servers of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

import graph_opt
from graph_opt.compat import tf
from tests.processes import kill, pipe, start_process
from tests.serving.models_to_serve import Arrays, Model

Change = Callable[[Any], object]
"""What is done to the variables of a session before a checkpoint is written."""


class Exported(NamedTuple):
    """An export with mapped tables.

    Attributes:
      folder: The SavedModel.
      tags: Of its fused graph.
      library: With its ops.
      checkpoints: Prefixes.
      predictions: Of stock TensorFlow: of what was exported, and of each checkpoint.
      request: For which.
      lines: What the export said.
    """

    folder: Path
    tags: Sequence[str]
    library: str
    checkpoints: List[str]
    predictions: List[Arrays]
    request: Arrays
    lines: Sequence[str]


def export(model: Callable[[], Model], folder: Path, *changes: Change) -> Exported:
    """Exports a model, and writes a checkpoint after each change of its variables."""
    checkpoints, predictions = [], []
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        made = model()
        feeds = {made.inputs[name]: array for name, array in made.request.items()}
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        tf.saved_model.simple_save(session, str(folder / "model"), made.inputs, made.outputs)
        predictions.append(session.run(made.outputs, feeds))
        saver = tf.train.Saver()
        for number, change in enumerate(changes):
            change(session)
            prefix = str(folder / "checkpoints" / "model.ckpt")
            checkpoints.append(saver.save(session, prefix, number, write_meta_graph=False))
            predictions.append(session.run(made.outputs, feeds))
    served = folder / "served"
    exported = graph_opt.export_fused(str(folder / "model"), str(served), map_tables=True)
    return Exported(
        served,
        exported.fused_tags,
        exported.library,
        checkpoints,
        predictions,
        made.request,
        exported.mapped,
    )


def two_tables(
    rows: int = 64, width: int = 4, use_resource: bool = True, initial: Optional[float] = None
) -> Model:
    """Two tables and a dense layer; the ids of the second lookup come of the first one's rows.

    The outputs are what was looked up, and sums of the layer's columns. With `fill`, what was
    looked up is one number. Variables begin as `initial`, or at random.
    """
    ids = tf.placeholder(tf.int64, [None], "ids")
    kwargs = {"use_resource": use_resource, "dtype": tf.float32}
    first_values = tf.random_normal_initializer(seed=1)
    if initial is not None:
        first_values = tf.constant_initializer(initial)
    first, second = (
        tf.get_variable(name, [rows, width], initializer=first_values, **kwargs)
        for name in ("first", "second")
    )
    kernel = tf.get_variable("kernel", [width, width], initializer=first_values, **kwargs)
    found = tf.nn.embedding_lookup(first, ids)
    others = tf.cast(tf.abs(found[:, 0]) * 10, tf.int64) % rows
    again = tf.nn.embedding_lookup(second, others)
    outputs = {
        "first": tf.identity(found, "found"),
        "second": tf.identity(again, "again"),
        "kernel": tf.matmul(tf.ones([1, width]), kernel, name="columns"),
    }
    return Model({"ids": ids}, outputs, {"ids": np.arange(0, rows, 3)})


def fill(number: float) -> Change:
    """Has all variables consist of a number."""

    def change(session: Any) -> None:
        for variable in tf.global_variables():
            variable.load(np.full(variable.shape.as_list(), number, np.float32), session)

    return change


def set_rows(table: str, numbers: Sequence[int], value: float) -> Change:
    """Has some rows of a table consist of a number."""

    def change(session: Any) -> None:
        (variable,) = [one for one in tf.global_variables() if one.op.name == table]
        values = session.run(variable)
        values[list(numbers)] = value
        variable.load(values, session)

    return change


class Loaded:
    """An export in a session of this process, as a context.

    Args:
      exported: The export.
      folder: Where it is, if it was moved.

    Attributes:
      session: The session.
    """

    def __init__(self, exported: Exported, folder: Optional[Path] = None) -> None:
        graph_opt.load_op_library()
        graph = tf.Graph()
        self.session = tf.Session(graph=graph)
        with graph.as_default():
            self._meta_graph = tf.saved_model.loader.load(
                self.session, list(exported.tags), str(folder or exported.folder)
            )

    def __enter__(self) -> Loaded:
        return self

    def __exit__(self, *error: Any) -> None:
        self.session.close()

    def predict(self, request: Arrays) -> Arrays:
        """What the first signature predicts."""
        return self._run("serving_default", request)

    def update(self, folder: Any) -> int:
        """The number of the version with an update."""
        return int(self._run("update_tables", {"path": np.array(str(folder), object)})["version"])

    def _run(self, signature: str, request: Dict[str, Any]) -> Arrays:
        definition = self._meta_graph.signature_def[signature]
        feeds = {definition.inputs[name].name: value for name, value in request.items()}
        fetches = {name: info.name for name, info in definition.outputs.items()}
        found: Arrays = self.session.run(fetches, feeds)
        return found


class Server:
    """A process without graph_opt that serves an export, as a context.

    Args:
      exported: The export.
    """

    def __init__(self, exported: Exported) -> None:
        self._connection, theirs = pipe()
        arguments = (str(exported.folder), list(exported.tags), exported.library)
        self.process = start_process(_serve, theirs, *arguments)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: Any) -> None:
        kill(self.process)

    def call(self, kind: str, *arguments: Any) -> Any:
        """Sends a request for a signature, or `mapped` and a path; waits for the answer.

        Raises:
          AssertionError: The request failed.
        """
        self._connection.send((kind, arguments))
        answer = self._connection.recv()
        if isinstance(answer, AssertionError):
            raise answer
        return answer


def _serve(connection: Any, folder: str, tags: List[str], library: str) -> None:
    tf.disable_eager_execution()
    tf.load_op_library(library)
    with tf.Graph().as_default(), tf.Session() as session:
        signatures = tf.saved_model.loader.load(session, tags, folder).signature_def
        while True:
            kind, arguments = connection.recv()
            try:
                if kind == "mapped":
                    connection.send(mapped_memory(*arguments))
                else:
                    signature = signatures[kind]
                    (request,) = arguments
                    feeds = {signature.inputs[name].name: one for name, one in request.items()}
                    fetches = {name: one.name for name, one in signature.outputs.items()}
                    connection.send(session.run(fetches, feeds))
            except Exception as error:
                connection.send(AssertionError("{}: {}".format(type(error).__name__, error)))


class Memory(NamedTuple):
    """Bytes of mapped files in the memory of this process.

    Attributes:
      resident: All that are in memory.
      share: The same, but pages of several processes count for each by its part.
      private: Pages of this process alone, which were written.
      files: How many mappings.
    """

    resident: int
    share: int
    private: int
    files: int


def mapped_memory(part: str) -> Memory:
    """What this process has mapped of the files whose path has a part in it."""
    found = {"Rss": 0, "Pss": 0, "Anonymous": 0}
    inside, files = False, 0
    with open("/proc/self/smaps") as smaps:
        for line in smaps:
            key, _, rest = line.partition(":")
            if "-" in line.split(" ", 1)[0]:
                inside = part in line
                files += inside
            elif inside and key in found:
                found[key] += int(rest.split()[0]) << 10
    return Memory(found["Rss"], found["Pss"], found["Anonymous"], files)


def expected_of(exported: Exported, number: int) -> List[Tuple[str, np.ndarray]]:
    """Stock TensorFlow's predictions: 0 of what was exported, else of a checkpoint."""
    return sorted(exported.predictions[number].items())


def assert_predicts(loaded: Any, exported: Exported, number: int) -> None:
    """Compares predictions with stock TensorFlow's, to the bit."""
    found = loaded.predict(exported.request)
    for name, values in expected_of(exported, number):
        np.testing.assert_array_equal(found[name], values, name)
