"""Replaces the ops of dynamic tables with TensorFlow's, which serve what a checkpoint has.

    the variable            rows: first those for keys without a row, then those of keys
    <name>/index            a hash table: key -> row
    lookup                  find in the index, gather from the variable
    restore, save           the same tensors of the checkpoint, by RestoreV2 and SaveV2
    update                  an error: stock TensorFlow can serve, not train

What stands for one node has the hash table under its shared name, so all nodes share it. It also
keeps the node, so that `import_meta_graph` can go on with the graph where graph_opt is.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

from graph_opt.compat import tf
from graph_opt.export.original_nodes import keep_original
from graph_opt.export.stock_nodes import nodes_in_place_of
from graph_opt.graph.undo import node_of_input

_INITIALIZE = "DynamicTableInitialize"
_INITIALIZE_SLOT = "DynamicTableSlotInitialize"
_BUCKETS = 1000


class _Table(NamedTuple):
    """What a graph says of a table.

    Attributes:
      name: Name of the variable.
      options: As in `DynamicTableOptions.to_json`.
      bank_rows: Rows that new keys start from, by remainder; 0 if they start otherwise.
    """

    name: str
    options: Dict[str, Any]
    bank_rows: int

    @property
    def width(self) -> int:
        return int(self.options["dim"])

    @property
    def needs_permission(self) -> bool:
        """Whether not every key gets a row."""
        return "admission" in self.options or "limit" in self.options

    @property
    def reads_bank(self) -> bool:
        """Whether keys without a row read the row that they would start from."""
        return self.bank_rows > 0 and not self.needs_permission

    @property
    def num_fixed(self) -> int:
        """Number of rows that are no key's."""
        return self.bank_rows if self.reads_bank else 1

    @property
    def is_drawn(self) -> bool:
        kind = self.options["initial"]["kind"]
        return not self.needs_permission and kind not in ("bank", "constant")

    def constant_row(self) -> Any:
        """What keys without a row read: the mean of what their rows would start with."""
        initial = self.options["initial"]
        if self.needs_permission:
            value = self.options.get("no_permission", 0.0)
        elif initial["kind"] == "constant":
            value = initial["value"]
        elif initial["kind"] == "uniform":
            value = (initial["first"] + initial["second"]) / 2
        else:
            value = initial["first"]
        return tf.fill([1, self.width], tf.constant(value, tf.float32))

    def key_index(self) -> Any:
        return tf.raw_ops.MutableHashTableV2(
            key_dtype=tf.int64, value_dtype=tf.int64, shared_name=self.name + "/index"
        )

    def keep(self, handle: Any, fixed: Any, keys: Any, values: Any) -> List[Any]:
        """Gives the variable, and the index, keys and their rows."""
        numbers = tf.range(tf.size(keys, out_type=tf.int64)) + self.num_fixed
        rows = tf.concat([fixed, values], 0)
        return [
            tf.raw_ops.LookupTableImportV2(
                table_handle=self.key_index(), keys=keys, values=numbers
            ),
            tf.raw_ops.AssignVariableOp(resource=handle, value=rows),
        ]


def stock_dynamic_tables(graph_def: Any, graph: Any, made: Dict[bytes, List[Any]]) -> List[str]:
    """Replaces the nodes of a GraphDef, in place.

    Args:
      graph_def: The GraphDef.
      graph: Its live graph.
      made: Nodes made before, by the node that they replace.

    Returns:
      Lines for the user about what is different in the exported graph.
    """
    tables = _tables(graph_def, graph)
    if not tables:
        return []
    nodes: List[Any] = []
    for node in graph_def.node:
        if node.name in tables:  # a handle, whose variable gets rows
            keep_original(node, node)
            node.attr["shape"].shape.dim[0].size = -1
        if node.op == "ReadVariableOp" and node_of_input(node.input[0]) in tables:
            keep_original(node, node)
            del node.input[1:]  # there is a value, unlike here
        build = _BUILDERS.get(node.op)
        table = tables.get(_handle_of(node)) if build is not None else None
        if build is None or table is None:
            nodes.append(node)
            continue
        key = node.SerializeToString(deterministic=True)
        if key not in made:
            made[key] = _replaced(node, graph, build, table)
            keep_original(made[key][-1], node)
        nodes.extend(made[key])
    replaced = tf.GraphDef()
    replaced.node.extend(nodes)
    del graph_def.node[:]
    graph_def.node.extend(replaced.node)
    drawn = sorted({table.name for table in tables.values() if table.is_drawn})
    line = (
        "in the exported graph, keys without a row read the mean of what rows of '{}' start with, "
        "as TensorFlow's ops cannot draw it by key"
    )
    return [line.format(name) for name in drawn]


