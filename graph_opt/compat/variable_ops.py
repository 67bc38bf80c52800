"""What each op does with a variable that it takes by reference or by its handle.

Whoever asks whether a node reads, sets, updates or trains a variable asks this module. The registry
says which inputs may be variables, but not what becomes of them, so ops are told by their names; a
test compares the names with the registry.
"""

from __future__ import annotations

import enum
import functools
import re
from typing import FrozenSet, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import op_definition

_RESOURCE = tf.resource.as_datatype_enum


class VariableUse(enum.Enum):
    """What becomes of a variable."""

    PASSES_ON = "its reference is an output"
    ASKS = "asks for its shape, or whether it has a value"
    READS = "reads its whole value"
    READS_ROWS = "reads rows"
    SETS = "sets its whole value"
    ADDS = "adds to its whole value"
    COUNTS = "counts it up"
    SETS_ROWS = "sets rows, or another part"
    CHANGES_ROWS = "changes rows, or another part, by their own values"
    TRAINS = "applies a gradient as large as it is"
    TRAINS_ROWS = "applies a gradient of rows"
    ACCUMULATES = "adds a gradient to an accumulator, whose sum is applied to a variable"
    CATCHES_UP = "does to rows, or to averages of them, what updates have left to it"
    MAINTAINS = "changes which rows a dynamic table has, or all of them"
    ENDS = "deletes it"
    CALLS = "passes it to a function"
    NONE = "what it takes is no variable"


_U = VariableUse
_BY_NAME: Tuple[Tuple[VariableUse, str], ...] = (
    (_U.PASSES_ON, "(DebugGradient)?Ref(Identity|Switch|Enter|Exit|Merge|NextIteration|Select)"),
    (_U.ASKS, "IsVariableInitialized|VarIsInitializedOp|VariableShape|IsResourceHandleRefCounting"),
    (_U.ASKS, "DisableCopyOnRead|DynamicTable(IsInitialized|Metadata|Metrics|Size)"),
    (_U.READS, "ReadVariableOp|_ReadVariablesOp|ReadVariableXlaSplitND"),
    (_U.READS, "DynamicTable(Export|ExportFiltered|RowsSince|Save)"),
    (_U.READS_ROWS, "ResourceGather(Nd)?|(Resource)?Exchange(Gather|ChangedRows)"),
    (_U.READS_ROWS, "(Resource)?GroupEmbedding(Lookup|Gather|Refresh|WeightsGrad)"),
    (_U.READS_ROWS, "DynamicTableLookup(AndEvict)?|GroupDynamicRows|ResourceIntegerLookup"),
    (_U.SETS, "Assign|AssignVariableOp|AssignVariableXlaConcatND|TPUReshardVariables"),
    (_U.SETS, "HorovodBroadcastInplace(Resource)?"),
    (_U.ADDS, "Assign(Add|Sub)(VariableOp)?"),
    (_U.COUNTS, "(Resource)?CountUpTo"),
    (_U.SETS_ROWS, "(Resource)?(Scatter(Nd)?Update|StridedSliceAssign)"),
    (_U.CHANGES_ROWS, "(Resource)?Scatter(Nd)?(Add|Sub|Mul|Div|Min|Max)"),
    (_U.TRAINS, "(Resource)?Apply[A-Z].*|SdcaShrinkL1"),
    (_U.TRAINS_ROWS, "(Resource)?SparseApply[A-Z].*|NegTrain"),
    (_U.TRAINS_ROWS, "(Resource)?GroupEmbeddingApply(Packed)?|DynamicTableApply"),
    (_U.TRAINS_ROWS, "(Resource)?ExchangeApply"),
    (_U.ACCUMULATES, "(Resource|Sparse)?AccumulatorApplyGradient"),
    (_U.CATCHES_UP, "(Resource)?GroupEmbedding(Average|CatchUp(All|Packed|Exchanged|))"),
    (_U.MAINTAINS, "DynamicTable(Assign|Compact|EndEpoch|Erase|Evict|Import|ImportFiltered)"),
    (_U.MAINTAINS, "DynamicTable(Initialize|Restore|SetStep|SlotInitialize|TrackChanges)"),
    (_U.ENDS, "DestroyTemporaryVariable|DestroyResourceOp|DynamicTableDestroy"),
    (_U.CALLS, "_TPUReplicate|_XlaCompile|XlaLaunch"),
    (_U.NONE, "AnonymousRandomSeedGenerator|Delete[A-Z].*|MakeWeakResourceHandle|MutexLock"),
    (_U.NONE, "(Experimental)?(.*Iterator.*|.*Dataset.*|StatsAggregator.*)"),
    (_U.NONE, "(Queue|Reader|Barrier|Stack|TensorArray|LookupTable)[A-Z].*|InitializeTable.*"),
    (_U.NONE, "(Resource|Sparse|)Accumulator[A-Z].*|Collective[A-Z].*|Rpc[A-Z].*"),
    (_U.NONE, "(Is)?BoostedTrees[A-Z].*|Stateful[A-Z].*|Rng[A-Z].*"),
    (_U.NONE, "(Initialize|Serialize)TRTResource"),
    (_U.NONE, "(Write|Create|Close|Flush)[A-Za-z]*Summary.*|.*SummaryWriter|ImportEvent"),
    (_U.CHANGES_ROWS, "ScatterAddNdim"),
    # Of TensorFlow 1's forests and tables of Bigtable.
    (_U.NONE, "(TensorForest|Bigtable|FertileStats|Tree|FeatureUsage|GrowTree)[A-Z].*"),
    (_U.NONE, "(Finalize|Traverse)Tree(V4)?|Create(FertileStats|Tree)Variable|ObtainNext"),
    (_U.NONE, "(ProcessInput|UpdateModel)V4"),
    # Of TensorFlow's own tests.
    (_U.NONE, "RefIn|RefInput.*|TwoRefsIn|FakeQueue|Resource(Initialized|Create|Using)Op"),
)
_PATTERNS = tuple((use, re.compile("(?:" + names + r")\Z")) for use, names in _BY_NAME)

