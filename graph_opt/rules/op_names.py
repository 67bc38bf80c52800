"""The sets of op names that several modules of this room need."""

from __future__ import annotations

VARIABLES = frozenset(["VariableV2", "Variable", "VarHandleOp"])
# What sets a variable's whole value from one tensor; ALL_ASSIGNS also from one for each part of it.
ASSIGNS = frozenset(["Assign", "AssignVariableOp"])
ALL_ASSIGNS = ASSIGNS | {"AssignVariableXlaConcatND"}
# Ops that pass a value on unchanged; PASS_ON also those that pass on a reference.
PASS_VALUES_ON = ("Identity", "StopGradient", "PreventGradient", "EnsureShape")
PASS_ON = frozenset([*PASS_VALUES_ON, "RefIdentity"])
# What has a whole variable's value, or passes it or its reference on.
WHOLE_READS = PASS_ON | {"ReadVariableOp"}
IDENTITIES = frozenset(["Identity", "EnsureShape"])

# GATHERS read rows of any tensor; ROW_GATHERS also read rows of a table through its handle.
GATHERS = frozenset(["Gather", "GatherV2"])
DYNAMIC_LOOKUP = "DynamicTableLookup"
ROW_GATHERS = GATHERS | {"ResourceGather", DYNAMIC_LOOKUP}
GATHERS_ND = frozenset(["GatherNd", "ResourceGatherNd"])
STITCHES = frozenset(["ParallelDynamicStitch", "DynamicStitch"])
UNIQUES = frozenset(["Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2"])
ADDS = ("Add", "AddV2")
SELECTS = frozenset(["Select", "SelectV2"])

SEGMENT_REDUCTIONS = {
    "SparseSegmentSum": "sum",
    "SparseSegmentMean": "mean",
    "SparseSegmentSqrtN": "sqrtn",
}
"""Ops that combine rows, with the combiner that each implements."""
COUNTED_SEGMENT_REDUCTIONS = {
    op + "WithNumSegments": combiner for op, combiner in SEGMENT_REDUCTIONS.items()
}
"""The same ops with an explicit number of bags."""
COMBINERS = {**SEGMENT_REDUCTIONS, **COUNTED_SEGMENT_REDUCTIONS}

GROUP_LOOKUPS = frozenset(["GroupEmbeddingLookup", "ResourceGroupEmbeddingLookup"])
# The tables of a served graph, mapped from files: an output for each.
SERVED_TABLES = "ServedTables"
REFRESH_COUNTS = "GroupEmbeddingRefreshCounts"
GROUP_GATHERS = frozenset(["GroupEmbeddingGather", "ResourceGroupEmbeddingGather"])
GROUP_PREPARE = "GroupEmbeddingPrepare"
GROUP_COMBINE = "GroupEmbeddingCombine"
GROUP_PACK = "GroupEmbeddingPackGradients"
# What notes the rows that a staged batch is sent, says whether they are current when a step takes
# it, and keeps their new values for it.
STAGE_SERVED = "StageServedRows"
TAKE_SERVED = "TakeServedRows"
KEEP_SERVED = "KeepServedRows"
NEXT_SERVED = "NextServedBatch"
KEEP_BATCH = "KeepServedBatch"
# The rows that keys of dynamic tables have, for the other ops of a group.
DYNAMIC_ROWS = "GroupDynamicRows"
DYNAMIC_UPDATE = "DynamicTableApply"
# Whatever reads or writes a dynamic table through the handle of a variable.
_OF_DYNAMIC_TABLES = ("DynamicTable", "GroupDynamic")
# What our own optimizers call, which leaves nothing to fuse.
OWN_UPDATES = frozenset(["GroupEmbeddingApply", "ResourceGroupEmbeddingApply"])
PACKED_UPDATES = frozenset(["GroupEmbeddingApplyPacked", "ResourceGroupEmbeddingApplyPacked"])
EXCHANGE_GATHERS = frozenset(["ExchangeGather", "ResourceExchangeGather"])
# What updates tables from what ranks send each other.
EXCHANGE_UPDATES = frozenset(["ExchangeApply", "ResourceExchangeApply"])
LOCAL_UPDATES = OWN_UPDATES | EXCHANGE_UPDATES
"""Ops that update tables in their own process."""
EXCHANGE_COMBINE = "ExchangeCombine"
EXCHANGE_WEIGHTS_GRAD = "ExchangeCombineWeightsGrad"
GROUP_READERS = {
    **dict.fromkeys(GROUP_LOOKUPS, ""),
    **dict.fromkeys(GROUP_GATHERS, "Packed"),
    **dict.fromkeys(EXCHANGE_GATHERS, "Exchanged"),
}
"""Ops that read rows of several tables, their argument `tables`, and the end of the name of the op
that catches up these rows: `GroupEmbeddingCatchUp{}`."""
# What carries the messages of an exchange.
ALL_TO_ALL = "ExchangeAllToAll"

# Ops that read individual rows of a table rather than all of it.
ROW_READERS = ROW_GATHERS | GATHERS_ND | frozenset(COMBINERS)
SHAPE_READERS = frozenset(["Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"])


def is_collective(op: str) -> bool:
    """Whether an op sends something to other ranks, or is another one of Horovod's."""
    return op.startswith(("Horovod", ALL_TO_ALL))


def is_of_dynamic_table(op: str) -> bool:
    """Whether an op takes a variable's handle for that of a dynamic table."""
    return op.startswith(_OF_DYNAMIC_TABLES)


# The input of each op of a lookup that takes the rows; stitches take them in the second half of
# their inputs.
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
