"""A served graph whose variables are read from mapped files: from MetaGraphDef to MetaGraphDef.

    assets/graph_opt_tables.txt ─ OpenServedTables     run with the init op, once
                                  ServedTables ─┬─ group lookups        in each request: all tables
                                                └─ other reads          of one version
                  path of a folder ─ UpdateServedTables ─ number        the signature update_tables

One node gives all tables of a request, so that no request sees parts of two versions.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Set

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.op_call import Tensor, call_op
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.node_writer import free_scope
from graph_opt.saved_models.named_nodes import (
    add_asset,
    forget_contexts,
    forget_nodes,
    init_ops,
    keep_names,
    set_init_op,
)
from graph_opt.serving.mapped_variables import (
    HANDLES,
    LOOKUPS,
    READS_HANDLE,
    VARIABLES,
    MappedVariable,
    is_table_input,
    needed_nodes,
)
from graph_opt.serving.table_lists import ASSET, UPDATE_SIGNATURE

_ROOT = "graph_opt_tables"
_CPU = "/device:CPU:0"
_NAMES, _SPECS = 1, 2
_FIRST_SAVED = 3
_PREDICTS = "tensorflow/serving/predict"


def map_variables(
    meta_graph: Any, needed: Set[str], variables: Sequence[MappedVariable], export_id: str
) -> None:
    """Has a graph read variables from files, and removes what had only to do with them.

    Args:
      meta_graph: A MetaGraphDef, which is changed.
      needed: The nodes that requests run.
      variables: Those to read from files.
      export_id: Tells the files of this export from those of others.

    Raises:
      tf.errors.InvalidArgumentError: It has a signature of the name that updates need.
    """
    if UPDATE_SIGNATURE in meta_graph.signature_def:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "the model has a signature {!r}, by which servers get updates of mapped tables: give "
            "it another name, or map no tables".format(UPDATE_SIGNATURE),
        )
    _Mapping(meta_graph, needed, variables, export_id).apply()


class _Mapping:
    def __init__(
        self, meta_graph: Any, needed: Set[str], variables: Sequence[MappedVariable], export_id: str
    ) -> None:
        self._meta_graph = meta_graph
        self._view = GraphView(meta_graph.graph_def)
        self._needed = needed
        self._variables = variables
        self._root = free_scope(self._view, _ROOT)
        self._values: Dict[str, Tensor] = {}
        self._added: List[Any] = []
        self._attributes = {
            "tables": "{}_{}".format(_ROOT, export_id),
            "table_names": [one.head.name for one in variables],
            "table_dtypes": [one.head.dtype.as_datatype_enum for one in variables],
            "table_shapes": [one.head.shape for one in variables],
        }

    def apply(self) -> None:
        """Changes the graph."""
        served = self._add("values", "ServedTables", **self._attributes)
        outputs = served.outputs("values")
        self._values = {one.head.name: value for one, value in zip(self._variables, outputs)}
        removed = self._only_of_variables()
        nodes = self._rewritten(removed)
        self._open()
        self._update()
        del self._meta_graph.graph_def.node[:]
        self._meta_graph.graph_def.node.extend([*nodes, *self._added])
        keep_names(self._meta_graph, {node.name for node in self._meta_graph.graph_def.node})
        forget_contexts(self._meta_graph)

    def _add(self, suffix: str, op: str, **arguments: Any) -> Any:
        call = call_op(op, "{}/{}".format(self._root, suffix), arguments, _CPU)
        self._added.append(call.node)
        return call

    def _constant(self, suffix: str, values: Any) -> Tensor:
        proto = tf.make_tensor_proto(values, tf.string)
        arguments = {"value": tf.AttrValue(tensor=proto), "dtype": tf.string.as_datatype_enum}
        node = call_op("Const", "{}/{}".format(self._root, suffix), arguments).node
        self._added.append(node)
        return Tensor(node.name, tf.string.as_datatype_enum)

    def _only_of_variables(self) -> Set[str]:
        """The variables, those that no request reads, what sets them, and what only they need."""
        view = self._view
        removed: Set[str] = set()
        waiting = [one.head.name for one in self._variables]
        waiting += [name for name in view.of_op(*VARIABLES) if name not in self._needed]
        while waiting:
            name = waiting.pop()
            if name in removed:
                continue
            removed.add(name)
            waiting += [reader for reader in view.readers(name) if self._is_spare(reader)]
        waiting = [tensor.node for name in removed for tensor in view.inputs(name)]
        saver = self._meta_graph.saver_def
        kept = {*self._needed, *needed_nodes(view, [saver.filename_tensor_name])}
        while waiting:
            name = waiting.pop()
            if name not in removed and name not in kept and self._is_unread(name, removed):
                removed.add(name)
                waiting += [tensor.node for tensor in view.inputs(name)]
        return removed

    def _is_spare(self, reader: str) -> bool:
        return reader not in self._needed and self._view.op(reader) != "SaveV2"

    def _is_unread(self, name: str, removed: Set[str]) -> bool:
        readers = [*self._view.readers(name), *self._view.control_uses(name)]
        return all(reader in removed for reader in readers)

    def _rewritten(self, removed: Set[str]) -> List[Any]:
        """Copies of the nodes that stay, as they are now."""
        kept = []
        for name, node in self._view.nodes.items():
            if name in removed:
                continue
            copy = tf.NodeDef()
            copy.CopyFrom(node)
            forget_nodes(copy, removed)
            if node.op in LOOKUPS:
                self._rewrite_lookup(copy)
            elif name in self._needed:
                self._rewrite_reader(copy)
            elif node.op == "SaveV2" and not self._rewrite_save(copy, removed):
                continue
            kept.append(copy)
        self._rewrite_restores({node.name: node for node in kept}, removed)
        saved = {node.name for node in kept}
        for node in kept:
            forget_nodes(node, set(self._view.nodes) - saved)
        return kept

    def _rewrite_lookup(self, node: Any) -> None:
        tables = [
            (slot, tensor.node)
            for slot, tensor in enumerate(self._view.inputs(node.name))
            if is_table_input(self._view, node.name, slot)
        ]
        if not any(name in self._values for _, name in tables):
            return
        for slot, name in tables:
            if name in self._values:
                node.input[slot] = self._values[name]
            elif LOOKUPS[node.op]:
                node.input[slot] = self._read(name)
        node.op = "GroupEmbeddingLookup"
        node.attr["table_dtypes"].list.type[:] = [self._dtype(name) for _, name in tables]
        node.device = node.device or _CPU

    def _read(self, handle: str) -> str:
        """The value of a variable that stays one."""
        suffix = "read/" + handle
        if not any(node.name == self._root + "/" + suffix for node in self._added):
            source = Tensor(handle, tf.resource.as_datatype_enum)
            dtype = self._dtype(handle)
            self._add(suffix, READS_HANDLE, resource=source, dtype=dtype)
        return self._root + "/" + suffix

    def _dtype(self, name: str) -> int:
        attribute = self._view.attribute(name, "dtype")
        return int(getattr(self._values.get(name), "dtype", attribute.type))  # type: ignore[union-attr]

    def _rewrite_reader(self, node: Any) -> None:
        for slot, tensor in enumerate(self._view.inputs(node.name)):
            value = self._values.get(tensor.node)
            if value is None:
                continue
            node.input[slot] = value
            if self._view.op(tensor.node) in HANDLES:  # Its only reader is ReadVariableOp.
                node.op = "Identity"
                node.attr.clear()
                node.attr["T"].type = value.dtype

    def _rewrite_save(self, node: Any, removed: Set[str]) -> bool:
        """Leaves out what is no variable any more; false if nothing is left."""
        inputs = self._view.inputs(node.name)
        saved = inputs[_FIRST_SAVED:]
        kept = [place for place, tensor in enumerate(saved) if tensor.node not in removed]
        if kept and len(kept) < len(saved):
            controls = [text for text in node.input if text.startswith("^")]
            data = [node.input[_FIRST_SAVED + place] for place in kept]
            self._keep(node, kept)
            node.input[_FIRST_SAVED:] = [*data, *controls]
        return bool(kept)

    def _rewrite_restores(self, nodes: Dict[str, Any], removed: Set[str]) -> None:
        for name in self._view.of_op("RestoreV2"):
            if name not in nodes:
                continue
            dtypes = nodes[name].attr["dtypes"].list.type
            uses = [self._view.uses(TensorRef(name, index)) for index in range(len(dtypes))]
            kept = [
                place
                for place, of_output in enumerate(uses)
                if any(use.consumer not in removed for use in of_output)
            ]
            if len(kept) == len(dtypes):
                continue
            self._keep(nodes[name], kept)
            for number, place in enumerate(kept):
                for use in uses[place]:
                    if use.consumer in nodes:
                        source = TensorRef(name, number).input_name
                        nodes[use.consumer].input[use.slot] = source

    def _keep(self, node: Any, places: Sequence[int]) -> None:
        """Leaves a node that saves or restores some of its tensors."""
        for slot, what in ((_NAMES, "names"), (_SPECS, "slices")):
            values = self._view.constant(self._view.inputs(node.name)[slot])
            assert values is not None
            some = np.array([values.flat[place] for place in places], object)
            node.input[slot] = self._constant("{}/{}".format(node.name, what), some)
        dtypes = list(node.attr["dtypes"].list.type)
        node.attr["dtypes"].list.type[:] = [dtypes[place] for place in places]
        node.attr.pop("_output_shapes", None)  # They are of the tensors that it restored before.

    def _open(self) -> None:
        """Opens the files with the init op."""
        list_file = self._constant("list_file", ASSET)
        opened = self._add("open", "OpenServedTables", list_file=list_file, **self._attributes)
        before = init_ops(self._meta_graph)
        init = tf.NodeDef(name=self._root + "/init", op="NoOp")
        init.input.extend("^" + name for name in sorted({*before, opened.name}))
        self._added.append(init)
        set_init_op(self._meta_graph, init.name)
        add_asset(self._meta_graph, ASSET, list_file + ":0")

    def _update(self) -> None:
        """Adds the signature by which a server goes on to other tables."""
        string = tf.string.as_datatype_enum
        folder = self._add("folder", "Placeholder", dtype=string, shape=()).node.name
        source = Tensor(folder, string)
        updated = self._add("update", "UpdateServedTables", folder=source, **self._attributes)
        signature = self._meta_graph.signature_def[UPDATE_SIGNATURE]
        signature.method_name = _PREDICTS
        for infos, key, name, dtype in (
            (signature.inputs, "path", folder, tf.string),
            (signature.outputs, "version", updated.name, tf.int64),
        ):
            infos[key].name = name + ":0"
            infos[key].dtype = dtype.as_datatype_enum
            infos[key].tensor_shape.SetInParent()
