"""Everything in a graph that reads or writes a deferred table or its slots.

    table -> gather                              some rows
    table -> [Identity | Switch] -> gather       likewise
    table -> anything else                       the whole variable: reductions, SaveV2, Assign, ...
    handle -> ReadVariableOp                     the whole variable

An Identity in the variable's place only passes its memory on, so what follows it is the reader.
"""

from __future__ import annotations

from typing import AbstractSet, Iterator, List, NamedTuple, Optional, Tuple

from graph_opt.compat.variable_ops import VariableUse, is_use
from graph_opt.graph.control_flow_ops import SWITCHES
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.passes.fusion.deferred import DeferredVariable
from graph_opt.passes.tasks import task_of
from graph_opt.rules.op_names import COMBINERS, GROUP_READERS, PASS_ON, ROW_GATHERS

# What reads no values.
_DESCRIBES = frozenset(["Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"])
_ASKS = frozenset([VariableUse.ASKS])


class TableRead(NamedTuple):
    """An edge through which a node reads or writes a variable.

    Attributes:
      node: The node.
      slot: Number of the input.
      shard: The deferred table that the variable belongs to.
      variable: The variable: the table or one of its slots.
      waits: Nodes that the variable's value waits for on its way to the node.
      branch: The output of the innermost Switch on that way; None outside a tf.cond.
      rows: The rows that are read; None for all.
      in_place: Whether the node reads the variable's own memory, rather than a copy sent to it.
    """

    node: str
    slot: int
    shard: DeferredVariable
    variable: str
    waits: Tuple[str, ...]
    branch: Optional[TensorRef]
    rows: Optional[TensorRef]
    in_place: bool


class PassedOn(NamedTuple):
    """A tensor that is the value of a whole variable, or its handle.

    Attributes:
      tensor: The tensor.
      waits: Nodes that it waits for.
      branch: As in `TableRead`.
    """

    tensor: TensorRef
    waits: Tuple[str, ...] = ()
    branch: Optional[TensorRef] = None


class TableReads(NamedTuple):
    """The reads of one variable.

    Attributes:
      reads: All of them.
      group_ops: Nodes of graph_opt's own ops that look up rows.
      values: The tensors with the variable's value that a session could fetch.
    """

    reads: Tuple[TableRead, ...]
    group_ops: Tuple[str, ...]
    values: Tuple[PassedOn, ...]


def table_reads(
    view: GraphView,
    shard: DeferredVariable,
    variable: str,
    only: Optional[AbstractSet[str]] = None,
) -> TableReads:
    """Finds what reads or writes a variable.

    Args:
      view: The graph.
      shard: The deferred table that the variable belongs to.
      variable: The table or one of its slots.
      only: Nodes to consider; None for all.
    """
    reads: List[TableRead] = []
    group_ops: List[str] = []
    values: List[PassedOn] = []
    pending = [PassedOn(TensorRef(variable, 0))]
    while pending:
        held = pending.pop()
        if held.branch is None:
            values.append(held)
        for use in view.uses(held.tensor):
            following = list(_passed_on(view, shard, variable, held, use))
            pending.extend(following)
            if following or (only is not None and use.consumer not in only):
                continue
            op = view.op(use.consumer)
            if op in GROUP_READERS:
                group_ops.append(use.consumer)
            elif not (op in _DESCRIBES or is_use(op, _ASKS) or _catches_up(op)):
                reads.append(_read(view, shard, variable, held, use))
    return TableReads(tuple(reads), tuple(group_ops), tuple(values))


def _passed_on(
    view: GraphView, shard: DeferredVariable, variable: str, held: PassedOn, use: Use
) -> Iterator[PassedOn]:
    """The outputs of a node that merely passes the variable on."""
    name, op = use.consumer, view.op(use.consumer)
    if use.slot != 0 or not (shard.is_resource or is_in_place(view, name, variable)):
        return
    waits = (*held.waits, *view.controls(name))
    if op in SWITCHES:
        for index in (0, 1):
            yield PassedOn(TensorRef(name, index), waits, TensorRef(name, index))
    elif op in PASS_ON:
        yield PassedOn(TensorRef(name, 0), waits, held.branch)


def _read(
    view: GraphView, shard: DeferredVariable, variable: str, held: PassedOn, use: Use
) -> TableRead:
    return TableRead(
        node=use.consumer,
        slot=use.slot,
        shard=shard,
        variable=variable,
        waits=(*held.waits, *view.controls(use.consumer)),
        branch=held.branch,
        rows=_rows(view, use),
        in_place=shard.is_resource or is_in_place(view, use.consumer, variable),
    )


def _rows(view: GraphView, use: Use) -> Optional[TensorRef]:
    """The rows of a variable that a node reads; None unless it reads it row by row."""
    op = view.op(use.consumer)
    if use.slot != 0:
        return None
    if op in ROW_GATHERS:
        return view.inputs(use.consumer)[1] if _is_by_row(view, use.consumer) else None
    return view.inputs(use.consumer)[1] if op in COMBINERS else None


def _is_by_row(view: GraphView, gather: str) -> bool:
    batch_dims = view.attribute(gather, "batch_dims")
    axis = view.input(gather, 2)
    first = axis is None or view.constant(axis) == 0
    return first and (batch_dims is None or batch_dims.i == 0)


def _catches_up(op: str) -> bool:
    return "GroupEmbeddingBring" in op


def is_in_place(view: GraphView, name: str, variable: str) -> bool:
    """Whether a node is certain to be placed where the variable is."""
    groups = view.attribute(name, "_class")
    if groups is not None and "loc:@{}".format(variable).encode() in groups.list.s:
        return True
    own, other = view.device(name), view.device(variable)
    return own == other or (task_of(own) is not None and task_of(own) == task_of(other))
