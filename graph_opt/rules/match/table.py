"""What a table is, and what counts as reading it.

    ref       VariableV2 | Variable -> Identity                    -> gather
    resource  VarHandleOp                                          -> ResourceGather
              VarHandleOp -> ReadVariableOp                        -> gather   (tf.contrib of 1.15)
    dynamic   VarHandleOp                                          -> DynamicTableLookup
    frozen    Const [-> Identity]                                  -> gather   (nothing trains)
    either    ... -> Switch | Enter | Merge                        -> gather   (control flow)

A dynamic table is behind the handle of a variable; which it is, only its readers and writers tell.

Passes must not touch a read through control flow, which may not run at all, or many times.
"""

from __future__ import annotations

from typing import AbstractSet, List, NamedTuple, Optional

from graph_opt.graph.control_flow_ops import INTO_CONTROL_FLOW, MERGES
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.static_shapes import static_shape
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.frozen_tables import CONSTANT, constant_tensor, is_frozen_table
from graph_opt.rules.lookup import Table
from graph_opt.rules.op_names import (
    DYNAMIC_ROWS,
    EXCHANGE_GATHERS,
    GROUP_GATHERS,
    GROUP_LOOKUPS,
    ROW_READERS,
    VARIABLES,
    WHOLE_READS,
    is_of_dynamic_table,
)

_INTO_OR_MERGED = INTO_CONTROL_FLOW | MERGES
_READS = WHOLE_READS | _INTO_OR_MERGED
_TABLES = VARIABLES | {CONSTANT}
# What models make of a whole table before they look rows up: a row of zeros for padding, say.
_PARTS = frozenset(["Concat", "ConcatV2", "MirrorPad", "Pad", "PadV2", "Slice", "StridedSlice"])
_ELEMENTWISE = frozenset(["Cast", "Mul", "RealDiv", "Sigmoid", "Tanh"])
_LONGEST_COMPUTATION = 8
# A read is one or two nodes; one for each enclosing tf.cond or tf.while_loop is added.
_LONGEST_READ = 64


class TableRead(NamedTuple):
    """How a tensor reads a whole variable, or its handle.

    Attributes:
      variable: The variable op, or the constant in its place.
      control_flow: The Switch, Merge or Enter nearest to the reader; None outside control flow.
    """

    variable: str
    control_flow: Optional[str]


def count_tables(view: GraphView, name: str) -> int:
    """How many of a node's inputs, starting with the first, it reads as tables, row by row."""
    op = view.op(name)
    if op in GROUP_LOOKUPS or op in EXCHANGE_GATHERS:
        shards = view.attribute(name, "num_shards")
        return 0 if shards is None else int(shards.i)
    if op in GROUP_GATHERS:
        return len(view.inputs(name)) - 1  # the last input is the request
    if op == DYNAMIC_ROWS:
        tables = view.attribute(name, "N")
        return 0 if tables is None else int(tables.i)
    reads_by_row = op in ROW_READERS or op == "VariableShape" or is_of_dynamic_table(op)
    return 1 if reads_by_row else 0


def find_read(view: GraphView, tensor: TensorRef) -> Optional[TableRead]:
    """The variable that `tensor` is the value or handle of, or None if it is anything else."""
    return _find_source(view, tensor, VARIABLES)


def find_table(view: GraphView, tensor: TensorRef) -> Optional[TableRead]:
    """Like `find_read`, but also finds the constants that are the tables of a frozen graph."""
    read = _find_source(view, tensor, _TABLES)
    if read is None or view.op(read.variable) in VARIABLES:
        return read
    return read if is_frozen_table(view, read.variable) else None


def _find_source(
    view: GraphView, tensor: TensorRef, sources: AbstractSet[str]
) -> Optional[TableRead]:
    control_flow = None
    for _ in range(_LONGEST_READ):
        op = view.op(tensor.node)
        if op in sources:
            return TableRead(tensor.node, control_flow)
        source = view.input(tensor.node, 0)
        if op not in _READS or source is None:
            return None
        if op in _INTO_OR_MERGED and control_flow is None:
            control_flow = tensor.node
        tensor = source
    return None


def read_nodes(view: GraphView, reader: str) -> List[str]:
    """The nodes between a table and a node that reads it as its first input."""
    nodes: List[str] = []
    tensor = view.inputs(reader)[0]
    while view.op(tensor.node) not in _TABLES:
        nodes.append(tensor.node)
        tensor = view.inputs(tensor.node)[0]
    return nodes


