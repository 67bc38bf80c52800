"""Models to serve, in whatever form they are: as SavedModels."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import is_value
from graph_opt.compat.saved_models import nodes_of_variable
from graph_opt.compat.stateful_ops import PLACEHOLDERS
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.inspect.frozen_tables import frozen_tables
from graph_opt.inspect.graph_files import read_graph
from graph_opt.inspect.graph_paths import graph_path
from graph_opt.inspect.shapes import add_shapes
from graph_opt.saved_models.named_nodes import node_of

Names = Mapping[str, str]

_CHECKPOINT_GRAPH = ".meta"
_VARIABLES = tf.GraphKeys.GLOBAL_VARIABLES
_TABLES = tf.GraphKeys.TABLE_INITIALIZERS
_ASSETS = tf.GraphKeys.ASSET_FILEPATHS
# What has a value only if something feeds it.
_FED = frozenset(["Placeholder", "PlaceholderV2"])
# What takes the next batch of an input: a request must not.
_READS = ("IteratorGetNext", "QueueDequeue", "ReaderRead", "TensorBufferTake")


def write_saved_model(path: str, folder: str, inputs: Names, outputs: Names) -> None:
    """Makes a SavedModel of a checkpoint with its graph, or of a graph without variables.

    It has what computes the outputs from the inputs, without devices, with the signature
    `serving_default`. An input that is no placeholder, such as what an iterator gives, becomes one.
    In a frozen graph, the constants whose rows are looked up become variables again.

    Args:
      path: A checkpoint's prefix or folder, or a graph file.
      folder: Where it is written; there must be nothing.
      inputs: By the names that the signature gives them, the tensors that are fed.
      outputs: In the same way, those that are fetched.

    Raises:
      tf.errors.InvalidArgumentError: A tensor is missing; an output needs what only something that
        is not an input gives; the graph needs variables, and the file has none.
      tf.errors.NotFoundError: There is no such file, or no such variable in it.
    """
    file = graph_path(path)
    source = read_graph(file)
    meta_graph = source.meta_graph_def or tf.MetaGraphDef(graph_def=source.graph_def)
    add_shapes(meta_graph.graph_def)
    served = _Served(path, meta_graph, inputs, outputs)
    checkpoint = file[: -len(_CHECKPOINT_GRAPH)] if file.endswith(_CHECKPOINT_GRAPH) else None
    with tf.Graph().as_default(), tf.Session() as session:
        tables = served.thawed_tables(session)
        fed = served.imported(tables)
        fetched = served.fetched(outputs, fed)
        thawed = {variable.name for variable in tables.values()}
        stored = [each for each in tf.global_variables() if each.name not in thawed]
        _restore(path, session, checkpoint, stored)
        _save(session, folder, tf.saved_model.predict_signature_def(fed, fetched))


class _Served:
    """The part of a graph that computes the outputs from the inputs."""

    def __init__(self, path: str, meta_graph: Any, inputs: Names, outputs: Names) -> None:
        self._path = path
        self._meta_graph = meta_graph
        self._inputs = inputs
        self._view = GraphView(meta_graph.graph_def)
        for key, name in sorted({**inputs, **outputs}.items()):
            self._require(key, name)
        self._needed = self._with_variables(self._computing(outputs.values()))

    def thawed_tables(self, session: Any) -> Dict[str, Any]:
        """Variables with the values of the constants whose rows are looked up, by their names."""
        found = {}
        for name in frozen_tables(self._meta_graph.graph_def):
            if name in self._needed:
                attribute = self._view.attribute(name, "value")
                assert attribute is not None  # Its shape has been read.
                value = tf.make_ndarray(attribute.tensor)
                first = tf.placeholder(value.dtype, value.shape, name="thawed/value")
                found[name] = tf.Variable(
                    first, trainable=False, use_resource=False, name="thawed/" + name
                )
                session.run(found[name].initializer, {first: value})
        return found

    def imported(self, tables: Mapping[str, Any]) -> Dict[str, Any]:
        """Imports the part into the default graph; returns the placeholders of the inputs.

        Args:
          tables: Variables to read in place of constants, by the names of these.
        """
        given = {}
        placed = {name: variable.value() for name, variable in tables.items()}
        self._needed -= set(tables)
        for key, name in self._inputs.items():
            tensor = TensorRef.parse(name)
            if self._view.op(tensor.node) not in PLACEHOLDERS:
                given[key] = self._placeholder(key, tensor)
                if any(use.consumer in self._needed for use in self._view.uses(tensor)):
                    placed[tensor.input_name] = given[key]
        tf.train.import_meta_graph(self._part(), clear_devices=True, input_map=placed)
        graph = tf.get_default_graph()
        named = {k: n for k, n in self._inputs.items() if k not in given}
        given.update({key: graph.get_tensor_by_name(name) for key, name in named.items()})
        return given

    def _placeholder(self, key: str, tensor: TensorRef) -> Any:
        number = self._view.dtype(tensor)
        if number is None or not is_value(number):
            raise self._invalid("{} of the input {!r} cannot be fed", tensor, key)
        return tf.placeholder(tf.as_dtype(number), self._view.shape(tensor), name="served/" + key)

    def fetched(self, outputs: Names, given: Mapping[str, Any]) -> Dict[str, Any]:
        """The tensors of the outputs; one that is an input, too, is the placeholder of that."""
        graph = tf.get_default_graph()
        fed = {self._inputs[key]: placeholder for key, placeholder in given.items()}
        return {
            key: fed[name] if name in fed else graph.get_tensor_by_name(name)
            for key, name in outputs.items()
        }

    def _require(self, key: str, name: str) -> None:
        node, _, index = name.partition(":")
        dtypes = self._view.dtypes(node) if node in self._view else []
        if not index.isdigit() or (dtypes is not None and int(index) >= len(dtypes)):
            raise self._invalid(
                "the graph has no tensor {!r} for {!r}: tensors are called NODE:0", name, key
            )

    def _computing(self, outputs: Any) -> Set[str]:
        """The nodes from the inputs to the outputs."""
        fed = {TensorRef.parse(name) for name in self._inputs.values()}
        found: Set[str] = set()
        waiting = [TensorRef.parse(name) for name in outputs]
        while waiting:
            tensor = waiting.pop()
            if tensor in fed or tensor.node in found:
                continue
            self._refuse_input(tensor.node)
            found.add(tensor.node)
            waiting.extend(self._view.inputs(tensor.node))
            waiting.extend(TensorRef(name, 0) for name in self._view.controls(tensor.node))
        kept = {tensor.node for tensor in fed if self._view.op(tensor.node) in PLACEHOLDERS}
        return found | set(self._view.ancestors(kept))  # One may have a default.

    def _refuse_input(self, node: str) -> None:
        op = self._view.op(node)
        if op in _FED or op.startswith(_READS):
            raise self._invalid(
                "the outputs need {!r} ({}), which is no input: name it, or what is computed from "
                "it, as one (--feed NAME=TENSOR, or inputs)",
                node,
                op,
            )

    def _with_variables(self, needed: Set[str]) -> Set[str]:
        """Adds what variables and tables that are read are initialized by."""
        belonging = []
        for tensors in self._variables().values():
            if node_of(tensors[0]) in needed:
                belonging += [node_of(name) for name in tensors if name]
        for name in self._collected(_TABLES):
            if any(source in needed for source in self._view.predecessors(name)):
                belonging.append(name)
        return needed | set(self._view.ancestors(belonging))

    def _variables(self) -> Dict[bytes, List[str]]:
        collections = self._meta_graph.collection_def
        if _VARIABLES not in collections:
            return {}
        messages = collections[_VARIABLES].bytes_list.value
        return dict(zip(messages, nodes_of_variable(messages)))

    def _collected(self, key: str) -> Sequence[str]:
        collections = self._meta_graph.collection_def
        names: Sequence[str] = collections[key].node_list.value if key in collections else ()
        return names

    def _part(self) -> Any:
        part = tf.MetaGraphDef()
        part.meta_info_def.CopyFrom(self._meta_graph.meta_info_def)
        part.graph_def.versions.CopyFrom(self._meta_graph.graph_def.versions)
        part.graph_def.library.CopyFrom(self._meta_graph.graph_def.library)
        nodes = self._meta_graph.graph_def.node
        part.graph_def.node.extend([node for node in nodes if node.name in self._needed])
        for node in part.graph_def.node:
            node.attr.pop("_class", None)  # It may be colocated with what is not needed.
        variables = [
            message
            for message, tensors in self._variables().items()
            if node_of(tensors[0]) in self._needed
        ]
        if variables:
            part.collection_def[_VARIABLES].bytes_list.value.extend(variables)
        for key in (_TABLES, _ASSETS):
            kept = [name for name in self._collected(key) if node_of(name) in self._needed]
            if kept:
                part.collection_def[key].node_list.value.extend(kept)
        return part

    def _invalid(self, text: str, *values: Any) -> Exception:
        return _invalid(self._path, text.format(*values))


def _restore(path: str, session: Any, checkpoint: Optional[str], variables: Sequence[Any]) -> None:
    if not variables:
        return
    if checkpoint is None or not tf.train.checkpoint_exists(checkpoint):
        raise _invalid(
            path,
            "the graph has {} variables, such as {!r}, and there is no checkpoint beside it: give "
            "the prefix of one, or a frozen graph".format(len(variables), variables[0].op.name),
        )
    tf.train.Saver(variables).restore(session, checkpoint)


def _save(session: Any, folder: str, signature: Any) -> None:
    has_tables = bool(tf.get_collection(_TABLES))
    builder = tf.saved_model.Builder(folder)
    builder.add_meta_graph_and_variables(
        session,
        [tf.saved_model.tag_constants.SERVING],
        {tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
        assets_collection=tf.get_collection(_ASSETS),
        main_op=tf.tables_initializer() if has_tables else None,
    )
    builder.save()


def _invalid(path: str, text: str) -> Exception:
    return tf.errors.InvalidArgumentError(None, None, "{}: {}".format(path, text))