def _tables(graph_def: Any, graph: Any) -> Dict[str, _Table]:
    """The graph's tables by the names of their handles, and those of their slots."""
    found = {}
    for node in graph_def.node:
        if node.op == _INITIALIZE:
            handle = node_of_input(node.input[0])
            bank = graph.get_operation_by_name(node.name).inputs[1].shape
            rows = tf.dimension_value(bank[0]) if bank.rank == 2 else None
            options = json.loads(node.attr["options"].s.decode("utf-8"))
            is_bank = options["initial"]["kind"] == "bank"
            found[handle] = _Table(handle, options, (rows or 0) if is_bank else 0)
    for node in graph_def.node:
        if node.op == _INITIALIZE_SLOT and node_of_input(node.input[0]) in found:
            found[node_of_input(node.input[1])] = found[node_of_input(node.input[0])]
    return found


def _handle_of(node: Any) -> str:
    inputs = [text for text in node.input if not text.startswith("^")]
    return node_of_input(inputs[_HANDLE_INPUTS.get(node.op, 0)]) if inputs else ""


def _replaced(node: Any, graph: Any, build: _Builder, table: _Table) -> List[Any]:
    return nodes_in_place_of(node, graph, lambda inputs: build(table, node, inputs), in_frame=False)


_Builder = Callable[[_Table, Any, List[Any]], Any]


def _initialized(table: _Table, node: Any, inputs: List[Any]) -> Any:
    fixed = inputs[1] if table.reads_bank else table.constant_row()
    none = tf.zeros([0], tf.int64)
    return tf.group(*table.keep(inputs[0], fixed, none, tf.zeros([0, table.width])))


def _slot_initialized(table: _Table, node: Any, inputs: List[Any]) -> Any:
    rows = tf.zeros([table.num_fixed, table.width])
    return tf.group(tf.raw_ops.AssignVariableOp(resource=inputs[1], value=rows))


def _is_initialized(table: _Table, node: Any, inputs: List[Any]) -> Any:
    return [tf.raw_ops.VarIsInitializedOp(resource=inputs[0])]


def _looked_up(table: _Table, node: Any, inputs: List[Any]) -> Any:
    handle, keys = inputs[0], tf.cast(inputs[1], tf.int64)
    absent = tf.constant(-1, tf.int64)
    index = table.key_index()
    with tf.control_dependencies([_check_index(table, node, handle, index)]):
        found = tf.raw_ops.LookupTableFindV2(table_handle=index, keys=keys, default_value=absent)
    fixed = tf.math.floormod(keys, tf.constant(table.num_fixed, tf.int64))
    rows = tf.where(found < 0, fixed, found)
    return [tf.raw_ops.ResourceGather(resource=handle, indices=rows, dtype=tf.float32)]


def _check_index(table: _Table, node: Any, handle: Any, index: Any) -> Any:
    """An op that fails if there are rows of keys, but no keys: a frozen graph has lost them."""
    rows = tf.shape(tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32))[0]
    size = tf.raw_ops.LookupTableSizeV2(table_handle=index)
    text = (
        "'{}' looks up '{}', whose keys are lost: a frozen graph has TensorFlow's hash tables "
        "without their content. Serve the SavedModel, or the .meta file and its checkpoint, as "
        "they are"
    )
    data = [tf.constant(text.format(node.name, table.name))]
    return tf.raw_ops.Assert(condition=(size > 0) | (rows <= table.num_fixed), data=data)


def _size(table: _Table, node: Any, inputs: List[Any]) -> Any:
    count = tf.raw_ops.LookupTableSizeV2(table_handle=table.key_index())
    return [tf.stack([count, tf.constant(table.width, tf.int64)])]


