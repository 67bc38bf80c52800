"""What a MetaGraphDef names besides its graph: results, init ops, and collections of both."""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterable, Iterator, List

from graph_opt.compat import tf
from graph_opt.compat.saved_models import nodes_of_variable

_DEFAULT = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_INIT_SIGNATURE = "__saved_model_init_op"
_MAIN_OP = "saved_model_main_op"
_INIT_COLLECTIONS = (_MAIN_OP, "legacy_init_op")
_ASSETS = "saved_model_assets"
_CONTEXTS = (tf.GraphKeys.COND_CONTEXT, tf.GraphKeys.WHILE_CONTEXT)
VARIABLES = (
    tf.GraphKeys.GLOBAL_VARIABLES,
    tf.GraphKeys.TRAINABLE_VARIABLES,
    tf.GraphKeys.MODEL_VARIABLES,
    tf.GraphKeys.LOCAL_VARIABLES,
    tf.GraphKeys.MOVING_AVERAGE_VARIABLES,
    tf.GraphKeys.METRIC_VARIABLES,
    tf.GraphKeys.GLOBAL_STEP,
)


def predicting_signatures(meta_graph: Any) -> Dict[str, Any]:
    """The signatures that requests name, in the order of their names."""
    return {
        name: signature
        for name, signature in sorted(meta_graph.signature_def.items())
        if signature.inputs and signature.outputs
    }


def default_signature(meta_graph: Any) -> str:
    """The signature that requests name by default, else the first one; empty if there is none."""
    names = predicting_signatures(meta_graph)
    return _DEFAULT if _DEFAULT in names else next(iter(names), "")


def fetched_names(meta_graph: Any) -> List[str]:
    """Tensors that signatures feed and fetch, init ops and assets: what a server runs."""
    names = [info.name for info in tensors_of_signatures(meta_graph)]
    names += [asset.tensor_info.name for asset in assets_of(meta_graph)]
    return names + init_ops(meta_graph)


def assets_of(meta_graph: Any) -> List[Any]:
    """The files whose paths loaders give to constants, which each names.

    TensorFlow 1's builders list them in a collection.
    """
    if meta_graph.asset_file_def or _ASSETS not in meta_graph.collection_def:
        return list(meta_graph.asset_file_def)
    listed = tf.MetaGraphDef()
    for packed in meta_graph.collection_def[_ASSETS].any_list.value:
        packed.Unpack(listed.asset_file_def.add())
    return list(listed.asset_file_def)


def add_asset(meta_graph: Any, file: str, tensor: str) -> None:
    """Has loaders give a constant the path of a file in the assets."""
    known = assets_of(meta_graph)
    if not meta_graph.asset_file_def:  # Else loaders would not see the collection any more.
        meta_graph.asset_file_def.extend(known)
    asset = meta_graph.asset_file_def.add(filename=file)
    asset.tensor_info.name = tensor
    collections = meta_graph.collection_def
    collections[_ASSETS].any_list.value.add().Pack(asset)
    collections[tf.GraphKeys.ASSET_FILEPATHS].node_list.value.append(tensor)


def init_ops(meta_graph: Any) -> List[str]:
    """The nodes that a loader runs behind the restore; later ones only if there is none before."""
    found = [node_of(info.name) for info in _init_infos(meta_graph)]
    for key in _INIT_COLLECTIONS:
        if key in meta_graph.collection_def:
            found += [node_of(name) for name in meta_graph.collection_def[key].node_list.value]
    return found


def set_init_op(meta_graph: Any, node: str) -> None:
    """Has loaders of all releases run a node behind the restore."""
    for info in _init_infos(meta_graph):
        info.name = node
    collections = [key for key in _INIT_COLLECTIONS if key in meta_graph.collection_def]
    for key in collections or [_MAIN_OP]:
        meta_graph.collection_def[key].node_list.value[:] = [node]


def tensors_of_signatures(meta_graph: Any) -> Iterator[Any]:
    """Each part of `TensorInfo` that has a `name`; the parts of sparse tensors wrapped in one."""
    for signature in meta_graph.signature_def.values():
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            yield from named_parts(info)


def named_parts(info: Any) -> Iterator[Any]:
    """The parts of a `TensorInfo` that have a `name`."""
    encoding = info.WhichOneof("encoding")
    if encoding == "coo_sparse":
        for field in ("values_tensor_name", "indices_tensor_name", "dense_shape_tensor_name"):
            yield _Part(info.coo_sparse, field)
    elif encoding == "composite_tensor":
        for component in info.composite_tensor.components:
            yield from named_parts(component)
    else:
        yield info


def named_among(meta_graph: Any, nodes: Iterable[str]) -> List[str]:
    """Which of these nodes something outside of the graph names.

    Collections of objects, such as variables and control-flow contexts, have names in messages of
    many kinds. A node counts as named if its name is anywhere in one.
    """
    saver = meta_graph.saver_def
    names = [saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name]
    names += [info.name for info in tensors_of_signatures(meta_graph)]
    names += [asset.tensor_info.name for asset in assets_of(meta_graph)]
    objects: List[bytes] = []
    for collection in meta_graph.collection_def.values():
        names += collection.node_list.value
        objects += collection.bytes_list.value
    named = set(map(node_of, names))
    messages = b"\0".join(objects)
    return [name for name in nodes if name in named or name.encode("utf-8") in messages]


def keep_names(meta_graph: Any, nodes: AbstractSet[str]) -> None:
    """Removes from collections what is not among these nodes."""
    for key, collection in meta_graph.collection_def.items():
        if collection.WhichOneof("kind") == "node_list":
            names = collection.node_list.value
            names[:] = [name for name in names if node_of(name) in nodes]
        elif key in VARIABLES:
            messages = collection.bytes_list.value
            belonging = nodes_of_variable(messages)
            messages[:] = [
                message
                for message, tensors in zip(list(messages), belonging)
                if all(node_of(name) in nodes for name in tensors if name)
            ]


def forget_contexts(meta_graph: Any) -> None:
    """Removes the contexts of conditionals and loops, which may name what is gone.

    Gradients alone need them.
    """
    for key in _CONTEXTS:
        if key in meta_graph.collection_def:
            del meta_graph.collection_def[key]


def forget_nodes(node: Any, gone: AbstractSet[str]) -> None:
    """Has a node neither wait for what is gone nor be where it was."""
    inputs = [text for text in node.input if not (text.startswith("^") and text[1:] in gone)]
    if len(inputs) < len(node.input):
        node.input[:] = inputs
    if "_class" in node.attr:
        places = node.attr["_class"].list.s
        kept = [place for place in places if place.decode("utf-8")[len("loc:@") :] not in gone]
        if kept:
            places[:] = kept
        else:
            del node.attr["_class"]


def node_of(tensor: str) -> str:
    """The node of a tensor, or of what waits for one."""
    return tensor.partition(":")[0].lstrip("^")


class _Part:
    """A field of `coo_sparse`, which holds a name as `TensorInfo.name` does."""

    def __init__(self, message: Any, field: str) -> None:
        self._message = message
        self._field = field

    @property
    def name(self) -> str:
        name: str = getattr(self._message, self._field)
        return name

    @name.setter
    def name(self, name: str) -> None:
        setattr(self._message, self._field, name)


def _init_infos(meta_graph: Any) -> List[Any]:
    if _INIT_SIGNATURE not in meta_graph.signature_def:
        return []
    return list(meta_graph.signature_def[_INIT_SIGNATURE].outputs.values())
