"""Every set of op names that rules share, once."""

from __future__ import annotations

VARIABLES = frozenset(["VariableV2", "Variable", "VarHandleOp"])
# What gives a tensor, or a reference to it, to its reader as it is.
PASS_ON = frozenset(["Identity", "RefIdentity", "StopGradient", "PreventGradient", "EnsureShape"])
IDENTITIES = frozenset(["Identity", "EnsureShape"])
CONTROL_FLOW = frozenset(["Switch", "RefSwitch", "Enter", "RefEnter", "Merge", "RefMerge"])
INTO_CONTROL_FLOW = frozenset(["Switch", "RefSwitch", "Enter", "RefEnter"])
OUT_OF_CONTROL_FLOW = frozenset(["Merge", "RefMerge", "Exit", "RefExit"])

# Gathers of any tensor's rows; of a table's rows, by its value or its handle.
GATHERS = frozenset(["Gather", "GatherV2"])
ROW_GATHERS = GATHERS | {"ResourceGather"}
GATHERS_ND = frozenset(["GatherNd", "ResourceGatherNd"])
STITCHES = frozenset(["ParallelDynamicStitch", "DynamicStitch"])
UNIQUES = frozenset(["Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2"])
SELECTS = frozenset(["Select", "SelectV2"])

SEGMENT_REDUCTIONS = {
    "SparseSegmentSum": "sum",
    "SparseSegmentMean": "mean",
    "SparseSegmentSqrtN": "sqrtn",
}
"""Ops that combine rows, with the combiner that they are."""
COUNTED_SEGMENT_REDUCTIONS = {
    op + "WithNumSegments": combiner for op, combiner in SEGMENT_REDUCTIONS.items()
}
"""The same where the number of bags is given."""
COMBINERS = {**SEGMENT_REDUCTIONS, **COUNTED_SEGMENT_REDUCTIONS}

GROUP_LOOKUPS = frozenset(["GroupEmbeddingLookup", "ResourceGroupEmbeddingLookup"])
GROUP_GATHERS = frozenset(["GroupEmbeddingGather", "ResourceGroupEmbeddingGather"])
GROUP_PREPARE = "GroupEmbeddingPrepare"
GROUP_COMBINE = "GroupEmbeddingCombine"

# What reads single rows of a table: not all of it.
ROW_READERS = ROW_GATHERS | GATHERS_ND | frozenset(COMBINERS)
SHAPE_READERS = frozenset(["Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"])

# Where each op of a lookup takes the rows; a stitch takes them in the second half of its inputs.
ROW_INPUTS = {
    "Identity": 0,
    "EnsureShape": 0,
    "Reshape": 0,
    "Cast": 0,
    "Gather": 0,
    "GatherV2": 0,
    "Mul": 0,
    "SegmentSum": 0,
    "DivNoNan": 0,
    "RealDiv": 0,
    "Div": 0,
    "Select": 2,
    "SelectV2": 2,
    **{op: 0 for op in COMBINERS},
}
