"""A worker of a cluster that trains, reads and writes as it is told, fed with every batch.

It knows nothing of graph_opt, and runs in processes of its own as well as in a test's.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from graph_opt.compat import tf
from tests.session.deferred_model import (
    BAG,
    BATCH,
    WIDTH,
    ModelOptions,
    deferred_model,
    features_of,
)
from tests.session.deferred_scripts import all_values, values_in

STEPS = 40
Opened = Callable[..., Any]


def _features() -> Dict[str, Any]:
    return {
        "user": tf.placeholder(tf.int64, [BATCH]),
        "item": tf.placeholder(tf.int64, [BATCH, BAG]),
        "slope": tf.placeholder(tf.float32, [BATCH, 2 * WIDTH]),
        "label": tf.placeholder(tf.float32, [BATCH]),
    }


class FedWorker:
    """One worker: a graph and its session.

    Args:
      target: The session's target.
      options: The model's.
      opened: Opens the session.
    """

    def __init__(self, target: str, options: ModelOptions, opened: Opened) -> None:
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._features = _features()
            self._model = deferred_model(options, features=self._features)
            self._initializer = tf.global_variables_initializer()
            self._saver = tf.train.Saver()
            rows = tf.constant([1, 3])
            values = tf.constant(0.25, tf.float32, [2, WIDTH])
            self._written = tf.scatter_update(self._model.users, rows, values)
            slot = self._model.optimizer.get_slot(self._model.users, "m")
            self._slot = tf.identity(slot.read_value())
        self._batches = features_of(STEPS)
        self.session = opened(target, self._graph)

    def initialize(self) -> None:
        self.session.run(self._initializer)

    def train(self, *steps: int) -> None:
        """Trains on these batches."""
        for step in steps:
            self.session.run(self._model.train_op, self._feeds(step))

    def scores(self, step: int) -> Any:
        """Predictions for a batch: reads only its rows."""
        return self.session.run(self._model.scores, self._feeds(step))

    def values(self) -> Any:
        """All variables."""
        with self._graph.as_default():
            return all_values(self.session)

    def slot(self) -> Any:
        """One slot alone."""
        return self.session.run(self._slot)

    def saved(self, folder: str) -> Any:
        """What a checkpoint has."""
        with self._graph.as_default():
            return values_in(self._saver.save(self.session, folder + "/saved"))

    def write(self) -> None:
        """Sets some rows."""
        self.session.run(self._written)

    def close(self) -> None:
        self.session.close()

    def _feeds(self, step: int) -> Dict[Any, Any]:
        return {self._features[name]: batch[step] for name, batch in self._batches.items()}


def serve_fed_worker(
    cluster: Dict[str, List[str]], task: Optional[int], opened: Opened, messages: Any
) -> None:
    """Does what `messages` ask for, on a server of its own, or as a client of the first one.

    Each message is the name of a method of `FedWorker` and its arguments; "open" makes a new one.
    """
    tf.disable_v2_behavior()
    target = "grpc://" + cluster["ps"][0]
    if task is not None:
        spec = tf.train.ClusterSpec(cluster)
        server = tf.train.Server(spec, job_name="worker", task_index=task)
        target = server.target
    worker = None
    messages.send("ready")
    while True:
        name, arguments = messages.recv()
        if name == "open":
            worker = FedWorker(target, arguments[0], opened)
            messages.send(None)
        else:
            messages.send(getattr(worker, name)(*arguments))


def stock_session(target: str, graph: Any) -> Any:
    """A session of TensorFlow's."""
    return tf.Session(target, graph)
