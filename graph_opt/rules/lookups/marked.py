"""Tensors that a user declared to be lookup outputs with `async_embedding_mark_node`.

A mark consists of two node attributes: `_async_embedding_marked` (bool) and
`_async_embedding_marked_outputs` (output numbers; just 0 if unset).
"""

from __future__ import annotations

from typing import Container, Dict, List, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import lookup as apis
from graph_opt.rules.lookup import Lookup, LookupSearch, Table
from graph_opt.rules.match.table import describe, find_read
from graph_opt.rules.op_names import ROW_READERS

MARK = "_async_embedding_marked"
MARKED_OUTPUTS = "_async_embedding_marked_outputs"
# Bounds the search for tables upstream of all marks together to linear time.
_VISITS_FOR_EACH_NODE = 4


def find_marked(view: GraphView, known: Container[TensorRef]) -> LookupSearch:
    """The marked tensors as lookups, except those in `known`, about which patterns say more.

    Returns:
      Lookups of api "marked", with the tables whose rows are read upstream, and refusals
      marked_output_missing, marked_variable and table_attributes_missing.
    """
    lookups: List[Lookup] = []
    refusals: List[Refusal] = []
    visits = _VISITS_FOR_EACH_NODE * len(view)
    for tensor in _marked_tensors(view):
        if tensor in known:
            continue
        try:
            _require_value(view, tensor)
            lookup, used = _describe(view, tensor, visits)
        except Refusal as refusal:
            refusals.append(refusal)
            continue
        lookups.append(lookup)
        visits -= used
    return LookupSearch(tuple(lookups), tuple(refusals))


def _marked_tensors(view: GraphView) -> List[TensorRef]:
    tensors: List[TensorRef] = []
    for name, node in view.nodes.items():
        if MARK not in node.attr or not node.attr[MARK].b:
            continue
        listed = view.attribute(name, MARKED_OUTPUTS)
        outputs = [0] if listed is None else sorted(set(listed.list.i))
        tensors.extend(TensorRef(name, int(index)) for index in outputs)
    return tensors


def _require_value(view: GraphView, tensor: TensorRef) -> None:
    dtypes = view.dtypes(tensor.node)
    if dtypes is not None and not 0 <= tensor.index < len(dtypes):
        raise Refusal(
            "marked_output_missing",
            at=tensor.node,
            need="an output number below {}".format(len(dtypes)),
            saw=str(tensor.index),
        )
    read = find_read(view, tensor)
    if read is not None:
        raise Refusal(
            "marked_variable",
            at=tensor.node,
            need="rows of a table: a whole variable never crosses to main",
            saw="a read of variable " + read.variable,
        )


def _describe(view: GraphView, tensor: TensorRef, visits: int) -> Tuple[Lookup, int]:
    """The marked tensor as a lookup, and the number of nodes visited to find its tables."""
    tables: Dict[str, Table] = {}
    gathers: List[str] = []
    seen = {tensor.node}
    stack = [tensor.node]
    while stack and len(seen) <= visits:
        name = stack.pop()
        read = find_read(view, view.inputs(name)[0]) if view.op(name) in ROW_READERS else None
        if read is not None:
            tables[read.variable] = describe(view, read.variable)
            gathers.append(name)
        for source in view.inputs(name)[0 if read is None else 1 :]:
            if source.node not in seen:
                seen.add(source.node)
                stack.append(source.node)
    lookup = Lookup(
        api=apis.MARKED,
        tables=tuple(tables[name] for name in sorted(tables)),
        ids=(),
        output=tensor,
        gathers=tuple(sorted(gathers)),
        nodes=(tensor.node,),
        name=tensor.node,
    )
    return lookup, len(seen)
