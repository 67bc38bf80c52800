"""Finds tables of frozen graphs in a GraphDef; `rules/frozen_tables.py` says what they are.

What is found here may be of any type, and in a graph that trains: a remark tells why such constants
count as no tables.
"""

from __future__ import annotations

from typing import Any, Dict, List

from graph_opt.reporting.tables import first_of
from graph_opt.rules.frozen_tables import CONSTANT, has_rows
from graph_opt.rules.op_names import PASS_ON, ROW_READERS

_LONGEST_READ = 64


def frozen_tables(graph_def: Any) -> List[str]:
    """Names of the constants with rows, at least two dimensions, that gathers read."""
    nodes: Dict[str, Any] = {node.name: node for node in graph_def.node}
    found: Dict[str, None] = {}
    for node in graph_def.node:
        if node.op in ROW_READERS and node.input:
            constant = _constant_behind(node.input[0], nodes)
            if constant is not None and has_rows(constant.attr["value"].tensor):
                found[constant.name] = None
    return list(found)


def frozen_remark(graph_def: Any) -> str:
    """What to tell of a graph in which no lookup was found; "" if gathers read no constants."""
    tables = frozen_tables(graph_def)
    if not tables:
        return ""
    return (
        "gathers read rows of constants ({}), which count as tables only if they are of a floating "
        "type, outside of tf.cond and tf.while_loop, in a graph that trains nothing".format(
            first_of(tables, 1)
        )
    )


def _constant_behind(text: str, nodes: Dict[str, Any]) -> Any:
    for _ in range(_LONGEST_READ):
        node = nodes.get(text.partition(":")[0])
        if node is None or node.op == CONSTANT:
            return node
        if node.op not in PASS_ON or not node.input:
            return None
        text = node.input[0]
    return None
