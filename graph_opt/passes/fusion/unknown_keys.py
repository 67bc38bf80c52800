"""Lookups of dynamic tables that make no rows, for sessions that serve.

    before   keys, insert -> DynamicTableLookup     a key without a row gets one; keys are counted
    after    keys, false  -> DynamicTableLookup     such a key reads its table's default row

Requests then leave a table as the last training step or checkpoint did, whatever keys they have.
"""

from __future__ import annotations

import itertools
from typing import Any, Iterator, List, Tuple

import numpy as np

from graph_opt.config.options import SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import inputs_by_name
from graph_opt.graph.view import GraphView
from graph_opt.passes.node_writer import NodeWriter, free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.reporting.tables import counted
from graph_opt.rules.frozen_tables import trains_nothing
from graph_opt.rules.op_names import DYNAMIC_LOOKUP, DYNAMIC_ROWS, GROUP_PREPARE

_SCOPE = "unknown_keys"
_INSERT = "insert"
_INSERTING = (DYNAMIC_LOOKUP, DYNAMIC_LOOKUP + "AndEvict", DYNAMIC_ROWS, GROUP_PREPARE)
_CHANGE = "{} of dynamic tables made to read default rows for unknown keys, and to count none"


def read_unknown_keys(state: PassState, options: SessionOptions) -> PassState:
    """Has lookups make no rows where `fuse_inference` is set and nothing is trained."""
    wanted = options.group_embedding
    if wanted is None or not wanted.fuse_inference:
        return state
    view = state.view
    if not (options.evaluates or trains_nothing(view)):
        return state
    inserts = list(_inserts(view))
    if not inserts:
        return state
    scope, edits = free_scope(view, _SCOPE), Edits(view)
    nodes: List[Any] = []
    for number, device in enumerate(sorted({view.device(name) for name, _ in inserts})):
        writer = NodeWriter(view, "{}/{}".format(scope, number), device)
        never = writer.constant("insert", np.bool_(False))
        nodes += writer.nodes
        for name, slot in inserts:
            if view.device(name) == device:
                edits.move_input(name, slot, never)
    lookups = len({name for name, _ in inserts})
    rewritten = state.rewritten(edits.rewrite(nodes))
    return rewritten.reporting(_CHANGE.format(counted(lookups, "lookup")))


def _inserts(view: GraphView) -> Iterator[Tuple[str, int]]:
    """The inputs that say whether keys get rows, except where they say no."""
    for name in view.of_op(*_INSERTING):
        arguments = list(inputs_by_name(view, name).items())
        before = itertools.takewhile(lambda one: one[0] != _INSERT, arguments)
        first = sum(len(tensors) for _, tensors in before)
        for slot, tensor in enumerate(dict(arguments)[_INSERT], first):
            value = view.constant(tensor)
            if value is None or bool(value):
                yield name, slot
