"""Lookups in hash tables of TensorFlow Recommenders Addons, which have ops of their own.

    CuckooHashTableOfTensors, keys, default rows -> CuckooHashTableFind = rows
    rows -> AssignVariableOp(TrainableWrapper) -^> ReadVariableOp -> the model

What the model reads is a variable that gets the rows of a batch, and that optimizers update before
they insert its rows into the table. So the lookup ends with the rows themselves. Optimizers find
rows of their slots in the same way; nothing computes with these but an update.
"""

from __future__ import annotations

from typing import Optional

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import lookup as apis
from graph_opt.rules.lookup import Lookup, Table
from graph_opt.rules.match.forward import ForwardPart
from graph_opt.rules.op_names import SHAPE_READERS

STARTS = frozenset(["TFRA>CuckooHashTableFind", "TFRA>CuckooHashTableFindWithExists"])
_TABLES = "TFRA>"
_TABLE, _KEYS = 0, 1
_PASS_ON = frozenset(["Identity", "Reshape"])


def start(view: GraphView, forward: ForwardPart, name: str) -> Optional[Lookup]:
    """The lookup of node `name`, of an op in `STARTS`; None if the model does not read it."""
    table = _table(view, view.inputs(name)[_TABLE].node)
    if table is None or not _feeds_model(view, forward, name):
        return None
    keys = view.inputs(name)[_KEYS]
    return Lookup(
        api=apis.FOREIGN_LOOKUP,
        tables=(table,),
        ids=(keys,),
        output=TensorRef(name, 0),
        gathers=(name,),
        nodes=(name,),
        given={"ids": keys},
    )


def _table(view: GraphView, handle: str) -> Optional[Table]:
    op = view.op(handle)
    dtype, shape = view.attribute(handle, "value_dtype"), view.attribute(handle, "value_shape")
    if not op.startswith(_TABLES) or dtype is None or shape is None:
        return None
    row = tuple(int(dimension.size) for dimension in shape.shape.dim)
    return Table(handle, op, dtype.type, (None, *row), view.device(handle), is_resource=True)


def _feeds_model(view: GraphView, forward: ForwardPart, name: str) -> bool:
    """Whether the model computes with the variable to which the rows are assigned."""
    reads = [
        reader
        for use in view.uses(TensorRef(name, 0))
        if view.op(use.consumer) == "AssignVariableOp"
        for reader in view.control_uses(use.consumer)
        if view.op(reader) == "ReadVariableOp"
    ]
    for reader in reads:
        for following in view.readers(reader):
            op = view.op(following)
            if op in _PASS_ON:
                reads.append(following)
            elif not op.startswith(_TABLES) and op not in SHAPE_READERS:
                if forward.feeds_model(following):
                    return True
    return False