def find_concatenated_reads(view: GraphView, tensor: TensorRef) -> List[str]:
    """The tables that `tensor` concatenates, as reading a partitioned variable whole does."""
    source = view.through_identity(tensor)
    if view.op(source.node) not in ("ConcatV2", "Concat"):
        return []
    count = view.nodes[source.node].attr["N"].i
    first = 0 if view.op(source.node) == "ConcatV2" else 1
    reads = [find_table(view, part) for part in view.inputs(source.node)[first : first + count]]
    variables = [read.variable for read in reads if read is not None]
    return variables if len(variables) == len(reads) else []


def require_table(view: GraphView, reader: str, tensor: TensorRef) -> Optional[Table]:
    """The table that node `reader` reads through `tensor`, or None if that is none.

    Raises:
      Refusal: lookup_in_control_flow, partitions_concatenated, table_attributes_missing,
        table_computed.
    """
    read = find_table(view, tensor)
    if read is None:
        _refuse_concatenated(view, reader, tensor)
        _refuse_computed(view, reader, tensor)
        return None
    if read.control_flow is not None:
        raise Refusal(
            "lookup_in_control_flow",
            at=reader,
            need="a lookup outside tf.cond and tf.while_loop",
            saw="table {} through {} '{}'".format(
                read.variable, view.op(read.control_flow), read.control_flow
            ),
        )
    return describe(view, read.variable)


def describe(view: GraphView, variable: str) -> Table:
    """Describes a variable op, or the constant in its place, by its static attributes.

    Raises:
      Refusal: table_attributes_missing.
    """
    if view.op(variable) == CONSTANT:
        return _describe_constant(view, variable)
    dtype = view.attribute(variable, "dtype")
    shape = view.attribute(variable, "shape")
    if dtype is None or shape is None:
        raise Refusal(
            "table_attributes_missing",
            at=variable,
            need="attributes dtype and shape",
            saw="no " + ("dtype" if dtype is None else "shape"),
        )
    op = view.op(variable)
    return Table(
        name=variable,
        op=op,
        dtype=dtype.type,
        shape=static_shape(shape.shape),
        device=view.device(variable),
        is_resource=op == "VarHandleOp",
        is_dynamic=op == "VarHandleOp" and is_dynamic(view, variable),
    )


def _describe_constant(view: GraphView, name: str) -> Table:
    tensor = constant_tensor(view, name)
    assert tensor is not None  # Only a constant with rows is read as a table.
    return Table(
        name=name,
        op=CONSTANT,
        dtype=tensor.dtype,
        shape=static_shape(tensor.tensor_shape),
        device=view.device(name),
        is_resource=False,
    )


def is_dynamic(view: GraphView, variable: str) -> bool:
    """Whether a dynamic table, or a slot of one, is behind a variable's handle."""
    handles = [TensorRef(variable, 0)]
    for handle in handles:
        for use in view.uses(handle):
            op = view.op(use.consumer)
            if is_of_dynamic_table(op):
                return True
            if op in _INTO_OR_MERGED and len(handles) < _LONGEST_READ:
                handles += [tensor for tensor, _ in view.node_uses(use.consumer)]
    return False


def _refuse_concatenated(view: GraphView, reader: str, tensor: TensorRef) -> None:
    variables = find_concatenated_reads(view, tensor)
    if variables:
        raise Refusal(
            "partitions_concatenated",
            at=reader,
            need="tf.nn.embedding_lookup, which reads a partitioned variable shard by shard",
            saw="a read of {} whole variables concatenated, the first of which is {}".format(
                len(variables), variables[0]
            ),
        )


def _refuse_computed(view: GraphView, reader: str, tensor: TensorRef) -> None:
    variable = _computed_from(view, tensor)
    if variable is not None:
        source = view.through_identity(tensor).node
        raise Refusal(
            "table_computed",
            at=reader,
            need="rows of a variable",
            saw="rows of {} '{}', computed from all of {}".format(
                view.op(source), source, variable
            ),
        )


def _computed_from(view: GraphView, tensor: TensorRef) -> Optional[str]:
    """The first variable whose rows a tensor consists of, changed or not."""
    waiting = [tensor]
    for _ in range(_LONGEST_COMPUTATION):
        waiting = [source for each in waiting for source in _row_sources(view, each)]
        for source in waiting:
            read = find_read(view, source)
            if read is not None:
                return read.variable
    return None


def _row_sources(view: GraphView, tensor: TensorRef) -> List[TensorRef]:
    """The inputs of a node whose rows are in its output."""
    source = view.through_identity(tensor)
    op = view.op(source.node)
    if op in _PARTS:
        return list(view.inputs(source.node))
    shape = view.shape(source)
    # Rows of a batch, whose number is unknown, are no table, whatever they are multiplied by.
    if op not in _ELEMENTWISE or not shape or None in shape:
        return []
    return [one for one in view.inputs(source.node) if view.shape(one) == shape]
