"""Frozen graphs: a GraphDef that has its variables' values as constants.

Servers get it as a SavedModel. The file of the GraphDef lies beside it, for `graph-opt export`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import saved_model_pb2

_FILE = "frozen.pb"


class FrozenGraph(NamedTuple):
    """A file, with the names of its tensors by those of the signature."""

    path: str
    inputs: Dict[str, str]
    outputs: Dict[str, str]


def save(session: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], folder: Path) -> None:
    """Freezes the graph of a session and writes it, as a SavedModel and as a file beside that."""
    graph_def = tf.graph_util.convert_variables_to_constants(
        session, session.graph.as_graph_def(), [tensor.op.name for tensor in outputs.values()]
    )
    with tf.Graph().as_default() as graph, tf.Session() as frozen:
        tf.import_graph_def(graph_def, name="")
        imported = [
            {key: graph.get_tensor_by_name(tensor.name) for key, tensor in named.items()}
            for named in (inputs, outputs)
        ]
        tf.saved_model.simple_save(frozen, str(folder), *imported)
    (folder.parent / _FILE).write_bytes(graph_def.SerializeToString())


def read(folder: Path) -> FrozenGraph:
    """The file beside a SavedModel."""
    saved_model = saved_model_pb2.SavedModel()
    saved_model.ParseFromString((folder / "saved_model.pb").read_bytes())
    signature = saved_model.meta_graphs[0].signature_def["serving_default"]
    named = [
        {key: info.name for key, info in tensors.items()}
        for tensors in (signature.inputs, signature.outputs)
    ]
    return FrozenGraph(str(folder.parent / _FILE), *named)