def _restored(table: _Table, node: Any, inputs: List[Any]) -> Any:
    if node.attr["changes"].b:
        return _changed(table, node, inputs)
    prefix, handle, slots = inputs[0], inputs[1], inputs[2:]
    name = _stored_name(node)
    dtypes = [tf.as_dtype(node.attr["key_dtype"].type), tf.float32]
    keys, values = _read(prefix, [name + "-keys", name + "-values"], dtypes)
    if table.reads_bank:
        (fixed,) = _read(prefix, [name + "-default_values"], [tf.float32])
    else:
        fixed = table.constant_row()
    assigned = table.keep(handle, fixed, tf.cast(keys, tf.int64), values)
    for number, (slot, pattern) in enumerate(zip(slots, node.attr["slot_names"].list.s)):
        stored = pattern.decode("utf-8").replace("{}", name) + "-values"
        values = _read_rows(table, prefix, stored, _slot_dtype(node, number))
        rows = tf.concat([tf.zeros([table.num_fixed, table.width]), values], 0)
        assigned.append(tf.raw_ops.AssignVariableOp(resource=slot, value=rows))
    return tf.group(*assigned)


def _changed(table: _Table, node: Any, inputs: List[Any]) -> Any:
    """Adds an increment's rows behind those that there are, and replaces those of known keys."""
    prefix, handle, slots = inputs[0], inputs[1], inputs[2:]
    name = _stored_name(node)
    key_dtype = tf.as_dtype(node.attr["key_dtype"].type)
    read = _read(prefix, [name + "-keys", name + "-keys_removed"], [key_dtype, key_dtype])
    keys, removed = (tf.cast(tf.reshape(one, [-1]), tf.int64) for one in read)
    index = table.key_index()
    with tf.control_dependencies(
        [tf.raw_ops.LookupTableRemoveV2(table_handle=index, keys=removed)]
    ):
        absent = tf.constant(-1, tf.int64)
        found = tf.raw_ops.LookupTableFindV2(table_handle=index, keys=keys, default_value=absent)
        is_any_left = tf.raw_ops.LookupTableSizeV2(table_handle=index) > 0
    is_new = found < 0
    names = [name] + [
        pattern.decode("utf-8").replace("{}", name) for pattern in node.attr["slot_names"].list.s
    ]
    assigned = []
    for number, (stored, variable) in enumerate(zip(names, [handle, *slots])):
        values = _read_rows(table, prefix, stored + "-values", _slot_dtype(node, number - 1))
        rows = tf.raw_ops.ReadVariableOp(resource=variable, dtype=tf.float32)
        fixed = tf.constant(table.num_fixed, tf.int64)
        end = tf.where(is_any_left, tf.shape(rows, out_type=tf.int64)[0], fixed)
        places = tf.where(is_new, end + tf.cumsum(_ones(is_new)) - 1, found)
        more = tf.zeros([tf.reduce_sum(_ones(is_new)), table.width])
        rows = tf.tensor_scatter_nd_update(
            tf.concat([rows[:end], more], 0), places[:, None], values
        )
        assigned.append(tf.raw_ops.AssignVariableOp(resource=variable, value=rows))
        if variable is handle:
            added = tf.boolean_mask(places, is_new)
    with tf.control_dependencies(assigned):
        return tf.raw_ops.LookupTableInsertV2(
            table_handle=index, keys=tf.boolean_mask(keys, is_new), values=tf.identity(added)
        )


def _ones(condition: Any) -> Any:
    return tf.cast(condition, tf.int64)


def _stored_name(node: Any) -> str:
    name = str(node.attr["tensor_name"].s.decode("utf-8"))
    parts, part = node.attr["num_parts"].i, node.attr["part"].i
    return "{}/part_{}".format(name, part) if parts > 1 else name


def _read(prefix: Any, names: Sequence[str], dtypes: Sequence[Any]) -> List[Any]:
    return list(
        tf.raw_ops.RestoreV2(
            prefix=prefix,
            tensor_names=list(names),
            shape_and_slices=[""] * len(names),
            dtypes=list(dtypes),
        )
    )


def _slot_dtype(node: Any, slot: int) -> Any:
    """The dtype of a slot in checkpoints; that of rows for slot -1."""
    dtypes = node.attr["slot_dtypes"].list.type
    return tf.as_dtype(dtypes[slot]) if dtypes and slot >= 0 else tf.float32


