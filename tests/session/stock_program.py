"""What processes without graph_opt do with deferred tables: restore, train on, serve, read.

    python -I stock_program.py REQUESTS.pickle RESULTS.pickle

Requests are a list of dicts: `kind`, the name of a function here, and its arguments. Results are
what these functions return, in the same order.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any, Dict


class _NoGraphOpt:
    """An import hook that hides graph_opt."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.split(".")[0] == "graph_opt":
            raise ImportError("graph_opt must not be needed here")


sys.meta_path.insert(0, _NoGraphOpt())
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tensorflow.compat.v1 as tf  # noqa: E402

from tests.session.averaged_scripts import evaluate  # noqa: E402, F401
from tests.session.deferred_model import ModelOptions, deferred_model  # noqa: E402
from tests.session.deferred_scripts import all_values, train  # noqa: E402

tf.disable_v2_behavior()


def train_on(options: Dict[str, Any], checkpoint: str, first: int, steps: int) -> Any:
    """Builds the model, restores a checkpoint and trains from a step on."""
    model = deferred_model(ModelOptions(**options), first=first)
    with tf.Session() as session:
        tf.train.Saver().restore(session, checkpoint)
        restored = all_values(session)
        train(session, model, steps)
        return {"restored": restored, "trained": all_values(session)}


def train_imported(checkpoint: str, train_op: str, steps: int) -> Any:
    """Trains the graph that lies beside a checkpoint, from the beginning of its input."""
    saver = tf.train.import_meta_graph(checkpoint + ".meta")
    with tf.Session() as session:
        saver.restore(session, checkpoint)
        for _ in range(steps):
            session.run(train_op)
        return all_values(session)


def serve(folder: str, feeds: Dict[str, Any]) -> Any:
    """The scores that a SavedModel gives."""
    with tf.Session(graph=tf.get_default_graph()) as session:
        loaded = tf.saved_model.loader.load(session, ["serve"], folder)
        signature = loaded.signature_def["serving_default"]
        fed = {signature.inputs[name].name: value for name, value in feeds.items()}
        return session.run(signature.outputs["scores"].name, fed)


def read(options: Dict[str, Any], target: str) -> Any:
    """The values of the variables on a server."""
    deferred_model(ModelOptions(**options))
    with tf.Session(target) as session:
        return all_values(session)


def main(asked: str, answered: str) -> None:
    results = []
    for request in pickle.loads(Path(asked).read_bytes()):
        arguments = dict(request)
        with tf.Graph().as_default():
            results.append(globals()[arguments.pop("kind")](**arguments))
    Path(answered).write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
