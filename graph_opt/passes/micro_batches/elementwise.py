"""Ops that compute each element, or each row, from the same place of their inputs."""

from __future__ import annotations

from typing import Callable, Dict, FrozenSet, List

from graph_opt.passes.micro_batches.call import Call, forward
from graph_opt.passes.micro_batches.values import Value

Rule = Callable[[Call], List[Value]]

ELEMENTWISE: FrozenSet[str] = frozenset(
    """Abs Acos Acosh Add AddN AddV2 ApproximateEqual AsString Asin Asinh Atan Atan2 Atanh
    BitwiseAnd BitwiseOr BitwiseXor Cast Ceil CheckNumerics ClipByValue Cos Cosh Digamma Div
    DivNoNan Elu EluGrad EnsureShape Equal Erf Erfc Erfinv Exp Expm1 FloorDiv FloorMod Floor Greater
    GreaterEqual Identity Inv InvGrad Invert IsFinite IsInf IsNan LeakyRelu LeakyReluGrad Less
    LessEqual Lgamma Log Log1p LogicalAnd LogicalNot LogicalOr Maximum Minimum Mod Mul MulNoNan Neg
    NextAfter NotEqual OnesLike Pow PreventGradient RealDiv Reciprocal ReciprocalGrad Relu Relu6
    Relu6Grad ReluGrad Rint Round Rsqrt RsqrtGrad SelectV2 Selu SeluGrad Sigmoid SigmoidGrad Sign
    Sin Sinh Snapshot Softplus SoftplusGrad Softsign SoftsignGrad Sqrt SqrtGrad Square
    SquaredDifference StopGradient StringToHashBucket StringToHashBucketFast
    StringToHashBucketStrong StringToNumber Sub Tan Tanh TanhGrad TruncateDiv TruncateMod Xdivy
    Xlogy ZerosLike""".split()
)
# The last axis is computed as a whole.
_OF_VECTORS = frozenset(["Softmax", "LogSoftmax"])
# The gradient of a reduction of the batch reads only this much of what it reduced.
_LINEAR = frozenset(
    ["Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics", "Neg"]
    + ["EnsureShape"]
)
_SUMS = frozenset(["Add", "AddV2", "AddN", "Sub"])


def elementwise(call: Call) -> List[Value]:
    """Any number of inputs, broadcast to each other."""
    slots = range(len(call.values))
    if any(call.total(slot) for slot in slots):
        return of_totals(call)
    rank = max(call.rank(slot) for slot in slots)
    return [Value(rows=forward(call.align(slots), rank))]


def of_totals(call: Call) -> List[Value]:
    """What is linear in sums over the batch is such a sum."""
    totals = [slot for slot in range(len(call.values)) if call.total(slot)]
    others = [slot for slot in range(len(call.values)) if slot not in totals]
    linear = call.op in _LINEAR or (call.op in _SUMS and not others)
    if call.op == "Mul" or (call.op in ("RealDiv", "DivNoNan") and totals == [0]):
        linear = len(totals) == 1
        call.require_shared(others)
    if not linear and not _keeps_sums(call):
        raise call.refusal("{} of a sum over the batch".format(call.op))
    return [Value(total=True)]


def _keeps_sums(call: Call) -> bool:
    """Whether this is a Cast that cuts nothing off."""
    if call.op != "Cast":
        return False
    source, target = call.dtype(0), call.result_dtype
    return target.is_floating or (source.is_integer and target.is_integer)


def of_vectors(call: Call) -> List[Value]:
    """The last axis is that of a distribution."""
    rows = call.rows_along(0)
    if rows.axis == call.rank(0) - 1:
        raise call.refusal("{} over the rows of the batch".format(call.op))
    return [Value(rows=rows)]


def cross_entropy(call: Call) -> List[Value]:
    """Logits [rows, classes], labels of the same shape or [rows]; two results."""
    for slot in (0, 1):
        if call.rows(slot) is None:
            call.divide(slot, call.rows_along(1 - slot))
    logits, labels = call.rows_along(0), call.rows_along(1)
    if logits.axis or labels.axis or not logits.alike(labels):
        raise call.refusal("rows along different axes")
    return [Value(rows=logits), Value(rows=logits)]


def select(call: Call) -> List[Value]:
    """Of the same shape all, or with a condition for each row."""
    if call.rank(0) == call.rank(1):
        return elementwise(call)
    values = call.align([1, 2])
    rows = forward(values, call.rank(1))
    condition = call.rows(0)
    if condition is None and call.rank(0) == 0:
        call.share(0)
        return [Value(rows=rows)]
    if condition is None or rows.axis or not condition.alike(rows):
        raise call.refusal("a condition with other rows")
    return [Value(rows=rows)]


def one_hot(call: Call) -> List[Value]:
    """A new axis, the last one by default."""
    call.require_shared([1, 2, 3])
    rows, rank = call.rows_along(0), call.rank(0)
    axis = call.integer("axis", -1)
    axis = rank if axis == -1 else axis
    return [Value(rows=rows._replace(axis=rows.axis + (axis <= rows.axis)))]


def top(call: Call) -> List[Value]:
    """The largest elements of the last axis, and where they are."""
    call.require_shared([1])
    return of_vectors(call) * 2


def in_top(call: Call) -> List[Value]:
    """Predictions [rows, classes] and targets [rows]."""
    call.require_shared(range(2, len(call.values)))
    predictions, targets = call.rows_along(0), call.rows_along(1)
    if predictions.axis or targets.axis or not predictions.alike(targets):
        raise call.refusal("targets with other rows")
    return [Value(rows=predictions)]


def cumulative(call: Call) -> List[Value]:
    """Sums or products along an axis."""
    rows = call.rows_along(0)
    if call.axis(1, call.rank(0)) == rows.axis:
        raise call.refusal("{} over the rows of the batch".format(call.op))
    call.share(1)
    return [Value(rows=rows)]


RULES: Dict[str, Rule] = {
    **{op: elementwise for op in ELEMENTWISE},
    **{op: of_vectors for op in _OF_VECTORS},
    "SoftmaxCrossEntropyWithLogits": cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": cross_entropy,
    "Select": select,
    "OneHot": one_hot,
    "TopKV2": top,
    "InTopK": in_top,
    "InTopKV2": in_top,
    "Cumsum": cumulative,
    "Cumprod": cumulative,
}
