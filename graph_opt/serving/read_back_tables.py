"""The tables of an export in a session of its graph in TensorFlow's own ops, for comparisons."""

from __future__ import annotations

import os
from typing import Any, List, Sequence

from graph_opt.compat import tf
from graph_opt.saved_models.files import ASSETS
from graph_opt.serving.table_lists import ASSET, UPDATE_SIGNATURE, export_list
from graph_opt.table_files.checkpoint_rows import tensorflow_errors
from graph_opt.table_files.low_precision import float_rows
from graph_opt.table_files.mapped_files import MappedTable, is_lowered

_HANDLE = "VarHandleOp"


def lowered_tables(folder: str, stock: Any, fused: Any) -> List[MappedTable]:
    """The tables of float32 that the fused graph of an export has in another dtype.

    Args:
      folder: The export.
      stock: Its graph in TensorFlow's own ops.
      fused: Its graph with fused lookups.

    Raises:
      tf.errors.DataLossError: A file is damaged.
    """
    reads_files = UPDATE_SIGNATURE in fused.signature_def
    if not reads_files or not os.path.exists(os.path.join(folder, ASSETS, ASSET)):
        return []
    dtypes = {node.name: node.attr["dtype"].type for node in stock.graph_def.node}
    with tensorflow_errors():
        tables = [MappedTable(path) for path in export_list(folder).paths]
    return [
        table
        for table in tables
        if table.head.name in dtypes
        and is_lowered(tf.as_dtype(dtypes[table.head.name]), table.head.dtype)
    ]


def set_tables(session: Any, tables: Sequence[MappedTable]) -> None:
    """Sets variables of a session to what the rows of tables stand for."""
    with session.graph.as_default():
        for table in tables:
            op = session.graph.get_operation_by_name(table.head.name)
            shape = tf.TensorShape(op.get_attr("shape")).as_list()
            value = tf.placeholder(tf.float32, shape)
            if op.type == _HANDLE:
                assign = tf.raw_ops.AssignVariableOp(resource=op.outputs[0], value=value)
            else:
                assign = tf.assign(op.outputs[0], value).op
            rows = table.rows(0, table.head.num_rows)
            session.run(assign, {value: float_rows(rows, shape)})


def take_updates_back(session: Any, fused: Any, folder: str) -> None:
    """Has a fused graph serve the tables as they were exported."""
    if UPDATE_SIGNATURE in fused.signature_def:
        signature = fused.signature_def[UPDATE_SIGNATURE]
        path, version = signature.inputs["path"].name, signature.outputs["version"].name
        session.run(version, {path: folder})
