"""Writes the files of an export's tables, and has its graph read them."""

from __future__ import annotations

import os
import uuid
from typing import Any, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.saved_models.files import ASSETS, VARIABLES
from graph_opt.saved_models.named_nodes import fetched_names
from graph_opt.serving.fused_meta_graph import list_ops
from graph_opt.serving.low_precision_tables import LowPrecisionTables
from graph_opt.serving.mapped_graph import map_variables
from graph_opt.serving.mapped_variables import (
    MappedVariable,
    describe,
    describe_constants,
    describe_others,
    mapped_variables,
    needed_nodes,
)
from graph_opt.serving.table_lists import ASSET, FILES, file_name, write_list
from graph_opt.serving.variable_rows import VariableRows
from graph_opt.table_files.checkpoint_rows import CheckpointRows, tensorflow_errors
from graph_opt.table_files.mapped_files import write_mapped_table


def mapped_from_files(
    meta_graph: Any, folder: str, stored: str, table_dtype: str = "", only_these: bool = False
) -> List[str]:
    """Has a graph read its variables from files in the assets of a SavedModel, and writes these.

    Args:
      meta_graph: A MetaGraphDef with fused lookups, which is changed.
      folder: The SavedModel.
      stored: The one whose variables are read: the same, or the one that it is copied from.
      table_dtype: float16, bfloat16 or int8, for tables that lookups alone read; else empty.
      only_these: Whether only tables of this dtype are read from files.

    Returns:
      What was done, a line each.

    Raises:
      tf.errors.FailedPreconditionError: No lookup reads tables that could be mapped, or stored in
        this dtype.
      tf.errors.InvalidArgumentError: A number of a table is not finite in this dtype.
      tf.errors.DataLossError: The SavedModel's variables are damaged.
      tf.errors.NotFoundError: It has none.
    """
    view = GraphView(meta_graph.graph_def)
    needed = needed_nodes(view, fetched_names(meta_graph))
    variables, others = mapped_variables(view, needed, meta_graph.saver_def.restore_op_name)
    if not any(one.is_table for one in variables):
        raise _nothing_written(
            "no table can be mapped", [*describe_others(others), *describe_constants(view)]
        )
    low: Optional[LowPrecisionTables] = None
    if table_dtype:
        low = LowPrecisionTables(view, needed, variables, others, table_dtype)
        if not low.names:
            raise _nothing_written("no table can be of " + table_dtype, low.kept())
        variables = low.variables
        if only_these:
            variables = [one for one in variables if one.head.name in low.names]
    export_id = uuid.uuid4().hex
    map_variables(meta_graph, needed, variables, export_id)
    list_ops(meta_graph)
    with tensorflow_errors():
        checkpoint = CheckpointRows(os.path.join(stored, VARIABLES))
        _write_files(os.path.join(folder, ASSETS), checkpoint, variables, export_id, low)
    said = [] if only_these else describe(variables, others)
    return said if low is None else [*said, *low.describe()]


def _write_files(
    assets: str,
    checkpoint: CheckpointRows,
    variables: Sequence[MappedVariable],
    export_id: str,
    low: Optional[LowPrecisionTables],
) -> None:
    os.makedirs(os.path.join(assets, FILES))
    files = []
    for number, variable in enumerate(variables):
        files.append(os.path.join(FILES, file_name(number, variable.head.name)))
        rows = VariableRows(checkpoint, variable.head, variable.stored)
        is_low = low is not None and variable.head.name in low.names
        blocks = low.rows(rows, variable.head) if low is not None and is_low else rows.blocks()
        write_mapped_table(os.path.join(assets, files[-1]), variable.head, blocks)
    write_list(os.path.join(assets, ASSET), export_id, files)


def _nothing_written(what: str, reasons: Sequence[str]) -> Exception:
    text = "\n".join([what + ", nothing was written", *reasons])
    return tf.errors.FailedPreconditionError(None, None, text)
