"""Writes the files of an export's tables, and has its graph read them."""

from __future__ import annotations

import os
import uuid
from typing import Any, List, Sequence

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.serving.fused_meta_graph import list_ops
from graph_opt.serving.mapped_graph import map_variables
from graph_opt.serving.mapped_variables import (
    MappedVariable,
    describe,
    mapped_variables,
    needed_nodes,
)
from graph_opt.serving.meta_graph_names import fetched_names
from graph_opt.serving.table_lists import ASSET, ASSETS, FILES, file_name, write_list
from graph_opt.serving.variable_rows import VariableRows
from graph_opt.table_files.checkpoint_rows import CheckpointRows, tensorflow_errors
from graph_opt.table_files.mapped_files import write_mapped_table

_VARIABLES = os.path.join("variables", "variables")


def mapped_from_files(meta_graph: Any, folder: str) -> List[str]:
    """Has a graph read its variables from files in the assets of a SavedModel, and writes these.

    Args:
      meta_graph: A MetaGraphDef with fused lookups, which is changed.
      folder: The SavedModel.

    Returns:
      What was done, a line each.

    Raises:
      tf.errors.FailedPreconditionError: No lookup reads tables that could be mapped.
      tf.errors.DataLossError: The SavedModel's variables are damaged.
      tf.errors.NotFoundError: It has none.
    """
    view = GraphView(meta_graph.graph_def)
    needed = needed_nodes(view, fetched_names(meta_graph))
    variables, others = mapped_variables(view, needed, meta_graph.saver_def.restore_op_name)
    if not any(one.is_table for one in variables):
        raise tf.errors.FailedPreconditionError(
            None, None, "\n".join(["no table can be mapped, nothing was written", *others])
        )
    export_id = uuid.uuid4().hex
    map_variables(meta_graph, needed, variables, export_id)
    list_ops(meta_graph)
    with tensorflow_errors():
        _write_files(folder, variables, export_id)
    return describe(variables, others)


def _write_files(folder: str, variables: Sequence[MappedVariable], export_id: str) -> None:
    assets = os.path.join(folder, ASSETS)
    os.makedirs(os.path.join(assets, FILES))
    checkpoint = CheckpointRows(os.path.join(folder, _VARIABLES))
    files = []
    for number, variable in enumerate(variables):
        files.append(os.path.join(FILES, file_name(number, variable.head.name)))
        rows = VariableRows(checkpoint, variable.head, variable.stored)
        write_mapped_table(os.path.join(assets, files[-1]), variable.head, rows.blocks())
    write_list(os.path.join(assets, ASSET), export_id, files)