def _read_rows(table: _Table, prefix: Any, stored: str, dtype: Any) -> Any:
    """Rows of a table or slot; of integers, the first of each row in all columns."""
    (values,) = _read(prefix, [stored], [dtype])
    if not dtype.is_integer:
        return values
    numbers = tf.cast(values[:, :1], tf.float32)
    return tf.tile(numbers, [1, table.width])


def _saved(table: _Table, node: Any, inputs: List[Any]) -> Any:
    if node.attr["changes"].b:
        return _impossible("'{}' saves changes of '{}'".format(node.name, table.name))
    prefix, handle, slots = inputs[0], inputs[1], inputs[2:]
    keys, numbers = tf.raw_ops.LookupTableExportV2(
        table_handle=table.key_index(), Tkeys=tf.int64, Tvalues=tf.int64
    )
    buckets = tf.cast(tf.math.floormod(keys, tf.constant(_BUCKETS, tf.int64)), tf.int32)
    order = tf.argsort(buckets, stable=True)
    ends = tf.cumsum(tf.math.bincount(buckets, minlength=_BUCKETS, maxlength=_BUCKETS))
    offsets = tf.concat([[0], ends], 0)
    keys = tf.cast(tf.gather(keys, order), tf.as_dtype(node.attr["key_dtype"].type))
    numbers = tf.gather(numbers, order)
    names = [node.attr["tensor_name"].s.decode("utf-8")]
    names += [name.decode("utf-8") for name in node.attr["slot_names"].list.s]
    tensors: Dict[str, Any] = {}
    for number, (name, variable) in enumerate(zip(names, [handle, *slots])):
        rows = _rows(variable, numbers)
        if number > 0 and _slot_dtype(node, number - 1).is_integer:
            width = node.attr["slot_widths"].list.i[number - 1] or table.width
            first = tf.cast(rows[:, :1], _slot_dtype(node, number - 1))
            rows = tf.pad(first, [[0, 0], [0, width - 1]])
        if name:
            tensors.update(_layout(name, rows, keys, offsets))
    if names[0] and table.reads_bank:
        rows = tf.range(table.num_fixed)
        tensors[names[0] + "-default_values"] = _rows(handle, rows)
    return tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def _layout(name: str, rows: Any, keys: Any, offsets: Any) -> Dict[str, Any]:
    none = tf.zeros([0], tf.int64)
    return {
        name + "-keys": keys,
        name + "-values": rows,
        name + "-versions": none,
        name + "-freqs": none,
        name + "-partition_offset": offsets,
        name + "-keys_filtered": keys[:0],
        name + "-versions_filtered": none,
        name + "-freqs_filtered": none,
        name + "-partition_filter_offset": tf.zeros_like(offsets),
    }


def _rows(variable: Any, numbers: Any) -> Any:
    return tf.raw_ops.ResourceGather(resource=variable, indices=numbers, dtype=tf.float32)


def _not_trained(table: _Table, node: Any, inputs: List[Any]) -> Any:
    return _impossible("'{}' updates '{}'".format(node.name, table.name))


def _impossible(what: str) -> Any:
    text = (
        "{}, a dynamic table, which TensorFlow alone can serve, but not train: do that with "
        "graph_opt, in the graph that the script builds"
    )
    return tf.raw_ops.Assert(condition=tf.constant(False), data=[tf.constant(text.format(what))])


def _nothing(table: _Table, node: Any, inputs: List[Any]) -> Any:
    return tf.no_op()


_BUILDERS: Dict[str, _Builder] = {
    _INITIALIZE: _initialized,
    _INITIALIZE_SLOT: _slot_initialized,
    "DynamicTableIsInitialized": _is_initialized,
    "DynamicTableLookup": _looked_up,
    "DynamicTableSize": _size,
    "DynamicTableRestore": _restored,
    "DynamicTableSave": _saved,
    "DynamicTableApply": _not_trained,
    "DynamicTableSetStep": _nothing,
    "DynamicTableTrackChanges": _nothing,
}
_HANDLE_INPUTS = {"DynamicTableRestore": 1, "DynamicTableSave": 1}