TRAINS = frozenset([_U.TRAINS, _U.TRAINS_ROWS])
"""Uses that apply gradients."""
TAKES_GRADIENTS = TRAINS | {_U.ACCUMULATES}
"""Uses that apply gradients, or hand them to what does."""
UPDATES = TRAINS | {_U.ADDS, _U.SETS_ROWS, _U.CHANGES_ROWS}
"""Uses of which updates of trained variables consist."""
CHANGES = UPDATES | {_U.SETS, _U.COUNTS}
"""Uses that give a variable other values."""
ACTS = CHANGES | {_U.ACCUMULATES}
"""Uses that must happen once in a step."""
OF_ROWS = frozenset([_U.READS_ROWS, _U.SETS_ROWS, _U.CHANGES_ROWS, _U.TRAINS_ROWS, _U.CATCHES_UP])
"""Uses of rows alone, or of another part."""
KEEPS_ROWS = frozenset([_U.READS, _U.READS_ROWS, _U.ASKS, _U.ENDS, _U.CATCHES_UP])
"""Uses after which a row, once it is read, has the values that it had before."""


@functools.lru_cache(maxsize=None)
def use_of(op: str) -> Optional[VariableUse]:
    """What an op does with the variables that it takes; None if that is not known.

    An op that takes neither a reference nor a handle has `VariableUse.NONE`.

    Example:
      >>> use_of("ResourceScatterUpdate")
      <VariableUse.SETS_ROWS: 'sets rows, or another part'>
    """
    for use, pattern in _PATTERNS:
        if pattern.match(op):
            return use
    return None if takes_state(op) else VariableUse.NONE


def is_use(op: str, uses: FrozenSet[VariableUse]) -> bool:
    """Whether an op is known to do one of these with a variable that it takes."""
    return use_of(op) in uses


def takes_state(op: str) -> bool:
    """Whether an op is known to take references or handles, of variables or of something else."""
    definition = op_definition(op)
    if definition is None:
        return False
    return any(arg.is_ref or arg.type == _RESOURCE for arg in definition.input_arg)
