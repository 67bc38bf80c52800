"""Loads exported models in a process that has only TensorFlow, like a serving process.

    python -I load_without_graph_opt.py REQUESTS.json RESULTS.json

Requests are a list of artefacts: `kind`, `path`, what to feed and fetch, and perhaps a `library` of
ops to load first. Results are the values fetched, in the same order.
"""

from __future__ import annotations

import glob
import json
import sys
from typing import Any, Dict

Request = Dict[str, Any]


class _NoGraphOpt:
    """An import hook that hides graph_opt."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.split(".")[0] == "graph_opt":
            raise ImportError("graph_opt must not be needed here")


sys.meta_path.insert(0, _NoGraphOpt())

import tensorflow.compat.v1 as tf  # noqa: E402
from google.protobuf import text_format  # noqa: E402

tf.disable_v2_behavior()


def restored(session: Any, request: Request) -> None:
    tf.train.import_meta_graph(request["path"] + ".meta").restore(session, request["path"])


def from_graph(session: Any, request: Request) -> None:
    """Loads a GraphDef from a file and the checkpoint beside it."""
    with open(request["path"]) as file:
        tf.import_graph_def(text_format.Parse(file.read(), tf.GraphDef()), name="")
    saver_def = tf.MetaGraphDef.FromString(open(request["checkpoint"] + ".meta", "rb").read())
    tf.train.Saver(saver_def=saver_def.saver_def).restore(session, request["checkpoint"])


def from_events(session: Any, request: Request) -> None:
    """The graph and the meta graph that a FileWriter wrote."""
    (path,) = glob.glob(request["path"])
    events = list(tf.train.summary_iterator(path))
    graphs = [event.graph_def for event in events if event.graph_def]
    metas = [event.meta_graph_def for event in events if event.meta_graph_def]
    for text in graphs:
        with tf.Graph().as_default():
            tf.import_graph_def(tf.GraphDef.FromString(text), name="")
    meta = tf.MetaGraphDef.FromString(metas[-1])
    tf.train.import_meta_graph(meta)
    tf.train.Saver().restore(session, request["checkpoint"])


def from_saved_model(session: Any, request: Request) -> None:
    meta = tf.saved_model.loader.load(session, request["tags"], request["path"])
    signature = meta.signature_def[request.get("signature", "serving_default")]
    request["feed"] = {signature.inputs[k].name: v for k, v in request["feed"].items()}
    request["fetch"] = signature.outputs[request["fetch"]].name


def from_frozen(session: Any, request: Request) -> None:
    with open(request["path"], "rb") as file:
        tf.import_graph_def(tf.GraphDef.FromString(file.read()), name="")


LOADERS = {
    "checkpoint": restored,
    "graph": from_graph,
    "events": from_events,
    "saved_model": from_saved_model,
    "frozen": from_frozen,
}


def result_of(request: Request) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        if "library" in request:
            tf.load_op_library(request["library"])
        LOADERS[request["kind"]](session, request)
        for _ in range(request.get("train_steps", 0)):
            session.run(request["train_op"])
        return session.run(request["fetch"], request["feed"]).tolist()


def main() -> None:
    with open(sys.argv[1]) as file:
        requests = json.load(file)
    results = []
    for request in requests:
        try:
            results.append(result_of(request))
        except Exception as error:
            results.append("{}: {}".format(type(error).__name__, error))
    with open(sys.argv[2], "w") as file:
        json.dump(results, file)


main()
