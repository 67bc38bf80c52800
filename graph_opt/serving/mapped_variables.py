"""Which variables of a served graph files can stand for: those that requests only read."""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import takes_reference
from graph_opt.compat.variable_ops import VariableUse, use_of
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.reporting.tables import counted, first_of
from graph_opt.saved_models.named_nodes import node_of
from graph_opt.table_files.mapped_files import TableHead

HANDLES = ("VarHandleOp",)
LOOKUPS = {"GroupEmbeddingLookup": False, "ResourceGroupEmbeddingLookup": True}
"""The ops of fused lookups, and whether they take handles."""
READS_HANDLE = "ReadVariableOp"
VARIABLES = ("VariableV2", "Variable", *HANDLES)
"""The ops of variables."""
_RESTORES = "RestoreV2"
_MOST_NAMED = 3


class Stored(NamedTuple):
    """Where a variable is in the SavedModel's checkpoint.

    Attributes:
      tensor: Its name there.
      slice_spec: Which part of it, as `tf.train.Saver` writes it; empty for all.
    """

    tensor: str
    slice_spec: str

    @property
    def first_row(self) -> Optional[int]:
        """The tensor's row that is the variable's first one; None if it is no run of whole rows."""
        if not self.slice_spec:
            return 0
        parts = self.slice_spec.split(" ")[-1].split(":")
        if any(part != "-" for part in parts[1:]):
            sizes = self.slice_spec.split(" ")[1:-1]
            if any(part not in ("-", "0," + size) for part, size in zip(parts[1:], sizes)):
                return None
        return 0 if parts[0] == "-" else int(parts[0].split(",")[0])


class MappedVariable(NamedTuple):
    """A variable that is read from a file.

    Attributes:
      head: Its name, which is its node's, dtype and shape.
      stored: Where its value is.
      is_table: Whether a fused lookup reads it.
    """

    head: TableHead
    stored: Stored
    is_table: bool


def mapped_variables(
    view: GraphView, needed: Set[str], restore_op: str
) -> Tuple[List[MappedVariable], Dict[str, str]]:
    """Finds the variables that files can stand for.

    Args:
      view: A graph with fused lookups.
      needed: The nodes that requests run.
      restore_op: The node that restores the variables.

    Returns:
      Them, and why each other variable that requests need is none, by its name.
    """
    stored = stored_variables(view, restore_op)
    found: List[MappedVariable] = []
    others: Dict[str, str] = {}
    for name in view.of_op(*VARIABLES):
        if name not in needed:
            continue
        one = _mapped(view, needed, name, stored.get(name))
        if isinstance(one, str):
            others[name] = one
        else:
            found.append(one)
    return found, others


def stored_variables(view: GraphView, restore_op: str) -> Dict[str, Stored]:
    """Where a SavedModel's checkpoint has each variable, by the names of their nodes."""
    found: Dict[str, Stored] = {}
    for restore in view.ancestors([restore_op]) if restore_op in view else ():
        if view.op(restore) != _RESTORES:
            continue
        names, specs = (view.constant(view.inputs(restore)[slot]) for slot in (1, 2))
        if names is None or specs is None:
            continue
        for index, (name, spec) in enumerate(zip(names.flat, specs.flat)):
            for variable in _set_from(view, TensorRef(restore, index)):
                found[variable] = Stored(tf.compat.as_str(name), tf.compat.as_str(spec))
    return found


def is_table_input(view: GraphView, node: str, slot: int) -> bool:
    """Whether a data input of a node is a table that a fused lookup reads."""
    shards = view.attribute(node, "num_shards")
    return view.op(node) in LOOKUPS and shards is not None and slot < shards.i


def _set_from(view: GraphView, tensor: TensorRef) -> Iterator[str]:
    """The variables that get the value of a tensor."""
    for use in view.uses(tensor):
        if use_of(view.op(use.consumer)) is VariableUse.SETS and use.slot == 1:
            yield view.inputs(use.consumer)[0].node
        elif view.op(use.consumer) == "Identity":
            yield from _set_from(view, TensorRef(use.consumer, 0))


def _mapped(
    view: GraphView, needed: Set[str], name: str, stored: Optional[Stored]
) -> Union[MappedVariable, str]:
    """The variable, or why it is none that a file can stand for."""
    shape, dtype = view.attribute(name, "shape"), view.attribute(name, "dtype")
    assert shape is not None and dtype is not None  # Variables have them.
    sizes = [size.size for size in shape.shape.dim]
    if shape.shape.unknown_rank or any(size < 0 for size in sizes):
        return "its shape is not known"
    type_of = tf.as_dtype(dtype.type)
    if not type_of.size or stored is None or stored.first_row is None:
        return "the checkpoint does not have it in rows"
    reads = [use for _, use in view.node_uses(name) if use.consumer in needed]
    for use in reads:
        refusal = _refusal(view, name, use.consumer, use.slot)
        if refusal:
            return refusal
    is_table = any(is_table_input(view, use.consumer, use.slot) for use in reads)
    return MappedVariable(TableHead(name, type_of, tuple(sizes)), stored, is_table)


def _refusal(view: GraphView, name: str, reader: str, slot: int) -> str:
    """Why a node that requests run needs the variable itself; empty if its value does."""
    if is_table_input(view, reader, slot):
        others = [
            tensor.node
            for slot, tensor in enumerate(view.inputs(reader))
            if is_table_input(view, reader, slot) and view.op(tensor.node) not in VARIABLES
        ]
        if others and LOOKUPS[view.op(reader)]:
            return "it is looked up together with {}".format(others[0])
        return ""
    if view.op(name) in HANDLES:
        is_read = view.op(reader) == READS_HANDLE
    else:
        is_read = not takes_reference(view.nodes[reader], slot)
    return "" if is_read else "{} ({}) reads it, too".format(reader, view.op(reader))


def needed_nodes(view: GraphView, named: Sequence[str]) -> Set[str]:
    """What is run for these tensors or nodes."""
    names = set(map(node_of, named))
    return set(view.ancestors(name for name in names if name in view))


def bytes_of(variables: Sequence[MappedVariable]) -> int:
    """Bytes of their values."""
    return sum(one.head.num_rows * one.head.row_bytes for one in variables)


def describe(variables: Sequence[MappedVariable], others: Dict[str, str]) -> List[str]:
    """What an export says of them, a line each."""
    tables = sum(one.is_table for one in variables)
    line = "{} and {} mapped from files, {:.1f} MB".format(
        counted(tables, "table"),
        counted(len(variables) - tables, "other variable"),
        bytes_of(variables) / 1e6,
    )
    return [line, *describe_others(others)]


def describe_constants(view: GraphView) -> List[str]:
    """A line about the constants that lookups read as tables, if there are any."""
    tables: Dict[str, None] = {}
    for name in view.of_op(*LOOKUPS):
        for slot, tensor in enumerate(view.inputs(name)):
            if is_table_input(view, name, slot) and view.op(tensor.node) == "Const":
                tables[tensor.node] = None
    text = "constants of a frozen model: {}; export the model from before it was frozen"
    return [text.format(first_of(list(tables), _MOST_NAMED))] if tables else []


def describe_others(others: Dict[str, str]) -> List[str]:
    """Which variables are not mapped, and why, a line each."""
    return ["{} stays a variable: {}".format(name, why) for name, why in others.items()]
