"""Mutable hash tables that steps write, which a lookup of ids must not read ahead of the step.

    step 1   find(keys)   insert(keys)
    step 2   find(keys)   has what step 1 inserted, but not if it ran before that

A restored checkpoint does not count, nor does a table's only insert if its keys and values are
constants: it fills the table once.
"""

from __future__ import annotations

from typing import Dict, List, Tuple

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
from graph_opt.passes.prefetch.handle_uses import handle_uses

_NOT_WRITING = READS | HASH_TABLE_EXPORTS | HASH_TABLE_IMPORTS


def hash_table_writers(view: GraphView) -> Dict[str, str]:
    """For each node that uses a table which steps write, one of the nodes that write it."""
    users: Dict[Tuple[bytes, ...], List[str]] = {}
    for handle in view.of_op(*MUTABLE_HASH_TABLES):
        found = [use.consumer for use in handle_uses(view, handle)]
        users.setdefault(_identity(view, handle), []).extend(found)
    writers: Dict[str, str] = {}
    for names in users.values():
        writing = [name for name in names if _writes(view, name)]
        if writing and not (len(writing) == 1 and _inserts_constants(view, writing[0])):
            writers.update(dict.fromkeys(names, writing[0]))
    return writers


def _identity(view: GraphView, handle: str) -> Tuple[bytes, ...]:
    """Equal for handles of the same table."""
    found = [view.attribute(handle, key) for key in ("container", "shared_name")]
    container, shared = (b"" if each is None else each.s for each in found)
    return container, shared or handle.encode("utf-8")


def _writes(view: GraphView, name: str) -> bool:
    node = view.nodes[name]
    if called_functions([node]):
        return not functions_only_read(node, view.functions)
    return node.op not in _NOT_WRITING


def _inserts_constants(view: GraphView, name: str) -> bool:
    if view.op(name) not in HASH_TABLE_INSERTS:
        return False
    given = [tensor.node for tensor in view.inputs(name)[1:]]
    behind = {view.op(node) for node in view.ancestors(given)}
    return not any(op in PLACEHOLDERS or is_stateful(op) for op in behind)
