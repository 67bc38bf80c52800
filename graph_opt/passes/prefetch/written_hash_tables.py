"""Mutable hash tables that steps write, which a lookup of ids must not read ahead of the step.

    step 1   find(keys)   insert(keys)
    step 2   find(keys)   has what step 1 inserted, but not if it ran before that

A restored checkpoint does not count, nor does a table's only insert if its keys and values are
constants: it fills the table once. A dataset looks keys up when its iterator is asked for a batch.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from graph_opt.compat.op_definitions import is_stateful
from graph_opt.compat.stateful_ops import (
    HASH_TABLE_EXPORTS,
    HASH_TABLE_IMPORTS,
    HASH_TABLE_INSERTS,
    MUTABLE_HASH_TABLES,
    PLACEHOLDERS,
    READS,
    called_functions,
    functions_only_read,
)
from graph_opt.graph.view import GraphView
from graph_opt.passes.io_stages import ITERATORS, MAKE_ITERATOR
from graph_opt.passes.prefetch.handle_uses import handle_uses

_NOT_WRITING = READS | HASH_TABLE_EXPORTS | HASH_TABLE_IMPORTS
_NAMED_BY = ("container", "shared_name")


def hash_table_writers(view: GraphView) -> Dict[str, str]:
    """For each node that uses a table which steps write, one of the nodes that write it."""
    users: Dict[Tuple[bytes, bytes], List[str]] = {}
    for handle in view.of_op(*MUTABLE_HASH_TABLES):
        found = [use.consumer for use in handle_uses(view, handle)]
        users.setdefault(table_identity(view.nodes[handle]), []).extend(found)
    writers: Dict[str, str] = {}
    for names in users.values():
        writing = [name for name in names if writes_table(view.nodes[name], view.functions)]
        if writing and not (len(writing) == 1 and _inserts_constants(view, writing[0])):
            writers.update(dict.fromkeys(names, writing[0]))
    return writers


def written_inputs(view: GraphView, writers: Mapping[str, str]) -> Dict[str, str]:
    """For each iterator whose dataset reads a table that steps write, a node that reads it.

    Args:
      view: The graph.
      writers: Its `hash_table_writers`.
    """
    found: Dict[str, str] = {}
    for iterator in view.of_op(*ITERATORS) if writers else ():
        uses = [use for use in handle_uses(view, iterator) if use.slot == 1]
        makers = [use.consumer for use in uses if view.op(use.consumer) == MAKE_ITERATOR]
        datasets = view.ancestors([view.inputs(maker)[0].node for maker in makers])
        reader = next((name for name in datasets if name in writers), None)
        if reader is not None:
            found[iterator] = reader
    return found


def table_identity(handle: Any) -> Tuple[bytes, bytes]:
    """Equal for NodeDefs that return handles of the same table."""
    container, shared = (handle.attr[key].s if key in handle.attr else b"" for key in _NAMED_BY)
    return container, shared or handle.name.encode("utf-8")


def writes_table(node: Any, functions: Mapping[str, Any]) -> bool:
    """Whether a node that has the handle of a table may write the table.

    Args:
      node: Its NodeDef.
      functions: The graph's FunctionDefs by name.
    """
    if called_functions([node]):
        return not functions_only_read(node, functions)
    return node.op not in _NOT_WRITING


def _inserts_constants(view: GraphView, name: str) -> bool:
    if view.op(name) not in HASH_TABLE_INSERTS:
        return False
    given = [tensor.node for tensor in view.inputs(name)[1:]]
    behind = {view.op(node) for node in view.ancestors(given)}
    return not any(op in PLACEHOLDERS or is_stateful(op) for op in behind)
