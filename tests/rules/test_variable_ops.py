"""Every op that may take a variable is known, and what passes and sessions ask follows from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List

import pytest
from tensorflow.core.framework import op_def_pb2

from graph_opt.compat.c_functions import c_api
from graph_opt.compat.variable_ops import (
    CHANGES,
    KEEPS_ROWS,
    TAKES_GRADIENTS,
    TRAINS,
    VariableUse,
    is_use,
    takes_state,
    use_of,
)
from graph_opt.ops.library import load_library

SERVERS_PASS = Path(__file__).parents[2] / "ops_src/kernels/deferred/other_sessions_pass.cc"


def registered_ops() -> List[str]:
    """Names of all ops that this process knows, with graph_opt's."""
    load_library()
    buffer = c_api.TF_GetAllOpList()
    listed = op_def_pb2.OpList.FromString(c_api.TF_GetBuffer(buffer))
    return sorted(op.name for op in listed.op)


def test_every_op_that_takes_a_reference_or_a_handle_is_known() -> None:
    ops = registered_ops()
    assert len(ops) > 1000
    assert [op for op in ops if use_of(op) is None] == []


def test_every_op_that_is_named_takes_one() -> None:
    """But for collectives, which take variables as lists of any type."""
    named = [op for op in registered_ops() if use_of(op) is not VariableUse.NONE]
    assert {"Assign", "ResourceScatterNdUpdate", "GroupEmbeddingApplyPacked"} <= set(named)
    by_value = [op for op in named if not takes_state(op)]
    assert by_value == ["ExchangeChangedRows", "ExchangeGather"] + [
        op for op in by_value if op.startswith("GroupEmbedding")
    ]
    assert not any(is_use(op, CHANGES) for op in by_value)


@pytest.mark.parametrize(
    "op, use",
    [
        ("Assign", VariableUse.SETS),
        ("AssignSubVariableOp", VariableUse.ADDS),
        ("StridedSliceAssign", VariableUse.SETS_ROWS),
        ("ResourceScatterUpdate", VariableUse.SETS_ROWS),
        ("ScatterNdMax", VariableUse.CHANGES_ROWS),
        ("ResourceApplyAdamWithAmsgrad", VariableUse.TRAINS),
        ("SparseApplyFtrlV2", VariableUse.TRAINS_ROWS),
        ("GroupEmbeddingAverage", VariableUse.CATCHES_UP),
        ("RefSwitch", VariableUse.PASSES_ON),
        ("LookupTableInsertV2", VariableUse.NONE),
        ("MatMul", VariableUse.NONE),
    ],
)
def test_uses(op: str, use: VariableUse) -> None:
    assert use_of(op) is use


def test_accumulators_take_gradients_and_change_no_variable() -> None:
    for op in ("AccumulatorApplyGradient", "SparseAccumulatorApplyGradient"):
        assert is_use(op, TAKES_GRADIENTS)
        assert not is_use(op, TRAINS) and not is_use(op, CHANGES)


def test_the_graph_pass_of_servers_takes_no_other_ops_for_reads() -> None:
    source = SERVERS_PASS.read_text("utf-8")
    sets = dict(re.findall(r"const k(\w+) =\s+new std::set<std::string>{([^}]*)}", source))
    named = [
        op for name in ("Describe", "Read", "Gathers") for op in re.findall(r'"(\w+)"', sets[name])
    ]
    assert {"VariableShape", "ReadVariableOp", "ResourceGather"} <= set(named)
    assert [op for op in named if takes_state(op) and not is_use(op, KEEPS_ROWS)] == []
